"""Place new objects by least squares on squared dissimilarities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import (
    Array,
    asarray_like,
    device,
    empty_like,
    is_numpy,
    namespace,
    row_blocks,
    stacked_cholesky,
    stacked_eigh,
    to_numpy,
)
from neucmds.backend.threads import parallel_map
from neucmds.errors import InputError, option
from neucmds.form import Form

Floats = npt.NDArray[np.float64]

# On held-out objects of 46 cases 0.1 costs nothing, 1 costs 0.9 % and 3 costs 4.3 % of error.
SHRINKAGE = 0.1
# Share of the trace of Σ w yyᵀ that is added to its diagonal.
LEAST_LENGTH = 1e-12
# Entries of a block of new objects and fitted ones: 4 MB in float64.
BLOCK = 2**19
# The same on a GPU: 0.5 GB, of which some ten arrays are made.
DEVICE_BLOCK = 2**26
EPS, TINY = float(np.finfo(np.float64).eps), float(np.finfo(np.float64).tiny)
# Share of the squared size of the coordinates below which Σ w yyᵀ is nothing.
NOTHING = 1e-60
SECULAR_STEPS = 100


class Placement(Protocol):
    """A rule that turns squared dissimilarities to the fitted objects into coordinates."""

    def place(self, sq_dissimilarity: Array, weights: Array | None = None) -> Array:
        """Return coordinates (m, k) of m objects.

        Parameters
        ----------
        sq_dissimilarity : array of shape (m, n)
            NaN where a dissimilarity is not known.
        weights : array of shape (m, n), optional
            How much each dissimilarity counts; only ratios within a row matter.
        """


@dataclass(frozen=True)
class LinearPlacement:
    """Triangulation: on the fitted objects it returns the fitted coordinates.

    Parameters
    ----------
    mean : array of shape (n,)
        Column means of D.
    projector : array of shape (n, k)
        ``U_W Λ_W⁻¹`` times the map from U_W to coordinates; its columns are centered.
    """

    mean: Array
    projector: Array

    def place(self, sq_dissimilarity: Array, weights: Array | None = None) -> Array:
        """−½(δ − mean) · C · U_W · Λ_W⁻¹ · V√|μ|."""
        if weights is not None:
            raise InputError(
                f"{option('weights')} does not go with triangulation; fit by "
                f"{option('method', 'refined')}, or with {option('placement', 'least_squares')}."
            )
        delta, mean, projector = sq_dissimilarity, self.mean, self.projector
        xp = namespace(delta)
        if bool(xp.any(xp.isnan(delta))):
            raise InputError(
                "closed forms place objects by all their dissimilarities, but some are NaN; fit by "
                f"{option('method', 'refined')}."
            )
        wide = xp.float64
        if delta.dtype == wide or (is_numpy(mean) and not is_numpy(delta)):
            mean, projector = (asarray_like(part, delta, dtype=wide) for part in (mean, projector))
        return -0.5 * ((delta - mean[None, :]) @ projector)


@dataclass(frozen=True)
class LeastSquaresPlacement:
    """Least squares: minimise Σ_j w_j (δ_j − b_j − (x − x_j)ᵀA(x − x_j))² + 4Σ_a r_a x_a² over x.

    The global minimum, by one secular equation per object. With the weighted mean of the x_j as
    origin, weights that add up to one, v = Ax and a W that has Wᵀ(Σ w x_j x_jᵀ + R)W = I and
    WᵀAW = Diag(m), v = Wz turns the objective into 4|z|² + 4p·z − 2tc + c² with c = Σ m z². If all
    count alike, W is the same for all objects, and two products with n × k matrices are left.

    `shrinkage` adds g·σ²·x_a²/s_a to the sum of squares, with s_a the variance of column a among
    the fitted objects and σ² the residual variance of a first placement without it: a column
    without real weight stays at the center. Weights count as (Σw)²/Σw² objects.

    Parameters
    ----------
    coordinates : array of shape (n, k)
        Coordinates of the fitted objects, centered.
    signs : array of shape (k,)
    offsets : array of shape (n,), optional
        b: mean excess of the dissimilarities to each fitted object over their model.
    ridge : array of shape (k,), optional
        r: ridge of each coordinate, independent of the noise.
    shrinkage : float, default=0
        g: ridge of each coordinate, in units of the noise of the new object.
    """

    coordinates: Array
    signs: Array
    offsets: Array | None = None
    ridge: Array | None = None
    shrinkage: float = 0.0

    def place(self, sq_dissimilarity: Array, weights: Array | None = None) -> Array:
        """Return coordinates (m, k); with weights or NaN in O(nk² + k³) per object."""
        delta = sq_dissimilarity
        xp = namespace(delta)
        # A sum that is NaN shows gaps, or an overflow.
        total = xp.sum(delta, axis=1, dtype=xp.float64)
        gaps = bool(xp.any(xp.isnan(total))) and bool(xp.any(xp.isnan(delta)))
        if weights is None and not gaps:
            placed = self._alike(delta, total).positions(self.shrinkage, self.farthest)
            return xp.astype(placed, delta.dtype, copy=False)
        fitted = Fitted.of(self.coordinates, Form(self.signs), delta)
        offsets = None if self.offsets is None else asarray_like(self.offsets, fitted.x)
        ridge = None if self.ridge is None else asarray_like(self.ridge, fitted.x)

        def place(d: Array, w: Array | None) -> Array:
            d, w = known_and_counts(d, w)
            d = d if offsets is None else d - offsets
            return weighted_system(fitted, d, w, ridge).positions(self.shrinkage, self.farthest)

        return in_blocks(place, delta, weights, int(self.coordinates.shape[1]))

    def _alike(self, delta: Array, total: Array) -> System:
        """Make the systems of objects without weights or gaps; δ is not copied."""
        xp = namespace(delta)
        to_z, m, shift, back = self._frame
        n = int(delta.shape[1])
        p = delta @ asarray_like(to_z, delta)
        p = xp.astype(p, xp.float64, copy=False) - asarray_like(shift @ to_z, p, xp.float64)
        squares = None
        if self.shrinkage:
            own, cross = xp.vecdot(delta, delta), delta @ asarray_like(shift, delta)
            own, cross = (xp.astype(part, xp.float64, copy=False) for part in (own, cross))
            squares = (own - 2 * cross + float(shift @ shift)) / n
        return System(
            p,
            total / n - float(shift.mean()),
            asarray_like(m, p)[None, :],
            asarray_like(back, p),
            squares,
            total / n,
            asarray_like(np.asarray([float(n)]), p),
        )

    @cached_property
    def _frame(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return XW/n, m, b + diag(XAXᵀ) and (AW)ᵀ, in NumPy float64: they are small."""
        x, a = (to_numpy(part).astype(np.float64) for part in (self.coordinates, self.signs))
        shift = (x * x) @ a
        if self.offsets is not None:
            shift = shift + to_numpy(self.offsets)
        second = x.T @ x / len(x)
        if self.ridge is not None:
            second = second + np.diag(to_numpy(self.ridge)) / len(x)
        second = second + np.eye(a.size) * LEAST_LENGTH * np.trace(second)
        # By eigenvectors: a Cholesky factor loses digits next to a column of weight 1e-9.
        lengths, axes = np.linalg.eigh(second)
        root = axes / np.sqrt(np.maximum(lengths, TINY))
        m, rotation = np.linalg.eigh(root.T @ (a[:, None] * root))
        w = root @ rotation
        return x @ w / len(x), m, shift, (a[:, None] * w).T

    @cached_property
    def farthest(self) -> float:
        """Squared length that no difference of fitted objects exceeds."""
        x = to_numpy(self.coordinates).astype(np.float64)
        return 4 * float(np.max(np.sum(x * x, axis=1), initial=0.0))


