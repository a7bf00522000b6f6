"""Where new objects go by a loss of pairs: every object by its own damped Gauss–Newton steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np

from neucmds._backend.arrays import (
    Array,
    asarray_like,
    cholesky_solve,
    device,
    empty_like,
    free_memory,
    is_numpy,
    k_smallest,
    namespace,
    row_blocks,
    stacked_cholesky,
    stacked_eigh,
    to_numpy,
)
from neucmds._backend.threads import parallel_map
from neucmds._methods.geometry import sq_dissimilarities
from neucmds._methods.refined.losses import PairLoss
from neucmds._placement.quadratic_rule import least_point
from neucmds._placement.rules import LeastSquaresPlacement

# Entries of a block of new objects and fitted ones: 4 MB in float64.
BLOCK = 2**19
# The same on a GPU, where a block must fill the chip: 1 GB, if ten such arrays are free.
DEVICE_BLOCK = 2**27
MAX_ITER = 60
# An object has arrived when a step promises to gain less than this share of its loss.
TOL = 1e-9
# Share of what a step promises below which the next is damped more, and above which less.
TOO_LITTLE, ENOUGH = 0.5, 0.8
TINY = float(np.finfo(np.float64).tiny)
# Times the weights of all others from which on one rules: what they say is below rounding then.
ALL_BUT_ONE = 1e12
# Nearest fitted objects whose mean is a start: one start of several.
NEAREST = 5


@dataclass(frozen=True)
class LossPlacement:
    """Minimise Σ_j u_j q(D̂_j)² over the position x of each new object.

    Parameters
    ----------
    coordinates : array of shape (n, k)
        Coordinates of the fitted objects, centered.
    signs : array of shape (k,)
    loss : PairLoss
        The loss of the fit, with its floor.
    ridge : float, default=1e-6
        Share of an object's own Gauss–Newton block, averaged over its coordinates, that holds it at
        its start along directions its dissimilarities say nothing about.
    """

    coordinates: Array
    signs: Array
    loss: PairLoss
    ridge: float = 1e-6

    def place(self, sq_dissimilarity: Array, weights: Array | None = None) -> Array:
        """Return coordinates (m, k) of m objects given their (m, n) squared dissimilarities.

        They are computed with the library and on the device of the dissimilarities.

        Parameters
        ----------
        sq_dissimilarity : array of shape (m, n)
            NaN where a dissimilarity is not known.
        weights : array of shape (m, n), optional
            u: how much each dissimilarity counts.
        """
        xp = namespace(sq_dissimilarity)
        delta = xp.astype(sq_dissimilarity, xp.float64, copy=False)
        counts = None if weights is None else asarray_like(weights, delta)
        (m, n), k = (int(size) for size in delta.shape), int(self.coordinates.shape[1])
        if not m or not k:
            return empty_like(sq_dissimilarity, (m, k))
        fitted = _Fitted.of(self, delta)
        # The rule of the squared loss has one minimum.
        squared = LeastSquaresPlacement(self.coordinates, self.signs)

        def place(rows: slice) -> Array:
            some = None if counts is None else counts[rows, :]
            return _place(fitted, squared, delta[rows, :], some)

        if is_numpy(delta):
            parts = parallel_map(place, list(row_blocks(m, n, BLOCK)))
        else:
            parts = [place(rows) for rows in _device_blocks(delta)]
        return xp.astype(xp.concat(parts, axis=0), sq_dissimilarity.dtype, copy=False)


@dataclass(frozen=True)
class _Fitted:
    """The fitted objects where the new ones lie: X, A, and the products of two columns of X.

    Parameters
    ----------
    x : array of shape (n, k), float64
    signs : array of shape (k,)
    loss : PairLoss
    ridge : float
    products : array of shape (n, k(k + 1)/2)
        x_a x_b for a ≤ b.
    spread : array of shape (k²,), integer
        Which of these each entry of a k × k matrix is.
    """

    x: Array
    signs: Array
    loss: PairLoss
    ridge: float
    products: Array
    spread: Array

    @classmethod
    def of(cls, rule: LossPlacement, like: Array) -> _Fitted:
        xp, x = namespace(like), to_numpy(rule.coordinates).astype(np.float64)
        upper = np.triu_indices(x.shape[1])
        spread = np.empty((x.shape[1], x.shape[1]), dtype=np.int64)
        spread[upper] = spread.T[upper] = np.arange(upper[0].size)
        products = x[:, upper[0]] * x[:, upper[1]]
        return cls(
            asarray_like(x, like),
            asarray_like(to_numpy(rule.signs), like),
            rule.loss,
            rule.ridge,
            asarray_like(products, like),
            asarray_like(spread.ravel(), like, dtype=xp.int64),
        )


def _least(problem: _Problem) -> tuple[Array, Array]:
    """Return the minima of a loss quadratic in D̂, and of which objects rounding hides them."""
    fitted, d = problem.fitted, problem.delta
    xp = namespace(d)
    slope = fitted.loss.terms(d, xp.asarray(d, copy=True)).slope
    w = problem.counted(xp.ones_like(d) if slope is None else slope)
    if slope is not None:
        w = w * slope
    x = least_point(fitted.x, fitted.signs, fitted.products, fitted.spread, w, d)
    residual = problem.d_hat(x) - d
    pull = w * residual
    value = xp.vecdot(pull, residual)
    gradient = 4 * (xp.sum(pull, axis=1, keepdims=True) * x - pull @ fitted.x)
    # A step of g/h gains g²/2h, and h is about 8 Σ w |x − y|² at most.
    curvature = 8 * (w @ xp.sum(fitted.x**2, axis=1))
    away = xp.vecdot(gradient, gradient) > TOL * value * curvature
    largest = xp.max(w, axis=1)
    ruled = largest > ALL_BUT_ONE * (xp.sum(w, axis=1) - largest)
    return x, xp.nonzero(away | ruled)[0]


def _device_blocks(delta: Array) -> Iterator[slice]:
    """Cut rows into equal blocks that fit: for a last row alone all steps are taken once more."""
    m, n = (int(size) for size in delta.shape)
    free = free_memory(delta)
    entries = DEVICE_BLOCK if free is None else min(DEVICE_BLOCK, max(BLOCK, free // 80))
    count = -(-m * n // entries)
    return row_blocks(m, 1, -(-m // count))


def _place(
    fitted: _Fitted,
    squared: LeastSquaresPlacement,
    delta: Array,
    weights: Array | None,
) -> Array:
    """Place some objects: at the minimum, or by descent where there is no closed form."""
    xp = namespace(delta)
    missing, counts = xp.isnan(delta), weights
    if bool(xp.any(missing)):
        counts = xp.astype(~missing, xp.float64)
        if weights is not None:
            counts = counts * weights
        problem = _Problem(fitted, xp.where(missing, xp.zeros_like(delta), delta), counts)
    else:
        problem = _Problem(fitted, delta, counts)
    if not fitted.loss.is_quadratic:
        return _descended(problem, squared, delta)
    x, left = _least(problem)
    if int(left.shape[0]):
        x[left] = _descended(problem.some(left), squared, delta[left], x[left])
    return x


def _descended(
    problem: _Problem, squared: LeastSquaresPlacement, delta: Array, start: Array | None = None
) -> Array:
    """Descend from the best of several starts."""
    xp = namespace(delta)
    starts = [_mean_of_nearest(problem), squared.place(delta)]
    if start is not None:
        starts.append(start)
    values = xp.stack([problem.value(x) for x in starts])
    # From 1e75 times the fitted ones on the squared rule overflows, and argmin prefers NaN.
    values = xp.where(xp.isnan(values), xp.full_like(values, np.inf), values)
    best = xp.argmin(values, axis=0)
    x, value = starts[0], values[0, :]
    for i in range(1, len(starts)):
        here = best == i
        x = xp.where(here[:, None], starts[i], x)
        value = xp.where(here, values[i, :], value)
    return _descend(problem, x, value)


def _mean_of_nearest(problem: _Problem) -> Array:
    measured, x = problem.delta, problem.fitted.x
    xp = namespace(measured)
    if problem.counts is not None:
        measured = xp.where(problem.counts > 0, measured, xp.full_like(measured, np.inf))
    count = min(NEAREST, int(measured.shape[1]))
    if is_numpy(measured):
        ids = np.argpartition(measured, count - 1, axis=1)[:, :count]
    else:
        ids = k_smallest(measured, count)[1]
    return xp.mean(x[ids], axis=1)


@dataclass(frozen=True)
class _Problem:
    """Some new objects: their dissimilarities, and how much each counts (None: all alike)."""

    fitted: _Fitted
    delta: Array
    counts: Array | None

    def some(self, which: Array) -> _Problem:
        """Return the problem of these objects, which are different ones."""
        xp = namespace(self.delta)
        if which.shape[0] == self.delta.shape[0]:
            return self
        counts = None if self.counts is None else xp.take(self.counts, which, axis=0)
        return replace(self, delta=xp.take(self.delta, which, axis=0), counts=counts)

    def value(self, x: Array) -> Array:
        terms = self.fitted.loss.terms(self.delta, self.d_hat(x))
        q = terms.residual
        return namespace(q).vecdot(self.counted(q), q)

    def counted(self, values: Array) -> Array:
        return values if self.counts is None else self.counts * values

    def d_hat(self, x: Array) -> Any:
        return sq_dissimilarities(x, self.fitted.x, self.fitted.signs)

    def model(self, x: Array) -> _Model:
        """Gradient g and Hessian of every object.

        g = 4A[(Σc)x − cY] with c = u q q′, and the Hessian is 8 A[Σ w (x − y)(x − y)ᵀ]A + 4(Σc)A
        with w = u(q′² + q q″).
        """
        xp, y, a = namespace(x), self.fitted.x, self.fitted.signs
        terms = self.fitted.loss.terms(self.delta, self.d_hat(x), bend=True)
        one = xp.ones_like(terms.residual) if terms.slope is None else terms.slope
        slope = self.counted(one)
        c = slope * terms.residual
        w = slope if terms.slope is None else slope * terms.slope
        if terms.curvature is not None:
            w = w * terms.curvature
        pull = xp.sum(c, axis=1)[:, None]
        hessian = 8 * self._second_moments(x, w) * (a[:, None] * a[None, :])
        form = xp.eye(int(a.shape[0]), dtype=xp.float64, device=device(x)) * a
        hessian += (4 * pull)[:, :, None] * form
        gradient = 4 * a * (pull * x - c @ y)
        solved = None if is_numpy(hessian) else _BySolution.of(gradient, hessian)
        if solved is not None:
            return solved
        curvatures, axes = stacked_eigh(hessian)
        slopes = (xp.matrix_transpose(axes) @ gradient[:, :, None])[:, :, 0]
        return _ByAxes(slopes, xp.abs(curvatures), axes)

    def _second_moments(self, x: Array, w: Array) -> Array:
        """Σ_j w_ij (x_i − y_j)(x_i − y_j)ᵀ for every object i."""
        xp, (m, k) = namespace(x), x.shape
        moments = xp.reshape(
            xp.take(w @ self.fitted.products, self.fitted.spread, axis=1), (m, k, k)
        )
        mean = w @ self.fitted.x
        cross = x[:, :, None] * mean[:, None, :]
        own = xp.sum(w, axis=1)[:, None, None] * (x[:, :, None] * x[:, None, :])
        return moments - cross - xp.matrix_transpose(cross) + own


class _Model(Protocol):
    """What the loss of some objects looks like from where they are."""

    def step(self, which: Array, damping: Array) -> tuple[Array, Array]:
        """Return a Newton step of damped curvatures, and what it promises to gain."""

    def renew(self, which: Array, new: Self) -> None:
        """Take over the model of some objects."""


@dataclass(frozen=True)
class _ByAxes:
    """A model by the eigenvectors of the Hessians.

    Parameters
    ----------
    slopes, curvatures : arrays of shape (m, k)
        Along each axis; where the loss curves downwards, as if it did upwards.
    axes : array of shape (m, k, k)
        Eigenvectors of the Hessian, in columns.
    """

    slopes: Array
    curvatures: Array
    axes: Array

    def step(self, which: Array, damping: Array) -> tuple[Array, Array]:
        xp = namespace(damping)
        slopes, curvatures = self.slopes[which], self.curvatures[which]
        mean = xp.clip(xp.mean(curvatures, axis=1), min=TINY)
        along = -slopes / (curvatures + (damping * mean)[:, None])
        step = (self.axes[which] @ along[:, :, None])[:, :, 0]
        return step, -0.5 * xp.vecdot(slopes, along)

    def renew(self, which: Array, new: Self) -> None:
        self.slopes[which], self.curvatures[which] = new.slopes, new.curvatures
        self.axes[which] = new.axes


@dataclass(frozen=True)
class _BySolution:
    """A model by solutions alone: eigenvectors took 2.2 of 3.8 s for a million objects (H200).

    Parameters
    ----------
    gradient : array of shape (m, k)
    hessian : array of shape (m, k, k)
        Positive definite: where the loss curves downwards, as if it did upwards.
    """

    gradient: Array
    hessian: Array

    @classmethod
    def of(cls, gradient: Array, hessian: Array) -> Self | None:
        """None where the library has no Cholesky factors of matrices that may not have any."""
        found = stacked_cholesky(hessian)
        if found is None:
            return None
        xp = namespace(hessian)
        (bent,) = xp.nonzero(found[1])
        if int(bent.shape[0]):
            curvatures, axes = stacked_eigh(hessian[bent])
            upwards = axes * xp.abs(curvatures)[:, None, :]
            hessian[bent] = upwards @ xp.matrix_transpose(axes)
        return cls(gradient, hessian)

    def step(self, which: Array, damping: Array) -> tuple[Array, Array]:
        xp, k = namespace(damping), int(self.gradient.shape[1])
        gradient, hessian = self.gradient[which], self.hessian[which]
        mean = xp.clip(xp.sum(xp.linalg.diagonal(hessian), axis=1) / k, min=TINY)
        eye = xp.eye(k, dtype=hessian.dtype, device=device(hessian))
        hessian += (damping * mean)[:, None, None] * eye
        found = stacked_cholesky(hessian)
        assert found is not None
        step = cholesky_solve(found[0], -gradient)
        return step, -0.5 * xp.vecdot(gradient, step)

    def renew(self, which: Array, new: Self) -> None:
        self.gradient[which], self.hessian[which] = new.gradient, new.hessian


def _descend(problem: _Problem, x: Array, value: Array) -> Array:
    """Newton's method on all objects at once, damped; those that have arrived drop out.

    Gauss–Newton leaves out what pairs of large residual curve: an object took 5 to 50 steps,
    against 5 to 13 (digits, k = 20, and objects that the coordinates put below D̂ = 0). And what a
    step promises tells when to end, not what it gains: next to the minimum rounding lets none gain.
    """
    xp = namespace(x)
    x, value = xp.asarray(x, copy=True), xp.asarray(value, copy=True)
    model = problem.model(x)
    damping = xp.full_like(value, 1e-3)
    left = asarray_like(np.arange(value.shape[0]), value, dtype=xp.int64)
    for _ in range(MAX_ITER):
        step, promised = model.step(left, damping[left] + problem.fitted.ridge)
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
            model.renew(moved, problem.some(moved).model(x[moved]))
    return x
