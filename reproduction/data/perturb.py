"""Noise, missing entries and affinities: ways to make Euclidean data non-Euclidean.

Paper: subsec:eva-pert-metric. Every function here returns **unsquared** dissimilarities; the
paper's D is their square, which `neuc_mds(…, squared=False)` takes care of.

The published k-NN and noise rows of the images were computed on unsigned bytes whose differences
wrap modulo 256 (errata E12): `wrapped_distances` does the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist
from sklearn.utils import check_random_state

from neucmds.backend.arrays import row_blocks
from neucmds.datasets import hop_distances
from neucmds.errors import InputError

Floats = npt.NDArray[np.float64]


def wrapped_hops(images: npt.NDArray[np.uint8], n_neighbors: int) -> Floats:
    """Hop counts in the neighbour graph of wrapped bytes, as the k-NN rows were published (E12)."""
    return hop_distances(
        wrapped_distances(images), n_neighbors, precomputed=True
    )


def wrapped_distances(images: npt.NDArray[np.uint8]) -> Floats:
    """‖x_i − x_j‖ of bytes modulo 256, row i from x_i minus the others: not symmetric (E12)."""
    if images.dtype != np.uint8:
        raise InputError(
            f"images are unsigned bytes (uint8), not {images.dtype}; pass raw images."
        )
    flat = images.reshape(len(images), -1)
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


def add_noise(
    images: npt.NDArray[np.uint8], *, random_state: Any = None
) -> Floats:
    """Distances of wrapped bytes with Gaussian noise added to each pair.

    Paper: subsec:eva-pert-metric and the noise rows of tab:image-other-metric. The standard
    deviation is the paper's, the largest difference that two images could have over 500.

    Parameters
    ----------
    images : ndarray of shape (n, ...)
        Unsigned bytes; their differences wrap modulo 256, as published (errata E12).
    random_state : int, RandomState instance or None
        Source of randomness.

    Returns
    -------
    ndarray of shape (n, n)
        Symmetric, zero diagonal, on the unsquared scale. Noise larger than a distance makes an
        entry negative; only its square enters D.
    """
    upper = wrapped_distances(images)
    scale = 255.0 * np.sqrt(images[0].size) / 500.0
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
    removed the MNIST and Fashion rows come out within 3 %, with 50 of 3072 entries per image
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
        raise InputError(
            f"fraction is {fraction}; pass a share of the entries, 0 up to below 1."
        )
    flat = _flat(np.asarray(features))
    rng = check_random_state(random_state)
    removed = rng.permutation(flat.size)[: round(fraction * flat.size)]
    present = np.ones(flat.size, dtype=bool)
    present[removed] = False
    return _distances_over_shared(flat, present.reshape(flat.shape))


def entropic_affinities(
    features: npt.ArrayLike, perplexity: float = 30.0
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
    affinity = _conditional_affinities(sq, np.log(perplexity))
    return (affinity + affinity.T) / 2.0


def _flat(features: npt.NDArray[Any]) -> Floats:
    return np.asarray(features, dtype=np.float64).reshape(len(features), -1)


def _distances(flat: Floats) -> Floats:
    return np.asarray(cdist(flat, flat))


def _distances_over_shared(
    flat: Floats, present: npt.NDArray[np.bool_]
) -> Floats:
    """√Σ_a m_ia m_ja (x_ia − x_ja)², from three matrix products."""
    mask = present.astype(np.float64)
    centred = (
        flat - flat.mean(axis=0)
    ) * mask  # a shift leaves differences as they are
    sq: Floats = (centred * centred) @ mask.T
    sq += sq.T.copy()
    sq -= 2.0 * (centred @ centred.T)
    np.maximum(sq, 0.0, out=sq)
    np.fill_diagonal(sq, 0.0)
    return np.sqrt(sq, out=sq)


def _conditional_affinities(sq: Floats, entropy: float) -> Floats:
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
        if np.abs(gap).max() < 1e-10:
            break
        low, high = np.where(gap > 0, beta, low), np.where(gap > 0, high, beta)
        beta = np.where(
            np.isinf(high),
            2.0 * beta,
            (low + np.minimum(high, 2.0 * beta)) / 2.0,
        )
    return affinity


def _softmax_rows(sq: Floats, beta: Floats) -> tuple[Floats, Floats]:
    """Affinities of each row and their entropy."""
    weights = np.exp(-beta[:, None] * sq)
    total = weights.sum(axis=1)
    finite = np.where(np.isfinite(sq), sq, 0.0)
    entropy = (
        np.log(total) + beta * np.einsum("ij,ij->i", weights, finite) / total
    )
    return weights / total[:, None], entropy
