"""How much each pair counts: weights a user gives, and gaps in D, as one matrix of weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from neucmds._backend.arrays import Array, asarray_like, is_array, namespace
from neucmds._input.dissimilarity import Dissimilarity
from neucmds.errors import InputError

__all__ = ["as_weighted"]


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
    w = asarray_like(weights if is_array(weights) else np.asarray(weights, dtype=float), d)
    if tuple(w.shape) != (data.n, data.n):
        raise InputError(f"weights have shape {tuple(w.shape)}; expected {(data.n, data.n)}.")
    if not bool(xp.all(xp.isfinite(w))):
        raise InputError("weights contain NaN or infinity; use 0 for entries that do not count.")
    if float(xp.min(w)) < 0:
        raise InputError(f"weights must not be negative: the lowest is {float(xp.min(w)):.4g}.")
    gap = float(xp.max(xp.abs(w - xp.matrix_transpose(w))))
    if gap > 1e-8 * float(xp.max(w)):
        raise InputError(f"weights are not symmetric: largest gap {gap:.2g}; average W and Wᵀ.")
    return w


def _refuse_lost_objects(w: Array, data: Dissimilarity) -> None:
    xp = namespace(w)
    totals = xp.sum(w, axis=1)
    if bool(xp.all(totals > 0)):
        return
    lost = int(xp.argmin(totals))
    name = f"{lost}" if data.labels is None else f"{lost}, {data.labels[lost]!r},"
    raise InputError(f"object {name} has no entry of positive weight; drop it or weight an entry.")
