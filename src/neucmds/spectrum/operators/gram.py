"""The centred operator B and its moments."""

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
    rounded,
    stored_product,
)

Result = TypeVar("Result")

# Objects up to which all of D, 200 MB, may be brought to one place for LAPACK.
MOST_GATHERED = 5000


class Gram(ABC):
    """B = −½CDC, never formed: products with blocks of columns, and the moments of D.

    An implementation says where D comes from by `rows`; it may override `product` when it can
    multiply faster than row block by row block.
    """

    n: int
    xp: Any
    dtype: Any
    # The device that products are computed on.
    device: Any
    # Whether reading D costs more than multiplying it: then blocks are wider.
    costly_pass: bool = False

    @abstractmethod
    def rows(self, rows: slice) -> Array:
        """Return these rows of D (squared scale), shape (len(rows), n)."""

    def product(self, block: Array) -> Array:
        """D @ block, in the precision of `block`: an array that may be written over."""
        xp = self.xp
        wide = (
            xp.astype(part, block.dtype, copy=False) for _, part in self.walk()
        )
        return xp.concat([part @ block for part in wide], axis=0)

    def entries(self, i: Indices, j: Indices) -> Floats:
        """Return D of listed pairs, as NumPy float64; row by row where D is not in memory."""
        out = np.empty(i.size)
        order = np.argsort(i, kind="stable")
        rows, starts = np.unique(i[order], return_index=True)
        for row, members in zip(
            rows.tolist(), np.split(order, starts[1:]), strict=True
        ):
            out[members] = to_numpy(self.rows(slice(row, row + 1)))[
                0, j[members]
            ]
        return out

    def walk(self) -> Iterator[tuple[slice, Array]]:
        """Pass over D once: row slices and their rows, which last until the next but one."""
        for rows in self.row_slices():
            yield rows, self.rows(rows)

    def row_slices(self) -> list[slice]:
        """Cut the objects into the row blocks that a pass over D walks through."""
        return list(row_blocks(self.n, self.n))

    def on_each(self, work: Callable[[slice, Array], Result]) -> list[Result]:
        """Pass over D once and do a piece of work on every row slice and its rows.

        It may be done on several slices at a time.
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
        # D between features is not checked before: its usual entry is, here.
        usual = math.sqrt(sq_norm) / self.n
        # Squares of tiny entries are zero, and of huge ones infinite.
        if not 0 < usual < math.inf:
            usual = float(self.xp.max(self.xp.abs(row_means)))
        refuse_range(math.sqrt(usual), squared=False)
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
        # The sum of all entries, squared, over the number of those beside the diagonal.
        by_mean = (n * self.mean) ** 2 * n / max(1, n - 1)
        total = self.sq_norm - by_mean
        # Below a thousand times the rounding error of ‖D‖², D is constant.
        if total <= 1e-13 * self.sq_norm:
            return 0.0
        return total

    def matmat(self, block: Array) -> Array:
        """B @ block, centering the block before the product and the result after it."""
        if not block.shape[1]:  # no pass for nothing
            return self.xp.asarray(block, copy=True)
        # In place: a first fit of 8,000 objects spends 5 % of its time on new memory.
        image = self.product(centered(block))
        image -= self.xp.mean(image, axis=0, keepdims=True)
        image *= -0.5
        return image

    def quadratic(self, coordinates: Array) -> Array:
        """Return xᵀBx of each centered column, in float64."""
        return self.xp.sum(coordinates * self.matmat(coordinates), axis=0)

    @property
    def rounds(self) -> bool:
        """Whether products in single precision are those of a float32 copy of B."""
        return False

    @cached_property
    def _copy(self) -> Products:
        """Products with a float32 copy of B, which is kept for a descent."""
        return rounded(self)

    def single(self) -> AbstractContextManager[Multiply] | None:
        """Return the context with products in single precision, None where these do not pay.

        Blocks of columns and their images are float64.
        """
        if self.rounds:
            return self._copy()
        if self.dtype == self.xp.float32:
            return nullcontext(partial(stored_product, self))
        return None

    def diagonal(self) -> Array:
        """Return the diagonal of B in float64: D is hollow, so −½(0 − 2·row mean + mean)."""
        return self.row_means - 0.5 * self.mean

    @property
    def trace(self) -> float:
        """Trace of B, the sum of all its eigenvalues."""
        return 0.5 * self.n * self.mean

    @cached_property
    def frobenius_sq(self) -> float:
        """‖B‖²_F, the sum of all squared eigenvalues."""
        # ‖B‖² = ¼(‖D‖² − 2n Σ(row means)² + n²·mean²). D is hollow, so that this is no less than
        # ‖D‖²/(4n) up to a constant: the differences cost log10(n) digits at the most.
        n = self.n
        rows_sq = float(self.xp.vecdot(self.row_means, self.row_means))
        sq_norm = self.sq_norm - 2 * n * rows_sq + (n * self.mean) ** 2
        return max(0.0, 0.25 * sq_norm)
