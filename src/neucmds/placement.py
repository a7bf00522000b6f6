"""Where new objects go, from their dissimilarities to the objects that were fitted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from neucmds.arrays import Array, asarray_like, namespace, to_numpy

__all__ = ["LeastSquaresPlacement", "LinearPlacement", "Placement"]


class Placement(Protocol):
    """A rule that turns squared dissimilarities to the fitted objects into coordinates."""

    def place(self, sq_dissimilarity: Array) -> Array:
        """Return coordinates (m, k) of m objects given their (m, n) squared dissimilarities."""


@dataclass(frozen=True)
class LinearPlacement:
    """Triangulation: the row of U_W that B would have given the new object, then as for the rest.

    On the fitted objects themselves it returns the fitted coordinates.

    Parameters
    ----------
    mean : array of shape (n,)
        Column means of D.
    projector : array of shape (n, k)
        ``U_W Λ_W⁻¹`` times the map from U_W to coordinates; its columns are centered.
    """

    mean: Array
    projector: Array

    def place(self, sq_dissimilarity: Array) -> Array:
        """−½(δ − mean) · C · U_W · Λ_W⁻¹ · V√|μ|."""
        return -0.5 * ((sq_dissimilarity - self.mean[None, :]) @ self.projector)


@dataclass(frozen=True)
class LeastSquaresPlacement:
    """The x that minimises Σ_j (δ_j − b_j − (x − x_j)ᵀA(x − x_j))² + 4Σ_a r_a x_a², for many at once.

    Gauss–Newton with step halving. With X centered, everything it needs of δ is its sum and Xᵀδ,
    so an iteration costs O(k²) an object, however many objects were fitted.

    Parameters
    ----------
    coordinates : array of shape (n, k)
        Coordinates of the fitted objects, centered.
    signs : array of shape (k,)
    offsets : array of shape (n,), optional
        b: what the dissimilarities to each fitted object exceed their model by, whoever the other
        object is.
    ridge : array of shape (k,), optional
        r: how strongly each coordinate is held at the center.
    """

    coordinates: Array
    signs: Array
    offsets: Array | None = None
    ridge: Array | None = None
    max_iter: int = 50

    def place(self, sq_dissimilarity: Array) -> Array:
        """Start from the linear solution and descend until no object moves."""
        xp = namespace(self.coordinates)
        form = self._form(sq_dissimilarity)
        position = -0.5 * (form.pull @ form.inverse) * form.signs[None, :]
        value = form.value(position)
        for _ in range(self.max_iter):
            moved, lower = form.shortened(position, form.gauss_newton(position), value)
            done = bool(xp.all(value - lower <= 1e-12 * xp.abs(value)))
            position, value = moved, lower
            if done:
                break
        return xp.astype(position, sq_dissimilarity.dtype, copy=False)

    def _form(self, sq_dissimilarity: Array) -> _PlacementForm:
        # ρ_j = d_j − c + 2y·x_j with d = δ − b − diag(XAXᵀ), y = Ax and c = xᵀAx
        xp = namespace(self.coordinates)
        x = xp.astype(self.coordinates, xp.float64, copy=False)
        a = xp.astype(self.signs, xp.float64, copy=False)
        shift = (x * x) @ a
        if self.offsets is not None:
            shift = shift + xp.astype(self.offsets, xp.float64, copy=False)
        delta = sq_dissimilarity
        # Xᵀ(δ − shift) in two products: the block itself is only read, never copied.
        pull = xp.astype(delta @ xp.astype(x, delta.dtype, copy=False), xp.float64, copy=False)
        total = xp.sum(delta, axis=1, dtype=xp.float64) - xp.sum(shift)
        inner = xp.matrix_transpose(x) @ x
        if self.ridge is not None:
            inner = inner + asarray_like(np.diag(to_numpy(self.ridge)), x)
        return _PlacementForm(inner, pull - (shift @ x)[None, :], total, int(x.shape[0]), a)


@dataclass(frozen=True)
class _PlacementForm:
    """Σ_j ρ_j² up to a constant, and its Gauss–Newton step, for a block of objects."""

    inner: Array
    pull: Array
    total: Array
    n: int
    signs: Array

    @cached_property
    def inverse(self) -> Array:
        s = to_numpy(self.inner)
        s = s + np.eye(s.shape[0]) * 1e-12 * np.trace(s)
        return asarray_like(np.linalg.inv(s), self.inner)

    def value(self, position: Array) -> Array:
        xp = namespace(position)
        y = position * self.signs[None, :]
        c = xp.vecdot(y, position)
        linear = 4 * xp.vecdot(y, self.pull) - 2 * c * self.total
        return linear + self.n * c * c + 4 * xp.vecdot(y @ self.inner, y)

    def gauss_newton(self, position: Array) -> Array:
        """Solve 4A(S + n·xxᵀ)A·step = −∇/2 for every object, by Sherman–Morrison."""
        xp = namespace(position)
        y = position * self.signs[None, :]
        errors = self.total - self.n * xp.vecdot(y, position)
        # the gradient of ½Σρ² is 2A(Σ_j ρ_j x_j − x Σ_j ρ_j); both A's cancel against the system's
        weighted = self.pull + 2 * (y @ self.inner)
        right = -0.5 * (weighted - errors[:, None] * position)
        z, u = right @ self.inverse, position @ self.inverse
        share = self.n * xp.vecdot(position, z) / (1 + self.n * xp.vecdot(position, u))
        return (z - share[:, None] * u) * self.signs[None, :]

    def shortened(self, position: Array, step: Array, value: Array) -> tuple[Array, Array]:
        """Halve every object's step until its value does not rise by more than rounding."""
        xp = namespace(position)
        length = xp.ones_like(value)
        slack = 1e-14 * xp.abs(value)
        for _ in range(30):
            moved = position + length[:, None] * step
            lower = self.value(moved)
            rises = lower > value + slack
            if not bool(xp.any(rises)):
                break
            length = xp.where(rises, length / 2, length)
        keep = (lower <= value)[:, None]
        return xp.where(keep, moved, position), xp.minimum(lower, value)
