"""Descent on a loss of all pairs: conjugate gradients, every object with its own block.

Two passes over the pairs an iteration, one for the line search and one for value and gradient. The
preconditioner is every object's Gauss–Newton block

    16 Σ_j u q′² A(x_i − x_j)(x_i − x_j)ᵀA  +  4 Σ_j u |q| q′ · I,

renewed every few iterations. Its second term stands for the curvature that Gauss–Newton drops.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import inf, log2, sqrt

import numpy as np
import numpy.typing as npt

from neucmds._backend.arrays import (
    Array,
    asarray_like,
    is_numpy,
    min_and_max,
    namespace,
)
from neucmds._backend.threads import parallel_map, worker_pool
from neucmds._methods.refined.descent import WINDOW, Callback, centered, lowest_point
from neucmds._methods.refined.losses import PairLoss, check_defined, check_loss, floor_of
from neucmds._methods.refined.pair_tiles import Pairs, Slopes

Floats = npt.NDArray[np.float64]

# Up to here float64 costs next to nothing.
SMALL = 600
# Blocks are renewed after so many iterations at first, then less and less often. Streets, k = 16,
# 100 iterations: 11,830 renewed every 5, 12,960 every 20; a renewal costs about three iterations.
FIRST_RENEWAL = 3
LAST_RENEWAL = 8
# Share of Σ u|q|q′ in a block, in units of 16. Set from trials with a ridge of fixed share τ of
# Σ u q′²D instead: best were τ = 0.03 (digits, k = 20), 0.01 (streets, k = 16) and 0.001 (k = 32),
# in the order of their mean |q|. This form was not compared with other shares.
DROPPED_CURVATURE = 0.25
# What keeps the block of an object without near partners invertible.
RIDGE = 1e-7
# Where the loss along a line is no quartic, the search ends at this share of the slope it began at.
SLOPE_LEFT = 0.3
MOST_TRIALS = 8
# Largest and least relative gradient that is called flat; the square of the latter, the share of
# the loss that is left to gain, is what single precision can show.
FLAT, FLATTEST = 0.03, 1e-4
# Root mean square of q, against what q measures, at which a fit is exact for all purposes.
EXACT = 1e-7
# Where the floor of d falls in stages, each divides it by this, and goes so far.
FLOOR_STEP = 3.0
STAGE_ITERATIONS = 30
STAGE_TOL = 1e-3


@dataclass(frozen=True)
class LossResult:
    """Coordinates at which a loss is (locally) least, and how they were reached.

    Parameters
    ----------
    coordinates : array of shape (n, k), float64
        Centered.
    signs : ndarray of shape (k,)
    loss : str
    floor : float
        The floor of d that was used, on the unsquared scale.
    value : float
        Σ u q² over all n² ordered pairs, as STRESS counts them, computed in float64.
    history : tuple of floats
        The loss at the start and after every iteration, as the descent saw it (tiles in float32
        when there are many objects, the corner of "distance" rounded); it never rises.
    converged : bool
        Whether gain and gradient both fell below their tolerances before `max_iter`: a stationary
        point to the tolerance of `gradient_tolerance`.
    relative_gradient : float
        √(gᵀH⁻¹g / 2f), with f and its gradient g in float64 and H the blocks of all objects as
        last renewed: 0 at a stationary point. Were H all of Gauss–Newton, this would be the cosine
        between the residuals and what moving the objects can change of them. Free of any unit.
    """

    coordinates: Array
    signs: Floats
    loss: str
    floor: float
    value: float
    history: tuple[float, ...]
    converged: bool
    relative_gradient: float

    @property
    def signature(self) -> tuple[int, int]:
        """Numbers of positive and negative coordinates."""
        negatives = int(np.sum(self.signs < 0))
        return self.signs.size - negatives, negatives


def minimize_loss(
    sq_dissimilarity: Array,
    coordinates: Array,
    signs: Floats,
    loss: str,
    *,
    weights: Array | None = None,
    max_iter: int = 200,
    tol: float = 2e-3,
    gradient_tol: float | None = None,
    floor: float | None = None,
    callback: Callback | None = None,
) -> LossResult:
    """Lower a loss of coordinates with a fixed signature until they are at rest.

    Parameters
    ----------
    sq_dissimilarity : array of shape (n, n), float32 or float64
        D, squared scale; finite where `weights` is zero, too.
    coordinates : array of shape (n, k)
        Where to start; the `refined` coordinates of the squared loss are best.
    signs : ndarray of shape (k,)
        ±1.0 each; they do not change.
    loss : {"squared", "distance", "relative"}
    weights : array of shape (n, n), optional
        Symmetric, not negative; multiplies the loss of each pair. Zero: not observed.
    max_iter : int, default=200
    tol : float, default=2e-3
        Stop when three iterations together gain less than this share of the loss,
    gradient_tol : float, optional
        and the relative gradient is at most this; `gradient_tolerance` of `tol` by default.
    floor : float, optional
        The least d that is told apart by "relative", and by the rounded corner of "distance";
        half of the 1 % quantile of the positive d by default.
    callback : callable, optional
        Called with the iteration and the loss after every step.

    Raises
    ------
    InputError
        When D is negative somewhere and the loss needs its root or its inverse.
    """
    check_loss(loss)
    check_defined(sq_dissimilarity, weights, loss)
    problem = prepare(sq_dissimilarity, loss, weights=weights, floor=floor)
    flat = gradient_tolerance(tol) if gradient_tol is None else gradient_tol
    limits = Limits(max_iter, tol, flat, callback)
    return minimize_prepared(problem, coordinates, signs, limits)


def gradient_tolerance(tol: float) -> float:
    """Relative gradient of a stationary point: its square, what a step promises, is at most `tol`.

    And never above 0.03. Iterations with 0.01 against 0.03, and the loss that is gained: "relative"
    (`tol` 2e-3) 57 against 32 and 0.7 % on digits (k = 20), 186 against 129 and 1.9 % on streets
    (k = 16), 23 against 16 and 0.2 % on cifar10, 17 against 10 and 0.2 % on mnist (k = 10); 0.003
    takes 173, over 300, 50 and 29. "distance" (1e-4, hence 0.01) 60 against 47 and 0.1 % on digits,
    as many on the others. Up to 600 objects (1e-6) the gain is what stops: relative gradients end
    below 0.0005 whatever the tolerance.
    """
    return min(FLAT, max(sqrt(tol), FLATTEST))


@dataclass(frozen=True)
class Limits:
    """How far a descent goes; the fields are those of `minimize_loss`."""

    max_iter: int
    tol: float
    gradient_tol: float
    callback: Callback | None = None


@dataclass(frozen=True)
class PreparedLoss:
    """D near one and in the precision of the tiles: what several starts have in common.

    Parameters
    ----------
    d : array of shape (n, n)
        D / scale.
    scale : float
        A power of four: rounding is the same whatever the unit of D.
    loss : PairLoss
    weights : array of shape (n, n), optional
        At most about one.
    weight_scale : float
    """

    d: Array
    scale: float
    loss: PairLoss
    weights: Array | None
    weight_scale: float

    @property
    def unit(self) -> float:
        """What a loss of one here is in the units of D."""
        return self.scale**self.loss.degree * self.weight_scale


def prepare(
    sq_dissimilarity: Array, loss: str, *, weights: Array | None, floor: float | None
) -> PreparedLoss:
    """Scale D (and weights) by a power of two and round to the precision of the tiles."""
    xp = namespace(sq_dissimilarity)
    dtype = xp.float32 if sq_dissimilarity.shape[0] > SMALL else xp.float64
    scale = power_of_four(sq_dissimilarity)
    weight_scale = 1.0
    if weights is not None:
        weight_scale = power_of_four(weights)
        weights = _scaled(weights, weight_scale, dtype)
    d = _scaled(sq_dissimilarity, scale, dtype, weights)
    least = floor_of(d, weights) if floor is None else floor**2 / scale
    return PreparedLoss(d, scale, PairLoss(loss, least), weights, weight_scale)


def approach(problem: PreparedLoss, coordinates: Array, signs: Floats) -> Array:
    """Bring a start that says nothing of the near pairs close to a minimum, by floors that fall.

    Where d spans many decades, the near pairs of the squared solution are wrong by factors of a
    hundred, or have D̂ < 0 by as much, and the loss is worse there than with all objects in one
    place. With a floor as high as the largest d it is the squared one for "relative" and smooth for
    "distance"; from there each floor starts near its minimum. Entropic affinities (breast_colon,
    k = 20, five decades), 200 iterations, against the loss of all objects in one place: "relative"
    2.4 times from the squared solution and 0.36 times in stages, "distance" 0.60 and 0.47 times.

    Parameters
    ----------
    problem, coordinates, signs
        As for `minimize_prepared`.

    Returns
    -------
    array of shape (n, k)
        The coordinates as they are, if their loss is below that of all objects in one place.
    """
    root = sqrt(problem.scale)
    pairs, x = _begin(problem, coordinates, signs)
    with worker_pool() if is_numpy(problem.d) else nullcontext():
        before = pairs.at(x).value
        if problem.loss.name == "squared" or before <= pairs.size:
            return coordinates
        stage, end = Limits(STAGE_ITERATIONS, STAGE_TOL, inf), x
        floor = min_and_max(problem.d)[1] / FLOOR_STEP**2
        while floor > problem.loss.floor:
            coarse = replace(pairs, loss=replace(problem.loss, floor=floor))
            end = _conjugate_gradients(coarse, end, stage, 1.0).x
            floor /= FLOOR_STEP**2
        return end * root if pairs.at(end).value < before else coordinates


def _begin(problem: PreparedLoss, coordinates: Array, signs: Floats) -> tuple[Pairs, Array]:
    """Return the pairs of a problem, and coordinates in its units, centered."""
    xp = namespace(problem.d)
    x = asarray_like(coordinates, problem.d, dtype=xp.float64) / sqrt(problem.scale)
    x -= xp.mean(x, axis=0, keepdims=True)
    return Pairs(problem.d, problem.loss, asarray_like(signs, x), problem.weights), x


def minimize_prepared(
    problem: PreparedLoss, coordinates: Array, signs: Floats, limits: Limits
) -> LossResult:
    """Descend from one start; the parameters are those of `minimize_loss`."""
    root = sqrt(problem.scale)
    pairs, x = _begin(problem, coordinates, signs)
    # One thread each for BLAS also where all pairs are one tile: its threads wait longer for each
    # other than a product of 100 objects takes.
    with worker_pool() if is_numpy(problem.d) else nullcontext():
        end = _descend(pairs, x, limits, problem.unit)
        value = pairs.true_value(end.x)
    return LossResult(
        end.x * root,
        signs,
        problem.loss.name,
        sqrt(problem.loss.floor * problem.scale),
        value * problem.unit,
        tuple(one * problem.unit for one in end.history),
        end.converged,
        end.relative_gradient,
    )


def power_of_four(array: Array) -> float:
    """Return the power of four nearest to the largest entry in size."""
    low, high = min_and_max(array)
    largest = max(abs(low), abs(high))
    return 4.0 ** round(log2(largest) / 2) if 0 < largest < inf else 1.0


def _scaled(array: Array, scale: float, dtype: object, weights: Array | None = None) -> Array:
    """``array / scale``, rounded, with no temporary of its size; zero where there is no weight."""
    xp = namespace(array)
    scaled = xp.empty_like(array, dtype=dtype)
    n = int(array.shape[0])
    step = max(1, 2**20 // n)
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        some = array[rows, :] * (1 / scale)
        if weights is not None:
            some = xp.where(weights[rows, :] > 0, some, xp.zeros_like(some))
        scaled[rows, :] = xp.astype(some, dtype)
    return scaled


@dataclass(frozen=True)
class _Blocks:
    """The inverse of every object's block, and how to apply it."""

    inverses: Array
    signs: Array

    @classmethod
    def at(cls, pairs: Pairs, x: Array) -> _Blocks:
        return cls(held_inverses(*pairs.blocks(x)), pairs.signs)

    def solve(self, gradient: Array) -> Array:
        """H⁻¹ g, centered."""
        signed = gradient * (self.signs[None, :] / 16)
        return centered((self.inverses @ signed[:, :, None])[:, :, 0] * self.signs[None, :])


