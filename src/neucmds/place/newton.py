"""New objects by a loss, each by its own damped Newton steps.

Shapes are those of m new objects, n fitted ones and k coordinates.
"""

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


def descend_from_best(
    new: NewObjects, loss: PairLoss, start: Array | None = None
) -> Array:
    """Return the coordinates at which each object ends its descent from its best start.

    It may start at its nearest fitted object, at the minimum of the squared loss, or at `start`.
    """
    sq_d = new.sq_dissimilarity
    xp = namespace(sq_d)
    squared_minimum = least_squares(new, new.counted(xp.ones_like(sq_d)))
    starts = [at_nearest(new), squared_minimum]
    if start is not None:
        starts.append(start)
    values = xp.stack([loss_values(new, loss, x) for x in starts])
    objects = index_like(np.arange(sq_d.shape[0]), sq_d)
    best = (xp.argmin(values, axis=0), objects)
    return descend(new, loss, xp.stack(starts)[best])


def at_nearest(new: NewObjects) -> Array:
    """Return the coordinates of the fitted object nearest to each new one."""
    sq_d = new.sq_dissimilarity
    xp = namespace(sq_d)
    if new.counts is not None:
        sq_d = xp.where(new.counts > 0, sq_d, np.inf)
    return new.fitted_at(xp.argmin(sq_d, axis=1))


def best_of(new: NewObjects, loss: PairLoss, x: Array, other: Array) -> Array:
    """Return the coordinates x of every new object, or the other ones if their loss is lower."""
    is_lower = loss_values(new, loss, other) < loss_values(new, loss, x)
    return namespace(x).where(is_lower[:, None], other, x)


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

    `bend` is 1 + q q″/q′². For a height, a column without sign, ½ takes the place of x − y_j, and
    D̂ does not bend.
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


def _made_definite(hessian: Array) -> Array:
    """Return Hessians, which are overwritten, with the magnitudes of their eigenvalues as such."""
    xp = namespace(hessian)
    # Those without a Cholesky factor; all where the library does not say which.
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
    """Return the ends of damped Newton steps from x, which is overwritten, for all objects at once.

    An object stops where its step promises no gain. The gain that a step had is no measure: next
    to the minimum rounding hides it.
    """
    xp = namespace(x)
    value = loss_values(new, loss, x)
    gradient, hessian = newton_model(new, loss, x)
    hessian = _made_definite(hessian)
    damping = xp.full_like(value, 1e-3)
    # Numbers of the objects that have not arrived.
    active = index_like(np.arange(value.shape[0]), value)
    for _ in range(MAX_ITER):
        step, promised_gain = _newton_step(
            gradient[active], hessian[active], damping[active] + TOL
        )
        start = x[active]
        value_before = value[active]
        end = start + step
        value_after = loss_values(new.take(active), loss, end)
        is_lower = value_after < value_before
        has_arrived = promised_gain <= TOL * value_before
        # Damping falls after a step that lowered the loss, and rises after one that did not.
        damping[active] = damping[active] * xp.where(is_lower, 0.2, 8.0)
        x[active] = xp.where(is_lower[:, None], end, start)
        value[active] = xp.where(is_lower, value_after, value_before)
        moved = active[is_lower & ~has_arrived]
        active = active[~has_arrived]
        if not active.shape[0]:
            break
        if moved.shape[0]:
            gradient[moved], moved_hessian = newton_model(
                new.take(moved), loss, x[moved]
            )
            hessian[moved] = _made_definite(moved_hessian)
    return x