@dataclass(frozen=True)
class System:
    """4|z|² + 4p·z − 2tc + c² with c = Σ m z² for some objects, to be minimised over z.

    Coordinates are z times `back`, (AW)ᵀ, from the center. Plus `squares` the objective is the mean
    of squared residuals; `mean` and `count` are of the squared dissimilarities of each object.
    """

    p: Array
    t: Array
    m: Array
    back: Array
    squares: Array | None
    mean: Array | None
    count: Array
    center: Array | None = None

    def positions(
        self, shrinkage: float = 0.0, farthest: float = 0.0, *, every: bool = True
    ) -> Array:
        """Return the coordinates of the minimum, with shrinkage as of `LeastSquaresPlacement`.

        Unless `every`, of negative coordinates alone: noise in these makes far objects near.
        """
        z, e = secular_minimum(self.p, self.t, self.m)
        if shrinkage and z.shape[1]:
            held = self.m if every else namespace(z).clip(self.m, max=0.0)
            z = self._shrunk(z, e, shrinkage, farthest, held)
        if len(self.back.shape) == 2:
            return z @ self.back
        return self.center + (z[:, None, :] @ self.back)[:, 0, :]

    def _shrunk(self, z: Array, e: Array, shrinkage: float, farthest: float, m: Array) -> Array:
        """Shrink by the noise of each object, starting from the minimum z, e without that."""
        xp, k = namespace(z), int(z.shape[1])
        c = xp.sum(self.m * z * z, axis=1)
        least = 4 * xp.sum((z + self.p) * z, axis=1) + c * (c - 2 * self.t)
        left = xp.clip(self.squares + least, min=0.0)
        noise = shrinkage * left / xp.clip(self.count - k - 1, min=1.0)
        # Objects far outside have noise of their own scale.
        noise = noise * (farthest / xp.clip(self.mean, min=max(farthest, TINY))) ** 2
        held = 1 + 0.25 * noise[:, None] * m**2
        root = xp.sqrt(held)
        return secular_minimum(self.p / root, self.t, self.m / held, start=e)[0] / root


