"""New objects by a loss, each by its own damped Newton steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from neucmds.backend.arrays import (
    Array,
    device,
    index_like,
    namespace,
    solve_definite,
    stacked_cholesky,
    stacked_eigh,
)
from neucmds.place.least_squares import (
    MAX_ITER,
    TINY,
    NewObjects,
    least_squares,
)
from neucmds.refine.losses import PairLoss

# An object has arrived when a step promises to gain less than this share of its loss; and the share
# of its mean curvature that is added to all directions.
TOL = 1e-9


def descended(
    new: NewObjects, loss: PairLoss, start: Array | None = None
) -> Array:
    """Return the coordinates at which descents from the best of several starts end."""
    d = new.sq_dissimilarity
    xp = namespace(d)
    # The rule of the squared loss has one minimum.
    starts = [_nearest(new), least_squares(new, new.counted(xp.ones_like(d)))]
    if start is not None:
        starts.append(start)
    values = xp.stack([loss_values(new, loss, x) for x in starts])
    each = index_like(np.arange(d.shape[0]), d)
    best = (xp.argmin(values, axis=0), each)
    return descend(new, loss, xp.stack(starts)[best])


def _nearest(new: NewObjects) -> Array:
    """Return where the nearest fitted object of each new one is."""
    d = new.sq_dissimilarity
    xp = namespace(d)
    if new.counts is not None:
        d = xp.where(new.counts > 0, d, xp.full_like(d, np.inf))
    return new.fitted_at(xp.argmin(d, axis=1))


def loss_values(new: NewObjects, loss: PairLoss, x: Array) -> Array:
    """Return the loss of every new object at x."""
    q, _, _ = loss.terms(new.form, new.sq_dissimilarity, new.d_hat(x))
    return namespace(q).vecdot(new.counted(q), q)


def newton_model(
    new: NewObjects, loss: PairLoss, x: Array
) -> tuple[Array, Array]:
    """Gradient g and Hessian of half the loss of every object.

    g = 4A[(Σc)x − cY] with c = u q q′, and the Hessian is 8 A[Σ w (x − y)(x − y)ᵀ]A + 4(Σc)A
    with w = u(q′² + q q″).
    """
    xp = namespace(x)
    signs = new.form.signs
    q, slope, bend = loss.terms(
        new.form, new.sq_dissimilarity, new.d_hat(x), bend=True
    )
    if slope is None:
        slope = xp.ones_like(q)
    counted = new.counted(slope)
    c = counted * q
    w = counted * slope
    if bend is not None:
        w = w * bend
    pull = xp.sum(c, axis=1)[:, None]
    hessian = 8 * new.second_moments(x, w) * (signs[:, None] * signs[None, :])
    bilinear = (
        xp.eye(int(signs.shape[0]), dtype=xp.float64, device=device(x)) * signs
    )
    hessian += (4 * pull)[:, :, None] * bilinear
    return 4 * signs * (pull * x - new.sums(c)), hessian


def _upwards(hessian: Array) -> Array:
    """Change the sign of negative eigenvalues, found by Cholesky factors first."""
    xp = namespace(hessian)
    bent: Any = slice(None)
    factors = stacked_cholesky(hessian)
    if factors is not None:
        bent = xp.nonzero(factors[1])[0]
        if not int(bent.shape[0]):
            return hessian
    curvatures, axes = stacked_eigh(hessian[bent])
    hessian[bent] = (
        axes * xp.abs(curvatures)[:, None, :]
    ) @ xp.matrix_transpose(axes)
    return hessian


def _newton_step(
    gradient: Array, hessian: Array, damping: Array
) -> tuple[Array, Array]:
    """Return the steps of damped Hessians, which are overwritten, and their promised gain."""
    xp = namespace(damping)
    k = int(gradient.shape[1])
    mean = xp.clip(xp.sum(xp.linalg.diagonal(hessian), axis=1) / k, min=TINY)
    eye = xp.eye(k, dtype=hessian.dtype, device=device(hessian))
    hessian += (damping * mean)[:, None, None] * eye
    step = solve_definite(hessian, -gradient)
    return step, -0.5 * xp.vecdot(gradient, step)


def descend(new: NewObjects, loss: PairLoss, x: Array) -> Array:
    """Damped Newton steps on all objects at once, until these promise no gain.

    Not the gain itself, which rounding hides next to the minimum.
    """
    xp = namespace(x)
    value = loss_values(new, loss, x)
    gradient, hessian = newton_model(new, loss, x)
    hessian = _upwards(hessian)
    damping = xp.full_like(value, 1e-3)
    left = index_like(np.arange(value.shape[0]), value)
    for _ in range(MAX_ITER):
        step, promised = _newton_step(
            gradient[left], hessian[left], damping[left] + TOL
        )
        start = x[left]
        before = value[left]
        trial = start + step
        reached = loss_values(new.take(left), loss, trial)
        better = reached < before
        arrived = promised <= TOL * before
        change = xp.where(
            better, xp.full_like(before, 0.2), xp.full_like(before, 8.0)
        )
        damping[left] = damping[left] * change
        x[left] = xp.where(better[:, None], trial, start)
        value[left] = xp.where(better, reached, before)
        moved = left[better & ~arrived]
        left = left[~arrived]
        if not int(left.shape[0]):
            break
        if int(moved.shape[0]):
            gradient[moved], bent = newton_model(
                new.take(moved), loss, x[moved]
            )
            hessian[moved] = _upwards(bent)
    return x
