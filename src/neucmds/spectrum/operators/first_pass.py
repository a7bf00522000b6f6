"""The first pass over a D that is read in blocks: validation and moments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from neucmds.backend.arrays import eps, row_blocks
from neucmds.problem.validation import Extent, Floats, Rules, Strips, tolerance, validate
from neucmds.spectrum.operators.gram import Moments
from neucmds.spectrum.operators.row_sources import RowSource

# Entries worked on together: 2 MB in float64 stay in cache through all the steps.
_PART = 2**18


class FirstPass:
    """Moments and extremes of D, from blocks of rows in order, as stored."""

    def __init__(self, source: RowSource, rules: Rules) -> None:
        n = source.n
        self.source, self.rules = source, rules
        self.extent = Extent()
        rng = np.random.default_rng(0)
        # No entry of v is small, so a single gap between D and Dᵀ cannot hide behind one.
        self.v = rng.uniform(0.5, 1.5, n) * rng.choice([-1.0, 1.0], n)
        self.dv, self.vd = np.empty(n), np.zeros(n)
        self.row_sums, self.sq_norm = np.empty(n), 0.0

    def take(self, block: Floats, start: int) -> None:
        """Walk over a block of rows; its content is used up."""
        with np.errstate(invalid="ignore", over="ignore"):  # decided when the pass is over
            for rows in row_blocks(len(block), self.source.n, _PART):
                part = block[rows].astype(np.float64, copy=False)
                self._take(part, start + rows.start)

    def _take(self, part: Floats, start: int) -> None:
        rows = slice(start, start + len(part))
        own = float(np.abs(np.diagonal(part, start)).max())
        low, high = float(part.min()), float(part.max())
        size = max(high, -low)
        self.extent = self.extent.merged(Extent(-low, high, 0.0, size, size, own))
        self.dv[rows] = part @ self.v
        self.vd += self.v[rows] @ part
        if not self.rules.squared:
            part = np.multiply(part, part, out=part)
        at = np.arange(len(part))
        part[at, start + at] = 0.0
        self.row_sums[rows] = part.sum(axis=1)
        # Not BLAS: on busy cores its threads wait for each other, 9 ms a part instead of 30 µs.
        self.sq_norm += float(np.einsum("ij,ij->", part, part))

    @property
    def moments(self) -> Moments:
        """Moments of D on the squared scale, hollow."""
        return Moments(self.row_sums / self.source.n, self.sq_norm)

    @property
    def suspect(self) -> int | None:
        """The row in which D and its transpose are farthest apart, if by half the tolerance."""
        apart = np.abs(self.dv - self.vd)
        worst = int(np.argmax(apart))
        rounding = tolerance(self.extent.size, eps(self.source.dtype))
        return worst if apart[worst] > 0.5 * rounding else None  # NaN is refused anyway

    def validate(self, row: int = 0, gaps: Floats | None = None) -> None:
        """Refuse an invalid D, given the gaps of a row to the mirrored entries."""
        gaps = np.zeros(1) if gaps is None else gaps
        i, j = sorted((row, int(np.argmax(gaps))))
        extent = replace(self.extent, gap=float(gaps.max()))
        validate(
            extent, self._strips(), self.rules, self.source.n, self.source.dtype, gap_at=(i, j)
        )

    def _strips(self) -> Strips:
        """Read rows once more; mirrored entries are not at hand, and none is used."""
        n = self.source.n
        for rows in row_blocks(n, n, _PART):
            part = np.empty((rows.stop - rows.start, n))
            self.source.fill(part, rows.start)
            yield rows.start, part, part
