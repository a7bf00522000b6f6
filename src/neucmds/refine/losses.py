"""The losses of a pair of objects that `refined` minimises.

D = g(d) and D̂ are squared dissimilarities, d and d̂ distances; g(d) = d² unless the form is curved.
Every loss is a sum of squares, Σ u q(D̂)², with u the user's weights, e = max(d, f) and f the floor:

    squared    q = D̂ − D         the paper's STRESS: far pairs dominate
    distance   q = d̂ − d         what SMACOF minimises
    relative   q = r = (d̂ − d)/e  near pairs count like far ones
    absolute   q² = |r|           the mean relative error that people report

The root of |r| has a corner at zero, which "absolute" rounds within a width w:
q² = w(s − 1) with s = √(1 + (r/w)²).

"ordinal" is no loss of single pairs: `refine.ordinal` ranks all of them.

Descents by "relative" and "absolute" begin on a loss named "linear", whose q is the tangent of 2r
at D̂ = D. Along a line that loss is a quartic, and few of its minima are poor:

    linear     q = 2(D̂ − D)/(e·g′(e))
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, inf, log2

import numpy as np

from neucmds.backend.arrays import (
    BLOCK_ELEMENTS,
    EPS,
    Array,
    in_place,
    is_numpy,
    min_and_max,
    namespace,
    to_numpy,
)
from neucmds.errors import InputError, option
from neucmds.form import CORNER, Form

LOSSES = ("squared", "distance", "relative", "absolute")
# The losses that count errors as shares of d.
RELATIVE = ("relative", "absolute")

# The floor of d is half of this quantile of the positive d: half, because graph distances are few
# whole numbers, and the quantile is often the least of these.
FLOOR_QUANTILE = 0.01
# Share of D below which d̂ of a relative loss is continued by its tangent.
RELATIVE_CORNER = 0.1

# Three arrays of some pairs; None means 1 everywhere:
Terms = tuple[
    Array,  # residuals q
    Array | None,  # slopes q′ = dq/dD̂
    Array | None,  # 1 + q·q″/q′², the second derivative of q²/2 over q′²
]


@dataclass(frozen=True)
class PairLoss:
    """A loss by name, with its floor.

    `sq_floor` is g(f) of the floor f of d: where d < f, relative losses count errors as shares of
    f, and "distance" rounds the corner of √D̂ as if d were f. It also adds `smoothing` to D and to
    D̂ before it takes roots. `width` is that of "absolute".
    """

    name: str
    sq_floor: float = 0.0
    smoothing: float = 0.0
    width: float = 1.0

    @property
    def degree(self) -> int:
        """The power of D that the loss is proportional to; 0 if it counts errors as shares of d."""
        if self.name == "squared":
            return 2
        return 1 if self.name == "distance" else 0

    @property
    def is_linear(self) -> bool:
        """Whether q is linear in D̂: the loss along a line is a quartic."""
        return self.name in ("squared", "linear")

    @property
    def beginning(self) -> PairLoss:
        """The loss that descents begin on: "linear" if errors count as shares of d, else itself."""
        if self.name in RELATIVE:
            return replace(self, name="linear")
        return self

    def smoothed(self, least: float) -> PairLoss:
        """Return a loss with fewer local minima: like the squared one for D far below `least`.

        For "distance" this is the distance smoothing of Groenen, Heiser and Meulman (1999).
        """
        if self.name == "distance":
            return replace(self, smoothing=least)
        return replace(self, sq_floor=max(self.sq_floor, least))

    def floored(
        self, floor: float, form: Form, least: float = 0.0
    ) -> PairLoss:
        """Return the same loss with a floor of d; `least` is the least `sq_floor` it may have."""
        # `to_sq` takes f² to g(f).
        sq_floor = form.to_sq(np.array([floor**2]))
        return replace(self, sq_floor=max(float(sq_floor[0]), least))

    def of_pairs(self, form: Form, sq: Array) -> Array:
        """Return what `terms` computes of D alone, as a new array: q′ of "linear", d of others."""
        if self.name == "linear":
            return form.relative_slope(_at_least(sq, self.sq_floor))
        if self.smoothing:
            sq = sq + self.smoothing
        # Computed as `_distance_terms` computes d̂, tangents included: where D̂ = D, q is 0.
        clipped, root, slope = self._clipped(form, sq, sq)
        distance = slope  # overwritten, to save an array
        distance *= sq - clipped
        distance += form.arc(root)
        return distance

    def terms(
        self,
        form: Form,
        sq: Array,
        sq_hat: Array,
        *,
        bend: bool = False,
        precomputed: Array | None = None,
    ) -> Terms:
        """Return the `Terms` of some pairs, the third only with `bend`; `sq_hat` is overwritten.

        `sq` and `sq_hat` are D and D̂; `precomputed`, if given, is `of_pairs` of D, and is not
        written into.
        """
        if self.name == "squared":
            sq_hat -= sq
            return sq_hat, None, None
        if precomputed is None:
            precomputed = self.of_pairs(form, sq)
        if self.name == "linear":
            slope = precomputed
            sq_hat -= sq
            sq_hat *= slope
            return sq_hat, slope, None
        terms = self._distance_terms(form, sq, sq_hat, bend, precomputed)
        if self.name == "distance":
            return terms
        q, slope, bends = terms
        inverse = self._inverse_size(form, precomputed)
        q *= inverse
        slope *= inverse
        if self.name == "relative":
            return q, slope, bends
        return self._absolute_terms(q, slope, bends)

    def _inverse_size(self, form: Form, distance: Array) -> Array:
        """Return 1/max(d, f), which makes an error of d a share."""
        floor = form.to_distance(np.array([self.sq_floor]))
        return in_place("reciprocal", _at_least(distance, float(floor[0])))

    def _absolute_terms(
        self, r: Array, slope: Array, bends: Array | None
    ) -> Terms:
        """Return the terms of q² = w(s − 1) where those of r are known."""
        xp = namespace(r)
        s = xp.sqrt(1 + (r / self.width) ** 2)
        root = xp.sqrt(self.width * (1 + s))
        if bends is not None:
            # The second derivative of q²/2 over q′², as d(q²/2)/dr = r/2ws.
            bends = 2 / (1 + s) * (1 / s + s * (bends - 1))
        # dq/dr = √(w(1 + s))/2ws
        return r / root, slope * (root / (2 * self.width * s)), bends

    def _distance_terms(
        self,
        form: Form,
        sq: Array,
        sq_hat: Array,
        bend: bool,
        distance: Array,
    ) -> Terms:
        """Return the terms of q = d̂ − d, where d is known; `sq_hat` becomes q."""
        xp = namespace(sq)
        if self.smoothing:
            sq = sq + self.smoothing
            sq_hat += self.smoothing
        clipped, root, slope = self._clipped(form, sq, sq_hat)
        clipped_q = form.arc(root) - distance
        bends = None
        if bend:
            # q″ = −g″ q′³, so 1 + q·q″/q′² = 1 − q·q′·g″; on a tangent q″ = 0.
            bends = clipped_q * slope
            bends *= -form.bend(clipped)
            bends *= xp.astype(sq_hat == clipped, bends.dtype)
            bends += 1
        # q = clipped_q + slope·(D̂ − clipped)
        sq_hat -= clipped
        sq_hat *= slope
        sq_hat += clipped_q
        return sq_hat, slope, bends

    def _clipped(
        self, form: Form, sq: Array, sq_hat: Array
    ) -> tuple[Array, Array, Array]:
        """Return D̂ clipped to where d̂ is used as it is, the root of that, and dd̂/dD̂ there.

        Below a share of D, and near antipodes on a sphere, d̂ continues as its tangent.
        """
        xp = namespace(sq)
        corner = RELATIVE_CORNER
        if self.name == "distance":
            corner = CORNER**2
        lowest = _at_least(sq, self.sq_floor)
        lowest *= corner
        clipped = form.away_from_antipodes(xp.maximum(sq_hat, lowest))
        root = xp.sqrt(clipped)
        return clipped, root, form.distance_slope(root)

    def value(
        self, form: Form, sq: Array, sq_hat: Array, u: Array | None = None
    ) -> float:
        """Return Σ u q² as it is defined, with no corner rounded; `sq_hat` is overwritten."""
        xp = namespace(sq)
        if self.is_linear:
            error, _, _ = self.terms(form, sq, sq_hat)
        else:
            distance = form.to_distance(sq)
            error = form.to_distance(sq_hat) - distance
            if self.name in RELATIVE:
                error *= self._inverse_size(form, distance)
        if self.name == "absolute":
            sq_q = xp.abs(error)
        else:
            sq_q = error * error
        return float(xp.sum(weighted(sq_q, u)))


SQUARED = PairLoss("squared")


def weighted(values: Array, weights: Array | None) -> Array:
    """Return values times weights, or `values` itself if there are no weights."""
    if weights is None:
        return values
    return weights * values


def _at_least(array: Array, least: float) -> Array:
    """Return max(array, least), as a new array."""
    if is_numpy(array):
        # `np.maximum` with a row takes half the time of one with a number.
        return np.maximum(
            array, np.full(array.shape[-1:], least, dtype=array.dtype)
        )
    return namespace(array).clip(array, least, None)


def power_of_four(array: Array) -> float:
    """Return the power of four nearest to the largest |entry|; 1 if that is zero or infinite."""
    low, high = min_and_max(array)
    largest = max(abs(low), abs(high))
    if not 0 < largest < inf:
        return 1.0
    return 4.0 ** round(log2(largest) / 2)


def least_positive(sq: Array) -> float:
    """Return the least D above zero; infinity if there is none."""
    xp = namespace(sq)
    return float(xp.min(xp.where(sq > 0, sq, inf)))


def check_defined(
    sq_dissimilarity: Array,
    weights: Array | None,
    loss: str,
    *,
    symmetric: bool = False,
) -> None:
    """Raise if a D of positive weight is negative and the loss needs D ≥ 0.

    D is a matrix, which has each pair twice if it is `symmetric`, or the vector of listed pairs.
    """
    xp = namespace(sq_dissimilarity)
    if loss == "squared" or min_and_max(sq_dissimilarity)[0] >= 0:
        return
    counted = sq_dissimilarity
    if weights is not None:
        counted = xp.where(weights > 0, counted, 0.0)
    count = int(xp.sum(xp.astype(counted < 0, xp.int64)))
    if symmetric:
        count //= 2
    if count:
        raise InputError(
            f"{option('loss', loss)} needs D ≥ 0; number of pairs with D < 0: {count}, the lowest "
            f"{float(xp.min(counted)):.4g}; use {option('loss', 'squared')}, or leave these pairs "
            "out, in a matrix by weight 0."
        )


def combined_floor(
    form: Form,
    values: Array,
    nearest: Array,
    largest: float,
) -> float:
    """Return the floor of d: half its 1 % quantile, or the median of the nearest if that is less.

    With more objects nearest ones get nearer, and the quantile does not: it alone would be above
    most of them. `values` (positive D of any pairs), `nearest` (the least D of each object,
    infinite if it has no pair) and `largest` are on the scale of g(d). Without values the floor
    is 1.
    """
    if values.size == 0:
        return 1.0
    rank = int(FLOOR_QUANTILE * (values.size - 1))
    quantile = float(np.partition(values, rank)[rank])
    # A nearest pair closer than the rounding of the farthest is noise.
    median = max(
        float(np.median(nearest[np.isfinite(nearest)])), EPS * largest
    )
    distances = form.to_distance(np.array([quantile, median]))
    quantile_d, median_d = distances.tolist()
    return float(min(quantile_d / 2, median_d))


def floor_of(form: Form, sq: Array, weights: Array | None = None) -> float:
    """Return `combined_floor` of a matrix D = g(d), of its pairs of positive weight.

    Of many objects only some rows, evenly spaced, are used.
    """
    xp = namespace(sq)
    step = ceil(sq.shape[0] ** 2 / BLOCK_ELEMENTS)
    block = xp.astype(sq[::step, :], xp.float32)
    counted = block > 0
    if weights is not None:
        counted = counted & (weights[::step, :] > 0)
    nearest = xp.min(xp.where(counted, block, inf), axis=1)
    largest = min_and_max(sq)[1]
    return combined_floor(
        form, to_numpy(block[counted]), to_numpy(nearest), largest
    )
