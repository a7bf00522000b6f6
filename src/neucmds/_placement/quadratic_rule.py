"""Where new objects go by a loss that is quadratic in D̂: the global minimum, one object at a time.

Of "squared" and "relative", Σ_j w_j (D̂_j − D_j)² has weights w that the position x does not change.
With m the weighted mean of the fitted objects, y their coordinates from there, v = A(x − m) and
weights that add up to one, it is

    4 vᵀSv − 4 vᵀN + 2 C s + s² + constant,    s = vᵀAv,

S = Σ w yyᵀ, N = Σ w c y and C = Σ w c with c = yᵀAy − D: all sums over the fitted objects are taken
once. Coordinates in which S and A both are diagonal make it the secular equation of `rules`.
"""

from __future__ import annotations

import numpy as np

from neucmds._backend.arrays import (
    Array,
    asarray_like,
    device,
    namespace,
    stacked_cholesky,
    stacked_eigh,
)
from neucmds._placement.rules import secular_minimum

# Share of the mean length of S that is added to it: what keeps S invertible where few fitted
# objects count.
RIDGE = 1e-10
EPS = float(np.finfo(np.float64).eps)
# Share of the squared size of the coordinates below which S is nothing.
NOTHING = 1e-60


def least_point(
    y: Array, signs: Array, products: Array, spread: Array, w: Array, d: Array
) -> Array:
    """Return the positions x (m, k) that minimise Σ_j w_ij (D̂_ij − D_ij)².

    Parameters
    ----------
    y : array of shape (n, k)
        Coordinates of the fitted objects.
    signs : array of shape (k,)
    products : array of shape (n, k(k + 1)/2)
        Products of any two columns of y.
    spread : array of shape (k²,), integer
        Which of these each entry of a k × k matrix is.
    w, d : arrays of shape (m, n)
        Weights, and squared dissimilarities.
    """
    xp, k = namespace(y), int(y.shape[1])
    rows = asarray_like(np.arange(w.shape[0]), w, dtype=xp.int64)
    # From the object of the largest weight, which then adds nothing to the sums: next to it all
    # others may count 1e-20 as much, and would be lost in what it adds.
    first = xp.argmax(w, axis=1)
    origin, total = y[first], xp.sum(w, axis=1, keepdims=True)
    w = w / xp.where(total > 0, total, xp.ones_like(total))
    others = xp.asarray(w, copy=True)
    others[rows, first] = 0.0
    weight, sums = xp.sum(others, axis=1, keepdims=True), others @ y
    mean = sums - weight * origin
    second = xp.reshape(xp.take(others @ products, spread, axis=1), (-1, k, k))
    # What a difference of these is known to: nothing else may be left of S, below zero too.
    rounding = EPS * xp.sum(xp.linalg.diagonal(second), axis=1)
    second -= sums[:, :, None] * origin[:, None, :] + origin[:, :, None] * mean[:, None, :]
    second -= mean[:, :, None] * mean[:, None, :]
    # c_j = y_jᵀAy_j − D_j, with y_j from the mean
    center = origin + mean
    c = ((y * y) @ signs)[None, :] - d
    c -= 2 * (center * signs) @ y.T
    c += ((center * center) @ signs)[:, None]
    c[rows, first] = (mean * mean) @ signs - d[rows, first]
    weighted = w * c
    level = xp.sum(weighted, axis=1)
    weighted[rows, first] = 0.0
    from_origin = weighted @ y - xp.sum(weighted, axis=1, keepdims=True) * origin
    pull = from_origin - level[:, None] * mean
    rounding = xp.clip(rounding, min=NOTHING * float(xp.mean(y * y)))
    to_v, m = _both_diagonal(second, signs, rounding)
    p = -(pull[:, None, :] @ to_v)[:, 0, :]
    z = secular_minimum(p, -level, m, 1)[0]
    v = (to_v @ z[:, :, None])[:, :, 0]
    return center + v * signs


def _both_diagonal(second: Array, signs: Array, least: Array) -> tuple[Array, Array]:
    """Return W with WᵀSW = I and WᵀAW diagonal, and that diagonal."""
    xp, k = namespace(second), int(signs.shape[0])
    own = xp.sum(xp.linalg.diagonal(second), axis=1) / max(1, k)
    ridge = xp.maximum(RIDGE * own, least) + np.finfo(np.float64).tiny
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
