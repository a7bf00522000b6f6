"""Weighted STRESS, Σ w_ij (D_ij − D̂_ij)²: when pairs count differently, or not at all.

No product with B helps here: the residual of every pair is needed, and is computed row block by
row block. The descent, its preconditioner and the exact line search are those of `refine`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from neucmds._backend.arrays import Array, asarray_like, namespace, row_blocks
from neucmds._methods.geometry import sq_dissimilarities
from neucmds._methods.refined.descent import (
    Callback,
    Descent,
    centered,
    descend,
    lowest_point,
    point_blocks,
)
from neucmds._methods.refined.signatures import steepest_column

Floats = npt.NDArray[np.float64]


def refine_weighted(
    sq_dissimilarity: Array,
    weights: Array,
    coordinates: Array,
    signs: Array,
    *,
    max_iter: int = 100,
    tol: float = 1e-3,
    callback: Callback | None = None,
) -> Descent[WeightedStress]:
    """Lower the weighted STRESS of coordinates with a fixed signature until it hardly moves.

    Parameters
    ----------
    sq_dissimilarity : array of shape (n, n)
        Entries of weight zero must be finite, and do not matter.
    weights : array of shape (n, n)
        Symmetric, not negative; the diagonal does not matter.
    coordinates : array of shape (n, k)
    signs : array of shape (k,)
    max_iter, tol, callback
        As in `neucmds._methods.refined.objective.refine`.
    """
    x = centered(namespace(coordinates).asarray(coordinates, copy=True))
    start = WeightedStress(sq_dissimilarity, weights, x, signs)
    size = float(namespace(weights).sum(weights * sq_dissimilarity**2))
    return descend(start, max_iter=max_iter, tol=tol, callback=callback, rounding=1e-14 * size)


@dataclass(frozen=True)
class WeightedStress:
    """Σ w_ij (D_ij − D̂_ij)² over all n² pairs at coordinates x."""

    sq_dissimilarity: Array
    weights: Array
    x: Array
    signs: Array

    @cached_property
    def value(self) -> float:
        """The weighted STRESS here."""
        return sum(float(namespace(w).sum(w * r * r)) for _, w, r in self._blocks())

    @cached_property
    def inner(self) -> Array:
        """S = XᵀX."""
        return namespace(self.x).matrix_transpose(self.x) @ self.x

    def gradient(self) -> Array:
        """8(Diag(R1) − R)XA with R = w∘(D̂ − D), centered as every translation is free."""
        xp = namespace(self.x)
        parts = []
        for rows, w, r in self._blocks():
            pull = w * r
            parts.append(xp.sum(pull, axis=1)[:, None] * self.x[rows, :] - pull @ self.x)
        return centered(8 * xp.concat(parts, axis=0) * self.signs[None, :])

    def with_column(self, sign: float) -> WeightedStress | None:
        """Add the column of a sign that lowers the weighted STRESS fastest; None if none does.

        Along t·a·vvᵀ it is f − t·a·vᵀHv + t²Σ w_ij (v_i − v_j)⁴, with H = −4(Diag(R1) − R) and
        R = w∘(D̂ − D).
        """
        xp = namespace(self.x)
        pull = xp.concat([w * r for _, w, r in self._blocks()], axis=0)
        total = xp.sum(pull, axis=1)[:, None]

        def rate(v: Array) -> Array:
            return centered((-4.0 * sign) * (total * v - pull @ v))

        found = steepest_column(rate, self.x[:, 0] if self.x.shape[1] else total[:, 0])
        if found is None:
            return None
        v, slope = found
        fourth = sum(
            float(xp.sum(w * (v[rows, :] - xp.matrix_transpose(v)) ** 4))
            for rows, w, _ in self._blocks()
        )
        if not fourth > 0:
            return None
        column = v * float(np.sqrt(slope / (2 * fourth)))
        new = asarray_like(np.array([sign]), self.x)
        return replace(
            self, x=xp.concat([self.x, column], axis=1), signs=xp.concat([self.signs, new])
        )

    def precondition(self, gradient: Array) -> Array:
        """Solve with the blocks of the unweighted problem, scaled by what each object weighs."""
        scaled = gradient / self._mean_weights[:, None]
        return centered(point_blocks(self.x, self.inner, self.signs, scaled))

    def minimize_along(self, direction: Array) -> WeightedStress | None:
        """Go to the lowest point of the quartic along a direction."""
        t = lowest_point(self._quartic(direction))
        if t is None:
            return None
        moved = replace(self, x=self.x + t * direction)
        return moved if moved.value < self.value else None

    def _quartic(self, p: Array) -> Floats:
        """Coefficients of Σ w(R + tD1 + t²D2)², constant first.

        D1_ij = 2(x_i − x_j)ᵀA(p_i − p_j) = D̂(x+p) − D̂(x) − D̂(p), and D2 = D̂(p).
        """
        xp, a = namespace(p), self.signs
        total = np.zeros(5)
        both = self.x + p
        for rows, w, r in self._blocks():
            d2 = sq_dissimilarities(p[rows, :], p, a)
            d1 = sq_dissimilarities(both[rows, :], both, a) - (r + self.sq_dissimilarity[rows, :])
            d1 = d1 - d2
            wr, w1 = w * r, w * d1
            total += [
                float(xp.sum(wr * r)),
                2 * float(xp.sum(wr * d1)),
                float(xp.sum(w1 * d1)) + 2 * float(xp.sum(wr * d2)),
                2 * float(xp.sum(w1 * d2)),
                float(xp.sum(w * d2 * d2)),
            ]
        return total

    @cached_property
    def _mean_weights(self) -> Array:
        xp = namespace(self.weights)
        mean = xp.mean(self.weights, axis=1)
        return xp.where(mean > 0, mean, xp.ones_like(mean))

    def _blocks(self) -> Iterator[tuple[slice, Array, Array]]:
        """Yield row slices, their weights, and D̂ − D there."""
        n = int(self.x.shape[0])
        for rows in row_blocks(n, n):
            d_hat = sq_dissimilarities(self.x[rows, :], self.x, self.signs)
            yield rows, self.weights[rows, :], d_hat - self.sq_dissimilarity[rows, :]
