"""Orthonormal blocks. Vectors are rows here: a growing basis is then one contiguous array."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neucmds._backend.arrays import Array, asarray_like, centered, to_numpy, uniform_rows
from neucmds._backend.blas import combined_rows, inner_products, subtract_combined_rows

Floats = npt.NDArray[np.float64]

# Smallest eigenvalue of a Gram matrix with unit diagonal at which CholeskyQR, whose error grows
# with its inverse, still leaves two passes enough; below it the eigenvectors take over.
_WELL_CONDITIONED = 1e-5
# Directions weaker than 3e-7 of the block are rounding in its Gram matrix (eps·b = 3.6e-15).
_INDEPENDENT = 1e-13


def project_out(basis: Array, block: Array) -> tuple[Array, Array]:
    """Take the span of the orthonormal rows of `basis` out of `block`, in place.

    Returns
    -------
    remainder : array of the shape of `block`
        `block` itself: new memory for every block costs more than the subtraction.
    coefficients : array of shape (len(block), len(basis))
        What was taken out: ``block = coefficients @ basis + remainder``. It stays where the block
        is: to fetch it would be to wait for it.
    """
    coefficients = inner_products(block, basis)
    subtract_combined_rows(block, coefficients, basis)
    return block, coefficients


def orthonormal_rows(block: Array, negligible: float) -> tuple[Array, Floats]:
    """Return orthonormal rows and the factor with ``block = factor @ rows``.

    There are fewer rows than in `block` when some of these are shorter than `negligible` or
    linearly dependent.
    """
    inner = _inner(block)
    lengths = np.sqrt(np.diag(inner))
    safe = np.where(lengths > negligible, lengths, np.inf)
    # Scaling the small matrix instead of the rows saves a walk over them, and on a GPU a wait.
    mix, factor = _whitening(inner / np.outer(safe, safe))
    rows, factor = _mixed(mix / safe, block), lengths[:, None] * factor
    if not factor.shape[1]:
        return rows, factor
    # CholeskyQR2: the second pass makes the rows orthonormal to the last digit.
    mix, again = _whitening(_inner(rows))
    return _mixed(mix, rows), factor @ again


def random_rows(count: int, basis: Array, rng: np.random.Generator) -> Array:
    """Draw orthonormal centered rows orthogonal to `basis`; fewer where no more exist."""
    n = int(basis.shape[1])
    count = max(0, min(count, n - 1 - int(basis.shape[0])))
    rows = uniform_rows(count, basis, rng)
    for _ in range(2):
        rows, _ = project_out(basis, centered(rows, axis=1))
        rows, _ = orthonormal_rows(rows, 1e-8)
    return rows


def _whitening(inner: Floats) -> tuple[Floats, Floats]:
    """From the inner products of rows of about unit length: what makes them orthonormal, and back.

    Returns
    -------
    mix : ndarray of shape (r, b)
        ``mix @ rows`` are orthonormal; r < b where rows are linearly dependent.
    factor : ndarray of shape (b, r)
        ``rows = factor @ mix @ rows``.
    """
    try:
        lower = np.asarray(np.linalg.cholesky(inner))
        mix = np.asarray(np.linalg.inv(lower))
        # ‖L⁻¹‖²_F is no less than the inverse of the smallest eigenvalue.
        if _WELL_CONDITIONED * np.sum(mix**2) < 1:
            return mix, lower
    except np.linalg.LinAlgError:
        pass  # not positive definite to rounding
    lam, vectors = np.linalg.eigh(inner)
    strong = lam > _INDEPENDENT
    root, vectors = np.sqrt(lam[strong]), vectors[:, strong]
    return (vectors / root).T, vectors * root


def _inner(block: Array) -> Floats:
    return to_numpy(inner_products(block, block))


def _mixed(coefficients: Floats, block: Array) -> Array:
    return combined_rows(asarray_like(coefficients, block), block)
