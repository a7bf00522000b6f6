"""Losses of pairs as objectives of a descent, whether D is a matrix or a list.

The loss is Σ u q², with weights u and q, q′ = dq/dD̂ of each pair as in `losses`. With x_i the
coordinates of object i and A = Diag(signs), every object has its own preconditioner, the inverse of

    16 Σ_j u q′² A(x_i − x_j)(x_i − x_j)ᵀA  +  4 Σ_j u |q| q′ · I.

The first term is the Gauss–Newton block of the object; the second stands for what Gauss–Newton
drops of the Hessian. Blocks are computed every few iterations.
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

# Iterations after which blocks are computed anew, which takes as long as about three iterations.
RENEWAL = 6
# This share of its mean diagonal is added to a block, so that it is invertible.
RIDGE = eps(np.float32)
# The first of the falling floors of D, relative to the last one.
FIRST_FLOOR = 256.0
# Each floor of D divided by the next.
FLOOR_STEP = 4.0
# Widths of "absolute", in mean relative errors: the last gains 1.1 % on eu-core.
WIDTHS = (2.0, 0.5, 0.1, 0.02)


# Coefficients of the quartic, constant first, that is the loss at x + t·direction, and the function
# from t to the objective there.
Line = tuple[Floats, Callable[[float], "PairObjective"]]


@dataclass(frozen=True, eq=False, kw_only=True)
class SummedLoss(ABC):
    """A loss of pairs as a function of the coordinates.

    `d` is D (squared) divided by `scale`, a power of four, so that rounding does not depend on the
    unit of D; coordinates x are divided by the root of `scale`. `loss` and `form` are on the scale
    of `d`. The sum over pairs times `unit` is the loss in the units of the data. Pairs are computed
    in the type `precision`.
    """

    d: Array
    loss: PairLoss
    form: Form
    scale: float
    unit: float
    precision: Any
    # Where the loss along a line is no quartic, a search ends where at most this share of the slope
    # at its start is left.
    slope_left: float

    @property
    def rounding(self) -> float:
        """The loss at which a fit is exact for all purposes."""
        return EXACT * self.loss_in_one_place

    @property
    @abstractmethod
    def n_points(self) -> int:
        """Number of points."""

    @cached_property
    def loss_in_one_place(self) -> float:
        """The loss where all objects are in one place: without coordinates all D̂ are 0."""
        no_coordinates = empty_like(self.d, (self.n_points, 0))
        return self.signed(np.zeros(0)).true_value(no_coordinates)

    @abstractmethod
    def exact(self) -> Self:
        """Return the same loss with pairs in float64; `d` keeps the values it was rounded to."""

    @abstractmethod
    def at(self, x: Array) -> PairObjective:
        """Return the objective at x, with value and gradient."""

    @abstractmethod
    def line(self, point: PairObjective, direction: Array) -> Line:
        """Return the loss along a direction as a quartic, and the function that moves along it.

        The quartic is the loss where q is linear in D̂; elsewhere both agree to second order.
        """

    @abstractmethod
    def blocks(self, point: PairObjective) -> tuple[Array, Array]:
        """Return Σ_j u q′² (x_i − x_j)(x_i − x_j)ᵀ (n, k, k) of all objects i, and Σ_j u |q| q′.

        The caller may overwrite the first.
        """

    @abstractmethod
    def true_value(self, x: Array) -> float:
        """Return Σ u q² as the loss is defined, with no corner rounded, in the units of `d`."""

    @cached_property
    def signs(self) -> Array:
        """Signs of the coordinates, on the device of D."""
        return asarray_like(
            self.form.signs, self.d, dtype=namespace(self.d).float64
        )

    def signed(self, signs: Floats) -> Self:
        """Return the same loss of coordinates with these signs."""
        if np.array_equal(signs, self.form.signs):
            # A new loss would compute its cached arrays again.
            return self
        return replace(self, form=replace(self.form, signs=signs))

    def gradient_of(self, x: Array, pulled: Array) -> Array:
        """Return the gradient at x, centered.

        `pulled` (n, k + 1) has Σ_j p_ij x_j and, as its last column, Σ_j p_ij, where p = u q q′.
        """
        over_pairs = self.form.gradient(x, pulled[:, :-1], pulled[:, -1:])
        # Twice for the square of q, and twice because x_i is in both orders of its pairs.
        return self.form.centered(4.0 * over_pairs)

    def narrow(self, array: Array) -> Array:
        """Return an array in `precision`; the same array if it is."""
        if array.dtype == self.precision:
            return array
        return namespace(array).astype(array, self.precision, copy=False)

    def each(
        self, work: Callable[[Any], Any], parts: Iterable[Any]
    ) -> list[Any]:
        """Return what `work` returns for each part; NumPy works on several parts at a time."""
        if is_numpy(self.d):
            return parallel_map(work, parts)
        return [work(part) for part in parts]

    def scaled(self, coordinates: Array) -> Array:
        """Turn coordinates in the units of the data into x, in float64 on the device of D."""
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
    """Lower a loss of pairs from a start, whose signs stay; the value is measured in float64."""
    end = descended(summed, start, descent)
    return replace(end, value=summed.value_of(end))


def descended(
    summed: SummedLoss, start: Configuration, descent: Descent
) -> Configuration:
    """Lower a loss of pairs from a start; the value is in the precision of the descent."""
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
    """Lower a loss of pairs to its end.

    "absolute" descends once with each width, in mean relative errors of the best end so far; an end
    that is no lower is dropped.
    """
    largest = min_and_max(summed.d)[1]
    if not summed.loss.is_linear and spans_decades(summed.loss, largest):
        stage = shortened(descent)
        on_floors = lowered(summed, start, stage, largest / FLOOR_STEP)
        # High floors may lose a good start: from them one of 490 hosts ends 7 % higher.
        ends = [
            minimize(summed, start, stage),
            minimize(summed, on_floors, stage),
        ]
        start = min(ends, key=attrgetter("value"))
    if summed.loss.name != "absolute":
        return minimize(summed, start, descent)
    value = summed.value_of(start)
    for width in widths:
        # In one place all relative errors are 1, or less below the floor.
        mean_error = value / (summed.loss_in_one_place * summed.unit)
        loss = replace(summed.loss, width=width * max(mean_error, EXACT))
        end = minimize(replace(summed, loss=loss), start, descent)
        if end.value < value:
            start = end
            value = end.value
    return end


def spans_decades(loss: PairLoss, largest: float) -> bool:
    """Tell whether floors must fall from the largest D.

    They must if errors count as shares of d and some D are `FIRST_FLOOR`³ times below `largest`:
    such near duplicates count like far pairs, and would hold each other in place from the
    beginning.
    """
    return loss.degree == 0 and loss.sq_floor * FIRST_FLOOR**3 < largest


def lowered(
    summed: SummedLoss,
    start: Configuration,
    stage: Descent = briefly,
    highest: float | None = None,
) -> Configuration:
    """Descend by a short descent on each of several falling floors of D; the last is left out.

    `highest` is the first floor. By default it is `FIRST_FLOOR` times the last one for losses that
    count errors as shares of d, and there is no descent for others.
    """
    loss = summed.loss
    sq_floor = highest or 0.0
    if highest is None and loss.degree == 0:
        sq_floor = FIRST_FLOOR * loss.sq_floor
    while sq_floor > loss.sq_floor:
        with_floor = replace(summed, loss=replace(loss, sq_floor=sq_floor))
        start = descended(with_floor, start, stage)
        sq_floor /= FLOOR_STEP
    return start


@dataclass(frozen=True, eq=False)
class PairObjective:
    """A loss of pairs at coordinates x: an objective for `descend`.

    `x`, `value` and `gradient` are in the units of `summed`. Listed pairs keep `residual` and
    `pull`, D̂ − D and u q q′ of each pair; for tiles they are None. `carried` are inverse blocks
    (n, k, k) of the point `age` iterations ago.
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
        """The coordinates x, in the units of the data."""
        units = self.summed.form.root_units(self.summed.scale)
        return self.x * asarray_like(units, self.x)

    @property
    def form(self) -> Form:
        """The form of the coordinates, in the units of the data."""
        return self.summed.form.scaled(1 / self.summed.scale)

    @property
    def loss(self) -> PairLoss:
        """The loss, with `sq_floor` in the units of the data."""
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
        """Whether the next point computes its blocks, and listed pairs their residuals, anew."""
        return self.age + 1 >= RENEWAL

    @cached_property
    def inverses(self) -> Array:
        """Inverse blocks (n, k, k), without the factors 16 and A: of this or an earlier point."""
        if self.carried is not None:
            return self.carried
        return _inverted(*self.summed.blocks(self))

    @cached_property
    def step(self) -> Array:
        """The gradient, solved with every object's block; centered."""
        inverses = self.inverses
        form = self.summed.form
        # The inverse of a block 16 A M A is A M⁻¹ A / 16, with A² = 1 and M⁻¹ in `inverses`.
        turn = asarray_like(form.turn, self.x)
        xp = namespace(self.x)
        right = xp.astype(self.gradient * (turn / 16), inverses.dtype)
        return form.centered((inverses @ right[:, :, None])[:, :, 0] * turn)

    def minimize_along(self, direction: Array) -> PairObjective | None:
        """Return the objective at the lowest point of a line; None if no gain exceeds rounding."""
        quartic, move = self.summed.line(self, direction)
        moved = None
        if self.summed.loss.is_linear:
            t = lowest_point(quartic)
            if t is not None:
                moved = move(t)
        else:
            moved = search_by_slopes(
                quartic, move, direction, self.summed.slope_left
            )
        if moved is None or not moved.value < self.value:
            return None
        if self.is_due_for_renewal:
            return moved
        return replace(moved, carried=self.inverses, age=self.age + 1)

    def sharper(self) -> PairObjective | None:
        """Return the same point with blocks of its own, then in float64; None if it has both."""
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


