"""Dissimilarities that stop being Euclidean: neighbour graphs, noise, missing entries, affinities.

Paper: subsec:eva-pert-metric. Every function here returns **unsquared** dissimilarities; the
paper's D is their square, which `neuc_mds(…, squared=False)` takes care of.

The published k-NN and noise rows of the images were computed on unsigned bytes whose differences
wrap modulo 256 (errata E12): ``wraparound=True`` does the same, the default takes the differences
that were meant.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.spatial.distance import cdist
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_random_state

from neucmds._backend.arrays import row_blocks
from neucmds.errors import InputError

__all__ = ["add_noise", "entropic_affinities", "hop_distances", "missing_pixels"]

Floats = npt.NDArray[np.float64]
Bytes = npt.NDArray[np.uint8]

# Past this many hops a search from every source in lockstep costs more than scipy's one by one.
MAX_LOCKSTEP_HOPS = 128


def hop_distances(
    data: npt.ArrayLike,
    n_neighbors: int,
    *,
    precomputed: bool = False,
    wraparound: bool = False,
    connect: bool = False,
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
    wraparound : bool
        Rank by ‖x_i − x_j‖ of unsigned bytes modulo 256, as published (errata E12). That is not
        symmetric: i may rank j by another value than j ranks i.
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
        If the graph is not connected and may not be: there is no finite dissimilarity between its
        parts.
    """
    features = np.asarray(data)
    n = len(features)
    if not 1 <= n_neighbors < n:
        raise InputError(f"n_neighbors is {n_neighbors}; with {n} objects pass 1 to {n - 1}.")
    distances: npt.NDArray[Any] | None = None
    if precomputed or wraparound:
        distances = _square(features) if precomputed else _wrapped_distances(_as_bytes(features))
        nearest = _nearest_in_rows(distances, n_neighbors)
    else:
        search = NearestNeighbors(n_neighbors=n_neighbors).fit(_flat(features))
        nearest = search.kneighbors(return_distance=False)
    graph = _undirected(nearest, n)
    if connect:
        graph = _joined(
            graph, cdist(_flat(features), _flat(features)) if distances is None else distances
        )
    _check_connected(graph, n_neighbors)
    return _all_hops(graph)


def add_noise(
    features: npt.ArrayLike,
    *,
    scale: float | None = None,
    wraparound: bool = False,
    random_state: Any = None,
) -> Floats:
    """Euclidean distances with Gaussian noise added to each pair.

    Paper: subsec:eva-pert-metric and the noise rows of tab:image-other-metric.

    Parameters
    ----------
    features : array-like of shape (n, ...)
        One object per row; trailing axes are flattened.
    scale : float, optional
        Standard deviation of the noise. Default: the paper's, the largest difference two objects
        could have over 500, which for images is 255·√dim / 500 (here: the range of the features in
        place of 255 unless they are bytes).
    wraparound : bool
        Take ‖x_i − x_j‖, i < j, of unsigned bytes modulo 256, as published (errata E12).
    random_state : int, RandomState instance or None
        Source of randomness.

    Returns
    -------
    ndarray of shape (n, n)
        Symmetric, zero diagonal, on the unsquared scale. Noise larger than a distance makes an
        entry negative; only its square enters D.
    """
    raw = np.asarray(features)
    upper = _wrapped_distances(_as_bytes(raw)) if wraparound else _distances(_flat(raw))
    if scale is None:
        span = 255.0 if raw.dtype == np.uint8 else float(np.ptp(raw))
        scale = span * np.sqrt(raw[0].size) / 500.0
    rng = check_random_state(random_state)
    for i in range(len(upper)):
        upper[i, i + 1 :] += rng.normal(0.0, scale, len(upper) - i - 1)
        upper[i + 1 :, i] = upper[i, i + 1 :]
    return upper


