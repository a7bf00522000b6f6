"""Align two sets of coordinates up to the isometries of their bilinear form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import expm, orthogonal_procrustes

from neucmds.backend.arrays import Floats, Indices

# Most iterations of each loop here; 30 random pairs of signature (3, 2) took 25 steps.
MAX_ITER = 200
# Steps of the group, and eigenvalues as a share of the largest, below this are rounding.
ROUNDING = 1e-12


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
    objects: Indices | None = None


def common_signs(x_signs: Floats, y_signs: Floats) -> Floats:
    """Return the signs of the least signature that both fit in, positive ones first."""
    n_positive = max(np.sum(x_signs > 0), np.sum(y_signs > 0))
    n_negative = max(np.sum(x_signs < 0), np.sum(y_signs < 0))
    return np.repeat([1.0, -1.0], [n_positive, n_negative])


def columns_by_sign(signs: Floats, common: Floats) -> Indices:
    """Return the column that each of the common signs has; one of sign 0, heights, is left out.

    Numbers beyond the last column stand for columns of zeros, where too few have a sign.
    """
    n_lacking = [np.sum(common == s) - np.sum(signs == s) for s in (1, -1)]
    padded = np.append(signs, np.repeat([1.0, -1.0], n_lacking))
    order = np.argsort(-padded, kind="stable")
    signed: Indices = order[padded[order] != 0]
    return signed


def centered_columns(coordinates: Floats, columns: Indices) -> Floats:
    """Center coordinates, and put them into the columns of `columns_by_sign`."""
    points = coordinates.astype(np.float64)
    centered = points - points.mean(axis=0)
    return np.pad(centered, ((0, 0), (0, columns.size)))[:, columns]


def align(
    x: Floats, y: Floats, signs: Floats, scaling: bool = True
) -> Alignment:
    """Minimise ‖X − c·Y·T‖ over T of O(p, q), by Gauss–Newton steps on the group.

    A step T exp(KA) with K skew solves ``GK + KG = (M − Mᵀ)/c`` with G = ZᵀZ, M = Zᵀ(X − cZ)A and
    Z = YT, since A is orthogonal and cancels. For a signature (k, 0) the start is the solution. X
    and Y are centered, with columns in the same order of signs.
    """
    starts = [_block_rotation(x, y, signs)]
    has_boosts = np.any(signs != signs[:1])
    if has_boosts:
        # Boosts have local minima: the best linear map, made an isometry, is a second start.
        starts += _nearest_isometry(x, y, signs)
    alignments = [_aligned(x, y, signs, scaling, start) for start in starts]
    return min(alignments, key=lambda alignment: alignment.disparity)


def _aligned(
    x: Floats, y: Floats, signs: Floats, scaling: bool, isometry: Floats
) -> Alignment:
    """Descend from an isometry."""
    total = float(np.sum(x * x))
    z = y @ isometry
    scale, error = _scaled(x, z, scaling)
    for _ in range(MAX_ITER):
        move = _shorter_move(x, z, _step(x, z, scale, signs), error, scaling)
        if move is None:
            break
        isometry = isometry @ move
        z = z @ move
        before = error
        scale, error = _scaled(x, z, scaling)
        if before - error <= 1e-20 * total:
            break
    return Alignment(error / (total or 1.0), scale * z, isometry, scale)


def _block_rotation(x: Floats, y: Floats, signs: Floats) -> Floats:
    """Orthogonal Procrustes within the positive and within the negative columns."""
    isometry = np.eye(signs.size)
    for sign in (1.0, -1.0):
        which = np.flatnonzero(signs == sign)
        if which.size:
            rotation, _ = orthogonal_procrustes(y[:, which], x[:, which])
            isometry[np.ix_(which, which)] = rotation
    return isometry


def _nearest_isometry(x: Floats, y: Floats, signs: Floats) -> list[Floats]:
    """Return the isometry next to the best linear map, if Newton's iteration reaches one."""
    solution = np.linalg.lstsq(y, x, rcond=None)
    linear = np.asarray(solution[0], np.float64)
    form = np.diag(signs)
    for _ in range(MAX_ITER):
        if np.allclose(linear @ form @ linear.T, form, atol=1e-9):
            return [linear]
        if not np.linalg.cond(linear) < 1e12:
            break
        inverse = np.linalg.inv(linear)
        linear = (linear + signs[:, None] * inverse.T * signs) / 2
    return []


def _scaled(x: Floats, z: Floats, scaling: bool) -> tuple[float, float]:
    """Return the best scale c, or 1, and ‖X − c·Z‖²."""
    sq_length = float(np.sum(z * z))
    scale = 1.0
    if scaling and sq_length:
        scale = float(np.sum(x * z)) / sq_length
    return scale, float(np.sum((x - scale * z) ** 2))


def _step(x: Floats, z: Floats, scale: float, signs: Floats) -> Floats:
    """Solve the Gauss–Newton equation for K, in the eigenbasis of G, and return KA."""
    m = z.T @ ((x - scale * z) * signs[None, :])
    eigenvalues, axes = np.linalg.eigh(z.T @ z)
    right = axes.T @ (m - m.T) @ axes
    sums = eigenvalues[:, None] + eigenvalues[None, :]
    floor = ROUNDING * max(float(eigenvalues[-1]), np.finfo(np.float64).tiny)
    skew = axes @ (right / np.maximum(sums, floor)) @ axes.T / (scale or 1.0)
    return np.asarray(skew * signs)


def _shorter_move(
    x: Floats, z: Floats, generator: Floats, error: float, scaling: bool
) -> Floats | None:
    """Halve a step until the error falls."""
    for _ in range(MAX_ITER):
        move = np.asarray(expm(generator))
        if _scaled(x, z @ move, scaling)[1] < error:
            return move
        if np.abs(generator).max() < ROUNDING:
            break
        generator = generator / 2
    return None
