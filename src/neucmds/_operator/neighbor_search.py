"""The nearest rows of features: by trees, by descent, or by comparing all with all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.neighbors import VALID_METRICS, NearestNeighbors
from sklearn.utils import check_random_state

from neucmds._backend.arrays import (
    Array,
    asarray_like,
    is_numpy,
    k_smallest,
    namespace,
    row_blocks,
)
from neucmds._operator.metric_registry import INNER_METRICS, FittedMetric
from neucmds.errors import InputError, option

Floats = npt.NDArray[Any]
Ints = npt.NDArray[Any]
# Objects i, objects j and their dissimilarities, all of one library.
Found = tuple[Array, Array, Array]
# The `count` nearest of some objects, or of all if None.
Search = Callable[[int, Ints | None], Found]

# Up to here all rows are compared with all: half a minute on one core.
ALL_COMPARED = 20_000
# Features up to which scikit-learn's trees are tried.
MOST_IN_TREE = 15
# What pynndescent calls metrics that it knows by other names only.
DESCENDED_AS = {"cityblock": "manhattan"}
# Neighbours of a row up to which pynndescent is the quicker.
MOST_DESCENDED = 200
# Dissimilarities of a block on a GPU: 2 GB in float64.
DEVICE_BLOCK = 2**28


def nearest_rows(
    features: Any,
    metric: Any,
    metric_params: dict[str, Any] | None = None,
    *,
    random_state: Any = None,
) -> Search:
    """Return the function of a count and objects (None: all) that finds their nearest rows.

    The parameters are those of `neucmds._operator.sampled_pairs.feature_pairs`.
    """
    params = metric_params or {}
    if not is_numpy(features):
        return _by_blocks(FittedMetric.of(metric, features, params=params))
    return _on_cpu(features, metric, params, check_random_state(random_state))


def _on_cpu(
    features: Floats,
    metric: Any,
    params: dict[str, Any],
    rng: np.random.RandomState,
) -> Search:
    """Return what searches nearest rows: by pynndescent for all of many, else scikit-learn."""
    n = int(features.shape[0])
    index = neighbor_index(features, metric, params, n_jobs=-1)
    graph = _descent(metric) if n > ALL_COMPARED else None

    def nearest(count: int, objects: Ints | None) -> Found:
        if objects is None and graph is not None and count < MOST_DESCENDED:
            seed = int(rng.randint(2**31))
            made = graph(
                features,
                metric=DESCENDED_AS.get(metric, metric),
                metric_kwds=params or None,
                n_neighbors=count + 1,
                random_state=seed,
                n_jobs=-1,
            )
            ids, found = made.neighbor_graph
            known = ids.ravel() >= 0
            rows = np.repeat(np.arange(n), count + 1)
            return rows[known], ids.ravel()[known], found.ravel()[known]
        objects = np.arange(n) if objects is None else objects
        count = min(count + 1, n)
        found, ids = index.kneighbors(features[objects], count)
        return np.repeat(objects, count), ids.ravel(), found.ravel()

    return nearest


@dataclass(frozen=True, eq=False)
class ComparedRows:
    """All rows compared with all, for metrics of the registry that scikit-learn does not know."""

    space: FittedMetric

    def kneighbors(self, some: Floats, count: int) -> tuple[Floats, Ints]:
        """Return the dissimilarities of the nearest, and which they are, in no order."""
        lengths, ids = [], []
        for part in row_blocks(some.shape[0], self.space.points.left.shape[0]):
            squares = self.space.squares(some[part])
            kept = np.argpartition(squares, count - 1, axis=1)[:, :count]
            lengths.append(np.sqrt(np.take_along_axis(squares, kept, axis=1)))
            ids.append(kept)
        return np.concatenate(lengths), np.concatenate(ids)


def neighbor_index(features: Floats, metric: Any, params: dict[str, Any], n_jobs: int = 1) -> Any:
    """Return an exact search among rows with scikit-learn's `kneighbors`.

    It is scikit-learn's for metrics that it knows, by a tree where that is the quicker.
    """
    if isinstance(metric, str) and metric in set(INNER_METRICS) - set(VALID_METRICS["brute"]):
        return ComparedRows(FittedMetric.of(metric, features, params=params))
    try:
        return NearestNeighbors(
            metric=metric,
            metric_params=params or None,
            n_jobs=n_jobs,
            # Trees of many features look at nearly all rows, more slowly.
            algorithm="auto" if features.shape[1] <= MOST_IN_TREE else "brute",
        ).fit(features)
    except (ValueError, TypeError) as problem:
        reason = " ".join(str(problem).split())[:200]
        raise InputError(
            f"{option('metric', metric)} has no nearest neighbours here: {reason}"
        ) from problem


def _descent(metric: Any) -> Any:
    """Return pynndescent's search if it is installed and knows the metric; else None."""
    try:
        from pynndescent import NNDescent
        from pynndescent.distances import named_distances
    except ImportError:
        return None
    known = isinstance(metric, str) and DESCENDED_AS.get(metric, metric) in named_distances
    return NNDescent if known else None


def _by_blocks(space: FittedMetric) -> Search:
    """Return what compares rows with all others on their device, block by block."""
    points = space.points
    n, xp = int(points.left.shape[0]), namespace(points.left)

    def nearest(count: int, objects: Ints | None) -> Found:
        objects = np.arange(n) if objects is None else np.asarray(objects)
        count, found = min(count + 1, n), []
        for part in row_blocks(objects.size, n, DEVICE_BLOCK):
            some = points.take(objects[part])
            squares, ids = k_smallest(space.metric.squares(some, points), count)
            rows = asarray_like(objects[part], points.left, dtype=xp.int64)
            block = xp.broadcast_to(rows[:, None], ids.shape), ids, xp.sqrt(squares)
            found.append([xp.reshape(one, (-1,)) for one in block])
        rows, ids, lengths = (xp.concat(column) for column in zip(*found, strict=True))
        return rows, xp.astype(ids, xp.int64, copy=False), xp.astype(lengths, xp.float64)

    return nearest