@dataclass(frozen=True)
class Fitted:
    """X and A of the fitted objects on the device of the new ones, in float64.

    X is (n, k), or (m, q, k) if each of m new objects is compared with q of its own.
    """

    x: Array
    form: Form

    @classmethod
    def of(cls, coordinates: Array, form: Form, like: Array) -> Fitted:
        """Convert them to the library and device of an array, in float64."""
        wide = namespace(like).float64
        signs = asarray_like(to_numpy(form.signs), like, wide)
        return cls(asarray_like(to_numpy(coordinates), like, wide), replace(form, signs=signs))

    @property
    def signs(self) -> Array:
        """Signs of the coordinates."""
        return self.form.signs

    @cached_property
    def _products(self) -> tuple[Array, Array]:
        """x_a x_b for a ≤ b, and which of these each entry of a k × k matrix is."""
        x, k = self.x, int(self.x.shape[1])
        first, second = np.triu_indices(k)
        spread = np.empty((k, k), dtype=np.int64)
        spread[first, second] = spread[second, first] = np.arange(first.size)
        xp = namespace(x)
        a, b, spread = (asarray_like(i, x, xp.int64) for i in (first, second, spread.ravel()))
        return xp.take(x, a, axis=1) * xp.take(x, b, axis=1), spread

    def own(self, ids: Array) -> Fitted:
        """Return the fitted objects of each new one, given as rows of ids."""
        xp = namespace(self.x)
        x = xp.take(self.x, xp.reshape(ids, (-1,)), axis=0)
        return replace(self, x=xp.reshape(x, (*ids.shape, -1)))

    def some(self, which: Array) -> Fitted:
        """Return the fitted objects of some new ones."""
        if len(self.x.shape) == 2:
            return self
        return replace(self, x=namespace(self.x).take(self.x, which, axis=0))

    def at(self, columns: Array) -> Array:
        """Return x_j of one column j for each new object."""
        if len(self.x.shape) == 2:
            return namespace(self.x).take(self.x, columns, axis=0)
        return self.x[asarray_like(np.arange(columns.shape[0]), columns), columns]

    def sums(self, w: Array) -> Array:
        """Σ_j w_ij x_j for every row of weights."""
        return w @ self.x if len(self.x.shape) == 2 else (w[:, None, :] @ self.x)[:, 0, :]

    def inner(self, v: Array) -> Array:
        """Return v_i · x_j for every row v_i."""
        if len(self.x.shape) == 2:
            return v @ namespace(v).matrix_transpose(self.x)
        return (self.x @ v[:, :, None])[:, :, 0]

    def d_hat(self, v: Array) -> Any:
        """D̂ of new objects at v."""
        if len(self.x.shape) == 2:
            return self.form.sq(v, self.x)
        return self.form.paired_sq(self.x, v[:, None, :])

    def second_moments(self, w: Array) -> Array:
        """Σ_j w_ij x_j x_jᵀ for every row of weights."""
        xp, k = namespace(w), int(self.x.shape[-1])
        if len(self.x.shape) == 3:
            return xp.matrix_transpose(self.x * w[:, :, None]) @ self.x
        products, spread = self._products
        return xp.reshape(xp.take(w @ products, spread, axis=1), (-1, k, k))