def _inverted(blocks: Array, pulls: Array) -> Array:
    """Invert the preconditioner's blocks, without the factors 16 and A; `blocks` is overwritten.

    To the Gauss–Newton `blocks` (n, k, k) of all objects are added a quarter of `pulls` (n,), for
    what Gauss–Newton drops, and a ridge.
    """
    xp = namespace(blocks)
    n, k, _ = blocks.shape
    means = xp.sum(xp.linalg.diagonal(blocks), axis=1) / max(1, k)
    added = 0.25 * pulls + RIDGE * (means + xp.mean(means))
    # All are zero where no pair counts.
    added = xp.astype(
        xp.where(added > 0, added, xp.ones_like(added)), blocks.dtype
    )
    identity = asarray_like(np.eye(k), blocks)

    def invert(rows: slice) -> None:
        part = blocks[rows, :, :]  # a view
        part += added[rows][:, None, None] * identity[None, :, :]
        try:
            blocks[rows, :, :] = xp.linalg.inv(part)
        except np.linalg.LinAlgError:
            # Singular to rounding, where D spans 24 decades.
            blocks[rows, :, :] = np.linalg.pinv(part)

    over_rows(invert, n, k * k)
    return blocks


def moments(x: Array) -> Array:
    """Return, in a row for every object, the k(k + 1)/2 products of two coordinates, x and 1."""
    xp = namespace(x)
    first, second = (index_like(i, x) for i in np.triu_indices(x.shape[1]))
    products = xp.take(x, first, axis=1) * xp.take(x, second, axis=1)
    return xp.concat([products, with_ones(x)], axis=1)


