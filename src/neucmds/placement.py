"""Where new objects go, from their dissimilarities to the objects that were fitted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from neucmds.arrays import Array, asarray_like, device, namespace, to_numpy

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
    """The position x that minimises Σ_j (δ_j − (x − x_j)ᵀA(x − x_j))², for many objects at once.

    Gauss–Newton with step halving. With X centered, everything it needs of δ is its sum, its norm
    and Xᵀδ, so an iteration costs O(k²) an object, however many objects were fitted.

    Parameters
    ----------
    coordinates : array of shape (n, k)
        Coordinates of the fitted objects, centered.
    signs : array of shape (k,)
    """

    coordinates: Array
    signs: Array
    max_iter: int = 50

    def place(self, sq_dissimilarity: Array) -> Array:
        """Start from the linear solution and descend until no object gains.

        An object that gains no more stays where it is, so that its place does not depend on which
        others are placed with it.
        """
        xp = namespace(self.coordinates)
        x, a = self.coordinates, self.signs
        inner = xp.matrix_transpose(x) @ x
        # ρ_j = d_j − c + 2y·x_j with d = δ − diag(XAXᵀ), y = Ax and c = xᵀAx
        d = sq_dissimilarity - ((x * x) @ a)[None, :]
        form = _PlacementForm(inner, d @ x, xp.sum(d, axis=1), int(x.shape[0]), a)
        position = -0.5 * (form.pull @ form.inverse) * a[None, :]
        value = form.value(position)
        moving = xp.ones(value.shape, dtype=xp.bool, device=device(value))
        for _ in range(self.max_iter):
            moved, lower = form.shortened(position, form.gauss_newton(position), value)
            gains = value - lower > 1e-13 * xp.abs(value)
            position = xp.where(moving[:, None], moved, position)
            value = xp.where(moving, lower, value)
            moving = moving & gains
            if not bool(xp.any(moving)):
                break
        return position


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
        c = xp.sum(y * position, axis=1)
        linear = 4 * xp.sum(y * self.pull, axis=1) - 2 * c * self.total
        return linear + self.n * c * c + 4 * xp.sum((y @ self.inner) * y, axis=1)

    def gauss_newton(self, position: Array) -> Array:
        """Solve 4A(S + n·xxᵀ)A·step = −∇/2 for every object, by Sherman–Morrison."""
        xp = namespace(position)
        y = position * self.signs[None, :]
        c = xp.sum(y * position, axis=1)
        errors = self.total - self.n * c
        # the gradient of ½Σρ² is 2A(Σ_j ρ_j x_j − x Σ_j ρ_j); both A's cancel against the system's
        weighted = self.pull + 2 * (y @ self.inner)
        right = -0.5 * (weighted - errors[:, None] * position)
        z, u = right @ self.inverse, position @ self.inverse
        share = self.n * xp.sum(position * z, axis=1) / (1 + self.n * xp.sum(position * u, axis=1))
        return (z - share[:, None] * u) * self.signs[None, :]

    def shortened(self, position: Array, step: Array, value: Array) -> tuple[Array, Array]:
        """Halve every object's step until its value does not rise."""
        xp = namespace(position)
        length = xp.ones_like(value)
        for _ in range(30):
            moved = position + length[:, None] * step
            lower = self.value(moved)
            rises = lower > value
            if not bool(xp.any(rises)):
                return moved, lower
            length = xp.where(rises, length / 2, length)
        keep = (lower <= value)[:, None]
        return xp.where(keep, moved, position), xp.minimum(lower, value)
