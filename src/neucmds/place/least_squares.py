"""New objects by least squares on squared dissimilarities, in closed form.

For each new object, minimise Σ_j w_j (δ_j − (x − x_j)ᵀA(x − x_j))² + 4Σ_a r_a x_a² over x. With the
weighted mean of the x_j as origin, weights that add up to one, v = Ax and a W that has
Wᵀ(Σ w x_j x_jᵀ + R)W = I and WᵀAW = Diag(m), v = Wz turns the objective into
4|z|² + 4p·z − 2tc + c² with c = Σ m z²: one secular equation per object.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from neucmds.backend.arrays import (
    Array,
    asarray_like,
    device,
    index_like,
    namespace,
    stacked_cholesky,
    stacked_eigh,
)
from neucmds.form import Form
from neucmds.refine.pairwise import moments, second_moments_about

# Share of the trace of Σ w yyᵀ that is added to its diagonal.
LEAST_LENGTH = 1e-12
# Newton steps, at most; some 30 are taken on the secular equation, 13 on a loss.
MAX_ITER = 60
EPS = float(np.finfo(np.float64).eps)
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class NewObjects:
    """New objects, and the fitted ones that they are compared with, in float64.

    Parameters
    ----------
    sq_dissimilarity : array of shape (m, n)
        g(d), which is d² where κ is zero; finite.
    counts : array of shape (m, n) or None
        How much each counts; None: all alike.
    x : array of shape (n, k) or (m, n, k)
        Coordinates of the fitted objects; in three dimensions each new object has its own.
    form : Form
    products : array or None
        `moments` of x, where all new objects share them.
    """

    sq_dissimilarity: Array
    counts: Array | None
    x: Array
    form: Form
    products: Array | None = None

    @classmethod
    def sharing(
        cls, sq: Array, counts: Array | None, x: Array, form: Form
    ) -> NewObjects:
        """Compare all new objects with the same fitted ones."""
        return cls(sq, counts, x, form, moments(x))

    def take(self, which: Array) -> NewObjects:
        """Return some of these objects, different ones."""
        xp = namespace(self.x)
        if which.shape[0] == self.sq_dissimilarity.shape[0]:
            return self
        part = replace(
            self,
            sq_dissimilarity=xp.take(self.sq_dissimilarity, which, axis=0),
        )
        if self.counts is not None:
            part = replace(part, counts=xp.take(self.counts, which, axis=0))
        if self.products is None:
            part = replace(part, x=xp.take(self.x, which, axis=0))
        return part

    def counted(self, values: Array) -> Array:
        """Multiply by how much each dissimilarity counts."""
        if self.counts is None:
            return values
        return self.counts * values

    def fitted_at(self, columns: Array) -> Array:
        """Return x_j of one column j for each new object."""
        if self.products is not None:
            return namespace(self.x).take(self.x, columns, axis=0)
        return self.x[
            asarray_like(np.arange(columns.shape[0]), columns), columns
        ]

    def sums(self, w: Array) -> Array:
        """Σ_j w_ij x_j for every row of weights."""
        if self.products is not None:
            return w @ self.x
        return (w[:, None, :] @ self.x)[:, 0, :]

    def inner(self, v: Array) -> Array:
        """Return v_i · x_j for every row v_i."""
        if self.products is not None:
            return v @ namespace(v).matrix_transpose(self.x)
        return (self.x @ v[:, :, None])[:, :, 0]

    def d_hat(self, v: Array) -> Array:
        """D̂ of new objects at v."""
        if self.products is not None:
            return self.form.sq(v, self.x)
        return self.form.paired_sq(self.x, v[:, None, :])

    def second_moments(self, v: Array, w: Array) -> Array:
        """Σ_j w_ij (v_i − x_j)(v_i − x_j)ᵀ for every new object i."""
        if self.products is not None:
            return second_moments_about(v, w @ self.products)
        gaps = self.x - v[:, None, :]
        return namespace(gaps).matrix_transpose(gaps * w[:, :, None]) @ gaps


def least_squares(
    new: NewObjects,
    w: Array,
    *,
    ridge: Array | None = None,
    shrinkage: float = 0.0,
    farthest: float = 0.0,
    negatives_only: bool = False,
) -> Array:
    """Return coordinates of new objects by their own weights w.

    Parameters
    ----------
    new : NewObjects
    w : array of shape (m, n)
    ridge : array of shape (k,), optional
        r, of weights that are all alike.
    shrinkage, farthest, negatives_only
        As of `shrunk_minimum`; with `negatives_only` other coordinates are not held.
    """
    d = new.sq_dissimilarity
    signs = new.form.signs
    xp = namespace(d)
    rows = index_like(np.arange(w.shape[0]), w)
    # Relative to the object of the largest weight, which then adds nothing to the sums: the weights
    # of all others may be 1e-20 of it.
    first = xp.argmax(w, axis=1)
    origin = new.fitted_at(first)
    w = w / xp.clip(xp.sum(w, axis=1, keepdims=True), min=TINY)
    others = xp.asarray(w, copy=True)
    others[rows, first] = 0.0
    mean = new.sums(others) - xp.sum(others, axis=1, keepdims=True) * origin
    second = (
        new.second_moments(origin, others)
        - mean[:, :, None] * mean[:, None, :]
    )
    # c_j = y_jᵀAy_j − D_j, with y_j from the mean
    center = origin + mean
    c = (new.x * new.x) @ signs - d
    c -= 2 * new.inner(center * signs)
    c += ((center * center) @ signs)[:, None]
    c[rows, first] = (mean * mean) @ signs - d[rows, first]
    weighted = w * c
    level = xp.sum(weighted, axis=1)
    squares = xp.vecdot(weighted, c)
    weighted[rows, first] = 0.0
    from_origin = (
        new.sums(weighted) - xp.sum(weighted, axis=1, keepdims=True) * origin
    )
    pull = from_origin - level[:, None] * mean
    count = 1 / xp.clip(xp.vecdot(w, w), min=TINY)
    if ridge is not None:
        second += _eye_like(second) * ridge / count[:, None, None]
    # The rounding of differences of the sums.
    sq_lengths = xp.sum(new.x * new.x, axis=-1)
    rounding = xp.clip(EPS * xp.sum(others * sq_lengths, axis=1), min=TINY)
    to_v, m = _both_diagonal(second, signs, rounding)
    p = -(pull[:, None, :] @ to_v)[:, 0, :]
    held = m
    if negatives_only:
        held = xp.clip(m, max=0.0)
    z = shrunk_minimum(
        p,
        -level,
        m,
        held=held,
        squares=squares,
        mean=xp.vecdot(w, d),
        count=count,
        shrinkage=shrinkage,
        farthest=farthest,
    )
    back = xp.matrix_transpose(to_v) * signs
    return center + (z[:, None, :] @ back)[:, 0, :]


def shrunk_minimum(
    p: Array,
    t: Array,
    m: Array,
    *,
    held: Array,
    squares: Array,
    mean: Array,
    count: Array,
    shrinkage: float,
    farthest: float,
) -> Array:
    """Minimise 4|z|² + 4p·z − 2tc + c² with c = Σ m z², and shrink by the noise of each object.

    Parameters
    ----------
    p, t, m
        As of `secular_minimum`.
    held : array like m
        m of the coordinates that are shrunk, and 0 for others.
    squares, mean, count : array of shape (rows,)
        Plus `squares` the objective is the mean of squared residuals; `mean` and `count` are of
        the squared dissimilarities of each object.
    shrinkage : float
        g: adds g·σ²·x_a²/s_a to the sum of squares, with s_a the variance of column a among the
        fitted objects and σ² the residual variance of a first placement without it: a column
        without real weight stays at the center.
    farthest : float
        Squared length that no difference of fitted objects exceeds.
    """
    z, e = secular_minimum(p, t, m)
    k = int(z.shape[1])
    if not shrinkage or not k:
        return z
    xp = namespace(z)
    c = xp.sum(m * z * z, axis=1)
    least = 4 * xp.sum((z + p) * z, axis=1) + c * (c - 2 * t)
    left = xp.clip(squares + least, min=0.0)
    noise = shrinkage * left / xp.clip(count - k - 1, min=1.0)
    # Objects far outside have noise of their own scale.
    noise = noise * (farthest / xp.clip(mean, min=max(farthest, TINY))) ** 2
    longer = 1 + 0.25 * noise[:, None] * held**2
    root = xp.sqrt(longer)
    return secular_minimum(p / root, t, m / longer, start=e)[0] / root


def _both_diagonal(
    second: Array, signs: Array, least: Array
) -> tuple[Array, Array]:
    """Return W with WᵀSW = I and WᵀAW diagonal, and that diagonal."""
    xp = namespace(second)
    trace = xp.sum(xp.linalg.diagonal(second), axis=1)
    ridge = xp.maximum(LEAST_LENGTH * trace, least) + TINY
    second += ridge[:, None, None] * _eye_like(second)
    factors = stacked_cholesky(second)
    if factors is not None and not bool(xp.any(factors[1])):
        root = xp.linalg.inv(factors[0])
    else:
        lengths, axes = stacked_eigh(second)
        lengths = xp.maximum(lengths, ridge[:, None])
        root = xp.matrix_transpose(axes) / xp.sqrt(lengths)[:, :, None]
    m, rotation = stacked_eigh((root * signs) @ xp.matrix_transpose(root))
    return xp.matrix_transpose(root) @ rotation, m


def _eye_like(matrices: Array) -> Array:
    xp = namespace(matrices)
    return xp.eye(
        int(matrices.shape[-1]), dtype=matrices.dtype, device=device(matrices)
    )


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
    # The interval on which 2 − e·m > 0 for every m, a hair within.
    pole = 2 * (1 - LEAST_LENGTH)
    lowest = pole / xp.clip(xp.min(m, axis=1), max=-TINY)
    highest = pole / xp.clip(xp.max(m, axis=1), min=TINY)

    def at(e: Array) -> tuple[Array, Array, Array]:
        """Return h(e), −h′(e), and the size of what h(e) is a difference of."""
        r = 1 / (2 - e[:, None] * m)
        sq = r * r
        value = t - xp.vecdot(pull, sq) - e
        fall = 1 + 2 * xp.vecdot(m * pull, sq * r)
        return value, fall, xp.abs(t) + xp.vecdot(xp.abs(pull), sq)

    e = xp.zeros_like(t)
    h, fall, size = at(e)
    h0 = h
    low = xp.clip(xp.maximum(h, lowest), max=0.0)
    high = xp.clip(xp.minimum(h, highest), min=0.0)
    if start is not None:
        e = xp.clip(start, min=low, max=high)
        h, fall, size = at(e)
    for _ in range(MAX_ITER):
        low = xp.where(h > 0, e, low)
        high = xp.where(h > 0, high, e)
        moved = e + h / fall
        moved = xp.where(
            (moved >= low) & (moved <= high), moved, 0.5 * (low + high)
        )
        # Relative to the step's end and to the pole, not to h(0): a root may be 1e-9 of h(0), or
        # 1e-9 of itself from the pole.
        to_pole = xp.minimum(highest - moved, moved - lowest)
        near = 1e-9 * xp.minimum(xp.abs(moved), to_pole) + 1e-15 * size / fall
        done = bool(xp.all(xp.abs(moved - e) <= near))
        e = moved
        h, fall, size = at(e)
        if done:
            break
    z = -p / (2 - e[:, None] * m)
    # If p is zero along the extreme m, the root is beyond the pole.
    short = xp.abs(h) > 1e-6 * xp.abs(h0)
    if bool(xp.any(short)):
        z = _lifted(z, xp.where(short, h, xp.zeros_like(h)), m)
    return z, e


def _lifted(z: Array, missing: Array, m: Array) -> Array:
    """Lengthen z along the extreme m until Σmz² has grown by `missing`."""
    xp = namespace(z)
    columns = index_like(np.arange(z.shape[1]), z)
    for sign, extreme in (
        (1.0, xp.argmax(m, axis=1)),
        (-1.0, xp.argmin(m, axis=1)),
    ):
        along = (columns[None, :] == extreme[:, None]) & (sign * m > 0)
        strength = xp.where(along, sign * m, xp.full_like(z, np.inf))
        longer = xp.sqrt(
            z * z + xp.clip(sign * missing, min=0.0)[:, None] / strength
        )
        z = xp.where(z < 0, -longer, longer)
    return z
