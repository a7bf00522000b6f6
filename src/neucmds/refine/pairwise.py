"""Losses of pairs as objectives of a descent, whether D is a matrix or a list.

Every object has its own preconditioner, its Gauss–Newton block

    16 Σ_j u q′² A(x_i − x_j)(x_i − x_j)ᵀA  +  4 Σ_j u |q| q′ · I,

renewed every few iterations; the second term stands for what Gauss–Newton drops of the Hessian.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, Self

import numpy as np

from neucmds.backend.arrays import (
    Array,
    Floats,
    asarray_like,
    empty_like,
    eps,
    index_like,
    is_numpy,
    min_and_max,
    namespace,
)
from neucmds.backend.threads import over_rows, parallel_map, pool_for
from neucmds.form import Form
from neucmds.refine.descent import (
    EXACT,
    Configuration,
    Descent,
    briefly,
    descend,
    lowest_point,
    search_by_slopes,
    shortened,
)
from neucmds.refine.losses import PairLoss

# Iterations after which blocks are renewed; a renewal costs about three.
RENEWAL = 6
# Keeps the block of an object without near partners invertible.
RIDGE = eps(np.float32)
# The first of the falling floors of D, relative to the last one.
FIRST_FLOOR = 256.0
# Ratio of two floors of D that follow each other.
FLOOR_STEP = 4.0
# Widths of "absolute", in mean errors: the last gains 1.1 % on eu-core.
WIDTHS = (2.0, 0.5, 0.1, 0.02)


# A loss along a line, as a quartic, and the function that moves along it.
Line = tuple[Floats, Callable[[float], "PairObjective"]]


@dataclass(frozen=True, eq=False, kw_only=True)
class SummedLoss(ABC):
    """A loss of pairs as a function of the coordinates.

    `d` is D divided by `scale`, a power of four, so that rounding does not depend on the unit of D;
    coordinates x are divided by its root. `loss` and `form` are those of this d; times `unit`, the
    loss is in the units of the data. Pairs are computed in the type `precision`.
    """

    d: Array
    loss: PairLoss
    form: Form
    scale: float
    unit: float
    precision: Any
    # Where the loss along a line is no quartic, a search ends at this share of its first slope.
    slope_left: float

    @property
    def rounding(self) -> float:
        """The loss at which a fit is exact for all purposes."""
        return EXACT * self.size

    @property
    @abstractmethod
    def n_points(self) -> int:
        """Number of points."""

    @cached_property
    def size(self) -> float:
        """The loss of all objects in one place: what makes a loss a share."""
        nowhere = empty_like(self.d, (self.n_points, 0))
        return self.signed(np.zeros(0)).true_value(nowhere)

    @abstractmethod
    def exact(self) -> Self:
        """Return the same loss in float64; D itself stays as it was rounded."""

    @abstractmethod
    def at(self, x: Array) -> PairObjective:
        """Return the objective at x, with value and gradient."""

    @abstractmethod
    def line(self, point: PairObjective, direction: Array) -> Line:
        """Return the loss along a direction as a quartic, and the function that moves along it.

        The quartic is exact where q is linear in D̂, elsewhere to second order.
        """

    @abstractmethod
    def blocks(self, point: PairObjective) -> tuple[Array, Array]:
        """Return Σ_j u q′² (x_i − x_j)(x_i − x_j)ᵀ of every object i, and Σ_j u |q| q′."""

    @abstractmethod
    def true_value(self, x: Array) -> float:
        """Return Σ u q² with no corner rounded."""

    @cached_property
    def signs(self) -> Array:
        """Signs of the coordinates, on the device of D."""
        return asarray_like(
            self.form.signs, self.d, dtype=namespace(self.d).float64
        )

    def signed(self, signs: Floats) -> Self:
        """Return the same loss of coordinates with these signs."""
        if np.array_equal(signs, self.form.signs):
            # With what it has computed of D alone.
            return self
        return replace(self, form=replace(self.form, signs=signs))

    def gradient_of(self, x: Array, pulled: Array) -> Array:
        """Return the gradient where Σ_j of pulls times x_j, and the Σ_j of pulls, are known."""
        of_pairs = self.form.gradient(x, pulled[:, :-1], pulled[:, -1:])
        return self.form.centered(4.0 * of_pairs)

    def narrow(self, array: Array) -> Array:
        """Return an array in the precision of pairs."""
        if array.dtype == self.precision:
            return array
        return namespace(array).astype(array, self.precision, copy=False)

    def each(
        self, work: Callable[[Any], Any], parts: Iterable[Any]
    ) -> list[Any]:
        """Return the work on every part; NumPy's on all threads."""
        if is_numpy(self.d):
            return parallel_map(work, parts)
        return [work(part) for part in parts]

    def scaled(self, coordinates: Array) -> Array:
        """Return x of coordinates in the units of the data."""
        x = asarray_like(coordinates, self.d, dtype=namespace(self.d).float64)
        return x / asarray_like(self.form.root_units(self.scale), x)

    def value_of(self, start: Configuration) -> float:
        """Return the loss of coordinates, both in the units of the data, computed in float64."""
        signed = self.signed(start.signs)
        exact = signed.exact()
        return exact.true_value(exact.scaled(start.coordinates)) * self.unit


