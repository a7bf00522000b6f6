"""Pairs that stand for all n(n − 1)/2 of them: dense among near objects, thinner farther out.

Every object is paired with its nearest and with all landmarks. Between the two, fewer and fewer
objects are paired with more and more of their nearest, ring by ring. A pair counts 1 / the share of
its like that was drawn, so that sums over the sample estimate sums over all pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_random_state

from neucmds._input.pairs import Pairs, make_pairs
from neucmds._operator.metric_registry import FittedMetric
from neucmds.errors import InputError, option

Floats = npt.NDArray[Any]
Ints = npt.NDArray[Any]
# Objects i, objects j and their dissimilarities.
Found = tuple[Ints, Ints, Floats]
# The `count` nearest of some objects, or of all if None.
Search = Callable[[int, Ints | None], Found]

# How much wider every ring is than the one before, counted in objects.
WIDER = 4


@dataclass(frozen=True, eq=False)
class PairSample:
    """Pairs that stand for all, and the landmarks among them.

    Parameters
    ----------
    pairs : Pairs
        Weighted by the inverse of the share that was drawn.
    landmarks : ndarray of shape (L,), integer
        Ascending.
    to_landmarks : ndarray of shape (n, L)
        Dissimilarities of every object to every landmark, unsquared.
    """

    pairs: Pairs
    landmarks: Ints
    to_landmarks: Floats


@dataclass(frozen=True)
class Sizes:
    """How many pairs of each kind an object is in.

    Parameters
    ----------
    n_landmarks : int
        Every object is paired with all of them: 2L pairs an object, counted over both orders.
    n_near : int
        Nearest objects.
    n_ring : int
        Pairs in every ring, from some number of nearest objects to four times as many. Without
        rings, pairs next beyond the nearest are left to chance: of 18,000 nodes of a graph with 80
        nearest, 8 % took nodes of rank 80 to 1000 for their nearest; with rings, 1 %.
    """

    n_landmarks: int
    n_near: int
    n_ring: int

    @classmethod
    def of(cls, n_pairs: int, n: int) -> Sizes:
        """Split a number of pairs for each object, counted over both orders.

        Three fifths go to landmarks, the rest to near ones and rings: 80, 30 and 30 of 260 gave the
        least errors at all distances on a geometric graph of 18,000 nodes.
        """
        if n_pairs < 10:
            raise InputError(f"{option('n_pairs', n_pairs)} are too few; pass 10k or more.")
        landmarks = min(n, max(2, round(0.3 * n_pairs)))
        return cls(landmarks, max(2, round(0.12 * n_pairs)), max(2, round(0.12 * n_pairs)))

    def rings(self, n: int) -> list[tuple[int, int]]:
        """How far, counted in objects, and from how many objects to search in every ring."""
        rings, reach = [], WIDER * self.n_near
        while self.n_ring and reach < n:
            # Of the objects in reach, 1 − 1/4 are in this ring, and a pair is found from both ends.
            size = round(n * self.n_ring / (2 * (1 - 1 / WIDER) * reach))
            if size <= self.n_landmarks:
                break
            rings.append((reach, min(size, n)))
            reach *= WIDER
        return rings


def drawn_pairs(
    n: int,
    sizes: Sizes,
    landmarks: Ints,
    rows: Floats,
    nearest: Search,
    rng: np.random.RandomState,
) -> Pairs:
    """Put near pairs, rings and landmarks together.

    Parameters
    ----------
    n : int
    sizes : Sizes
    landmarks : ndarray of shape (L,)
    rows : ndarray of shape (L, n)
        Dissimilarities of the landmarks to all objects.
    nearest : callable
        ``nearest(count, objects)`` finds the nearest of some objects, or of all if None.
    rng : RandomState
    """
    parts = [(*nearest(min(sizes.n_near, n - 1), None), 1.0)]
    # Landmarks first: a pair that the smaller of two sets has, the larger one has as well.
    others = np.setdiff1d(np.arange(n), landmarks, assume_unique=True)
    drawn = np.concatenate([landmarks, rng.permutation(others)])
    for reach, size in sizes.rings(n):
        parts.append((*nearest(reach, drawn[:size]), 1 / _share(size, n)))
    ends = np.repeat(landmarks, n), np.tile(np.arange(n), landmarks.size)
    parts.append((*ends, rows.ravel(), 1 / _share(landmarks.size, n)))
    return _first_of(n, parts)


def feature_pairs(
    features: Floats,
    metric: Any = "euclidean",
    *,
    n_pairs: int,
    metric_params: dict[str, Any] | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> PairSample:
    """Choose pairs of feature rows that stand for all of them, and compute their dissimilarities.

    Parameters
    ----------
    features : ndarray of shape (n, d)
    metric : str or callable, default="euclidean"
        One that `sklearn.neighbors.NearestNeighbors` knows.
    n_pairs : int
        Pairs of an object, counted over both orders; about 10k to 16k for k coordinates.
    metric_params : dict, optional
    random_state : int, RandomState or None
    n_jobs : int, optional
        Threads that search neighbours; None: all cores.

    Returns
    -------
    PairSample

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from neucmds._operator.sampled_pairs import feature_pairs
    >>> sample = feature_pairs(load_digits().data, "cityblock", n_pairs=100, random_state=0)
    >>> sample.pairs.sampled, sample.to_landmarks.shape
    (True, (1797, 30))
    """
    n, rng = int(features.shape[0]), check_random_state(random_state)
    sizes, params = Sizes.of(n_pairs, n), metric_params or {}
    try:
        index = NearestNeighbors(
            metric=metric, metric_params=metric_params, n_jobs=-1 if n_jobs is None else n_jobs
        ).fit(features)
    except ValueError as problem:
        reason = " ".join(str(problem).split())[:200]
        raise InputError(
            f"{option('metric', metric)} has no nearest neighbours here: {reason}"
        ) from problem

    def nearest(count: int, objects: Ints | None) -> Found:
        objects = np.arange(n) if objects is None else objects
        count = min(count + 1, n)
        found, ids = index.kneighbors(features[objects], count)
        return np.repeat(objects, count), ids.ravel(), found.ravel()

    landmarks = np.sort(rng.permutation(n)[: sizes.n_landmarks])
    to_landmarks = np.asarray(
        FittedMetric.of(metric, features[landmarks], params=params).between(features)
    )
    pairs = drawn_pairs(n, sizes, landmarks, to_landmarks.T, nearest, rng)
    return PairSample(pairs, landmarks, to_landmarks)


def _share(size: int, n: int) -> float:
    """Return the share of all pairs that have at least one of some objects drawn."""
    return 1 - (n - size) * (n - size - 1) / (n * (n - 1))


def _first_of(n: int, parts: list[tuple[Ints, Ints, Floats, float]]) -> Pairs:
    """Put pairs of several kinds together; of those listed twice the first counts."""
    i, j, length = (np.concatenate([part[at] for part in parts]) for at in range(3))
    weight = np.concatenate([np.full(part[2].size, part[3]) for part in parts])
    low, high = np.minimum(i, j).astype(np.int64), np.maximum(i, j)
    _, first = np.unique(low * n + high, return_index=True)
    first = first[low[first] != high[first]]
    return make_pairs(n, i[first], j[first], length[first], weight[first], sampled=True)
