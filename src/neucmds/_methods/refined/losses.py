"""What a pair of objects costs: the losses that `refined` can minimise, pair by pair.

Every loss is a sum of squares, Σ u q(D̂)², with u the user's weights. What the descent needs of it
is q, its slope dq/dD̂ and how q bends:

    squared    q = D̂ − D                the paper's STRESS: far pairs rule
    distance   q = √D̂ − d              d = √D: what SMACOF minimises
    relative   q = (D̂ − D)/max(D, f²)  near pairs count like far ones; f the floor
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, log2
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds._backend.arrays import (
    BLOCK_ELEMENTS,
    Array,
    in_place,
    is_numpy,
    min_and_max,
    namespace,
    on_cpu,
    row_blocks,
    to_numpy,
)
from neucmds.errors import InputError, option

LOSSES = ("squared", "distance", "relative")

# The floor of d is half of the 1 % quantile of the positive d. The quantile itself is too high
# where d are few whole numbers: of hops on a 5-NN graph (digits, n = 1797) it is 2, and at k = 10
# .937 of the ten nearest are kept instead of .943. On streets (Helsinki, k = 16) both end at a mean
# error of 1.6 %, and the lower floor keeps .966 of the nearest instead of .944.
FLOOR_QUANTILE = 0.01
FLOOR_SHARE = 0.5
# The root of `distance` goes over into its tangent where √D̂ falls below this share of d (or of the
# floor): its slope at zero is infinite, and below zero there would be none to pull a pair back.
CORNER = 0.05
# Entries whose bits are counted at a time on a GPU: 0.25 GB.
DEVICE_ELEMENTS = 2**26


@dataclass(frozen=True)
class PairTerms:
    """Residuals of a tile of pairs and how they change with D̂.

    Parameters
    ----------
    residual : array
        q.
    slope : array or None
        dq/dD̂; None: one everywhere.
    curvature : array or None
        What the square of a first-order change of q counts in the second derivative of q², one
        where q is linear: 1 + q·q″/q′². None: one everywhere.
    """

    residual: Array
    slope: Array | None
    curvature: Array | None


@dataclass(frozen=True)
class PairLoss:
    """A loss by name, with its floor.

    Parameters
    ----------
    name : {"squared", "distance", "relative"}
    floor : float
        The floor f of d, squared: D below it counts as if it were this much.
    smoothing : float, default=0
        What "distance" adds to D and to D̂ before it takes roots.
    """

    name: str
    floor: float
    smoothing: float = 0.0

    def smoothed(self, least: float) -> PairLoss:
        """Return a loss with fewer valleys, close to the squared one for D far below `least`.

        Of "distance" it is what Groenen, Heiser and Meulman (1999) call distance smoothing.
        """
        if self.name == "distance":
            return replace(self, smoothing=least)
        return replace(self, floor=max(self.floor, least))

    def terms(self, d: Array, d_hat: Array, *, bend: bool = False) -> PairTerms:
        """Return q, its slope and, if asked for, its curvature; `d_hat` is written over.

        Parameters
        ----------
        d, d_hat : arrays of the same shape
            D and D̂, squared scale.
        bend : bool, default=False
        """
        if self.name == "squared":
            d_hat -= d
            return PairTerms(d_hat, None, None)
        xp = namespace(d)
        if self.name == "relative":
            slope = in_place("reciprocal", _at_least(d, self.floor))
            d_hat -= d
            d_hat *= slope
            return PairTerms(d_hat, slope, None)
        if self.smoothing:
            d = d + self.smoothing
            d_hat += self.smoothing
        lowest = _at_least(d, self.floor)
        lowest *= CORNER**2
        square = xp.maximum(d_hat, lowest)
        root = xp.sqrt(square)
        slope = in_place("reciprocal", root * 2.0)
        distance = xp.sqrt(d)
        # 1 + q·q″/q′² = d/√D̂ above the corner, 1 below
        curvature = xp.where(d_hat < lowest, xp.ones_like(root), distance / root) if bend else None
        d_hat -= square
        d_hat *= slope
        root -= distance
        d_hat += root
        return PairTerms(d_hat, slope, curvature)

    def value(self, d: Array, d_hat: Array, u: Array | None = None) -> float:
        """Return Σ u q² as it is defined, with no corner rounded; `d_hat` is written over."""
        xp = namespace(d)
        if self.name == "distance":
            q = xp.sqrt(xp.clip(d_hat, 0.0, None)) - xp.sqrt(d)
        else:
            q = self.terms(d, d_hat).residual
        return float(xp.sum(q * q if u is None else u * q * q))

    @property
    def is_quadratic(self) -> bool:
        """Whether q is linear in D̂, and the loss along a line therefore a quartic."""
        return self.name != "distance"

    @property
    def degree(self) -> int:
        """The power of D that the loss scales with."""
        return {"squared": 2, "distance": 1, "relative": 0}[self.name]


def _at_least(array: Array, least: float) -> Array:
    """max(array, least), as a new array."""
    if is_numpy(array):
        # Against a row, not a number: half the time (21 of 420 µs for a tile of digits, k = 20).
        # np.clip with one bound takes twice as long as the number.
        return np.maximum(array, np.full(array.shape[-1:], least, dtype=array.dtype))
    return namespace(array).clip(array, least, None)


def power_of_four(array: Array) -> float:
    """Return the power of four nearest to the largest entry in size."""
    low, high = min_and_max(array)
    largest = max(abs(low), abs(high))
    return 4.0 ** round(log2(largest) / 2) if 0 < largest < inf else 1.0


def check_defined(sq_dissimilarity: Array, weights: Array | None, loss: str) -> None:
    """Refuse negative D where a loss has no meaning for it; pairs of weight zero do not matter."""
    if loss == "squared":
        return
    xp = namespace(sq_dissimilarity)
    count, lowest = 0, 0.0
    n = int(sq_dissimilarity.shape[0])
    for rows in row_blocks(n, n):
        block = sq_dissimilarity[rows, :]
        if weights is not None:
            block = xp.where(weights[rows, :] > 0, block, xp.zeros_like(block))
        here = min_and_max(block)[0]
        if here < 0:
            count += int(xp.sum(xp.astype(block < 0, xp.int64)))
            lowest = min(lowest, here)
    if count:
        raise InputError(
            f"{option('loss', loss)} needs D ≥ 0, and {count // 2} pairs have D < 0, the lowest "
            f"{lowest:.4g}; use {option('loss', 'squared')}, or give these pairs weight 0."
        )


def floor_of(sq_dissimilarity: Array, weights: Array | None = None) -> float:
    """Return the floor f² on the squared scale: f is half of the 1 % quantile of the positive d.

    Exact in single precision, whatever the order of the objects and with no sorted copy: single
    precision numbers that are positive are ordered like the integers of the same bits.

    Parameters
    ----------
    sq_dissimilarity : array of shape (n, n), float32 or in its range
    weights : array of shape (n, n), optional
        Pairs of weight zero do not count.
    """
    on_host = on_cpu(sq_dissimilarity)
    fetch = to_numpy if on_host else lambda part: part
    xp = namespace(fetch(sq_dissimilarity[:1, :]))

    def bits(rows: slice) -> Array:
        block = xp.astype(fetch(sq_dissimilarity[rows, :]), xp.float32, copy=False)
        counted = block > 0
        if weights is not None:
            counted &= fetch(weights[rows, :]) > 0
        return block[counted].view(xp.int32)  # as NumPy's, torch's and CuPy's arrays do

    n = int(sq_dissimilarity.shape[0])
    # To the host a GPU's D of 20,000 objects takes 3 s.
    blocks = list(row_blocks(n, n, BLOCK_ELEMENTS if on_host else DEVICE_ELEMENTS))
    coarse = sum(xp.bincount(bits(rows) >> 16, minlength=2**15) for rows in blocks)
    counts: npt.NDArray[Any] = to_numpy(coarse)
    if not counts.any():
        return 1.0
    rank = int(FLOOR_QUANTILE * (int(counts.sum()) - 1))
    high = int(np.searchsorted(np.cumsum(counts), rank + 1))
    fine: npt.NDArray[Any] = np.zeros(2**16, dtype=np.int64)
    for rows in blocks:
        some = bits(rows)
        fine += to_numpy(xp.bincount(some[some >> 16 == high] & 0xFFFF, minlength=2**16))
    rank -= int(counts[:high].sum())
    low = int(np.searchsorted(np.cumsum(fine), rank + 1))
    quantile = np.array([(high << 16) | low], dtype=np.int32).view(np.float32)[0]
    return FLOOR_SHARE**2 * float(quantile)