def weighted_system(fitted: Fitted, d: Array, w: Array, ridge: Array | None = None) -> System:
    """Make the systems of m objects with own weights; d and w are (m, n) and finite."""
    y, signs = fitted.x, fitted.signs
    xp = namespace(y)
    rows = asarray_like(np.arange(w.shape[0]), w, dtype=xp.int64)
    # Relative to the object of the largest weight, which then adds nothing to the sums: the weights
    # of all others may be 1e-20 of it.
    first = xp.argmax(w, axis=1)
    origin, total = fitted.at(first), xp.sum(w, axis=1, keepdims=True)
    w = w / xp.clip(total, min=TINY)
    others = xp.asarray(w, copy=True)
    others[rows, first] = 0.0
    sums = fitted.sums(others)
    mean = sums - xp.sum(others, axis=1, keepdims=True) * origin
    second = fitted.second_moments(others)
    # The rounding of differences of these.
    rounding = EPS * xp.sum(xp.linalg.diagonal(second), axis=1)
    second -= sums[:, :, None] * origin[:, None, :] + origin[:, :, None] * mean[:, None, :]
    second -= mean[:, :, None] * mean[:, None, :]
    # c_j = y_jᵀAy_j − D_j, with y_j from the mean
    center = origin + mean
    c = (y * y) @ signs - d
    c -= 2 * fitted.inner(center * signs)
    c += ((center * center) @ signs)[:, None]
    c[rows, first] = (mean * mean) @ signs - d[rows, first]
    weighted = w * c
    level, squares = xp.sum(weighted, axis=1), xp.vecdot(weighted, c)
    weighted[rows, first] = 0.0
    from_origin = fitted.sums(weighted) - xp.sum(weighted, axis=1, keepdims=True) * origin
    pull = from_origin - level[:, None] * mean
    count = 1 / xp.clip(xp.vecdot(w, w), min=TINY)
    if ridge is not None:
        eye = xp.eye(int(signs.shape[0]), dtype=second.dtype, device=device(second))
        second += eye * ridge / count[:, None, None]
    rounding = xp.clip(rounding, min=NOTHING * float(xp.mean(y * y)))
    to_v, m = _both_diagonal(second, signs, rounding)
    p = -(pull[:, None, :] @ to_v)[:, 0, :]
    back = xp.matrix_transpose(to_v) * signs
    return System(p, -level, m, back, squares, xp.vecdot(w, d), count, center)


def _both_diagonal(second: Array, signs: Array, least: Array) -> tuple[Array, Array]:
    """Return W with WᵀSW = I and WᵀAW diagonal, and that diagonal."""
    xp, k = namespace(second), int(signs.shape[0])
    own = xp.sum(xp.linalg.diagonal(second), axis=1)
    ridge = xp.maximum(LEAST_LENGTH * own, least) + TINY
    second += ridge[:, None, None] * xp.eye(k, dtype=second.dtype, device=device(second))
    factors = stacked_cholesky(second)
    if factors is not None and not bool(xp.any(factors[1])):
        root = xp.linalg.inv(factors[0])
    else:
        lengths, axes = stacked_eigh(second)
        lengths = xp.maximum(lengths, ridge[:, None])
        root = xp.matrix_transpose(axes) / xp.sqrt(lengths)[:, :, None]
    m, rotation = stacked_eigh((root * signs) @ xp.matrix_transpose(root))
    return xp.matrix_transpose(root) @ rotation, m


def known_and_counts(delta: Array, weights: Array | None) -> tuple[Array, Array]:
    """Return dissimilarities with zeros for gaps, and weights that are zero there."""
    xp = namespace(delta)
    missing = xp.isnan(delta)
    counts = xp.astype(~missing, xp.float64)
    if weights is not None:
        counts = counts * weights
    return xp.where(missing, xp.zeros_like(delta), delta), counts


