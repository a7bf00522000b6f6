"""Validate dissimilarities and weights of new objects.

`delta` are dissimilarities on the scale of the fit, a row per new object.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from neucmds.backend.arrays import (
    Array,
    Floats,
    asarray_like,
    eps,
    in_double,
    min_and_max,
    namespace,
    to_numpy,
)
from neucmds.errors import InputError, option
from neucmds.problem.names import ordered_by_name
from neucmds.problem.validation import tolerance
from neucmds.problem.weights import checked_weights

# Largest ratio of a new dissimilarity to the largest fitted coordinate.
FARTHEST = 1e25


def check_shape(delta: Array, n: int) -> None:
    """Raise if new dissimilarities have another shape, or infinite entries."""
    xp = namespace(delta)
    if delta.ndim != 2 or delta.shape[1] != n:
        raise InputError(
            f"new dissimilarities have shape {tuple(delta.shape)}; expected (m, {n}) for m objects."
        )
    if bool(xp.any(xp.isinf(delta))):
        raise InputError(
            "new dissimilarities contain infinity; every entry must be finite."
        )


def check_gaps(delta: Array, k: int, missing: str) -> None:
    """Raise if the fit did not allow gaps, or an object has too few dissimilarities."""
    gaps = namespace(delta).isnan(delta)
    if not bool(namespace(delta).any(gaps)):
        return
    if missing != "ignore":
        raise InputError(
            "new dissimilarities contain NaN; every entry must be finite unless the fit had "
            f"{option('missing', 'ignore')}."
        )
    n_known = np.sum(~to_numpy(gaps), axis=1)
    row = int(np.argmin(n_known))
    if n_known[row] <= k:
        raise InputError(
            f"row {row} of the new objects has {int(n_known[row])} known dissimilarities; "
            f"{k} coordinates need at least {k + 1}."
        )


def sq_rows(
    delta: Array,
    fitted: Array,
    *,
    squared: bool,
    loss: str,
    weights: Floats | None = None,
    first: int = 0,
) -> Array:
    """Return dissimilarities (m, n) of new objects on the squared scale.

    Raise if they are too large, or negative at a positive weight where the loss does not allow it.
    They become float64 if float32 cannot hold their fourth powers. `squared` tells whether `delta`
    is squared, `fitted` are the fitted coordinates, and `first` is the number of the first object
    in messages.
    """
    if 0 in (*delta.shape, *fitted.shape):
        return delta
    xp = namespace(delta)
    lowest, highest = min_and_max(delta)
    if math.isnan(lowest):
        lowest, highest = min_and_max(xp.where(xp.isnan(delta), 0.0, delta))
    if lowest < 0 and not squared:
        raise InputError(
            f"new dissimilarities have a negative entry ({lowest:.3g}), but the fit was on "
            f"unsquared dissimilarities ({option('squared', False)})."
        )
    largest = max(-lowest, highest)
    if lowest < 0 and loss != "squared":
        delta = _without_negative(delta, largest, loss, weights, first)
    farthest = largest**0.5 if squared else largest
    length = max(map(abs, min_and_max(fitted)))
    if farthest > FARTHEST * length > 0:
        raise InputError(
            f"new dissimilarities are too large to be placed: the largest is {largest:.2g}; they "
            "must be on the scale of the fit."
        )
    # Placement takes fourth powers, which leave the range of float32 beyond 2^±24.
    sizes = (length, farthest)
    if not all(2.0**-24 < size < 2.0**24 for size in sizes if size > 0):
        delta = in_double(delta)
    return delta if squared else xp.square(delta)


def _without_negative(
    sq_new: Array,
    largest: float,
    loss: str,
    weights: Floats | None,
    first: int,
) -> Array:
    """Replace negative dissimilarities by zero if they are rounding, or have no weight.

    They are squared: no others are negative. `largest` is the largest in size.
    """
    xp = namespace(sq_new)
    # A fitted object passed again is at zero from itself, up to rounding.
    refused = sq_new < -tolerance(largest, eps(sq_new.dtype, xp))
    if weights is not None:
        refused = refused & (asarray_like(weights, sq_new) > 0)
    if bool(xp.any(refused)):
        i, j = np.argwhere(to_numpy(refused))[0].tolist()
        raise InputError(
            f"{option('loss', loss)} needs D ≥ 0, and the dissimilarity of new object {first + i} "
            f"to fitted object {j} is {float(sq_new[i, j]):.4g}; repair it, or give it weight 0."
        )
    return xp.where(sq_new < 0, 0.0, sq_new)


def new_weights(
    weights: Any, rows: Array, k: int, labels: Sequence[str] | None = None
) -> Floats:
    """Return weights (m, n) of the dissimilarities of new objects; the largest of a row is 1.

    Named columns are matched with `labels`; dissimilarities that are NaN get weight zero.
    """
    weights = ordered_by_name(
        weights, labels, "columns of weights", rows=False
    )
    w: Floats = to_numpy(checked_weights(weights, rows))
    w = np.where(np.isnan(to_numpy(rows)), 0.0, w)
    n_counted = np.sum(w > 0, axis=1)
    row = int(np.argmin(n_counted))
    if n_counted[row] <= k:
        raise InputError(
            f"row {row} of {option('weights')} has {int(n_counted[row])} positive weights of known "
            f"dissimilarities; {k} coordinates need {k + 1}."
        )
    # Only ratios within a row count.
    ratios: Floats = w / w.max(axis=1, keepdims=True)
    return ratios
