"""Preconditioned nonlinear conjugate gradients with an exact line search on a quartic."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from neucmds._backend.arrays import Array, asarray_like, namespace, to_numpy
from neucmds._backend.threads import over_rows

Floats = npt.NDArray[np.float64]
Callback = Callable[[int, float], None]
# Told coordinates and signs that a descent could go on from.
Keep = Callable[[Array, npt.NDArray[Any]], None]


# Iterations whose gain decides. On the data sets of docs/quality.md a window of three ends 2 to 3
# products sooner than one of five, and at most 0.6 % higher than the end of the road.
WINDOW = 3

# Squared relative gradient that counts as flat however small the tolerance: rounding of the value
# hides gains below 1e-12 or so, and directions found by rounding do not make it smaller.
FLAT = 1e-9
_TINY = float(np.finfo(np.float64).tiny)


class Objective(Protocol):
    """A STRESS at some coordinates: a value that knows where it is and how to move."""

    @property
    def value(self) -> float:
        """The STRESS here."""

    def gradient(self) -> Array:
        """Return the gradient, centered."""

    def precondition(self, gradient: Array) -> Array:
        """Solve with a positive definite stand-in for the Hessian; the result is centered."""

    def minimize_along(self, direction: Array) -> Self | None:
        """Return the objective at the lowest point of the line; None when there is no way down.

        The direction is not to be kept: it is turned in place.
        """


State = TypeVar("State", bound=Objective)


@dataclass(frozen=True)
class Descent(Generic[State]):
    """Where a descent ended, and every value on the way.

    Parameters
    ----------
    state : Objective
    history : tuple of floats
        The value at the start and after every iteration.
    converged : bool
        Whether the end is a stationary point: ``relative_gradient**2`` is at most the tolerance, or
        what it promises is less than rounding.
    relative_gradient : float
        √(gᵀM⁻¹g / 2f) at the end, with g the gradient, M the preconditioner and f the value. Its
        square is the share of f that one more step along −M⁻¹g promises to gain.
    """

    state: State
    history: tuple[float, ...]
    converged: bool
    relative_gradient: float = math.nan


@dataclass(frozen=True)
class Underway:
    """What a descent knows beside its state: enough to go on from there.

    Parameters
    ----------
    direction : array of shape (n, k)
        Where to go next; turned in place afterwards.
    steepest : bool
        Whether it is that of the preconditioned gradient.
    history : tuple of floats
    iteration : int
        The next one.
    """

    direction: Array
    steepest: bool
    history: tuple[float, ...]
    iteration: int


def descend(
    state: State,
    *,
    max_iter: int,
    tol: float,
    callback: Callback | None = None,
    rounding: float = 0.0,
    begun: Underway | None = None,
    on_turn: Callable[[State, Underway], None] | None = None,
) -> Descent[State]:
    """Descend until three iterations together gain less than `tol` of the value, and it is flat.

    Hestenes–Stiefel directions, restarted whenever one does not point down.

    Parameters
    ----------
    state : Objective
        Where to start.
    max_iter : int
    tol : float
        A point is flat when its squared relative gradient is at most this.
    callback : callable, optional
        Called with the iteration and the value after every step.
    rounding : float, default=0
        Difference of values that rounding makes: no descent can see less.
    begun : Underway, optional
        Where an earlier descent to this state was to go on.
    on_turn : callable, optional
        Called with the state and what is `begun` from there after every step but the last.
    """
    history = [state.value]
    gradient = state.gradient()
    step = state.precondition(gradient)
    direction, steepest, first = -step, True, 1
    if begun is not None:
        direction, steepest, first = begun.direction, begun.steepest, begun.iteration
        history = list(begun.history)

    def ended() -> Descent[State]:
        promised = max(0.0, _dot(gradient, step)) / 2
        flat = promised <= max(tol, FLAT) * state.value + rounding
        relative = math.sqrt(promised / max(state.value, rounding, _TINY))
        return Descent(state, tuple(history), flat, relative)

    for iteration in range(first, max_iter + 1):
        if not _dot(gradient, direction) < 0:
            direction, steepest = -step, True
        moved = state.minimize_along(direction)
        if moved is None:
            found = ended()
            if steepest or found.converged:
                return found
            direction, steepest = -step, True
            continue
        state, previous = moved, gradient
        history.append(state.value)
        if callback is not None:
            callback(iteration, state.value)
        gradient = state.gradient()
        step = state.precondition(gradient)
        gained_little = (
            len(history) > WINDOW
            and history[-1 - WINDOW] - history[-1] <= tol * history[-1 - WINDOW]
        )
        if gained_little and (found := ended()).converged:
            return found
        curvature = _dot(direction, gradient) - _dot(direction, previous)
        change = _dot(step, gradient) - _dot(step, previous)
        beta = max(0.0, change / curvature) if curvature > 0 else 0.0
        direction, steepest = _turned(direction, beta, step), beta == 0.0
        if on_turn is not None:
            on_turn(state, Underway(direction, steepest, tuple(history), iteration + 1))
    # It stopped because it was told to, wherever that is.
    return replace(ended(), converged=False)


def lowest_point(quartic: Floats) -> float | None:
    """Return the t > 0 where a quartic (constant first) that falls at 0 is lowest."""
    c = quartic
    if not np.all(np.isfinite(c)) or c[1] >= 0:
        return None
    stationary = np.roots([4 * c[4], 3 * c[3], 2 * c[2], c[1]])
    real = stationary[np.abs(stationary.imag) <= 1e-8 * np.abs(stationary)].real
    real = real[real > 0]
    if real.size == 0:
        return None
    change = c[1] * real + c[2] * real**2 + c[3] * real**3 + c[4] * real**4
    return float(real[int(np.argmin(change))])


def point_blocks(x: Array, inner: Array, signs: Array, right_side: Array) -> Array:
    """Solve with every object's Gauss–Newton block 16·ASA + 16n(Ax_i)(Ax_i)ᵀ, by Sherman–Morrison.

    S = XᵀX is `inner`. The blocks follow the isometries of the form, which L-BFGS does not.
    """
    xp, n = namespace(x), int(x.shape[0])
    s = to_numpy(inner)
    # A column that has all but vanished must not blow up its own step.
    s = s + np.eye(s.shape[0]) * 1e-12 * (np.trace(s) or 1.0)
    a = to_numpy(signs)
    inverse = asarray_like(np.linalg.inv(s) * np.outer(a, a) / 16, x)
    solved = xp.empty_like(x)

    def solve(rows: slice) -> None:
        ax = x[rows, :] * signs[None, :]
        z, u = right_side[rows, :] @ inverse, ax @ inverse
        share = 16 * n * xp.sum(ax * z, axis=1) / (1 + 16 * n * xp.sum(ax * u, axis=1))
        u *= share[:, None]
        z -= u
        solved[rows, :] = z

    over_rows(solve, *x.shape)
    return solved


def centered(block: Array) -> Array:
    """Subtract the mean of every column, over the block itself."""
    xp, n = namespace(block), int(block.shape[0])
    mean = sum(over_rows(lambda rows: xp.sum(block[rows, :], axis=0), *block.shape)) / n

    def subtract(rows: slice) -> None:
        block[rows, :] -= mean[None, :]

    over_rows(subtract, *block.shape)
    return block


def _dot(left: Array, right: Array) -> float:
    xp = namespace(left)
    parts = over_rows(lambda rows: xp.sum(left[rows, :] * right[rows, :]), *left.shape)
    return float(sum(parts))


def _turned(direction: Array, beta: float, step: Array) -> Array:
    """``beta * direction - step``, over the direction itself."""

    def turn(rows: slice) -> None:
        direction[rows, :] *= beta
        direction[rows, :] -= step[rows, :]

    over_rows(turn, *direction.shape)
    return direction
