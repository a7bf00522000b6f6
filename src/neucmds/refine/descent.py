"""One descent for every objective: nonlinear conjugate gradients, preconditioned."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import Array, is_numpy, namespace
from neucmds.errors import InputError, option
from neucmds.refine.losses import LOSSES, PairLoss
from neucmds.spectrum.geometry import Orthogonal, StressTerms

Floats = npt.NDArray[np.float64]
Callback = Callable[[int, float], Any]
# Called with coordinates and signs from which a descent can resume.
Keep = Callable[[Array, npt.NDArray[Any]], None]

MAX_ITER = {"squared": 200, "distance": 500, "relative": 500}
# Share of the loss that WINDOW iterations must gain: 2e-3 costs at most 0.6 % of STRESS. "distance"
# is compared with SMACOF to 0.05 %, so its tolerance is lower.
TOL = {"squared": 2e-3, "distance": 1e-4, "relative": 2e-3}
FEW_OBJECTS, TOL_OF_FEW = 600, 1e-6
WINDOW = 3
# Largest and least squared relative gradient that counts as flat: 9e-4 costs 1.1 % of "relative" on
# streets, and below 1e-8 rounding hides any gain.
FLAT, FLATTEST = 6e-4, 1e-8
# Share of the loss of D̂ = 0 at which a fit is exact for all purposes.
EXACT = 1e-14
# Where the loss along a line is no quartic, the search ends at this share of the slope it began at.
SLOPE_LEFT = 0.3
MOST_TRIALS = 8
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Limits:
    """When a descent stops, and the functions that it calls after every step.

    It stops after `max_iter` iterations, or when three of them gain less than `tol` of the loss and
    the squared relative gradient is no larger. `callback` is called with the iteration and the
    loss, `keep` with the coordinates and their signs.
    """

    max_iter: int
    tol: float
    callback: Callback | None = None
    keep: Keep | None = None

    @classmethod
    def of(cls, loss: str, n: int, max_iter: int | None = None, tol: float | None = None) -> Limits:
        """Return the limits of a loss of n objects; None is the default."""
        if loss not in LOSSES:
            known = ", ".join(LOSSES)
            raise InputError(f"{option('loss', loss)} is unknown; choose one of {known}.")
        if max_iter is not None:
            check_count(max_iter=max_iter)
        if tol is not None and (not isinstance(tol, (int, float)) or not 0 <= tol < 1):
            raise InputError(f"{option('tol', tol)} must be a number from 0 to 1.")
        if tol is None:
            tol = TOL_OF_FEW if loss != "squared" and n <= FEW_OBJECTS else TOL[loss]
        return cls(MAX_ITER[loss] if max_iter is None else max_iter, tol)

    def after(self, iterations: int) -> Limits:
        """Return the remaining limits after some iterations; the callback counts these as well."""
        left, callback = replace(self, max_iter=self.max_iter - iterations), self.callback
        if callback is None:
            return left
        return replace(left, callback=lambda step, value: callback(step + iterations, value))

    def at_most(self, max_iter: int) -> Limits:
        """Return the limits of a short descent without callbacks."""
        return Limits(min(max_iter, self.max_iter), self.tol)


def check_count(**counts: Any) -> None:
    """Raise unless every count is a whole number of at least 1."""
    for name, count in counts.items():
        whole = isinstance(count, (int, np.integer)) and not isinstance(count, bool)
        if not whole or count < 1:
            raise InputError(f"{option(name, count)} must be a whole number of at least 1.")


@dataclass(frozen=True)
class Start:
    """Coordinates and the sign of each."""

    coordinates: Array
    signs: Floats

    @property
    def signature(self) -> tuple[int, int]:
        """Numbers of positive and negative coordinates."""
        negative = int(np.signbit(self.signs).sum())
        return self.signs.size - negative, negative


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
    orthogonal : Orthogonal, optional
        The same place, where its product with B is known.
    """

    loss: PairLoss
    value: float
    history: tuple[float, ...]
    converged: bool
    relative_gradient: float
    stress_terms: StressTerms | None = None
    gram_rounding: float = 0.0
    orthogonal: Orthogonal | None = None


class Objective(Protocol):
    """A loss at some coordinates, with its gradient, step and line search."""

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
        """Return the same place with a new or more precise preconditioner; None if it has that."""

    def measured(self) -> Self:
        """Return the same place in float64."""


class Line(Protocol):
    """The loss along a direction from where an objective is."""

    @property
    def quartic(self) -> Floats:
        """Its coefficients, constant first; to second order where the loss is no quartic."""

    def at(self, t: float) -> tuple[float, float]:
        """Return loss and slope at t."""


State = TypeVar("State", bound=Objective)


@dataclass(frozen=True)
class Descent(Generic[State]):
    """The last state of a descent, its values, and the relative gradient."""

    state: State
    history: tuple[float, ...]
    converged: bool
    relative_gradient: float


