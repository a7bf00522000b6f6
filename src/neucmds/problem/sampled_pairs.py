"""Sample pairs that stand for all n(n − 1)/2, and others to measure the fit on.

Objects have different far partners: with the same ones for all, only distances to these would fit
well. For losses in which near pairs count, near objects are paired more often than far ones. The
weight of a pair is the inverse of the share of its kind (far, near, a ring) that was drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.random import sample_without_replacement

from neucmds.backend.arrays import (
    Array,
    Floats,
    Numbers,
    in_double,
    index_like,
    namespace,
    taken,
    to_numpy,
)
from neucmds.problem.metrics import Metric, refuse_undefined
from neucmds.problem.neighbor_search import (
    ListedLengths,
    NearestSearch,
    nearest_rows,
)
from neucmds.problem.pairs import Pairs
from neucmds.problem.validation import refuse_range

# Each ring around an object reaches WIDER times as many nearest objects as the one inside it.
WIDER = 4
# Least number of sources, the objects that others have as far partners, for the squared loss.
SOURCES = 4000
# Sets of sources. Each object belongs to one window, whose sources are its far partners.
WINDOWS = 40
# Objects by which a fit is measured, and partners of each.
CHECKED = 2000
PARTNERS = 10
# To measure a fit on: an object, its partners, and the squared dissimilarities to these.
Check = tuple[int, Numbers, Floats]


def flat_checks(checks: Iterable[Check]) -> tuple[Numbers, Numbers, Floats]:
    """Return both objects of every pair that measures a fit, and the squared dissimilarities."""
    objects, others, squares = zip(*checks, strict=True)
    sizes = [len(partners) for partners in others]
    return (
        np.repeat(objects, sizes),
        np.concatenate(others),
        np.concatenate(squares),
    )


@dataclass(frozen=True, eq=False)
class PairSample:
    """Pairs that stand for all, landmarks to start from, and pairs drawn to measure a fit on."""

    # Weighted by the inverse of the share that was drawn.
    pairs: Pairs
    # Row numbers of L objects, and d, unsquared, of all objects to them (n, L).
    landmarks: Numbers
    to_landmarks: Floats
    # Pairs drawn uniformly from all, to measure a fit on; some may be in `pairs`, too.
    checks: Iterable[Check]


@dataclass(frozen=True, eq=False)
class Sampling:
    """Which pairs stand for all: far partners of every object, its nearest, and rings around it."""

    # Number of far partners of each object.
    n_far: int
    # Number of nearest objects that each is paired with, and mean number of its pairs in a ring.
    n_near: int
    # All objects in random order: the first are the sources of far partners.
    shuffled: Numbers
    # A random rank of each object, by which objects get their windows.
    rank: Numbers

    @classmethod
    def of(
        cls, n: int, n_pairs: float, loss: str, rng: np.random.RandomState
    ) -> Sampling:
        """Divide n·n_pairs/2 pairs into far and near ones, and draw sources and windows.

        For the squared loss, in which near pairs hardly count, all are far; else three fifths are.
        """
        n_far = round(0.5 * n_pairs)
        n_near = 0
        if loss != "squared":
            n_far = max(2, round(0.3 * n_pairs))
            # What .3 and .12 leave of the .5 is for rings.
            n_near = max(2, round(0.12 * n_pairs))
        shuffled = rng.permutation(n)
        rank = rng.permutation(n)
        return cls(min(n, n_far), n_near, shuffled, rank)

    @property
    def n(self) -> int:
        """Number of objects."""
        return int(self.shuffled.size)

    @property
    def sources(self) -> Numbers:
        """Objects that the far partners of all are drawn from: four times as many as each has."""
        least = SOURCES
        # For other losses than the squared one.
        if self.n_near:
            least = 0
        return self.shuffled[: max(4 * self.n_far, least)]

    @cached_property
    def window_sources(self) -> Numbers:
        """Positions in `sources` of the n_far sources of each window (row).

        Windows begin at even distances along the sources; the last go on with the first source.
        """
        n_sources = self.sources.size
        count = min(WINDOWS, n_sources)
        starts = np.arange(count) * n_sources // count
        return (starts[:, None] + np.arange(self.n_far)) % n_sources

    @cached_property
    def window(self) -> Numbers:
        """For each object, the row of `window_sources` with its far partners; all equally often."""
        return self.rank % len(self.window_sources)

    def rings(self) -> list[tuple[int, int]]:
        """For each ring: how many nearest objects it reaches, and how many objects search it."""
        rings = []
        reach = WIDER * self.n_near
        while 0 < reach < self.n:
            # The ring is what is within reach, without the nearest that the ring inside reaches.
            in_ring = (1 - 1 / WIDER) * reach
            pairs_wanted = self.n * self.n_near / 2
            searches = round(pairs_wanted / in_ring)
            # The searchers must include all sources, which are the first of `shuffled`, too: then
            # far pairs within reach are pairs of the ring, and do not count twice.
            if searches <= self.sources.size:
                break
            rings.append((reach, min(searches, self.n)))
            reach *= WIDER
        return rings

    def objects_of(self, position: int) -> Numbers:
        """Objects that have the source at this position of `sources` as a far partner."""
        has_source = (self.window_sources == position).any(axis=1)
        return np.flatnonzero(has_source[self.window])

    def members(self) -> Iterator[tuple[Numbers, Numbers]]:
        """For each window: its objects, and the far partners of all of these."""
        for window, positions in enumerate(self.window_sources):
            objects = np.flatnonzero(self.window == window)
            if objects.size:
                yield objects, self.sources[positions]

    @property
    def far_share(self) -> float:
        """Expected share of all pairs that are listed as far ones.

        With p the chance that a source is a partner of an object, a pair is listed with the chance
        p if one of the two is a source, and 1 − (1 − p)² if both are.
        """
        n = self.n
        n_sources = self.sources.size
        p = self.n_far / n_sources
        # Pairs of which one object is a source, and of which both are.
        one_source = n_sources * (n - n_sources)
        two_sources = n_sources * (n_sources - 1) / 2
        far = one_source * p + two_sources * (1 - (1 - p) ** 2)
        all_pairs = n * (n - 1) / 2
        return float(far / all_pairs)


def near_pairs(
    sampling: Sampling, nearest: NearestSearch
) -> Iterator[tuple[ListedLengths, float]]:
    """Yield kinds of pairs with their weight: of all objects, and of some for each ring.

    Those of a ring are with all objects within its reach. `drawn_pairs` keeps the first of equal
    pairs, which leaves of these the ring.
    """
    n = sampling.n
    if sampling.n_near:
        yield nearest(min(sampling.n_near, n - 1), None), 1.0
    for reach, searches in sampling.rings():
        # A pair is listed unless neither of its objects searches.
        idle = n - searches
        weight = 1 / (1 - idle * (idle - 1) / (n * (n - 1)))
        yield nearest(reach, sampling.shuffled[:searches]), weight


def drawn_pairs(
    n: int, kinds: Iterable[tuple[ListedLengths, float | Floats]]
) -> Pairs:
    """Put kinds of pairs (i, j, d), each with one weight or one for each pair, together.

    Of a pair that is listed twice, the first d and weight count.
    """
    listed, weights = zip(*kinds, strict=True)
    i_parts, j_parts, lengths = zip(*listed, strict=True)
    xp = namespace(lengths[0])
    weight = xp.concat(
        [
            xp.zeros_like(d, dtype=xp.float64) + kind_weight
            for d, kind_weight in zip(lengths, weights, strict=True)
        ]
    )
    i = xp.concat(i_parts)
    j = xp.concat(j_parts)
    length = xp.concat(lengths)
    low = xp.astype(xp.minimum(i, j), xp.int64)
    high = xp.astype(xp.maximum(i, j), xp.int64)
    # Sorted on the device of the pairs: NumPy takes as long for 16 million as a GPU for the fit.
    key = low * n + high
    order = xp.argsort(key, stable=True)
    key = key[order]
    # The first of equal keys, without pairs of an object with itself.
    first = xp.concat([order[:1], order[1:][key[1:] != key[:-1]]])
    first = first[low[first] != high[first]]
    low, high, length, weight = (
        to_numpy(column[first]) for column in (low, high, length, weight)
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

    Features of another array library than NumPy are compared on its device. The metric is one that
    `Metric` takes, and one by which `nearest_rows` finds neighbours. All objects are compared with
    `n_landmarks` landmarks, from which a fit starts.
    """
    n = features.shape[0]
    rng = check_random_state(random_state)
    sampling = Sampling.of(n, n_pairs, loss, rng)
    landmarks = np.sort(sampling.shuffled[:n_landmarks])
    metric = Metric.of(metric).estimated(features)
    to_landmarks = metric.fitted_to(taken(features, landmarks)).between(
        features
    )
    refuse_undefined(to_landmarks, metric.name, range(n), landmarks)
    far = []
    for objects, partners in sampling.members():
        to_partners = metric.fitted_to(taken(features, partners))
        block = to_partners.between(taken(features, objects))
        xp = namespace(block)
        i = index_like(np.repeat(objects, partners.size), block)
        j = index_like(np.tile(partners, objects.size), block)
        lengths = xp.reshape(block, (-1,))
        far.append(((i, j, in_double(lengths)), 1 / sampling.far_share))
    nearest = nearest_rows(features, metric, random_state=rng)
    pairs = drawn_pairs(n, [*near_pairs(sampling, nearest), *far])
    to_landmarks = in_double(to_numpy(to_landmarks))
    checks = list(_checked_rows(features, metric, rng))
    return PairSample(pairs, landmarks, to_landmarks, checks)


