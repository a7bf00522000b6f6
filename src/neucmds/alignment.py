"""Align two sets of coordinates up to the isometries of their bilinear form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import expm

Floats = npt.NDArray[np.float64]

# The disparity of 30 random pairs of signature (3, 2) had settled to 12 digits after at most 25.
MAX_ITER = 200
# Of a step, tried until the error falls.
LENGTHS = 0.5 ** np.arange(30)


@dataclass(frozen=True)
class Alignment:
    """How well one set of coordinates can be laid over another.

    Parameters
    ----------
    disparity : float
        ``min ‖X − c·Y·T‖² / ‖X‖²`` over all T of O(p, q) and, unless scaling was ruled out, all c:
        0 if both give the same dissimilarities up to scale, 1 if they have nothing in common.
    coordinates : ndarray of shape (n, k)
        c·Y·T, the aligned coordinates.
    isometry : ndarray of shape (k, k)
        T, with T A Tᵀ = A for the signature A: it changes no dissimilarity.
    scale : float
        c.
    objects : ndarray of shape (n,) or None
        Numbers in X of the objects compared, a row of `coordinates` each; None: all of X.
    """

    disparity: float
    coordinates: Floats
    isometry: Floats
    scale: float
    objects: npt.NDArray[np.intp] | None = None


def columns_by_sign(
    x: Floats, x_signs: Floats, y: Floats, y_signs: Floats
) -> tuple[list[Floats], Floats, list[npt.NDArray[np.intp]]]:
    """Center two sets of coordinates, and put their positive columns first.

    Where one has fewer columns of a sign, columns of zeros stand for the others: they come after
    all of its own in the order that is returned for each, beside the common signs.
    """
    counts = [max(int(np.sum(s == sign)) for s in (x_signs, y_signs)) for sign in (1, -1)]
    parts, orders = [], []
    for points, own in ((x, x_signs), (y, y_signs)):
        order, spare = [], own.size
        for sign, count in zip((1, -1), counts, strict=True):
            held = np.flatnonzero(own == sign)
            lacking = count - held.size
            order += [*held, *range(spare, spare + lacking)]
            spare += lacking
        centered = points - points.mean(axis=0)
        orders.append(np.array(order, dtype=np.intp))
        parts.append(np.pad(centered, ((0, 0), (0, spare - own.size)))[:, orders[-1]])
    return parts, np.repeat([1.0, -1.0], counts), orders


def align(x: Floats, y: Floats, signs: Floats, scaling: bool = True) -> Alignment:
    """Minimise ‖X − c·Y·T‖ over T of O(p, q), by Gauss–Newton steps on the group.

    A step T exp(KA) with K skew solves ``GK + KG = (M − Mᵀ)/c`` with G = ZᵀZ, M = Zᵀ(X − cZ)A and
    Z = YT, since A is orthogonal and cancels. For a signature (k, 0) the start is the solution. X
    and Y are centered, with columns in the same order of signs.
    """
    starts = [_block_rotation(x, y, signs)]
    # Boosts have local minima: the best linear map, made an isometry, is a second start.
    if np.any(signs != signs[:1]) and (nearest := _nearest_isometry(x, y, signs)) is not None:
        starts.append(nearest)
    ends = [_aligned(x, y, signs, scaling, start) for start in starts]
    return min(ends, key=lambda end: end.disparity)


def _aligned(x: Floats, y: Floats, signs: Floats, scaling: bool, isometry: Floats) -> Alignment:
    """Descend from an isometry."""
    total, z = float(np.sum(x * x)), y @ isometry
    scale, error = _scaled(x, z, scaling)
    for _ in range(MAX_ITER):
        skew = _step(x, z, scale, signs)
        shorter = _line_search(x, z, skew * signs[None, :], error, scaling)
        if shorter is None:
            break
        move, z, scale, smaller = shorter
        isometry = isometry @ move
        gain, error = error - smaller, smaller
        if gain <= 1e-20 * total:
            break
    return Alignment(error / total if total else 0.0, scale * z, isometry, scale)


def _block_rotation(x: Floats, y: Floats, signs: Floats) -> Floats:
    """Orthogonal Procrustes within the positive and within the negative columns."""
    isometry = np.eye(signs.size)
    for sign in (1.0, -1.0):
        which = np.flatnonzero(signs == sign)
        if which.size:
            u, _, vt = np.linalg.svd(y[:, which].T @ x[:, which])
            isometry[np.ix_(which, which)] = u @ vt
    return isometry


def _nearest_isometry(x: Floats, y: Floats, signs: Floats) -> Floats | None:
    """Return the isometry next to the linear map of least squares, by Newton's iteration."""
    linear: Floats = np.asarray(np.linalg.lstsq(y, x, rcond=None)[0], dtype=np.float64)
    form = np.diag(signs)
    for _ in range(MAX_ITER):
        if np.allclose(linear @ form @ linear.T, form, atol=1e-9):
            return linear
        if not np.linalg.cond(linear) < 1e12:
            break
        linear = (linear + signs[:, None] * np.linalg.inv(linear).T * signs) / 2
    return None


def _scaled(x: Floats, z: Floats, scaling: bool) -> tuple[float, float]:
    """Return the best scale c, or 1, and ‖X − c·Z‖²."""
    size = float(np.sum(z * z))  # zero where the squares of small z underflow
    scale = float(np.sum(x * z)) / size if scaling and size else 1.0
    return scale, float(np.sum((x - scale * z) ** 2))


def _step(x: Floats, z: Floats, scale: float, signs: Floats) -> Floats:
    """Solve the Gauss–Newton equation for the skew matrix K, in the eigenbasis of G."""
    m = z.T @ ((x - scale * z) * signs[None, :])
    sizes, axes = np.linalg.eigh(z.T @ z)
    right = axes.T @ (m - m.T) @ axes
    sums = sizes[:, None] + sizes[None, :]
    floor = 1e-12 * max(float(sizes[-1]), np.finfo(np.float64).tiny)
    return np.asarray(axes @ (right / np.maximum(sums, floor)) @ axes.T / (scale or 1.0))


def _line_search(
    x: Floats, z: Floats, generator: Floats, error: float, scaling: bool
) -> tuple[Floats, Floats, float, float] | None:
    for length in LENGTHS:
        move = expm(length * generator)
        moved = z @ move
        scale, smaller = _scaled(x, moved, scaling)
        if smaller < error:
            return move, moved, scale, smaller
    return None
