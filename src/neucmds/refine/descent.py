"""One descent for every objective: nonlinear conjugate gradients, preconditioned."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import Array, is_numpy, namespace
from neucmds.backend.progress import Callback
from neucmds.form import Form
from neucmds.refine.losses import PairLoss
from neucmds.spectrum.geometry import StressTerms

Floats = npt.NDArray[np.float64]

MAX_ITER = 500
# Share of the loss that WINDOW iterations must gain: this costs at most 0.6 % of STRESS.
TOL = 2e-3
# The same of "distance", which is compared with SMACOF to 0.05 %.
DISTANCE_TOL = 1e-4
WINDOW = 3
# Up to this many objects losses but the squared one are minimised in float64,
FEW_OBJECTS = 600
# to this tolerance.
TOL_OF_FEW = 1e-6
# Largest squared relative gradient that counts as flat: 9e-4 costs 1.1 % of "relative" on streets.
FLAT = 6e-4
# The least one: below it rounding hides any gain.
FLATTEST = math.sqrt(np.finfo(np.float64).eps)
# Share of the loss of D̂ = 0 at which a fit is exact for all purposes.
EXACT = 1e-14
# Where the loss along a line is no quartic, the search ends at this share of the slope it began at.
SLOPE_LEFT = 0.3
MOST_TRIALS = 8
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Limits:
    """When a descent stops, and the function that it calls after every step.

    It stops after `max_iter` iterations, or when three of them gain less than `tol` of the loss and
    the squared relative gradient is no larger. `callback` is called with the iteration, the number
    of iterations at most and the loss. `done`
    iterations came before this descent, of `total` at most in all stages.
    """

    max_iter: int
    tol: float
    callback: Callback | None = None
    done: int = 0
    total: int | None = None

    @classmethod
    def of(
        cls,
        loss: str,
        n: int,
        max_iter: int | None = None,
        tol: float | None = None,
    ) -> Limits:
        """Return the limits of a loss of n objects; None is the default."""
        usual_tol = TOL
        if loss == "distance":
            usual_tol = DISTANCE_TOL
        if loss != "squared" and n <= FEW_OBJECTS:
            usual_tol = TOL_OF_FEW
        if tol is None:
            tol = usual_tol
        return cls(max_iter or MAX_ITER, tol)

    def after(self, iterations: int) -> Limits:
        """Return the remaining limits after some iterations."""
        left = max(0, self.max_iter - iterations)
        return replace(self, max_iter=left, done=self.done + iterations)

    def at_most(self, max_iter: int, tol: float = 0.0) -> Limits:
        """Return the limits of a short descent without callbacks."""
        return Limits(min(max_iter, self.max_iter), max(tol, self.tol))

    def tell(self, iteration: int, objective: Objective) -> None:
        """Call the callback after an iteration."""
        if self.callback is not None:
            total = self.total or self.done + self.max_iter
            self.callback(
                self.done + iteration, total, objective.value * objective.unit
            )


@dataclass(frozen=True)
class Start:
    """Coordinates, and the form that they are of; its signs are NumPy's."""

    coordinates: Array
    form: Form

    @property
    def signs(self) -> Floats:
        """±1.0 of each coordinate."""
        signs: Floats = self.form.signs
        return signs


@dataclass(frozen=True)
class Refined(Start):
    """Centered coordinates at a local minimum of a loss.

    Parameters
    ----------
    loss : PairLoss
        With its floor, squared, in the units of D.
    value : float
        The loss over both orders of every pair, computed in float64.
    history : tuple of floats
        The loss at the start and after every iteration, in the precision of the descent.
    converged : bool
        Whether gain and gradient fell below their tolerances before `max_iter`.
    relative_gradient : float
        √(gᵀM⁻¹g / 2f) with g the gradient, M the preconditioner and f the loss.
    stress_terms : tuple of three floats, optional
        C1, C2, C3 of G = XAXᵀ, where the objective has them.
    gram_rounding : float
        Bound on the error of ‖B − G‖² in these.
    quadratic : array of shape (k,), optional
        xᵀBx of each column, where it is known; columns are then those of `canonical`.
    """

    loss: PairLoss
    value: float
    history: tuple[float, ...]
    converged: bool
    relative_gradient: float
    stress_terms: StressTerms | None = None
    gram_rounding: float = 0.0
    quadratic: Array | None = None


class Objective(Protocol):
    """A loss at some coordinates, with its gradient, step and line search.

    Its value and that at which a fit is exact are in an objective's own units.
    """

    @property
    def coordinates(self) -> Array:
        """The coordinates, in the units of the data."""

    @property
    def form(self) -> Form:
        """Their form, in the units of the data."""

    @property
    def loss(self) -> PairLoss:
        """The loss, with its floor in the units of the data."""

    @property
    def unit(self) -> float:
        """The factor that turns values into the units of the data."""

    @property
    def value(self) -> float:
        """The loss here."""

    @property
    def rounding(self) -> float:
        """The loss at which a fit is exact for all purposes: no descent can see less."""

    @property
    def gradient(self) -> Array:
        """The gradient, centered."""

    @property
    def step(self) -> Array:
        """The gradient, solved with a positive definite stand-in for the Hessian; centered."""

    def minimize_along(self, direction: Array) -> Self | None:
        """Return the objective at the lowest point of the line; None if no point is lower.

        The direction is changed in place later: do not keep it.
        """

    def sharper(self) -> Self | None:
        """Return the same point with a new or more precise preconditioner; None if it has that."""

    def measured(self) -> Self:
        """Return the same point in float64."""


