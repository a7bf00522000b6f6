"""Two levels of landmarks: each object is compared with some global and some near ones.

Shared landmarks are far from most objects, so near pairs would be guessed from far ones. Here there
are many landmarks, and an object is compared with a random part of the global ones and with the
nearest. The landmarks are fitted from such pairs, too: nothing of size L × L or n × L is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isqrt
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from neucmds._backend.arrays import (
    Array,
    asarray_like,
    is_numpy,
    k_smallest,
    namespace,
    row_blocks,
    to_numpy,
)
from neucmds._input import Pairs, as_real
from neucmds._methods import PairLoss, Start, check_count
from neucmds._operator import BoundMetric, nearest_landmarks, path_blocks
from neucmds._placement import LossPlacement
from neucmds._placement import landmarks as selection
from neucmds.api.landmarks import (
    LandmarkFit,
    chosen_rows,
    fit_landmarks,
    least_count,
    metric_on,
    start_among,
    taken,
)
from neucmds.api.options import GOALS, PRECOMPUTED, SHORTEST_PATH, Options, refuse, tell
from neucmds.api.partial_input import embed_pairs
from neucmds.embedding import Embedding
from neucmds.errors import InputError, option

Indices = npt.NDArray[np.intp]
Floats = npt.NDArray[np.float64]
# Landmarks of an object for each coordinate: global ones, a part of twice as many, and near ones.
GLOBAL, NEAR = 6, 3
# Landmarks, at least, and as a share of all objects: they take no more dissimilarities than others.
# Of 4,000 strings 1,000 and 1,500 kept .809 and .834 of the ten nearest of others (k = 32).
FEWEST, SHARE = 3000, 0.02
# Global landmarks, at most, where they are many: all pairs of √(20n) are 10 for each object. With
# 1,400 instead of 200 random pairs of 20,000 rows were wrong by 5.7 % instead of 8.0 % (k = 20).
MOST_GLOBAL = 2000
# Iterations of a fit that is to tell which landmarks are near; and of many landmarks of a graph: as
# many as it takes had near pairs of 261,000 nodes of a grid wrong by 1.36 % instead of 1.46. Of
# 8,908 crossings 3,000 landmarks kept .930 instead of .920 of the ten nearest.
BRIEF, ENOUGH, MANY = 30, 60, 10_000
# Share of the near landmarks that an object is compared with before it is placed anew.
FIRST = 2 / 3


@dataclass(frozen=True)
class Levels:
    """How many landmarks of each kind an object is compared with.

    Parameters
    ----------
    sources : ndarray of shape (G,)
        Numbers of the global landmarks among all, in random order.
    n_global, n_near : int
        An object has a part of `n_global` of the former.
    """

    sources: Indices
    n_global: int
    n_near: int

    @classmethod
    def draw(
        cls, n_landmarks: int, n_near: int, k: int, rng: np.random.RandomState, most: int = 0
    ) -> Levels:
        """Draw the global landmarks: twice as many as an object has, or up to `most`."""
        n_global = GLOBAL * k
        if n_landmarks < 2 * n_global + n_near:
            raise InputError(
                f"two levels ({option('n_near', n_near)}) of {k} coordinates need at least "
                f"{2 * n_global + n_near} landmarks, not {n_landmarks}; leave {option('n_near')} "
                "out, or have more landmarks."
            )
        sources = rng.permutation(n_landmarks)[: max(2 * n_global, min(most, n_landmarks // 2))]
        return cls(sources.astype(np.intp), n_global, n_near)

    def parts(self, keys: npt.ArrayLike) -> Indices:
        """Return the global landmarks (m, n_global) of objects, each known by a number."""
        count = self.sources.size
        starts = np.asarray(keys, dtype=np.int64) % count
        places = (starts[:, None] + np.arange(self.n_global)) % count
        return np.asarray(self.sources[places])

    @property
    def rounds(self) -> tuple[int, int]:
        """How many near landmarks are asked for at a time."""
        first = round(FIRST * self.n_near)
        return first, self.n_near - first


@dataclass(frozen=True)
class TwoLevelFit(LandmarkFit):
    """Embedded landmarks of which every object is compared with some.

    Parameters
    ----------
    levels : Levels
    near : ndarray of shape (n, n_near), optional
        Of a graph: the landmarks near every node. `paths` has the lengths to its global ones, then
        to these, NaN where one is not known; rows are numbers of nodes.
    """

    levels: Levels = Levels(np.zeros(0, np.intp), 0, 0)
    near: Indices | None = None

    def place(self, rows: Array, first: int = 0, weights: Any = None) -> Array:
        """Coordinates (m, k) of some objects; landmarks among fitted ones stay where they are."""
        if weights is not None:
            raise InputError("objects in two levels take no weights; leave them out.")
        if self.space is None and self.near is None and int(rows.shape[1]) != self.n:
            return super().place(rows, first)
        xp, objects = namespace(rows), np.arange(first, first + int(rows.shape[0]))
        if self.near is not None:
            objects = rows[:, 0].astype(np.intp)
        elif not self.of_fitted:
            return xp.astype(self._placed(rows, objects), rows.dtype, copy=False)
        order = np.argsort(self.landmarks)
        at = order[np.searchsorted(self.landmarks[order], objects) % self.width]
        x = asarray_like(to_numpy(self.embedding.coordinates)[at], rows, dtype=rows.dtype)
        others = np.flatnonzero(self.landmarks[at] != objects)
        if others.size:
            placed = self._placed(taken(rows, others), objects[others])
            x[asarray_like(others, x, dtype=xp.int64)] = xp.astype(placed, x.dtype, copy=False)
        return x

    @property
    def compared(self) -> int:
        """Landmarks that an object is compared with at a time; those near a node are known."""
        return self.width if self.near is None else self.levels.n_global + self.levels.n_near

    def nodes(self, which: Any = slice(None)) -> Array:
        """Return nodes of the graph as rows that are placed."""
        assert self.near is not None
        return np.arange(len(self.near), dtype=np.float64)[which, None]

    def squares(self, rows: Array, first: int = 0, weights: Any = None) -> Array:
        """Squared dissimilarities (m, L) to the landmarks; of a graph NaN where none is known."""
        if self.near is None:
            return super().squares(rows, first, weights)
        ids, squares = self._known(rows[:, 0].astype(np.intp))
        out = np.full((len(rows), self.width), np.nan)
        np.put_along_axis(out, ids, squares, axis=1)
        return out

    def _known(self, nodes: Indices) -> tuple[Indices, Floats]:
        """Return the landmarks that nodes have paths to, and the squared lengths of these."""
        assert self.near is not None
        assert self.paths is not None
        ids = np.concatenate([self.levels.parts(nodes), self.near[nodes]], axis=1)
        return ids, self.paths[nodes].astype(np.float64) ** 2

    def _placed(self, rows: Array, objects: Indices) -> Array:
        """Place objects roughly, then twice from landmarks near by."""
        xp, rule = namespace(rows), rule_of(self.embedding)
        if self.near is not None:
            ids, squares = self._known(objects)
            return rule.place(squares, own=ids)
        # On a device comparing all takes less time than choosing.
        all_squares = None if is_numpy(rows) else self.squares(rows, int(objects[0]))
        each = np.arange(objects.size)[:, None]

        def ask(ids: Indices) -> Array:
            if all_squares is not None:
                return all_squares[_like(each, rows), _like(ids, rows)]
            return np.reshape(self.own_squares(rows, list(ids), objects), ids.shape)

        ids = self.levels.parts(self._keys(rows))
        squares = ask(ids)
        for count in self.levels.rounds:
            coarse = rule.place(squares, own=_like(ids, squares))
            more = nearest_by_form(rule, coarse, ids, count)
            ids = np.concatenate([ids, more], axis=1)
            squares = xp.concat([squares, ask(more)], axis=1)
        return rule.place(squares, own=_like(ids, squares))

    def started(self, others: Indices, parts: Indices, squares: Floats) -> Floats:
        """Coordinates (L, k) of all landmarks, where the global ones alone are embedded."""
        rule, x = rule_of(self.embedding), np.zeros((self.width, self.embedding.k))
        x[self.levels.sources] = to_numpy(rule.coordinates)
        x[others] = replace(rule, coordinates=x).place(squares, own=parts)
        return x

    def to_ask(self, coarse: Any) -> Indices:
        """Return what landmarks new objects, or those at some places, are to be compared with."""
        if isinstance(coarse, (int, float, np.generic)):
            check_count(coarse=coarse)
            return self.levels.parts(np.arange(int(coarse)))
        x, k = to_numpy(as_real(coarse, "coarse")).astype(np.float64), self.embedding.k
        if x.shape[1:] != (k,) or not np.isfinite(x).all():
            raise InputError(
                f"{option('coarse')} has shape {x.shape}, or NaN; pass finite coordinates of shape "
                f"(m, {k}), or the number of objects."
            )
        none = np.zeros((len(x), 0), np.intp)
        return nearest_by_form(rule_of(self.embedding), x, none, self.levels.n_near)

    def own_squares(
        self, rows: Array, ids: Sequence[Indices], objects: Indices, at: Indices | None = None
    ) -> Array:
        """Squared dissimilarities of objects to landmarks of their own, one after the other.

        The objects are all rows, or those `at` some numbers.
        """
        xp, columns = namespace(rows), np.concatenate(ids)
        at, sizes = np.arange(len(ids)) if at is None else at, [len(some) for some in ids]
        if self.space is not None:
            some = xp.astype(taken(rows, at), xp.float64, copy=False)
            block = self.space.own_squares(some, ids)
        else:
            block = rows[at.repeat(sizes), self.landmarks[columns]]
        landmarks = self.landmarks[columns][:, None]
        return self.checked(block[:, None], objects.repeat(sizes), landmarks)[:, 0]

    def _keys(self, rows: Array) -> list[int]:
        """Return a number for every row by what it holds, the same in either precision."""
        if self.space is None:
            some = self.levels.sources[: self.levels.n_global]
            rows = taken(rows, slice(None), self.landmarks[some])
        with np.errstate(over="ignore"):
            # Adding 0 makes −0 equal to 0.
            values = to_numpy(rows).astype(np.float32) + np.float32(0)
        return [crc32(row) for row in np.ascontiguousarray(values)]


def rule_of(embedding: Embedding) -> LossPlacement:
    """Return the rule that places objects from landmarks of their own, by the loss of the fit."""
    rule = embedding.placement
    if isinstance(rule, LossPlacement):
        return rule
    return LossPlacement(embedding.coordinates, embedding.signs, PairLoss("squared", 0.0))


def nearest_by_form(rule: LossPlacement, coarse: Array, known: Indices, count: int) -> Indices:
    """Nearest landmarks (m, count) by D̂ of objects at some places, without those they have."""
    # In single precision: half the time, and it matters little which of two comes last.
    xp = namespace(coarse)
    coarse = xp.astype(coarse, xp.float32, copy=False)
    x, signs = (asarray_like(part, coarse) for part in (rule.coordinates, rule.signs))
    found, norms = np.empty((int(coarse.shape[0]), count), dtype=np.intp), (x * x) @ signs
    for rows in row_blocks(len(found), len(x)):
        # The norm of an object shifts all its D̂ alike.
        ranks = norms - 2 * (coarse[rows, :] * signs) @ xp.matrix_transpose(x)
        own = xp.arange(ranks.shape[0])[:, None]
        ranks[own, _like(known[rows], ranks)] = xp.inf
        found[rows] = to_numpy(k_smallest(ranks, count)[1])
    return found


def fit_two_levels(
    X: Any,
    options: Options,
    *,
    n_near: int | None,
    metric: Any = PRECOMPUTED,
    landmarks: Any = "random",
    n_landmarks: int | float | None = None,
    **reading: Any,
) -> TwoLevelFit:
    """Choose landmarks, and fit them from a part of their pairs.

    Parameters
    ----------
    X, options, metric, landmarks, n_landmarks, reading
        As for `fit_landmarks`.
    n_near : int or None
        Near landmarks of every object; None: 3 for each coordinate.
    """
    n, k = int(X.shape[0]), least_count(options.n_components)
    rng = check_random_state(options.random_state)
    options = replace(options, random_state=rng)
    n_near = _refused(X if metric == PRECOMPUTED else None, options, n_near, k, reading)
    if n_landmarks is None:
        n_landmarks = min(n, max(FEWEST, round(SHARE * n), 4 * (GLOBAL + NEAR) * k))
    if metric == SHORTEST_PATH:
        ids = _chosen_nodes(X, landmarks, n_landmarks, k, rng)
        return _of_graph(X, ids, Levels.draw(ids.size, n_near, k, rng), options, reading)
    squared, symmetrize = (bool(reading.get(name)) for name in ("squared", "symmetrize"))
    bound = None if metric == PRECOMPUTED else BoundMetric.of(metric, symmetrize=symmetrize)
    ids = chosen_rows(X, bound, landmarks, n_landmarks, k, rng)
    levels = Levels.draw(ids.size, n_near, k, rng, min(MOST_GLOBAL, isqrt(20 * n)))
    options = _started(options, ids, levels, n)
    tell(options.callback, f"embedding {levels.sources.size} global landmarks")
    base = fit_landmarks(X, options, metric=metric, landmarks=ids[levels.sources], **reading)
    space = None if bound is None else metric_on(bound, X, ids, squared)
    hubs = TwoLevelFit(ids, base.embedding, None, base.n, space, base.metric, levels=levels)
    tell(options.callback, f"embedding {ids.size} landmarks")
    rows, at = (X, ids) if space is None else (taken(X, ids), np.arange(ids.size))
    names = reading.get("columns")
    labels = None if names is None else tuple(str(names[i]) for i in ids)
    return replace(hubs, embedding=replace(_embedded(hubs, rows, at, options), labels=labels))


def _started(options: Options, ids: Indices, levels: Levels, n: int) -> Options:
    """Have the global landmarks start where all landmarks or all objects do."""
    count = n if options.init is None else int(options.init.coordinates.shape[0])
    if count not in (n, ids.size):
        raise InputError(
            f"{option('init')} has coordinates of {count} objects; pass those of all {n}, or of "
            f"the {ids.size} landmarks."
        )
    options = replace(options, init=start_among(options, ids, n))
    return replace(options, init=start_among(options, levels.sources, ids.size))


def _chosen_nodes(
    graph: Any, landmarks: Any, n_landmarks: Any, k: int, rng: np.random.RandomState
) -> Indices:
    """Return the nodes that are landmarks: as named, or drawn."""
    n = int(graph.shape[0])
    if not isinstance(landmarks, str):
        return selection.named(landmarks, n, k)
    if landmarks != "random":
        raise InputError(f"{option('landmarks', landmarks)} of two levels must be 'random'.")
    return selection.random_sample(n, selection.landmark_count(n_landmarks, n, k), rng)


def _of_graph(
    graph: Any, ids: Indices, levels: Levels, options: Options, reading: dict[str, Any]
) -> TwoLevelFit:
    """Fit landmarks of a graph from paths to global ones and to those that searches find near."""
    refuse("graph", {"squared": True} if reading.get("squared") else {})
    n, jobs, sources = int(graph.shape[0]), reading.get("n_jobs"), levels.sources
    paths = np.empty((n, levels.n_global + levels.n_near), np.float32)
    among, each = np.empty((sources.size, sources.size)), np.arange(sources.size)
    tell(options.callback, f"searching from {sources.size} global landmarks")
    for part, rows in path_blocks(graph, ids[sources], jobs):
        among[part] = rows[:, ids[sources]]
        for place, row in enumerate(rows, part.start):
            # Every G-th node has the same part of the global ones.
            column = (place - each) % sources.size
            for first in np.flatnonzero(column < levels.n_global):
                paths[first :: sources.size, column[first]] = row[first :: sources.size]
    options = _started(options, ids, levels, n)
    tell(options.callback, f"searching from {ids.size} landmarks")
    near, lengths = nearest_landmarks(graph, ids, levels.n_near, n_jobs=jobs)
    paths[:, levels.n_global :] = np.where(np.isinf(lengths), np.nan, lengths)
    if options.loss == "relative" and options.floor is None and graph.data.any():
        # Landmarks are farther apart than nodes.
        lengths = np.where(graph.data > 0, graph.data, np.inf)
        shortest = np.minimum.reduceat(lengths, graph.indptr[:-1])
        options = replace(options, floor=float(np.median(shortest[np.isfinite(shortest)])))
    base = fit_landmarks(among, options, landmarks=each, symmetrize=True)
    fitted = TwoLevelFit(ids, base.embedding, None, n, paths=paths, levels=levels, near=near)
    tell(options.callback, f"embedding {ids.size} landmarks")
    known, squares = fitted._known(ids)
    others = np.setdiff1d(np.arange(ids.size), sources)
    far = others[:, None], np.arange(levels.n_global)
    x = fitted.started(others, known[far], squares[far])
    i, j = np.nonzero(np.isfinite(squares))
    pairs = joined(ids.size, i, known[i, j], squares[i, j])
    if ids.size <= MANY:
        return replace(fitted, embedding=embed_hubs(pairs, x, base.embedding, options))
    options = replace(options, max_iter=options.max_iter or ENOUGH)
    # Nodes are placed hardly better after more of them.
    embedding = replace(embed_hubs(pairs, x, base.embedding, options), converged=True)
    return replace(fitted, embedding=embedding)


def _refused(D: Any, options: Options, n_near: Any, k: int, reading: dict[str, Any]) -> int:
    """Return the number of near landmarks, or refuse what two levels do not go with."""
    two = f"two levels ({option('n_near', n_near)})"
    if n_near is not None:
        check_count(n_near=n_near)
    if options.method != "refined" or isinstance(options.n_components, GOALS):
        raise InputError(f"{two} need {option('method', 'refined')} and a number of coordinates.")
    if reading.get("weights") is not None:
        raise InputError(f"{two} do not take weights of pairs, most of which are never asked for.")
    if reading.get("placement", "auto") != "auto":
        raise InputError(f"{two} place objects by the loss; leave {option('placement')} out.")
    if D is not None and D.shape[0] != D.shape[1]:
        raise InputError(
            f"X is {D.shape[0]} × {D.shape[1]}, but {two} take all columns of D; leave "
            f"{option('n_near')} out, or pass metric= if X holds features."
        )
    return NEAR * k if n_near is None else int(n_near)


def _embedded(hubs: TwoLevelFit, rows: Array, at: Indices, options: Options) -> Embedding:
    """Embed all landmarks, rows `at` some numbers, from pairs with global and with near ones."""
    levels, embedding, everyone = hubs.levels, hubs.embedding, np.arange(hubs.width)
    others = np.setdiff1d(everyone, levels.sources)
    parts = levels.parts(others)
    squares = to_numpy(hubs.own_squares(rows, list(parts), hubs.landmarks[others], at[others]))
    x = hubs.started(others, parts, np.reshape(squares, parts.shape))
    pairs = joined(hubs.width, others.repeat(levels.n_global), parts.ravel(), squares)
    for last in (False, True):
        rule = replace(rule_of(embedding), coordinates=x)
        near = nearest_by_form(rule, x, everyone[:, None], levels.n_near)
        i, j = _not_in(pairs, everyone.repeat(levels.n_near), near.ravel())
        if i.size:
            own, starts = np.unique(i, return_index=True)
            asked = np.split(j, starts[1:])
            squares = to_numpy(hubs.own_squares(rows, asked, hubs.landmarks[own], at[own]))
            pairs = joined(hubs.width, i, j, squares, pairs)
        # The first time they are only to tell which are near.
        steps = options.max_iter if last else min(BRIEF, options.max_iter or BRIEF)
        embedding = embed_hubs(pairs, x, embedding, replace(options, max_iter=steps))
        x = to_numpy(embedding.coordinates)
    return embedding


def embed_hubs(pairs: Pairs, x: Floats, fitted: Embedding, options: Options) -> Embedding:
    """Embed landmarks from listed pairs and a start, with signature and curvature of a fit."""
    if not fitted.k:
        raise InputError(f"all {fitted.n} global landmarks are in one place; have more landmarks.")
    unit = float(np.mean(np.sqrt(np.maximum(pairs.sq_dissimilarity, 0))))
    options = replace(
        options,
        n_components=fitted.signature,
        init=Start(x, to_numpy(fitted.signs).astype(np.float64)),
        curvature=fitted.kappa * unit**2,
    )
    return replace(embed_pairs(pairs, options, fitted.squared), missing="ignore")


def joined(n: int, i: Indices, j: Indices, squares: Floats, more: Pairs | None = None) -> Pairs:
    """Return pairs of landmarks, each once, with others that are there already."""
    low, high = np.minimum(i, j), np.maximum(i, j)
    if more is not None:
        low, high = np.concatenate([more.i, low]), np.concatenate([more.j, high])
        squares = np.concatenate([more.sq_dissimilarity, squares])
    key, first = np.unique(low * n + high, return_index=True)
    first = first[key // n != key % n]
    return Pairs(n, low[first], high[first], squares[first])


def _not_in(known: Pairs, i: Indices, j: Indices) -> tuple[Indices, Indices]:
    """Return pairs that are not known yet, each once, in ascending order."""
    key = np.unique(np.minimum(i, j) * known.n + np.maximum(i, j))
    key = np.setdiff1d(key, known.i * known.n + known.j, assume_unique=True)
    return key // known.n, key % known.n


def _like(ids: Indices, array: Array) -> Array:
    return asarray_like(ids, array, dtype=namespace(array).int64)
