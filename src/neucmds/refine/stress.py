"""Σ w (d̂² − d²)² at some coordinates, pair by pair, and its rise without each coordinate."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from neucmds.backend.arrays import (
    EPS,
    Array,
    Floats,
    in_double,
    index_like,
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
    powers = xp.stack([xp.ones_like(y_sizes), y_sizes, y_sizes**2], axis=1)
    everyone = index_like(np.arange(y.shape[0]), y)
    step = math.ceil(x.shape[0] / FEW_OBJECTS)
    stress = 0.0
    spread = 0.0
    counted = 0.0
    rises = np.zeros(x.shape[1])
    for rows, part in blocks:
        d = in_double(part)
        sq = form.sq(x[rows, :], y)
        errors = form.to_sq_distance(sq) - d
        errors *= errors
        if weights is not None:
            w = xp.astype(weights[rows, :], xp.float64, copy=False)
        else:
            w = xp.ones_like(d)
            if x is y:
                # D̂ of an object with itself is 0 by definition.
                w[everyone[rows, None] == everyone] = 0.0
        errors *= w
        # Σ_j w (|x_i|² + |y_j|²)² of every object i
        sizes = x_sizes[rows]
        sums = w @ powers
        spread += float(
            xp.sum(sizes**2 * sums[:, 0] + 2 * sizes * sums[:, 1] + sums[:, 2])
        )
        stress += float(xp.sum(errors))
        chosen = slice(-rows.start % step, None, step)
        with_all = float(xp.sum(errors[chosen, :]))
        counted += with_all
        for axis, sign in enumerate(to_numpy(form.signs)):
            first = x[rows, axis][chosen, None]
            second = y[None, :, axis]
            if sign:
                lost = first - second
                lost *= lost
                lost *= -float(sign)
            else:
                lost = -first - second
            lost += sq[chosen, :]
            lost = form.to_sq_distance(lost) - d[chosen, :]
            lost *= lost
            lost *= w[chosen, :]
            rises[axis] += float(xp.sum(lost)) - with_all
    level = max(16 * EPS, 4 * precision)
    error = level * math.sqrt(spread)
    bound = error * (2 * math.sqrt(stress) + error) + level * stress
    if counted:
        rises *= stress / counted
    return stress, bound, rises