def missing_pixels(
    features: npt.ArrayLike,
    *,
    fraction: float = 0.05,
    random_state: Any = None,
) -> Floats:
    """Euclidean distances over the features that both objects still have after random removal.

    Paper: subsec:eva-pert-metric and the missing rows of tab:image-other-metric. Unlike the other
    image rows these were computed with true differences, so there is no wraparound here: with 5 %
    removed the MNIST and Fashion rows come out within 3 %, with 50 of 3072 entries an image
    CIFAR-10's within 1 %.

    Parameters
    ----------
    features : array-like of shape (n, ...)
        One object per row; trailing axes are flattened.
    fraction : float
        Share of all n·dim entries that is removed.
    random_state : int, RandomState instance or None
        Source of randomness.

    Returns
    -------
    ndarray of shape (n, n)
        Symmetric, zero diagonal, on the unsquared scale; not rescaled for what is missing.
    """
    if not 0.0 <= fraction < 1.0:
        raise InputError(f"fraction is {fraction}; pass a share of the entries, 0 up to below 1.")
    flat = _flat(np.asarray(features))
    rng = check_random_state(random_state)
    removed = rng.permutation(flat.size)[: round(fraction * flat.size)]
    present = np.ones(flat.size, dtype=bool)
    present[removed] = False
    return _distances_over_shared(flat, present.reshape(flat.shape))


def entropic_affinities(
    features: npt.ArrayLike, perplexity: float = 30.0, *, tol: float = 1e-10
) -> Floats:
    """Symmetrised entropic affinities, as in t-SNE, zero on the diagonal.

    Paper: sec:experiments and subsec:eva-pert-metric; the genomics rows take these affinities for
    unsquared dissimilarities. Row i of P is ``exp(−β_i ‖x_i − x_j‖²)`` over j ≠ i, divided by its
    sum, with β_i such that its entropy is log(perplexity). The result is (P + Pᵀ)/2, whose entries
    sum to n; t-SNE itself divides by n once more.

    An object with more than `perplexity` exact twins cannot reach that entropy; it shares its row
    equally among them.

    Parameters
    ----------
    features : array-like of shape (n, ...)
        One object per row; trailing axes are flattened.
    perplexity : float
        Effective number of neighbours, more than 1 and less than n − 1.
    tol : float
        Largest error of a row's entropy at which the bisection stops.

    Returns
    -------
    ndarray of shape (n, n)
        Symmetric affinities.
    """
    flat = _flat(np.asarray(features))
    n = len(flat)
    if not 1.0 < perplexity < n - 1:
        raise InputError(
            f"perplexity is {perplexity}; with {n} objects pass more than 1 and less than {n - 1}."
        )
    sq = np.square(_distances(flat))
    np.fill_diagonal(sq, np.inf)
    affinity = _conditional_affinities(sq, np.log(perplexity), tol)
    return (affinity + affinity.T) / 2.0


def _flat(features: npt.NDArray[Any]) -> Floats:
    return np.asarray(features, dtype=np.float64).reshape(len(features), -1)


