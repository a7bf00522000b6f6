"""New objects whose dissimilarities count differently, or do not look like the fitted ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds._backend.arrays import Array, asarray_like, namespace, row_blocks, to_numpy
from neucmds._input.containers import as_real, ordered_by_name
from neucmds._methods.geometry import sq_dissimilarities
from neucmds._methods.refined.losses import PairLoss
from neucmds._placement.loss_rule import LossPlacement
from neucmds._placement.rules import LeastSquaresPlacement, LinearPlacement, Placement
from neucmds.errors import InputError, option

Floats = npt.NDArray[np.float64]
# Negative dissimilarities up to so many units of rounding of the largest one are zero.
ROUNDING = 16
# Times what lies between fitted objects, on the squared scale: ten times as far away.
FAR = 100.0
# Share of its dissimilarities by which D̂ is off, root mean square, where an object fits nowhere.
NOWHERE = 0.5
# Entries of new dissimilarities looked at together.
BLOCK = 2**19


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


def place_weighted(rule: Placement, sq_new: Array, weights: Floats) -> Array:
    """Place objects by weighted dissimilarities; `weights` are those of `checked_weights`."""
    if isinstance(rule, LinearPlacement):
        raise InputError(
            f"{option('weights')} does not go with triangulation, which counts every fitted object "
            f"alike; fit by {option('method', 'refined')}, or with "
            f"{option('placement', 'least_squares')}."
        )
    if isinstance(rule, LeastSquaresPlacement):
        if rule.offsets is not None:
            sq_new = sq_new - asarray_like(rule.offsets, sq_new)
        rule = LossPlacement(rule.coordinates, rule.signs, PairLoss("squared", 1.0))
    assert isinstance(rule, LossPlacement)
    return rule.place(sq_new, weights=asarray_like(weights, sq_new))


def far_misfits(
    sq_new: Array,
    placed: Array,
    fitted: Array,
    signs: Array,
    among: float,
    weights: Floats | None = None,
) -> list[tuple[int, float]]:
    """Find objects far from all others that were placed where their dissimilarities do not fit.

    Parameters
    ----------
    sq_new : array of shape (m, n)
        Squared scale; NaN where one is not known.
    placed : array of shape (m, k)
    fitted : array of shape (n, k)
    signs : array of shape (k,)
    among : float
        Mean squared dissimilarity among the fitted objects; NaN if not known.
    weights : array of shape (m, n), optional
        Dissimilarities of weight zero do not count.

    Returns
    -------
    list of (row, share)
        By which share of the dissimilarities of this row D̂ is off, root mean square.
    """
    if 0 in (*sq_new.shape, *fitted.shape):
        return []
    xp = namespace(sq_new)
    if float(xp.max(sq_new)) <= FAR * among:
        return []
    # D̂ is at most |x − y|², and that at most 4 times the largest |x|².
    far = FAR * np.fmax(4 * float(xp.max(xp.sum(fitted * fitted, axis=1))), among)
    found: list[tuple[int, float]] = []
    for rows in row_blocks(int(sq_new.shape[0]), int(sq_new.shape[1]), BLOCK):
        beyond = xp.any(sq_new[rows, :] > far, axis=1)
        for row in (rows.start + np.flatnonzero(to_numpy(beyond))).tolist():
            d = to_numpy(sq_new[row, :]).astype(np.float64)
            d_hat = to_numpy(sq_dissimilarities(placed[row, :][None, :], fitted, signs))[0]
            counts = ~np.isnan(d) if weights is None else ~np.isnan(d) & (weights[row] > 0)
            share = float(np.linalg.norm((d_hat - d)[counts]) / np.linalg.norm(d[counts]))
            if np.median(d[counts]) > far and share > NOWHERE:
                found.append((row, share))
    return found


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
