"""Validate dissimilarities.

One pass over D finds its extremes, which suffice if D is valid. If it is not, `validate` reads D
again, row by row, to find the entry at fault.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from neucmds.backend import arrays
from neucmds.backend.arrays import Array, Floats
from neucmds.errors import InputError, option
from neucmds.problem.names import Labels, text_of

# The lowest entry of D, the highest, and the largest difference of two mirrored ones.
Extremes = tuple[float, float, float]
# Blocks of D: the number of the first row, the rows, and the columns of the same objects, also as
# rows; in float64, with zeros on the diagonal of D.
Strips = Iterator[tuple[int, Floats, Floats]]

# Largest d² that is taken, and the inverse of the least. A descent sums squared gradients, cubes
# of d²: from 1e-270 to 1e270.
RANGE = 1e90

# What messages demand of a count.
A_COUNT = "must be a whole number of at least 1, and below 2⁶³"


def as_labels(labels: Iterable[object] | None, n: int) -> Labels:
    """Check that there is one unique label per object, and turn them into text."""
    if labels is None:
        return None
    names = tuple(text_of(label) for label in labels)
    if len(names) != n:
        raise InputError(
            f"D has {n} objects but {len(names)} labels; pass one label per object."
        )
    numbers: dict[str, int] = {}
    for i, name in enumerate(names):
        first = numbers.setdefault(name, i)
        if first != i:
            raise InputError(
                f"labels are not unique: {name!r} names objects {first} and {i}; rename one."
            )
    return names


def entry_name(i: int, j: int, labels: Sequence[str] | None) -> str:
    """Name an entry of D by its indices, and by its labels where there are any."""
    indices = f"({int(i)}, {int(j)})"
    if labels is None:
        return indices
    return f"{indices}, {labels[i]!r} and {labels[j]!r}"


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


def tolerance(largest: float, eps: float) -> float:
    """Return what counts as rounding beside the largest entry: √ε of it.

    √ε (1.5e-8 in float64, 3.5e-4 in float32) is the rounding of distances computed as
    √(|x|² + |y|² − 2x·y), the least exact way in use.
    """
    return math.sqrt(eps) * largest


def loses_squares(largest: float, squared: bool, n: int) -> bool:
    """Tell whether squares of d lose digits in float32, or sums of n of them are infinite."""
    limits = np.finfo(np.float32)
    sq_largest = largest
    if not squared:
        sq_largest = largest**2
    # Below, the last digit of a float32 is no normal number.
    lowest = float(limits.tiny / limits.eps)
    highest = float(limits.max) / n
    return largest > 0 and not lowest <= sq_largest <= highest


def refuse_range(largest: float, squared: bool, what: str = "D is") -> None:
    """Refuse numbers whose powers leave the range of floats, with the factor to divide them by."""
    sq_largest = largest
    if not squared:
        sq_largest = largest * largest
    if largest == 0 or 1 / RANGE <= sq_largest <= RANGE:
        return
    extreme = "large"
    if sq_largest < 1:
        extreme = "small"
    raise InputError(
        f"{what} too {extreme}: sums of powers of {largest:.2g} leave the range of floats; "
        f"divide by {largest:.0e}."
    )


@np.errstate(invalid="ignore")
def validate(
    extremes: Extremes,
    diagonal: Floats,
    read: Callable[[], Strips],
    eps: float,
    *,
    squared: bool,
    symmetrize: bool = False,
    allow_missing: bool = False,
    labels: Sequence[str] | None = None,
) -> float:
    """Return the largest |D_ij|, or refuse D.

    If the extremes or the diagonal show a fault, `read` reads D again to find it. `eps` is that of
    the floats that D is computed with; `labels` name the entry at fault.
    """
    low, high, gap = extremes
    largest = max(high, -low)
    rounding = tolerance(largest, eps)
    is_valid = (
        math.isfinite(low + high)
        and (squared or low >= 0)
        and gap <= rounding
        and np.abs(diagonal).max() <= rounding
    )
    if is_valid:
        refuse_range(largest, squared)
        return largest

    def worst(
        fault: Callable[[Floats, Floats], Array],
    ) -> tuple[int, float, str]:
        """Return how many entries have a fault above zero, the largest fault, and its entry."""
        count = 0
        largest_fault = 0.0
        entry = ""
        for start, rows, columns in read():
            values = np.nan_to_num(fault(rows, columns), posinf=np.inf)
            count += int(np.count_nonzero(values > 0))
            i, j = np.unravel_index(int(values.argmax()), values.shape)
            if values[i, j] > largest_fault:
                largest_fault = float(values[i, j])
                entry = entry_name(start + int(i), int(j), labels)
        return count, largest_fault, entry

    count, _, entry = worst(lambda rows, columns: np.isinf(rows))
    if count:
        raise InputError(
            f"D holds {count} infinite entries, the first at {entry}; replace them by finite "
            f"values, or by NaN and embed with {option('missing', 'ignore')}."
        )
    # Without NaN, which the extremes may be, and without the diagonal.
    _, largest, _ = worst(lambda rows, columns: np.abs(rows))
    rounding = tolerance(
        np.fmax.reduce(np.abs(diagonal), initial=largest), eps
    )
    # Of two mirrored entries the smaller, and the largest of these over all pairs.
    _, largest_minimum, _ = worst(
        lambda rows, columns: np.fmin(np.abs(rows), np.abs(columns))
    )
    if largest_minimum == 0 and largest > rounding:
        raise InputError(
            "D is a triangle: of two mirrored entries one is always zero; pass D + D.T."
        )
    _, gap, entry = worst(asymmetry)
    if gap > rounding and not symmetrize:
        raise asymmetric(gap, entry, _mean_asymmetry(read))
    count, _, entry = worst(
        lambda rows, columns: np.isnan(rows) & np.isnan(columns)
    )
    if count and not allow_missing:
        raise InputError(
            f"D holds {count} missing (NaN) entries, the first at {entry}; fill them in, or embed "
            f"with {option('missing', 'ignore')} to leave such pairs out of a D in memory."
        )
    _, minus_lowest, entry = worst(lambda rows, columns: -rows)
    # Similarities have a positive diagonal, and may be negative: they are refused below.
    if minus_lowest > 0 and not squared and diagonal.min() <= rounding:
        raise InputError(
            f"Negative values in data: the lowest is {-minus_lowest:.4g} at {entry}; pass "
            f"{option('squared', True)} if D already holds squared dissimilarities."
        )
    i = int(np.abs(diagonal).argmax())
    if not abs(diagonal[i]) <= rounding:  # also if it is NaN
        advice = "set it to 0"
        if diagonal.min() > rounding and diagonal.max() >= largest - rounding:
            advice = (
                "no entry is larger, as in a matrix S of similarities; convert it: pass "
                "sqrt(s_ii + s_jj - 2 s_ij)"
            )
        raise InputError(
            f"D has a diagonal that is not zero: {diagonal[i]:.4g} at {entry_name(i, i, labels)}; "
            f"{advice}."
        )
    refuse_range(largest, squared)
    return largest


def _mean_asymmetry(read: Callable[[], Strips]) -> float:
    """Return Σ|D − Dᵀ| / Σ|D| over the pairs that are known in both orders."""
    gaps = 0.0
    sizes = 0.0
    for _, rows, columns in read():
        both = np.isfinite(rows) & np.isfinite(columns)
        gaps += float(np.abs(rows - columns)[both].sum())
        sizes += float(np.abs(rows)[both].sum())
    if not sizes:
        return 0.0
    return gaps / sizes


def asymmetry(rows: Floats, columns: Floats) -> Floats:
    """Return the differences of mirrored entries, infinite where one of two is missing."""
    is_half_known = np.isnan(rows) != np.isnan(columns)
    return np.where(is_half_known, np.inf, np.abs(rows - columns))


def asymmetric(gap: float, entry: str, share: float = 0.0) -> InputError:
    """Return the error for a D that is not symmetric.

    `gap` is the largest difference of two mirrored entries, infinite if one is missing. `share` is
    the mean difference over the mean entry; zero: not computed.
    """
    difference = f"largest gap {gap:.2g}"
    if share:
        difference = (
            f"its directions differ by {share:.2g} of their mean, {difference}"
        )
    if gap == math.inf:
        difference = "one of two mirrored entries is missing (NaN)"
    return InputError(
        f"D is not symmetric: {difference} at {entry}; pass (D + D.T) / 2, or embed a D in memory "
        f"with {option('symmetrize', True)} to average, or, without landmarks, with "
        f"{option('directed', True)} to keep both directions."
    )


def is_count(value: Any) -> bool:
    """Tell whether a value is a whole number of at least 1 that an array's index can hold."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    return whole and 1 <= value <= sys.maxsize


def as_list(name: str, values: Any) -> tuple[Any, ...]:
    """Return the values of a parameter that takes a list, or refuse a single value."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InputError(
            f"{option(name, values)} must be a list, as in {option(name, [values])}."
        )
    return tuple(values)


def check_count(**counts: Any) -> None:
    """Raise unless every count is a whole number of at least 1."""
    for name, count in counts.items():
        if not is_count(count):
            raise InputError(f"{option(name, count)} {A_COUNT}.")
