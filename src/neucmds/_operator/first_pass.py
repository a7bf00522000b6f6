"""The first pass over a D outside memory: its moments, and whether it is a dissimilarity at all."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds._backend.arrays import eps, row_blocks
from neucmds._input.validation import Rules
from neucmds._operator.gram import Moments
from neucmds._operator.row_sources import RowSource
from neucmds.errors import InputError, option

__all__ = ["FirstPass", "Mirrored"]

Floats = npt.NDArray[Any]
Indices = npt.NDArray[np.intp]

# Entries looked at together: 2 MB in float64 stay in cache through all the looks.
_LOOK = 2**18
# Rows compared entry by entry when the random vector finds D and its transpose apart.
_SUSPECTS = 64


class FirstPass:
    """Takes blocks of rows in order, as stored; sums for the moments, notes the worst it meets.

    Parameters
    ----------
    source : RowSource
    squared : bool
        Whether the rows are on the squared scale already.
    labels : tuple of str or None
        Names of the objects, for messages.
    """

    def __init__(self, source: RowSource, squared: bool, labels: tuple[str, ...] | None) -> None:
        n = source.n
        self.n, self.dtype, self.transposed = n, source.dtype, source.transposed
        self.rules = Rules(squared, False, False, labels)
        rng = np.random.default_rng(0)
        # No entry of v is small, so a single gap between D and Dᵀ cannot hide behind one.
        self.v = rng.uniform(0.5, 1.5, n) * rng.choice([-1.0, 1.0], n)
        self.dv, self.vd = np.empty(n), np.zeros(n)
        self.row_sums, self.diagonal = np.empty(n), np.empty(n)
        self.sq_norm = self.size = self.lowest = 0.0
        self.lowest_at = self.size_at = (0, 0)

    def take(self, block: Floats, start: int) -> None:
        """Look at a block of rows; its content is used up."""
        for rows in row_blocks(len(block), self.n, _LOOK):
            part = block[rows].astype(np.float64, copy=False)
            self._look(part, start + rows.start)

    def _look(self, part: Floats, start: int) -> None:
        rows = slice(start, start + len(part))
        low, high = float(part.min()), float(part.max())
        if not (math.isfinite(low) and math.isfinite(high)):
            raise self._unusable(part, start)
        if low < self.lowest:
            self.lowest, self.lowest_at = low, self._place(int(part.argmin()), start)
        if max(high, -low) > self.size:
            self.size = max(high, -low)
            at = int(part.argmax() if high >= -low else part.argmin())
            self.size_at = self._place(at, start)
        own = np.arange(len(part))
        self.diagonal[rows] = part[own, start + own]
        self.dv[rows] = part @ self.v
        self.vd += self.v[rows] @ part
        if not self.rules.squared:
            with np.errstate(over="ignore"):  # judged at the end
                part = np.multiply(part, part, out=part)
        part[own, start + own] = 0.0
        self.row_sums[rows] = part.sum(axis=1)
        # Not BLAS: on busy cores its threads wait for each other, 9 ms a look instead of 30 µs.
        self.sq_norm += float(np.einsum("ij,ij->", part, part))

    @property
    def moments(self) -> Moments:
        """Moments of D on the squared scale, hollow."""
        return Moments(self.row_sums / self.n, self.sq_norm)

    @property
    def tolerance(self) -> float:
        """What counts as rounding, as for a D in memory: √ε of the largest entry."""
        return math.sqrt(eps(self.dtype)) * self.size

    def suspects(self) -> Indices:
        """Rows in which D and its transpose are apart by half the tolerance, the worst first."""
        if self.lowest < 0 and not self.rules.squared:
            return np.empty(0, dtype=np.intp)  # refused anyway
        apart = np.abs(self.dv - self.vd)
        worst = np.argsort(-apart, kind="stable")[:_SUSPECTS]
        return worst[apart[worst] > 0.5 * self.tolerance]

    def seen_from(self, suspects: Indices) -> Mirrored:
        """Return what compares these rows with their columns."""
        return Mirrored(self, suspects)

    def judge(self) -> None:
        """Raise for what is too much; in the words used for a D in memory."""
        if not self.rules.squared and self.lowest < 0:
            raise InputError(
                f"Negative values in data: the lowest is {self.lowest:.4g} at "
                f"{self.rules.place(*self.lowest_at)}; pass {option('squared', True)} if D "
                "already holds "
                "squared dissimilarities."
            )
        worst = int(np.argmax(np.abs(self.diagonal)))
        if abs(self.diagonal[worst]) > self.tolerance:
            raise InputError(
                f"D has a diagonal that is not zero: {self.diagonal[worst]:.4g} at "
                f"{self.rules.place(worst, worst)}; set it to 0, or convert D if it holds "
                "similarities."
            )
        if not self.rules.squared and self.size > math.sqrt(float(np.finfo(self.dtype).max)):
            raise InputError(
                f"D overflows when squared: {self.size:.2g} at "
                f"{self.rules.place(*self.size_at)}; divide D by a constant."
            )

    def _unusable(self, part: Floats, start: int) -> InputError:
        infinite = np.isinf(part)
        bad, what = (infinite, "infinite") if infinite.any() else (np.isnan(part), "missing (NaN)")
        place = self.rules.place(*self._place(int(bad.argmax()), start))
        return InputError(f"D holds {what} entries, the first at {place}; all must be finite.")

    def _place(self, flat: int, start: int) -> tuple[int, int]:
        i, j = start + flat // self.n, flat % self.n
        return (j, i) if self.transposed else (i, j)


class Mirrored:
    """Takes the blocks once more, and keeps a few rows and the columns of the same objects."""

    def __init__(self, first: FirstPass, which: Indices) -> None:
        self.first, self.which = first, which
        self.kept_rows = np.empty((which.size, first.n))
        self.kept_columns = np.empty((first.n, which.size))

    def take(self, block: Floats, start: int) -> None:
        """Keep what is ours of a block."""
        stop = start + len(block)
        self.kept_columns[start:stop] = block[:, self.which]
        inside = (self.which >= start) & (self.which < stop)
        self.kept_rows[inside] = block[self.which[inside] - start]

    def judge(self) -> None:
        """Raise if an entry and its mirror image are further apart than rounding explains."""
        first = self.first
        gaps = np.abs(self.kept_rows - self.kept_columns.T)
        at = int(gaps.argmax())
        i, j = int(self.which[at // first.n]), at % first.n
        if gaps.flat[at] > first.tolerance:
            place = first.rules.place(*sorted((i, j)))
            raise InputError(
                f"D is not symmetric: largest gap {gaps.flat[at]:.2g} at {place}; average D and "
                f"its transpose before ({option('symmetrize', True)} needs D in memory)."
            )
