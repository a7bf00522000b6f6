"""The walk over a D that is read in blocks of rows: what it holds, and its moments."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from neucmds._backend.arrays import eps, row_blocks
from neucmds._input.validation import (
    Entries,
    Extreme,
    Findings,
    Floats,
    Place,
    Rules,
    Tile,
    diagonal_findings,
    entry,
    tolerance,
    validate,
)
from neucmds._operator.gram import Moments
from neucmds._operator.row_sources import RowSource

Indices = npt.NDArray[np.intp]

# Entries worked on together: 2 MB in float64 stay in cache through all the steps.
_PART = 2**18
# Rows compared entry by entry when the random vector finds D and its transpose apart.
_SUSPECTS = 64


class FirstPass:
    """Takes blocks of rows in order, as stored; sums for the moments, notes the worst it meets.

    Parameters
    ----------
    source : RowSource
    rules : Rules
    """

    def __init__(self, source: RowSource, rules: Rules) -> None:
        n = source.n
        self.source, self.n = source, n
        self.dtype, self.transposed = source.dtype, source.transposed
        self.rules = rules
        self.findings = Findings()
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
        self.findings = self.findings.merged(self._note(part, start))
        self.dv[rows] = part @ self.v
        self.vd += self.v[rows] @ part
        if not self.rules.squared:
            part = np.multiply(part, part, out=part)
        own = np.arange(len(part))
        part[own, start + own] = 0.0
        self.row_sums[rows] = part.sum(axis=1)
        # Not BLAS: on busy cores its threads wait for each other, 9 ms a part instead of 30 µs.
        self.sq_norm += float(np.einsum("ij,ij->", part, part))

    def _note(self, part: Floats, start: int) -> Findings:
        """Note what some rows hold: left of their square on the diagonal, in it, right of it."""
        found = diagonal_findings(np.diagonal(part, start), start)
        low, high = float(part.min()), float(part.max())
        if not (math.isfinite(low) and math.isfinite(high)):
            found = found.merged(self._unusable(part, start))
            part = np.where(np.isfinite(part), part, 0.0)
            low, high = float(part.min()), float(part.max())
        below, above = self._halves(part, start)
        tile = (slice(start, start + len(part)), slice(0, self.n))
        return replace(
            found,
            size=Extreme(max(high, -low), tile),
            depth=Extreme(-low, tile),
            above=Extreme(above, tile),
            below=Extreme(below, tile),
        )

    def _halves(self, part: Floats, start: int) -> tuple[float, float]:
        """Largest size below and above the diagonal, until it is known that neither is empty."""
        if self.findings.below.value and self.findings.above.value:
            return 0.0, 0.0
        stop = start + len(part)
        square = part[:, start:stop]
        left = max(_size(part[:, :start]), _size(np.tril(square, -1)))
        right = max(_size(part[:, stop:]), _size(np.triu(square, 1)))
        return (right, left) if self.transposed else (left, right)

    def _unusable(self, part: Floats, start: int) -> Findings:
        """Count what is infinite or missing; here no mirrored entry is known, and none is used."""
        rows, cols = slice(start, start + len(part)), slice(0, self.n)
        own = np.arange(len(part))
        lost = np.isnan(part)
        lost[own, start + own] = False
        below, above = np.tril(lost, start), np.triu(lost, start)
        if self.transposed:
            below, above = above, below
        infinite, missing, missing_below, missing_above = (
            self._own_place(Entries.of(mask, rows, cols))
            for mask in (np.isinf(part), lost, below, above)
        )
        return Findings(
            infinite=infinite,
            missing_both=missing,
            missing_below=missing_below,
            missing_above=missing_above,
        )

    def _own_place(self, found: Entries) -> Entries:
        if found.first is None or not self.transposed:
            return found
        return Entries(found.count, found.first[::-1])

    def _find(self, tile: Tile, score: Callable[[Floats, Floats], Floats]) -> Place:
        """Read rows once more to find the entry that is meant; a gap is known by its entry."""
        rows, cols = tile
        if rows.stop - rows.start == cols.stop - cols.start == 1:
            return rows.start, cols.start
        part = np.empty((rows.stop - rows.start, self.n), dtype=self.dtype)
        self.source.fill(part, rows.start)
        i, j = np.unravel_index(int(np.argmax(score(part, part))), part.shape)
        place = (rows.start + int(i), int(j))
        return place[::-1] if self.transposed else place

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
        return worst[apart[worst] > 0.5 * tolerance(self.findings, eps(self.dtype))]

    def validate(self, gap: Extreme | None = None) -> None:
        """Raise for what is too much, the largest gap to a mirrored entry included."""
        findings = self.findings if gap is None else replace(self.findings, gap=gap)
        validate(findings, self.rules, self.n, self.dtype, find=self._find)


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

    def gap(self) -> Extreme:
        """Return the largest difference of an entry to its mirror image."""
        gaps = np.abs(self.kept_rows - self.kept_columns.T)
        at = int(gaps.argmax())
        place: Place = (int(self.which[at // self.n]), at % self.n)
        return Extreme(float(gaps.flat[at]), entry(*sorted(place)))
