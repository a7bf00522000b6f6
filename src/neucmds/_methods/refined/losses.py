"""The losses of a pair of objects that `refined` minimises.

Every loss is a sum of squares, Σ u q(D̂)², with u the user's weights:

    squared    q = D̂ − D                the paper's STRESS: far pairs dominate
    distance   q = √D̂ − d              d = √D: what SMACOF minimises
    relative   q = (D̂ − D)/max(D, f²)  near pairs count like far ones; f the floor

With a curvature κ, D is g(d) instead of d² (see `curvature`), and errors still count in d:

    distance   q = g⁻¹(D̂) − d
    relative   q = 2(D̂ − D)/(d·g′(d)), with d = max(d, f): to first order twice the relative error
"""

from __future__ import annotations

from collections.abc import Callable
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
from neucmds._methods.refined.curvature import LEAST_COSINE, arc, curved, distances, half_slope
from neucmds.errors import InputError, option

LOSSES = ("squared", "distance", "relative")

# The floor of d is half of the 1 % quantile of the positive d: the quantile itself is too high for
# hops, which are few whole numbers.
FLOOR_QUANTILE = 0.01
FLOOR_SHARE = 0.5
LEAST_SHARE = float(np.finfo(np.float64).eps)
# Below this share of d (or of the floor) the root of `distance` is continued by its tangent: its
# slope at zero is infinite, and below zero there is none.
CORNER = 0.05
# Entries counted at a time on a GPU: 0.25 GB.
DEVICE_ELEMENTS = 2**26


@dataclass(frozen=True)
class PairTerms:
    """Residuals q of a tile of pairs, slopes q′ = dq/dD̂ and curvatures 1 + q·q″/q′².

    The last is the second derivative of q²/2 over q′². None: one everywhere.
    """

    residual: Array
    slope: Array | None
    curvature: Array | None


@dataclass(frozen=True)
class PairLoss:
    """A loss by name, with its floor and its curvature κ in units of 1/d².

    `floor` is g(f) of the floor f of d: smaller D count as this much. "distance" adds `smoothing`
    to D and to D̂ before it takes roots.
    """

    name: str
    floor: float
    smoothing: float = 0.0
    curvature: float = 0.0

    def smoothed(self, least: float) -> PairLoss:
        """Return a loss with fewer local minima, close to the squared one for D far below `least`.

        For "distance" this is the distance smoothing of Groenen, Heiser and Meulman (1999).
        """
        if self.name == "distance":
            return replace(self, smoothing=least)
        return replace(self, floor=max(self.floor, least))

    def floored(self, floor: float) -> PairLoss:
        """Return the same loss with a floor f of d."""
        return replace(self, floor=float(curved(np.array([floor**2]), self.curvature)[0]))

    def scaled(self, scale: float) -> PairLoss:
        """Return the same loss of D that are `scale` times as large."""
        return replace(self, floor=self.floor * scale, curvature=self.curvature / scale)

    def of_pairs(self, d: Array) -> Array | None:
        """Return the part of `terms` that depends on D alone, if it is expensive; else None."""
        if not self.curvature:
            return None
        xp = namespace(d)
        if self.name == "distance":
            return arc(xp.sqrt(d + self.smoothing), self.curvature)
        root = xp.sqrt(_at_least(d, self.floor))
        return in_place("reciprocal", arc(root, self.curvature) * half_slope(root, self.curvature))

    def terms(
        self, d: Array, d_hat: Array, *, bend: bool = False, known: Array | None = None
    ) -> PairTerms:
        """Return q, its slope and, with `bend`, its curvature; `d_hat` is overwritten.

        D and D̂ are on the scale of g(d); `known` is `of_pairs` of d.
        """
        if self.name == "squared":
            d_hat -= d
            return PairTerms(d_hat, None, None)
        known = self.of_pairs(d) if known is None else known
        if self.name == "relative":
            slope = in_place("reciprocal", _at_least(d, self.floor)) if known is None else known
            d_hat -= d
            d_hat *= slope
            return PairTerms(d_hat, slope, None)
        return self._distance_terms(d, d_hat, bend, known)

    def _distance_terms(self, d: Array, d_hat: Array, bend: bool, known: Array | None) -> PairTerms:
        xp = namespace(d)
        if self.smoothing:
            d = d + self.smoothing
            d_hat += self.smoothing
        lowest = _at_least(d, self.floor)
        lowest *= CORNER**2
        square = xp.maximum(d_hat, lowest)
        if self.curvature > 0:
            square = xp.clip(square, None, 4 * (1 - LEAST_COSINE**2) / self.curvature)
        root = xp.sqrt(square)
        slope = in_place("reciprocal", half_slope(root, self.curvature) * 2.0)
        off = arc(root, self.curvature) - (xp.sqrt(d) if known is None else known)
        curvature = None
        if bend:
            # 1 + q·q″/q′², and 1 where the root is its tangent
            curvature = 1 - off * slope * (2 - self.curvature * square)
            curvature = xp.where(d_hat == square, curvature, xp.ones_like(root))
        d_hat -= square
        d_hat *= slope
        d_hat += off
        return PairTerms(d_hat, slope, curvature)

    def value(self, d: Array, d_hat: Array, u: Array | None = None) -> float:
        """Return Σ u q² as it is defined, with no corner rounded; `d_hat` is written over."""
        xp = namespace(d)
        if self.name == "distance":
            q = distances(d_hat, self.curvature) - distances(d, self.curvature)
        else:
            q = self.terms(d, d_hat).residual
        return float(xp.sum(q * q if u is None else u * q * q))

    def in_distances(self, d: Array, d_hat: Array, u: Array | None = None) -> float:
        """Return Σ|d̂ − d|, for "relative" relative to max(d, f): of any κ alike."""
        xp, of_d = namespace(d), distances(d, self.curvature)
        q = distances(d_hat, self.curvature) - of_d
        if self.name == "relative":
            q /= _at_least(of_d, float(arc(xp.sqrt(xp.asarray(self.floor)), self.curvature)))
        return float(xp.sum(xp.abs(q) if u is None else u * xp.abs(q)))

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
        # Against a row, not a number: half the time.
        return np.maximum(array, np.full(array.shape[-1:], least, dtype=array.dtype))
    return namespace(array).clip(array, least, None)


