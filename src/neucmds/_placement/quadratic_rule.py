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
import numpy.typing as npt

from neucmds._placement.rules import secular_minimum

Floats = npt.NDArray[np.float64]

# Share of the mean length of S that is added to it: what keeps S invertible where few fitted
# objects count.
RIDGE = 1e-10
EPS = float(np.finfo(np.float64).eps)
# Share of the squared size of the coordinates below which S is nothing.
NOTHING = 1e-60


def least_point(
    y: Floats, signs: Floats, products: Floats, spread: npt.NDArray[np.intp], w: Floats, d: Floats
) -> Floats:
    """Return the positions x (m, k) that minimise Σ_j w_ij (D̂_ij − D_ij)².

    Parameters
    ----------
    y : ndarray of shape (n, k)
        Coordinates of the fitted objects.
    signs : ndarray of shape (k,)
    products : ndarray of shape (n, k(k + 1)/2)
        Products of any two columns of y.
    spread : ndarray of shape (k²,), integer
        Which of these each entry of a k × k matrix is.
    w, d : ndarrays of shape (m, n)
        Weights, and squared dissimilarities.
    """
    k, rows = y.shape[1], np.arange(len(w))
    # From the object of the largest weight, which then adds nothing to the sums: next to it all
    # others may count 1e-20 as much, and would be lost in what it adds.
    first = np.argmax(w, axis=1)
    origin, total = y[first], w.sum(axis=1, keepdims=True)
    w = w / np.where(total > 0, total, 1.0)
    others = w.copy()
    others[rows, first] = 0.0
    weight, sums = others.sum(axis=1, keepdims=True), others @ y
    mean = sums - weight * origin
    second = (others @ products).take(spread, axis=1).reshape(-1, k, k)
    # What a difference of these is known to: nothing else may be left of S, below zero too.
    rounding = EPS * np.einsum("ikk->i", second)
    second -= sums[:, :, None] * origin[:, None, :] + origin[:, :, None] * mean[:, None, :]
    second -= mean[:, :, None] * mean[:, None, :]
    # c_j = y_jᵀAy_j − D_j, with y_j from the mean
    center = origin + mean
    c = (y * y) @ signs - d
    c -= 2 * (center * signs) @ y.T
    c += ((center * center) @ signs)[:, None]
    c[rows, first] = (mean * mean) @ signs - d[rows, first]
    weighted = w * c
    level = weighted.sum(axis=1)
    weighted[rows, first] = 0.0
    pull = weighted @ y - weighted.sum(axis=1, keepdims=True) * origin - level[:, None] * mean
    rounding = np.maximum(rounding, NOTHING * float(np.mean(y * y)))
    to_v, m = _both_diagonal(second, signs, rounding)
    p = -(pull[:, None, :] @ to_v)[:, 0, :]
    z = secular_minimum(p, -level, m, 1)[0]
    v = (to_v @ z[:, :, None])[:, :, 0]
    position: Floats = center + v * signs
    return position


def _both_diagonal(second: Floats, signs: Floats, least: Floats) -> tuple[Floats, Floats]:
    """Return W with WᵀSW = I and WᵀAW diagonal, and that diagonal."""
    k = signs.size
    own = np.einsum("ikk->i", second) / max(1, k)
    ridge = np.maximum(RIDGE * own, least) + np.finfo(np.float64).tiny
    diagonal = np.arange(k)
    second[:, diagonal, diagonal] += ridge[:, None]
    try:
        root = np.linalg.inv(np.linalg.cholesky(second))
    except np.linalg.LinAlgError:
        lengths, axes = np.linalg.eigh(second)
        lengths = np.maximum(lengths, ridge[:, None])
        root = np.swapaxes(axes, 1, 2) / np.sqrt(lengths)[:, :, None]
    m, rotation = np.linalg.eigh((root * signs) @ np.swapaxes(root, 1, 2))
    return np.swapaxes(root, 1, 2) @ rotation, m
