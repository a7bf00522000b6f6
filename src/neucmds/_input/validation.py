"""Is it a dissimilarity matrix? One judgement of every D, and every message about it.

A walk over D takes its `Extent`, a few numbers that tell whether all is well: in memory by pairs of
mirrored tiles (`neucmds._input.tiles`), on dask workers by pairs of mirrored chunks
(`neucmds._input.chunks`), and in blocks of rows (`neucmds._operator.first_pass`). Where all is not
well, `validate` reads D once more, row by row, to say what is wrong and where.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import astuple, dataclass, field
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt

from neucmds._backend import arrays
from neucmds._backend.arrays import Array
from neucmds._input.names import entry_name
from neucmds.errors import InputError, option

Floats = npt.NDArray[Any]
Place = tuple[int, int]
Half = Literal["lower", "upper"]
# Rows of D from a number on, and its columns from that number on as rows, in float64.
Strips = Iterator[tuple[int, Floats, Floats]]


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
        return entry_name(i, j, self.labels)


@dataclass(frozen=True)
class Extent:
    """How far the entries of a part of D reach; NaN where an entry is NaN.

    Parameters
    ----------
    depth, height : float
        The lowest entry, times −1, and the highest.
    gap : float
        The largest difference to the mirrored entry.
    above, below : float
        Largest size of an entry above and below the diagonal.
    own : float
        Largest size of an entry on the diagonal.
    """

    depth: float = 0.0
    height: float = 0.0
    gap: float = 0.0
    above: float = 0.0
    below: float = 0.0
    own: float = 0.0

    def merged(self, other: Extent) -> Extent:
        """Return the extent of two parts."""
        return Extent(*np.maximum(astuple(self), astuple(other)).tolist())

    @property
    def size(self) -> float:
        """Largest size of an entry."""
        return max(self.depth, self.height)

    @property
    def triangle(self) -> Half | None:
        """The half of D that holds everything, if the other holds zeros alone."""
        if self.above == 0 < self.below:
            return "lower"
        return "upper" if self.below == 0 < self.above else None

    def is_fine(self, rules: Rules, n: int, eps: float, bits: int) -> bool:
        """Tell whether there is nothing to refuse."""
        rounding = tolerance(self.size, eps)
        return (
            all(map(math.isfinite, astuple(self)))
            and (rules.squared or self.depth <= 0)
            and (rules.symmetrize or self.gap <= rounding)
            and self.own <= rounding
            and not exceeds_range(self.size, rules.squared, bits, n)
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


def tolerance(size: float, eps: float) -> float:
    """Return what counts as rounding: √ε of the largest entry.

    √ε (1.5e-8 in float64, 3.5e-4 in float32) is the rounding of distances computed as
    √(|x|² + |y|² − 2x·y), the least exact way in use.
    """
    return math.sqrt(eps) * size


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


def validate(
    extent: Extent,
    strips: Strips,
    rules: Rules,
    n: int,
    dtype: Any,
    xp: Any = np,
    gap_at: Place | None = None,
) -> tuple[float, Half | None]:
    """Return the size of D and the half of it that holds everything, if one does; or refuse D.

    Parameters
    ----------
    extent : Extent
        Of all of D.
    strips : iterator of (start, rows, columns)
        Reads D once more, if something is not as it should be.
    rules : Rules
    n : int
        Number of objects.
    dtype : dtype of `xp`
        That D was walked in, which says what is rounding.
    gap_at : (int, int), optional
        Where the gap of `extent` is, if strips do not show it.

    Raises
    ------
    InputError
    """
    eps, bits = arrays.eps(dtype, xp), 64 if rules.in_memory else int(xp.finfo(dtype).bits)
    fine = extent.is_fine(rules, n, eps, bits)
    if fine and (rules.symmetrize or extent.triangle is None):
        return extent.size, extent.triangle
    found = Findings(n)
    with np.errstate(invalid="ignore"):
        for start, rows, columns in strips:
            found.take(start, rows, columns)
    if gap_at is not None:
        found.gap.take(extent.gap, gap_at)
    _refuse(found, rules, eps, bits)
    return found.size.value, found.triangle


@dataclass
class Worst:
    """The largest value met so far, and the first entry that has it."""

    value: float = 0.0
    place: Place = (0, 0)

    def note(self, start: int, values: Floats) -> None:
        """Look through some rows; NaN is never the largest."""
        values = np.where(np.isnan(values), -np.inf, values)
        i, j = np.unravel_index(int(values.argmax()), values.shape)
        self.take(float(values[i, j]), (start + int(i), int(j)))

    def take(self, value: float, place: Place) -> None:
        """Keep a value if it is larger."""
        if value > self.value:
            self.value, self.place = value, place


@dataclass
class Entries:
    """How many entries of a kind were met, and the first of them."""

    count: int = 0
    first: Place = (0, 0)

    def note(self, start: int, mask: npt.NDArray[np.bool_]) -> None:
        """Count the marked entries of some rows."""
        count = int(np.count_nonzero(mask))
        if count and not self.count:
            i, j = np.unravel_index(int(mask.argmax()), mask.shape)
            self.first = (start + int(i), int(j))
        self.count += count


@dataclass
class Findings:
    """All that can be wrong with D, met in a walk over its rows."""

    n: int
    size: Worst = field(default_factory=Worst)
    gap: Worst = field(default_factory=Worst)
    depth: Worst = field(default_factory=Worst)
    above: Worst = field(default_factory=Worst)
    below: Worst = field(default_factory=Worst)
    infinite: Entries = field(default_factory=Entries)
    missing: Entries = field(default_factory=Entries)
    missing_above: Entries = field(default_factory=Entries)
    missing_below: Entries = field(default_factory=Entries)
    missing_both: Entries = field(default_factory=Entries)
    one_sided: Entries = field(default_factory=Entries)
    unseen: list[int] = field(default_factory=list)
    diagonal: list[float] = field(default_factory=list)

    def take(self, start: int, rows: Floats, columns: Floats) -> None:
        """Note what some rows hold, beside the columns of the same objects."""
        here, own = np.arange(len(rows)), start + np.arange(len(rows))
        self.diagonal += rows[here, own].tolist()
        self.infinite.note(start, np.isinf(rows))
        rows, columns = rows.copy(), columns.copy()
        rows[here, own] = columns[here, own] = 0.0
        lost, mirrored = np.isnan(rows), np.isnan(columns)
        for entries, mask in (
            (self.missing, lost),
            (self.missing_above, np.triu(lost, start)),
            (self.missing_below, np.tril(lost, start)),
            (self.missing_both, lost & mirrored),
            (self.one_sided, lost & ~mirrored),
        ):
            entries.note(start, mask)
        self.unseen += own[(lost & mirrored).sum(axis=1) == self.n - 1].tolist()
        sizes = np.abs(rows)
        for worst, values in (
            (self.size, sizes),
            (self.depth, -rows),
            (self.gap, np.abs(rows - columns)),
            (self.above, np.triu(sizes, start)),
            (self.below, np.tril(sizes, start)),
        ):
            worst.note(start, values)

    @property
    def triangle(self) -> Half | None:
        """The half of D that holds everything, if the other holds zeros or NaN alone."""
        return Extent(above=self.above.value, below=self.below.value).triangle


def _refuse(found: Findings, rules: Rules, eps: float, bits: int) -> None:
    """Raise for the first finding that is too much."""
    own = np.array(found.diagonal)
    rounding = tolerance(np.fmax.reduce(np.abs(own), initial=found.size.value), eps)
    _refuse_infinite(found, rules)
    _refuse_triangle(found, rules, rounding)
    _refuse_missing(found, rules)
    _refuse_similarity(own, found, rules, rounding)
    if not rules.squared and found.depth.value > 0:
        raise InputError(
            f"Negative values in data: the lowest is {-found.depth.value:.4g} at "
            f"{rules.place(*found.depth.place)}; pass {option('squared', True)} if D already holds "
            "squared dissimilarities."
        )
    if not rules.symmetrize and found.gap.value > rounding:
        raise InputError(
            f"D is not symmetric: largest gap {found.gap.value:.2g} at "
            f"{rules.place(*found.gap.place)}; pass {option('symmetrize', True)} to average."
        )
    at = int(np.abs(own).argmax())
    if abs(own[at]) > rounding:
        raise InputError(
            f"D has a diagonal that is not zero: {own[at]:.4g} at {rules.place(at, at)}; set it to "
            "0, or convert D if it holds similarities."
        )
    where = f" at {rules.place(*found.size.place)}"
    refuse_range(found.size.value, rules.squared, where, bits, found.n)


def _refuse_infinite(found: Findings, rules: Rules) -> None:
    if found.infinite.count:
        advice = "replace by a finite value"
        if rules.in_memory:
            advice += f", or by NaN with {option('missing', 'ignore')}"
        _refuse_entries(found.infinite, "infinite", advice, rules)


def _refuse_entries(found: Entries, what: str, advice: str, rules: Rules) -> NoReturn:
    noun, where = ("entry", "") if found.count == 1 else ("entries", "the first ")
    raise InputError(
        f"D holds {found.count} {what} {noun}, {where}at {rules.place(*found.first)}; {advice}."
    )


def _refuse_triangle(found: Findings, rules: Rules, rounding: float) -> None:
    """Name a triangle whose other half was filled with zeros or NaN."""
    if rules.symmetrize or found.triangle is None or found.size.value <= rounding:
        return
    lower = found.triangle == "lower"
    filled = found.missing_above if lower else found.missing_below
    content = "missing (NaN)" if filled.count else "zero"
    raise InputError(
        f"D is a {found.triangle} triangle: all entries {'above' if lower else 'below'} the "
        f"diagonal are {content}; pass {option('symmetrize', True)} to mirror it."
    )


def _refuse_missing(found: Findings, rules: Rules) -> None:
    missing = found.missing
    if rules.symmetrize:  # NaN that no mirrored entry will replace
        missing = found.missing_both
        if found.triangle is not None:
            missing = found.missing_below if found.triangle == "lower" else found.missing_above
    if missing.count and not rules.allow_missing:
        advice = f"pass {option('missing', 'ignore')} to leave such pairs out"
        if not rules.in_memory:
            advice = "fill them in, or drop these objects: a D outside memory must be complete"
        _refuse_entries(missing, "missing (NaN)", advice, rules)
    lost = np.flatnonzero(np.isnan(found.diagonal))
    if lost.size:
        place = rules.place(int(lost[0]), int(lost[0]))
        raise InputError(f"D is missing (NaN) on its diagonal, first at {place}; set it to 0.")
    if found.one_sided.count and not rules.symmetrize:
        i, j = found.one_sided.first
        raise InputError(
            f"D is missing (NaN) at {rules.place(i, j)} but not at ({j}, {i}); pass "
            f"{option('symmetrize', True)} to take one for the other."
        )
    if found.unseen and rules.allow_missing:
        i = found.unseen[0]
        name = str(i) if rules.labels is None else f"{i}, {rules.labels[i]!r},"
        raise InputError(
            f"D has {len(found.unseen)} of {found.n} objects without any observed entry: object "
            f"{name} is the first; drop it."
        )


def _refuse_similarity(own: Floats, found: Findings, rules: Rules, rounding: float) -> None:
    """Name the conversion where the diagonal is positive and nothing is larger than it."""
    low, high = float(own.min()), float(own.max())
    if not low > rounding or high < found.size.value - rounding:
        return
    conversion = "sqrt(s_ii + s_jj - 2 s_ij)"
    if high - low <= rounding:
        conversion = f"{high:.4g} - S or {conversion}"
    at = int(own.argmax())
    raise InputError(
        f"D has a diagonal that is not zero: {high:.4g} at {rules.place(at, at)}, and no larger "
        f"entry, as in a matrix S of similarities; convert it: pass {conversion}."
    )