Point = TypeVar("Point", bound=Objective)


def descend(objective: Objective, limits: Limits) -> Refined:
    """Descend by Hestenes–Stiefel directions, restarted whenever one does not point down."""
    current = objective
    history = [current.value]
    at_rest = False
    direction = -current.step
    steepest = True
    while (
        len(history) <= limits.max_iter and current.value > objective.rounding
    ):
        if not dot(current.gradient, direction) < 0:
            direction = -current.step
            steepest = True
        moved = current.minimize_along(direction)
        if moved is None:
            sharper = current.sharper()
            if sharper is None and steepest:
                at_rest = _is_flat(current, limits)
                break
            current = sharper or current
            direction = -current.step
            steepest = True
            continue
        previous = current
        current = moved
        history.append(current.value)
        limits.tell(len(history) - 1, current)
        if _gains_little(history, limits.tol) and _is_flat(current, limits):
            current = current.measured()
            at_rest = _is_flat(current, limits)
            if at_rest:
                break
            direction = -current.step
            steepest = True
            continue
        beta = _hestenes_stiefel(direction, previous, current)
        direction *= beta
        direction -= current.step
        steepest = beta == 0.0
    current = current.measured()
    promised = max(0.0, dot(current.gradient, current.step)) / 2
    level = max(current.value, current.rounding, TINY)
    return Refined(
        coordinates=current.coordinates,
        form=current.form,
        loss=current.loss,
        value=current.value * current.unit,
        history=tuple(value * current.unit for value in history),
        converged=at_rest or current.value <= objective.rounding,
        relative_gradient=math.sqrt(promised / level),
    )


def _gains_little(history: list[float], tol: float) -> bool:
    if len(history) <= WINDOW:
        return False
    before = history[-1 - WINDOW]
    return before - history[-1] <= tol * before


def _is_flat(objective: Objective, limits: Limits) -> bool:
    """Tell whether one more step along −M⁻¹g promises a small share of the loss."""
    share = min(FLAT, max(limits.tol, FLATTEST))
    promised = dot(objective.gradient, objective.step) / 2
    return promised <= share * objective.value + objective.rounding


def _hestenes_stiefel(
    direction: Array, previous: Objective, current: Objective
) -> float:
    """Return the share of the last direction in the next one."""
    change = current.gradient - previous.gradient
    curvature = dot(direction, change)
    if not curvature > 0:
        return 0.0
    return max(0.0, dot(current.step, change) / curvature)


def lowest_point(quartic: Floats) -> float | None:
    """Return the t > 0 where a quartic (constant first) that falls at 0 is lowest."""
    _, c1, c2, c3, c4 = quartic
    if not np.all(np.isfinite(quartic)) or c1 >= 0:
        return None
    # Real parts of complex roots may stay: no point is lower than the lowest stationary one.
    stationary = np.roots([4 * c4, 3 * c3, 2 * c2, c1]).real
    stationary = stationary[stationary > 0]
    if stationary.size == 0:
        return None
    return float(
        stationary[np.argmin(np.polyval([c4, c3, c2, c1, 0.0], stationary))]
    )


def search_by_slopes(
    quartic: Floats, move: Callable[[float], Point], direction: Array
) -> Point | None:
    """Find a point where the slope is 0.3 of that at the start, by cubics; None if none is lower.

    The quartic is to second order that of the loss along the line, and gives the first trial.
    """
    start_value = float(quartic[0])
    start_slope = float(quartic[1])
    if not start_slope < 0:
        return None
    # Where it was, the value and the slope.
    low = (0.0, start_value, start_slope)
    high: tuple[float, float, float] | None = None
    best: Point | None = None
    best_value = start_value
    t = lowest_point(quartic) or 1.0
    for _ in range(MOST_TRIALS):
        trial = move(t)
        slope = dot(trial.gradient, direction)
        if trial.value < best_value:
            best = trial
            best_value = trial.value
            if abs(slope) <= SLOPE_LEFT * abs(start_slope):
                break
        if slope < 0 and trial.value <= low[1]:
            low = (t, trial.value, slope)
        else:
            high = (t, trial.value, slope)
        if high is None:
            t *= 2
        else:
            t = low[0] + _lowest_of_cubic(*low, *high)
    return best


def _lowest_of_cubic(
    low: float,
    low_value: float,
    low_slope: float,
    high: float,
    high_value: float,
    high_slope: float,
) -> float:
    """Return how far from `low` the cubic through two points is lowest, a tenth off either."""
    width = high - low
    mean = low_slope + high_slope - 3 * (high_value - low_value) / width
    inside = mean * mean - low_slope * high_slope
    share = 0.5
    if 0 < inside < math.inf:
        root = math.sqrt(inside)
        bottom = high_slope - low_slope + 2 * root
        if bottom > 0:
            share = 1 - (high_slope + root - mean) / bottom
    return min(max(share, 0.1), 0.9) * width


def dot(left: Array, right: Array) -> float:
    """⟨left, right⟩ of two arrays, by BLAS where it can be: that needs no temporary."""
    if is_numpy(left) and left.flags.c_contiguous and right.flags.c_contiguous:
        return float(np.dot(left.ravel(), right.ravel()))
    xp = namespace(left)
    return float(xp.sum(left * right, dtype=xp.float64))
