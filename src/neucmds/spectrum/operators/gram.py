"""The operator B = −½CDC, with C the centering matrix, and the moments of D."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np

from neucmds.backend.arrays import (
    Array,
    Floats,
    Indices,
    centered,
    row_blocks,
    to_numpy,
)
from neucmds.backend.cuda_kernels import row_moments
from neucmds.problem.validation import refuse_range
from neucmds.spectrum.operators.single_precision import (
    Multiply,
    Products,
    float32_copy_products,
    stored_product,
)

Result = TypeVar("Result")

# Objects up to which all of D, 200 MB, may be brought to one place for LAPACK.
MOST_GATHERED = 5000


class Gram(ABC):
    """B = −½CDC, never formed: products with blocks of columns, and the moments of D.

    An implementation returns rows of D by `rows`, and may override what is faster otherwise.
    """

    # Number of objects, and the array namespace, dtype and device of D and of products.
    n: int
    xp: Any
    dtype: Any
    device: Any
    # Whether to read D costs more than to multiply it: then blocks have more columns.
    costly_pass: bool = False

    @abstractmethod
    def rows(self, rows: slice) -> Array:
        """Return these rows of D (squared scale), shape (len(rows), n)."""

    def product(self, block: Array) -> Array:
        """D @ block, in the precision of `block`: an array that may be written over."""
        xp = self.xp
        products = [
            xp.astype(part, block.dtype, copy=False) @ block
            for _, part in self.walk()
        ]
        return xp.concat(products, axis=0)

    def entries(self, i: Indices, j: Indices) -> Floats:
        """Return D of pairs (i, j), as NumPy float64, by reading each row i once."""
        out = np.empty(i.size)
        order = np.argsort(i, kind="stable")
        rows, starts = np.unique(i[order], return_index=True)
        pairs_of_rows = np.split(order, starts[1:])
        for row, pairs in zip(rows.tolist(), pairs_of_rows, strict=True):
            entries = to_numpy(self.rows(slice(row, row + 1)))[0]
            out[pairs] = entries[j[pairs]]
        return out

    def walk(self) -> Iterator[tuple[slice, Array]]:
        """Pass over D once: yield row slices and their rows."""
        for rows in self.row_slices():
            yield rows, self.rows(rows)

    def row_slices(self) -> list[slice]:
        """Return the row slices of a pass over D."""
        return list(row_blocks(self.n, self.n))

    def on_each(self, work: Callable[[slice, Array], Result]) -> list[Result]:
        """Pass over D once, and return ``work(rows, part of D)`` of every row slice.

        Implementations may work on several slices at a time.
        """
        return [work(rows, part) for rows, part in self.walk()]

    def read_moments(self) -> tuple[Array, float]:
        """Return the row means and ‖D‖²_F, accumulated in float64 in one pass."""
        parts = self.on_each(lambda _, part: row_moments(part))
        means = self.xp.concat([means for means, _ in parts])
        return means, float(sum(sq for _, sq in parts))

    @cached_property
    def _moments(self) -> tuple[Array, float]:
        row_means, sq_norm = self.read_moments()
        # The range of a D between features is not checked before: the root mean square here.
        typical = math.sqrt(sq_norm) / self.n
        # Squares of tiny entries are zero, and of huge ones infinite.
        if not 0 < typical < math.inf:
            typical = float(self.xp.max(self.xp.abs(row_means)))
        refuse_range(math.sqrt(typical), squared=False)
        return row_means, sq_norm

    @property
    def row_means(self) -> Array:
        """Mean of every row of D, over all n entries, in float64."""
        return self._moments[0]

    @property
    def sq_norm(self) -> float:
        """‖D‖²_F."""
        return self._moments[1]

    @cached_property
    def mean(self) -> float:
        """Mean of all entries of D."""
        return float(self.xp.mean(self.row_means))

    @property
    def total_sum_of_squares(self) -> float:
        """Σ(D_ij − mean)² over i ≠ j, the mean being that of these entries."""
        n = self.n
        # The squared sum of all entries, n²·mean, over the n(n − 1) that are not on the diagonal.
        of_mean = (n * self.mean) ** 2 * n / max(1, n - 1)
        total = self.sq_norm - of_mean
        # Below a thousand times the rounding error of ‖D‖², D is constant.
        if total <= 1e-13 * self.sq_norm:
            return 0.0
        return total

    def matmat(self, block: Array) -> Array:
        """B @ block, centering the block before the product and the result after it."""
        # Without columns D is not read.
        if not block.shape[1]:
            return self.xp.asarray(block, copy=True)
        # In place: to get new memory took 5 % of a first fit of 8,000 objects.
        image = self.product(centered(block))
        image -= self.xp.mean(image, axis=0, keepdims=True)
        image *= -0.5
        return image

    def quadratic(self, coordinates: Array) -> Array:
        """Return xᵀBx of each column of float64 coordinates."""
        return self.xp.sum(coordinates * self.matmat(coordinates), axis=0)

    @property
    def uses_float32_copy(self) -> bool:
        """Whether products in single precision are those of a float32 copy of B."""
        return False

    @cached_property
    def _copy_products(self) -> Products:
        """Products with the float32 copy of B, which is made once."""
        return float32_copy_products(self)

    def single(self) -> AbstractContextManager[Multiply] | None:
        """Return the context of a product with B in float32; None where that does not pay.

        The product takes and returns float64 columns.
        """
        if self.uses_float32_copy:
            return self._copy_products()
        if self.dtype == self.xp.float32:
            return nullcontext(partial(stored_product, self))
        return None

    def diagonal(self) -> Array:
        """Return the diagonal of B in float64: −½(D_ii − 2·row mean + mean), with D_ii = 0."""
        return self.row_means - 0.5 * self.mean

    @property
    def trace(self) -> float:
        """Trace of B, the sum of all its eigenvalues."""
        return 0.5 * self.n * self.mean

    @cached_property
    def frobenius_sq(self) -> float:
        """‖B‖²_F, the sum of all squared eigenvalues."""
        # ‖B‖² = ¼(‖D‖² − 2n Σ(row means)² + n²·mean²). With zeros on the diagonal of D this is no
        # less than ‖D‖²/(4n) up to a constant: the differences lose at most log10(n) digits.
        n = self.n
        rows_sq = float(self.xp.vecdot(self.row_means, self.row_means))
        sq_norm = self.sq_norm - 2 * n * rows_sq + (n * self.mean) ** 2
        return max(0.0, 0.25 * sq_norm)
