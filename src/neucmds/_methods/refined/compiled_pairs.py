"""The loops over differences of listed pairs, compiled by numba where it is installed.

Each walks over a part of the pairs without Python's lock, so that parts run on all threads. 2.3
million pairs, k = 16, one core: 28 ms for D̂ along a line instead of 48 in NumPy, 17 for D̂ instead
of 29. A compiled gradient was no faster than scipy's sparse product (28 against 27 ms), and
compiled Gauss–Newton blocks were seven times slower than BLAS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

# Pairs from which on it pays to import numba and to load what it compiled.
WORTH_COMPILING = 2**18


@dataclass(frozen=True)
class Loops:
    """Compiled loops; arrays are written in place.

    Parameters
    ----------
    forms : callable
        ``forms(x, i, j, signs, out)``: D̂ of every pair.
    along : callable
        ``along(x, p, i, j, signs, first, second)``: the changes of D̂ along a line, to first and to
        second order.
    """

    forms: Callable[..., None]
    along: Callable[..., None]


@cache
def loops() -> Loops | None:
    """Return the compiled loops, or None where numba is not installed."""
    try:
        from numba import njit
    except ImportError:
        return None
    compiled: Callable[[Any], Any] = njit(nogil=True, fastmath=True, cache=True)
    return Loops(compiled(_forms), compiled(_along))


def _forms(x, i, j, signs, out):  # type: ignore[no-untyped-def]
    for pair in range(i.size):
        a, b = i[pair], j[pair]
        total = signs[0] * 0
        for c in range(signs.size):
            gap = x[a, c] - x[b, c]
            total += signs[c] * gap * gap
        out[pair] = total


def _along(x, p, i, j, signs, first, second):  # type: ignore[no-untyped-def]
    for pair in range(i.size):
        a, b = i[pair], j[pair]
        one = two = signs[0] * 0
        for c in range(signs.size):
            step = signs[c] * (p[a, c] - p[b, c])
            one += step * (x[a, c] - x[b, c])
            two += step * (p[a, c] - p[b, c])
        first[pair] = one + one
        second[pair] = two
