"""Align two sets of coordinates up to the isometries of their bilinear form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import expm, orthogonal_procrustes

from neucmds.backend.arrays import Floats, Indices

# Most iterations of each loop here; 30 random pairs of signature (3, 2) took up to 25 steps.
MAX_ITER = 200
# A step of T below this is rounding, and so is an eigenvalue below this share of the largest.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Alignment:
    """How well one set of coordinates can be laid over another.

    Parameters
    ----------
    disparity : float
        ``min ‖X − c·Y·T‖² / ‖X‖²`` over all T of O(p, q) and, with scaling, all c: 0 if both give
        the same dissimilarities up to scale, 1 if they have nothing in common.
    coordinates : ndarray of shape (n, k)
        c·Y·T, the aligned coordinates.
    isometry : ndarray of shape (k, k)
        T, which changes no dissimilarity: T A Tᵀ = A, with A the diagonal matrix of the signs.
    scale : float
        c.
    objects : ndarray of shape (n,) or None
        Row numbers in X of the objects that are compared, in the order of `coordinates`; None: all
        of X.
    """

    disparity: float
    coordinates: Floats
    isometry: Floats
    scale: float
    objects: Indices | None = None


def common_signs(x_signs: Floats, y_signs: Floats) -> Floats:
    """Return the signs of the least signature that both signatures fit in, positive ones first."""
    n_positive = max(np.sum(x_signs > 0), np.sum(y_signs > 0))
    n_negative = max(np.sum(x_signs < 0), np.sum(y_signs < 0))
    return np.repeat([1.0, -1.0], [n_positive, n_negative])


def columns_by_sign(signs: Floats, common: Floats) -> Indices:
    """Return the number of the column for each of the common signs; heights, of sign 0, have none.

    Where a sign has too few columns, numbers beyond the last stand for columns of zeros.
    """
    n_lacking = [np.sum(common == s) - np.sum(signs == s) for s in (1, -1)]
    padded = np.append(signs, np.repeat([1.0, -1.0], n_lacking))
    order = np.argsort(-padded, kind="stable")
    columns: Indices = order[padded[order] != 0]
    return columns


def centered_columns(coordinates: Floats, columns: Indices) -> Floats:
    """Return centered coordinates with the columns that `columns_by_sign` names, in float64."""
    points = coordinates.astype(np.float64)
    centered = points - points.mean(axis=0)
    # Enough columns of zeros for any number beyond the last.
    return np.pad(centered, ((0, 0), (0, columns.size)))[:, columns]


def align(
    x: Floats, y: Floats, signs: Floats, scaling: bool = True
) -> Alignment:
    """Minimise ‖X − c·Y·T‖ over T of O(p, q), by Gauss–Newton steps on this group.

    X and Y are centered, with columns in the same order of signs; A is the diagonal matrix of
    these. A step to T exp(KA), with K skew, solves ``GK + KG = (M − Mᵀ)/c`` where G = ZᵀZ,
    M = Zᵀ(X − cZ)A and Z = YT, since A is orthogonal and cancels. For a signature (k, 0) the start
    is the solution.
    """
    starts = [_block_rotation(x, y, signs)]
    has_boosts = np.any(signs != signs[:1])
    if has_boosts:
        # With both signs there are local minima: a second start is made of the best linear map.
        starts += _nearest_isometry(x, y, signs)
    alignments = [_aligned(x, y, signs, scaling, start) for start in starts]
    return min(alignments, key=lambda alignment: alignment.disparity)


def _aligned(
    x: Floats, y: Floats, signs: Floats, scaling: bool, isometry: Floats
) -> Alignment:
    """Return the alignment at the end of the descent from an isometry."""
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
    """Return the best isometry that does not mix positive with negative columns."""
    isometry = np.eye(signs.size)
    for sign in (1.0, -1.0):
        columns = np.flatnonzero(signs == sign)
        if columns.size:
            rotation, _ = orthogonal_procrustes(y[:, columns], x[:, columns])
            isometry[np.ix_(columns, columns)] = rotation
    return isometry


def _nearest_isometry(x: Floats, y: Floats, signs: Floats) -> list[Floats]:
    """Return the isometry that Newton's iteration reaches from the best linear map, if any.

    With T the map, an isometry is one that equals A T⁻ᵀ A: the mean of both is the next map.
    """
    solution, *_ = np.linalg.lstsq(y, x, rcond=None)
    linear_map = np.asarray(solution, np.float64)
    form = np.diag(signs)
    for _ in range(MAX_ITER):
        if np.allclose(linear_map @ form @ linear_map.T, form, atol=1e-9):
            return [linear_map]
        # Also where the condition number is NaN.
        if not np.linalg.cond(linear_map) < 1e12:
            break
        inverse = np.linalg.inv(linear_map)
        linear_map = (linear_map + signs[:, None] * inverse.T * signs) / 2
    return []


def _scaled(x: Floats, z: Floats, scaling: bool) -> tuple[float, float]:
    """Return the best scale c, 1 without scaling, and ‖X − c·Z‖²."""
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
    """Return exp(KA), KA halved until the error falls; None if it falls for no step."""
    for _ in range(MAX_ITER):
        move = np.asarray(expm(generator))
        if _scaled(x, z @ move, scaling)[1] < error:
            return move
        if np.abs(generator).max() < ROUNDING:
            break
        generator = generator / 2
    return None