def with_ones(x: Array) -> Array:
    """Append a column of ones to x: the last column of W @ with_ones(x) has the row sums of W."""
    xp = namespace(x)
    # ones_like(x[:, :1]) would have no column where x has none.
    ones = xp.ones_like(xp.sum(x, axis=1, keepdims=True))
    return xp.concat([x, ones], axis=1)


def second_moments_about(x: Array, sums: Array) -> Array:
    """Return Σ_j w (x_i − x_j)(x_i − x_j)ᵀ (n, k, k) of all i, from `sums` = Σ_j w `moments`(x_j).

    With W = Σ_j w, s = Σ_j w x_j and P = Σ_j w x_j x_jᵀ it is (W x_i − s) x_iᵀ − x_i sᵀ + P.
    """
    xp = namespace(x)
    n, k = x.shape
    upper = np.triu_indices(k)
    n_products = len(upper[0])
    products = sums[:, :n_products]
    weighted_sum = sums[:, n_products:-1]
    total = sums[:, -1:]
    # Where each entry of a symmetric k × k matrix is among its upper half.
    position = np.empty((k, k), dtype=np.int64)
    position[upper] = np.arange(n_products)
    position.T[upper] = np.arange(n_products)
    entries = index_like(position.ravel(), x)
    # One product of n pairs of k × 2 matrices: half the time of sums of outer products.
    left = xp.stack([total * x - weighted_sum, x], axis=2)
    blocks = left @ xp.stack([x, -weighted_sum], axis=1)
    blocks += xp.reshape(xp.take(products, entries, axis=1), (n, k, k))
    return blocks
