"""Sample pairs that stand for all n(n − 1)/2, and others to measure the fit on.

Every object has far partners of its own, because a fit bends to shared ones. For losses in which
near pairs count, pairs are dense among near objects and thinner farther out. A pair is weighted by
the inverse of the share of its kind that was drawn.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state
from sklearn.utils.random import sample_without_replacement

from neucmds.backend import arrays
from neucmds.backend.arrays import Array, asarray_like, is_dask, namespace, to_numpy
from neucmds.errors import option
from neucmds.problem.calls import pair_of
from neucmds.problem.chunked_rows import ChunkedRows
from neucmds.problem.metrics import (
    BoundMetric,
    FittedMetric,
    fitted_params,
    refuse_calls,
    refuse_undefined,
)
from neucmds.problem.neighbor_search import Found, Search, nearest_rows
from neucmds.problem.pairs import Pairs, make_pairs

Floats = npt.NDArray[Any]
Ints = npt.NDArray[Any]

# Pairs per object, at least.
LEAST_PAIRS = 10
# How much wider every ring is than the one before, counted in objects.
WIDER = 4
# Objects that far partners are drawn from, at least, where near pairs do not count.
SOURCES = 4000
# Different sets of far partners; objects are spread over them at random.
WINDOWS = 40
# Objects by which a fit is measured, and partners of each; of dask it is the other way round.
CHECKED = 2000
PARTNERS = 10
# An object, others, and their dissimilarities.
Check = tuple[int, Ints, Floats]


@dataclass(frozen=True, eq=False)
class PairSample:
    """Pairs that stand for all, landmarks to start from, and pairs drawn to measure a fit on."""

    # Weighted by the inverse of the share that was drawn.
    pairs: Pairs
    # Some objects, and the dissimilarities of every object (row) to every one of them, unsquared.
    landmarks: Ints
    to_landmarks: Floats
    # Objects drawn alike, each with others drawn alike; some of these pairs may be in the sample.
    checks: Iterable[Check]


@dataclass(frozen=True)
class Sizes:
    """How many partners of each kind an object has."""

    # Of its own among the sources: 2 n_far pairs per object, counted over both orders.
    n_far: int
    n_near: int = 0
    # Pairs in every ring, from some number of nearest objects to four times as many.
    n_ring: int = 0

    @classmethod
    def of(cls, n_pairs: int, n: int, loss: str = "squared") -> Sizes:
        """Split a number of pairs per object, counted over both orders.

        For the squared loss, in which near pairs hardly count, all are far; else three fifths are.
        """
        if loss == "squared":
            return cls(min(n, round(0.5 * n_pairs)))
        near = max(2, round(0.12 * n_pairs))
        return cls(min(n, max(2, round(0.3 * n_pairs))), near, near)

    def n_sources(self, n: int) -> int:
        """How many objects the far partners of all are drawn from."""
        return min(n, max(4 * self.n_far, 0 if self.n_near else SOURCES))

    def rings(self, n: int) -> list[tuple[int, int]]:
        """How far, counted in objects, and from how many objects to search in every ring."""
        rings = []
        reach = WIDER * self.n_near
        while self.n_ring and reach < n:
            # Of the objects in reach, 1 − 1/4 are in this ring, and a pair is found from both ends.
            size = round(n * self.n_ring / (2 * (1 - 1 / WIDER) * reach))
            # A ring with as many searches as there are sources adds no pairs to the far ones.
            if size <= self.n_sources(n):
                break
            rings.append((reach, min(size, n)))
            reach *= WIDER
        return rings


@dataclass(frozen=True, eq=False)
class Windows:
    """Which sources are far partners of which object: a random part for each."""

    # All objects at random, the sources first.
    drawn: Ints
    # The window of every object, and where among the sources each window begins.
    group: Ints
    starts: Ints
    n_far: int
    n_sources: int

    @classmethod
    def draw(cls, n: int, sizes: Sizes, rng: np.random.RandomState) -> Windows:
        """Draw sources, and spread the objects over windows of them."""
        sources = sizes.n_sources(n)
        drawn = rng.permutation(n)
        count = min(WINDOWS, sources)
        starts = np.arange(count) * sources // count
        return cls(drawn, rng.permutation(n) % count, starts, sizes.n_far, sources)

    @property
    def sources(self) -> Ints:
        """The objects that far partners are drawn from."""
        return self.drawn[: self.n_sources]

    @property
    def places(self) -> Ints:
        """Numbers among the sources of the partners in every window, one row each."""
        return (self.starts[:, None] + np.arange(self.n_far)) % self.n_sources

    def members(self, window: int) -> Ints:
        """Objects whose far partners are in a window."""
        return np.flatnonzero(self.group == window)

    def having(self, place: int) -> Ints:
        """Objects that have this one of the sources as a partner."""
        inside = (place - self.starts) % self.n_sources < self.n_far
        return np.flatnonzero(inside[self.group])

    @property
    def share(self) -> float:
        """Share of all pairs that are far ones; two sources may be partners of each other."""
        n = self.drawn.size
        sources = self.n_sources
        share = self.n_far / sources
        drawn = sources * (n - sources) * share
        drawn += sources * (sources - 1) * (share - share * share / 2)
        return 2 * drawn / (n * (n - 1))


def drawn_pairs(
    n: int, sizes: Sizes, windows: Windows, far: Sequence[Found], nearest: Search
) -> Pairs:
    """Put near pairs, rings and far pairs together, in the library of the far ones."""
    parts: list[tuple[Array, Array, Array, float]] = []
    if sizes.n_near:
        parts.append((*nearest(min(sizes.n_near, n - 1), None), 1.0))
        for reach, size in sizes.rings(n):
            parts.append((*nearest(reach, windows.drawn[:size]), 1 / _share(size, n)))
    parts += [(*pairs, 1 / windows.share) for pairs in far]
    return _first_of(n, parts)


def feature_pairs(
    features: Any,
    metric: Any = "euclidean",
    *,
    sizes: Sizes,
    n_landmarks: int,
    metric_params: dict[str, Any] | None = None,
    random_state: Any = None,
) -> PairSample:
    """Choose pairs of feature rows that stand for all of them, and compute their dissimilarities.

    Features are of NumPy, of dask (compared on the workers) or of another library (on its device).
    The metric is one of the registry, or for NumPy and dask one of
    `sklearn.neighbors.NearestNeighbors`; a callable takes two rows of these, and two blocks of rows
    of other libraries. For more than 20,000 rows of NumPy pynndescent finds 98 % of the nearest, if
    it is installed and knows the metric. All objects are compared with `n_landmarks`, for a start.
    """
    n = int(features.shape[0])
    rng = check_random_state(random_state)
    windows = Windows.draw(n, sizes, rng)
    landmarks = np.sort(windows.drawn[:n_landmarks])
    named = option("metric", metric)
    nearest: Search
    if is_dask(features):
        rows = ChunkedRows.of(features, metric, metric_params).persisted()
        nearest = rows.nearest
        between = rows.to(rows.take(landmarks))
        refuse_undefined(between, named, range(n), landmarks)
        far = list(_far_chunks(rows, windows))
        pairs = drawn_pairs(n, sizes, windows, far, nearest)
        checks = list(_checked_chunks(n, rows, rng))
        return PairSample(pairs, landmarks, between.astype(np.float64), checks)
    bound = BoundMetric(metric, fitted_params(metric, features, metric_params or {}))
    nearest = nearest_rows(features, metric, bound.params, random_state=rng)
    between = bound.fitted_to(_taken(features, landmarks)).between(features)
    xp = namespace(between)
    between = xp.astype(between, xp.float64, copy=False)
    refuse_undefined(between, named, range(n), landmarks)
    far = list(_far_rows(features, bound, windows))
    pairs = drawn_pairs(n, sizes, windows, far, nearest)
    checks = list(_checked_rows(features, bound, rng))
    return PairSample(pairs, landmarks, to_numpy(between), checks)


def called_pairs(
    space: FittedMetric,
    n_pairs: int,
    *,
    n_landmarks: int,
    near: bool,
    random_state: Any = None,
) -> PairSample:
    """Choose about n·n_pairs/2 pairs for a user's function, one call each.

    Up to half of them compare all objects with landmarks. With `near`, half of the others join
    objects with similar dissimilarities to the landmarks, and the rest is random. The fit is
    measured on 8 % more.
    """
    called = space.called
    points = space.points
    rng = check_random_state(random_state)
    assert called is not None
    refuse_calls(called, points.left)
    n = int(points.left.shape[0])
    drawn = rng.permutation(n)
    budget = n * n_pairs // 2
    landmarks = np.sort(drawn[: min(n_landmarks, n_pairs // 4)])
    others = np.setdiff1d(np.arange(n), landmarks)
    width = landmarks.size
    to_landmarks = np.empty((n, width))
    for some in (landmarks, others):
        to_landmarks[some] = space.dissimilarities(points[some], points[landmarks])
        refuse_undefined(to_landmarks[some], called.__name__, some, landmarks)
    low, high = np.triu_indices(width, 1)
    ends = np.concatenate([landmarks[low], others.repeat(width)])
    back = np.concatenate([landmarks[high], np.tile(landmarks, others.size)])
    lengths = np.concatenate([to_landmarks[landmarks[low], high], to_landmarks[others].ravel()])
    left = max(0, budget - lengths.size)
    if near:
        parts = _near_ends(to_landmarks, drawn, left / n, rng)
    else:
        parts = []
    i, j, weight = _joined_ends(n, others, parts, left, rng)
    more = space.paired(points, points, i, j)
    columns = ([ends, i], [back, j], [lengths, more], [np.ones(lengths.size), weight])
    pairs = make_pairs(n, *(np.concatenate(column) for column in columns), sampled=True)
    objects = rng.permutation(n)[: min(CHECKED, max(1, budget // (12 * PARTNERS)))]
    partners = _others(n, objects, PARTNERS, rng)
    made = space.paired(points, points, objects.repeat(PARTNERS), partners.ravel())
    checks = list(zip(objects.tolist(), partners, made.reshape(partners.shape), strict=True))
    return PairSample(pairs, landmarks, to_landmarks, checks)


def _near_ends(
    to_landmarks: Floats, drawn: Ints, most: float, rng: np.random.RandomState
) -> list[tuple[Ints, Ints, float]]:
    """List near pairs and rings by dissimilarities to landmarks: half of `most` per object."""
    n = int(to_landmarks.shape[0])
    near = max(2, int(most / 4))
    rings: list[tuple[int, int]] = []
    for _ in range(3):
        rings = Sizes(max(2, int(most / 2)), near, near).rings(n)
        # Both orders of a ring's pairs are counted.
        near = max(2, int(most / 2 / (1 + len(rings) / 1.5)))
    search = nearest_rows(to_landmarks, "euclidean", random_state=rng)
    parts = [(*search(min(near, n - 1), None)[:2], 1.0)]
    for reach, size in rings:
        parts.append((*search(reach, drawn[:size])[:2], 1 / _share(size, n)))
    return parts


def _joined_ends(
    n: int,
    others: Ints,
    parts: list[tuple[Ints, Ints, float]],
    most: int,
    rng: np.random.RandomState,
) -> tuple[Ints, Ints, Floats]:
    """Return near pairs without landmarks, each once, and random ones, up to `most` in all."""
    none = np.zeros(0, dtype=np.int64)
    i, j = (np.concatenate([none, *(part[at] for part in parts)]) for at in (0, 1))
    weight = np.concatenate([none, *(np.full(part[0].size, part[2]) for part in parts)])
    kept = np.flatnonzero((i != j) & np.isin(i, others) & np.isin(j, others))
    key, first = np.unique((np.minimum(i, j) * n + np.maximum(i, j))[kept], return_index=True)
    total = others.size * (others.size - 1) // 2
    count = min(total, max(0, most - key.size))
    numbers = sample_without_replacement(total, count, random_state=rng)
    low, high = pair_of(others.size, numbers)
    far = np.setdiff1d(others[low] * n + others[high], key)
    both = np.concatenate([key, far])
    weights = np.concatenate([weight[kept][first], np.full(far.size, total / max(1, count))])
    return both // n, both % n, weights


def _taken(features: Array, rows: Ints) -> Array:
    """Return some rows."""
    xp = namespace(features)
    return xp.take(features, asarray_like(rows, features, dtype=xp.int64), axis=0)


def _far_rows(features: Array, bound: BoundMetric, windows: Windows) -> Iterator[Found]:
    """Compare objects with their far partners, window by window."""
    for window, places in enumerate(windows.places):
        own = windows.members(window)
        if own.size:
            partners = windows.sources[places]
            space = bound.fitted_to(_taken(features, partners))
            yield _ends(space.between(_taken(features, own)), own, partners, bound.metric)


def _far_chunks(rows: ChunkedRows, windows: Windows) -> Iterator[Found]:
    """Compare objects with their far partners on the workers, all at once."""
    made = rows.to(rows.take(windows.sources), windows.places[windows.group])
    for window, places in enumerate(windows.places):
        own = windows.members(window)
        if own.size:
            yield _ends(made[own], own, windows.sources[places], rows.metric)


def _ends(made: Array, own: Ints, partners: Ints, metric: Any) -> Found:
    """List the dissimilarities of some objects to the same partners."""
    xp = namespace(made)
    refuse_undefined(made, option("metric", metric), own, partners)
    i = asarray_like(np.repeat(own, partners.size), made, dtype=xp.int64)
    j = asarray_like(np.tile(partners, own.size), made, dtype=xp.int64)
    return i, j, xp.astype(xp.reshape(made, (-1,)), xp.float64, copy=False)


def _checked_rows(
    features: Array, bound: BoundMetric, rng: np.random.RandomState
) -> Iterator[Check]:
    """Compare objects drawn at random with others drawn for each."""
    n = int(features.shape[0])
    objects = rng.permutation(n)[:CHECKED]
    others = _others(n, objects, PARTNERS, rng)
    ids = np.concatenate([objects[:, None], others], axis=1)
    space = bound.fitted_to(_taken(features, ids.ravel()))
    for row, (center, partners) in enumerate(zip(objects.tolist(), others, strict=True)):
        first = row * ids.shape[1]
        points = space.points[first : first + ids.shape[1]]
        made = space.dissimilarities(points[:1], points[1:])
        yield center, partners, to_numpy(made)[0].astype(np.float64)


def _checked_chunks(n: int, rows: ChunkedRows, rng: np.random.RandomState) -> Iterator[Check]:
    """Compare few objects with many: rows of the others stay on the workers."""
    objects = rng.permutation(n)[: CHECKED // 20]
    others = _others(n, objects, 20 * PARTNERS, rng)
    between = rows.to(rows.take(objects))
    for column, (center, partners) in enumerate(zip(objects.tolist(), others, strict=True)):
        yield center, partners, between[partners, column]


def _others(n: int, objects: Ints, count: int, rng: np.random.RandomState) -> Ints:
    """Draw other objects for some."""
    others = rng.randint(n - 1, size=(objects.size, count))
    return np.asarray(others + (others >= objects[:, None]))


def _share(size: int, n: int) -> float:
    """Return the share of all pairs that have at least one of some objects drawn."""
    return 1 - (n - size) * (n - size - 1) / (n * (n - 1))


def _first_of(n: int, parts: list[tuple[Array, Array, Array, float]]) -> Pairs:
    """Put pairs of several kinds together; of those listed twice the first counts."""
    xp = namespace(parts[0][2])
    where = arrays.device(parts[0][2])
    i, j, length = (xp.concat([part[at] for part in parts]) for at in range(3))
    weight = xp.concat(
        [xp.full(part[2].shape, part[3], dtype=xp.float64, device=where) for part in parts]
    )
    low = xp.astype(xp.minimum(i, j), xp.int64)
    high = xp.astype(xp.maximum(i, j), xp.int64)
    key = low * n + high
    order = xp.argsort(key, stable=True)
    key = xp.take(key, order, axis=0)
    first = xp.concat([order[:1], order[1:][key[1:] != key[:-1]]])
    first = first[xp.take(low, first, axis=0) != xp.take(high, first, axis=0)]
    if n < 2**31:
        index = xp.int32
    else:
        index = xp.int64
    columns = [xp.astype(low, index), xp.astype(high, index), length, weight]
    columns = [to_numpy(xp.take(column, first, axis=0)) for column in columns]
    lowest, highest = arrays.min_and_max(length)
    if not 0 <= lowest <= highest < math.sqrt(sys.float_info.max):
        return make_pairs(n, *columns, sampled=True)  # it says what is wrong
    low, high, length, weight = columns
    return Pairs(n, low, high, np.square(length, dtype=np.float64), weight, sampled=True)
