"""One descent for every objective: nonlinear conjugate gradients, preconditioned."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Protocol, Self, TypeVar

import numpy as np
from scipy.optimize import line_search

from neucmds.backend.arrays import (
    EPS,
    TINY,
    Array,
    Floats,
    eps,
    is_numpy,
    namespace,
)
from neucmds.backend.progress import Callback
from neucmds.form import Form
from neucmds.problem.names import Labels
from neucmds.refine.losses import SQUARED, PairLoss

# `descend`, perhaps with some of its arguments given.
Descent = Callable[..., "Configuration"]

MAX_ITER = 500
# The same of a squared fit that only starts another fit: five of 36 such fits of 500 rows reach it.
START_ITERATIONS = 200
# A descent goes on while WINDOW iterations gain more than this share of the loss.
TOL = 2e-3
# The same of "distance", which is compared with SMACOF to 0.05 %, and of "absolute".
DISTANCE_TOL = 1e-4
# The same of all pairs in both directions: with 64 numbers per node recall@10 is .983, and .979
# with TOL, for 1.2 times the time.
DIRECTED_TOL = 3e-4
WINDOW = 3
# Most iterations and the tolerance of short descents: stages that end at 2e-3 lead to minima 1 and
# 3 % higher.
STAGE_ITERATIONS = 40
STAGE_TOL = 1e-3
# Up to this many objects losses but the squared one are minimised in float64.
FEW_OBJECTS = 600
# The tolerance of all losses of that few objects.
TOL_OF_FEW = 1e-6
# Largest squared relative gradient that counts as flat: 9e-4 costs 1.1 % of "relative" on streets.
FLAT = 6e-4
# The least bound that replaces it where `tol` is less: below, rounding hides any gain.
FLATTEST = math.sqrt(EPS)
# Share of the loss of D̂ = 0 at which a fit is exact for all purposes.
EXACT = 1e-14


@dataclass(frozen=True)
class Configuration:
    """Coordinates and their form: where a descent starts, or ends.

    Parameters
    ----------
    coordinates : array of shape (n, k)
        Centered where a descent has ended.
    form : Form
        Its signs are NumPy's.
    loss : PairLoss
        Its `sq_floor` is in the units of D.
    value : float
        The loss over both orders of every pair, computed in float64.
    history : tuple of floats
        The loss at the start and after every iteration, in the precision of the descent.
    converged : bool
        Whether gain and gradient fell below their tolerances before `max_iter`.
    relative_gradient : float
        √(gᵀM⁻¹g / 2f) with g the gradient, M the preconditioner and f the loss.
    quadratic : array of shape (k,), optional
        xᵀBx of each column x, of a fit by `products`; its columns are as `canonical` leaves them.
    labels : tuple of str or None
        Names of the objects of a user's start.
    """

    coordinates: Array
    form: Form
    loss: PairLoss = SQUARED
    value: float = math.nan
    history: tuple[float, ...] = ()
    converged: bool = False
    relative_gradient: float = math.nan
    quadratic: Array | None = None
    labels: Labels = None

    @property
    def signs(self) -> Floats:
        """±1.0 of each coordinate."""
        signs: Floats = self.form.signs
        return signs


class Objective(Protocol):
    """A loss at some coordinates, with its gradient, step and line search.

    `value`, `rounding`, `gradient` and `step` are in units of the objective's own.
    """

    @property
    def coordinates(self) -> Array:
        """The coordinates, in the units of the data."""

    @property
    def form(self) -> Form:
        """The form of the coordinates, in the units of the data."""

    @property
    def loss(self) -> PairLoss:
        """The loss, with `sq_floor` in the units of the data."""

    @property
    def unit(self) -> float:
        """The factor that turns values into the units of the data."""

    @property
    def value(self) -> float:
        """The loss at these coordinates."""

    @property
    def rounding(self) -> float:
        """The value at which a fit is exact for all purposes: rounding hides anything less."""

    @property
    def gradient(self) -> Array:
        """The gradient, centered."""

    @property
    def step(self) -> Array:
        """The gradient, solved with a positive definite stand-in for the Hessian; centered."""

    def minimize_along(self, direction: Array) -> Self | None:
        """Return the objective at the lowest point of the line; None if no point is lower.

        `descend` overwrites the direction afterwards, so the objective must not keep it.
        """

    def sharper(self) -> Self | None:
        """Return the same point with a newer preconditioner or in float64; None if it has both."""

    def measured(self) -> Self:
        """Return the same point in float64."""


Point = TypeVar("Point", bound=Objective)


def usual_tol(loss: str, n: int) -> float:
    """Return the tolerance of a loss of n objects."""
    if n <= FEW_OBJECTS:
        return TOL_OF_FEW
    if loss in ("distance", "absolute"):
        return DISTANCE_TOL
    return TOL


def descend(
    objective: Objective,
    *,
    max_iter: int = MAX_ITER,
    tol: float | None = None,
    callback: Callback | None = None,
    measured: bool = True,
) -> Configuration:
    """Descend by Hestenes–Stiefel directions, restarted whenever one does not point down.

    It stops after `max_iter` iterations, or when `WINDOW` of them gain less than `tol` of the loss,
    or no point along −step is lower, and the gradient promises as little (`_promises_little`).
    Without `tol` it takes `usual_tol`, and has converged if its end meets `TOL`. After every step
    `callback` is called with the iteration, the number of iterations at most and the loss. With
    `measured` the end is computed in float64; a stage need not be.
    """
    # The tolerance at which an end has converged.
    end_tol = TOL
    if tol is None:
        n = objective.coordinates.shape[0]
        tol = usual_tol(objective.loss.name, n)
    else:
        end_tol = tol
    current = objective
    rounding = objective.rounding
    history = [current.value]
    at_rest = False
    # None: along −step, the preconditioned gradient.
    direction: Array | None = None
    while len(history) <= max_iter and current.value > rounding:
        is_steepest = direction is None
        if direction is None or not dot(current.gradient, direction) < 0:
            direction = -current.step
            is_steepest = True
        previous = current
        moved = current.minimize_along(direction)
        if moved is not None:
            current = moved
            history.append(current.value)
            if callback is not None:
                value = current.value * current.unit
                callback(len(history) - 1, max_iter, value)
        gains_nothing = moved is None and is_steepest
        gains_little = gains_nothing or _gains_little(history, tol)
        if gains_little and _promises_little(current, tol, rounding):
            if not measured:
                break
            current = current.measured()
            at_rest = _promises_little(current, tol, rounding)
            if at_rest:
                break
            direction = None
            continue
        if moved is None:
            sharper = current.sharper()
            if sharper is not None:
                current = sharper
            elif is_steepest:
                break
            direction = None
            continue
        beta = _hestenes_stiefel(direction, previous, current)
        if beta == 0.0:
            direction = None
            continue
        direction *= beta
        direction -= current.step
    if measured:
        current = current.measured()
    at_rest = at_rest or (
        _gains_little(history, end_tol)
        and _promises_little(current, end_tol, rounding)
    )
    promised = max(0.0, dot(current.gradient, current.step)) / 2
    # Above zero even where the fit is exact.
    level = max(current.value, rounding, TINY)
    return Configuration(
        coordinates=current.coordinates,
        form=current.form,
        loss=current.loss,
        value=current.value * current.unit,
        history=tuple(value * current.unit for value in history),
        converged=at_rest or current.value <= rounding,
        relative_gradient=math.sqrt(promised / level),
    )


def shortened(descent: Descent) -> Descent:
    """Return a descent that ends early: for a stage, or to compare several starts."""
    return partial(
        descent, max_iter=STAGE_ITERATIONS, tol=STAGE_TOL, measured=False
    )


briefly = shortened(descend)


def _gains_little(history: list[float], tol: float) -> bool:
    """Tell whether the last `WINDOW` iterations gained no more than a share of the loss."""
    if len(history) <= WINDOW:
        return False
    before = history[-1 - WINDOW]
    return before - history[-1] <= tol * before


def _promises_little(
    objective: Objective, tol: float, rounding: float
) -> bool:
    """Tell whether one more step along −M⁻¹g, to second order, gains a small share of the loss."""
    share = min(FLAT, max(tol, FLATTEST))
    promised = dot(objective.gradient, objective.step) / 2
    return promised <= share * objective.value + rounding


def _hestenes_stiefel(
    direction: Array, previous: Objective, current: Objective
) -> float:
    """Return β of the next direction, −step + β·direction; 0 restarts along −step."""
    change = current.gradient - previous.gradient
    rise = dot(direction, change)
    if not rise > 0:
        return 0.0
    return max(0.0, dot(current.step, change) / rise)


def lowest_point(quartic: Floats) -> float | None:
    """Return the t > 0 where a quartic in t, constant first, is lowest; None if there is none.

    There is none if the quartic does not fall at 0, is not finite or falls for ever.
    """
    c1, c2, c3, c4 = (float(c) for c in quartic[1:])
    if not all(math.isfinite(c) for c in (c1, c2, c3, c4)) or c1 >= 0:
        return None

    def change(t: float) -> float:
        return t * (c1 + t * (c2 + t * (c3 + t * c4)))

    # Real parts of complex roots may stay: no point is lower than the lowest stationary one.
    roots = np.roots([4 * c4, 3 * c3, 2 * c2, c1]).real.tolist()
    return min((t for t in roots if t > 0), key=change, default=None)


def search_by_slopes(
    quartic: Floats,
    move: Callable[[float], Point],
    direction: Array,
    slope_left: float,
) -> Point | None:
    """Find a lower point on a line whose slope is at most `slope_left` of that at the start.

    None if there is none, or if it is lower by less than rounding. `quartic` agrees with the loss
    along `direction` to second order, and its lowest point is tried first; `move` takes t to the
    objective there.
    """
    start_slope = float(quartic[1])
    if not start_slope < 0:
        return None
    first = lowest_point(quartic) or 1.0

    # SciPy asks for the value and then for the slope of one point. Its t is in units of `first`.
    @lru_cache(maxsize=1)
    def trial(t: float) -> Point:
        return move(t * first)

    first_trial = trial(1.0)
    slope_there = dot(first_trial.gradient, direction)
    is_flatter = abs(slope_there) <= -slope_left * start_slope
    rise = first_trial.value - float(quartic[0])
    if rise < 0 and is_flatter:
        return first_trial
    if 0 <= rise <= eps(np.float32) * quartic[0] and is_flatter:
        # Here the loss is lowest, but its gain is less than the rounding of single precision.
        return None

    def value(t: Floats) -> float:
        return trial(float(t[0])).value

    def slope(t: Floats) -> Floats:
        return np.array([first * dot(trial(float(t[0])).gradient, direction)])

    with warnings.catch_warnings():
        # SciPy warns where it finds no such point.
        warnings.simplefilter("ignore", RuntimeWarning)
        t, *_ = line_search(
            value,
            slope,
            np.zeros(1),
            np.ones(1),
            np.array([first * start_slope]),
            float(quartic[0]),
            c2=slope_left,
        )
    if t is None:
        return None
    return trial(float(t))


def dot(left: Array, right: Array) -> float:
    """⟨left, right⟩ of two arrays, by BLAS where it can be: that needs no temporary."""
    if is_numpy(left) and left.flags.c_contiguous and right.flags.c_contiguous:
        return float(np.dot(left.ravel(), right.ravel()))
    xp = namespace(left)
    return float(xp.sum(left * right, dtype=xp.float64))
