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
    k = y.shape[1]
    total = w.sum(axis=1, keepdims=True)
    w = w / np.where(total > 0, total, 1.0)
    mean = w @ y
    second = (w @ products).take(spread, axis=1).reshape(-1, k, k)
    # Where one weight is all but everything, nothing but rounding is left of S, below zero too.
    rounding = EPS * np.einsum("ikk->i", second)
    second -= mean[:, :, None] * mean[:, None, :]
    # c_j = y_jᵀAy_j − D_j, with y_j from the mean
    norms = (y * y) @ signs
    c = norms - d
    c -= 2 * (mean * signs) @ y.T
    c += ((mean * mean) @ signs)[:, None]
    weighted = w * c
    level = weighted.sum(axis=1)
    pull = weighted @ y - level[:, None] * mean
    to_v, m = _both_diagonal(second, signs, rounding)
    p = -(pull[:, None, :] @ to_v)[:, 0, :]
    z = secular_minimum(p, -level, m, 1)[0]
    v = (to_v @ z[:, :, None])[:, :, 0]
    position: Floats = mean + v * signs
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
