"""Two levels of landmarks: each is compared with some global and some near ones.

Shared landmarks are far from most objects, so near pairs would be guessed from far ones. Here there
are many landmarks, fitted from pairs with global ones, with others drawn anew, and with the
nearest: nothing of size L × L or n × L is made.
"""

from __future__ import annotations

from dataclasses import replace
from math import isqrt
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from neucmds.backend.arrays import (
    Array,
    asarray_like,
    index_like,
    is_dask,
    namespace,
    on_cpu,
    to_numpy,
)
from neucmds.errors import InputError, option
from neucmds.large.choice import DEFAULT_LANDMARKS
from neucmds.large.listed import fit_pairs
from neucmds.large.placing import FIRST, LandmarkFit
from neucmds.options import (
    MOST_PATHS,
    PRECOMPUTED,
    SHORTEST_PATH,
    Options,
    notify,
)
from neucmds.place.rules import LossPlacement
from neucmds.problem.components import GOALS
from neucmds.problem.pairs import Pairs
from neucmds.problem.validation import check_count
from neucmds.refine.descent import Configuration

Indices = npt.NDArray[np.intp]
Floats = npt.NDArray[np.float64]

# Global landmarks of an object, for each coordinate; a part of at least twice as many.
GLOBAL = 6
# Near landmarks of an object, for each coordinate.
NEAR = 3
# Landmarks, at least.
FEWEST = 3000
# Landmarks, as a share of all objects.
SHARE = 0.02
# Landmarks, at most, where no searches find the near ones. Of a user's function up to so many
# objects are all landmarks: a last descent moves them together.
MOST = 20_000
# Iterations of a fit that is to tell which landmarks are near; and of many landmarks of a graph
# twice as many: nodes are placed hardly better after more.
BRIEF = 30


def least_landmarks(k: int) -> int:
    """Landmarks that two levels of k coordinates should have."""
    return 4 * (GLOBAL + NEAR) * k


def default_count(n: int, k: int, options: Options) -> int:
    """Landmarks of n objects, where their number is not given."""
    share = round(SHARE * n)
    if options.metric != SHORTEST_PATH:
        share = min(share, MOST)
    fewest = FEWEST
    if callable(getattr(options.metric, "metric", None)):
        fewest = MOST
    return min(n, max(fewest, share, least_landmarks(k)))