def called_pairs(
    space: Metric,
    n_pairs: int,
    loss: str,
    *,
    n_landmarks: int,
    random_state: Any = None,
) -> PairSample:
    """Choose about n·n_pairs/2 pairs for a user's function, one call each.

    At most half of them compare all objects with landmarks. Where near pairs count, others join
    objects with similar dissimilarities to the landmarks; the rest is random. The fit is measured
    on 8 % more pairs.
    """
    points = space.points
    rng = check_random_state(random_state)
    n = points.shape[0]
    shuffled = rng.permutation(n)
    calls = n * n_pairs // 2
    # The function is called some times to check it.
    calls_made = space.refuse_function()
    # So many that n·n_pairs/4 calls, half of all, suffice for these.
    landmarks = np.sort(shuffled[: min(n_landmarks, n_pairs // 4)])
    others = np.setdiff1d(np.arange(n), landmarks)
    n_landmarks = landmarks.size
    to_landmarks = np.empty((n, n_landmarks))
    # Landmarks by themselves: among the same objects `dissimilarities` calls each pair once.
    for rows in (landmarks, others):
        to_landmarks[rows] = space.dissimilarities(
            points[rows], points[landmarks]
        )
        refuse_undefined(to_landmarks[rows], space.name, rows, landmarks)
    calls_made += n_landmarks * (n_landmarks - 1) // 2
    calls_made += others.size * n_landmarks
    calls_left = max(0, calls - calls_made)
    near_keys = np.empty(0, dtype=np.int64)
    near_weights = np.empty(0)
    if loss != "squared":
        near_keys, near_weights = _alike_pairs(
            to_landmarks, others, calls_left, loss, rng
        )
    n_other_pairs = others.size * (others.size - 1) // 2
    n_random = min(n_other_pairs, max(0, calls_left - near_keys.size))
    low, high = _pair_of(
        others.size,
        sample_without_replacement(n_other_pairs, n_random, random_state=rng),
    )
    random_keys = np.setdiff1d(others[low] * n + others[high], near_keys)
    i, j = np.divmod(np.concatenate([near_keys, random_keys]), n)
    lengths = space.paired(points, points, i, j)
    refuse_undefined(lengths, space.name, i, j)
    random_weights = np.full(
        random_keys.size, n_other_pairs / max(1, n_random)
    )
    objects = np.arange(n).repeat(n_landmarks)
    of_landmarks = (objects, np.tile(landmarks, n), to_landmarks.ravel())
    weights = np.concatenate([near_weights, random_weights])
    pairs = drawn_pairs(n, [(of_landmarks, 1.0), ((i, j, lengths), weights)])
    # A twelfth of the calls, 8 %, by objects with PARTNERS calls each.
    n_checked = min(CHECKED, max(1, calls // (12 * PARTNERS)))
    objects = rng.permutation(n)[:n_checked]
    partners = _partners(n, objects, rng)
    checked_lengths = space.paired(
        points, points, objects.repeat(PARTNERS), partners.ravel()
    )
    checks = list(
        zip(
            objects.tolist(),
            partners,
            checked_lengths.reshape(partners.shape) ** 2,
            strict=True,
        )
    )
    return PairSample(pairs, landmarks, to_landmarks, checks)


def _alike_pairs(
    to_landmarks: Floats,
    others: Numbers,
    most: int,
    loss: str,
    rng: np.random.RandomState,
) -> tuple[Numbers, Floats]:
    """Draw pairs of `others` that have similar dissimilarities to the landmarks, at most `most`.

    Return pairs, each as the number i·n + j, and their weights.
    """
    n = len(to_landmarks)
    # Far pairs are not used: those near and in rings are fewer than `most`, unless these are but a
    # few per object.
    sampling = Sampling.of(n, most / n, loss, rng)
    search = nearest_rows(to_landmarks, "euclidean", random_state=rng)
    near = drawn_pairs(n, near_pairs(sampling, search))
    # Pairs with landmarks were called before.
    is_new = np.isin(near.i, others) & np.isin(near.j, others)
    keys = near.keys[is_new]
    weights = near.weights[is_new]
    if keys.size > most:
        subset = rng.permutation(keys.size)[:most]
        weights = weights[subset] * (keys.size / most)
        keys = keys[subset]
    return keys, weights


def _pair_of(n: int, number: Numbers) -> tuple[Numbers, Numbers]:
    """Return i and j of pairs i < j by their number in the order of a condensed matrix.

    The pair (i, i + 1) has the number i·n − i(i + 1)/2.
    """
    rows = np.arange(n - 1)
    first_of_row = rows * n - rows * (rows + 1) // 2
    i = np.searchsorted(first_of_row, number, side="right") - 1
    return i, number - first_of_row[i] + i + 1


def _checked_rows(
    features: Array, metric: Metric, rng: np.random.RandomState
) -> Iterator[Check]:
    """Yield objects drawn at random with partners drawn for each, and compare them."""
    n, n_features = features.shape
    objects = rng.permutation(n)[:CHECKED]
    partners = _partners(n, objects, rng)
    ids = np.concatenate([objects[:, None], partners], axis=1)
    blocks = taken(features, ids.ravel()).reshape((*ids.shape, n_features))
    for number, others, block in zip(
        objects.tolist(), partners, blocks, strict=True
    ):
        lengths = metric.fitted_to(block[1:, :]).between(block[:1, :])
        yield number, others, to_numpy(lengths)[0].astype(np.float64) ** 2


def _partners(n: int, objects: Numbers, rng: np.random.RandomState) -> Numbers:
    """Draw partners (rows) of each object among the n, never itself."""
    drawn = rng.randint(n - 1, size=(objects.size, PARTNERS))
    # Numbers from its own on are moved up by one, which leaves it out.
    return np.asarray(drawn + (drawn >= objects[:, None]))
