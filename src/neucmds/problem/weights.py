"""Combine the weights that a user gives and the gaps of D in one matrix of weights."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
from scipy import sparse

from neucmds.backend.arrays import (
    Array,
    asarray_like,
    index_like,
    is_numpy,
    min_and_max,
    namespace,
    to_numpy,
)
from neucmds.backend.memory import require_memory
from neucmds.errors import InputError
from neucmds.problem.containers import as_real
from neucmds.problem.dense import extremes
from neucmds.problem.names import Labels, ordered_by_name
from neucmds.problem.pairs import refuse_parts
from neucmds.problem.validation import refuse_range

# Number of n × n matrices in float64 that a fit with weights adds to D at its peak. At n = 1500,
# 10.6 were measured with weights, and 14.6 with missing entries, each time with D itself.
_MATRICES = 14


def as_weighted(
    sq_dissimilarity: Array, labels: Labels, weights: Any = None
) -> tuple[Array, Array] | None:
    """Return D with zeros for NaN, and weights; or None where every pair counts alike.

    D and weights are n × n and symmetric. Missing entries and the diagonal get weight 0, whatever
    weight the user gives them.
    """
    weights = ordered_by_name(weights, labels, "weights", rows=True)
    xp = namespace(sq_dissimilarity)
    n = sq_dissimilarity.shape[0]
    is_missing = xp.isnan(sq_dissimilarity)
    if weights is None and not bool(xp.any(is_missing)):
        return None
    if is_numpy(sq_dissimilarity):
        require_memory(
            _MATRICES * 8 * n**2,
            f"D of {n} objects with weights or missing entries",
            "pass the observed pairs as a scipy.sparse array, or use fewer objects",
        )
    filled = xp.where(is_missing, 0.0, sq_dissimilarity)
    ids = index_like(np.arange(n), filled)
    is_unused = is_missing | (ids[:, None] == ids[None, :])
    if weights is None:
        weights = xp.where(is_unused, 0.0, xp.ones_like(filled))
    else:
        weights = checked_weights(weights, filled)
        weights = xp.where(is_unused, 0.0, weights)
        _, heaviest, gap = extremes(weights, weights.dtype)
        if gap > 1e-8 * heaviest:
            raise InputError(
                f"weights are not symmetric: largest gap {gap:.2g}; average W and Wᵀ."
            )
        largest = max(map(abs, min_and_max(filled)))
        refuse_range(
            heaviest * largest, squared=True, what="weights times d² are"
        )
        # From float64 to the precision of D.
        weights = xp.astype(weights, filled.dtype, copy=False)
    # An object without any pair is refused even with an init, which would place other parts: those
    # are refused where a descent starts without one.
    if not bool(xp.all(xp.any(weights > 0, axis=1))):
        refuse_parts_of(weights, labels)
    return filled, weights


def checked_weights(weights: Any, like: Array) -> Array:
    """Return weights in float64, in the library and of the shape of `like`, or refuse them."""
    xp = namespace(like)
    weights = asarray_like(as_real(weights, "weights"), like, xp.float64)
    if weights.shape != like.shape:
        raise InputError(
            f"weights have shape {tuple(weights.shape)}; expected {tuple(like.shape)}."
        )
    low, high = min_and_max(weights)
    if not (low >= 0 and high < inf):
        raise InputError(
            "weights are negative, NaN or infinite; use 0 for entries that do not count."
        )
    return weights


def refuse_parts_of(weights: Array, labels: Labels) -> None:
    """Refuse weights that leave parts of the objects with no pair between them."""
    # An object with a weight to every other joins them all: no search, which takes a sparse copy.
    if not bool(namespace(weights).all(weights[0, 1:] > 0)):
        refuse_parts(sparse.csr_array(to_numpy(weights) > 0), labels)
