"""Two levels of landmarks: each object is compared with some global and some near ones.

Shared landmarks are far from most objects, so near pairs would be guessed from far ones. Here there
are many landmarks, and an object is compared with a random part of the global ones and with the
nearest. The landmarks are fitted from such pairs, too: nothing of size L × L or n × L is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isqrt
from typing import Any
from zlib import crc32

import joblib
import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from neucmds.backend.arrays import (
    Array,
    asarray_like,
    is_dask,
    is_numpy,
    k_smallest,
    namespace,
    on_cpu,
    row_blocks,
    to_numpy,
)
from neucmds.embedding import Embedding
from neucmds.errors import InputError, option
from neucmds.large.landmarks import (
    LandmarkFit,
    chosen_rows,
    fit_landmarks,
    least_count,
    metric_on,
    start_among,
    taken,
)
from neucmds.large.listed import embed_features, embed_pairs
from neucmds.options import GOALS, PRECOMPUTED, SHORTEST_PATH, Options, notify
from neucmds.place import landmarks as selection
from neucmds.place.least_squares import LeastSquaresPlacement
from neucmds.place.newton import LossPlacement
from neucmds.problem.containers import as_real
from neucmds.problem.graph import nearest_landmarks, path_blocks
from neucmds.problem.metrics import BoundMetric
from neucmds.problem.pairs import Pairs
from neucmds.refine.descent import Start, check_count
from neucmds.refine.losses import PairLoss

Indices = npt.NDArray[np.intp]
Floats = npt.NDArray[np.float64]
# Landmarks of an object for each coordinate: global ones, a part of twice as many, and near ones.
GLOBAL, NEAR = 6, 3
# Landmarks, at least, as a share of all objects, and at most, where no searches find the near ones:
# they take no more dissimilarities than others.
# Of 4,000 strings 1,000 and 1,500 kept .809 and .834 of the ten nearest of others (k = 32).
# Of a user's function up to MOST objects are all landmarks: a last descent moves them together, on
# pairs of the nearest. Of 1,500 SMILES .873 instead of .821 of the ten nearest were kept (k = 16).
FEWEST, SHARE, MOST = 3000, 0.02, 20_000
# Global landmarks, at most, where they are many: all pairs of √(20n) are 10 for each object. With
# 1,400 instead of 200 random pairs of 20,000 rows were wrong by 5.7 % instead of 8.0 % (k = 20).
MOST_GLOBAL = 2000
# Far partners of landmarks: a share of their global ones, and others drawn anew, so that D̂ of two
# landmarks is held. From global ones alone random pairs of 6,000 rows were off by 7.6 %, not 2.0 %.
FAR_GLOBAL, FAR_DRAWN = 2 / 3, 1 / 6
# Iterations of a fit that is to tell which landmarks are near; and of many landmarks of a graph: as
# many as it takes had near pairs of 261,000 nodes of a grid wrong by 1.36 % instead of 1.46. Of
# 8,908 crossings 3,000 landmarks kept .930 instead of .920 of the ten nearest.
BRIEF, ENOUGH, MANY = 30, 60, 10_000
# Tolerance of the fit of global landmarks, from which all landmarks start.
ROUGH = 2e-3
# Share of the near landmarks that an object is compared with before it is placed anew.
FIRST = 2 / 3
# Landmarks about a global one, for each near landmark of an object; and times as many from which on
# choosing among these is faster than comparing all: of 20,000 landmarks 98 % of the nearest 60
# are found in 0.13 ms per object, all of them in 0.5; of 3,000 in 0.1 (k = 20).
ABOUT, WORTH_CHOOSING = 8, 8


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

    @cached_property
    def turns(self) -> Indices:
        """Places of the global landmarks (G, n_global) of an object, by its number modulo G."""
        count = self.sources.size
        return (np.arange(count)[:, None] + np.arange(self.n_global)) % count

    def parts(self, keys: npt.ArrayLike) -> Indices:
        """Return the global landmarks (m, n_global) of objects, each known by a number."""
        turn = np.asarray(keys, dtype=np.int64) % self.sources.size
        return np.asarray(self.sources[self.turns][turn])

    @property
    def rounds(self) -> tuple[int, int]:
        """How many near landmarks are asked for at a time."""
        first = round(FIRST * self.n_near)
        return first, self.n_near - first


@dataclass(frozen=True, kw_only=True)
class TwoLevelFit(LandmarkFit):
    """Embedded landmarks of which every object is compared with some."""

    levels: Levels

    @cached_property
    def rule(self) -> LossPlacement:
        """The rule that places objects from landmarks of their own, by the loss of the fit."""
        return rule_of(self.embedding)

    @cached_property
    def search(self) -> NearSearch:
        """The search for landmarks near an object."""
        return NearSearch(self.rule, self.levels)

    def widest(self, rows: Array) -> int:
        """Entries of a row, or of all that it is compared with at a time."""
        on_device = not is_numpy(rows) and not is_dask(rows)
        return super().widest(rows) if on_device else max(rows.shape[1], self.search.compared)

    def place(self, rows: Array, first: int = 0, weights: Any = None) -> Array:
        """Coordinates (m, k) of some objects, all of them placed."""
        if self.space is None and int(rows.shape[1]) != self.n:
            return super().place(rows, first)
        objects = np.arange(first, first + int(rows.shape[0]))
        return namespace(rows).astype(self._placed(rows, objects), rows.dtype, copy=False)

    def place_fitted(self, rows: Array, first: int = 0, weights: Any = None) -> Array:
        """Coordinates (m, k) of some objects that were fitted, of which landmarks stay."""
        return self._beside_landmarks(rows, np.arange(first, first + int(rows.shape[0])))

    def _beside_landmarks(self, rows: Array, objects: Indices) -> Array:
        """Place objects but for the landmarks among them."""
        xp, order = namespace(rows), np.argsort(self.landmarks)
        at = order[np.searchsorted(self.landmarks[order], objects) % self.width]
        x = asarray_like(to_numpy(self.embedding.coordinates)[at], rows, dtype=rows.dtype)
        others = np.flatnonzero(self.landmarks[at] != objects)
        if others.size:
            placed = self._placed(taken(rows, others), objects[others])
            x[asarray_like(others, x, dtype=xp.int64)] = xp.astype(placed, x.dtype, copy=False)
        return x

    def _placed(self, rows: Array, objects: Indices) -> Array:
        """Place objects roughly, then twice from landmarks near by."""
        xp, rule = namespace(rows), self.rule
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
            more = self.search.nearest(coarse, ids, count)
            ids = np.concatenate([ids, more], axis=1)
            squares = xp.concat([squares, ask(more)], axis=1)
        return rule.place(squares, own=_like(ids, squares))

    def started(self, others: Indices, parts: Indices, squares: Array) -> Floats:
        """Coordinates (L, k) of all landmarks, where the global ones alone are embedded."""
        x = np.zeros((self.width, self.embedding.k))
        x[self.levels.sources] = to_numpy(self.rule.coordinates)
        rule = replace(self.rule, coordinates=x)
        x[others] = to_numpy(rule.place(squares, own=_like(parts, squares)))
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
        return self.search.nearest(x, np.zeros((len(x), 0), np.intp), self.levels.n_near)

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
        called = None if self.space is None else self.space.called
        if called is not None and called.items is not None:
            return [crc32(joblib.hash(called.items[int(i)]).encode()) for i in rows[:, 0]]
        if self.space is None:
            some = self.levels.sources[: self.levels.n_global]
            rows = taken(rows, slice(None), self.landmarks[some])
        with np.errstate(over="ignore"):
            # Adding 0 makes −0 equal to 0.
            values = to_numpy(rows).astype(np.float32) + np.float32(0)
        return [crc32(row) for row in np.ascontiguousarray(values)]


@dataclass(frozen=True, kw_only=True)
class NodeFit(TwoLevelFit):
    """Embedded landmarks of a graph, whose searches say which are near every node.

    Rows are numbers of nodes.

    Parameters
    ----------
    near, lengths : ndarray of shape (n, n_near)
        Landmarks near every node, and the lengths of paths to these, NaN where one is not known.
        `paths` (G, n) has those from all global landmarks.
    """

    near: Indices
    lengths: npt.NDArray[np.float32]

    def widest(self, rows: Array) -> int:
        """Landmarks that a node is compared with."""
        return self.levels.n_global + self.levels.n_near

    def nodes(self, which: Any = slice(None)) -> Array:
        """Return nodes of the graph as rows that are placed."""
        return np.arange(len(self.near), dtype=np.float64)[which, None]

    def squares(self, rows: Array, first: int = 0, weights: Any = None) -> Array:
        """Squared lengths (m, L) of paths to the landmarks, NaN where none is known."""
        assert self.paths is not None
        nodes = rows[:, 0].astype(np.intp)
        out = np.full((len(rows), self.width), np.nan)
        np.put_along_axis(out, self.near[nodes], self.lengths[nodes], axis=1)
        out[:, self.levels.sources] = self.paths[:, nodes].T
        return out**2

    def place(self, rows: Array, first: int = 0, weights: Any = None) -> Array:
        """Coordinates (m, k) of some nodes, of which landmarks stay where they were fitted."""
        return self._beside_landmarks(rows, to_numpy(rows)[:, 0].astype(np.intp))

    place_fitted = place

    def known(self, nodes: Indices, like: Array) -> tuple[Array, Array]:
        """Return the landmarks that nodes are placed from, and the squared lengths of paths."""
        assert self.paths is not None
        xp, levels, each = namespace(like), self.levels, _like(np.arange(nodes.size)[:, None], like)
        parts = levels.turns, levels.sources, nodes % levels.sources.size, self.near[nodes]
        turns, sources, keys, near = (_like(part, like) for part in parts)
        far = turns[keys]
        lengths = (asarray_like(some, like) for some in (self.paths[:, nodes], self.lengths[nodes]))
        far_lengths, near_lengths = lengths
        both = xp.concat([far_lengths[far, each], near_lengths], axis=1)
        return xp.concat([sources[far], near], axis=1), xp.astype(both, xp.float64) ** 2

    def _placed(self, rows: Array, objects: Indices) -> Array:
        ids, squares = self.known(objects, rows)
        return self.rule.place(squares, own=ids)


def rule_of(embedding: Embedding) -> LossPlacement:
    """Return the rule that places objects from landmarks of their own, by the loss of a fit."""
    rule = embedding.placement
    if isinstance(rule, LossPlacement):
        return rule
    return LossPlacement(embedding.coordinates, embedding.form, PairLoss("squared"))


@dataclass(frozen=True)
class NearSearch:
    """Finds the landmarks that are nearest by D̂ to some places.

    Of many landmarks those alone are compared that are about the nearest global one, so that an
    object takes as long however many there are.
    """

    rule: LossPlacement
    levels: Levels

    @property
    def compared(self) -> int:
        """Landmarks that a place is compared with at a time."""
        n, some = len(self.rule.coordinates), ABOUT * self.levels.n_near + self.levels.n_global
        return some if n > WORTH_CHOOSING * some else n

    def nearest(self, coarse: Array, known: Indices, count: int) -> Indices:
        """Nearest landmarks (m, count) of objects at some places, without those they have."""
        # In single precision: half the time, and it matters little which of two comes last.
        xp, n = namespace(coarse), len(self.rule.coordinates)
        coarse = xp.astype(coarse / self._scale, xp.float32, copy=False)
        found = np.empty((int(coarse.shape[0]), count), dtype=np.intp)
        chosen = is_numpy(coarse) and self.compared < n
        for rows in row_blocks(len(found), self.compared if chosen else n):
            some = self._chosen if chosen else self._of_all
            found[rows] = some(coarse[rows, :], known[rows], count)
        return found

    def _of_all(self, coarse: Array, known: Indices, count: int) -> Indices:
        xp = namespace(coarse)
        x, signs = (asarray_like(part, coarse) for part in (self._x, self.rule.form.signs))
        ranks = _ranks(coarse, x, signs)
        ranks[xp.arange(ranks.shape[0])[:, None], _like(known, ranks)] = xp.inf
        return to_numpy(k_smallest(ranks, count)[1])

    def _chosen(self, coarse: Array, known: Indices, count: int) -> Indices:
        x, (centers, about, norms) = self._x, self._cells
        ids = about[_ranks(coarse, centers).argmin(axis=1)]
        inner = (x[ids] @ (coarse * self.rule.form.signs.astype(np.float32))[:, :, None])[:, :, 0]
        ranks, at = k_smallest(norms[ids] - 2 * inner, count + known.shape[1])
        ids = np.take_along_axis(ids, at, axis=1)
        ranks[(ids[:, :, None] == known[:, None, :]).any(axis=2)] = np.inf
        return np.take_along_axis(ids, k_smallest(ranks, count)[1], axis=1)

    @cached_property
    def _scale(self) -> float:
        return float(np.abs(to_numpy(self.rule.coordinates)).max()) or 1.0

    @cached_property
    def _x(self) -> npt.NDArray[np.float32]:
        return (to_numpy(self.rule.coordinates) / self._scale).astype(np.float32)

    @cached_property
    def _cells(self) -> tuple[Array, Indices, Array]:
        """Global landmarks, those about each by the length of differences, and all xᵀAx."""
        x, centers = self._x, self._x[self.levels.sources]
        blocks = row_blocks(len(centers), len(x))
        parts = [k_smallest(_ranks(centers[rows], x), self.compared)[1] for rows in blocks]
        return centers, np.concatenate(parts), (x * x) @ self.rule.form.signs.astype(np.float32)


def _ranks(places: Array, x: Array, signs: Any = 1.0) -> Array:
    """Return D̂ but for the norm of each place, which shifts all of its D̂ alike."""
    norms = namespace(x).sum(x * x * signs, axis=1)
    return norms - 2 * (places * signs) @ namespace(x).matrix_transpose(x)


def fit_two_levels(
    X: Any,
    options: Options,
    *,
    n_near: int | None,
    metric: Any = PRECOMPUTED,
    landmarks: Any = "random",
    n_landmarks: int | float | None = None,
    like: Array | None = None,
    **reading: Any,
) -> TwoLevelFit:
    """Choose landmarks, and fit them from a part of their pairs.

    Parameters
    ----------
    X, options, metric, landmarks, n_landmarks, reading
        As for `fit_landmarks`.
    n_near : int or None
        Near landmarks of every object; None: 3 for each coordinate.
    like : array, optional
        The landmarks of a graph are fitted with its library, on its device.
    """
    n, k = int(X.shape[0]), least_count(options.n_components)
    rng = check_random_state(options.random_state)
    options = replace(options, random_state=rng)
    n_near = _refused(X if metric == PRECOMPUTED else None, options, n_near, k, reading)
    squared, symmetrize = (bool(reading.get(name)) for name in ("squared", "symmetrize"))
    stored = metric in (PRECOMPUTED, SHORTEST_PATH)
    bound = None if stored else BoundMetric.of(metric, symmetrize=symmetrize)
    if n_landmarks is None:
        share = round(SHARE * n) if metric == SHORTEST_PATH else min(MOST, round(SHARE * n))
        fewest = MOST if bound is not None and callable(bound.metric) else FEWEST
        n_landmarks = min(n, max(fewest, share, 4 * (GLOBAL + NEAR) * k))
    if metric == SHORTEST_PATH:
        ids = _chosen_nodes(X, landmarks, n_landmarks, k, rng)
        levels, like = Levels.draw(ids.size, n_near, k, rng), np.empty(0) if like is None else like
        return _of_graph(X, ids, levels, options, like, reading)
    ids = chosen_rows(X, bound, landmarks, n_landmarks, k, rng)
    levels = Levels.draw(ids.size, n_near, k, rng, min(MOST_GLOBAL, isqrt(20 * n)))
    options = _started(options, ids, levels, n)
    notify(options.callback, f"embedding {levels.sources.size} global landmarks")
    rough = replace(options, tol=ROUGH)
    base = fit_landmarks(X, rough, metric=metric, landmarks=ids[levels.sources], **reading)
    space = None if bound is None else metric_on(bound, X, ids, squared)
    hubs = TwoLevelFit(ids, base.embedding, None, base.n, space, base.metric, levels=levels)
    notify(options.callback, f"embedding {ids.size} landmarks")
    rows, at = (X, ids) if space is None else (taken(X, ids), np.arange(ids.size))
    names = reading.get("columns")
    labels = None if names is None else tuple(str(names[i]) for i in ids)
    return replace(hubs, embedding=replace(_embedded(hubs, rows, at, options), labels=labels))


def embed_rows(
    features: Array, metric: BoundMetric, options: Options, n_pairs: int | None = None
) -> Embedding:
    """Embed rows of features from a sample of pairs; many rows start from two levels.

    Parameters are those of `embed_features`.
    """
    n, k = int(features.shape[0]), least_count(options.n_components)
    given = options.init is not None or options.n_init is not None
    few = n < max(MANY, 4 * (GLOBAL + NEAR) * k) or isinstance(options.n_components, GOALS)
    dear = callable(metric.metric) or is_dask(features)
    if options.loss != "relative" or given or few or dear:
        return embed_features(features, metric, options, n_pairs)
    rough = replace(options, max_iter=None, checkpoint=None)
    fitted = fit_two_levels(features, rough, n_near=None, metric=metric)
    notify(options.callback, f"placing {n} objects")
    x = fitted.place_all(features, fitted=True)
    x = namespace(x).astype(x, namespace(x).float64, copy=False)
    start = Start(x, fitted.embedding.form.in_numpy())
    signature = fitted.embedding.signature
    options = replace(options, n_components=signature, init=start, curvature=0.0)
    return embed_features(features, metric, options, n_pairs)


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
    graph: Any,
    ids: Indices,
    levels: Levels,
    options: Options,
    like: Array,
    reading: dict[str, Any],
) -> NodeFit:
    """Fit landmarks of a graph from paths to global ones and to those that searches find near."""
    n, jobs, sources = int(graph.shape[0]), reading.get("n_jobs"), levels.sources
    paths = np.empty((sources.size, n), np.float32)
    notify(options.callback, f"searching from {sources.size} global landmarks")
    for part, rows in path_blocks(graph, ids[sources], jobs):
        paths[part] = rows
    options = _started(options, ids, levels, n)
    notify(options.callback, f"searching from {ids.size} landmarks")
    near, lengths = nearest_landmarks(graph, ids, levels.n_near, n_jobs=jobs)
    lengths[np.isinf(lengths)] = np.nan
    if options.loss == "relative" and options.floor is None and graph.data.any():
        # Landmarks are farther apart than nodes.
        edges = np.where(graph.data > 0, graph.data, np.inf)
        shortest = np.minimum.reduceat(edges, graph.indptr[:-1])
        options = replace(options, floor=float(np.median(shortest[np.isfinite(shortest)])))
    among = paths[:, ids[sources]].astype(np.float64)
    every = np.arange(sources.size)
    rough = replace(options, tol=ROUGH)
    base = fit_landmarks(among, rough, landmarks=every, symmetrize=True)
    fitted = NodeFit(
        ids, base.embedding, None, n, paths=paths, levels=levels, near=near, lengths=lengths
    )
    notify(options.callback, f"embedding {ids.size} landmarks")
    # Landmarks are compared with all global ones: the searches found these lengths anyway.
    known = np.concatenate([np.tile(sources, (ids.size, 1)), near[ids]], axis=1)
    squares = np.concatenate([paths[:, ids].T, lengths[ids]], axis=1).astype(np.float64) ** 2
    others = np.setdiff1d(np.arange(ids.size), sources)
    far = others[:, None], every
    x = fitted.started(others, known[far], asarray_like(squares[far], like))
    i, j = np.nonzero(np.isfinite(squares))
    pairs = joined(ids.size, i, known[i, j], squares[i, j])
    if ids.size > MANY:
        options = replace(options, max_iter=options.max_iter or ENOUGH)
    x = asarray_like(x, like, namespace(like).float64)
    embedding = embed_hubs(pairs, x, base.embedding, options)
    # Nodes are placed hardly better after more iterations.
    converged = embedding.info.converged or ids.size > MANY
    info = replace(embedding.info, converged=converged)
    return replace(fitted, embedding=replace(embedding, info=info))


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
    if D is not None and is_dask(D):
        raise InputError(f"{two} take D in memory, or features of dask with a metric.")
    if D is not None and D.shape[0] != D.shape[1]:
        raise InputError(
            f"X is {D.shape[0]} × {D.shape[1]}, but {two} take all columns of D; leave "
            f"{option('n_near')} out, or pass metric= if X holds features."
        )
    return NEAR * k if n_near is None else int(n_near)


def _embedded(hubs: TwoLevelFit, rows: Array, at: Indices, options: Options) -> Embedding:
    """Embed all landmarks, rows `at` some numbers, from pairs with global, random and near ones."""
    levels, embedding, everyone = hubs.levels, hubs.embedding, np.arange(hubs.width)

    def asked(i: Indices, j: Indices, pairs: Pairs) -> Pairs:
        i, j = _not_in(pairs, i, j)
        if i.size == 0:  # all are known
            return pairs
        own, starts = np.unique(i, return_index=True)
        ids = np.split(j, starts[1:])
        squares = to_numpy(hubs.own_squares(rows, ids, hubs.landmarks[own], at[own]))
        return joined(hubs.width, i, j, squares, pairs)

    others = np.setdiff1d(everyone, levels.sources)
    parts = levels.parts(others)[:, : round(FAR_GLOBAL * levels.n_global)]
    squares = to_numpy(hubs.own_squares(rows, list(parts), hubs.landmarks[others], at[others]))
    x = hubs.started(others, parts, np.reshape(squares, parts.shape))
    pairs = joined(hubs.width, others.repeat(parts.shape[1]), parts.ravel(), squares)
    rng, n_drawn = check_random_state(options.random_state), round(FAR_DRAWN * levels.n_global)
    drawn = rng.randint(hubs.width, size=hubs.width * n_drawn)
    pairs = asked(everyone.repeat(n_drawn), drawn, pairs)
    for last in (False, True):
        rule = replace(rule_of(embedding), coordinates=x)
        near = NearSearch(rule, levels).nearest(x, everyone[:, None], levels.n_near)
        pairs = asked(everyone.repeat(levels.n_near), near.ravel(), pairs)
        # The first fit only finds the near landmarks.
        steps = options.max_iter if last else min(BRIEF, options.max_iter or BRIEF)
        start = x if on_cpu(rows) else asarray_like(x, rows, namespace(rows).float64)
        embedding = embed_hubs(pairs, start, embedding, replace(options, max_iter=steps))
        x = embedding.coordinates
    return embedding


def embed_hubs(pairs: Pairs, x: Array, fitted: Embedding, options: Options) -> Embedding:
    """Embed landmarks from listed pairs, with signature and curvature of a fit, where x lies."""
    if not fitted.k:
        raise InputError(f"all {fitted.n} global landmarks are in one place; have more landmarks.")
    start = Start(x, fitted.form.in_numpy())
    options = replace(options, n_components=fitted.signature, init=start, curvature=0.0)
    found = embed_pairs(pairs, options, fitted.squared, falling=True)
    x = to_numpy(found.coordinates)
    signs = to_numpy(found.signs)
    form = replace(found.form, signs=signs)
    found = replace(found, coordinates=x, form=form, missing="ignore")
    assert isinstance(found.placement, (LossPlacement, LeastSquaresPlacement))
    if isinstance(found.placement, LossPlacement):
        return replace(found, placement=replace(found.placement, coordinates=x, form=found.form))
    return replace(found, placement=replace(found.placement, coordinates=x, signs=signs))


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
    """Return pairs of two objects that are not known yet, each once, in ascending order."""
    i, j = i[i != j], j[i != j]
    key = np.unique(np.minimum(i, j) * known.n + np.maximum(i, j))
    key = np.setdiff1d(key, known.i * known.n + known.j, assume_unique=True)
    return key // known.n, key % known.n


def _like(ids: Indices, array: Array) -> Array:
    return asarray_like(ids, array, dtype=namespace(array).int64)
