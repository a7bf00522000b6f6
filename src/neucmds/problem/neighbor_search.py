"""The nearest rows of features: by trees, by descent, or by brute force."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.neighbors import VALID_METRICS, NearestNeighbors
from sklearn.utils import check_random_state

from neucmds.backend.arrays import Array, asarray_like, is_numpy, namespace
from neucmds.errors import InputError, option
from neucmds.problem.files import one_line
from neucmds.problem.metrics import INNER_METRICS, FittedMetric

Floats = npt.NDArray[Any]
Ints = npt.NDArray[Any]
# Objects i, objects j and their dissimilarities, all of one library.
Found = tuple[Array, Array, Array]
# The `count` nearest of some objects, or of all if None.
Search = Callable[[int, Ints | None], Found]

# Up to here all rows are compared with all: half a minute on one core.
ALL_COMPARED = 20_000
# What pynndescent calls metrics that it knows by other names only.
DESCENDED_AS = {"cityblock": "manhattan"}
# Neighbours of a row up to which pynndescent is the quicker.
MOST_DESCENDED = 200


def nearest_rows(
    features: Any,
    metric: Any,
    metric_params: dict[str, Any] | None = None,
    *,
    random_state: Any = None,
) -> Search:
    """Return the function of a count and objects (None: all) that finds their nearest rows.

    It searches all of many rows of NumPy by pynndescent where that knows the metric. The parameters
    are those of `neucmds.problem.sampled_pairs.feature_pairs`.
    """
    params = metric_params or {}
    rng = check_random_state(random_state)
    n = int(features.shape[0])
    xp = namespace(features)
    index = neighbor_index(features, metric, params, n_jobs=-1)
    if is_numpy(features) and n > ALL_COMPARED:
        graph = _descent(metric)
    else:
        graph = None

    def nearest(count: int, objects: Ints | None) -> Found:
        if objects is None and graph is not None and count < MOST_DESCENDED:
            made = graph(
                features,
                metric=DESCENDED_AS.get(metric, metric),
                metric_kwds=params or None,
                n_neighbors=count + 1,
                random_state=int(rng.randint(2**31)),
                n_jobs=-1,
            )
            ids, found = made.neighbor_graph
            known = ids.ravel() >= 0
            rows = np.repeat(np.arange(n), count + 1)
            return rows[known], ids.ravel()[known], found.ravel()[known]
        own = asarray_like(np.arange(n) if objects is None else objects, features, dtype=xp.int64)
        found, ids = index.kneighbors(xp.take(features, own, axis=0), min(count + 1, n))
        rows = xp.reshape(xp.broadcast_to(own[:, None], ids.shape), (-1,))
        lengths = xp.astype(xp.reshape(found, (-1,)), xp.float64, copy=False)
        return rows, xp.astype(xp.reshape(ids, (-1,)), xp.int64, copy=False), lengths

    return nearest


def neighbor_index(features: Floats, metric: Any, params: dict[str, Any], n_jobs: int = 1) -> Any:
    """Return an exact search among rows with scikit-learn's `kneighbors`.

    It is scikit-learn's for metrics that it knows, by a tree where that is the quicker.
    """
    ours = isinstance(metric, str) and metric in set(INNER_METRICS) - set(VALID_METRICS["brute"])
    if ours or not is_numpy(features):
        return FittedMetric.of(metric, features, params=params)
    try:
        search = NearestNeighbors(metric=metric, metric_params=params or None, n_jobs=n_jobs)
        return search.fit(features)
    except (ValueError, TypeError) as problem:
        said = f"{option('metric', metric)} has no nearest neighbours here: {one_line(problem)}."
        raise InputError(said) from problem


def _descent(metric: Any) -> Any:
    """Return pynndescent's search if it is installed and knows the metric; else None."""
    try:
        from pynndescent import NNDescent
        from pynndescent.distances import named_distances
    except ImportError:
        return None
    known = isinstance(metric, str) and DESCENDED_AS.get(metric, metric) in named_distances
    if known:
        return NNDescent
    return None
