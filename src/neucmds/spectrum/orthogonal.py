"""Orthonormal blocks. Vectors are rows here: a growing basis is then one contiguous array."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neucmds.arrays import Array, asarray_like, namespace, to_numpy

__all__ = ["orthonormal_rows", "project_out", "random_rows"]

Floats = npt.NDArray[np.float64]

# Smallest eigenvalue of a Gram matrix with unit diagonal at which CholeskyQR, whose error grows
# with its inverse, still leaves two passes enough; below it the eigenvectors take over.
_WELL_CONDITIONED = 1e-5
# Directions weaker than 3e-7 of the block are rounding in its Gram matrix (eps·b = 3.6e-15).
_INDEPENDENT = 1e-13


def project_out(basis: Array, block: Array) -> tuple[Array, Floats]:
    """Take the span of the orthonormal rows of `basis` out of `block`.

    Returns
    -------
    remainder : array of the shape of `block`
    coefficients : ndarray of shape (len(block), len(basis))
        What was taken out: ``block = coefficients @ basis + remainder``.
    """
    coefficients = block @ basis.T
    return block - coefficients @ basis, to_numpy(coefficients)


def orthonormal_rows(block: Array, negligible: float) -> tuple[Array, Floats]:
    """Return orthonormal rows and the factor with ``block = factor @ rows``.

    There are fewer rows than in `block` when some of these are shorter than `negligible` or
    linearly dependent.
    """
    lengths = np.sqrt(np.diag(_inner(block)))
    safe = np.where(lengths > negligible, lengths, np.inf)
    rows, factor = _whiten(_scaled(1.0 / safe, block), np.diag(lengths))
    # CholeskyQR2: the second pass makes the rows orthonormal to the last digit.
    return _whiten(rows, factor) if factor.shape[1] else (rows, factor)


def random_rows(count: int, basis: Array, rng: np.random.Generator) -> Array:
    """Draw orthonormal centered rows orthogonal to `basis`; fewer where there is no room left."""
    xp, n = namespace(basis), int(basis.shape[1])
    count = max(0, min(count, n - 1 - int(basis.shape[0])))
    # Any direction will do: normals of single precision are drawn in half of the time.
    draws = rng.standard_normal((count, n), dtype=np.float32)
    rows = xp.astype(asarray_like(draws, basis, dtype=xp.float32), basis.dtype)
    for _ in range(2):
        rows = rows - xp.mean(rows, axis=1, keepdims=True)
        rows, _ = project_out(basis, rows)
        rows, _ = orthonormal_rows(rows, 1e-8)
    return rows


def _whiten(block: Array, factor: Floats) -> tuple[Array, Floats]:
    """Orthonormalise rows of about unit length, folding what it takes into `factor`."""
    inner = _inner(block)
    lam, vectors = np.linalg.eigh(inner)
    if lam.size and lam[0] > _WELL_CONDITIONED:
        lower = np.linalg.cholesky(inner)
        return _mixed(np.linalg.inv(lower), block), factor @ lower
    strong = lam > _INDEPENDENT
    root, vectors = np.sqrt(lam[strong]), vectors[:, strong]
    return _mixed((vectors / root).T, block), factor @ (vectors * root)


def _inner(block: Array) -> Floats:
    return to_numpy(block @ block.T)


def _mixed(coefficients: Floats, block: Array) -> Array:
    return asarray_like(coefficients, block) @ block


def _scaled(factors: Floats, block: Array) -> Array:
    return asarray_like(factors[:, None], block) * block
