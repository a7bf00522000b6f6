"""Validate dissimilarities.

One pass over D computes its `Extent`, which suffices if D is valid. If it is not, `validate` reads
D once more, row by row, to find the place.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt

from neucmds.backend import arrays
from neucmds.backend.arrays import Array
from neucmds.errors import InputError, option

Floats = npt.NDArray[Any]
Place = tuple[int, int]
Half = Literal["lower", "upper"]
# Rows of D from a number on, and its columns from that number on as rows, in float64.
Strips = Iterator[tuple[int, Floats, Floats]]


@dataclass(frozen=True)
class Rules:
    """What is asked of the matrix; labels are for messages.

    A D in memory can be converted to float64 and may have missing pairs, another one not.
    """

    squared: bool
    symmetrize: bool
    allow_missing: bool
    labels: tuple[str, ...] | None = None
    in_memory: bool = True

    def repair(self, to: str) -> str:
        """Say how to get a symmetric matrix."""
        if not self.in_memory:
            return "make it symmetric where it is stored"
        return f"pass {option('symmetrize', True)} {to}"

    def place(self, i: int, j: int) -> str:
        """Name an entry by its indices, and by its labels where there are any."""
        return entry_name(i, j, self.labels)


@dataclass(frozen=True)
class Extent:
    """How far the entries of a part of D reach; NaN where an entry is NaN.

    `depth` is the lowest entry times −1, `height` the highest, `gap` the largest difference to a
    mirrored entry; the largest size is `above` or `below` the diagonal, or `own` on it.
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


def check_flags(missing: str = "error", **flags: Any) -> None:
    """Refuse a way to treat missing pairs that is unknown, and flags neither True nor False."""
    refuse_arrays(missing=missing)
    if missing not in ("error", "ignore"):
        raise InputError(f"{option('missing', missing)} is unknown; pass 'error' or 'ignore'.")
    for name, value in flags.items():
        if not (isinstance(value, (bool, np.bool_, int)) and value in (0, 1)):
            raise InputError(f"{option(name, value)} must be True or False.")


def refuse_arrays(**values: Any) -> None:
    """Refuse parameters that are arrays, which cannot be compared with a name or a number."""
    for name, value in values.items():
        if getattr(value, "ndim", 0):
            raise InputError(f"{option(name, value)} is an array; pass a single value.")


def as_labels(labels: Iterable[object] | None, n: int) -> tuple[str, ...] | None:
    """Check that there is one unique label per object, and turn them into text."""
    if labels is None:
        return None
    if not isinstance(labels, Iterable):
        raise InputError(f"{option('labels', labels)} must be a sequence, one label per object.")
    names = tuple(str(label) for label in labels)
    if len(names) != n:
        raise InputError(f"D has {n} objects but {len(names)} labels; pass one label per object.")
    first: dict[str, int] = {}
    for i, name in enumerate(names):
        if first.setdefault(name, i) != i:
            raise InputError(
                f"labels are not unique: {name!r} names objects {first[name]} and {i}; rename one."
            )
    return names


def entry_name(i: int, j: int, labels: Sequence[str] | None) -> str:
    """Name an entry of D by its indices, and by its labels where there are any."""
    place = f"({int(i)}, {int(j)})"
    return place if labels is None else f"{place}, {labels[i]!r} and {labels[j]!r}"


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
    """Return the largest entry of D and the half that holds all entries, if one does; or refuse D.

    `strips` read D again if the extent shows a fault; `dtype` sets the tolerance for rounding;
    `gap_at` is the place of the gap of `extent`, if strips do not show it.
    """
    eps, bits = arrays.eps(dtype, xp), 64 if rules.in_memory else int(xp.finfo(dtype).bits)
    size, rounding = extent.size, tolerance(extent.size, eps)
    fine = (
        all(map(math.isfinite, astuple(extent)))
        and (rules.squared or extent.depth <= 0)
        and (rules.symmetrize or extent.gap <= rounding)
        and extent.own <= rounding
        and not exceeds_range(size, rules.squared, bits, n)
    )
    if fine and (rules.symmetrize or extent.triangle is None):
        return size, extent.triangle
    found = Findings()
    with np.errstate(invalid="ignore"):
        for start, rows, columns in strips:
            found.take(start, rows, columns)
    if gap_at is not None:
        found["gap"] = Found(1, extent.gap, gap_at)
    _refuse(found, rules, eps, bits)
    return found["size"].value, found.triangle


@dataclass
class Found:
    """How many entries of D are of a kind, and the first of those for which it is worst."""

    count: int = 0
    value: float = 0.0
    place: Place = (0, 0)

    def note(self, start: int, values: Floats) -> None:
        """Look for values above zero, or True, in some rows."""
        values = np.where(values > 0, values, 0.0)
        self.count += int(np.count_nonzero(values))
        i, j = np.unravel_index(int(values.argmax()), values.shape)
        if values[i, j] > self.value:
            self.value, self.place = float(values[i, j]), (start + int(i), int(j))


