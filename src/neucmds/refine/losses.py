"""The losses of a pair of objects that `refined` minimises.

Every loss is a sum of squares, Σ u q(D̂)², with u the user's weights:

    squared    q = D̂ − D                the paper's STRESS: far pairs dominate
    distance   q = √D̂ − d              d = √D: what SMACOF minimises
    relative   q = (D̂ − D)/max(D, f²)  near pairs count like far ones; f the floor

In a curved form D is g(d) instead of d², and errors still count in d:

    distance   q = g⁻¹(D̂) − d
    relative   q = 2(D̂ − D)/(e·g′(e)), e = max(d, f): to first order twice the relative error
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, inf, log2
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import (
    BLOCK_ELEMENTS,
    Array,
    is_numpy,
    min_and_max,
    namespace,
    to_numpy,
)
from neucmds.errors import InputError, option
from neucmds.form import CORNER, Form

LOSSES = ("squared", "distance", "relative")

# The floor of d is half of this quantile of the positive d: half, because hops are few whole
# numbers, and the quantile is often the least of them.
FLOOR_QUANTILE = 0.01
EPS = float(np.finfo(np.float64).eps)

# Three arrays of some pairs; None means 1 everywhere:
Terms = tuple[
    Array,  # residuals q
    Array | None,  # slopes q′ = dq/dD̂
    Array | None,  # 1 + q·q″/q′², the second derivative of q²/2 over q′²
]


@dataclass(frozen=True)
class PairLoss:
    """A loss by name, with its floor.

    `sq_floor` is g(f) of the floor f of d: smaller D count as this much. "distance" adds
    `smoothing` to D and to D̂ before it takes roots.
    """

    name: str
    sq_floor: float = 0.0
    smoothing: float = 0.0

    @property
    def degree(self) -> int:
        """The power of D that the loss scales with."""
        if self.name == "relative":
            return 0
        return 1 if self.name == "distance" else 2

    def smoothed(self, least: float) -> PairLoss:
        """Return a loss with fewer local minima, close to the squared one for D far below `least`.

        For "distance" this is the distance smoothing of Groenen, Heiser and Meulman (1999).
        """
        if self.name == "distance":
            return replace(self, smoothing=least)
        return replace(self, sq_floor=max(self.sq_floor, least))

    def floored(
        self, floor: float, form: Form, least: float = 0.0
    ) -> PairLoss:
        """Return the same loss with a floor f of d, or of the least D if that is higher."""
        sq_floor = form.to_sq(np.array([floor**2]))  # g(f) of f²
        return replace(self, sq_floor=max(float(sq_floor[0]), least))

    def of_pairs(self, form: Form, sq: Array) -> Array:
        """Return the part of `terms` that depends on D alone: d of "distance", q′ of "relative"."""
        if self.name == "distance":
            if self.smoothing:
                sq = sq + self.smoothing
            return form.arc(namespace(sq).sqrt(sq))
        return form.relative_slope(_at_least(sq, self.sq_floor))

    def terms(
        self,
        form: Form,
        sq: Array,
        sq_hat: Array,
        *,
        bend: bool = False,
        precomputed: Array | None = None,
    ) -> Terms:
        """Return q, its slope and, with `bend`, how it bends; `sq_hat` is overwritten.

        `sq` and `sq_hat` are D and D̂ on the scale of g(d); `precomputed` is `of_pairs` of D.
        """
        if self.name == "squared":
            sq_hat -= sq
            return sq_hat, None, None
        if precomputed is None:
            precomputed = self.of_pairs(form, sq)
        if self.name == "distance":
            return self._distance_terms(form, sq, sq_hat, bend, precomputed)
        slope = precomputed
        sq_hat -= sq
        sq_hat *= slope
        return sq_hat, slope, None

    def _distance_terms(
        self,
        form: Form,
        sq: Array,
        sq_hat: Array,
        bend: bool,
        distance: Array,
    ) -> Terms:
        xp = namespace(sq)
        if self.smoothing:
            sq = sq + self.smoothing
            sq_hat += self.smoothing
        # below it √ continues as its tangent
        lowest = _at_least(sq, self.sq_floor) * CORNER**2
        clipped = form.away_from_antipodes(xp.maximum(sq_hat, lowest))
        root = xp.sqrt(clipped)
        slope = form.distance_slope(root)
        off = form.arc(root) - distance
        bends = None
        if bend:
            # q″ = −g″ q′³, so 1 + q·q″/q′² = 1 − q·q′·g″; a tangent does not bend.
            bends = 1 - off * slope * form.bend(clipped)
            unclipped = sq_hat == clipped
            bends = xp.where(unclipped, bends, xp.ones_like(root))
        # q = off + slope·(D̂ − clipped)
        sq_hat -= clipped
        sq_hat *= slope
        sq_hat += off
        return sq_hat, slope, bends

    def value(
        self, form: Form, sq: Array, sq_hat: Array, u: Array | None = None
    ) -> float:
        """Return Σ u q² as it is defined, with no corner rounded; `sq_hat` is written over."""
        if self.name == "distance":
            q = form.to_distance(sq_hat) - form.to_distance(sq)
        else:
            q, _, _ = self.terms(form, sq, sq_hat)
        return float(namespace(q).sum(weighted(q * q, u)))


SQUARED = PairLoss("squared")


def weighted(values: Array, weights: Array | None) -> Array:
    """Multiply with weights, if there are any."""
    if weights is None:
        return values
    return weights * values


def _at_least(array: Array, least: float) -> Array:
    """max(array, least), as a new array."""
    if is_numpy(array):
        # Against a row, not a number: half the time.
        return np.maximum(
            array, np.full(array.shape[-1:], least, dtype=array.dtype)
        )
    return namespace(array).clip(array, least, None)


def power_of_four(array: Array) -> float:
    """Return the power of four nearest to the largest entry in size."""
    low, high = min_and_max(array)
    largest = max(abs(low), abs(high))
    if not 0 < largest < inf:
        return 1.0
    return 4.0 ** round(log2(largest) / 2)


def least_positive(sq: Array) -> float:
    """Return the least D above zero."""
    xp = namespace(sq)
    return float(xp.min(xp.where(sq > 0, sq, xp.full_like(sq, inf))))


def check_defined(
    sq_dissimilarity: Array, weights: Array | None, loss: str
) -> None:
    """Raise if a D of positive weight is negative and the loss needs D ≥ 0; D may be a list."""
    xp = namespace(sq_dissimilarity)
    if loss == "squared" or min_and_max(sq_dissimilarity)[0] >= 0:
        return
    counted = sq_dissimilarity
    if weights is not None:
        counted = xp.where(weights > 0, counted, xp.zeros_like(counted))
    copies = counted.ndim  # a matrix has each pair twice, a list once
    count = int(xp.sum(xp.astype(counted < 0, xp.int64))) // copies
    if count:
        raise InputError(
            f"{option('loss', loss)} needs D ≥ 0, and {count} pairs have D < 0, the lowest "
            f"{float(xp.min(counted)):.4g}; use {option('loss', 'squared')}, or leave these pairs "
            "out, in a matrix by weight 0."
        )


def combined_floor(
    form: Form,
    values: npt.NDArray[Any],
    nearest: npt.NDArray[Any],
    largest: float,
) -> float:
    """Return the floor of d: half of its 1 % quantile, or the median of the nearest if it is less.

    The former alone grows with n. Positive `values`, `nearest` (one per object, infinite if it has
    no other) and `largest` are on the scale of g(d); without values the floor is 1.
    """
    if values.size == 0:
        return 1.0
    rank = int(FLOOR_QUANTILE * (values.size - 1))
    quantile = float(np.partition(values, rank)[rank])
    # A nearest pair closer than the rounding of the farthest is noise.
    median = max(
        float(np.median(nearest[np.isfinite(nearest)])), EPS * largest
    )
    both = form.to_distance(np.array([quantile, median]))
    quantile_d, median_d = both.tolist()
    return float(min(quantile_d / 2, median_d))


def floor_of(form: Form, sq: Array, weights: Array | None = None) -> float:
    """Return the floor of d of all pairs of positive weight, as `combined_floor`; `sq` is g(d).

    With many objects only every step-th row is used.
    """
    xp = namespace(sq)
    step = ceil(int(sq.shape[0]) ** 2 / BLOCK_ELEMENTS)
    block = xp.astype(sq[::step, :], xp.float32)
    counted = block > 0
    if weights is not None:
        counted = counted & (weights[::step, :] > 0)
    nearest = xp.min(
        xp.where(counted, block, xp.full_like(block, inf)), axis=1
    )
    largest = min_and_max(sq)[1]
    return combined_floor(
        form, to_numpy(block[counted]), to_numpy(nearest), largest
    )
