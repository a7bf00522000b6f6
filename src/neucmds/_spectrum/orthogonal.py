"""Orthonormal blocks. Vectors are rows here: a growing basis is then one contiguous array."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from neucmds._backend.arrays import (
    Array,
    add_product,
    asarray_like,
    center_rows,
    cholesky_and_inverse,
    namespace,
    on_cpu,
    to_numpy,
    uniform_rows,
)
from neucmds._backend.blas import combine_rows, inner_products, subtract_combined_rows

Floats = npt.NDArray[np.float64]

# Smallest eigenvalue of a Gram matrix with unit diagonal at which CholeskyQR, whose error grows
# with its inverse, still leaves two passes enough; below it the eigenvectors take over.
_WELL_CONDITIONED = 1e-5
# Directions weaker than 3e-7 of the block are rounding in its Gram matrix (eps·b = 3.6e-15).
_INDEPENDENT = 1e-13
# Largest deviation from orthonormality that one step of Newton–Schulz takes away to the last digit.
_NEARLY_ORTHONORMAL = 1e-8


def project_out(basis: Array, block: Array) -> tuple[Array, Array]:
    """Take the span of the orthonormal rows of `basis` out of `block`, in place.

    Return `block` itself, since new memory costs more than the subtraction, and the coefficients of
    what was taken out: ``coefficients @ basis``. They stay where the block is: to fetch them would
    be to wait for them.
    """
    coefficients = inner_products(block, basis)
    subtract_combined_rows(block, coefficients, basis)
    return block, coefficients


def orthonormal_rows(block: Array, negligible: float) -> tuple[Array, Floats]:
    """Return orthonormal rows and the factor with ``block = factor @ rows``.

    There are fewer rows than in `block` when some of these are shorter than `negligible` or
    linearly dependent. They may lie where `block` did, which is written over.
    """
    if not on_cpu(block) and block.shape[0]:
        ahead = orthonormal_ahead(block)
        found = Fetched.of([ahead])[0]
        if found.are_orthonormal(negligible):
            return ahead.rows, found.factor
    inner = to_numpy(inner_products(block, block))
    lengths = np.sqrt(np.diag(inner))
    safe = np.where(lengths > negligible, lengths, np.inf)
    # Scaling the small matrix instead of the rows saves a walk over them, and on a GPU a wait.
    mix, factor = _whitening(inner / np.outer(safe, safe))
    rows = combine_rows(block, asarray_like(mix / safe, block))
    factor = lengths[:, None] * factor
    if not factor.shape[1]:
        return rows, factor
    # CholeskyQR2: the second pass makes the rows orthonormal to the last digit.
    mix, again = _whitening(to_numpy(inner_products(rows, rows)))
    return combine_rows(rows, asarray_like(mix, rows)), factor @ again


@dataclass(frozen=True)
class Ahead:
    """Rows that are orthonormal unless `Fetched` say otherwise; nothing of it was waited for."""

    rows: Array
    # ``block = factor @`` the rows before the second pass; and the inner products of these.
    factor: Array
    inner: Array
    # ‖·‖² of the inverse of the factor with rows scaled to unit length, and the length of the
    # shortest vector; NaN where the Gram matrix is not positive definite.
    health: Array


@dataclass(frozen=True)
class Fetched:
    """What tells whether the rows of `Ahead` are orthonormal; here ``block = factor @ rows``."""

    factor: Floats
    inner: Floats
    health: Floats

    @classmethod
    def of(cls, some: list[Ahead]) -> list[Fetched]:
        """Fetch the numbers of several blocks at once."""
        xp = namespace(some[0].factor)
        parts = [xp.reshape(x, (-1,)) for one in some for x in (one.factor, one.inner, one.health)]
        numbers, at, found = to_numpy(xp.concat(parts)), 0, []
        for one in some:
            b = int(one.factor.shape[0])
            first, inner = numbers[at : at + 2 * b * b].reshape(2, b, b)
            at += 2 * b * b + 2
            # What the second pass took off: of I + E the root is I + E/2 to E².
            factor = 0.5 * (first + first @ inner)
            found.append(cls(factor, inner, numbers[at - 2 : at]))
        return found

    def are_orthonormal(self, negligible: float) -> bool:
        """Tell whether the rows are, and none was shorter than `negligible`; not of NaN."""
        error = np.max(np.abs(self.inner - np.eye(len(self.inner))), initial=0.0)
        return bool(error < _NEARLY_ORTHONORMAL and self.health[1] > negligible)

    @property
    def weakest(self) -> float:
        """A lower bound on the singular values of the factor."""
        sq_inverse, shortest = self.health
        return float(shortest / np.sqrt(sq_inverse))


def orthonormal_ahead(block: Array) -> Ahead:
    """Make rows orthonormal as if they were well-conditioned.

    CholeskyQR2, its second pass by one step of Newton–Schulz: of G = I + E the inverse root is
    I − E/2 to E².
    """
    mix, factor, health = _first_pass(inner_products(block, block))
    rows = mix @ block
    inner = inner_products(rows, rows)
    return Ahead(add_product(rows, inner, rows, 1.5, -0.5), factor, inner, health)


def _first_pass(inner: Array) -> tuple[Array, Array, Array]:
    """From the Gram matrix G = LLᵀ of a block: L⁻¹, L, and the health of `Ahead`."""
    xp = namespace(inner)
    with np.errstate(invalid="ignore", divide="ignore"):
        lengths = xp.sqrt(xp.linalg.diagonal(inner))
        lower, inverse = cholesky_and_inverse(inner / (lengths[:, None] * lengths[None, :]))
        health = xp.stack([xp.sum(inverse * inverse), xp.min(lengths)])
        return inverse / lengths[None, :], lengths[:, None] * lower, health


def random_rows(count: int, basis: Array, rng: np.random.Generator) -> Array:
    """Draw orthonormal centered rows orthogonal to `basis`; fewer where no more exist."""
    n = int(basis.shape[1])
    count = max(0, min(count, n - 1 - int(basis.shape[0])))
    rows = uniform_rows(count, basis, rng)
    for _ in range(2):
        center_rows(rows)
        rows, _ = project_out(basis, rows)
        rows, _ = orthonormal_rows(rows, 1e-8)
    return rows


def _whitening(inner: Floats) -> tuple[Floats, Floats]:
    """From the inner products of rows of about unit length: what makes them orthonormal, and back.

    ``mix @ rows`` are orthonormal, fewer where rows are dependent; ``rows = factor @ mix @ rows``.
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
