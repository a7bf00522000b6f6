"""Σ w (d̂² − d²)² at some coordinates, pair by pair, and its rise without each coordinate."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from neucmds.backend.arrays import (
    EPS,
    Array,
    Floats,
    asarray_like,
    in_double,
    namespace,
    to_numpy,
)
from neucmds.form import Form
from neucmds.refine.descent import FEW_OBJECTS


def stress_of_rows(
    blocks: Iterable[tuple[slice, Array]],
    x: Array,
    y: Array,
    form: Form,
    weights: Array | None = None,
    precision: float = 0.0,
) -> tuple[float, float, Floats]:
    """Return the STRESS of all pairs, a bound on its error, and its rises.

    `blocks` are rows of D, from points x to points y; `precision` is the ε of D.

    Residuals are known to some ε(‖x_i‖² + ‖x_j‖²). The rises are those of every m-th object with
    all others, scaled to the whole.
    """
    xp = namespace(x)
    x_sizes = xp.sum(x * x, axis=1)
    y_sizes = xp.sum(y * y, axis=1)
    step = math.ceil(x.shape[0] / FEW_OBJECTS)
    stress = 0.0
    spread = 0.0
    counted = 0.0
    rises = np.zeros(x.shape[1])
    for rows, part in blocks:
        d = in_double(part)
        w = xp.ones_like(d)
        if weights is not None:
            w = xp.astype(weights[rows, :], xp.float64)
        if x is y:
            # D̂ of an object with itself is 0 by definition.
            own = np.arange(rows.start, rows.stop)[:, None]
            w = w * asarray_like(own != np.arange(y.shape[0]), w)
        sq = form.sq(x[rows, :], y)
        errors = w * (form.to_sq_distance(sq) - d) ** 2
        stress += float(xp.sum(errors))
        spread += float(
            xp.sum(w * (x_sizes[rows][:, None] + y_sizes[None, :]) ** 2)
        )
        chosen = slice(-rows.start % step, None, step)
        with_all = float(xp.sum(errors[chosen, :]))
        counted += with_all
        for axis, sign in enumerate(to_numpy(form.signs)):
            first = x[rows, axis][chosen, None]
            second = y[None, :, axis]
            part = float(sign) * (first - second) ** 2
            if not sign:
                part = first + second
            without = form.to_sq_distance(sq[chosen, :] - part)
            lost = w[chosen, :] * (without - d[chosen, :]) ** 2
            rises[axis] += float(xp.sum(lost)) - with_all
    level = max(16 * EPS, 4 * precision)
    error = level * math.sqrt(spread)
    bound = error * (2 * math.sqrt(stress) + error) + level * stress
    if counted:
        rises *= stress / counted
    return stress, bound, rises
