"""How much each pair counts: weights a user gives, and gaps in D, as one matrix of weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from neucmds._backend.arrays import Array, asarray_like, is_array, namespace
from neucmds._input.dissimilarity import Dissimilarity
from neucmds.errors import InputError


def as_weighted(data: Dissimilarity, weights: Any = None) -> tuple[Array, Array] | None:
    """Return D with finite entries everywhere and the weight of every pair.

    Parameters
    ----------
    data : Dissimilarity
        May hold NaN where nothing was observed.
    weights : array of shape (n, n), optional
        Symmetric and not negative; zero means the entry does not count.

    Returns
    -------
    (values, weights), or None when every pair counts alike.
    """
    d, xp = data.values, namespace(data.values)
    gaps = xp.isnan(d)
    has_gaps = bool(xp.any(gaps))
    if weights is None and not has_gaps:
        return None
    w = xp.ones_like(d) if weights is None else _checked(weights, data)
    w = xp.where(gaps, xp.zeros_like(w), w)
    ids = asarray_like(np.arange(data.n), d, dtype=xp.int64)
    w = xp.where(ids[:, None] == ids[None, :], xp.zeros_like(w), w)
    _refuse_lost_objects(w, data)
    return xp.where(gaps, xp.zeros_like(d), d), w


def _checked(weights: Any, data: Dissimilarity) -> Array:
    d, xp = data.values, namespace(data.values)
    given = weights if is_array(weights) else np.asarray(weights, dtype=float)
    w = asarray_like(given, d, dtype=xp.float64)
    if tuple(w.shape) != (data.n, data.n):
        raise InputError(f"weights have shape {tuple(w.shape)}; expected {(data.n, data.n)}.")
    if not bool(xp.all(xp.isfinite(w))):
        raise InputError("weights contain NaN or infinity; use 0 for entries that do not count.")
    if float(xp.min(w)) < 0:
        raise InputError(f"weights must not be negative: the lowest is {float(xp.min(w)):.4g}.")
    gap = float(xp.max(xp.abs(w - xp.matrix_transpose(w))))
    if gap > 1e-8 * float(xp.max(w)):
        raise InputError(f"weights are not symmetric: largest gap {gap:.2g}; average W and Wᵀ.")
    _refuse_range(float(xp.max(w)), data)
    return xp.astype(w, d.dtype, copy=False)


def _refuse_range(largest: float, data: Dissimilarity) -> None:
    """Refuse weights whose products with the squares of D leave the range of floats."""
    d, xp = data.values, namespace(data.values)
    size = float(xp.max(xp.where(xp.isnan(d), xp.zeros_like(d), xp.abs(d))))
    if largest == 0 or size == 0:
        return
    power = math.log10(largest) + 2 * math.log10(size) + 2 * math.log10(data.n)
    single = bool(d.dtype == xp.float32)
    if not -290 < power < 300 or (single and not 1e-30 < largest < 1e30):
        raise InputError(
            f"weights are too {'large' if power > 0 else 'small'}: the largest is {largest:.2g}; "
            "divide them by it, for only their ratios count."
        )


def _refuse_lost_objects(w: Array, data: Dissimilarity) -> None:
    xp = namespace(w)
    totals = xp.sum(w, axis=1)
    if bool(xp.all(totals > 0)):
        return
    lost = int(xp.argmin(totals))
    name = f"{lost}" if data.labels is None else f"{lost}, {data.labels[lost]!r},"
    raise InputError(f"object {name} has no entry of positive weight; drop it or weight an entry.")
