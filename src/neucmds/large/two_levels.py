"""Two levels of landmarks: global ones are far from most objects, near ones are close to each.

If all objects were compared with the same landmarks, the distances of near pairs would be guessed
from far ones. So there are many landmarks, and a landmark is compared with some global ones, with
some drawn at random, and with those nearest to it: no array of shape (L, L) or (n, L) is made.

Landmarks are known by their numbers among all landmarks here, 0 … L − 1. `fit.sources` are those of
the global ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isqrt
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from neucmds.backend.arrays import (
    Array,
    Floats,
    Indices,
    Marks,
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
from neucmds.large.placing import FIRST_SHARE, LandmarkFit
from neucmds.options import (
    MOST_PATHS,
    PRECOMPUTED,
    SHORTEST_PATH,
    Options,
    notify,
)
from neucmds.place.rules import LossPlacement
from neucmds.problem.components import GOALS
from neucmds.problem.graph import Graph, shortest_path_rows
from neucmds.problem.pairs import Pairs, pair_keys
from neucmds.problem.sampled_pairs import (
    CHECKED,
    PARTNERS,
    Check,
    flat_checks,
)
from neucmds.problem.validation import check_count
from neucmds.refine.descent import Configuration

# Global landmarks that an object is compared with, per coordinate. `draw_global` draws at least
# twice as many.
GLOBAL_PER_COORDINATE = 6
# Near landmarks that an object is compared with, per coordinate.
NEAR_PER_COORDINATE = 3
# Number of landmarks: at least this many,
FEWEST_LANDMARKS = 3000
# or this share of all objects,
LANDMARK_SHARE = 0.02
# but at most this many, except in a graph, where searches find the near landmarks. With a user's
# function there are this many, or all objects, because a descent moves landmarks together.
MOST_LANDMARKS = 20_000
# Iterations of a fit that only has to tell which landmarks are near. A fit of many landmarks of a
# graph takes twice as many: more hardly improve where nodes are placed.
BRIEF_ITERATIONS = 30


def least_landmarks(k: int) -> int:
    """Return how many landmarks two levels should have: four times those of one object."""
    return 4 * (GLOBAL_PER_COORDINATE + NEAR_PER_COORDINATE) * k


def default_count(n: int, k: int, options: Options) -> int:
    """Return the number of landmarks of n objects, where the user gives none."""
    share = round(LANDMARK_SHARE * n)
    is_user_function = callable(getattr(options.metric, "metric", None))
    if is_user_function:
        share = MOST_LANDMARKS
    elif options.metric != SHORTEST_PATH:
        share = min(share, MOST_LANDMARKS)
    return min(n, max(FEWEST_LANDMARKS, share, least_landmarks(k)))


def draw_global(
    n: int, n_landmarks: int, n_near: int, k: int, options: Options
) -> Indices:
    """Draw the global landmarks, as numbers among all landmarks.

    There are twice as many as one object is compared with. Outside of graphs there are more, up to
    the number G at which comparing them with each other, G²/2 pairs, takes 10 pairs per object:
    with G = 1,400 instead of 200, random pairs of 20,000 rows were wrong by 5.7 % instead of 8.0 %.
    """
    count = 2 * GLOBAL_PER_COORDINATE * k
    if n_landmarks < count + n_near:
        raise InputError(
            f"two levels ({option('n_near', n_near)}) of {k} coordinates need at least "
            f"{count + n_near} landmarks, not {n_landmarks}; leave {option('n_near')} "
            "out, or have more landmarks."
        )
    if (
        options.init is not None
        and options.init.coordinates.shape[0] != n_landmarks
    ):
        raise InputError(
            f"{option('init')} has coordinates of {options.init.coordinates.shape[0]} "
            f"objects; pass those of all {n}, or of the {n_landmarks} landmarks."
        )
    if options.metric != SHORTEST_PATH:
        most = min(2 * DEFAULT_LANDMARKS, isqrt(20 * n))
        count = max(count, min(most, n_landmarks // 2))
    order: Indices = options.random_state.permutation(n_landmarks)
    return order[:count].astype(np.intp)


def check_two_levels(
    X: Any, options: Options, n_near: int | None, placement: str
) -> None:
    """Refuse what two levels do not go with."""
    what = f"two levels ({option('n_near', n_near)})"
    if n_near is not None:
        check_count(n_near=n_near)
    if options.method != "refined" or isinstance(options.n_components, GOALS):
        raise InputError(
            f"{what} need {option('method', 'refined')} and a number of coordinates."
        )
    if placement != "auto":
        raise InputError(
            f"{what} place objects by the loss; leave {option('placement')} out."
        )
    if options.metric != PRECOMPUTED:
        return
    if is_dask(X):
        raise InputError(
            f"{what} take D in memory, or features of dask with a metric."
        )
    if X.shape[0] != X.shape[1]:
        raise InputError(
            f"X is {X.shape[0]} × {X.shape[1]}, but {what} take all columns of D; leave "
            f"{option('n_near')} out, or pass metric= if X holds features."
        )


def fit_rows(
    global_fit: LandmarkFit, rows: Array, row_of: Indices, options: Options
) -> LandmarkFit:
    """Return the fit with all landmarks embedded, from features or dissimilarities.

    Parameters
    ----------
    global_fit : LandmarkFit
        Its global landmarks are embedded.
    rows : array
        What the landmarks are compared by; landmark a is row ``row_of[a]``.
    """
    width = global_fit.width
    all_landmarks = np.arange(width)

    def squares_of(ids: Indices, partners: Sequence[Indices]) -> Floats:
        """Return D of each of the landmarks `ids` with its own `partners`, all in one vector."""
        squares = global_fit.listed_squares(
            rows, partners, global_fit.landmarks[ids], row_of[ids]
        )
        return to_numpy(squares)

    def with_pairs(old: Pairs, i: Indices, j: Indices) -> Pairs:
        """Return old pairs and those of the landmarks i and j, which are compared if new."""
        i, j = _new_pairs(old, i, j)
        if i.size == 0:
            return old
        # i ascends, and the partners of one landmark stand together.
        ids, starts = np.unique(i, return_index=True)
        squares = squares_of(ids, np.split(j, starts[1:]))
        return _join_pairs(width, i, j, squares, old)

    # Landmarks that are not global start from some global ones each.
    others = np.setdiff1d(all_landmarks, global_fit.sources)
    n_first = round(FIRST_SHARE * global_fit.n_global)
    far = global_fit.global_landmarks(others)[:, :n_first]
    squares = squares_of(others, list(far))
    fit = _start_others(
        global_fit, others, far, np.reshape(squares, far.shape)
    )
    pairs = _join_pairs(width, others.repeat(n_first), far.ravel(), squares)
    rng = check_random_state(options.random_state)
    # Without pairs of random landmarks, D̂ between two landmarks that are neither global nor near
    # would be free. One is drawn per coordinate.
    n_drawn = fit.n_global // GLOBAL_PER_COORDINATE
    random_i = all_landmarks.repeat(n_drawn)
    random_j = rng.randint(width, size=random_i.size)
    pairs = with_pairs(pairs, random_i, random_j)
    # To measure the fit, random landmarks are compared with random other ones: a twelfth as many
    # pairs, of which those that are fitted as well do not count.
    n_checked = min(CHECKED, max(1, pairs.size // (12 * PARTNERS)))
    ids = rng.permutation(width)[:n_checked]
    steps = rng.randint(1, width, size=(ids.size, PARTNERS))
    partners = (ids[:, None] + steps) % width
    squares = squares_of(ids, list(partners))
    squares_of_rows = np.reshape(squares, partners.shape)
    checks = list(zip(ids.tolist(), partners, squares_of_rows, strict=True))
    # A brief fit only finds out which landmarks are near; the second goes on to the end.
    brief = min(BRIEF_ITERATIONS, options.max_iter or BRIEF_ITERATIONS)
    for max_iter in (brief, options.max_iter):
        x = to_numpy(fit.embedding.coordinates)
        near = fit.near_landmarks(x, all_landmarks[:, None], fit.n_near)
        pairs = with_pairs(
            pairs, all_landmarks.repeat(fit.n_near), near.ravel()
        )
        stage_options = replace(options, max_iter=max_iter)
        fit = _fit_from(fit, pairs, stage_options, rows, checks)
    # Held-out pairs are random; of the fitted ones those drawn at random are like them.
    is_random = np.isin(pairs.keys, pair_keys(width, random_i, random_j))
    return _with_overfit_ratio(fit, pairs, is_random, checks)


def _with_overfit_ratio(
    fit: LandmarkFit,
    pairs: Pairs,
    is_random: Marks,
    checks: list[Check],
) -> LandmarkFit:
    """Return the fit with the ratio of the mean loss of held-out pairs to that of random ones.

    Pairs of `checks` that are fitted are not held out.
    """
    i, j, squares = flat_checks(checks)
    is_new = ~np.isin(pair_keys(fit.width, i, j), pairs.keys)
    if not is_new.any():
        return fit
    held_out_loss = _mean_loss(fit, i[is_new], j[is_new], squares[is_new])
    fitted_loss = _mean_loss(
        fit,
        pairs.i[is_random],
        pairs.j[is_random],
        pairs.sq_dissimilarity[is_random],
    )
    info = replace(
        fit.embedding.info,
        overfit_ratio=held_out_loss / (fitted_loss or 1.0),
    )
    return replace(fit, embedding=replace(fit.embedding, info=info))


def _mean_loss(
    fit: LandmarkFit, i: Indices, j: Indices, squares: Floats
) -> float:
    """Return the mean loss of pairs of landmarks, at their coordinates."""
    rule = fit.rule
    assert isinstance(rule, LossPlacement)
    sq_hat = rule.form.paired_sq(rule.coordinates[i], rule.coordinates[j])
    loss = rule.loss.value(rule.form, rule.form.to_sq(squares), sq_hat)
    return float(loss / max(1, squares.size))


def fit_nodes(
    fit: LandmarkFit, graph: Graph, options: Options, n_jobs: int | None
) -> LandmarkFit:
    """Return the fit with all landmarks of a graph embedded, from the lengths of paths searched.

    The fit is measured on held-out paths: from some of the landmarks that are not global, to all
    landmarks that these were not compared with.
    """
    nodes = fit.nodes
    assert nodes is not None
    # Landmarks are compared with all global ones: the searches found these lengths anyway.
    far = np.tile(fit.sources, (fit.width, 1))
    partners = np.concatenate([far, nodes.near[fit.landmarks]], axis=1)
    lengths = [
        nodes.from_sources[:, fit.landmarks].T,
        nodes.near_lengths[fit.landmarks],
    ]
    squares = np.concatenate(lengths, axis=1).astype(np.float64) ** 2
    others = np.setdiff1d(np.arange(fit.width), fit.sources)
    global_squares = asarray_like(
        squares[others, : fit.sources.size],
        nodes.like,
        namespace(nodes.like).float64,
    )
    fit = _start_others(fit, others, far[others], global_squares)
    i, column = np.nonzero(np.isfinite(squares))
    pairs = _join_pairs(fit.width, i, partners[i, column], squares[i, column])
    is_large = fit.width > MOST_PATHS
    if is_large and options.max_iter is None:
        options = replace(options, max_iter=2 * BRIEF_ITERATIONS)
    checks = _checked_paths(fit, graph, pairs, others, options, n_jobs)
    fit = _fit_from(fit, pairs, options, nodes.like, checks)
    if checks:
        # Held-out pairs are random, like those of landmarks with global ones.
        of_global = np.isin(pairs.i, fit.sources)
        of_global |= np.isin(pairs.j, fit.sources)
        fit = _with_overfit_ratio(fit, pairs, of_global, checks)
    # Many landmarks stop early on purpose, without a warning.
    info = replace(
        fit.embedding.info, converged=fit.embedding.info.converged or is_large
    )
    return replace(fit, embedding=replace(fit.embedding, info=info))


def _checked_paths(
    fit: LandmarkFit,
    graph: Graph,
    pairs: Pairs,
    others: Indices,
    options: Options,
    n_jobs: int | None,
) -> list[Check]:
    """Return held-out pairs: paths from some of the `others`, which are not global.

    Searches start from a twelfth as many landmarks as are global: 8 % more searches.
    """
    rng = check_random_state(options.random_state)
    n_checked = max(PARTNERS, fit.sources.size // 12)
    ids = rng.permutation(others)[:n_checked]
    lengths = shortest_path_rows(graph, fit.landmarks[ids], n_jobs=n_jobs)
    squares = lengths[:, fit.landmarks] ** 2
    fitted_keys = pairs.keys
    all_landmarks = np.arange(fit.width)
    checks = []
    for i, sq_to_all in zip(ids.tolist(), squares, strict=True):
        keys = pair_keys(fit.width, i, all_landmarks)
        is_new = ~np.isin(keys, fitted_keys) & (all_landmarks != i)
        if is_new.any():
            checks.append((i, all_landmarks[is_new], sq_to_all[is_new]))
    return checks


def _start_others(
    fit: LandmarkFit, others: Indices, far: Indices, squares: Array
) -> LandmarkFit:
    """Return the fit with the `others` placed among the global landmarks, which are embedded.

    Landmark ``others[a]`` has the squared dissimilarities ``squares[a]`` to the global landmarks
    ``far[a]``.
    """
    embedding = fit.embedding
    if not embedding.k:
        raise InputError(
            f"all {embedding.n} global landmarks are in one place, so that two levels have no "
            f"coordinates to start from; leave {option('n_near')} out."
        )
    rule = fit.rule
    assert isinstance(rule, LossPlacement)
    x = np.zeros((fit.width, embedding.k))
    x[fit.sources] = to_numpy(embedding.coordinates)
    rule = LossPlacement(x, embedding.form.in_numpy(), rule.loss)
    partners = index_like(far, squares)
    x[others] = to_numpy(rule.place(squares, partners=partners))
    return replace(
        fit, embedding=replace(embedding, coordinates=x, placement=rule)
    )


def _fit_from(
    fit: LandmarkFit,
    pairs: Pairs,
    options: Options,
    like: Array,
    checks: list[Check],
) -> LandmarkFit:
    """Return the fit after a descent on pairs of landmarks, on the device of `like`."""
    embedding = fit.embedding
    notify(options.callback, f"embedding {fit.width} landmarks")
    x = to_numpy(embedding.coordinates)
    if not on_cpu(like):
        x = asarray_like(x, like, namespace(like).float64)
    start = Configuration(x, embedding.form.in_numpy())
    refit = fit_pairs(pairs, start, options, falling=True, checks=checks)
    x = to_numpy(refit.coordinates)
    form = refit.form.in_numpy()
    assert isinstance(refit.placement, LossPlacement)
    rule = LossPlacement(x, form, refit.placement.loss)
    refit = replace(
        refit,
        coordinates=x,
        form=form,
        placement=rule,
        missing="ignore",
        labels=embedding.labels,
        requested=embedding.requested,
        global_landmarks=fit.sources,
        n_global=fit.n_global,
        n_near=fit.n_near,
    )
    return replace(fit, embedding=refit)


def _join_pairs(
    n: int, i: Indices, j: Indices, squares: Floats, old: Pairs | None = None
) -> Pairs:
    """Return old pairs and the pairs (i, j), each once, without pairs (i, i)."""
    keys = pair_keys(n, i, j)
    if old is not None:
        keys = np.r_[old.keys, keys]
        squares = np.r_[old.sq_dissimilarity, squares]
    keys, first = np.unique(keys, return_index=True)
    low, high = np.divmod(keys, n)
    is_pair = low != high
    return Pairs(n, low[is_pair], high[is_pair], squares[first][is_pair])


def _new_pairs(old: Pairs, i: Indices, j: Indices) -> tuple[Indices, Indices]:
    """Return those of the pairs (i, j) that are no old ones, each once, i < j, ascending."""
    keys = np.unique(pair_keys(old.n, i, j)[i != j])
    keys = np.setdiff1d(keys, old.keys, assume_unique=True)
    return keys // old.n, keys % old.n