def minimize(
    summed: SummedLoss, start: Configuration, descent: Descent = descend
) -> Configuration:
    """Lower a loss of pairs over coordinates; the signs of the start do not change."""
    end = descended(summed, start, descent)
    return replace(end, value=summed.value_of(end))


def descended(
    summed: SummedLoss, start: Configuration, descent: Descent
) -> Configuration:
    """Lower a loss of pairs; the value is that of the descent, not measured in float64."""
    signed = summed.signed(start.signs)
    x = signed.form.centered(signed.scaled(start.coordinates))
    with pool_for(summed.d):
        return descent(signed.at(x))


def finish(
    summed: SummedLoss,
    start: Configuration,
    descent: Descent = descend,
    widths: tuple[float, ...] = WIDTHS,
) -> Configuration:
    """Lower a loss of pairs to its end: "absolute" on widths that shrink with the mean error.

    Of these descents, all but the last are dropped where they end higher than they began.
    """
    largest = min_and_max(summed.d)[1]
    if not summed.loss.is_linear and spans_decades(summed.loss, largest):
        stage = shortened(descent)
        other = lowered(summed, start, stage, largest / FLOOR_STEP)
        # High floors may leave a good start: that of 490 hosts ends 7 % higher by them.
        ends = [minimize(summed, one, stage) for one in (start, other)]
        start = min(ends, key=attrgetter("value"))
    if summed.loss.name != "absolute":
        return minimize(summed, start, descent)
    value = summed.value_of(start)
    for width in widths:
        error = value / (summed.size * summed.unit)
        loss = replace(summed.loss, width=width * max(error, EXACT))
        end = minimize(replace(summed, loss=loss), start, descent)
        if end.value < value:
            start = end
            value = end.value
    return end


def spans_decades(loss: PairLoss, largest: float) -> bool:
    """Tell whether near-duplicates count: they hold each other in place, so floors must fall."""
    return loss.degree == 0 and loss.sq_floor * FIRST_FLOOR**3 < largest


def lowered(
    summed: SummedLoss,
    start: Configuration,
    stage: Descent = briefly,
    first: float | None = None,
) -> Configuration:
    """Descend on falling floors, all but the last, a short descent on each.

    `first` is the highest floor; by default, and only for shares of d, 16 times the last one of d.
    """
    loss = summed.loss
    floor = first or 0.0
    if first is None and loss.degree == 0:
        floor = FIRST_FLOOR * loss.sq_floor
    while floor > loss.sq_floor:
        higher = replace(summed, loss=replace(loss, sq_floor=floor))
        start = descended(higher, start, stage)
        floor /= FLOOR_STEP
    return start


