"""Descent on a loss of listed pairs: time and memory grow with their number m, not with n².

Σ u q(D̂)² over both orders of m pairs, q as for all pairs: D̂ − D ("squared"), √D̂ − d ("distance")
or (D̂ − D)/max(D, f²) ("relative", f the floor). An iteration takes two passes over the pairs: one
for how D̂ changes along a line, one for the gradient, a sparse product with the pairs' pulls u q q′.
Every object is preconditioned with its own Gauss–Newton block

    16 Σ_j u q′² A(x_i − x_j)(x_i − x_j)ᵀA  +  4 Σ_j u |q| q′ · I,

renewed every few iterations and made from differences: the expanded formula cancels.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds._backend import Checkpoint
from neucmds._backend.arrays import (
    Array,
    asarray_like,
    is_array,
    is_numpy,
    namespace,
    to_numpy,
)
from neucmds._backend.threads import parallel_map, worker_pool
from neucmds._input.pairs import Pairs
from neucmds._methods.refined.descent import (
    Callback,
    Underway,
    centered,
    descend,
    lowest_point,
)
from neucmds._methods.refined.device_pairs import DevicePairs
from neucmds._methods.refined.listed_pairs import PairSystem
from neucmds._methods.refined.losses import (
    FLOOR_QUANTILE,
    FLOOR_SHARE,
    check_loss,
)
from neucmds._methods.refined.pair_descent import (
    DROPPED_CURVATURE,
    EXACT,
    MOST_TRIALS,
    RIDGE,
    Limits,
    LinePoint,
    LossResult,
    held_inverses,
    lowest_of_cubic,
    power_of_four,
)
from neucmds.errors import InputError, option

Floats = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]

# Coordinates up to which blocks are inverted together.
FEW = 32
# Blocks are renewed after so many iterations at first, then less and less often.
FIRST_RENEWAL = 3
LAST_RENEWAL = 10
# Where the loss along a line is no quartic, the search ends at this share of the slope it began at.
SLOPE_LEFT = 0.1


def refine_pairs(
    pairs: Pairs,
    start: npt.ArrayLike,
    signs: npt.ArrayLike,
    loss: str = "relative",
    *,
    max_iter: int = 100,
    tol: float = 2e-3,
    gradient_tol: float = 0.03,
    floor: float | None = None,
    callback: Callback | None = None,
    checkpoint: str | PathLike[str] | None = None,
) -> LossResult:
    """Lower a loss of listed pairs, the signature fixed, until the coordinates are at rest.

    Parameters
    ----------
    pairs : Pairs
        What was observed; its weights multiply the loss of each pair.
    start : array of shape (n, k)
        Where to start, for example the places of all objects among landmarks. The descent is
        computed with its library, on its device.
    signs : array of shape (k,)
        ±1 each; they do not change.
    loss : {"relative", "distance", "squared"}, default="relative"
    max_iter : int, default=100
    tol : float, default=2e-3
        Stop when three iterations together gain less than this share of the loss,
    gradient_tol : float, default=0.03
        and the relative gradient is below this.
    floor : float, optional
        The least d that is told apart by "relative", and by the rounded corner of "distance"; half
        of the 1 % quantile of the positive d by default.
    callback : callable, optional
        Called with the iteration and the loss after every step.
    checkpoint : path, optional
        A file that the state is written to every few seconds, and that the descent goes on from if
        it is there: with the same result as without the interruption, to the last bit. It is
        removed at the end. For arrays in main memory.

    Returns
    -------
    LossResult
        `value` and `history` count every pair in both orders, as STRESS does.

    Raises
    ------
    InputError
        When the loss is unknown, D is negative somewhere and the loss needs its root or inverse,
        the start does not fit the pairs, or the checkpoint is that of something else.

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds._input.pairs import make_pairs
    >>> from neucmds._methods.refined.sparse_pairs import refine_pairs
    >>> rng = np.random.default_rng(0)
    >>> x, (i, j) = rng.standard_normal((50, 2)), np.triu_indices(50, 1)
    >>> pairs = make_pairs(50, i, j, np.linalg.norm(x[i] - x[j], axis=1))
    >>> end = refine_pairs(pairs, x + 0.1 * rng.standard_normal((50, 2)), [1, 1])
    >>> end.value < 1e-8
    True
    """
    x, a = _checked(pairs, start, signs, loss)
    scale = power_of_four(pairs.sq_dissimilarity)
    least = pair_floor(pairs) ** 2 if floor is None else floor**2
    system: PairSystem | DevicePairs
    if is_array(start) and not is_numpy(start):
        xp = namespace(start)
        x, form = (asarray_like(one, start, dtype=xp.float64) for one in (x, a))
        system = DevicePairs.of(pairs, form, loss, scale=scale, floor=least / scale)
    else:
        system = PairSystem.of(pairs, a, loss, scale=scale, floor=least / scale)
    x = x / sqrt(scale)
    x -= namespace(x).mean(x, axis=0)
    unit = scale**system.loss.degree * system.weight_scale
    limits = Limits(max_iter, tol, gradient_tol, _in_units(callback, unit))
    kept: Checkpoint | None = None
    if checkpoint is not None:
        if not isinstance(system, PairSystem):
            raise InputError(f"{option('checkpoint')} is for arrays in main memory.")
        listed = (pairs.i, pairs.j, pairs.sq_dissimilarity, pairs.weight)
        kept = Checkpoint(checkpoint, *listed, x, a, loss, least, tol, gradient_tol)
    with worker_pool() if isinstance(system, PairSystem) else nullcontext():
        end = _descend(system, x, limits, kept)
        value = system.exact().true_value(end.x)
    if kept is not None:
        kept.remove()
    return LossResult(
        end.x * sqrt(scale),
        a,
        loss,
        sqrt(least),
        value * unit,
        tuple(one * unit for one in end.history),
        end.converged,
        end.relative_gradient,
    )


def pair_floor(pairs: Pairs) -> float:
    """Half of the 1 % quantile of the positive d of the listed pairs; unsquared scale.

    Weights do not count: of all pairs of 18,000 nodes 1 % are nearer than the 180th nearest node,
    and with a floor that high .91 of the ten nearest are kept instead of .97.
    """
    d = pairs.sq_dissimilarity[pairs.sq_dissimilarity > 0]
    if d.size == 0:
        return 1.0
    rank = int(FLOOR_QUANTILE * (d.size - 1))
    return FLOOR_SHARE * sqrt(float(np.partition(d, rank)[rank]))


def _checked(
    pairs: Pairs, start: npt.ArrayLike, signs: npt.ArrayLike, loss: str
) -> tuple[Doubles, Doubles]:
    check_loss(loss)
    given = to_numpy(start) if is_array(start) else start
    x, a = np.array(given, dtype=np.float64), np.array(signs, dtype=np.float64)
    if a.ndim != 1 or not np.all(np.abs(a) == 1):
        raise InputError(f"signs must be +1 or −1, one for each coordinate, not {signs!r}.")
    if x.shape != (pairs.n, a.size):
        raise InputError(f"start has shape {x.shape}; expected {(pairs.n, a.size)}.")
    if not np.all(np.isfinite(x)):
        raise InputError("start holds NaN or infinity.")
    below = pairs.sq_dissimilarity < 0
    if loss != "squared" and below.any():
        raise InputError(
            f"{option('loss', loss)} needs D ≥ 0, and {int(below.sum())} pairs have D < 0, the "
            f"lowest {pairs.sq_dissimilarity.min():.4g}; use {option('loss', 'squared')}."
        )
    return x, a


def _in_units(callback: Callback | None, unit: float) -> Callback | None:
    if callback is None:
        return None
    return lambda iteration, value: callback(iteration, value * unit)


@dataclass(frozen=True, eq=False)
class _Blocks:
    """The inverse of every object's block."""

    inverses: Floats
    signs: Floats

    @classmethod
    def at(cls, here: PairStress) -> _Blocks:
        system = here.system
        blocks, pulled = system.gauss_newton(here.x, here.residual, here.pull)
        if isinstance(system, DevicePairs):
            return cls(held_inverses(blocks, pulled), system.signs)
        n, k = here.x.shape
        own = np.einsum("ikk->i", blocks) / max(1, k)
        ridge = DROPPED_CURVATURE * pulled + RIDGE * (own + own.mean())
        ridge[ridge <= 0] = 1.0
        diagonal = np.arange(k)
        step = max(1, 2**16 // max(1, k) ** 2)

        def invert(start: int) -> None:
            rows = slice(start, start + step)
            blocks[rows, diagonal, diagonal] += ridge[rows, None].astype(blocks.dtype)
            blocks[rows] = _inverses(blocks[rows]) if k <= FEW else np.linalg.inv(blocks[rows])

        parallel_map(invert, range(0, n, step))
        return cls(blocks, system.signs)

    def solve(self, gradient: Array) -> Any:
        """H⁻¹ g, centered."""
        if not is_numpy(gradient):
            signed = gradient * (self.signs / 16)
            return centered((self.inverses @ signed[:, :, None])[:, :, 0] * self.signs)
        signs = self.signs.astype(np.float64)
        scaled = (gradient * (signs / 16)).astype(self.inverses.dtype)
        solved = np.empty_like(gradient)
        n, k = gradient.shape
        step = max(1, 2**17 // max(1, k) ** 2)

        def solve(start: int) -> None:
            rows = slice(start, start + step)
            solved[rows] = (self.inverses[rows] @ scaled[rows, :, None])[:, :, 0] * signs

        parallel_map(solve, range(0, n, step))
        result: Doubles = centered(solved)
        return result


@dataclass(frozen=True, eq=False)
class PairStress:
    """The loss at coordinates x: an objective for `neucmds._methods.refined.descent.descend`.

    Parameters
    ----------
    system : PairSystem
    x : ndarray of shape (n, k), float64
    residual : ndarray of shape (m,)
        D̂ − D.
    value : float
    pull : ndarray of shape (m,)
    carried : _Blocks or None
        Blocks of an earlier point, `age` iterations ago, good until age `renewal`.
    """

    system: PairSystem | DevicePairs
    x: Doubles
    residual: Floats
    value: float
    pull: Floats
    carried: _Blocks | None = None
    age: int = 0
    renewal: int = FIRST_RENEWAL

    @classmethod
    def at(cls, system: PairSystem | DevicePairs, x: Doubles) -> PairStress:
        """Return the objective at some coordinates."""
        residual = system.residuals(x)
        return cls(system, x, residual, *system.pulls(residual))

    @cached_property
    def _gradient(self) -> Doubles:
        return self.system.gradient(self.x, self.pull)

    @cached_property
    def blocks(self) -> _Blocks:
        """Blocks of this point, or of an earlier one."""
        return _Blocks.at(self) if self.carried is None else self.carried

    def gradient(self) -> Doubles:
        """Return the gradient, centered."""
        return self._gradient

    def precondition(self, gradient: Doubles) -> Doubles:
        """Solve with every object's block."""
        solved: Doubles = self.blocks.solve(gradient)
        return solved

    @property
    def relative_gradient(self) -> float:
        """√(gᵀH⁻¹g / 2f)."""
        step = self.precondition(self._gradient)
        return sqrt(max(0.0, _dot(self._gradient, step)) / (2 * self.value or 1.0))

    def minimize_along(self, direction: Doubles) -> PairStress | None:
        """Go to the lowest point of a line; None where rounding leaves no way down."""
        system = self.system
        d1, d2 = system.along(self.x, direction, self.residual)
        slope = _dot(self._gradient, direction)
        t = lowest_point(system.quartic(self, d1, d2, slope))
        if system.weights is None and slope < 0:
            t = _search_by_slopes(
                lambda t: system.on_line(self.residual, d1, d2, t),
                LinePoint(0.0, self.value, slope),
                1.0 if t is None else t,
            )
        if t is None:
            return None
        x = self.x + t * direction
        fresh = self.age + 1 >= self.renewal
        # Where blocks are renewed, residuals are too: their rounding adds up on the way.
        residual = system.residuals(x) if fresh else system.moved(self.residual, d1, d2, t)
        value, pull = system.pulls(residual)
        if not value < self.value:
            return None
        if fresh:
            renewal = min(2 * self.renewal, LAST_RENEWAL)
            return PairStress(system, x, residual, value, pull, renewal=renewal)
        return PairStress(system, x, residual, value, pull, self.blocks, self.age + 1, self.renewal)


@dataclass(frozen=True)
class _End:
    x: Doubles
    history: tuple[float, ...]
    converged: bool
    relative_gradient: float


@dataclass(frozen=True)
class _Round:
    """Where a round of the descent begins, or goes on.

    Parameters
    ----------
    state : PairStress
    tol : float
    before : tuple of floats
        The history up to here.
    begun : Underway or None
    """

    state: PairStress
    tol: float
    before: tuple[float, ...]
    begun: Underway | None = None

    @classmethod
    def kept(cls, system: PairSystem, saved: dict[str, Any]) -> _Round:
        """Return what `keeping` saved."""
        system = system.exact() if bool(saved["is_exact"]) else system
        state = replace(PairStress.at(system, saved["x"]), renewal=int(saved["renewal"]))
        before, since = (tuple(saved[name].tolist()) for name in ("before", "since"))
        begun = Underway(
            saved["direction"], bool(saved["steepest"]), since, int(saved["iteration"])
        )
        return cls(state, float(saved["tol"]), before, begun)

    def keeping(
        self, checkpoint: Checkpoint | None
    ) -> Callable[[PairStress, Underway], None] | None:
        """Return what saves the descent whenever all but x and the direction follow from x."""
        if checkpoint is None:
            return None

        def keep(state: PairStress, begun: Underway) -> None:
            if state.carried is None:
                checkpoint.save(
                    x=state.x,
                    renewal=state.renewal,
                    is_exact=state.system.is_exact,
                    tol=self.tol,
                    before=self.before,
                    since=begun.history,
                    direction=begun.direction,
                    steepest=begun.steepest,
                    iteration=begun.iteration,
                )

        return keep


def _descend(
    system: PairSystem | DevicePairs,
    x: Doubles,
    limits: Limits,
    checkpoint: Checkpoint | None = None,
) -> _End:
    """Descend until gain and gradient are small; in float64 from where rounding stops float32."""
    saved = None if checkpoint is None else (checkpoint.held or None)
    if saved is not None and isinstance(system, PairSystem):
        here = _Round.kept(system, saved)
    else:
        state = PairStress.at(system, x)
        here = _Round(state, limits.tol, (state.value,))
    while True:
        done = len(here.before) - 1
        end = descend(
            here.state,
            max_iter=limits.max_iter - done,
            tol=here.tol,
            callback=_counting_from(limits.callback, done),
            begun=here.begun,
            on_turn=here.keeping(checkpoint),
        )
        history = (*here.before, *end.history[1:])
        # Blocks of this very point: the measure must not depend on when they were renewed.
        state = replace(end.state, carried=None)
        system, relative = state.system, state.relative_gradient
        exact = state.value <= EXACT**2 * system.size
        at_rest = exact or (end.converged and relative <= limits.gradient_tol)
        stuck = len(end.history) == 1 and system.is_exact
        if at_rest or stuck or len(history) > limits.max_iter:
            return _End(state.x, history, at_rest, relative)
        if len(end.history) == 1:
            state = PairStress.at(system.exact(), state.x)
        # Directions begin anew here, so that a next round should be longer than this one.
        here = _Round(state, here.tol / 4, history)


def _inverses(blocks: Floats) -> Floats:
    """Invert positive definite matrices by eliminating in all of them at once.

    Half the time of LAPACK, one after the other: 43 ms instead of 87 (18,000 of 16 × 16, float32).
    """
    a = np.ascontiguousarray(blocks.transpose(1, 2, 0))
    for at in range(a.shape[0]):
        inverse = 1 / a[at, at]
        row, column = a[at] * inverse, a[:, at].copy()
        row[at], column[at] = inverse, 0
        a[:, at] = 0
        a -= column[:, None] * row
        a[at] = row
    return a.transpose(2, 0, 1)


def _counting_from(callback: Callback | None, done: int) -> Callback | None:
    if callback is None:
        return None
    return lambda iteration, value: callback(done + iteration, value)


def _search_by_slopes(
    seen_at: Callable[[float], tuple[float, float]], start: LinePoint, t: float
) -> float | None:
    """Find where the slope is a tenth of what it was, by cubics through what was seen."""
    low, high, best = start, None, None
    for _ in range(MOST_TRIALS):
        seen = LinePoint(t, *seen_at(t))
        if seen.value < (start if best is None else best).value:
            best = seen
            if abs(seen.slope) <= SLOPE_LEFT * abs(start.slope):
                break
        if seen.slope < 0 and seen.value <= low.value:
            low = seen
        else:
            high = seen
        t = 2 * t if high is None else lowest_of_cubic(low, high)
    return None if best is None else best.t


def _dot(left: Array, right: Array) -> float:
    if is_numpy(left):
        return float(np.vdot(left, right))
    return float(namespace(left).sum(left * right))