def _square(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if values.ndim != 2 or values.shape[0] != values.shape[1]:
        raise InputError(f"dissimilarities have shape {values.shape}; pass a square matrix.")
    return values


def _as_bytes(features: npt.NDArray[Any]) -> Bytes:
    if features.dtype != np.uint8:
        raise InputError(
            f"wraparound=True is for unsigned bytes (uint8), not {features.dtype}; pass raw images."
        )
    return features.reshape(len(features), -1)


def _distances(flat: Floats) -> Floats:
    return np.asarray(cdist(flat, flat))


def _wrapped_distances(flat: Bytes) -> Floats:
    """‖x_i − x_j‖ of bytes modulo 256, row i from x_i minus the others: not symmetric (E12)."""
    n, dim = flat.shape
    sq = np.zeros((n, n))
    # 256 squares of a byte stay below 2**24, so each partial sum in float32 is exact
    for start in range(0, dim, 256):
        part = slice(start, start + 256)
        columns = np.ascontiguousarray(flat[:, part])
        ones = np.ones(columns.shape[1], dtype=np.float32)
        for i in range(n):
            gap = (columns[i] - columns).astype(np.float32)
            gap *= gap
            sq[i] += gap @ ones
    return np.sqrt(sq, out=sq)


def _distances_over_shared(flat: Floats, present: npt.NDArray[np.bool_]) -> Floats:
    """√Σ_a m_ia m_ja (x_ia − x_ja)², from three matrix products."""
    mask = present.astype(np.float64)
    centred = (flat - flat.mean(axis=0)) * mask  # a shift leaves differences as they are
    sq: Floats = (centred * centred) @ mask.T
    sq += sq.T.copy()
    sq -= 2.0 * (centred @ centred.T)
    np.maximum(sq, 0.0, out=sq)
    np.fill_diagonal(sq, 0.0)
    return np.sqrt(sq, out=sq)


def _nearest_in_rows(distances: npt.NDArray[Any], n_neighbors: int) -> npt.NDArray[np.intp]:
    """Find the nearest other objects of each row, ties in the order of the objects."""
    nearest = np.empty((len(distances), n_neighbors), dtype=np.intp)
    for i, row in enumerate(distances):
        order = np.argsort(row, kind="stable")
        nearest[i] = order[order != i][:n_neighbors]
    return nearest


def _undirected(nearest: npt.NDArray[np.intp], n: int) -> sparse.csr_array:
    rows = np.repeat(np.arange(n), nearest.shape[1])
    ones = np.ones(nearest.size, dtype=np.int8)
    directed = sparse.csr_array((ones, (rows, nearest.ravel())), shape=(n, n))
    return sparse.csr_array(directed.maximum(directed.T))


def _check_connected(graph: sparse.csr_array, n_neighbors: int) -> None:
    n_parts, part = connected_components(graph, directed=False)
    if n_parts == 1:
        return
    sizes = np.sort(np.bincount(part))[::-1]
    shown = ", ".join(map(str, sizes[:8])) + (", …" if n_parts > 8 else "")
    raise InputError(
        f"the {n_neighbors}-nearest-neighbour graph falls into {n_parts} components of {shown} "
        "objects; raise n_neighbors, or keep the objects of one component."
    )


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


def _all_hops(graph: sparse.csr_array) -> Floats:
    n = graph.shape[0]
    hops = np.empty((n, n))
    sources_per_block = 512  # n = 16,000: 8 s of CPU; 256 took 9, 1024 took 13
    for start in range(0, n, sources_per_block):
        sources = np.arange(start, min(start + sources_per_block, n))
        # symmetric: rows are written in a third of the time of columns
        hops[sources] = _hops_from(graph, sources).T
    return hops


def _hops_from(graph: sparse.csr_array, sources: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
    """Hop counts from all sources at once: one bit a source, one `or` over the neighbours a hop."""
    n = graph.shape[0]
    flags = np.zeros((n, -(-sources.size // 64) * 64), dtype=np.uint8)
    flags[sources, np.arange(sources.size)] = 1
    reached = np.packbits(flags, axis=1, bitorder="little").view(np.uint64)
    hops = np.zeros(flags.shape, dtype=np.uint8)
    for _ in range(MAX_LOCKSTEP_HOPS):
        missing = np.unpackbits((~reached).view(np.uint8), axis=1, bitorder="little")
        if not missing[:, : sources.size].any():
            return hops[:, : sources.size]
        hops += missing
        by_edge = reached[graph.indices]
        reached |= np.bitwise_or.reduceat(by_edge, graph.indptr[:-1], axis=0)
    return np.asarray(dijkstra(graph, indices=sources, unweighted=True)).T


def _conditional_affinities(sq: Floats, entropy: float, tol: float) -> Floats:
    """Rows exp(−β sq) / Σ with the given entropy; β by bisection, all rows at once."""
    n = len(sq)
    shifted = sq - sq.min(axis=1, keepdims=True)
    typical = np.median(sq, axis=1)
    beta = 1.0 / np.where(typical > 0, typical, 1.0)
    low, high = np.zeros(n), np.full(n, np.inf)
    affinity = np.empty_like(sq)
    for _ in range(200):
        gap = np.empty(n)
        for rows in row_blocks(n, n):
            affinity[rows], found = _softmax_rows(shifted[rows], beta[rows])
            gap[rows] = found - entropy
        if np.abs(gap).max() < tol:
            break
        low, high = np.where(gap > 0, beta, low), np.where(gap > 0, high, beta)
        beta = np.where(np.isinf(high), 2.0 * beta, (low + np.minimum(high, 2.0 * beta)) / 2.0)
    return affinity


def _softmax_rows(sq: Floats, beta: Floats) -> tuple[Floats, Floats]:
    """Affinities of each row and their entropy."""
    weights = np.exp(-beta[:, None] * sq)
    total = weights.sum(axis=1)
    finite = np.where(np.isfinite(sq), sq, 0.0)
    entropy = np.log(total) + beta * np.einsum("ij,ij->i", weights, finite) / total
    return weights / total[:, None], entropy
