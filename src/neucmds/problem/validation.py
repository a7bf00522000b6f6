"""Validate dissimilarities.

One pass over D computes its `Extent`, which suffices if D is valid. If it is not, `validate` reads
D once more, row by row, to find the place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from typing import Any, Literal

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
# Of the number of the first row, some rows, and the columns of the same objects, without diagonal.
Measure = Callable[[int, Floats, Floats], Floats]
# How many entries are of a kind, the largest measure, and its place.
Worst = tuple[int, float, Place]


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
        if self.below == 0 < self.above:
            return "upper"
        return None


def as_labels(
    labels: Iterable[object] | None, n: int
) -> tuple[str, ...] | None:
    """Check that there is one unique label per object, and turn them into text."""
    if labels is None:
        return None
    if not isinstance(labels, Iterable):
        raise InputError(
            f"{option('labels', labels)} must be a sequence, one label per object."
        )
    names = tuple(str(label) for label in labels)
    if len(names) != n:
        raise InputError(
            f"D has {n} objects but {len(names)} labels; pass one label per object."
        )
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
    if labels is None:
        return place
    return f"{place}, {labels[i]!r} and {labels[j]!r}"


def working_dtype(array: Array) -> Any:
    """Floating dtype to work in: float32 for floats of at most 32 bits, float64 for the rest."""
    xp = arrays.namespace(array)
    if xp.isdtype(array.dtype, "real floating"):
        if xp.finfo(array.dtype).bits <= 32:
            return xp.float32
        return xp.float64
    if xp.isdtype(array.dtype, ("bool", "integral")):
        return xp.float64
    raise InputError(
        f"D has dtype {array.dtype}, which is not a real number; convert it to float."
    )


def tolerance(size: float, eps: float) -> float:
    """Return what counts as rounding: √ε of the largest entry.

    √ε (1.5e-8 in float64, 3.5e-4 in float32) is the rounding of distances computed as
    √(|x|² + |y|² − 2x·y), the least exact way in use.
    """
    return math.sqrt(eps) * size


# Of the squared scale. A descent sums squares of gradients, which are cubes of it: 1e±270.
LEAST = 1e-90
MOST = 1e90
# Of weights, and of their products with d³, whose squares stay within 1e±300 with room for sums.
WEIGHT_POWER = 60
PRODUCT_POWER = 140


def exceeds_range(
    size: float, squared: bool, bits: int = 64, n: int = 1
) -> int:
    """Tell whether powers of D leave the range of floats: 1 too large, −1 too small, 0 neither.

    In float32 the squares of d must keep their digits and sums of n of them be finite; in float64
    the cubes of these squares too.
    """
    least = LEAST
    most = MOST
    if bits == 32:
        limits = np.finfo(np.float32)
        least = float(limits.tiny / limits.eps)
        most = float(limits.max) / n
    if squared:
        sq_size = size
    else:
        sq_size = size * size
    if sq_size > most:
        return 1
    if size > 0 and sq_size < least:
        return -1
    return 0


def refuse_range(
    size: float, squared: bool, where: str = "", bits: int = 64, n: int = 1
) -> None:
    """Refuse a D whose powers leave the range of floats, with the factor to divide it by."""
    beyond = exceeds_range(size, squared, bits, n)
    if beyond:
        if bits == 32:
            more = ", or store D as float64"
        else:
            more = ""
        largest = f"the largest entry is {size:.2g}{where}"
        raise out_of_range("D is", largest, size, beyond > 0, more)


def refuse_weight_range(largest: float, sq_size: float) -> None:
    """Refuse weights whose products with powers of D leave the range of floats."""
    if largest == 0:
        return
    own = math.log10(largest)
    power = own + 1.5 * math.log10(sq_size or 1.0)
    if abs(own) > WEIGHT_POWER or abs(power) > PRODUCT_POWER:
        raise out_of_range(
            "weights are",
            f"the largest is {largest:.2g}",
            largest,
            largest > 1,
        )


def out_of_range(
    what: str, largest: str, size: float, too_large: bool, more: str = ""
) -> InputError:
    """Return the refusal of numbers whose powers leave the range of floats."""
    how, where = ("large", "over") if too_large else ("small", "under")
    if 0 < size < math.inf:
        factor = f"1e{math.floor(math.log10(size))}"
    else:
        factor = "a constant"
    return InputError(
        f"{what} too {how}: {largest}, and sums of its powers {where}flow; divide by "
        f"{factor}{more}."
    )


def validate(
    extent: Extent,
    read: Callable[[], Strips],
    rules: Rules,
    n: int,
    dtype: Any,
    xp: Any = np,
    gap_at: Place | None = None,
) -> tuple[float, Half | None]:
    """Return the largest entry of D and the half that holds all entries, if one does; or refuse D.

    `read` reads D again if the extent shows a fault; `dtype` sets the tolerance for rounding;
    `gap_at` is the place of the gap of `extent`, if strips do not show it.
    """
    eps = arrays.eps(dtype, xp)
    if rules.in_memory:
        bits = 64
    else:
        bits = int(xp.finfo(dtype).bits)
    rounding = tolerance(extent.size, eps)
    fine = (
        all(map(math.isfinite, astuple(extent)))
        and (rules.squared or extent.depth <= 0)
        and (rules.symmetrize or extent.gap <= rounding)
        and extent.own <= rounding
        and not exceeds_range(extent.size, rules.squared, bits, n)
    )
    if fine and (rules.symmetrize or extent.triangle is None):
        return extent.size, extent.triangle
    with np.errstate(invalid="ignore"):
        return _refuse(read, rules, eps, bits, gap_at, extent.gap)


def _worst(read: Callable[[], Strips], measure: Measure) -> Worst:
    """Return how many entries have a measure above zero, the largest measure, and its place."""
    count = 0
    largest = 0.0
    place = (0, 0)
    for start, rows, columns in read():
        own = np.arange(len(rows))
        hollow = rows.copy()
        hollow[own, start + own] = 0.0
        mirrored = columns.copy()
        mirrored[own, start + own] = 0.0
        values = measure(start, hollow, mirrored)
        values = np.where(values > 0, values, 0.0)
        count += int(np.count_nonzero(values))
        i, j = np.unravel_index(int(values.argmax()), values.shape)
        if values[i, j] > largest:
            largest = float(values[i, j])
            place = (start + int(i), int(j))
    return count, largest, place


def _refuse(
    read: Callable[[], Strips],
    rules: Rules,
    eps: float,
    bits: int,
    gap_at: Place | None,
    gap: float,
) -> tuple[float, Half | None]:
    """Raise for the first fault of D; return its size and its only half if there is none."""
    worst = partial(_worst, read)
    own = np.concatenate(
        [np.diagonal(rows, start) for start, rows, _ in read()]
    )
    _, size, largest_at = worst(lambda start, rows, columns: np.abs(rows))
    _, above, _ = worst(
        lambda start, rows, columns: np.triu(np.abs(rows), start)
    )
    _, below, _ = worst(
        lambda start, rows, columns: np.tril(np.abs(rows), start)
    )
    triangle = Extent(above=above, below=below).triangle
    rounding = tolerance(np.fmax.reduce(np.abs(own), initial=size), eps)
    infinite = worst(lambda start, rows, columns: np.isinf(rows))
    if infinite[0]:
        if rules.in_memory:
            advice = f", or by NaN with {option('missing', 'ignore')}"
        else:
            advice = ""
        raise _listed(
            infinite, "infinite", f"replace by a finite value{advice}", rules
        )
    if triangle is not None and not rules.symmetrize and size > rounding:
        if triangle == "lower":
            other = "above"
        else:
            other = "below"
        raise InputError(
            f"D is a {triangle} triangle: all entries {other} the diagonal are zero or missing; "
            f"{rules.repair('to mirror it')}."
        )
    _refuse_missing(worst, own, triangle, rules)
    # Similarities, some of which may be negative: nothing is larger than the diagonal.
    if own.size and own.min() > rounding and own.max() >= size - rounding:
        _refuse_diagonal(own, size, rules, rounding)
    _, depth, lowest_at = worst(lambda start, rows, columns: -rows)
    if depth > 0 and not rules.squared:
        raise InputError(
            f"Negative values in data: the lowest is {-depth:.4g} at {rules.place(*lowest_at)}; "
            f"pass {option('squared', True)} if D already holds squared dissimilarities."
        )
    if gap_at is None:
        _, gap, gap_at = worst(
            lambda start, rows, columns: np.abs(rows - columns)
        )
    if gap > rounding and not rules.symmetrize:
        raise InputError(
            f"D is not symmetric: largest gap {gap:.2g} at {rules.place(*gap_at)}; "
            f"{rules.repair('to average')}."
        )
    _refuse_diagonal(own, size, rules, rounding)
    refuse_range(
        size, rules.squared, f" at {rules.place(*largest_at)}", bits, own.size
    )
    return size, triangle


def _listed(found: Worst, what: str, advice: str, rules: Rules) -> InputError:
    count, _, place = found
    where = rules.place(*place)
    if count == 1:
        return InputError(f"D holds 1 {what} entry, at {where}; {advice}.")
    return InputError(
        f"D holds {count} {what} entries, the first at {where}; {advice}."
    )


def _refuse_missing(
    worst: Callable[[Measure], Worst],
    own: Floats,
    triangle: Half | None,
    rules: Rules,
) -> None:
    def lost(start: int, rows: Floats, columns: Floats) -> Floats:
        """Return NaN that no mirrored entry will replace."""
        missing = np.isnan(rows)
        if not rules.symmetrize:
            return missing
        if triangle is None:
            return missing & np.isnan(columns)
        if triangle == "lower":
            return np.tril(missing, start)
        return np.triu(missing, start)

    missing = worst(lost)
    if missing[0] and not rules.allow_missing:
        advice = f"pass {option('missing', 'ignore')} to leave such pairs out"
        if not rules.in_memory:
            advice = "fill them in, or drop these objects: a D outside memory must be complete"
        raise _listed(missing, "missing (NaN)", advice, rules)
    if np.isnan(own).any():
        first = int(np.argmax(np.isnan(own)))
        place = rules.place(first, first)
        raise InputError(
            f"D is missing (NaN) on its diagonal, first at {place}; set it to 0."
        )
    count, _, (i, j) = worst(
        lambda start, rows, columns: np.isnan(rows) & ~np.isnan(columns)
    )
    if count and not rules.symmetrize:
        raise InputError(
            f"D is missing (NaN) at {rules.place(i, j)} but not at ({j}, {i}); "
            f"{rules.repair('to take one for the other')}."
        )


def _refuse_diagonal(
    own: Floats, size: float, rules: Rules, rounding: float
) -> None:
    """Refuse a diagonal that is not zero, and advise a conversion if D looks like similarities."""
    at = int(np.abs(own).argmax())
    if abs(own[at]) <= rounding:
        return
    advice = "set it to 0, or convert D if it holds similarities"
    if own.min() > rounding and own.max() >= size - rounding:
        advice = "no entry is larger, as in a matrix S of similarities; convert it: pass "
        if np.ptp(own) <= rounding:
            advice += f"{own[at]:.4g} - S or "
        advice += "sqrt(s_ii + s_jj - 2 s_ij)"
    raise InputError(
        f"D has a diagonal that is not zero: {own[at]:.4g} at {rules.place(at, at)}; {advice}."
    )


def check_count(**counts: Any) -> None:
    """Raise unless every count is a whole number of at least 1."""
    for name, count in counts.items():
        whole = isinstance(count, (int, np.integer)) and not isinstance(
            count, bool
        )
        if not whole or count < 1:
            raise InputError(
                f"{option(name, count)} must be a whole number of at least 1."
            )