def held_inverses(blocks: Array, pull: Array) -> Array:
    """Add to every block what Gauss–Newton drops and a ridge, over itself, and invert it."""
    xp, k = namespace(blocks), int(blocks.shape[1])
    own = xp.sum(xp.linalg.diagonal(blocks), axis=1) / k
    ridge = DROPPED_CURVATURE * pull + RIDGE * (own + xp.mean(own))
    ridge = xp.where(ridge > 0, ridge, xp.ones_like(ridge))
    blocks += ridge[:, None, None] * asarray_like(np.eye(k), blocks)[None, :, :]
    return _inverted(blocks)


def _inverted(blocks: Array) -> Array:
    """Invert a stack of matrices; on all threads if there are many."""
    xp, n, k = namespace(blocks), *(int(size) for size in blocks.shape[:2])
    if not is_numpy(blocks):
        return xp.linalg.inv(blocks)
    if n * k**2 < 2**16:
        return _inverses(blocks)
    step = max(1, 2**16 // k**2)

    def invert(start: int) -> None:
        rows = slice(start, start + step)
        blocks[rows] = _inverses(blocks[rows])

    parallel_map(invert, range(0, n, step))
    return blocks


def _inverses(blocks: Array) -> Array:
    """Invert matrices; where D spans 24 decades one may be singular but for its last digits."""
    try:
        return np.linalg.inv(blocks)
    except np.linalg.LinAlgError:
        return np.linalg.pinv(blocks, hermitian=True)


@dataclass(frozen=True)
class _End:
    x: Array
    history: tuple[float, ...]
    converged: bool
    relative_gradient: float


def _descend(pairs: Pairs, x: Array, limits: Limits, unit: float) -> _End:
    """Descend in the precision of the tiles, and in float64 from where rounding ends that."""
    xp = namespace(x)
    end = _conjugate_gradients(pairs, x, limits, unit)
    done = len(end.history) - 1
    if end.converged or done >= limits.max_iter or pairs.precision == xp.float64:
        return end
    rest = replace(limits, max_iter=limits.max_iter - done)
    more = _conjugate_gradients(pairs.exact(), end.x, rest, unit)
    return replace(more, history=end.history + more.history[1:])


def _conjugate_gradients(pairs: Pairs, x: Array, limits: Limits, unit: float) -> _End:
    """Hestenes–Stiefel directions, restarted where one does not point down."""
    here, blocks = pairs.at(x), _Blocks.at(pairs, x)
    history, age, renewal, stuck = [here.value], 0, FIRST_RENEWAL, False
    enough, last_renewal = EXACT**2 * pairs.size, max(LAST_RENEWAL, int(x.shape[1]) // 4)
    step = blocks.solve(here.gradient)
    direction, relative = -step, _relative_gradient(here, step)
    while len(history) <= limits.max_iter and here.value > enough:
        if not _dot(here.gradient, direction) < 0:
            direction = -step
        moved = _line_search(pairs, x, direction, here)
        if moved is None:
            stuck = age == 0
            if stuck:
                break
            # A direction made of stale blocks may fail where a fresh one does not.
            blocks, age = _Blocks.at(pairs, x), 0
            step = blocks.solve(here.gradient)
            direction, relative = -step, _relative_gradient(here, step)
            continue
        x, previous, here, age = moved.x, here, moved.slopes, age + 1
        history.append(here.value)
        if limits.callback is not None:
            limits.callback(len(history) - 1, here.value * unit)
        if age >= renewal:
            blocks, age, renewal = _Blocks.at(pairs, x), 0, min(2 * renewal, last_renewal)
        step = blocks.solve(here.gradient)
        relative = _relative_gradient(here, step)
        if _at_rest(history, relative, limits):
            break
        change = here.gradient - previous.gradient
        curvature = _dot(direction, change)
        beta = max(0.0, _dot(step, change) / curvature) if curvature > 0 else 0.0
        direction = beta * direction - step
    if pairs.precision != namespace(x).float64:
        exact = pairs.exact().at(x)
        relative = _relative_gradient(exact, blocks.solve(exact.gradient))
    at_rest = relative <= limits.gradient_tol if stuck else _at_rest(history, relative, limits)
    converged = here.value <= enough or at_rest
    return _End(x, tuple(history), converged, relative)


def _at_rest(history: list[float], relative_gradient: float, limits: Limits) -> bool:
    """Tell whether gain and gradient are both small."""
    before = history[max(0, len(history) - 1 - WINDOW)]
    small_gain = len(history) > WINDOW and before - history[-1] <= limits.tol * before
    return small_gain and relative_gradient <= limits.gradient_tol


def _relative_gradient(here: Slopes, step: Array) -> float:
    squared = _dot(here.gradient, step) / (2 * here.value) if here.value > 0 else 0.0
    return sqrt(max(0.0, squared))


@dataclass(frozen=True)
class _Moved:
    x: Array
    slopes: Slopes


def _line_search(pairs: Pairs, x: Array, p: Array, here: Slopes) -> _Moved | None:
    """Go to the lowest point of a line; None where rounding leaves no way down."""
    quartic = pairs.along(x, p, here)
    t = lowest_point(quartic)
    if t is None and not pairs.loss.is_quadratic and quartic[1] < 0:
        t = 1.0

    def go(length: float) -> _Moved:
        there = x + length * p
        return _Moved(there, pairs.at(there))

    if t is None:
        return None
    if pairs.loss.is_quadratic:
        moved = go(t)
        return moved if moved.slopes.value < here.value else None
    return _search_by_slopes(go, p, here, t)


@dataclass(frozen=True)
class LinePoint:
    """Loss and slope somewhere on a line."""

    t: float
    value: float
    slope: float


def _search_by_slopes(
    go: Callable[[float], _Moved], p: Array, here: Slopes, t: float
) -> _Moved | None:
    """Find where the slope is a third of what it was, by cubics through what was seen.

    A quartic that is right to second order proposes the first point. A search looks at 1.2 points
    on average on trading20 (k = 2), at 2.5 on entropic affinities (breast_colon, k = 20).
    """
    low, high = LinePoint(0.0, here.value, _dot(here.gradient, p)), None
    enough, best = SLOPE_LEFT * abs(low.slope), None
    for _ in range(MOST_TRIALS):
        moved = go(t)
        seen = LinePoint(t, moved.slopes.value, _dot(moved.slopes.gradient, p))
        if seen.value < here.value and (best is None or seen.value < best.slopes.value):
            best = moved
            if abs(seen.slope) <= enough:
                break
        if seen.slope < 0 and seen.value <= low.value:
            low = seen
        else:
            high = seen
        t = 2 * t if high is None else lowest_of_cubic(low, high)
    return best


def lowest_of_cubic(low: LinePoint, high: LinePoint) -> float:
    """Return the minimum of the cubic through two points, at least a tenth away from either."""
    width = high.t - low.t
    mean = low.slope + high.slope - 3 * (high.value - low.value) / width
    inside = mean * mean - low.slope * high.slope  # `**` of floats raises where this is infinite
    t = low.t + 0.5 * width
    if inside > 0 and np.isfinite(inside):
        root = sqrt(inside)
        bottom = high.slope - low.slope + 2 * root
        if bottom > 0:
            t = high.t - width * (high.slope + root - mean) / bottom
    return min(max(t, low.t + 0.1 * width), high.t - 0.1 * width)


def _dot(left: Array, right: Array) -> float:
    return float(namespace(left).sum(left * right))