def in_blocks(
    place: Callable[..., Array],
    delta: Array,
    weights: Array | None,
    k: int,
    own: Array | None = None,
) -> Array:
    """Place rows in blocks, in float64, on their device, and in threads on the CPU.

    `place` is called with dissimilarities, weights and, if `own` is given, rows of it.
    """
    xp = namespace(delta)
    if not delta.shape[0] or not k:
        return empty_like(delta, (int(delta.shape[0]), k))

    def block(rows: slice) -> Array:
        w = None if weights is None else asarray_like(weights[rows], delta, dtype=xp.float64)
        d = xp.astype(delta[rows, :], xp.float64, copy=False)
        return place(d, w) if own is None else place(d, w, own[rows, :])

    # Every object has a copy of its own landmarks.
    wide = int(delta.shape[1]) * (1 if own is None else k)
    if is_numpy(delta):
        parts = parallel_map(block, row_blocks(len(delta), wide, BLOCK))
    else:
        parts = [block(rows) for rows in row_blocks(int(delta.shape[0]), wide, DEVICE_BLOCK)]
    return xp.astype(xp.concat(parts, axis=0), delta.dtype, copy=False)


def secular_minimum(
    p: Array, t: Array, m: Array, start: Array | None = None
) -> tuple[Array, Array]:
    """Minimise 4|z|² + 4p·z − 2tc + c² with c = Σ_a m_a z_a², for every row of p and entry of t.

    This is a quadratic and a convex function of another, hence z = −p/(2 − e·m) where e = t − c
    solves a monotone equation on the interval of 2 − e·m > 0. Newton's method, kept within a
    bracket, on h(e) = t − Σ m p²/(2 − em)² − e: it falls by 1 or more wherever e rises by 1, so
    the root is between 0 and h(0).

    p is (rows, k), t (rows,), m (rows, k) or (1, k); `start` is a guess of e. Returns z and e.
    """
    xp = namespace(p)
    if p.shape[1] == 0:
        return p, t
    pull = m * p * p
    sizes, slopes = xp.abs(pull), 2 * m * pull

    def at(e: Array) -> tuple[Array, Array, Array]:
        """Return h(e), −h′(e), and the size of what h(e) is a difference of."""
        r = 1 / (2 - e[:, None] * m)
        sq = r * r
        size = xp.abs(t) + xp.vecdot(sizes, sq)
        return t - xp.vecdot(pull, sq) - e, 1 + xp.vecdot(slopes, sq * r), size

    e = xp.zeros_like(t)
    h, fall, size = at(e)
    h0 = h
    lowest, highest = _pole_free(m)
    lo, hi = xp.clip(xp.maximum(h, lowest), max=0.0), xp.clip(xp.minimum(h, highest), min=0.0)
    if start is not None:
        e = xp.clip(start, min=lo, max=hi)
        h, fall, size = at(e)
        lo, hi = xp.where(h > 0, e, lo), xp.where(h > 0, hi, e)
    for _ in range(SECULAR_STEPS):
        moved = e + h / fall
        moved = xp.where((moved >= lo) & (moved <= hi), moved, 0.5 * (lo + hi))
        # Relative to the step's end and to the pole, not to h(0): a root may be 1e-9 of h(0), or
        # 1e-9 of itself from the pole.
        to_pole = xp.minimum(highest - moved, moved - lowest)
        near = 1e-9 * xp.minimum(xp.abs(moved), to_pole) + 1e-15 * size / fall
        done = bool(xp.all(xp.abs(moved - e) <= near))
        e = moved
        h, fall, size = at(e)
        lo, hi = xp.where(h > 0, e, lo), xp.where(h > 0, hi, e)
        if done:
            break
    z = -p / (2 - e[:, None] * m)
    # If p is zero along the extreme m, the root is beyond the pole.
    short = xp.abs(h) > 1e-6 * xp.abs(h0)
    if bool(xp.any(short)):
        z = _lifted(z, xp.where(short, h, xp.zeros_like(h)), m)
    return z, e


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


def _lifted(z: Array, missing: Array, m: Array) -> Array:
    """Lengthen z along the extreme m until Σmz² has grown by `missing`."""
    xp = namespace(z)
    columns = asarray_like(np.arange(z.shape[1]), z, dtype=xp.int64)
    for extreme, sign in ((xp.argmax(m, axis=1), 1.0), (xp.argmin(m, axis=1), -1.0)):
        along = columns[None, :] == extreme[:, None]
        strength = sign * xp.sum(xp.where(along, m, xp.zeros_like(m)), axis=1)
        possible = strength > 0
        growth = xp.clip(sign * missing, min=0.0) / xp.where(
            possible, strength, xp.ones_like(strength)
        )
        growth = xp.where(possible, growth, xp.zeros_like(growth))[:, None]
        longer = xp.sqrt(z * z + growth)
        z = xp.where(along & (growth > 0), xp.where(z < 0, -longer, longer), z)
    return z
