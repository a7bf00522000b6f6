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

from dataclasses import dataclass, replace
from math import inf, log2
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import (
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
from neucmds.form import LEAST_COSINE, arc, curved, distances, half_slope

# The power of D that each loss scales with.
DEGREES = {"squared": 2, "distance": 1, "relative": 0}
LOSSES = tuple(DEGREES)

# The floor of d is half of the 1 % quantile of the positive d: the quantile itself is too high for
# hops, which are few whole numbers.
FLOOR_QUANTILE = 0.01
FLOOR_SHARE = 0.5
LEAST_SHARE = float(np.finfo(np.float64).eps)
# Below this share of d (or of the floor) the root of `distance` is continued by its tangent: its
# slope at zero is infinite, and below zero there is none.
CORNER = 0.05
# Most that a floor may be, in units of the scale of D: float32 holds its fourth power.
LARGEST_FLOOR = 1e6
# Most entries of D whose quantile is taken, and those read at a time on a GPU.
FLOOR_ENTRIES = 2**24


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
        if floor > LARGEST_FLOOR:
            raise InputError(
                f"the floor of {option('loss', 'relative')} is {floor:.2g} times the scale of D; "
                f"pass at most {LARGEST_FLOOR:.0g} times it, or {option('loss', 'squared')}, which "
                "is then the same."
            )
        return replace(self, floor=float(curved(np.array([floor**2]), self.curvature)[0]))

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
        if self.name == "distance":
            return self._distance_terms(d, d_hat, bend, known)
        slope = in_place("reciprocal", _at_least(d, self.floor)) if known is None else known
        d_hat -= d
        d_hat *= slope
        return PairTerms(d_hat, slope, None)

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
    """Raise if a D of positive weight is negative and the loss needs D ≥ 0; D may be a list."""
    xp = namespace(sq_dissimilarity)
    if loss == "squared" or min_and_max(sq_dissimilarity)[0] >= 0:
        return
    counted = sq_dissimilarity
    if weights is not None:
        counted = xp.where(weights > 0, counted, xp.zeros_like(counted))
    count = int(xp.sum(xp.astype(counted < 0, xp.int64))) // len(counted.shape)
    if count:
        raise InputError(
            f"{option('loss', loss)} needs D ≥ 0, and {count} pairs have D < 0, the lowest "
            f"{float(xp.min(counted)):.4g}; use {option('loss', 'squared')}, or leave these pairs "
            "out, in a matrix by weight 0."
        )


def combined_floor(
    values: npt.NDArray[Any], nearest: Array, largest: float, curvature: float
) -> float:
    """Return the floor of d: half of its 1 % quantile, or the median of the nearest if it is less.

    The former alone grows with n. Positive `values`, `nearest` (one per object, infinite if it has
    no other) and `largest` are on the scale of g(d); without values the floor is 1.
    """
    if values.size == 0:
        return 1.0
    rank = int(FLOOR_QUANTILE * (values.size - 1))
    quantile = float(np.partition(values, rank)[rank])
    # Rounding of far pairs exceeds nearer ones.
    median = max(float(np.median(nearest[np.isfinite(nearest)])), LEAST_SHARE * largest)
    at_quantile, usual = distances(np.array([quantile, median]), curvature).tolist()
    return float(min(FLOOR_SHARE * at_quantile, usual))


def floor_of(link: Array, weights: Array | None = None, curvature: float = 0.0) -> float:
    """Return the floor of d of all pairs of positive weight, as `combined_floor`; link is g(d).

    The quantile of many pairs is that of evenly spaced ones.
    """
    xp, (n, _) = namespace(link), link.shape
    step = -(-(n**2) // FLOOR_ENTRIES)
    values, nearest = [], []
    for rows in row_blocks(n, n, BLOCK_ELEMENTS if on_cpu(link) else FLOOR_ENTRIES):
        block = xp.astype(link[rows, :], xp.float32, copy=False)
        counted = block > 0 if weights is None else (block > 0) & (weights[rows, :] > 0)
        values.append(to_numpy(block[counted][::step]))
        nearest.append(to_numpy(xp.min(xp.where(counted, block, xp.full_like(block, inf)), axis=1)))
    largest = min_and_max(link)[1]
    return combined_floor(np.concatenate(values), np.concatenate(nearest), largest, curvature)
