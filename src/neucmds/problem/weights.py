"""Combine the weights that a user gives and the gaps of D in one matrix of weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from neucmds.backend.arrays import (
    Array,
    asarray_like,
    index_like,
    is_numpy,
    namespace,
    to_numpy,
)
from neucmds.backend.memory import require_memory
from neucmds.errors import InputError
from neucmds.problem.containers import as_real
from neucmds.problem.names import Labels, ordered_by_name
from neucmds.problem.pairs import refuse_parts
from neucmds.problem.validation import refuse_range

# Of n × n in float64: weights, D filled, and what checks, completes and compares them. Peaks of
# 10.6 with weights and 14.6 with gaps were measured at n = 1500.
_MATRICES = 14


def as_weighted(
    sq_dissimilarity: Array, labels: Labels, weights: Any = None
) -> tuple[Array, Array] | None:
    """Return D with finite entries everywhere and weights, or None when every pair counts alike.

    Weights are n × n, symmetric and not negative; entries of weight 0 and NaN do not count.
    """
    weights = ordered_by_name(weights, labels, "weights", rows=True)
    d = sq_dissimilarity
    xp = namespace(d)
    n = int(d.shape[0])
    gaps = xp.isnan(d)
    has_gaps = bool(xp.any(gaps))
    if weights is None and not has_gaps:
        return None
    if is_numpy(d):
        require_memory(
            _MATRICES * 8 * n**2,
            f"D of {n} objects with weights or missing entries",
            "pass the observed pairs as a scipy.sparse array, or use fewer objects",
        )
    if weights is None:
        w = xp.ones_like(d)
    else:
        w = _checked(weights, d)
    ids = index_like(np.arange(n), d)
    w = xp.where(gaps | (ids[:, None] == ids[None, :]), xp.zeros_like(w), w)
    if not bool(xp.all(xp.any(w > 0, axis=1))):
        refuse_parts_of(w, labels)
    return xp.where(gaps, xp.zeros_like(d), d), w


def _checked(weights: Any, d: Array) -> Array:
    xp = namespace(d)
    n = int(d.shape[0])
    w = asarray_like(as_real(weights, "weights"), d, dtype=xp.float64)
    if tuple(w.shape) != (n, n):
        raise InputError(
            f"weights have shape {tuple(w.shape)}; expected {(n, n)}."
        )
    if not bool(xp.all(xp.isfinite(w) & (w >= 0))):
        raise InputError(
            "weights are negative, NaN or infinite; use 0 for entries that do not count."
        )
    gap = float(xp.max(xp.abs(w - xp.matrix_transpose(w))))
    if gap > 1e-8 * float(xp.max(w)):
        raise InputError(
            f"weights are not symmetric: largest gap {gap:.2g}; average W and Wᵀ."
        )
    known = xp.where(xp.isnan(d), xp.zeros_like(d), xp.abs(d))
    refuse_range(
        float(xp.max(w)) * float(xp.max(known)), True, "weights times d² are"
    )
    return xp.astype(w, d.dtype, copy=False)


def refuse_parts_of(weights: Array, labels: tuple[str, ...] | None) -> None:
    """Refuse weights that leave parts of the objects with no pair between them."""
    # A row without zeros joins all objects; a sparse copy of many weights takes time.
    if not bool(namespace(weights).all(weights[0, 1:] > 0)):
        refuse_parts(sparse.csr_array(to_numpy(weights) > 0), labels)