class Findings(defaultdict[str, Found]):
    """All that can be wrong with D, met in a walk over its rows; the diagonal is kept apart."""

    def __init__(self) -> None:
        super().__init__(Found)
        self.diagonal: list[float] = []

    def take(self, start: int, rows: Floats, columns: Floats) -> None:
        """Note what some rows hold, beside the columns of the same objects."""
        here, own = np.arange(len(rows)), start + np.arange(len(rows))
        self.diagonal += rows[here, own].tolist()
        self["infinite"].note(start, np.isinf(rows))
        rows, columns = rows.copy(), columns.copy()
        rows[here, own] = columns[here, own] = 0.0
        sizes, lost, mirrored = np.abs(rows), np.isnan(rows), np.isnan(columns)
        for kind, values in {
            "size": sizes,
            "above": np.triu(sizes, start),
            "below": np.tril(sizes, start),
            "negative": -rows,
            "gap": np.abs(rows - columns),
            "missing": lost,
            "missing above": np.triu(lost, start),
            "missing below": np.tril(lost, start),
            "missing on both sides": lost & mirrored,
            "missing on one side": lost & ~mirrored,
        }.items():
            self[kind].note(start, values)

    @property
    def triangle(self) -> Half | None:
        """The half of D that holds everything, if the other holds zeros or NaN alone."""
        return Extent(above=self["above"].value, below=self["below"].value).triangle


def _refuse(found: Findings, rules: Rules, eps: float, bits: int) -> None:
    """Raise for the first finding that is too much."""
    own, size = np.array(found.diagonal), found["size"]
    rounding = tolerance(np.fmax.reduce(np.abs(own), initial=size.value), eps)
    if found["infinite"].count:
        advice = f", or by NaN with {option('missing', 'ignore')}" if rules.in_memory else ""
        _refuse_entries(found["infinite"], "infinite", f"replace by a finite value{advice}", rules)
    if found.triangle is not None and not rules.symmetrize and size.value > rounding:
        _refuse_triangle(found, found.triangle, rules)
    _refuse_missing(found, rules)
    # Similarities, some of which may be negative: nothing is larger than the diagonal.
    if own.size and own.min() > rounding and own.max() >= size.value - rounding:
        _refuse_diagonal(own, size.value, rules, rounding)
    low, gap = found["negative"], found["gap"]
    if not rules.squared and low.value > 0:
        raise InputError(
            f"Negative values in data: the lowest is {-low.value:.4g} at "
            f"{rules.place(*low.place)}; pass {option('squared', True)} if D already holds "
            "squared dissimilarities."
        )
    if not rules.symmetrize and gap.value > rounding:
        raise InputError(
            f"D is not symmetric: largest gap {gap.value:.2g} at {rules.place(*gap.place)}; "
            f"{rules.repair('to average')}."
        )
    _refuse_diagonal(own, size.value, rules, rounding)
    where = f" at {rules.place(*size.place)}"
    refuse_range(size.value, rules.squared, where, bits, len(own))


def _refuse_entries(found: Found, what: str, advice: str, rules: Rules) -> NoReturn:
    noun, where = ("entry", "") if found.count == 1 else ("entries", "the first ")
    raise InputError(
        f"D holds {found.count} {what} {noun}, {where}at {rules.place(*found.place)}; {advice}."
    )


def _refuse_triangle(found: Findings, half: Half, rules: Rules) -> NoReturn:
    """Name a triangle whose other half was filled with zeros or NaN."""
    other = "above" if half == "lower" else "below"
    content = "missing (NaN)" if found[f"missing {other}"].count else "zero"
    raise InputError(
        f"D is a {half} triangle: all entries {other} the diagonal are {content}; "
        f"{rules.repair('to mirror it')}."
    )


def _refuse_missing(found: Findings, rules: Rules) -> None:
    kind = "missing"
    if rules.symmetrize:  # NaN that no mirrored entry will replace
        kinds = {"lower": "missing below", "upper": "missing above"}
        kind = kinds.get(found.triangle or "", "missing on both sides")
    if found[kind].count and not rules.allow_missing:
        advice = f"pass {option('missing', 'ignore')} to leave such pairs out"
        if not rules.in_memory:
            advice = "fill them in, or drop these objects: a D outside memory must be complete"
        _refuse_entries(found[kind], "missing (NaN)", advice, rules)
    lost = np.flatnonzero(np.isnan(found.diagonal))
    if lost.size:
        place = rules.place(int(lost[0]), int(lost[0]))
        raise InputError(f"D is missing (NaN) on its diagonal, first at {place}; set it to 0.")
    one_sided = found["missing on one side"]
    if one_sided.count and not rules.symmetrize:
        i, j = one_sided.place
        raise InputError(
            f"D is missing (NaN) at {rules.place(i, j)} but not at ({j}, {i}); "
            f"{rules.repair('to take one for the other')}."
        )


def _refuse_diagonal(own: Floats, size: float, rules: Rules, rounding: float) -> None:
    """Refuse a diagonal that is not zero, and advise a conversion if D looks like similarities."""
    at = int(np.abs(own).argmax())
    if abs(own[at]) <= rounding:
        return
    said = f"D has a diagonal that is not zero: {own[at]:.4g} at {rules.place(at, at)}"
    low, high = float(own.min()), float(own.max())
    if low <= rounding or high < size - rounding:
        raise InputError(f"{said}; set it to 0, or convert D if it holds similarities.")
    conversion = "sqrt(s_ii + s_jj - 2 s_ij)"
    if high - low <= rounding:
        conversion = f"{high:.4g} - S or {conversion}"
    raise InputError(
        f"{said}, and no larger entry, as in a matrix S of similarities; convert it: pass "
        f"{conversion}."
    )
