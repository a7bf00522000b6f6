"""The first pass over a D that is read in blocks: validation and moments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from neucmds._backend.arrays import eps, row_blocks
from neucmds._input import Extent, Floats, Half, Place, Rules, Strips, tolerance, validate
from neucmds._operator.gram import Moments
from neucmds._operator.row_sources import RowSource

Indices = npt.NDArray[np.intp]

# Entries worked on together: 2 MB in float64 stay in cache through all the steps.
_PART = 2**18
# Rows compared entry by entry when the random vector finds D and its transpose apart.
_SUSPECTS = 64


class FirstPass:
    """Moments and extremes of D, from blocks of rows in order, as stored."""

    def __init__(self, source: RowSource, rules: Rules) -> None:
        n = source.n
        self.source, self.n = source, n
        self.dtype, self.transposed = source.dtype, source.transposed
        self.rules = rules
        self.extent = Extent()
        self.triangle: Half | None = None
        rng = np.random.default_rng(0)
        # No entry of v is small, so a single gap between D and Dᵀ cannot hide behind one.
        self.v = rng.uniform(0.5, 1.5, n) * rng.choice([-1.0, 1.0], n)
        self.dv, self.vd = np.empty(n), np.zeros(n)
        self.row_sums, self.sq_norm = np.empty(n), 0.0

    def take(self, block: Floats, start: int) -> None:
        """Walk over a block of rows; its content is used up."""
        with np.errstate(invalid="ignore", over="ignore"):  # decided when the pass is over
            for rows in row_blocks(len(block), self.n, _PART):
                part = block[rows].astype(np.float64, copy=False)
                self._take(part, start + rows.start)

    def _take(self, part: Floats, start: int) -> None:
        rows = slice(start, start + len(part))
        own = float(np.abs(np.diagonal(part, start)).max())
        below, above = self._halves(part, start)
        reach = Extent(-float(part.min()), float(part.max()), 0.0, above, below, own)
        self.extent = self.extent.merged(reach)
        self.dv[rows] = part @ self.v
        self.vd += self.v[rows] @ part
        if not self.rules.squared:
            part = np.multiply(part, part, out=part)
        at = np.arange(len(part))
        part[at, start + at] = 0.0
        self.row_sums[rows] = part.sum(axis=1)
        # Not BLAS: on busy cores its threads wait for each other, 9 ms a part instead of 30 µs.
        self.sq_norm += float(np.einsum("ij,ij->", part, part))

    def _halves(self, part: Floats, start: int) -> tuple[float, float]:
        """Largest size below and above the diagonal, until it is known that neither is empty."""
        if self.extent.below and self.extent.above:
            return 0.0, 0.0
        stop = start + len(part)
        square = part[:, start:stop]
        left = max(_size(part[:, :start]), _size(np.tril(square, -1)))
        right = max(_size(part[:, stop:]), _size(np.triu(square, 1)))
        return (right, left) if self.transposed else (left, right)

    def _strips(self) -> Strips:
        """Read rows once more; mirrored entries are not at hand, and none is used."""
        fill = self.source.fill_columns if self.transposed else self.source.fill
        for rows in row_blocks(self.n, self.n, _PART):
            part = np.empty((rows.stop - rows.start, self.n), dtype=self.dtype)
            fill(part, rows.start)
            values = part.astype(np.float64)
            yield rows.start, values, values

    @property
    def moments(self) -> Moments:
        """Moments of D on the squared scale, hollow."""
        return Moments(self.row_sums / self.n, self.sq_norm)

    def suspects(self) -> Indices:
        """Rows in which D and its transpose are apart by half the tolerance, the worst first."""
        if self.rules.symmetrize or not np.isfinite(self.dv).all():
            return np.empty(0, dtype=np.intp)  # nothing to find, or refused anyway
        apart = np.abs(self.dv - self.vd)
        worst = np.argsort(-apart, kind="stable")[:_SUSPECTS]
        return worst[apart[worst] > 0.5 * tolerance(self.extent.size, eps(self.dtype))]

    def validate(self, gap: float = 0.0, gap_at: Place | None = None) -> None:
        """Refuse an invalid D, given its largest gap to a mirrored entry."""
        extent = replace(self.extent, gap=gap)
        _, self.triangle = validate(
            extent, self._strips(), self.rules, self.n, self.dtype, gap_at=gap_at
        )


def _size(piece: Floats) -> float:
    return max(float(piece.max()), -float(piece.min())) if piece.size else 0.0


class Mirrored:
    """Takes the blocks once more, and keeps a few rows and the columns of the same objects."""

    def __init__(self, which: Indices, n: int) -> None:
        self.which, self.n = which, n
        self.kept_rows = np.empty((which.size, n))
        self.kept_columns = np.empty((n, which.size))

    def take(self, block: Floats, start: int) -> None:
        """Keep the entries of these rows and columns."""
        stop = start + len(block)
        self.kept_columns[start:stop] = block[:, self.which]
        inside = (self.which >= start) & (self.which < stop)
        self.kept_rows[inside] = block[self.which[inside] - start]

    def gap(self) -> tuple[float, Place]:
        """Return the largest difference of an entry to its mirror image, and where it is."""
        gaps = np.abs(self.kept_rows - self.kept_columns.T)
        at = int(gaps.argmax())
        i, j = sorted((int(self.which[at // self.n]), at % self.n))
        return float(gaps.flat[at]), (i, j)
