"""The centred operator B and its moments."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import Array, centered, namespace, row_blocks, to_numpy
from neucmds.backend.cuda_kernels import row_moments
from neucmds.problem.validation import out_of_range
from neucmds.spectrum.operators.single_precision import Single, as_stored

Result = TypeVar("Result")
Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

# Objects up to which all of D, 200 MB, may be brought to one place for LAPACK.
MOST_GATHERED = 5000


@dataclass(frozen=True)
class Moments:
    """Row means and ‖D‖²_F; the diagonal, trace and norm of B follow from them."""

    # In float64, over all n entries of a row.
    row_means: Array
    sq_norm: float

    def __post_init__(self) -> None:
        # Blocks, of features for instance, are not checked before; their norm is.
        xp = namespace(self.row_means)
        norm = math.sqrt(self.sq_norm)
        zero = not bool(xp.any(self.row_means != 0))
        if not (1e-100 < norm < 1e100 or zero):
            raise out_of_range("D is", f"‖D²‖ is {norm:.2g}", norm, not norm < 1)

    @cached_property
    def mean(self) -> float:
        """Mean of all entries of D."""
        return float(namespace(self.row_means).mean(self.row_means))

    @property
    def total_sum_of_squares(self) -> float:
        """Σ(D_ij − mean)² over i ≠ j, the mean being that of these entries."""
        n = int(self.row_means.shape[0])
        # Below a thousand times the rounding error of ‖D‖², D is constant.
        total = self.sq_norm - (n * self.mean) ** 2 * n / max(1, n - 1)
        return total if total > 1e-13 * self.sq_norm else 0.0


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
        wide = (xp.astype(part, block.dtype, copy=False) for _, part in self.walk())
        return xp.concat([part @ block for part in wide], axis=0)

    def pick(self, indices: Indices) -> Array | None:
        """Return some rows of D; None where that costs more than as many rows."""
        return None

    def entries(self, i: Indices, j: Indices) -> Floats:
        """Return D of some pairs, as NumPy float64; row by row where D is not in memory."""
        out = np.empty(i.size)
        order = np.argsort(i, kind="stable")
        rows, starts = np.unique(i[order], return_index=True)
        for row, members in zip(rows.tolist(), np.split(order, starts[1:]), strict=True):
            out[members] = to_numpy(self.rows(slice(row, row + 1)))[0, j[members]]
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

    @cached_property
    def moments(self) -> Moments:
        """Row means and norm of D, accumulated in float64 in one pass."""
        parts = self.on_each(lambda _, part: row_moments(part))
        means = self.xp.concat([means for means, _ in parts])
        return Moments(means, float(sum(sq for _, sq in parts)))

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

    def single(self) -> Single | None:
        """Return B in single precision where that pays, None where it does not."""
        if self.dtype == self.xp.float32:
            return as_stored(self)
        return None

    def diagonal(self) -> Array:
        """Return the diagonal of B in float64: D is hollow, so −½(0 − 2·row mean + mean)."""
        return self.moments.row_means - 0.5 * self.moments.mean

    @property
    def trace(self) -> float:
        """Trace of B, the sum of all its eigenvalues."""
        return 0.5 * self.n * self.moments.mean

    @cached_property
    def frobenius_sq(self) -> float:
        """‖B‖²_F, the sum of all squared eigenvalues."""
        # D is hollow, so ‖B‖² ≥ ‖D‖²/(4n) up to a constant: the differences cost log10(n) digits
        # at the most.
        means = self.moments.row_means
        n = self.n
        row_part = float(self.xp.vecdot(means, means))
        centered = self.moments.sq_norm - 2 * n * row_part + (n * self.moments.mean) ** 2
        return max(0.0, 0.25 * centered)