def power_of_four(array: Array) -> float:
    """Return the power of four nearest to the largest entry in size."""
    low, high = min_and_max(array)
    largest = max(abs(low), abs(high))
    return 4.0 ** round(log2(largest) / 2) if 0 < largest < inf else 1.0


def check_defined(sq_dissimilarity: Array, weights: Array | None, loss: str) -> None:
    """Raise if D is negative at a positive weight, and the loss is not defined there."""
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


def combined_floor(quantile: float, nearest: Array, largest: float, curvature: float) -> float:
    """Return the floor of d: half of its 1 % quantile, or the median of the nearest if it is less.

    The former alone grows with n. `quantile`, `nearest` (one per object, infinite if it has no
    other) and `largest` are on the scale of g(d).
    """
    # Rounding of far pairs exceeds nearer ones.
    median = max(float(np.median(nearest[np.isfinite(nearest)])), LEAST_SHARE * largest)
    at_quantile, usual = distances(np.array([quantile, median]), curvature).tolist()
    return float(min(FLOOR_SHARE * at_quantile, usual))


def floor_of(link: Array, weights: Array | None = None, curvature: float = 0.0) -> float:
    """Return the floor of d of all pairs of positive weight, as `combined_floor`; link is g(d)."""
    fetch = to_numpy if on_cpu(link) else lambda part: part

    def counted(rows: slice) -> tuple[Array, Array]:
        block = fetch(link[rows, :])
        block = namespace(block).astype(block, namespace(block).float32, copy=False)
        positive = block > 0
        return block, positive if weights is None else positive & (fetch(weights[rows, :]) > 0)

    n = int(link.shape[0])
    # To the host a GPU's D of 20,000 objects takes 3 s.
    blocks = list(row_blocks(n, n, BLOCK_ELEMENTS if on_cpu(link) else DEVICE_ELEMENTS))
    quantile = _quantile(counted, blocks)
    if quantile is None:
        return 1.0
    nearest = []
    for rows in blocks:
        block, some = counted(rows)
        xp = namespace(block)
        block = xp.where(some, block, xp.full_like(block, inf))
        nearest.append(to_numpy(xp.min(block, axis=1)))
    return combined_floor(quantile, np.concatenate(nearest), min_and_max(link)[1], curvature)


def _quantile(counted: Callable[[slice], tuple[Array, Array]], blocks: list[slice]) -> float | None:
    """Return the 1 % quantile of the entries that count, with no sorted copy; None if none does.

    Positive numbers of single precision are ordered like the integers of the same bits.
    """

    def counts(rows: slice, high: int | None = None) -> npt.NDArray[Any]:
        """Count by the upper half of the bits, or by the lower one of those with an upper half."""
        block, some = counted(rows)
        xp = namespace(block)
        bits = block[some].view(xp.int32)  # as NumPy's, torch's and CuPy's arrays do
        half = bits >> 16 if high is None else bits[bits >> 16 == high] & 0xFFFF
        return to_numpy(xp.bincount(half, minlength=2**16))

    coarse = np.sum([counts(rows) for rows in blocks], axis=0)
    if not coarse.any():
        return None
    rank = int(FLOOR_QUANTILE * (int(coarse.sum()) - 1))
    high = int(np.searchsorted(np.cumsum(coarse), rank + 1))
    fine = np.sum([counts(rows, high) for rows in blocks], axis=0)
    rank -= int(coarse[:high].sum())
    low = int(np.searchsorted(np.cumsum(fine), rank + 1))
    return float(np.array([(high << 16) | low], dtype=np.int32).view(np.float32)[0])
