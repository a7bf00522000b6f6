"""Pairs that stand for all n(n − 1)/2 of them: dense among near objects, thinner farther out.

Every object is paired with its nearest and with all landmarks. Between the two, fewer and fewer
objects are paired with more and more of their nearest, ring by ring. A pair counts 1 / the share of
its like that was drawn, so that sums over the sample estimate sums over all pairs.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from neucmds._backend.arrays import (
    Array,
    asarray_like,
    device,
    is_dask,
    min_and_max,
    namespace,
    to_numpy,
)
from neucmds._input import Pairs, make_pairs
from neucmds._operator.chunked_rows import ChunkedRows
from neucmds._operator.metric_registry import (
    BoundMetric,
    fitted_params,
    refuse_asymmetry,
    refuse_own,
    refuse_undefined,
)
from neucmds._operator.neighbor_search import Search, nearest_rows
from neucmds.errors import InputError, option

Floats = npt.NDArray[Any]
Ints = npt.NDArray[Any]

# How much wider every ring is than the one before, counted in objects.
WIDER = 4


@dataclass(frozen=True, eq=False)
class PairSample:
    """Pairs that stand for all, and the landmarks among them."""

    # Weighted by the inverse of the share that was drawn.
    pairs: Pairs
    # Ascending; and the dissimilarities of every object (row) to every one of them, unsquared.
    landmarks: Ints
    to_landmarks: Floats


@dataclass(frozen=True)
class Sizes:
    """How many pairs of each kind an object is in."""

    # Every object is paired with all of them: 2L pairs per object, counted over both orders.
    n_landmarks: int
    n_near: int
    # Pairs in every ring, from some number of nearest objects to four times as many. Without rings,
    # pairs next beyond the nearest are left to chance: of 18,000 nodes of a graph with 80 nearest,
    # 8 % took nodes of rank 80 to 1000 for their nearest; with rings, 1 %.
    n_ring: int

    @classmethod
    def of(cls, n_pairs: int, n: int) -> Sizes:
        """Split a number of pairs for each object, counted over both orders.

        Three fifths go to landmarks, the rest to near ones and rings: 80, 30 and 30 of 260 gave the
        least errors at all distances on a geometric graph of 18,000 nodes.
        """
        if isinstance(n_pairs, bool) or not isinstance(n_pairs, Integral) or n_pairs < 10:
            raise InputError(
                f"{option('n_pairs', n_pairs)} must be a whole number of at least 10; pass some 16 "
                "for each coordinate."
            )
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
    rows: Array,
    nearest: Search,
    rng: np.random.RandomState,
) -> Pairs:
    """Put near pairs, rings and landmarks together, in the library of `rows`.

    `rows` holds the dissimilarities of the landmarks to all objects in float64.
    """
    parts = [(*nearest(min(sizes.n_near, n - 1), None), 1.0)]
    # Landmarks first: a pair that the smaller of two sets has, the larger one has as well.
    others = np.setdiff1d(np.arange(n), landmarks, assume_unique=True)
    drawn = np.concatenate([landmarks, rng.permutation(others)])
    for reach, size in sizes.rings(n):
        parts.append((*nearest(reach, drawn[:size]), 1 / _share(size, n)))
    xp, shape = namespace(rows), (landmarks.size, n)
    own, all_objects = (
        asarray_like(ids, rows, dtype=xp.int64) for ids in (landmarks, np.arange(n))
    )
    pairs = xp.broadcast_to(own[:, None], shape), xp.broadcast_to(all_objects[None, :], shape), rows
    columns = (xp.reshape(one, (-1,)) for one in pairs)
    parts.append((*columns, 1 / _share(landmarks.size, n)))
    return _first_of(n, parts)


def feature_pairs(
    features: Any,
    metric: Any = "euclidean",
    *,
    n_pairs: int,
    metric_params: dict[str, Any] | None = None,
    random_state: Any = None,
    weight_power: float = 1.0,
) -> PairSample:
    """Choose pairs of feature rows that stand for all of them, and compute their dissimilarities.

    Parameters
    ----------
    features : array of shape (n, d)
        Of NumPy; of dask, whose rows are compared on the workers, all with all, and never gathered;
        or of another library, whose nearest rows are found on their device in the same way.
    metric : str or callable, default="euclidean"
        One of the registry, or for NumPy and dask one that `sklearn.neighbors.NearestNeighbors`
        knows; a callable takes two rows of these, and two blocks of rows of other libraries. Of
        more than 20,000 rows of NumPy pynndescent finds the nearest, to some 98 %, where it is
        installed (`neucmds[neighbors]`) and knows the metric.
    n_pairs : int
        Pairs of an object, counted over both orders; about 10k to 16k for k coordinates.
    metric_params : dict, optional
    random_state : int, RandomState or None
    weight_power : float, default=1
        A pair counts the inverse of the share that was drawn to this power: with 1, sums over the
        sample estimate sums over all pairs; with less, near pairs count more.

    Returns
    -------
    PairSample
    """
    n, rng = int(features.shape[0]), check_random_state(random_state)
    sizes = Sizes.of(n_pairs, n)
    landmarks = np.sort(rng.permutation(n)[: sizes.n_landmarks])
    if is_dask(features):
        rows = ChunkedRows.of(features, metric, metric_params).persisted()
        nearest: Search = rows.nearest
        between: Array = rows.to(rows.take(landmarks))
    else:
        params = fitted_params(metric, features, metric_params or {})
        nearest = nearest_rows(features, metric, params, random_state=rng)
        xp = namespace(features)
        some = xp.take(features, asarray_like(landmarks, features, dtype=xp.int64), axis=0)
        between = BoundMetric(metric, params).fitted_to(some).between(features)
    xp = namespace(between)
    between = xp.astype(between, xp.float64, copy=False)
    refuse_undefined(between, option("metric", metric), range(n), landmarks)
    if callable(metric):
        among = xp.take(between, asarray_like(landmarks, between, dtype=xp.int64), axis=0)
        refuse_asymmetry(among, among)
        refuse_own(among)
    pairs = drawn_pairs(n, sizes, landmarks, between.T, nearest, rng)
    if weight_power != 1 and pairs.weight is not None:
        pairs = replace(pairs, weight=pairs.weight**weight_power)
    return PairSample(pairs, landmarks, to_numpy(between))


def _share(size: int, n: int) -> float:
    """Return the share of all pairs that have at least one of some objects drawn."""
    return 1 - (n - size) * (n - size - 1) / (n * (n - 1))


def _first_of(n: int, parts: list[tuple[Array, Array, Array, float]]) -> Pairs:
    """Put pairs of several kinds together; of those listed twice the first counts."""
    xp, where = namespace(parts[0][2]), device(parts[0][2])
    i, j, length = (xp.concat([part[at] for part in parts]) for at in range(3))
    weight = xp.concat(
        [xp.full(part[2].shape, part[3], dtype=xp.float64, device=where) for part in parts]
    )
    low, high = (xp.astype(ends, xp.int64) for ends in (xp.minimum(i, j), xp.maximum(i, j)))
    key = low * n + high
    order = xp.argsort(key, stable=True)
    key = xp.take(key, order, axis=0)
    first = xp.concat([order[:1], order[1:][key[1:] != key[:-1]]])
    first = first[xp.take(low, first, axis=0) != xp.take(high, first, axis=0)]
    index = xp.int32 if n < 2**31 else xp.int64
    columns = [xp.astype(low, index), xp.astype(high, index), length, weight]
    columns = [to_numpy(xp.take(one, first, axis=0)) for one in columns]
    lowest, highest = min_and_max(length)
    if not 0 <= lowest <= highest < math.sqrt(sys.float_info.max):
        return make_pairs(n, *columns, sampled=True)  # it says what is wrong
    low, high, length, weight = columns
    return Pairs(n, low, high, np.square(length, dtype=np.float64), weight, sampled=True)
