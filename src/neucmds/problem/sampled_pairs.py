"""Sample pairs that stand for all n(n − 1)/2, and others to measure the fit on.

Every object has far partners of its own, because a fit bends to shared ones. For losses in which
near pairs count, pairs are dense among near objects and thinner farther out. A pair is weighted by
the inverse of the share of its kind that was drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state
from sklearn.utils.random import sample_without_replacement

from neucmds.backend.arrays import (
    Array,
    index_like,
    namespace,
    taken,
    to_numpy,
)
from neucmds.problem.metrics import Metric, refuse_undefined
from neucmds.problem.neighbor_search import Found, Search, nearest_rows
from neucmds.problem.pairs import Pairs, make_pairs
from neucmds.problem.validation import refuse_range

Floats = npt.NDArray[Any]
Ints = npt.NDArray[Any]

# How much wider every ring is than the one before, counted in objects.
WIDER = 4
# Objects that far partners are drawn from, at least, where near pairs do not count.
SOURCES = 4000
# Different sets of far partners; objects are spread over them at random.
WINDOWS = 40
# Objects by which a fit is measured, and partners of each.
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


@dataclass(frozen=True, eq=False)
class Sampling:
    """Which pairs stand for all: far partners of every object, its nearest, and rings around it."""

    # Far partners of every object: twice as many pairs per object, counted over both orders.
    n_far: int
    # Nearest of every object, and as many pairs per object in every ring.
    n_near: int
    # All objects at random, the sources of far partners first.
    drawn: Ints
    # The window of sources that every object has for far partners.
    window: Ints

    @classmethod
    def of(
        cls, n: int, n_pairs: float, loss: str, rng: np.random.RandomState
    ) -> Sampling:
        """Split a number of pairs per object, counted over both orders, and draw.

        For the squared loss, in which near pairs hardly count, all are far; else three fifths are.
        """
        n_far = round(0.5 * n_pairs)
        n_near = 0
        if loss != "squared":
            n_far = max(2, round(0.3 * n_pairs))
            n_near = max(2, round(0.12 * n_pairs))
        sampling = cls(
            min(n, n_far), n_near, rng.permutation(n), rng.permutation(n)
        )
        window = sampling.window % len(sampling.numbers)
        return replace(sampling, window=window)

    @property
    def n(self) -> int:
        """Number of objects."""
        return int(self.drawn.size)

    @property
    def sources(self) -> Ints:
        """Objects that the far partners of all are drawn from."""
        least = SOURCES
        if self.n_near:
            least = 0
        return self.drawn[: max(4 * self.n_far, least)]

    @cached_property
    def numbers(self) -> Ints:
        """Numbers among the sources of the partners in every window."""
        n_sources = self.sources.size
        count = min(WINDOWS, n_sources)
        starts = np.arange(count) * n_sources // count
        return (starts[:, None] + np.arange(self.n_far)) % n_sources

    def rings(self) -> list[tuple[int, int]]:
        """How far, counted in objects, and from how many objects to search in every ring."""
        rings = []
        reach = WIDER * self.n_near
        while 0 < reach < self.n:
            # Of the objects in reach, 1 − 1/4 are in this ring, and a pair is found from both ends.
            size = round(self.n * self.n_near / (2 * (1 - 1 / WIDER) * reach))
            # A ring with as many searches as there are sources adds no pairs to the far ones.
            if size <= self.sources.size:
                break
            rings.append((reach, min(size, self.n)))
            reach *= WIDER
        return rings

    def having(self, number: int) -> Ints:
        """Objects that have this one of the sources as a partner."""
        inside = (self.numbers == number).any(axis=1)
        return np.flatnonzero(inside[self.window])

    def members(self) -> Iterator[tuple[Ints, Ints]]:
        """Objects of every window, and their partners."""
        for window, numbers in enumerate(self.numbers):
            objects = np.flatnonzero(self.window == window)
            if objects.size:
                yield objects, self.sources[numbers]

    @property
    def share(self) -> float:
        """Share of all pairs that are far ones; two sources may be partners of each other."""
        n = self.n
        n_sources = self.sources.size
        share = self.n_far / n_sources
        far = n_sources * (n - n_sources) * share
        far += n_sources * (n_sources - 1) * (share - share * share / 2)
        return float(2 * far / (n * (n - 1)))


def drawn_pairs(
    sampling: Sampling, far: list[Found], nearest: Search
) -> Pairs:
    """Put near pairs, rings and far pairs together, in the library of their lengths.

    Of pairs listed twice the first counts.
    """
    n = sampling.n
    parts = []
    if sampling.n_near:
        parts.append((nearest(min(sampling.n_near, n - 1), None), 1.0))
    for reach, size in sampling.rings():
        # All pairs that have at least one of the objects drawn.
        share = 1 - (n - size) * (n - size - 1) / (n * (n - 1))
        parts.append((nearest(reach, sampling.drawn[:size]), 1 / share))
    parts += [(pairs, 1 / sampling.share) for pairs in far]
    xp = namespace(parts[-1][0][2])
    i, j, length = (
        xp.concat([pairs[column] for pairs, _ in parts]) for column in range(3)
    )
    weight = xp.concat(
        [
            xp.full_like(pairs[2], each, dtype=xp.float64)
            for pairs, each in parts
        ]
    )
    low = xp.astype(xp.minimum(i, j), xp.int64)
    high = xp.astype(xp.maximum(i, j), xp.int64)
    # Sorted where the pairs are: of 16 million, NumPy would take as long as a GPU for the fit.
    key = low * n + high
    order = xp.argsort(key, stable=True)
    key = key[order]
    first = xp.concat([order[:1], order[1:][key[1:] != key[:-1]]])
    first = first[low[first] != high[first]]
    low, high, length, weight = (
        to_numpy(each[first]) for each in (low, high, length, weight)
    )
    refuse_undefined(length, "the metric", low, high)
    refuse_range(float(length.max()), squared=False)
    low = low.astype(np.int32)
    high = high.astype(np.int32)
    return Pairs(
        n, low, high, np.square(length, dtype=np.float64), weight, sampled=True
    )


def feature_pairs(
    features: Any,
    metric: Any,
    n_pairs: int,
    loss: str,
    *,
    n_landmarks: int,
    random_state: Any = None,
) -> PairSample:
    """Choose pairs of feature rows that stand for all of them, and compute their dissimilarities.

    Features are of NumPy or of another library (compared on its device). The metric is one of the
    registry, or for NumPy one of `sklearn.neighbors.NearestNeighbors`; a callable takes two blocks
    of rows of other libraries. For more than 20,000 rows of NumPy pynndescent finds 98 % of the
    nearest, if it is installed and knows the metric. All objects are compared with `n_landmarks`,
    for a start.
    """
    n = int(features.shape[0])
    rng = check_random_state(random_state)
    sampling = Sampling.of(n, n_pairs, loss, rng)
    landmarks = np.sort(sampling.drawn[:n_landmarks])
    metric = Metric.of(metric).estimated(features)
    to_landmarks = metric.fitted_to(taken(features, landmarks)).between(
        features
    )
    refuse_undefined(to_landmarks, metric.name, range(n), landmarks)
    far = []
    for objects, partners in sampling.members():
        space = metric.fitted_to(taken(features, partners))
        block = space.between(taken(features, objects))
        xp = namespace(block)
        i = index_like(np.repeat(objects, partners.size), block)
        j = index_like(np.tile(partners, objects.size), block)
        far.append(
            (i, j, xp.astype(xp.reshape(block, (-1,)), xp.float64, copy=False))
        )
    nearest = nearest_rows(features, metric, random_state=rng)
    pairs = drawn_pairs(sampling, far, nearest)
    lengths = to_numpy(to_landmarks).astype(np.float64, copy=False)
    checks = list(_checked_rows(features, metric, rng))
    return PairSample(pairs, landmarks, lengths, checks)


def called_pairs(
    space: Metric,
    n_pairs: int,
    loss: str,
    *,
    n_landmarks: int,
    random_state: Any = None,
) -> PairSample:
    """Choose about n·n_pairs/2 pairs for a user's function, one call each.

    Up to half of them compare all objects with landmarks. Where near pairs count, some of the
    others join objects with similar dissimilarities to the landmarks; the rest is random. The fit
    is measured on 8 % more.
    """
    points = space.points
    rng = check_random_state(random_state)
    space.refuse_function()
    n = int(points.shape[0])
    drawn = rng.permutation(n)
    budget = n * n_pairs // 2
    landmarks = np.sort(drawn[: min(n_landmarks, n_pairs // 4)])
    others = np.setdiff1d(np.arange(n), landmarks)
    width = landmarks.size
    to_landmarks = np.empty((n, width))
    for rows in (landmarks, others):
        to_landmarks[rows] = space.dissimilarities(
            points[rows], points[landmarks]
        )
        refuse_undefined(to_landmarks[rows], space.name, rows, landmarks)
    left = max(0, budget - width * (width - 1) // 2 - others.size * width)
    key = np.empty(0, dtype=np.int64)
    weight = np.empty(0)
    if loss != "squared":
        sampling = Sampling.of(n, left / n, loss, rng)
        search = nearest_rows(to_landmarks, "euclidean", random_state=rng)
        near = drawn_pairs(sampling, [], search)
        unknown = np.isin(near.i, others) & np.isin(near.j, others)
        key = near.i[unknown].astype(np.int64) * n + near.j[unknown]
        weight = near.weights[unknown]
    total = others.size * (others.size - 1) // 2
    count = min(total, max(0, left - key.size))
    low, high = _pair_of(
        others.size, sample_without_replacement(total, count, random_state=rng)
    )
    random = np.setdiff1d(others[low] * n + others[high], key)
    i, j = np.divmod(np.concatenate([key, random]), n)
    lengths = space.paired(points, points, i, j)
    refuse_undefined(lengths, space.name, i, j)
    random_weight = np.full(random.size, total / max(1, count))
    pairs = make_pairs(
        n,
        np.concatenate([np.arange(n).repeat(width), i]),
        np.concatenate([np.tile(landmarks, n), j]),
        np.concatenate([to_landmarks.ravel(), lengths]),
        np.concatenate([np.ones(to_landmarks.size), weight, random_weight]),
        sampled=True,
    )
    objects = rng.permutation(n)[
        : min(CHECKED, max(1, budget // (12 * PARTNERS)))
    ]
    partners = _others(n, objects, PARTNERS, rng)
    checked = space.paired(
        points, points, objects.repeat(PARTNERS), partners.ravel()
    )
    checks = list(
        zip(
            objects.tolist(),
            partners,
            checked.reshape(partners.shape),
            strict=True,
        )
    )
    return PairSample(pairs, landmarks, to_landmarks, checks)


def _pair_of(n: int, number: Ints) -> tuple[Ints, Ints]:
    """Return both ends of pairs i < j by their number in the order of a condensed matrix."""
    each = np.arange(n - 1)
    first = each * n - each * (each + 1) // 2
    i = np.searchsorted(first, number, side="right") - 1
    return i, number - first[i] + i + 1


def _checked_rows(
    features: Array, metric: Metric, rng: np.random.RandomState
) -> Iterator[Check]:
    """Compare objects drawn at random with others drawn for each."""
    n, d = features.shape
    objects = rng.permutation(n)[:CHECKED]
    others = _others(n, objects, PARTNERS, rng)
    ids = np.concatenate([objects[:, None], others], axis=1)
    blocks = taken(features, ids.ravel()).reshape((*ids.shape, d))
    for center, partners, block in zip(
        objects.tolist(), others, blocks, strict=True
    ):
        lengths = metric.fitted_to(block[1:, :]).between(block[:1, :])
        yield center, partners, to_numpy(lengths)[0].astype(np.float64)


def _others(
    n: int, objects: Ints, count: int, rng: np.random.RandomState
) -> Ints:
    """Draw other objects for some."""
    others = rng.randint(n - 1, size=(objects.size, count))
    return np.asarray(others + (others >= objects[:, None]))
