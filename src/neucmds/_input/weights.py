"""How much each pair counts: weights a user gives, and gaps in D, as one matrix of weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse

from neucmds._backend.arrays import Array, asarray_like, is_numpy, namespace, to_numpy
from neucmds._backend.memory import require_memory
from neucmds._input.containers import as_real, ordered_by_name
from neucmds._input.dissimilarity import Dissimilarity
from neucmds._input.pairs import refuse_parts
from neucmds.errors import InputError

# Of n × n in float64: weights, D filled, and what checks, completes and compares them. Peaks of
# 10.6 with weights and 14.6 with gaps were measured at n = 1500.
_MATRICES = 10
_MATRICES_WITH_GAPS = 14


def as_weighted(
    data: Dissimilarity, weights: Any = None, *, rescale: bool = False
) -> tuple[Array, Array, int] | None:
    """Return D with finite entries everywhere and the weight of every pair.

    Parameters
    ----------
    data : Dissimilarity
        May hold NaN where nothing was observed.
    weights : array of shape (n, n), optional
        Symmetric and not negative; zero means the entry does not count.
    rescale : bool, default False
        Divide weights far from 1 by a power of two instead of refusing them.

    Returns
    -------
    (values, weights, exponent), or None when every pair counts alike. The weights were divided by
    two to the power of the exponent.
    """
    weights = ordered_by_name(weights, data.labels, "weights", rows=True)
    d, xp = data.values, namespace(data.values)
    gaps = xp.isnan(d)
    has_gaps = bool(xp.any(gaps))
    if weights is None and not has_gaps:
        return None
    if is_numpy(d):
        count = _MATRICES if weights is not None else _MATRICES_WITH_GAPS
        require_memory(
            count * 8 * data.n**2,
            f"D of {data.n} objects with weights or missing entries",
            "pass the observed pairs as a scipy.sparse array, or use fewer objects",
        )
    exponent = 0
    if weights is None:
        w = xp.ones_like(d)
    else:
        w, exponent = _checked(weights, data, rescale)
    w = xp.where(gaps, xp.zeros_like(w), w)
    ids = asarray_like(np.arange(data.n), d, dtype=xp.int64)
    w = xp.where(ids[:, None] == ids[None, :], xp.zeros_like(w), w)
    _refuse_lost_objects(w, data)
    return xp.where(gaps, xp.zeros_like(d), d), w, exponent


def _checked(weights: Any, data: Dissimilarity, rescale: bool) -> tuple[Array, int]:
    d, xp = data.values, namespace(data.values)
    w = asarray_like(as_real(weights, "weights"), d, dtype=xp.float64)
    if tuple(w.shape) != (data.n, data.n):
        raise InputError(f"weights have shape {tuple(w.shape)}; expected {(data.n, data.n)}.")
    if not bool(xp.all(xp.isfinite(w))):
        raise InputError("weights contain NaN or infinity; use 0 for entries that do not count.")
    if float(xp.min(w)) < 0:
        raise InputError(f"weights must not be negative: the lowest is {float(xp.min(w)):.4g}.")
    gap = float(xp.max(xp.abs(w - xp.matrix_transpose(w))))
    if gap > 1e-8 * float(xp.max(w)):
        raise InputError(f"weights are not symmetric: largest gap {gap:.2g}; average W and Wᵀ.")
    exponent = math.frexp(float(xp.max(w)))[1]
    # 2^±90 is 1e±27: within that float32 has room for sums of products, and D is ordinary by now.
    # Of subnormal weights 2^1000 brings enough digits, and is a number itself.
    exponent = max(exponent, -1000) if rescale and abs(exponent) > 90 else 0
    _refuse_range(float(xp.max(w)), data, exponent)
    return xp.astype(w * 2.0**-exponent, d.dtype, copy=False), exponent


def _refuse_range(largest: float, data: Dissimilarity, exponent: int) -> None:
    """Refuse weights whose products with the squares of D leave the range of floats."""
    d, xp = data.values, namespace(data.values)
    size = float(xp.max(xp.where(xp.isnan(d), xp.zeros_like(d), xp.abs(d))))
    if largest == 0 or size == 0:
        return
    power = math.log10(largest) + 2 * math.log10(size) + 2 * math.log10(data.n)
    power += 4 * data.exponent * math.log10(2)
    single = bool(d.dtype == xp.float32) and not exponent
    # Where anything was rescaled, only what is reported has to be a number.
    least = -305 if exponent or data.exponent else -290
    if not least < power < 307 or (single and not 1e-30 < largest < 1e30):
        how, end = ("large", "over") if power > 0 else ("small", "under")
        raise InputError(
            f"weights are too {how}: the largest is {largest:.2g}, and its products with D² "
            f"{end}flow; divide them by it, for only their ratios count."
        )


def _refuse_lost_objects(w: Array, data: Dissimilarity) -> None:
    xp = namespace(w)
    totals = xp.sum(w, axis=1)
    if bool(xp.all(totals > 0)):
        return
    lost = int(xp.argmin(totals))
    name = f"{lost}" if data.labels is None else f"{lost}, {data.labels[lost]!r},"
    raise InputError(f"object {name} has no entry of positive weight; drop it or weight an entry.")


def refuse_parts_of(weights: Array, labels: tuple[str, ...] | None) -> None:
    """Refuse weights that leave parts of the objects with no pair between them."""
    if not _connected(weights):
        refuse_parts(sparse.csr_array(to_numpy(weights) > 0), labels)


def _connected(w: Array) -> bool:
    """Tell whether pairs of positive weight lead from object 0 to all others.

    Every row is read at most once and no sparse copy is made, which takes six times as long.
    """
    xp, n = namespace(w), int(w.shape[0])
    reached = np.zeros(n, dtype=bool)
    front = np.arange(n) == 0
    while front.any():
        reached |= front
        rows = xp.take(w, asarray_like(np.flatnonzero(front), w, dtype=xp.int64), axis=0)
        front = to_numpy(xp.any(rows > 0, axis=0)) & ~reached
    return bool(reached.all())
