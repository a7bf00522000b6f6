"""The nearest rows of features: by trees, by brute force, or by pynndescent."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.neighbors import VALID_METRICS, NearestNeighbors
from sklearn.utils import check_random_state

from neucmds.backend.arrays import (
    Array,
    Numbers,
    in_double,
    index_like,
    is_numpy,
    namespace,
    taken,
)
from neucmds.backend.files import one_line
from neucmds.errors import InputError
from neucmds.problem.metrics import Metric

# Objects i, objects j and their dissimilarities, all of one library.
ListedLengths = tuple[Array, Array, Array]
# From a count and objects (None: all): these objects with the `count` nearest of each.
NearestSearch = Callable[[int, Numbers | None], ListedLengths]

# Up to this number of rows search is exact: half a minute on one core.
ALL_COMPARED = 20_000


def nearest_rows(
    features: Any, metric: Any, *, random_state: Any = None
) -> NearestSearch:
    """Return the function that searches the nearest rows, the row itself among them.

    The nearest of all rows, more than 20,000 of NumPy, are searched by pynndescent, if it is
    installed and knows the metric; it finds 98 % of them. All other searches are exact.
    """
    metric = Metric.of(metric)
    rng = check_random_state(random_state)
    n = features.shape[0]
    xp = namespace(features)
    index = neighbor_index(features, metric)
    descent = None
    if is_numpy(features) and n > ALL_COMPARED:
        descent = descent_on(metric.metric)

    def nearest(count: int, objects: Numbers | None) -> ListedLengths:
        if objects is None and descent is not None:
            ids, lengths = descent(
                features,
                metric_kwds=metric.params or None,
                n_neighbors=count + 1,
                random_state=int(rng.randint(2**31)),
                n_jobs=-1,
            ).neighbor_graph
            # A neighbour that was not found has the number −1.
            is_found = ids >= 0
            return np.nonzero(is_found)[0], ids[is_found], lengths[is_found]
        if objects is None:
            objects = np.arange(n)
        lengths, ids = index.kneighbors(
            taken(features, objects), min(count + 1, n)
        )
        rows = index_like(objects, features)[:, None]
        rows = xp.reshape(xp.broadcast_to(rows, ids.shape), (-1,))
        ids = xp.astype(xp.reshape(ids, (-1,)), xp.int64, copy=False)
        lengths = in_double(xp.reshape(lengths, (-1,)))
        return rows, ids, lengths

    return nearest


def neighbor_index(features: Any, metric: Metric) -> Any:
    """Return an object whose `kneighbors` searches the rows exactly.

    It is scikit-learn's, by a tree where that is quicker, for metrics that scikit-learn knows.
    """
    is_ours_alone = (
        metric.inner and metric.metric not in VALID_METRICS["brute"]
    )
    if is_ours_alone or not is_numpy(features):
        return metric.fitted_to(features)
    try:
        search = NearestNeighbors(
            metric=metric.metric,
            metric_params=metric.params or None,
            n_jobs=-1,
        )
        return search.fit(features)
    except (ValueError, TypeError) as problem:
        raise InputError(
            f"{metric.name} has no nearest neighbours here: {one_line(problem)}."
        ) from problem


def descent_on(metric: Any) -> Any:
    """Return pynndescent's search by a metric; None if it is not installed or does not know it."""
    try:
        from pynndescent import NNDescent
        from pynndescent.distances import named_distances
    except ImportError:
        return None
    if metric == "cityblock":
        metric = "manhattan"
    if callable(metric) or metric not in named_distances:
        return None
    return partial(NNDescent, metric=metric)
