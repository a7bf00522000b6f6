"""What a walk over the matrix has met, and what is too much: every refusal of a matrix is here."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds._backend import arrays
from neucmds._backend.arrays import Array
from neucmds.errors import InputError, option

__all__ = ["Extreme", "Findings", "Rules", "Tile", "judge", "judge_diagonal", "refuse_entries"]

Tile = tuple[slice, slice]


@dataclass(frozen=True)
class Rules:
    """What is asked of the matrix; the labels only serve the messages."""

    squared: bool
    symmetrize: bool
    allow_missing: bool
    labels: tuple[str, ...] | None = None

    def place(self, i: int, j: int) -> str:
        """Name an entry by its indices, and by its labels where there are any."""
        if self.labels is None:
            return f"({i}, {j})"
        return f"({i}, {j}), {self.labels[i]!r} and {self.labels[j]!r}"


@dataclass(frozen=True)
class Extreme:
    """The worst value met so far, and the tile to look for it in."""

    value: float = 0.0
    tile: Tile = (slice(0, 0), slice(0, 0))

    def or_larger(self, value: float, tile: Tile) -> Extreme:
        """Return the worse of this and a value met in a tile."""
        return Extreme(value, tile) if value > self.value else self

    def merged(self, later: Extreme) -> Extreme:
        """Return the worse of two, the earlier one if they are equal."""
        return self.or_larger(later.value, later.tile)


@dataclass(frozen=True)
class Findings:
    """What a walk has met: entries by size, gaps to the mirrored entry, depth below zero, NaN."""

    size: Extreme = Extreme()
    gap: Extreme = Extreme()
    depth: Extreme = Extreme()
    one_sided: Tile | None = None
    missing: npt.NDArray[np.int64] | None = None

    def merged(self, later: Findings) -> Findings:
        """Put together what two walks have met, one after the other."""
        if self.missing is None or later.missing is None:
            missing = later.missing if self.missing is None else self.missing
        else:
            missing = self.missing + later.missing
        return Findings(
            self.size.merged(later.size),
            self.gap.merged(later.gap),
            self.depth.merged(later.depth),
            later.one_sided if self.one_sided is None else self.one_sided,
            missing,
        )


def judge(findings: Findings, source: Array, dtype: Any, rules: Rules) -> None:
    """Raise an `InputError` for the first finding that is too much for the rules."""
    xp = arrays.namespace(source)
    # √ε (1.5e-8 in float64, 3.5e-4 in float32) is the rounding of distances computed as
    # √(|x|² + |y|² − 2x·y), the least exact way in use.
    tolerance = math.sqrt(arrays.eps(dtype, xp)) * findings.size.value
    _judge_missing(findings, source, rules)
    if not rules.squared and findings.depth.value > 0:
        i, j = _find(source, findings.depth.tile, lambda a, _: -a)
        raise InputError(
            f"Negative values in data: the lowest is {-findings.depth.value:.4g} at "
            f"{rules.place(i, j)}; pass {option('squared', True)} if D already holds squared "
            "dissimilarities."
        )
    if not rules.symmetrize and findings.gap.value > tolerance:
        i, j = _find(source, findings.gap.tile, lambda a, b: np.abs(a - b))
        raise InputError(
            f"D is not symmetric: largest gap {findings.gap.value:.2g} at {rules.place(i, j)}; "
            f"pass {option('symmetrize', True)} to average."
        )
    judge_diagonal(source, rules, tolerance)
    if rules.squared:
        return
    if findings.size.value > math.sqrt(float(xp.finfo(dtype).max)):
        i, j = _find(source, findings.size.tile, lambda a, _: np.abs(a))
        raise InputError(
            f"D overflows when squared: {findings.size.value:.2g} at {rules.place(i, j)}; "
            "divide D by a constant."
        )


def judge_diagonal(source: Array, rules: Rules, tolerance: float) -> None:
    """Raise unless the diagonal is observed and zero up to the tolerance."""
    diagonal = _as_float64(arrays.namespace(source).linalg.diagonal(source))
    size = np.abs(diagonal)
    worst = int(np.argmax(size))  # NaN comes first
    if np.isnan(size[worst]):
        raise InputError(
            f"D is missing (NaN) on its diagonal, first at {rules.place(worst, worst)}; "
            "set it to 0."
        )
    if size[worst] > tolerance:
        raise InputError(
            f"D has a diagonal that is not zero: {diagonal[worst]:.4g} at "
            f"{rules.place(worst, worst)}; set it to 0, or convert D if it holds similarities."
        )


def refuse_entries(
    source: Array, is_bad: Callable[[Array], Array], what: str, advice: str, rules: Rules
) -> InputError:
    """Make the error that counts all bad entries and names the first."""
    xp = arrays.namespace(source)
    n = source.shape[0]
    count, first = 0, (0, 0)
    for rows in arrays.row_blocks(n, n):
        bad = arrays.to_numpy(xp.astype(is_bad(source[rows, :]), xp.bool))
        if count == 0 and bad.any():
            i, j = np.unravel_index(int(bad.argmax()), bad.shape)
            first = (rows.start + int(i), int(j))
        count += int(bad.sum())
    noun = "entry" if count == 1 else "entries"
    where = "" if count == 1 else "the first "
    return InputError(f"D holds {count} {what} {noun}, {where}at {rules.place(*first)}; {advice}.")


def _judge_missing(findings: Findings, source: Array, rules: Rules) -> None:
    if findings.one_sided is not None and not rules.symmetrize:
        i, j = _find(source, findings.one_sided, lambda a, b: np.isnan(a) & ~np.isnan(b))
        raise InputError(
            f"D is missing (NaN) at {rules.place(i, j)} but not at ({j}, {i}); "
            f"pass {option('symmetrize', True)} to take one for the other."
        )
    if findings.missing is None:
        return
    n = source.shape[0]
    unseen = np.flatnonzero(findings.missing >= n - 1)
    if unseen.size:
        i = int(unseen[0])
        name = str(i) if rules.labels is None else f"{i}, {rules.labels[i]!r},"
        raise InputError(
            f"D has {unseen.size} of {n} objects without any observed entry: object {name} is the "
            "first; drop it."
        )


def _find(
    source: Array, tile: Tile, score: Callable[[Any, Any], npt.NDArray[Any]]
) -> tuple[int, int]:
    """Find the highest score among a tile and its mirror image; above the diagonal wins a tie."""
    rows, cols = tile
    upper, lower = _as_float64(source[rows, cols]), _as_float64(source[cols, rows])
    best: tuple[float, int, int] = (-math.inf, 0, 0)
    for a, b, top, left in ((upper, lower.T, rows, cols), (lower, upper.T, cols, rows)):
        scores = np.where(np.isnan(s := score(a, b).astype(np.float64)), -np.inf, s)
        i, j = np.unravel_index(int(scores.argmax()), scores.shape)
        if scores[i, j] > best[0]:
            best = (float(scores[i, j]), top.start + int(i), left.start + int(j))
    return best[1], best[2]


def _as_float64(values: Array) -> npt.NDArray[np.float64]:
    # Converted before the transfer: NumPy has no bfloat16.
    xp = arrays.namespace(values)
    return arrays.to_numpy(xp.astype(values, xp.float64))