def descend(
    state: State, limits: Limits, on_step: Callable[[State], Any] | None = None
) -> Descent[State]:
    """Descend by Hestenes–Stiefel directions, restarted whenever one does not point down."""
    here, history = state, [state.value]
    direction, steepest, at_rest = -state.step, True, False
    while len(history) <= limits.max_iter and here.value > state.rounding:
        if not dot(here.gradient, direction) < 0:
            direction, steepest = -here.step, True
        moved = here.minimize_along(direction)
        if moved is None:
            sharper = here.sharper()
            if sharper is None and steepest:
                at_rest = _is_flat(here, limits)
                break
            here = here if sharper is None else sharper
            direction, steepest = -here.step, True
            continue
        previous, here = here, moved
        history.append(here.value)
        if limits.callback is not None:
            limits.callback(len(history) - 1, here.value)
        if on_step is not None:
            on_step(here)
        before = history[-1 - WINDOW] if len(history) > WINDOW else None
        little = before is not None and before - here.value <= limits.tol * before
        if little and _is_flat(here, limits):
            here = here.measured()
            at_rest = _is_flat(here, limits)
            if at_rest:
                break
            direction, steepest = -here.step, True
            continue
        direction, steepest = _turned(direction, previous, here)
    here = here.measured()
    promised = max(0.0, dot(here.gradient, here.step)) / 2
    rest = math.sqrt(promised / max(here.value, here.rounding, _TINY))
    return Descent(here, tuple(history), at_rest or here.value <= state.rounding, rest)


def _is_flat(here: Objective, limits: Limits) -> bool:
    """Tell whether one more step along −M⁻¹g promises a small share of the loss."""
    flat = min(FLAT, max(limits.tol, FLATTEST))
    return dot(here.gradient, here.step) / 2 <= flat * here.value + here.rounding


def _turned(direction: Array, previous: Objective, here: Objective) -> tuple[Array, bool]:
    """Return the Hestenes–Stiefel direction, over the last one, and whether it is the steepest."""
    change = here.gradient - previous.gradient
    curvature = dot(direction, change)
    beta = max(0.0, dot(here.step, change) / curvature) if curvature > 0 else 0.0
    direction *= beta
    direction -= here.step
    return direction, beta == 0.0


def lowest_point(quartic: Floats) -> float | None:
    """Return the t > 0 where a quartic (constant first) that falls at 0 is lowest."""
    c = quartic
    if not np.all(np.isfinite(c)) or c[1] >= 0:
        return None
    # Real parts of complex roots may stay: no place is lower than the lowest stationary one.
    places = np.roots([4 * c[4], 3 * c[3], 2 * c[2], c[1]]).real
    places = places[places > 0]
    if places.size == 0:
        return None
    return float(places[np.argmin(np.polyval([c[4], c[3], c[2], c[1], 0.0], places))])


@dataclass(frozen=True)
class _Seen:
    """Loss and slope somewhere on a line."""

    t: float
    value: float
    slope: float


def search_by_slopes(line: Line) -> float | None:
    """Find where the slope is 0.3 of its start, by cubics; the quartic gives the first point."""
    start = low = _Seen(0.0, float(line.quartic[0]), float(line.quartic[1]))
    if not start.slope < 0:
        return None
    t, high, best = lowest_point(line.quartic) or 1.0, None, start
    for _ in range(MOST_TRIALS):
        seen = _Seen(t, *line.at(t))
        if seen.value < best.value:
            best = seen
            if abs(seen.slope) <= SLOPE_LEFT * abs(start.slope):
                break
        if seen.slope < 0 and seen.value <= low.value:
            low = seen
        else:
            high = seen
        t = 2 * t if high is None else _lowest_of_cubic(low, high)
    return None if best is start else best.t


def _lowest_of_cubic(low: _Seen, high: _Seen) -> float:
    """Return the minimum of the cubic through two points, at least a tenth away from either."""
    width = high.t - low.t
    mean = low.slope + high.slope - 3 * (high.value - low.value) / width
    inside = mean * mean - low.slope * high.slope  # `**` of floats raises where this is infinite
    t = low.t + 0.5 * width
    if inside > 0 and np.isfinite(inside):
        root = math.sqrt(inside)
        bottom = high.slope - low.slope + 2 * root
        if bottom > 0:
            t = high.t - width * (high.slope + root - mean) / bottom
    return min(max(t, low.t + 0.1 * width), high.t - 0.1 * width)


def dot(left: Array, right: Array) -> float:
    """⟨left, right⟩ of two arrays, by BLAS where it can be: that needs no temporary."""
    if is_numpy(left) and left.flags.c_contiguous and right.flags.c_contiguous:
        return float(np.dot(left.ravel(), right.ravel()))
    xp = namespace(left)
    return float(xp.sum(left * right, dtype=xp.float64))
