"""Where new objects go by a loss of pairs: every object by its own damped Newton steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds._backend.arrays import Array, asarray_like, row_blocks, to_numpy
from neucmds._backend.threads import parallel_map
from neucmds._methods.geometry import sq_dissimilarities
from neucmds._methods.refined.losses import PairLoss
from neucmds._placement.rules import LeastSquaresPlacement

Floats = npt.NDArray[np.float64]

# Entries of a block of new objects and fitted ones: 4 MB in float64.
BLOCK = 2**19
MAX_ITER = 60
# An object has arrived when a step promises to gain less than this share of its loss.
TOL = 1e-9
# Share of what a step promises below which the next is damped more, and above which less.
TOO_LITTLE, ENOUGH = 0.5, 0.8
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
        Least damping of a step, in mean curvatures of an object's loss: it holds an object at its
        start along directions its dissimilarities say nothing about.
    """

    coordinates: Array
    signs: Array
    loss: PairLoss
    ridge: float = 1e-6

    def place(self, sq_dissimilarity: Array, start: Array | None = None) -> Array:
        """Return coordinates (m, k) of m objects given their (m, n) squared dissimilarities.

        Parameters
        ----------
        sq_dissimilarity : array of shape (m, n)
            NaN where a dissimilarity is not known.
        start : array of shape (m, k), optional
            A further place to start from; the lowest loss of all starts is descended from.
        """
        delta = to_numpy(sq_dissimilarity).astype(np.float64, copy=False)
        other = None if start is None else to_numpy(start).astype(np.float64, copy=False)
        m, n = delta.shape

        def place(rows: slice) -> Floats:
            return self._place(delta[rows], None if other is None else other[rows])

        parts = parallel_map(place, list(row_blocks(m, n, BLOCK))) if m else []
        placed = np.concatenate(parts) if parts else np.zeros((0, self._x.shape[1]))
        return asarray_like(placed, sq_dissimilarity)

    def rescaled(self, factor: float) -> LossPlacement:
        """Return the rule for dissimilarities, and coordinates, that are so many times as large."""
        loss = replace(self.loss, floor=self.loss.floor * factor * factor)
        return replace(self, coordinates=self.coordinates * factor, loss=loss)

    @cached_property
    def _x(self) -> Floats:
        return to_numpy(self.coordinates).astype(np.float64)

    @cached_property
    def _signs(self) -> Floats:
        return to_numpy(self.signs).astype(np.float64)

    @cached_property
    def _products(self) -> tuple[Floats, npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Products y_a y_b of the fitted coordinates, a ≤ b, and which a and b they are."""
        a, b = np.triu_indices(self._x.shape[1])
        return self._x[:, a] * self._x[:, b], a, b

    @cached_property
    def _squared(self) -> LeastSquaresPlacement:
        """The rule of the squared loss, which has one minimum: a further start."""
        return LeastSquaresPlacement(self._x, self._signs)

    def _place(self, delta: Floats, start: Floats | None) -> Floats:
        known = ~np.isnan(delta)
        problem = _Problem(self, np.where(known, delta, 0.0), known.astype(np.float64))
        starts = [self._mean_of_nearest(problem), self._squared.place(delta)]
        if start is not None:
            starts.append(start)
        values = np.stack([problem.value(x) for x in starts])
        best = values.argmin(axis=0)
        x = np.stack(starts)[best, np.arange(delta.shape[0])]
        return _descend(problem, x, values.min(axis=0))

    def _mean_of_nearest(self, problem: _Problem) -> Floats:
        measured = np.where(problem.known > 0, problem.delta, np.inf)
        count = min(NEAREST, measured.shape[1])
        ids = np.argpartition(measured, count - 1, axis=1)[:, :count]
        return np.asarray(self._x[ids].mean(axis=1))


@dataclass(frozen=True)
class _Problem:
    """Some new objects: their dissimilarities, and which of them are known."""

    rule: LossPlacement
    delta: Floats
    known: Floats

    def some(self, which: npt.NDArray[np.intp]) -> _Problem:
        return replace(self, delta=self.delta[which], known=self.known[which])

    def value(self, x: Floats) -> Floats:
        terms = self.rule.loss.terms(self.delta, self._d_hat(x))
        return np.asarray(np.einsum("ij,ij->i", self.known, terms.residual**2))

    def _d_hat(self, x: Floats) -> Any:
        return sq_dissimilarities(x, self.rule._x, self.rule._signs)

    def model(self, x: Floats) -> _Model:
        """Gradient g and Hessian of every object.

        g = 4A[(Σc)x − cY] with c = u q q′, and the Hessian is 8 A[Σ w (x − y)(x − y)ᵀ]A + 4(Σc)A
        with w = u(q′² + q q″).
        """
        y, a = self.rule._x, self.rule._signs
        terms = self.rule.loss.terms(self.delta, self._d_hat(x), bend=True)
        slope = self.known if terms.slope is None else self.known * terms.slope
        c = slope * terms.residual
        w = slope if terms.slope is None else slope * terms.slope
        if terms.curvature is not None:
            w *= terms.curvature
        pull = c.sum(axis=1)[:, None]
        hessian = 8 * self._second_moments(x, w) * np.outer(a, a)
        hessian[:, np.arange(a.size), np.arange(a.size)] += 4 * pull * a
        curvatures, axes = np.linalg.eigh(hessian)
        gradient = 4 * a * (pull * x - c @ y)
        return _Model(np.einsum("iab,ia->ib", axes, gradient), np.abs(curvatures), axes)

    def _second_moments(self, x: Floats, w: Floats) -> Floats:
        """Σ_j w_ij (x_i − y_j)(x_i − y_j)ᵀ for every object i."""
        products, a, b = self.rule._products
        k = x.shape[1]
        moments = np.empty((x.shape[0], k, k))
        moments[:, a, b] = w @ products
        moments[:, b, a] = moments[:, a, b]
        mean = w @ self.rule._x
        cross = x[:, :, None] * mean[:, None, :]
        own = w.sum(axis=1)[:, None, None] * (x[:, :, None] * x[:, None, :])
        return np.asarray(moments - cross - cross.transpose(0, 2, 1) + own)


@dataclass(frozen=True)
class _Model:
    """What the loss of some objects looks like from where they are.

    Parameters
    ----------
    slopes, curvatures : ndarrays of shape (m, k)
        Along each axis; where the loss curves downwards, as if it did upwards.
    axes : ndarray of shape (m, k, k)
        Eigenvectors of the Hessian, in columns.
    """

    slopes: Floats
    curvatures: Floats
    axes: Floats

    def step(self, which: npt.NDArray[np.intp], damping: Floats) -> tuple[Floats, Floats]:
        """Return a Newton step of damped curvatures, and what it promises to gain."""
        slopes, curvatures = self.slopes[which], self.curvatures[which]
        held = damping[:, None] * np.maximum(
            curvatures.mean(axis=1, keepdims=True), np.finfo(np.float64).tiny
        )
        along = -slopes / (curvatures + held)
        return np.einsum("iab,ib->ia", self.axes[which], along), -0.5 * np.einsum(
            "ij,ij->i", slopes, along
        )

    def renew(self, which: npt.NDArray[np.intp], new: _Model) -> None:
        self.slopes[which], self.curvatures[which] = new.slopes, new.curvatures
        self.axes[which] = new.axes


def _descend(problem: _Problem, x: Floats, value: Floats) -> Floats:
    """Newton's method on all objects at once, damped; those that have arrived drop out.

    Gauss–Newton leaves out what pairs of large residual curve: an object took 5 to 50 steps,
    against 5 to 13 (digits, k = 20, and objects that the coordinates put below D̂ = 0). And what a
    step promises tells when to end, not what it gains: next to the minimum rounding lets none gain.
    """
    x, value = x.copy(), value.copy()
    model = problem.model(x)
    damping = np.full(value.size, 1e-3)
    left = np.arange(value.size)
    for _ in range(MAX_ITER):
        step, promised = model.step(left, damping[left] + problem.rule.ridge)
        trial = x[left] + step
        reached = problem.some(left).value(trial)
        better = reached < value[left]
        arrived = promised <= TOL * value[left]
        kept = (value[left] - reached) / np.maximum(promised, np.finfo(np.float64).tiny)
        too_little, enough = kept < TOO_LITTLE, kept > ENOUGH
        damping[left] *= np.select([~better, too_little, enough], [8.0, 2.0, 0.2], 1.0)
        x[left[better]], value[left[better]] = trial[better], reached[better]
        moved, left = left[better & ~arrived], left[~arrived]
        if left.size == 0:
            break
        model.renew(moved, problem.some(moved).model(x[moved]))
    return x
