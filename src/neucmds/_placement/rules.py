"""Where new objects go, from their dissimilarities to the objects that were fitted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from neucmds._backend.arrays import Array, asarray_like, eps, is_numpy, namespace, to_numpy

Floats = npt.NDArray[np.float64]

# Held-out objects of 46 real and synthetic cases: up to 0.1 the error to fitted objects is that
# without shrinkage (0.0 % more), 1 costs 0.9 % and 3 costs 4.3 %; a column without real weight is
# held by any of them.
SHRINKAGE = 0.1
# Tenths of it that are tried in turn where it is too much: for an object 1e12 times farther out.
MOST_RELEASES = 24


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
        delta, mean, projector = sq_dissimilarity, self.mean, self.projector
        wide = namespace(delta).float64
        if delta.dtype == wide or (is_numpy(mean) and not is_numpy(delta)):
            mean, projector = (asarray_like(part, delta, dtype=wide) for part in (mean, projector))
        return -0.5 * ((delta - mean[None, :]) @ projector)


@dataclass(frozen=True)
class LeastSquaresPlacement:
    """Least squares: minimise Σ_j (δ_j − b_j − (x − x_j)ᵀA(x − x_j))² + 4Σ_a r_a x_a² over x.

    The global minimum, by one secular equation an object. With X centered, y = Ax and a W that has
    Wᵀ(XᵀX + R)W = I and WᵀAW = Diag(m), y = Wz turns the objective into
    4|z|² + 4p·z − 2tc + nc² with c = Σ m z²: a quadratic and a convex function of another. Hence
    z = −p/(2 − e·m) where e = t − nc solves a monotone equation on the interval of 2 − e·m > 0.

    A column of squared length s says where an object is to σ²/4s, if σ² is the variance of the
    object's dissimilarities about what the coordinates can give; among the fitted objects it has
    variance s/n. `shrinkage` weighs the one against the other: it adds g·σ²·(n/s_a)·x_a² to the
    objective, with σ² from a first placement without it. A column without real weight then stays at
    the center whatever the noise, and an object far out whose dissimilarities agree on that stays
    far out.

    Parameters
    ----------
    coordinates : array of shape (n, k)
        Coordinates of the fitted objects, centered.
    signs : array of shape (k,)
    offsets : array of shape (n,), optional
        b: what the dissimilarities to each fitted object exceed their model by, whoever the other
        object is.
    ridge : array of shape (k,), optional
        r: how strongly each coordinate is held at the center, whatever the noise.
    shrinkage : float, default=0
        g: how strongly each coordinate is held at the center, in units of what the noise of the
        new object calls for.
    """

    coordinates: Array
    signs: Array
    offsets: Array | None = None
    ridge: Array | None = None
    shrinkage: float = 0.0

    def place(self, sq_dissimilarity: Array) -> Array:
        """Two products with n×k matrices, then O(k) an object and iteration.

        Parameters
        ----------
        sq_dissimilarity : array of shape (m, n)
            NaN where a dissimilarity is not known: such an object is placed by the known ones, in
            O(nk² + k³) for it alone.
        """
        delta = sq_dissimilarity
        xp = namespace(delta)
        x, to_y, m, shift, _ = self._parts
        n = x.shape[0]
        t = xp.sum(delta, axis=1, dtype=xp.float64) - float(shift.sum())
        # The sum tells without another pass; overflow is left to the caller.
        if bool(xp.any(xp.isnan(t))) and bool(xp.any(xp.isnan(delta))):
            return self._place_by_known(delta)
        # Wᵀ Xᵀ (δ − shift) and the sum of δ − shift: the block is read, never copied.
        p = delta @ asarray_like(x @ to_y, delta)
        p = xp.astype(p, xp.float64, copy=False) - asarray_like(shift @ x @ to_y, p, xp.float64)
        m_rows = asarray_like(m, p)[None, :]
        z, e = secular_minimum(p, t, m_rows, n)
        if self.shrinkage:
            z = self._shrunk(delta, p, t, z, e)
        position = z @ asarray_like((self._signs[:, None] * to_y).T, z)
        return xp.astype(position, delta.dtype, copy=False)

    def _shrunk(self, delta: Array, p: Array, t: Array, z: Array, e: Array) -> Array:
        """Hold objects by their noise, from where and at which e they are without that."""
        xp = namespace(delta)
        x, _, m, shift, most_apart = self._parts
        n, k = x.shape
        m_rows = asarray_like(m, p)[None, :]
        # |δ − shift|² to the rounding of |δ|², below which no noise can be told
        sq_size = xp.astype(xp.vecdot(delta, delta), xp.float64, copy=False)
        cross = xp.astype(delta @ asarray_like(shift, delta), xp.float64, copy=False)
        total = sq_size - 2 * cross + float(shift @ shift)
        least = _objective(z, p, t, m_rows, n)
        left = xp.clip(total + least, min=0.0)
        noise = self.shrinkage * left / max(n - k - 1, 1)
        z = _held(p, t, m_rows, n, noise, e)
        # Farther out than fitted objects are from each other: held less, until what is left is at
        # most 2 % more than without. Objects 1e4 times farther out came to the center for 10 %
        # of noise. Not so nearer ones: of 12 objects, columns without weight fit noise.
        most = least + xp.maximum(0.02 * left, 16 * eps(delta.dtype, xp) * sq_size)
        beyond = t + float(shift.sum()) > n * most_apart
        for _ in range(MOST_RELEASES if bool(xp.any(beyond)) else 0):
            astray = beyond & (_objective(z, p, t, m_rows, n) > most)
            if not bool(xp.any(astray)):
                break
            noise = xp.where(astray, 0.1 * noise, noise)
            z = xp.where(astray[:, None], _held(p, t, m_rows, n, noise, e), z)
        return z

    def _place_by_known(self, delta: Array) -> Array:
        """Place every object among the fitted ones that its dissimilarities are known to."""
        values = to_numpy(delta)
        known = ~np.isnan(values)
        x = to_numpy(self.coordinates).astype(np.float64)
        offsets = None if self.offsets is None else to_numpy(self.offsets)
        placed = np.empty((values.shape[0], x.shape[1]))
        complete = known.all(axis=1)
        if complete.any():
            placed[complete] = replace(self, coordinates=x, signs=self._signs).place(
                values[complete]
            )
        for row in np.flatnonzero(~complete):
            ids = np.flatnonzero(known[row])
            center = x[ids].mean(axis=0)
            among = replace(
                self,
                coordinates=x[ids] - center,
                signs=self._signs,
                offsets=None if offsets is None else offsets[ids],
            )
            placed[row] = among.place(values[row : row + 1, ids].astype(np.float64))[0] + center
        return asarray_like(placed, delta)

    @property
    def _signs(self) -> Floats:
        return to_numpy(self.signs).astype(np.float64)

    @cached_property
    def _parts(self) -> tuple[Floats, Floats, Floats, Floats, float]:
        """Return X, W, m, b + diag(XAXᵀ) and a bound on D̂, in NumPy float64: they are small."""
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
        return x, root @ rotation, m, shift, 4 * float(np.max(np.sum(x * x, axis=1), initial=0.0))


def secular_minimum(
    p: Array, t: Array, m: Array, n: int, start: Array | None = None, max_iter: int = 100
) -> tuple[Array, Array]:
    """Minimise 4|z|² + 4p·z − 2tc + nc² with c = Σ_a m_a z_a², for every row of p and entry of t.

    Newton's method, kept within a bracket, on h(e) = t − nΣ m p²/(2 − em)² − e. It falls by 1 or
    more wherever e rises by 1, so the root lies between 0 and h(0).

    Parameters
    ----------
    p : array of shape (rows, k)
    t : array of shape (rows,)
    m : array of shape (rows, k) or (1, k)
    n : int
    start : array of shape (rows,), optional
        Where e may be, as a first guess.
    max_iter : int, default=100
        Most steps; what is left to do then is less than bisection leaves after as many.

    Returns
    -------
    z : array of shape (rows, k)
    e : array of shape (rows,)
    """
    xp = namespace(p)
    if p.shape[1] == 0:
        return p, t
    secular = _Secular.of(p, t, m, n)
    e = xp.zeros_like(t)
    h, fall, size = secular.at(e)
    h0 = h
    lowest, highest = _pole_free(m)
    lo, hi = xp.clip(xp.maximum(h, lowest), max=0.0), xp.clip(xp.minimum(h, highest), min=0.0)
    if start is not None:
        e = xp.clip(start, min=lo, max=hi)
        h, fall, size = secular.at(e)
        lo, hi = xp.where(h > 0, e, lo), xp.where(h > 0, hi, e)
    for _ in range(max_iter):
        moved = e + h / fall
        moved = xp.where((moved >= lo) & (moved <= hi), moved, 0.5 * (lo + hi))
        # Relative to where the step ends, not to h(0): a root next to the pole of a column without
        # weight is 1e-9 of h(0). And to the pole, which the root of an object 1e4 times farther
        # out than the fitted ones is 1e-9 of itself from: it was placed 28 times too far. Newton
        # squares what is left; rounding of h sets the rest.
        to_pole = xp.minimum(highest - moved, moved - lowest)
        near = 1e-9 * xp.minimum(xp.abs(moved), to_pole) + 1e-15 * size / fall
        done = bool(xp.all(xp.abs(moved - e) <= near))
        e = moved
        h, fall, size = secular.at(e)
        lo, hi = xp.where(h > 0, e, lo), xp.where(h > 0, hi, e)
        if done:
            break
    z = -p / (2 - e[:, None] * m)
    # Where p has nothing along the extreme m, the root is beyond the pole and z gets there alone.
    short = xp.abs(h) > 1e-6 * xp.abs(h0)
    if bool(xp.any(short)):
        z = _lifted(z, xp.where(short, h, xp.zeros_like(h)), m, n)
    return z, e


def _held(p: Array, t: Array, m: Array, n: int, noise: Array, start: Array) -> Array:
    """Minimise the same with n·noise·Σ m² z² more: every coordinate is held by its own variance."""
    held = 1 + (n / 4) * noise[:, None] * m**2
    root = namespace(p).sqrt(held)
    return secular_minimum(p / root, t, m / held, n, start=start)[0] / root


def _objective(z: Array, p: Array, t: Array, m: Array, n: int) -> Array:
    """4|z|² + 4p·z − 2tc + nc² for every row."""
    xp = namespace(z)
    c = xp.sum(m * z * z, axis=1)
    return 4 * xp.sum((z + p) * z, axis=1) + c * (n * c - 2 * t)


@dataclass(frozen=True)
class _Secular:
    """h(e) = t − nΣ m p²/(2 − em)² − e for every row, with what does not depend on e."""

    t: Array
    m: Array
    n: int
    pull: Array
    size: Array
    slope: Array

    @classmethod
    def of(cls, p: Array, t: Array, m: Array, n: int) -> _Secular:
        xp = namespace(p)
        pull = n * m * p * p
        return cls(t, m, n, pull, xp.abs(pull), 2 * m * pull)

    def at(self, e: Array) -> tuple[Array, Array, Array]:
        """Return h(e), −h′(e), and the size of what h(e) is a difference of."""
        xp = namespace(e)
        r = 1 / (2 - e[:, None] * self.m)
        sq = r * r
        size = xp.abs(self.t) + xp.vecdot(self.size, sq) + xp.abs(e)
        h = self.t - xp.vecdot(self.pull, sq) - e
        return h, 1 + xp.vecdot(self.slope, sq * r), size


def _pole_free(m: Array) -> tuple[Array, Array]:
    """Return the ends of the interval on which 2 − e·m > 0 for every m, a hair within."""
    xp = namespace(m)
    lowest, highest = xp.min(m, axis=1), xp.max(m, axis=1)
    within, endless = 2 * (1 - 1e-12), xp.full_like(lowest, np.inf)
    one = xp.ones_like(lowest)
    return (
        xp.where(lowest < 0, within / xp.where(lowest < 0, lowest, one), -endless),
        xp.where(highest > 0, within / xp.where(highest > 0, highest, one), endless),
    )


def _lifted(z: Array, missing: Array, m: Array, n: int) -> Array:
    """Lengthen z along the extreme m until nΣmz² has grown by what is missing."""
    xp = namespace(z)
    columns = asarray_like(np.arange(z.shape[1]), z, dtype=xp.int64)
    for extreme, sign in ((xp.argmax(m, axis=1), 1.0), (xp.argmin(m, axis=1), -1.0)):
        along = columns[None, :] == extreme[:, None]
        strength = sign * xp.sum(xp.where(along, m, xp.zeros_like(m)), axis=1)
        possible = strength > 0
        growth = xp.clip(sign * missing, min=0.0) / (
            n * xp.where(possible, strength, xp.ones_like(strength))
        )
        growth = xp.where(possible, growth, xp.zeros_like(growth))[:, None]
        longer = xp.sqrt(z * z + growth)
        z = xp.where(along & (growth > 0), xp.where(z < 0, -longer, longer), z)
    return z
