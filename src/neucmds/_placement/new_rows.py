"""New objects: which dissimilarities and weights are refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds._backend.arrays import Array, asarray_like, namespace, to_numpy
from neucmds._input import as_real, ordered_by_name
from neucmds._methods.geometry import sq_dissimilarities
from neucmds.errors import InputError, option

Floats = npt.NDArray[np.float64]
# Negative dissimilarities up to so many units of rounding of the largest one are zero.
ROUNDING = 16
# Times as far out as the fitted objects: nothing is left of them beside it.
FARTHEST = 1e25


def check_values(delta: Array, n: int, *, squared: bool) -> None:
    """Refuse new dissimilarities of another shape, infinite ones, and roots that are negative."""
    xp = namespace(delta)
    if delta.ndim != 2 or delta.shape[1] != n:
        raise InputError(
            f"new dissimilarities have shape {tuple(delta.shape)}; expected (m, {n}): "
            "one row for each new object, one column for each fitted one."
        )
    values = xp.where(xp.isnan(delta), xp.zeros_like(delta), delta)
    if not bool(xp.all(xp.isfinite(values))):
        raise InputError("new dissimilarities contain infinity; every entry must be finite.")
    if not squared and delta.shape[0] and float(xp.min(values)) < 0:
        raise InputError(
            f"new dissimilarities have a negative entry ({float(xp.min(values)):.3g}), but the fit "
            f"was on unsquared dissimilarities ({option('squared', False)})."
        )


def check_gaps(delta: Array, k: int, missing: str) -> None:
    """Refuse gaps that the fit did not allow, and objects with too few dissimilarities."""
    gaps = namespace(delta).isnan(delta)
    if not bool(namespace(delta).any(gaps)):
        return
    if missing != "ignore":
        raise InputError(
            "new dissimilarities contain NaN; every entry must be finite unless the fit had "
            f"{option('missing', 'ignore')}."
        )
    known = np.sum(~to_numpy(gaps), axis=1)
    row = int(np.argmin(known))
    if known[row] <= k:
        raise InputError(
            f"row {row} of the new objects has {int(known[row])} known dissimilarities; "
            f"{k} coordinates need at least {k + 1}."
        )


def in_range(delta: Array, fitted: Array, *, squared: bool) -> Array:
    """Refuse rows beside which the fitted objects vanish; widen what float32 cannot hold.

    Parameters
    ----------
    delta : array of shape (m, n)
    fitted : array of shape (n, k)
    squared : bool
        Whether `delta` is on the squared scale.
    """
    if 0 in (*delta.shape, *fitted.shape):
        return delta
    xp = namespace(delta)
    largest = float(xp.max(xp.where(xp.isnan(delta), xp.zeros_like(delta), xp.abs(delta))))
    length = float(xp.max(xp.abs(fitted)))
    distance = largest**0.5 if squared else largest
    if distance > FARTHEST * length > 0:
        raise InputError(
            f"new dissimilarities are too large to be placed: the largest is {largest:.2g}; they "
            "must be on the scale of the fit."
        )
    # Fourth powers are taken.
    fits = all(2.0**-24 < size < 2.0**24 for size in (length, distance) if size > 0)
    return delta if fits else xp.astype(delta, xp.float64, copy=False)


def checked_weights(
    weights: Any,
    shape: tuple[int, int],
    k: int,
    labels: Sequence[str] | None = None,
    known: npt.NDArray[np.bool_] | None = None,
) -> Floats:
    """Return weights of the dissimilarities of new objects, at most one in every row.

    Parameters
    ----------
    weights : array or DataFrame of shape (m, n)
    shape : (m, n)
    k : int
        Number of coordinates.
    labels : sequence of str, optional
        Names of the fitted objects, by which columns with names are matched.
    known : array of shape (m, n), optional
        Which dissimilarities are known; weights of others are zero.
    """
    weights = ordered_by_name(weights, labels, "columns of weights", rows=False)
    w: Floats = to_numpy(as_real(weights, "weights")).astype(np.float64)
    if w.shape != shape:
        raise InputError(
            f"{option('weights')} has shape {w.shape}; expected {shape}: one for each "
            "dissimilarity of a new object to a fitted one."
        )
    if not np.all(np.isfinite(w)) or w.min(initial=0.0) < 0:
        raise InputError(f"{option('weights')} must be finite and not negative.")
    if known is not None:
        w = np.where(known, w, 0.0)
    counted = np.sum(w > 0, axis=1)
    if counted.min(initial=k + 1) <= k:
        row = int(np.argmin(counted))
        of = "" if known is None or known[row].all() else " of known dissimilarities"
        raise InputError(
            f"row {row} of {option('weights')} has {int(counted[row])} positive weights{of}; {k} "
            f"coordinates need {k + 1}."
        )
    # Only ratios count.
    shares: Floats = w / w.max(axis=1, keepdims=True, initial=0.0)
    return shares


def without_negative(
    sq_new: Array, loss: str, weights: Floats | None = None, whose: str = ""
) -> Array:
    """Return dissimilarities of new objects that a loss has a meaning for, or refuse them.

    Parameters
    ----------
    sq_new : array of shape (m, n)
        Squared scale; NaN where one is not known.
    loss : str
    weights : array of shape (m, n), optional
        Those of weight zero do not matter.
    whose : str, default=""
        Which objects these are, for the message.
    """
    xp = namespace(sq_new)
    if loss == "squared" or not bool(xp.any(sq_new < 0)):
        return sq_new
    # An object that was fitted is at zero from itself, but for rounding.
    known = xp.where(xp.isnan(sq_new), xp.zeros_like(sq_new), sq_new)
    rounding = ROUNDING * float(xp.finfo(sq_new.dtype).eps) * float(xp.max(xp.abs(known)))
    below = known < -rounding
    if weights is not None:
        below = below & (asarray_like(weights, sq_new) > 0)
    count = int(xp.sum(xp.astype(below, xp.int64)))
    if count:
        lowest = float(xp.min(xp.where(below, sq_new, xp.zeros_like(sq_new))))
        one = count == 1
        which = f"{count} new {'dissimilarity' if one else 'dissimilarities'}{whose}"
        raise InputError(
            f"{option('loss', loss)} needs D ≥ 0, and {which} {'is' if one else 'are'} negative, "
            f"the lowest {lowest:.4g}; repair them, or give them weight 0."
        )
    return xp.where(sq_new < 0, xp.zeros_like(sq_new), sq_new)


def median_r2(sq_new: Array, placed: Array, fitted: Array, signs: Array) -> float:
    """Share of the variance within a row of squared dissimilarities that D̂ explains, the median.

    Parameters
    ----------
    sq_new : array of shape (m, n)
    placed : array of shape (m, k)
    fitted : array of shape (n, k)
    signs : array of shape (k,)
    """
    d, x, y, a = (to_numpy(one).astype(np.float64) for one in (sq_new, placed, fitted, signs))
    left = np.sum((d - sq_dissimilarities(x, y, a)) ** 2, axis=1)
    whole = np.sum((d - d.mean(axis=1, keepdims=True)) ** 2, axis=1)
    varied = whole > 0
    return float(np.median(1 - left[varied] / whole[varied])) if varied.any() else 1.0
