"""The graph of nearest neighbours, in one part: Isomap's first step."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from sklearn.neighbors import NearestNeighbors


def neighbor_graph(neighbors: NearestNeighbors, X: Any) -> tuple[Any, int]:
    """Join every object to its nearest, and the parts that remain at their closest pairs.

    Parameters
    ----------
    neighbors : NearestNeighbors
        Fitted to X.
    X : ndarray of shape (n, n_features) or (n, n)
        Features, or dissimilarities if the metric is "precomputed".

    Returns
    -------
    graph : coo_array of shape (n, n)
        Lengths of edges, each stored at least once.
    n_parts : int
        Parts before the smallest was joined to the rest, again and again.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.neighbors import NearestNeighbors
    >>> from neucmds._operator.neighbor_graph import neighbor_graph
    >>> X = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> graph, n_parts = neighbor_graph(NearestNeighbors(n_neighbors=1).fit(X), X)
    >>> n_parts, graph.data.max()
    (2, np.float64(9.0))
    """
    n = int(X.shape[0])
    graph = neighbors.kneighbors_graph(mode="distance").tocoo()
    i, j, length = [graph.row], [graph.col], [graph.data]
    count, found = connected_components(graph, directed=False)
    part: Any = found
    for _ in range(count - 1):
        inside = np.flatnonzero(part == np.argmin(np.bincount(part)))
        outside = np.flatnonzero(part != part[inside[0]])
        a, b, gap = _closest(neighbors, X, inside, outside)
        i.append([inside[a]])
        j.append([outside[b]])
        length.append([gap])
        part[inside] = part[outside[b]]
        part = np.unique(part, return_inverse=True)[1]
    ends = np.concatenate(i), np.concatenate(j)
    return sparse.coo_array((np.concatenate(length), ends), shape=(n, n)), int(count)


def _closest(
    neighbors: NearestNeighbors, X: Any, inside: Any, outside: Any
) -> tuple[int, int, float]:
    """Return the closest pair of two sets, by the places of its objects there, and its length."""
    if neighbors.metric == "precomputed":
        block = X[np.ix_(inside, outside)]
        a, b = np.unravel_index(int(np.argmin(block)), block.shape)
        return int(a), int(b), float(block[a, b])
    search = NearestNeighbors(
        n_neighbors=1, metric=neighbors.metric, metric_params=neighbors.metric_params
    )
    gaps, ids = search.fit(X[outside]).kneighbors(X[inside])
    nearest = int(np.argmin(gaps[:, 0]))
    return nearest, int(ids[nearest, 0]), float(gaps[nearest, 0])