def draw_global(
    n: int, n_landmarks: int, n_near: int, k: int, options: Options
) -> Indices:
    """Draw the global landmarks: twice as many as an object has.

    Where they are compared with each other, up to 10 pairs per object: with 1,400 instead of 200
    random pairs of 20,000 rows were wrong by 5.7 % instead of 8.0 %.
    """
    count = 2 * GLOBAL * k
    if n_landmarks < count + n_near:
        raise InputError(
            f"two levels ({option('n_near', n_near)}) of {k} coordinates need at least "
            f"{count + n_near} landmarks, not {n_landmarks}; leave {option('n_near')} "
            "out, or have more landmarks."
        )
    if (
        options.init is not None
        and int(options.init.coordinates.shape[0]) != n_landmarks
    ):
        raise InputError(
            f"{option('init')} has coordinates of {int(options.init.coordinates.shape[0])} "
            f"objects; pass those of all {n}, or of the {n_landmarks} landmarks."
        )
    if options.metric != SHORTEST_PATH:
        most = min(2 * DEFAULT_LANDMARKS, isqrt(20 * n))
        count = max(count, min(most, n_landmarks // 2))
    drawn: Indices = options.random_state.permutation(n_landmarks)[
        :count
    ].astype(np.intp)
    return drawn


def check_two_levels(
    X: Any, options: Options, n_near: int | None, placement: str
) -> None:
    """Refuse what two levels do not go with."""
    two = f"two levels ({option('n_near', n_near)})"
    if n_near is not None:
        check_count(n_near=n_near)
    if options.method != "refined" or isinstance(options.n_components, GOALS):
        raise InputError(
            f"{two} need {option('method', 'refined')} and a number of coordinates."
        )
    if placement != "auto":
        raise InputError(
            f"{two} place objects by the loss; leave {option('placement')} out."
        )
    if options.metric != PRECOMPUTED:
        return
    if is_dask(X):
        raise InputError(
            f"{two} take D in memory, or features of dask with a metric."
        )
    if X.shape[0] != X.shape[1]:
        raise InputError(
            f"X is {X.shape[0]} × {X.shape[1]}, but {two} take all columns of D; leave "
            f"{option('n_near')} out, or pass metric= if X holds features."
        )


def fit_rows(
    fit: LandmarkFit, rows: Array, at: Indices, options: Options
) -> LandmarkFit:
    """Embed all landmarks, rows `at` some numbers; of `fit` the global ones are embedded."""
    everyone = np.arange(fit.width)

    def with_pairs(pairs: Pairs, i: Indices, j: Indices) -> Pairs:
        i, j = _new_pairs(pairs, i, j)
        if i.size == 0:  # all are known
            return pairs
        ends, starts = np.unique(i, return_index=True)
        ids = np.split(j, starts[1:])
        squares = fit.listed_squares(rows, ids, fit.landmarks[ends], at[ends])
        return _join_pairs(fit.width, i, j, to_numpy(squares), pairs)

    others = np.setdiff1d(everyone, fit.sources)
    far = fit.global_landmarks(others)[:, : round(FIRST * fit.n_global)]
    squares = fit.listed_squares(
        rows, list(far), fit.landmarks[others], at[others]
    )
    squares = np.reshape(to_numpy(squares), far.shape)
    fit = _start_others(fit, others, far, squares)
    pairs = _join_pairs(
        fit.width, others.repeat(far.shape[1]), far.ravel(), squares.ravel()
    )
    rng = check_random_state(options.random_state)
    # So that D̂ of two landmarks is held.
    n_drawn = fit.n_global // GLOBAL
    drawn = rng.randint(fit.width, size=fit.width * n_drawn)
    pairs = with_pairs(pairs, everyone.repeat(n_drawn), drawn)
    # The first fit only finds the near landmarks.
    for max_iter in (min(BRIEF, options.max_iter or BRIEF), options.max_iter):
        x = to_numpy(fit.embedding.coordinates)
        near = fit.near_landmarks(x, everyone[:, None], fit.n_near)
        pairs = with_pairs(pairs, everyone.repeat(fit.n_near), near.ravel())
        fit = _fit_from(fit, pairs, replace(options, max_iter=max_iter), rows)
    return fit


def fit_nodes(fit: LandmarkFit, options: Options) -> LandmarkFit:
    """Embed all landmarks of a graph, from paths to global ones and to those found near."""
    nodes = fit.nodes
    assert nodes is not None
    # Landmarks are compared with all global ones: the searches found these lengths anyway.
    far = np.tile(fit.sources, (fit.width, 1))
    ids = np.concatenate([far, nodes.near[fit.landmarks]], axis=1)
    lengths = [nodes.paths[:, fit.landmarks].T, nodes.lengths[fit.landmarks]]
    squares = np.concatenate(lengths, axis=1).astype(np.float64) ** 2
    others = np.setdiff1d(np.arange(fit.width), fit.sources)
    global_squares = asarray_like(
        squares[others, : fit.sources.size], nodes.like, np.float64
    )
    fit = _start_others(fit, others, far[others], global_squares)
    i, j = np.nonzero(np.isfinite(squares))
    pairs = _join_pairs(fit.width, i, ids[i, j], squares[i, j])
    many = fit.width > MOST_PATHS
    if many and options.max_iter is None:
        options = replace(options, max_iter=2 * BRIEF)
    fit = _fit_from(fit, pairs, options, nodes.like)
    info = replace(
        fit.embedding.info, converged=fit.embedding.info.converged or many
    )
    return replace(fit, embedding=replace(fit.embedding, info=info))


def _start_others(
    fit: LandmarkFit, others: Indices, far: Indices, squares: Array
) -> LandmarkFit:
    """Place other landmarks among the global ones, which alone are embedded."""
    embedding = fit.embedding
    if not embedding.k:
        raise InputError(
            f"all {embedding.n} global landmarks are in one place; have more landmarks."
        )
    rule = fit.rule
    assert isinstance(rule, LossPlacement)
    x = np.zeros((fit.width, embedding.k))
    x[fit.sources] = to_numpy(embedding.coordinates)
    rule = LossPlacement(x, embedding.form.in_numpy(), rule.loss)
    own = index_like(far, squares)
    x[others] = to_numpy(rule.place(squares, own=own))
    return replace(
        fit, embedding=replace(embedding, coordinates=x, placement=rule)
    )


def _fit_from(
    fit: LandmarkFit, pairs: Pairs, options: Options, like: Array
) -> LandmarkFit:
    """Descend on pairs of landmarks from where they are, on the device of an array."""
    embedding = fit.embedding
    notify(options.callback, f"embedding {fit.width} landmarks")
    x = to_numpy(embedding.coordinates)
    if not on_cpu(like):
        x = asarray_like(x, like, namespace(like).float64)
    start = Configuration(x, embedding.form.in_numpy())
    fitted = fit_pairs(pairs, start, options, falling=True)
    x = to_numpy(fitted.coordinates)
    form = fitted.form.in_numpy()
    assert isinstance(fitted.placement, LossPlacement)
    rule = LossPlacement(x, form, fitted.placement.loss)
    fitted = replace(fitted, coordinates=x, form=form, placement=rule)
    fitted = replace(fitted, missing="ignore", labels=embedding.labels)
    return replace(fit, embedding=fitted)


def _join_pairs(
    n: int, i: Indices, j: Indices, squares: Floats, known: Pairs | None = None
) -> Pairs:
    """Return pairs of landmarks, each once, with others that are there already."""
    low = np.minimum(i, j)
    high = np.maximum(i, j)
    if known is not None:
        low = np.concatenate([known.i, low])
        high = np.concatenate([known.j, high])
        squares = np.concatenate([known.sq_dissimilarity, squares])
    key, first = np.unique(low * n + high, return_index=True)
    first = first[key // n != key % n]
    return Pairs(n, low[first], high[first], squares[first])


def _new_pairs(
    known: Pairs, i: Indices, j: Indices
) -> tuple[Indices, Indices]:
    """Return pairs of two objects that are not known yet, each once, in ascending order."""
    low = np.minimum(i, j)
    high = np.maximum(i, j)
    key = np.unique(low[i != j] * known.n + high[i != j])
    key = np.setdiff1d(key, known.i * known.n + known.j, assume_unique=True)
    return key // known.n, key % known.n
