"""Place new objects by a loss, each by its own damped Newton steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from neucmds.backend.arrays import (
    Array,
    asarray_like,
    device,
    k_smallest,
    namespace,
    solve_definite,
    stacked_cholesky,
    stacked_eigh,
)
from neucmds.form import Form
from neucmds.place.least_squares import (
    Fitted,
    LeastSquaresPlacement,
    in_blocks,
    known_and_counts,
    weighted_system,
)
from neucmds.refine.losses import PairLoss

MAX_ITER = 60
# An object has arrived when a step promises to gain less than this share of its loss.
TOL = 1e-9
# Share of an object's mean curvature that is added to all directions.
RIDGE = 1e-6
# Share of the promised gain below which the next step is damped more, and above which less.
TOO_LITTLE, ENOUGH = 0.5, 0.8
TINY = float(np.finfo(np.float64).tiny)
# Ratio of the largest weight to all others beyond which these are below rounding.
ALL_BUT_ONE = 1e12
# The mean of this many nearest fitted objects is one of the starts.
NEAREST = 5


@dataclass(frozen=True)
class LossPlacement:
    """Minimise Σ_j u_j q(D̂_j)² over the position x of each new object.

    The relative loss is a least-squares rule with weights 1/D², and has its closed form; by the
    distance loss an object descends from the better of two starts. `shrinkage` is as of
    `LeastSquaresPlacement`, for "relative" and of negative coordinates alone.
    """

    coordinates: Array
    form: Form
    loss: PairLoss
    shrinkage: float = 0.0

    def place(
        self, sq_dissimilarity: Array, weights: Array | None = None, own: Array | None = None
    ) -> Array:
        """Return coordinates (m, k), computed with the library and on the device of the rows.

        `own` has the number of the fitted object of each dissimilarity; by default all, in order.
        """
        sq_dissimilarity = self.form.to_sq(sq_dissimilarity)
        everyone = Fitted.of(self.coordinates, self.form, sq_dissimilarity)
        farthest = LeastSquaresPlacement(self.coordinates, self.form.signs).farthest

        def place(delta: Array, w: Array | None, ids: Array | None = None) -> Array:
            xp, counts = namespace(delta), w
            fitted = everyone if ids is None else everyone.own(ids)
            if bool(xp.any(xp.isnan(delta))):
                delta, counts = known_and_counts(delta, w)
            problem = _Problem(fitted, self.loss, delta, counts)
            if self.loss.name == "distance":
                return _descended(problem)
            x, left = _least(problem, self.shrinkage, farthest)
            if int(left.shape[0]):
                x[left] = _descended(problem.some(left), x[left])
            return x

        return in_blocks(place, sq_dissimilarity, weights, int(self.coordinates.shape[1]), own)


def _least(problem: _Problem, shrinkage: float, farthest: float) -> tuple[Array, Array]:
    """Return the minima of a loss quadratic in D̂, and the objects for which rounding hides them."""
    fitted, d = problem.fitted, problem.delta
    xp = namespace(d)
    _, slope, _ = problem.loss.terms(fitted.form, d, xp.asarray(d, copy=True))
    w = problem.counted(xp.ones_like(d) if slope is None else slope * slope)
    x = weighted_system(fitted, d, w).positions(shrinkage, farthest, every=False)
    residual = fitted.d_hat(x) - d
    pull = w * residual
    value = xp.vecdot(pull, residual)
    gradient = 4 * (xp.sum(pull, axis=1, keepdims=True) * x - fitted.sums(pull))
    # A step of g/h gains g²/2h, and h is about 8 Σ w |x − y|² at most.
    curvature = 8 * xp.vecdot(w, xp.sum(fitted.x**2, axis=-1))
    away = xp.vecdot(gradient, gradient) > TOL * value * curvature
    largest = xp.max(w, axis=1)
    ruled = largest > ALL_BUT_ONE * (xp.sum(w, axis=1) - largest)
    return x, xp.nonzero(ruled if shrinkage else away | ruled)[0]


def _descended(problem: _Problem, start: Array | None = None) -> Array:
    """Descend from the best of several starts."""
    xp, d = namespace(problem.delta), problem.delta
    # The rule of the squared loss has one minimum.
    squared = weighted_system(problem.fitted, d, problem.counted(xp.ones_like(d)))
    starts = [_mean_of_nearest(problem), squared.positions()]
    if start is not None:
        starts.append(start)
    values, each = xp.stack([problem.value(x) for x in starts]), np.arange(d.shape[0])
    best = (xp.argmin(values, axis=0), asarray_like(each, d, dtype=xp.int64))
    return _descend(problem, xp.stack(starts)[best], values[best])


def _mean_of_nearest(problem: _Problem) -> Array:
    measured, xp = problem.delta, namespace(problem.delta)
    if problem.counts is not None:
        measured = xp.where(problem.counts > 0, measured, xp.full_like(measured, np.inf))
    columns = k_smallest(measured, min(NEAREST, int(measured.shape[1])))[1]
    near = [problem.fitted.at(columns[:, a]) for a in range(int(columns.shape[1]))]
    return xp.mean(xp.stack(near), axis=0)


@dataclass(frozen=True)
class _Problem:
    """Some new objects: their dissimilarities, and how much each counts (None: all alike)."""

    fitted: Fitted
    loss: PairLoss
    delta: Array
    counts: Array | None

    def some(self, which: Array) -> _Problem:
        """Return the problem of these objects, which are different ones."""
        xp = namespace(self.delta)
        if which.shape[0] == self.delta.shape[0]:
            return self
        counts = None if self.counts is None else xp.take(self.counts, which, axis=0)
        delta = xp.take(self.delta, which, axis=0)
        return replace(self, fitted=self.fitted.some(which), delta=delta, counts=counts)

    def value(self, x: Array) -> Array:
        q, _, _ = self.loss.terms(self.fitted.form, self.delta, self.fitted.d_hat(x))
        return namespace(q).vecdot(self.counted(q), q)

    def counted(self, values: Array) -> Array:
        return values if self.counts is None else self.counts * values

    def model(self, x: Array) -> tuple[Array, Array]:
        """Gradient g and Hessian of every object, the latter made positive definite.

        g = 4A[(Σc)x − cY] with c = u q q′, and the Hessian is 8 A[Σ w (x − y)(x − y)ᵀ]A + 4(Σc)A
        with w = u(q′² + q q″).
        """
        xp, a = namespace(x), self.fitted.signs
        q, slope, bend = self.loss.terms(
            self.fitted.form, self.delta, self.fitted.d_hat(x), bend=True
        )
        if slope is None:
            slope = xp.ones_like(q)
        counted = self.counted(slope)
        c = counted * q
        w = counted * slope
        if bend is not None:
            w = w * bend
        pull = xp.sum(c, axis=1)[:, None]
        hessian = 8 * self._second_moments(x, w) * (a[:, None] * a[None, :])
        form = xp.eye(int(a.shape[0]), dtype=xp.float64, device=device(x)) * a
        hessian += (4 * pull)[:, :, None] * form
        gradient = 4 * a * (pull * x - self.fitted.sums(c))
        return gradient, _upwards(hessian)

    def _second_moments(self, x: Array, w: Array) -> Array:
        """Σ_j w_ij (x_i − y_j)(x_i − y_j)ᵀ for every object i."""
        xp, mean = namespace(x), self.fitted.sums(w)
        cross = x[:, :, None] * mean[:, None, :]
        own = xp.sum(w, axis=1)[:, None, None] * (x[:, :, None] * x[:, None, :])
        moments = self.fitted.second_moments(w)
        return moments - cross - xp.matrix_transpose(cross) + own


def _newton_step(gradient: Array, hessian: Array, damping: Array) -> tuple[Array, Array]:
    """Return the steps of damped Hessians, which are overwritten, and their promised gain."""
    xp, k = namespace(damping), int(gradient.shape[1])
    mean = xp.clip(xp.sum(xp.linalg.diagonal(hessian), axis=1) / k, min=TINY)
    eye = xp.eye(k, dtype=hessian.dtype, device=device(hessian))
    hessian += (damping * mean)[:, None, None] * eye
    step = solve_definite(hessian, -gradient)
    return step, -0.5 * xp.vecdot(gradient, step)


def _upwards(hessian: Array) -> Array:
    """Change the sign of negative eigenvalues, found by Cholesky factors first."""
    xp = namespace(hessian)
    factors = stacked_cholesky(hessian)
    bent: Any = slice(None) if factors is None else xp.nonzero(factors[1])[0]
    if factors is None or int(bent.shape[0]):
        curvatures, axes = stacked_eigh(hessian[bent])
        hessian[bent] = (axes * xp.abs(curvatures)[:, None, :]) @ xp.matrix_transpose(axes)
    return hessian


def _descend(problem: _Problem, x: Array, value: Array) -> Array:
    """Damped Newton steps on all objects at once, until these promise no gain.

    Not the gain itself, which rounding hides next to the minimum. Gauss–Newton takes up to 50 steps
    instead of 13.
    """
    xp = namespace(x)
    gradient, hessian = problem.model(x)
    damping = xp.full_like(value, 1e-3)
    left = asarray_like(np.arange(value.shape[0]), value, dtype=xp.int64)
    for _ in range(MAX_ITER):
        step, promised = _newton_step(gradient[left], hessian[left], damping[left] + RIDGE)
        start, now = x[left], value[left]
        trial = start + step
        reached = problem.some(left).value(trial)
        better = reached < now
        arrived = promised <= TOL * now
        kept = (now - reached) / xp.clip(promised, min=TINY)
        change = xp.where(kept > ENOUGH, xp.full_like(kept, 0.2), xp.ones_like(kept))
        change = xp.where(kept < TOO_LITTLE, xp.full_like(kept, 2.0), change)
        damping[left] = damping[left] * xp.where(better, change, xp.full_like(kept, 8.0))
        x[left] = xp.where(better[:, None], trial, start)
        value[left] = xp.where(better, reached, now)
        moved, left = left[better & ~arrived], left[~arrived]
        if not int(left.shape[0]):
            break
        if int(moved.shape[0]):
            gradient[moved], hessian[moved] = problem.some(moved).model(x[moved])
    return x
