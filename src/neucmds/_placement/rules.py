"""Where new objects go, from their dissimilarities to the objects that were fitted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from neucmds._backend.arrays import Array, asarray_like, namespace, to_numpy

__all__ = ["LeastSquaresPlacement", "LinearPlacement", "Placement", "secular_minimum"]

Floats = npt.NDArray[np.float64]


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
    """Least squares: minimise Σ_j (δ_j − b_j − (x − x_j)ᵀA(x − x_j))² + 4Σ_a r_a x_a² over x.

    The global minimum, by one secular equation an object. With X centered, y = Ax and a W that has
    Wᵀ(XᵀX + R)W = I and WᵀAW = Diag(m), y = Wz turns the objective into
    4|z|² + 4p·z − 2tc + nc² with c = Σ m z²: a quadratic and a convex function of another. Hence
    z = −p/(2 − e·m) where e = t − nc solves a monotone equation on the interval of 2 − e·m > 0.

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

    def place(self, sq_dissimilarity: Array) -> Array:
        """Two products with n×k matrices, then O(k) an object and iteration."""
        delta = sq_dissimilarity
        xp = namespace(delta)
        x, to_y, m, shift = self._parts
        # Wᵀ Xᵀ (δ − shift) and the sum of δ − shift: the block is read, never copied.
        p = delta @ asarray_like(x @ to_y, delta)
        p = xp.astype(p, xp.float64, copy=False) - asarray_like(shift @ x @ to_y, p, xp.float64)
        t = xp.sum(delta, axis=1, dtype=xp.float64) - float(shift.sum())
        m_here = asarray_like(m, p)
        z = secular_minimum(p, t, m_here, int(x.shape[0]))
        position = z @ asarray_like((self._signs[:, None] * to_y).T, z)
        return xp.astype(position, delta.dtype, copy=False)

    @property
    def _signs(self) -> Floats:
        return to_numpy(self.signs).astype(np.float64)

    @cached_property
    def _parts(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return X, W, m and b + diag(XAXᵀ), in NumPy float64: they are small."""
        x, a = to_numpy(self.coordinates).astype(np.float64), self._signs
        shift = (x * x) @ a
        if self.offsets is not None:
            shift = shift + to_numpy(self.offsets)
        inner = x.T @ x
        if self.ridge is not None:
            inner = inner + np.diag(to_numpy(self.ridge))
        # A column that has all but vanished must not be divided by.
        inner = inner + np.eye(a.size) * 1e-12 * np.trace(inner)
        lengths, axes = np.linalg.eigh(inner)
        root = axes / np.sqrt(np.maximum(lengths, np.finfo(np.float64).tiny))
        m, rotation = np.linalg.eigh(root.T @ (a[:, None] * root))
        return x, root @ rotation, m, shift


def secular_minimum(p: Array, t: Array, m: Array, n: int, max_iter: int = 100) -> Array:
    """Minimise 4|z|² + 4p·z − 2tc + nc² with c = Σ_a m_a z_a², for every row of p and entry of t.

    Newton's method, kept within a bracket, on h(e) = t − nΣ m p²/(2 − em)² − e. It falls by 1 or
    more wherever e rises by 1, so the root lies between 0 and h(0).
    """
    xp = namespace(p)
    if p.shape[1] == 0:
        return p
    e = xp.zeros_like(t)
    h0, _ = _secular(e, p, t, m, n)
    lowest, highest = _pole_free(m)
    lo, hi = xp.clip(h0, min=lowest, max=0.0), xp.clip(h0, min=0.0, max=highest)
    h, fall = _secular(e, p, t, m, n)
    for _ in range(max_iter):
        moved = e + h / fall
        moved = xp.where((moved >= lo) & (moved <= hi), moved, 0.5 * (lo + hi))
        done = bool(xp.all(xp.abs(moved - e) <= 1e-13 * xp.abs(h0)))
        e = moved
        h, fall = _secular(e, p, t, m, n)
        lo, hi = xp.where(h > 0, e, lo), xp.where(h > 0, hi, e)
        if done:
            break
    z = -p / (2 - e[:, None] * m[None, :])
    # Where p has nothing along the extreme m, the root is beyond the pole and z gets there alone.
    short = xp.abs(h) > 1e-6 * xp.abs(h0)
    return _lifted(z, xp.where(short, h, xp.zeros_like(h)), m, n) if bool(xp.any(short)) else z


def _secular(e: Array, p: Array, t: Array, m: Array, n: int) -> tuple[Array, Array]:
    """Return h(e) and −h′(e)."""
    xp = namespace(p)
    r = 1 / (2 - e[:, None] * m[None, :])
    q = m[None, :] * (p * r) ** 2
    return t - n * xp.sum(q, axis=1) - e, 1 + 2 * n * xp.sum(m[None, :] * q * r, axis=1)


def _pole_free(m: Array) -> tuple[float, float]:
    """Return the ends of the interval on which 2 − e·m > 0 for every m, a hair within."""
    lowest, highest = float(to_numpy(m).min()), float(to_numpy(m).max())
    within = 2 * (1 - 1e-12)
    return (
        within / lowest if lowest < 0 else -np.inf,
        within / highest if highest > 0 else np.inf,
    )


def _lifted(z: Array, missing: Array, m: Array, n: int) -> Array:
    """Lengthen z along the extreme m until nΣmz² has grown by what is missing."""
    xp = namespace(z)
    sizes = to_numpy(m)
    for extreme, sign in ((int(sizes.argmax()), 1.0), (int(sizes.argmin()), -1.0)):
        if sign * sizes[extreme] <= 0:
            continue
        along = asarray_like(np.arange(sizes.size) == extreme, z)[None, :]
        growth = xp.clip(sign * missing, min=0.0) / (n * abs(float(sizes[extreme])))
        longer = xp.sqrt(z * z + growth[:, None] * along)
        z = xp.where((along > 0) & (growth[:, None] > 0), xp.where(z < 0, -longer, longer), z)
    return z
