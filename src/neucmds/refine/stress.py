"""STRESS pair by pair, Σ w (d̂² − d²)², and how much it rises without each coordinate."""

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
    """Return the STRESS of all pairs, a bound on its rounding error, and its rises.

    `blocks` are slices of rows of d² and these rows, from points `x` to points `y`, which is `x`
    unless d is directed. `precision` is the ε to which d² is rounded. The rises, one without each
    coordinate, are computed for every `step`-th row and scaled to all.

    A residual is known to some ε(‖x_i‖² + ‖y_j‖²): the bound follows from these errors.
    """
    xp = namespace(x)
    x_sizes = xp.sum(x * x, axis=1)
    y_sizes = xp.sum(y * y, axis=1)
    y_powers = xp.stack([xp.ones_like(y_sizes), y_sizes, y_sizes**2], axis=1)
    numbers = index_like(np.arange(y.shape[0]), y)
    step = math.ceil(x.shape[0] / FEW_OBJECTS)
    stress = 0.0
    sq_spread = 0.0
    stress_of_chosen = 0.0
    rises = np.zeros(x.shape[1])
    for rows, part in blocks:
        sq_distance = in_double(part)
        sq_hat = form.sq(x[rows, :], y)
        errors = form.to_sq_distance(sq_hat) - sq_distance
        errors *= errors
        if weights is not None:
            w = xp.astype(weights[rows, :], xp.float64, copy=False)
        else:
            w = xp.ones_like(sq_distance)
            if x is y:
                # D̂ of an object with itself is 0 by definition.
                w[numbers[rows, None] == numbers] = 0.0
        errors *= w
        # Σ_j w (‖x_i‖² + ‖y_j‖²)² of every object i, by powers of ‖y_j‖²
        sizes = x_sizes[rows]
        sums = w @ y_powers
        sq_spread += float(
            xp.sum(sizes**2 * sums[:, 0] + 2 * sizes * sums[:, 1] + sums[:, 2])
        )
        stress += float(xp.sum(errors))
        # Of all rows, those whose number is a multiple of `step`.
        chosen = slice(-rows.start % step, None, step)
        chosen_sum = float(xp.sum(errors[chosen, :]))
        stress_of_chosen += chosen_sum
        for axis, sign in enumerate(to_numpy(form.signs)):
            first = x[rows, axis][chosen, None]
            second = y[None, :, axis]
            # D̂ without this coordinate, or without this height (sign 0).
            if sign:
                without = first - second
                without *= without
                without *= -float(sign)
            else:
                without = -first - second
            without += sq_hat[chosen, :]
            error = form.to_sq_distance(without) - sq_distance[chosen, :]
            error *= error
            error *= w[chosen, :]
            rises[axis] += float(xp.sum(error)) - chosen_sum
    level = max(16 * EPS, 4 * precision)
    residual_error = level * math.sqrt(sq_spread)
    # |‖r + δ‖² − ‖r‖²| ≤ ‖δ‖(2‖r‖ + ‖δ‖), and the rounding of the sum.
    bound = residual_error * (2 * math.sqrt(stress) + residual_error)
    bound += level * stress
    if stress_of_chosen:
        rises *= stress / stress_of_chosen
    return stress, bound, rises
