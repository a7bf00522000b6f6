"""New objects by least squares on squared dissimilarities, in closed form.

Each new object is placed where x minimises

    Σ_j w_j (D_j − (x − x_j)ᵀA(x − x_j))² + 4 Σ_a r_a x_a²

with its squared dissimilarities D_j to the fitted objects at x_j, weights w_j that add up to one,
A = Diag(signs), and ridges r_a. Take the weighted mean of the x_j as origin: x_j is y_j then. With
b_j = y_jᵀAy_j − D_j and v = Ax the objective is

    4 vᵀSv − 4 v·Σ_j w_j b_j y_j + 2c Σ_j w_j b_j + c² + Σ_j w_j b_j²

with S = Σ_j w_j y_j y_jᵀ + Diag(r) and c = xᵀAx. A matrix W that has WᵀSW = I and WᵀAW = Diag(m)
turns it by v = Wz into

    4|z|² + 4p·z − 2tc + c² + Σ_j w_j b_j²     c = Σ_a m_a z_a²

with p = −Wᵀ Σ_j w_j b_j y_j and t = −Σ_j w_j b_j. The minimum follows from one equation in one
unknown for each object, the secular equation.

Shapes are those of `rows` new objects, n fitted ones and k coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from neucmds.backend.arrays import (
    EPS,
    TINY,
    Array,
    asarray_like,
    index_like,
    namespace,
    stacked_cholesky,
    stacked_eigh,
)
from neucmds.form import Form
from neucmds.refine.pairwise import moments, second_moments_about

# Share of the trace of S that is added to its diagonal.
LEAST_LENGTH = 1e-12
# Newton steps, at most; about 30 are taken on the secular equation, 13 on a loss.
MAX_ITER = 60


@dataclass(frozen=True, eq=False)
class NewObjects:
    """New objects, and the fitted ones that they are compared with, in float64.

    Parameters
    ----------
    sq_dissimilarity : array of shape (rows, n)
        g(d) of the form, which is d² where κ is zero; finite.
    counts : array of shape (rows, n) or None
        How much each dissimilarity counts; None: all alike.
    x : array of shape (n, k) or (rows, n, k)
        Coordinates of the fitted objects; with three axes, each new object has its own.
    form : Form
    products : array or None
        `moments` of x if all new objects share x, else None.
    """

    sq_dissimilarity: Array
    counts: Array | None
    x: Array
    form: Form
    products: Array | None = None

    def take(self, numbers: Array) -> NewObjects:
        """Return some of these objects, by ascending numbers."""
        xp = namespace(self.x)
        if numbers.shape[0] == self.sq_dissimilarity.shape[0]:
            return self
        part = replace(
            self,
            sq_dissimilarity=xp.take(self.sq_dissimilarity, numbers, axis=0),
        )
        if self.counts is not None:
            part = replace(part, counts=xp.take(self.counts, numbers, axis=0))
        if self.products is None:
            part = replace(part, x=xp.take(self.x, numbers, axis=0))
        return part

    def lowered(self) -> tuple[NewObjects, Array]:
        """Return the problem without heights, and heights (rows, 1) of new objects.

        Each new object has the mean height of the fitted ones, which is subtracted with theirs.
        """
        xp = namespace(self.x)
        heights = self.form.height_of(self.x)
        mean = xp.mean(heights)
        x = self.x[..., :-1]
        products = None
        if self.products is not None:
            products = moments(x)
        plain = NewObjects(
            self.sq_dissimilarity - heights - mean,
            self.counts,
            x,
            replace(self.form, signs=self.form.signs[:-1]),
            products,
        )
        return plain, xp.zeros_like(self.sq_dissimilarity[:, :1]) + mean

    def counted(self, values: Array) -> Array:
        """Multiply by how much each dissimilarity counts."""
        if self.counts is None:
            return values
        return self.counts * values

    def fitted_at(self, columns: Array) -> Array:
        """Return x_j for each new object, with j its entry of `columns`."""
        if self.products is not None:
            return namespace(self.x).take(self.x, columns, axis=0)
        return self.x[
            asarray_like(np.arange(columns.shape[0]), columns), columns
        ]

    def sums(self, w: Array) -> Array:
        """Return Σ_j w_ij x_j for every new object i."""
        if self.products is not None:
            return w @ self.x
        return (w[:, None, :] @ self.x)[:, 0, :]

    def inner(self, v: Array) -> Array:
        """Return v_i · x_j for every new object i and fitted object j."""
        if self.products is not None:
            return v @ self.x.T
        return (self.x @ v[:, :, None])[:, :, 0]

    def d_hat(self, v: Array) -> Array:
        """Return D̂ (rows, n) of new objects at v."""
        if self.products is not None:
            return self.form.sq(v, self.x)
        return self.form.paired_sq(self.x, v[:, None, :])

    def second_moments(self, v: Array, w: Array) -> Array:
        """Return Σ_j w_ij (v_i − x_j)(v_i − x_j)ᵀ for every new object i."""
        # A height has ½ in place of v_i − x_j.
        centers, _ = self.form.tangents(v)
        if self.products is not None:
            return second_moments_about(centers, w @ self.products)
        _, partners = self.form.tangents(self.x)
        differences = partners - centers[:, None, :]
        weighted = differences * w[:, :, None]
        return namespace(weighted).matrix_transpose(weighted) @ differences


def least_squares(
    new: NewObjects,
    w: Array,
    *,
    ridge: Array | None = None,
    shrinkage: float = 0.0,
    farthest: float = 0.0,
    negatives_only: bool = False,
) -> Array:
    """Return the coordinates of new objects, each by its own weights.

    Parameters
    ----------
    new : NewObjects
    w : array of shape (rows, n)
        Weights, which need not add up to one.
    ridge : array of shape (k,), optional
        n·r, where n is the effective number of dissimilarities of an object.
    shrinkage, farthest
        As for `shrunk_minimum`.
    negatives_only : bool, default=False
        Whether negative coordinates alone are shrunk.
    """
    if new.form.has_heights:
        plain, heights = new.lowered()
        x = least_squares(
            plain,
            w,
            ridge=ridge,
            shrinkage=shrinkage,
            farthest=farthest,
            negatives_only=negatives_only,
        )
        return namespace(x).concat([x, heights], axis=1)
    sq_d = new.sq_dissimilarity
    signs = new.form.signs
    xp = namespace(sq_d)
    rows = index_like(np.arange(w.shape[0]), w)
    # Sums are of differences from the fitted object of the largest weight, so that this object adds
    # nothing to these: the weights of all others may be 1e-20 of its weight.
    heaviest = xp.argmax(w, axis=1)
    origin = new.fitted_at(heaviest)
    w = w / xp.clip(xp.sum(w, axis=1, keepdims=True), min=TINY)
    w_others = xp.asarray(w, copy=True)
    w_others[rows, heaviest] = 0.0
    mean = (
        new.sums(w_others) - xp.sum(w_others, axis=1, keepdims=True) * origin
    )
    s = (
        new.second_moments(origin, w_others)
        - mean[:, :, None] * mean[:, None, :]
    )
    # b_j = y_jᵀAy_j − D_j with y_j = x_j − center; y_j of the heaviest object is −mean.
    center = origin + mean
    b = (new.x * new.x) @ signs - sq_d
    b -= 2 * new.inner(center * signs)
    b += ((center * center) @ signs)[:, None]
    b[rows, heaviest] = (mean * mean) @ signs - sq_d[rows, heaviest]
    weighted = w * b
    b_mean = xp.sum(weighted, axis=1)
    b_sq_mean = xp.vecdot(weighted, b)
    # Σ w_j b_j y_j, by way of the same sum with differences from the origin.
    weighted[rows, heaviest] = 0.0
    from_origin = (
        new.sums(weighted) - xp.sum(weighted, axis=1, keepdims=True) * origin
    )
    sum_wby = from_origin - b_mean[:, None] * mean
    # As many equal weights would have the same Σw².
    count = 1 / xp.clip(xp.vecdot(w, w), min=TINY)
    if ridge is not None:
        s += eye_like(s) * ridge / count[:, None, None]
    # Rounding error of the differences of sums in S.
    sq_lengths = xp.sum(new.x * new.x, axis=-1)
    rounding = xp.clip(EPS * xp.sum(w_others * sq_lengths, axis=1), min=TINY)
    to_v, m = _both_diagonal(s, signs, rounding)
    p = -(sum_wby[:, None, :] @ to_v)[:, 0, :]
    shrunk_m = m
    if negatives_only:
        shrunk_m = xp.clip(m, max=0.0)
    z = shrunk_minimum(
        p,
        -b_mean,
        m,
        shrunk_m=shrunk_m,
        constant=b_sq_mean,
        mean=xp.vecdot(w, sq_d),
        count=count,
        shrinkage=shrinkage,
        farthest=farthest,
    )
    to_x = xp.matrix_transpose(to_v) * signs
    return center + (z[:, None, :] @ to_x)[:, 0, :]


def shrunk_minimum(
    p: Array,
    t: Array,
    m: Array,
    *,
    shrunk_m: Array,
    constant: Array,
    mean: Array,
    count: Array,
    shrinkage: float,
    farthest: float,
) -> Array:
    """Minimise 4|z|² + 4p·z − 2tc + c² with c = Σ m z², and shrink by the noise of each object.

    Parameters
    ----------
    p, t, m
        As for `secular_minimum`.
    shrunk_m : array like m
        m of the coordinates that are shrunk, and 0 for the others.
    constant : array of shape (rows,)
        What the objective leaves out of the weighted mean of squared residuals.
    mean, count : array of shape (rows,)
        Mean of the squared dissimilarities of each object, and how many there are.
    shrinkage : float
        g: adds g·σ²·x_a²/s_a to the sum of squares, with s_a the variance of column a among the
        fitted objects and σ² the residual variance of a first placement without it: a column
        without real weight stays at the center.
    farthest : float
        Squared length that no difference of fitted objects exceeds.
    """
    # e is the root of the secular equation.
    z, e = secular_minimum(p, t, m)
    k = z.shape[1]
    if not shrinkage or not k:
        return z
    xp = namespace(z)
    c = xp.sum(m * z * z, axis=1)
    # 4|z|² + 4p·z − 2tc + c²
    objective = 4 * xp.sum((z + p) * z, axis=1) + c * (c - 2 * t)
    sq_residuals = xp.clip(constant + objective, min=0.0)
    # g·σ²/count: `count` residuals less k + 1 degrees of freedom.
    noise = shrinkage * sq_residuals / xp.clip(count - k - 1, min=1.0)
    # Objects far outside have noise of their own scale, which does not count.
    noise = noise * (farthest / xp.clip(mean, min=max(farthest, TINY))) ** 2
    # 4(1 + ¼ noise m²) z² takes the place of 4z²: with z·√(1 + ¼ noise m²) as the unknown, the
    # problem is the same again.
    stretch = 1 + 0.25 * noise[:, None] * shrunk_m**2
    root = xp.sqrt(stretch)
    return secular_minimum(p / root, t, m / stretch, start=e)[0] / root


def _both_diagonal(
    s: Array, signs: Array, rounding: Array
) -> tuple[Array, Array]:
    """Return W with WᵀSW = I and WᵀAW = Diag(m), and m, for every matrix S of a stack.

    S, which is overwritten, is kept positive definite by a small ridge.
    """
    xp = namespace(s)
    trace = xp.sum(xp.linalg.diagonal(s), axis=1)
    ridge = xp.maximum(LEAST_LENGTH * trace, rounding) + TINY
    s += ridge[:, None, None] * eye_like(s)
    factors = stacked_cholesky(s)
    # root S rootᵀ = I, by Cholesky factors, or by eigenvectors if S has none by rounding.
    if factors is not None and not bool(xp.any(factors[1])):
        root = xp.linalg.inv(factors[0])
    else:
        values, axes = stacked_eigh(s)
        values = xp.maximum(values, ridge[:, None])
        root = xp.matrix_transpose(axes) / xp.sqrt(values)[:, :, None]
    m, rotation = stacked_eigh((root * signs) @ xp.matrix_transpose(root))
    return xp.matrix_transpose(root) @ rotation, m


def eye_like(matrices: Array) -> Array:
    """Return the unit matrix of the size of each matrix in a stack."""
    return namespace(matrices).eye(
        matrices.shape[-1], dtype=matrices.dtype, device=matrices.device
    )


def secular_minimum(
    p: Array, t: Array, m: Array, start: Array | None = None
) -> tuple[Array, Array]:
    """Minimise 4|z|² + 4p·z − 2tc + c² with c = Σ_a m_a z_a², for every row of p and entry of t.

    Where the gradient is zero, z_a = −p_a/(2 − e·m_a) with e = t − c. At the minimum 2 − e·m_a > 0
    for all a, and on that interval e is the only root of

        h(e) = t − Σ_a m_a p_a²/(2 − e·m_a)² − e        h′(e) ≤ −1

    which is between 0 and h(0). It is found by Newton steps that are kept within a bracket.

    p is (rows, k), t (rows,), m (rows, k) or (1, k); `start` is a guess of e. Returns z and e.
    """
    xp = namespace(p)
    if p.shape[1] == 0:
        return p, t
    mp_sq = m * p * p
    # The poles next to 0, where 2 − e·m = 0 for the extreme m; a hair within.
    pole = 2 * (1 - LEAST_LENGTH)
    lowest = pole / xp.clip(xp.min(m, axis=1), max=-TINY)
    highest = pole / xp.clip(xp.max(m, axis=1), min=TINY)

    def at(e: Array) -> tuple[Array, Array, Array]:
        """Return h(e), −h′(e), and the sum of the magnitudes that h(e) is a difference of."""
        r = 1 / (2 - e[:, None] * m)
        r_sq = r * r
        h = t - xp.vecdot(mp_sq, r_sq) - e
        fall = 1 + 2 * xp.vecdot(m * mp_sq, r_sq * r)
        return h, fall, xp.abs(t) + xp.vecdot(xp.abs(mp_sq), r_sq)

    e = xp.zeros_like(t)
    h, fall, size = at(e)
    h_0 = h
    low = xp.clip(xp.maximum(h, lowest), max=0.0)
    high = xp.clip(xp.minimum(h, highest), min=0.0)
    if start is not None:
        e = xp.clip(start, min=low, max=high)
        h, fall, size = at(e)
    for _ in range(MAX_ITER):
        low = xp.where(h > 0, e, low)
        high = xp.where(h > 0, high, e)
        new_e = e + h / fall
        new_e = xp.where(
            (new_e >= low) & (new_e <= high), new_e, 0.5 * (low + high)
        )
        # A step is small beside the new e and its distance from a pole, or beside rounding. Not
        # beside h(0): a root may be 1e-9 of h(0), or 1e-9 of itself from the pole.
        to_pole = xp.minimum(highest - new_e, new_e - lowest)
        tol = 1e-9 * xp.minimum(xp.abs(new_e), to_pole) + 1e-15 * size / fall
        is_done = bool(xp.all(xp.abs(new_e - e) <= tol))
        e = new_e
        h, fall, size = at(e)
        if is_done:
            break
    z = -p / (2 - e[:, None] * m)
    # If p is zero along the extreme m, h has no root before the pole; z may have any length there.
    is_rootless = xp.abs(h) > 1e-6 * xp.abs(h_0)
    if bool(xp.any(is_rootless)):
        z = _lengthened(z, xp.where(is_rootless, h, 0.0), m)
    return z, e


def _lengthened(z: Array, growth: Array, m: Array) -> Array:
    """Return z, longer along the extreme m of the sign of `growth`, so that Σ m z² grows by it."""
    xp = namespace(z)
    columns = index_like(np.arange(z.shape[1]), z)
    for sign, extreme in (
        (1.0, xp.argmax(m, axis=1)),
        (-1.0, xp.argmin(m, axis=1)),
    ):
        is_extreme = (columns[None, :] == extreme[:, None]) & (sign * m > 0)
        # No other column grows.
        divisor = xp.where(is_extreme, sign * m, np.inf)
        lengths = xp.sqrt(
            z * z + xp.clip(sign * growth, min=0.0)[:, None] / divisor
        )
        z = xp.where(z < 0, -lengths, lengths)
    return z
