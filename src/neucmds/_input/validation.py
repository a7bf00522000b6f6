"""Is it a dissimilarity matrix? What is noted of D, what is too much, and every message about it.

A walk over D only notes the worst it meets, in `Findings`; tolerances are relative to the largest
entry, so `validate` decides when the walk is over. D is walked in three ways: in memory by pairs of
mirrored tiles (`neucmds._input.tiles`), on dask workers by pairs of mirrored chunks
(`neucmds._input.chunks`), and in blocks of rows (`neucmds._operator.first_pass`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt

from neucmds._backend import arrays
from neucmds._backend.arrays import Array
from neucmds.errors import InputError, option

Floats = npt.NDArray[Any]
Place = tuple[int, int]
Tile = tuple[slice, slice]
Half = Literal["lower", "upper"]
# Finds the entry of a tile, or of its mirror image, that scores highest against its mirrored entry.
Find = Callable[[Tile, Callable[[Floats, Floats], Floats]], Place]


@dataclass(frozen=True)
class Rules:
    """What is asked of the matrix.

    Parameters
    ----------
    squared : bool
        Whether D is on the squared scale, where entries may be negative.
    symmetrize : bool
        Whether D is averaged with its transpose, so that it need not be symmetric.
    allow_missing : bool
        Whether pairs may be missing.
    labels : tuple of str or None
        Names of the objects, for messages.
    in_memory : bool, default True
        Whether D is an array in memory, which can be converted to float64 and have missing pairs.
    """

    squared: bool
    symmetrize: bool
    allow_missing: bool
    labels: tuple[str, ...] | None = None
    in_memory: bool = True

    def place(self, i: int, j: int) -> str:
        """Name an entry by its indices, and by its labels where there are any."""
        if self.labels is None:
            return f"({i}, {j})"
        return f"({i}, {j}), {self.labels[i]!r} and {self.labels[j]!r}"


def entry(i: int, j: int) -> Tile:
    """Return the tile that is one entry."""
    return slice(i, i + 1), slice(j, j + 1)


@dataclass(frozen=True)
class Extreme:
    """The largest value met so far, and the tile that holds it."""

    value: float = 0.0
    tile: Tile = (slice(0, 0), slice(0, 0))

    def merged(self, later: Extreme) -> Extreme:
        """Return the larger of two, the earlier one if they are equal."""
        return later if later.value > self.value else self


@dataclass(frozen=True)
class Entries:
    """How many entries of a kind were met, and the first of them by row and column."""

    count: int = 0
    first: Place | None = None

    @classmethod
    def of(cls, mask: Floats, rows: slice, cols: slice) -> Entries:
        """Count the marked entries of a tile."""
        count = int(np.count_nonzero(mask))
        if count == 0:
            return cls()
        i, j = np.unravel_index(int(mask.argmax()), mask.shape)
        return cls(count, (rows.start + int(i), cols.start + int(j)))

    def merged(self, later: Entries) -> Entries:
        """Put two counts together."""
        places = [place for place in (self.first, later.first) if place is not None]
        return Entries(self.count + later.count, min(places, default=None))


@dataclass(frozen=True)
class PerObject:
    """Missing pairs of each object; None stands for none at all."""

    counts: npt.NDArray[np.int64] | None = None

    def merged(self, later: PerObject) -> PerObject:
        """Add the counts up."""
        if self.counts is None or later.counts is None:
            return later if self.counts is None else self
        return PerObject(self.counts + later.counts)


@dataclass(frozen=True)
class Diagonal:
    """The diagonal entry that is largest in size, and the range of all of them."""

    worst: float = 0.0
    at: int = 0
    low: float = math.inf
    high: float = -math.inf
    missing: int | None = None

    def merged(self, later: Diagonal) -> Diagonal:
        """Put two parts of the diagonal together."""
        worse = later if abs(later.worst) > abs(self.worst) else self
        low, high = min(self.low, later.low), max(self.high, later.high)
        missing = later.missing if self.missing is None else self.missing
        return Diagonal(worse.worst, worse.at, low, high, missing)


@dataclass(frozen=True)
class Findings:
    """What a walk has met.

    Parameters
    ----------
    size, gap, depth : Extreme
        Largest entry by size, largest difference to the mirrored entry, lowest entry below zero.
    above, below : Extreme
        Largest entry by size strictly above and strictly below the diagonal; a walk may stop
        looking when it has found one on either side.
    missing_above, missing_below, missing_both : Entries
        NaN above and below the diagonal, and those whose mirrored entry is NaN too.
    one_sided : Extreme
        1 in a tile that holds an entry which is NaN unlike its mirrored entry.
    infinite : Entries
    per_object : PerObject
        Pairs of each object that are missing on both sides.
    diagonal : Diagonal
    """

    size: Extreme = Extreme()
    gap: Extreme = Extreme()
    depth: Extreme = Extreme()
    above: Extreme = Extreme()
    below: Extreme = Extreme()
    missing_above: Entries = Entries()
    missing_below: Entries = Entries()
    missing_both: Entries = Entries()
    one_sided: Extreme = Extreme()
    infinite: Entries = Entries()
    per_object: PerObject = PerObject()
    diagonal: Diagonal = Diagonal()

    def merged(self, later: Findings) -> Findings:
        """Put together what two walks have met, one after the other."""
        pairs = ((getattr(self, name), getattr(later, name)) for name in _PARTS)
        # Most parts of most tiles are the default, which is one object.
        return Findings(*(a if a is b else a.merged(b) for a, b in pairs))

    @property
    def triangle(self) -> Half | None:
        """The half of D that holds everything, if the other holds zeros or NaN alone."""
        if self.above.value == 0 < self.below.value:
            return "lower"
        return "upper" if self.below.value == 0 < self.above.value else None


_PARTS = tuple(field.name for field in fields(Findings))


def diagonal_findings(diagonal: Array, start: int = 0) -> Findings:
    """Note what a part of the diagonal holds."""
    xp = arrays.namespace(diagonal)
    # Converted before the transfer: NumPy has no bfloat16.
    values = arrays.to_numpy(xp.astype(diagonal, xp.float64))
    lost = np.isnan(values)
    missing = start + int(lost.argmax()) if lost.any() else None
    known = np.where(lost, 0.0, values)
    at = int(np.argmax(np.abs(known)))
    return Findings(
        diagonal=Diagonal(
            float(known[at]), start + at, float(known.min()), float(known.max()), missing
        )
    )


def check_flags(**flags: Any) -> None:
    """Refuse what is neither True nor False; a text is true, whatever it says."""
    for name, value in flags.items():
        if not (isinstance(value, (bool, np.bool_, int)) and value in (0, 1)):
            raise InputError(f"{option(name, value)} must be True or False.")


def working_dtype(array: Array) -> Any:
    """Floating dtype to work in: float32 for floats of at most 32 bits, float64 for the rest."""
    xp = arrays.namespace(array)
    if xp.isdtype(array.dtype, "real floating"):
        return xp.float32 if xp.finfo(array.dtype).bits <= 32 else xp.float64
    if xp.isdtype(array.dtype, ("bool", "integral")):
        return xp.float64
    if xp.isdtype(array.dtype, "complex floating"):
        raise InputError(f"D is complex ({array.dtype}); pass real dissimilarities.")
    raise InputError(f"D has dtype {array.dtype}, which is not a real number; convert it to float.")


def tolerance(findings: Findings, eps: float) -> float:
    """Return what counts as rounding: √ε of the largest entry.

    √ε (1.5e-8 in float64, 3.5e-4 in float32) is the rounding of distances computed as
    √(|x|² + |y|² − 2x·y), the least exact way in use.
    """
    return math.sqrt(eps) * findings.size.value


# Of the squared scale. A descent sums squares of gradients, which are cubes of it: 1e±270.
LEAST, MOST = 1e-90, 1e90


def exceeds_range(size: float, squared: bool, bits: int = 64, n: int = 1) -> int:
    """Tell whether powers of D leave the range of floats: 1 too large, −1 too small, 0 neither.

    In float32 the squares of d must keep their digits and sums of n of them be finite; in float64
    the cubes of these squares too.
    """
    least, most = LEAST, MOST
    if bits == 32:
        limits = np.finfo(np.float32)
        least, most = float(limits.tiny / limits.eps), float(limits.max) / n
    if not squared:
        least, most = math.sqrt(least), math.sqrt(most)
    return 1 if size > most else -1 if 0 < size < least else 0


def refuse_range(size: float, squared: bool, where: str = "", bits: int = 64, n: int = 1) -> None:
    """Refuse a D whose powers leave the range of floats, with the factor to divide it by."""
    beyond = exceeds_range(size, squared, bits, n)
    if beyond:
        more = ", or store D as float64" if bits == 32 else ""
        largest = f"the largest entry is {size:.2g}{where}"
        raise out_of_range("D is", largest, size, beyond > 0, more)


def refuse_weight_range(largest: float, sq_size: float) -> None:
    """Refuse weights whose products with powers of D leave the range of floats."""
    if largest == 0:
        return
    # Squares of gradients, (w d³)², stay within 1e±300 with room for sums.
    power = math.log10(largest) + 1.5 * math.log10(sq_size or 1.0)
    if not (-145 < power < 140 and 1e-60 < largest < 1e60):
        raise out_of_range("weights are", f"the largest is {largest:.2g}", largest, largest > 1)


def out_of_range(
    what: str, largest: str, size: float, too_large: bool, more: str = ""
) -> InputError:
    """Return the refusal of numbers whose powers leave the range of floats."""
    how, where = ("large", "over") if too_large else ("small", "under")
    factor = f"1e{math.floor(math.log10(size))}" if 0 < size < math.inf else "a constant"
    return InputError(
        f"{what} too {how}: {largest}, and sums of its powers {where}flow; divide by "
        f"{factor}{more}."
    )


def _corner(tile: Tile, score: Callable[[Floats, Floats], Floats]) -> Place:
    del score
    return tile[0].start, tile[1].start


def validate(
    findings: Findings, rules: Rules, n: int, dtype: Any, xp: Any = np, find: Find = _corner
) -> None:
    """Raise for the first finding that is too much.

    Parameters
    ----------
    findings : Findings
        Of a whole walk.
    rules : Rules
    n : int
        Number of objects.
    dtype : dtype of `xp`
        That D was walked in, which says what is rounding.
    find : callable, optional
        Finds the entry that is meant within a tile; not needed where tiles are single entries.

    Raises
    ------
    InputError
    """
    rounding = tolerance(findings, arrays.eps(dtype, xp))
    _refuse_infinite(findings, rules)
    _refuse_triangle(findings, rules, rounding)
    _refuse_missing(findings, rules, n, find)
    _refuse_similarity(findings, rules, rounding)
    if not rules.squared and findings.depth.value > 0:
        i, j = find(findings.depth.tile, lambda a, _: -a)
        raise InputError(
            f"Negative values in data: the lowest is {-findings.depth.value:.4g} at "
            f"{rules.place(i, j)}; pass {option('squared', True)} if D already holds squared "
            "dissimilarities."
        )
    if not rules.symmetrize and findings.gap.value > rounding:
        i, j = find(findings.gap.tile, lambda a, b: np.abs(a - b))
        raise InputError(
            f"D is not symmetric: largest gap {findings.gap.value:.2g} at {rules.place(i, j)}; "
            f"pass {option('symmetrize', True)} to average."
        )
    worst, at = findings.diagonal.worst, findings.diagonal.at
    if abs(worst) > rounding:
        raise InputError(
            f"D has a diagonal that is not zero: {worst:.4g} at {rules.place(at, at)}; set it to "
            "0, or convert D if it holds similarities."
        )
    bits = 64 if rules.in_memory else int(xp.finfo(dtype).bits)
    if exceeds_range(findings.size.value, rules.squared, bits, n):
        i, j = find(findings.size.tile, lambda a, _: np.abs(a))
        refuse_range(findings.size.value, rules.squared, f" at {rules.place(i, j)}", bits, n)


def _refuse_infinite(findings: Findings, rules: Rules) -> None:
    if findings.infinite.count:
        advice = "replace by a finite value"
        if rules.in_memory:
            advice += f", or by NaN with {option('missing', 'ignore')}"
        _refuse_entries(findings.infinite, "infinite", advice, rules)


def _refuse_entries(found: Entries, what: str, advice: str, rules: Rules) -> NoReturn:
    assert found.first is not None
    noun = "entry" if found.count == 1 else "entries"
    where = "" if found.count == 1 else "the first "
    raise InputError(
        f"D holds {found.count} {what} {noun}, {where}at {rules.place(*found.first)}; {advice}."
    )


def _refuse_triangle(findings: Findings, rules: Rules, rounding: float) -> None:
    """Name a triangle whose other half was filled with zeros or NaN."""
    if rules.symmetrize or findings.triangle is None:
        return
    lower = findings.triangle == "lower"
    if max(findings.above.value, findings.below.value) <= rounding:
        return
    filled = findings.missing_above if lower else findings.missing_below
    content = "missing (NaN)" if filled.count else "zero"
    raise InputError(
        f"D is a {findings.triangle} triangle: all entries {'above' if lower else 'below'} the "
        f"diagonal are {content}; pass {option('symmetrize', True)} to mirror it."
    )


def _refuse_missing(findings: Findings, rules: Rules, n: int, find: Find) -> None:
    missing = _missing(findings, rules)
    if missing.count and not rules.allow_missing:
        advice = f"pass {option('missing', 'ignore')} to leave such pairs out"
        if not rules.in_memory:
            advice = "fill them in, or drop these objects: a D outside memory must be complete"
        _refuse_entries(missing, "missing (NaN)", advice, rules)
    if findings.diagonal.missing is not None:
        at = findings.diagonal.missing
        raise InputError(
            f"D is missing (NaN) on its diagonal, first at {rules.place(at, at)}; set it to 0."
        )
    if findings.one_sided.value and not rules.symmetrize:
        i, j = find(findings.one_sided.tile, lambda a, b: np.isnan(a) & ~np.isnan(b))
        raise InputError(
            f"D is missing (NaN) at {rules.place(i, j)} but not at ({j}, {i}); pass "
            f"{option('symmetrize', True)} to take one for the other."
        )
    counts = findings.per_object.counts
    unseen = np.empty(0) if counts is None else np.flatnonzero(counts >= n - 1)
    if unseen.size:
        i = int(unseen[0])
        name = str(i) if rules.labels is None else f"{i}, {rules.labels[i]!r},"
        raise InputError(
            f"D has {unseen.size} of {n} objects without any observed entry: object {name} is the "
            "first; drop it."
        )


def _missing(findings: Findings, rules: Rules) -> Entries:
    """NaN that no mirrored entry will replace."""
    if rules.symmetrize and findings.triangle is not None:
        lower = findings.triangle == "lower"
        return findings.missing_below if lower else findings.missing_above
    if rules.symmetrize:
        return findings.missing_both
    return findings.missing_above.merged(findings.missing_below)


def _refuse_similarity(findings: Findings, rules: Rules, rounding: float) -> None:
    """Name the conversion where the diagonal is positive and nothing is larger than it."""
    found = findings.diagonal
    if not found.low > rounding or found.high < findings.size.value - rounding:
        return
    conversion = "sqrt(s_ii + s_jj - 2 s_ij)"
    if found.high - found.low <= rounding:
        conversion = f"{found.high:.4g} - S or {conversion}"
    raise InputError(
        f"D has a diagonal that is not zero: {found.worst:.4g} at "
        f"{rules.place(found.at, found.at)}, and no larger entry, as in a matrix S of "
        f"similarities; convert it: pass {conversion}."
    )
