"""Hop counts in a nearest-neighbour graph: metric, but not Euclidean."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.spatial.distance import cdist
from sklearn.neighbors import NearestNeighbors

from neucmds.errors import InputError

__all__ = ["hop_distances"]

Floats = npt.NDArray[np.float64]


def hop_distances(
    data: npt.ArrayLike, n_neighbors: int, *, precomputed: bool = False, connect: bool = False
) -> Floats:
    """Hop counts in the undirected graph that joins each object to its nearest neighbours.

    Paper: subsec:eva-pert-metric, the k-NN metric of tab:stress-all (k = 2) and
    tab:image-other-metric.

    Parameters
    ----------
    data : array-like of shape (n, ...) or (n, n)
        Features (trailing axes are flattened), or dissimilarities with ``precomputed=True``. Rows
        of a dissimilarity are ranked one by one, so it need not be symmetric, and its scale does
        not matter.
    n_neighbors : int
        Neighbours per object, itself not counted. Of features, which of equally near objects is the
        last one depends on the number of threads of scikit-learn's search (5 neighbours of its
        digits: 34 such objects, 1.6 % of the hop counts).
    precomputed : bool
        Whether `data` holds dissimilarities. Of equally near objects the first is taken then,
        whatever the number of threads.
    connect : bool
        Join the parts of a graph that is not connected, smallest first, by one edge between their
        closest objects. The 5-nearest-neighbour graph of scikit-learn's digits needs one.

    Returns
    -------
    ndarray of shape (n, n)
        Hop counts, on the unsquared scale.

    Raises
    ------
    InputError
        If the graph is not connected and `connect` is False: there is no finite dissimilarity
        between its parts.
    """
    given = np.asarray(data)
    n = len(given)
    if not 1 <= n_neighbors < n:
        raise InputError(f"n_neighbors is {n_neighbors}; with {n} objects pass 1 to {n - 1}.")
    if precomputed:
        if given.shape != (n, n):
            raise InputError(f"dissimilarities have shape {given.shape}; pass a square matrix.")
        others = given.astype(np.float64)
        np.fill_diagonal(others, np.inf)
        nearest = np.argsort(others, axis=1, kind="stable")[:, :n_neighbors]
    else:
        given = given.astype(np.float64).reshape(n, -1)
        search = NearestNeighbors(n_neighbors=n_neighbors).fit(given)
        nearest = search.kneighbors(return_distance=False)
    edges = (np.repeat(np.arange(n), n_neighbors), nearest.ravel())
    graph = sparse.csr_array((np.ones(nearest.size, dtype=np.int8), edges), shape=(n, n))
    graph = sparse.csr_array(graph.maximum(graph.T))
    n_parts, part = connected_components(graph, directed=False)
    if n_parts > 1 and not connect:
        sizes = np.sort(np.bincount(part))[::-1]
        shown = ", ".join(map(str, sizes[:8])) + (", …" if n_parts > 8 else "")
        raise InputError(
            f"the {n_neighbors}-nearest-neighbour graph falls into {n_parts} components of {shown} "
            "objects; raise n_neighbors, or pass connect=True."
        )
    if n_parts > 1:
        graph = _joined(graph, given if precomputed else cdist(given, given))
    return np.asarray(dijkstra(graph, unweighted=True))


def _joined(graph: sparse.csr_array, distances: npt.NDArray[Any]) -> sparse.csr_array:
    """Add the shortest edge out of the smallest part until there is only one part."""
    n_parts, part = connected_components(graph, directed=False)
    while n_parts > 1:
        inside = np.flatnonzero(part == np.argmin(np.bincount(part)))
        outside = np.setdiff1d(np.arange(part.size), inside)
        block = distances[np.ix_(inside, outside)]
        i, j = np.unravel_index(int(np.argmin(block)), block.shape)
        ends = np.array([inside[i], outside[j]])
        edge = sparse.csr_array((np.ones(2, dtype=np.int8), (ends, ends[::-1])), shape=graph.shape)
        graph = sparse.csr_array(graph + edge)
        n_parts, part = connected_components(graph, directed=False)
    return graph
