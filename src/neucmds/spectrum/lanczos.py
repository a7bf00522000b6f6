"""Block Lanczos with full reorthogonalisation and thick restarts.

The projected matrix is stored whole, not as blocks on its diagonals, so that restarts and added
random vectors are no special cases. Vectors are rows: the basis is the first rows of one array.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from neucmds.backend.arrays import (
    EPS,
    Array,
    Floats,
    Indices,
    asarray_like,
    center_rows,
    cholesky_and_inverse,
    contiguous,
    empty_like,
    index_like,
    namespace,
    on_cpu,
    to_numpy,
    uniform_rows,
)
from neucmds.backend.blas import (
    combine_rows,
    inner_products,
    subtract_combined_rows,
)
from neucmds.spectrum.operators.single_precision import Multiply

# Least singular value of the factor of a block, relative to its longest image, at which a second
# orthogonalisation is not needed.
WEAK = 1e-4
# Least eigenvalue of a Gram matrix with unit diagonal at which Cholesky factors suffice.
_WELL_CONDITIONED = 1e-4
# Largest deviation from orthonormality that a step of Newton–Schulz removes: it leaves the square.
_NEARLY_ORTHONORMAL = math.sqrt(EPS)
# Least eigenvalue of a Gram matrix that is no rounding, the square of a length of 3e-7. Rounding of
# 16 rows is 16ε = 3.6e-15.
_INDEPENDENT = 1e-13


class _Unjudged(NamedTuple):
    """A block that was made orthonormal without waiting for the GPU, and the state before it."""

    # `KrylovBasis.coupled_from` and `KrylovBasis.size` before the block.
    coupled_from: int
    size: int
    # The factor and the inner products that `orthonormal_ahead` returned, side by side.
    factor_and_inner: Array


class KrylovBasis:
    """Orthonormal centered rows: `size` projected ones, then a block of `width` to multiply next.

    `multiply` is the product of B with a block of columns, of relative error `precision`; `rng`
    draws rows where a block loses some (B of low rank, repeated eigenvalues).

    After a block a GPU is not waited for: blocks are taken to be well-conditioned until `solve`,
    which looks at all of them, and repeats them from the first that was not.

    Attributes
    ----------
    values, residuals : ndarray of shape (size,)
        Ritz values θ of the last `solve`, largest first, and ‖B u − θ u‖ of each pair (θ, u)
        without the rounding of products.
    coefficients : array of shape (size, size)
        Column i holds the i-th Ritz vector in the basis, on the device of the rows.
    remainder : ndarray of shape (size, width)
        Row i holds B u − θ u of the i-th pair, in terms of the next block.
    coupling : ndarray of shape (…, width)
        The parts of B times the last projected rows in the next block; other rows have none.
    """

    values: Floats
    residuals: Floats
    coefficients: Array
    remainder: Floats
    coupling: Floats

    def __init__(
        self,
        rows: Array,
        multiply: Multiply,
        rng: np.random.Generator,
        precision: float,
    ) -> None:
        self.rows = rows
        self.multiply = multiply
        self.rng = rng
        self.precision = precision
        self.size = 0
        self.width = 0
        # The rows from here on have products with B that reach into the next block.
        self.coupled_from = 0
        self.n_products = 0
        self.queued: list[_Unjudged] = []
        capacity = rows.shape[0]
        self.projected = empty_like(rows, (capacity, capacity))
        self.projected[:, :] = 0.0

    @property
    def noise(self) -> float:
        """Rounding of the products: what it adds to a residual or to an eigenvalue of zero."""
        return self.precision * float(np.max(np.abs(self.values)))

    @property
    def has_room(self) -> bool:
        """Whether the next block and one like it after that fit in."""
        return bool(self.size + 2 * self.width <= self.rows.shape[0])

    def inject(self, count: int) -> None:
        """Append random rows to the next block.

        A block of b rows finds at most b copies of a repeated eigenvalue, and each row more one.
        """
        n_used = self.size + self.width
        capacity, n = self.rows.shape
        basis = self.rows[:n_used, :]
        # There are n − 1 centered directions in all.
        count = max(0, min(count, capacity - n_used, n - 1 - n_used))
        rows = uniform_rows(count, basis, self.rng)
        rows = new_directions(basis, rows)
        count = rows.shape[0]
        self.rows[n_used : n_used + count, :] = rows
        self.width += count

    def expand(self) -> None:
        """Multiply the next block, count it to the basis, and make the next one of the image."""
        # The image of the first block, of random vectors, may be ill-conditioned.
        if on_cpu(self.rows) or not self.size:
            self._expand_with_care()
            return
        coupled_from = self.coupled_from
        size = self.size
        image = self._project()
        rows, factor, inner = orthonormal_ahead(image)
        both = namespace(rows).concat([factor, inner], axis=1)
        self.queued.append(_Unjudged(coupled_from, size, both))
        self.width = rows.shape[0]
        self.rows[self.size : self.size + self.width, :] = rows

    def _expand_with_care(self) -> None:
        """Expand, and orthogonalise the image again as long as it is ill-conditioned."""
        old = self.size
        width = self.width
        image = self._project()
        inside_sq = self._inside_sq(old)
        inner = to_numpy(inner_products(image, image))
        largest = float(
            np.sqrt(np.max(np.diag(inner) + inside_sq, initial=0.0))
        )
        rows, coupling, weakest = orthonormal_rows(
            image, self.precision * largest, inner
        )
        strength = np.inf
        # An image of zeros has no directions, so no weak ones.
        if largest:
            strength = weakest / largest
        while strength < WEAK:
            # A weak direction was scaled up, with what rounding left of the basis and of the mean.
            center_rows(rows)
            rows, _ = project_out(self.rows[: self.size, :], rows)
            # Of rows of length 1, one that lost nine tenths was in the basis.
            rows, second_factor, strength = orthonormal_rows(
                rows, negligible=0.1
            )
            coupling = coupling @ second_factor
        self.coupling = coupling
        self.width = rows.shape[0]
        self.rows[self.size : self.size + self.width, :] = rows
        if self.width < width:
            self.inject(width - self.width)

    def _inside_sq(self, start: int) -> Floats:
        """Squared lengths of the parts in the basis that B times the rows from `start` on has."""
        inside = self.projected[start : self.size, : self.size]
        return to_numpy(namespace(inside).sum(inside * inside, axis=1))

    def _settle(self) -> None:
        """Look at the blocks that were not waited for, and repeat them from the first bad one."""
        queued = self.queued
        self.queued = []
        if not queued:
            return
        first_row = queued[0].size
        inside_sq = self._inside_sq(first_row)
        # One transfer for all blocks, which have one width.
        parts = [block.factor_and_inner for block in queued]
        fetched = to_numpy(namespace(self.rows).concat(parts, axis=0))
        width = int(parts[0].shape[0])
        for number, block in enumerate(queued):
            start = block.size - first_row
            rows = slice(start, start + width)
            factor = fetched[rows, :width]
            inner = fetched[rows, width:]
            error = np.max(np.abs(inner - np.eye(width)))
            # A row of the image has a part in the basis, and its row of the factor outside.
            outside_sq = np.sum(factor**2, axis=1)
            largest = np.sqrt(np.max(outside_sq + inside_sq[rows]))
            inverse = np.linalg.inv(factor)
            # 1/‖inverse‖_F bounds the least singular value from below.
            weakest = 1 / np.linalg.norm(inverse)
            # If Cholesky failed both are NaN, and the comparisons false.
            if error < _NEARLY_ORTHONORMAL and weakest >= WEAK * largest:
                self.coupling = factor
                continue
            # Back to the state before this block; all from here on are repeated.
            self.coupled_from = block.coupled_from
            self.size = block.size
            self.width = width
            for _ in queued[number:]:
                self._expand_with_care()
            return

    def _project(self) -> Array:
        """Multiply the next block and count it to the basis; return the image outside the basis."""
        old = self.size
        new = self.size + self.width
        self.n_products += self.width
        image = contiguous(self.multiply(self.rows[old:new, :].T).T)
        # First out of the rows that it has parts of (the last two blocks; after a restart, all),
        # then out of all rows: with a huge trace one pass leaves too much rounding.
        image, coupled = project_out(
            self.rows[self.coupled_from : new, :], image
        )
        image, coefficients = project_out(self.rows[:new, :], image)
        # The projection is what both passes subtracted.
        coefficients[:, self.coupled_from :] += coupled
        # The lower triangle of the projected matrix, which is all that eigh reads.
        self.projected[old:new, :new] = coefficients
        self.coupled_from = old
        self.size = new
        self.width = 0
        # Rounding would add the constant vector to the basis.
        center_rows(image)
        return image

    def solve(self) -> None:
        """Compute the Ritz values and vectors of the basis, and their residuals."""
        self._settle()
        xp = namespace(self.rows)
        m = self.size
        values, vectors = xp.linalg.eigh(self.projected[:m, :m])
        self.coefficients = xp.flip(vectors, axis=1)
        # B maps only the last rows out of the basis, by `coupling` into the next block: residuals
        # need the coefficients of these rows alone. One transfer fetches them and the values.
        last_rows = self.coefficients[m - self.coupling.shape[0] :, :]
        descending = xp.flip(values, axis=0)[None, :]
        fetched = to_numpy(xp.concat([descending, last_rows], axis=0))
        self.values = fetched[0]
        self.remainder = fetched[1:].T @ self.coupling
        self.residuals = np.linalg.norm(self.remainder, axis=1)

    def vectors(self, which: Indices) -> Array:
        """Return Ritz vectors, by their numbers, as orthonormal rows."""
        columns = index_like(which, self.rows)
        xp = namespace(self.rows)
        coefficients = xp.take(self.coefficients, columns, axis=1)
        return coefficients.T @ self.rows[: self.size, :]

    def restart(self, which: Indices) -> None:
        """Reduce the basis to these Ritz vectors and the next block: a thick restart."""
        m = self.size
        n_kept = int(which.size)
        block = namespace(self.rows).asarray(
            self.rows[m : m + self.width, :], copy=True
        )
        self.rows[:n_kept, :] = self.vectors(which)
        self.projected[:, :] = 0.0
        self.projected[:n_kept, :n_kept] = asarray_like(
            np.diag(self.values[which]), self.projected
        )
        self.coupling = self.remainder[which]
        # The residual of every Ritz pair is in the next block.
        self.coupled_from = 0
        self.size = n_kept
        self.rows[n_kept : n_kept + self.width, :] = block


def project_out(basis: Array, block: Array) -> tuple[Array, Array]:
    """Subtract the projection of `block` on the orthonormal rows of `basis`, in place.

    Return `block` and the coefficients: ``coefficients @ basis`` was subtracted.
    """
    coefficients = inner_products(block, basis)
    subtract_combined_rows(block, coefficients, basis)
    return block, coefficients


def new_directions(basis: Array, rows: Array) -> Array:
    """Return the rows centered, orthonormal, and orthogonal to a basis; fewer if they depend on it.

    The rows are overwritten.
    """
    # After the first pass, rows that were short still have a part in the basis by rounding.
    for _ in range(2):
        center_rows(rows)
        rows, _ = project_out(basis, rows)
        rows, _, _ = orthonormal_rows(rows, negligible=1e-8)
    return rows


def orthonormal_rows(
    block: Array, negligible: float, inner: Floats | None = None
) -> tuple[Array, Floats, float]:
    """Return orthonormal rows, the factor with ``block = factor @ rows``, and how weak that is.

    There are fewer rows than in `block` if some are shorter than `negligible` or linearly
    dependent. `block` is overwritten; `inner` are the inner products of its rows, if known. The
    third value is a lower bound on the singular values of the factor, infinite without rows.
    """
    if inner is None:
        inner = to_numpy(inner_products(block, block))
    lengths = np.sqrt(np.diag(inner))
    # Divided by an infinite length, a negligible row is zero, and _whitening drops it.
    divisors = np.where(lengths > negligible, lengths, np.inf)
    # The small matrix is scaled instead of the rows, which saves a pass over them.
    mix, factor = _whitening(inner / np.outer(divisors, divisors))
    inverse = mix / divisors
    rows = combine_rows(block, asarray_like(inverse, block))
    factor = lengths[:, None] * factor
    if not factor.shape[1]:
        return rows, factor, np.inf
    # 1/‖inverse‖_F bounds the least singular value from below.
    weakest = 1 / float(np.linalg.norm(inverse))
    # The second pass makes the rows orthonormal to the last digit.
    second_mix, second_factor = _whitening(
        to_numpy(inner_products(rows, rows))
    )
    rows = combine_rows(rows, asarray_like(second_mix, rows))
    return rows, factor @ second_factor, weakest


def orthonormal_ahead(block: Array) -> tuple[Array, Array, Array]:
    """Make rows orthonormal as if they were well-conditioned, without waiting for a GPU.

    Return them, the factor (NaN if the Gram matrix is not positive definite), and the inner
    products I + E of the rows before a last correction. ``block = factor @ rows`` holds but for
    E/2, which `_settle` bounds.
    """
    xp = namespace(block)
    inner = inner_products(block, block)
    lengths = xp.sqrt(xp.linalg.diagonal(inner))
    lower, inverse = cholesky_and_inverse(
        inner / (lengths[:, None] * lengths[None, :])
    )
    rows = (inverse / lengths[None, :]) @ block
    # With I + E the inner products: (I + E)^(−1/2) ≈ I − E/2 = 1.5 I − 0.5 (I + E).
    inner_again = inner_products(rows, rows)
    corrected = 1.5 * rows
    subtract_combined_rows(corrected, 0.5 * inner_again, rows)
    return corrected, lengths[:, None] * lower, inner_again


def _whitening(inner: Floats) -> tuple[Floats, Floats]:
    """Return mix and factor, from the inner products of rows of length 1 or 0.

    ``mix @ rows`` are orthonormal, fewer than `rows` if these are dependent, and ``rows = factor @
    (mix @ rows)``.
    """
    try:
        lower = np.asarray(np.linalg.cholesky(inner))
        mix = np.asarray(np.linalg.inv(lower))
        # 1/‖L⁻¹‖²_F bounds the least eigenvalue from below. Without rows the norm is zero.
        if _WELL_CONDITIONED * np.sum(mix**2) < 1:
            return mix, lower
    except np.linalg.LinAlgError:
        # The rows are dependent but for rounding.
        pass
    lam, vectors = np.linalg.eigh(inner)
    is_independent = lam > _INDEPENDENT
    root = np.sqrt(lam[is_independent])
    vectors = vectors[:, is_independent]
    return (vectors / root).T, vectors * root
