"""New objects by a loss, each by its own damped Newton steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from neucmds.backend.arrays import (
    TINY,
    Array,
    index_like,
    namespace,
    solve_definite,
    stacked_cholesky,
    stacked_eigh,
)
from neucmds.place.least_squares import (
    MAX_ITER,
    NewObjects,
    eye_like,
    least_squares,
)
from neucmds.refine.losses import PairLoss

# An object has arrived when a step promises to gain less than this share of its loss. The same
# number is the least damping, in units of the mean eigenvalue of the Hessian.
TOL = 1e-9


def descended(
    new: NewObjects, loss: PairLoss, start: Array | None = None
) -> Array:
    """Return the coordinates at which descents from the best of several starts end."""
    sq_d = new.sq_dissimilarity
    xp = namespace(sq_d)
    # The squared loss has a closed form.
    squared_minimum = least_squares(new, new.counted(xp.ones_like(sq_d)))
    starts = [nearest(new), squared_minimum]
    if start is not None:
        starts.append(start)
    values = xp.stack([loss_values(new, loss, x) for x in starts])
    each = index_like(np.arange(sq_d.shape[0]), sq_d)
    best = (xp.argmin(values, axis=0), each)
    return descend(new, loss, xp.stack(starts)[best])


def nearest(new: NewObjects) -> Array:
    """Return where the nearest fitted object of each new one is."""
    sq_d = new.sq_dissimilarity
    xp = namespace(sq_d)
    if new.counts is not None:
        sq_d = xp.where(new.counts > 0, sq_d, np.inf)
    return new.fitted_at(xp.argmin(sq_d, axis=1))


def better(new: NewObjects, loss: PairLoss, x: Array, other: Array) -> Array:
    """Return x of every new object, or its other place where that has a lower loss."""
    lower = loss_values(new, loss, other) < loss_values(new, loss, x)
    return namespace(x).where(lower[:, None], other, x)


def loss_values(new: NewObjects, loss: PairLoss, x: Array) -> Array:
    """Return the loss of every new object at x."""
    q, _, _ = loss.terms(new.form, new.sq_dissimilarity, new.d_hat(x))
    return namespace(q).vecdot(new.counted(q), q)


def newton_model(
    new: NewObjects, loss: PairLoss, x: Array
) -> tuple[Array, Array]:
    """Return the gradient (m, k) and the Hessian (m, k, k) of the loss of every new object at x.

    The loss is Σ_j u_j q_j². With A = Diag(signs), y_j the fitted object j, and q′ = dq/dD̂:

        gradient = 4 A Σ_j c_j (x − y_j)                                c_j = u_j q_j q_j′
        Hessian  = 8 A [Σ_j w_j (x − y_j)(x − y_j)ᵀ] A + 4 (Σ_j c_j) A  w_j = u_j (q_j′² + q_j q_j″)

    `bend` is 1 + q q″/q′². Of a column without sign x − y_j is ½, and D̂ does not bend.
    """
    xp = namespace(x)
    signs = new.form.signs
    turn = new.form.turn
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
    c_sum = xp.sum(c, axis=1)[:, None]
    hessian = 8 * new.second_moments(x, w) * (turn[:, None] * turn[None, :])
    hessian += (4 * c_sum)[:, :, None] * (eye_like(hessian) * signs)
    return 2 * new.form.gradient(x, new.sums(c), c_sum), hessian


def _upwards(hessian: Array) -> Array:
    """Make the negative eigenvalues positive; Cholesky factors tell which Hessians have some."""
    xp = namespace(hessian)
    indefinite: Any = slice(None)
    factors = stacked_cholesky(hessian)
    if factors is not None:
        _, failed = factors
        indefinite = xp.nonzero(failed)[0]
        if not indefinite.shape[0]:
            return hessian
    values, axes = stacked_eigh(hessian[indefinite])
    scaled = axes * xp.abs(values)[:, None, :]
    hessian[indefinite] = scaled @ xp.matrix_transpose(axes)
    return hessian


def _newton_step(
    gradient: Array, hessian: Array, damping: Array
) -> tuple[Array, Array]:
    """Return the steps of damped Hessians, which are overwritten, and the gain that they promise.

    Damping is in units of the mean eigenvalue; the step s promises −½ gradient·s.
    """
    xp = namespace(damping)
    mean = xp.clip(xp.mean(xp.linalg.diagonal(hessian), axis=1), min=TINY)
    hessian += (damping * mean)[:, None, None] * eye_like(hessian)
    step = solve_definite(hessian, -gradient)
    return step, -0.5 * xp.vecdot(gradient, step)


def descend(new: NewObjects, loss: PairLoss, x: Array) -> Array:
    """Take damped Newton steps with all objects at once, until the steps promise no gain.

    The gain of a step is no measure: next to the minimum rounding hides it.
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
        # Damping falls after a step that lowered the loss, and rises after one that did not.
        damping[left] = damping[left] * xp.where(better, 0.2, 8.0)
        x[left] = xp.where(better[:, None], trial, start)
        value[left] = xp.where(better, reached, before)
        moved = left[better & ~arrived]
        left = left[~arrived]
        if not left.shape[0]:
            break
        if moved.shape[0]:
            gradient[moved], moved_hessian = newton_model(
                new.take(moved), loss, x[moved]
            )
            hessian[moved] = _upwards(moved_hessian)
    return x