@dataclass(frozen=True, eq=False)
class PairObjective:
    """A loss of pairs at coordinates x: an objective for `descend`.

    `residual` and `pull`, of listed pairs, are D̂ − D and u q q′ of each; `carried` are inverse
    blocks (n, k, k) of a point `age` iterations ago.
    """

    summed: SummedLoss
    x: Array
    value: float
    gradient: Array
    residual: Array = None
    pull: Array = None
    carried: Array | None = None
    age: int = 0

    @property
    def coordinates(self) -> Array:
        """The coordinates, in the units of the data."""
        units = self.summed.form.root_units(self.summed.scale)
        return self.x * asarray_like(units, self.x)

    @property
    def form(self) -> Form:
        """Their form, in the units of the data."""
        return self.summed.form.scaled(1 / self.summed.scale)

    @property
    def loss(self) -> PairLoss:
        """The loss, with its floor in the units of the data."""
        loss = self.summed.loss
        return replace(loss, sq_floor=loss.sq_floor * self.summed.scale)

    @property
    def unit(self) -> float:
        """The factor that turns values into the units of the data."""
        return self.summed.unit

    @property
    def rounding(self) -> float:
        """The loss at which a fit is exact for all purposes."""
        return self.summed.rounding

    @property
    def is_due_for_renewal(self) -> bool:
        """Whether the next point has new blocks."""
        return self.age + 1 >= RENEWAL

    @cached_property
    def inverses(self) -> Array:
        """Inverse blocks of this point, or of an earlier one."""
        if self.carried is not None:
            return self.carried
        return _inverted(*self.summed.blocks(self))

    @cached_property
    def step(self) -> Array:
        """The gradient, solved with every object's block; centered."""
        inverses = self.inverses
        form = self.summed.form
        turn = asarray_like(form.turn, self.x)
        xp = namespace(self.x)
        right = xp.astype(self.gradient * (turn / 16), inverses.dtype)
        return form.centered((inverses @ right[:, :, None])[:, :, 0] * turn)

    def minimize_along(self, direction: Array) -> PairObjective | None:
        """Move to the lowest point of a line; None if rounding hides a gain."""
        quartic, move = self.summed.line(self, direction)
        if not self.summed.loss.is_linear:
            moved = search_by_slopes(
                quartic, move, direction, self.summed.slope_left
            )
        else:
            t = lowest_point(quartic)
            if t is None:
                return None
            moved = move(t)
        if moved is None or not moved.value < self.value:
            return None
        if self.is_due_for_renewal:
            return moved
        return replace(moved, carried=self.inverses, age=self.age + 1)

    def sharper(self) -> PairObjective | None:
        """Return the same point with new blocks, or else in float64; None if it has both."""
        if self.age:
            return replace(self, carried=None, age=0)
        exact = self.summed.exact()
        if exact is self.summed:
            return None
        return exact.at(self.x)

    def measured(self) -> PairObjective:
        """Return the same point in float64."""
        exact = self.summed.exact()
        if exact is self.summed:
            return self
        return replace(exact.at(self.x), carried=self.inverses, age=self.age)


def _inverted(blocks: Array, pull: Array) -> Array:
    """Add to every block what Gauss–Newton drops, and a ridge; invert it in place."""
    xp = namespace(blocks)
    n, k, _ = blocks.shape
    mean = xp.sum(xp.linalg.diagonal(blocks), axis=1) / max(1, k)
    ridge = 0.25 * pull + RIDGE * (mean + xp.mean(mean))
    ridge = xp.astype(
        xp.where(ridge > 0, ridge, xp.ones_like(ridge)), blocks.dtype
    )
    unit = asarray_like(np.eye(k), blocks)

    def invert(rows: slice) -> None:
        part = blocks[rows, :, :]
        part += ridge[rows][:, None, None] * unit[None, :, :]
        try:
            blocks[rows, :, :] = xp.linalg.inv(part)
        except np.linalg.LinAlgError:
            # Singular to rounding, where D spans 24 decades.
            blocks[rows, :, :] = np.linalg.pinv(part)

    over_rows(invert, n, k * k)
    return blocks


def moments(x: Array) -> Array:
    """Products of any two coordinates of every object, its coordinates, and one."""
    xp = namespace(x)
    above, below = (index_like(i, x) for i in np.triu_indices(x.shape[1]))
    outer = xp.take(x, above, axis=1) * xp.take(x, below, axis=1)
    return xp.concat([outer, with_ones(x)], axis=1)


def with_ones(x: Array) -> Array:
    """Add a column of ones, also to no columns: a product then has the sums of rows as its last."""
    xp = namespace(x)
    ones = xp.ones_like(xp.sum(x, axis=1, keepdims=True))
    return xp.concat([x, ones], axis=1)


def second_moments_about(x: Array, sums: Array) -> Array:
    """Σ_j w (x_i − x_j)(x_i − x_j)ᵀ of every object i, from Σ_j w of the `moments` of x_j."""
    xp = namespace(x)
    n, k = x.shape
    upper = np.triu_indices(k)
    size = len(upper[0])
    products = sums[:, :size]
    means = sums[:, size:-1]
    total = sums[:, -1:]
    full = np.empty((k, k), dtype=np.int64)
    full[upper] = full.T[upper] = np.arange(size)
    entries = index_like(full.ravel(), x)
    # One product of n pairs of k × 2 matrices: half the time of sums of outer products.
    left = xp.stack([total * x - means, x], axis=2)
    blocks = left @ xp.stack([x, -means], axis=1)
    blocks += xp.reshape(xp.take(products, entries, axis=1), (n, k, k))
    return blocks
