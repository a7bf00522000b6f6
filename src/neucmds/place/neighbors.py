"""Exact nearest neighbours by D̂."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import (
    Array,
    asarray_like,
    eps,
    is_numpy,
    k_smallest,
    namespace,
    row_blocks,
    to_numpy,
)
from neucmds.backend.threads import parallel_map
from neucmds.form import Form

Indices = npt.NDArray[np.int64]

# Entries of a block: 4 MB in float64, so that its passes stay in cache.
CPU_BLOCK, GPU_BLOCK = 2**19, 2**26
# Columns of a group; see `_bound`.
GROUP = 32


def nearest(
    form: Form, queries: Array, points: Array, k: int, own: Indices | None = None
) -> tuple[Array, Array]:
    """Find the k points of least D̂ from every query; equal ones in the order of their index.

    The order is that of D̂ computed from differences, pair by pair: a matrix product finds all
    candidates up to its rounding error, and only these are computed again.

    `own` is the number of the point that each query is, and which is left out. Returns indices and
    D̂, which may be negative, of shape (m, k).
    """
    xp, m, n = namespace(points), int(queries.shape[0]), int(points.shape[0])
    weighted = points * asarray_like(form.signs, points)
    # A query's own norm shifts all its D̂ alike and takes no part in the ranking.
    norms = xp.sum(weighted * points, axis=1)
    farthest = float(xp.max(xp.sum(points * points, axis=1)))
    # Worst case of sums of d products, of the norms and of their difference.
    rounding = 4 * (int(points.shape[1]) + 4) * eps(points.dtype, xp)

    wanted = k if own is None else min(k + 1, n)

    def find(rows: slice) -> tuple[Indices, npt.NDArray[Any]]:
        x = queries[rows, :]
        ranking = norms[None, :] - 2 * (x @ xp.matrix_transpose(weighted))
        slack = rounding * (xp.sum(x * x, axis=1) + farthest)
        near = xp.nonzero(ranking <= (_bound(ranking, wanted) + 2 * slack)[:, None])
        pairs = form.paired_sq(xp.take(x, near[0], axis=0), xp.take(points, near[1], axis=0))
        row_ids, col_ids, values = (to_numpy(part) for part in (*near, pairs))
        if own is not None:
            values[own[rows][row_ids] == col_ids] = np.inf
        order = np.lexsort((col_ids, values, row_ids))
        starts = np.searchsorted(row_ids[order], np.arange(x.shape[0]))
        first = order[starts[:, None] + np.arange(k)]
        return col_ids[first], values[first]

    blocks = list(row_blocks(m, n, CPU_BLOCK if is_numpy(points) else GPU_BLOCK)) or [slice(0, 0)]
    found = parallel_map(find, blocks) if is_numpy(points) else [find(rows) for rows in blocks]
    ids, values = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return asarray_like(ids, points, dtype=xp.int64), asarray_like(values, points)


def roughly_nearest(
    queries: Array, points: Array, signs: Array, known: Indices, count: int
) -> Indices:
    """Find points (m, count) of least D̂ from every query, without those that are `known`.

    In single precision: half the time, and it matters little which of two comes last.
    """
    xp = namespace(queries)
    queries = xp.astype(queries, xp.float32, copy=False)
    points = asarray_like(points, queries)
    signs = asarray_like(signs, queries)
    found = np.empty((int(queries.shape[0]), count), dtype=np.int64)
    for rows in row_blocks(len(found), int(points.shape[0])):
        ranks = sq_ranks(queries[rows, :], points, signs)
        each = xp.arange(ranks.shape[0])[:, None]
        ranks[each, asarray_like(known[rows], ranks, xp.int64)] = xp.inf
        found[rows] = to_numpy(k_smallest(ranks, count)[1])
    return found


def sq_ranks(queries: Array, points: Array, signs: Any = 1.0) -> Array:
    """Return D̂ but for the norm of each query, which shifts all of its D̂ alike."""
    xp = namespace(points)
    norms = xp.sum(points * points * signs, axis=1)
    return norms - 2 * (queries * signs) @ xp.matrix_transpose(points)


def _bound(ranking: Array, k: int) -> Array:
    """Bound the k-th smallest entry of every row by the k-th smallest of the minima of groups.

    That takes one vectorised pass; a partition of whole rows takes several times as long.
    """
    xp, (m, n) = namespace(ranking), ranking.shape
    size = max(1, min(GROUP, n // (4 * k)))
    groups = n // size
    minima = xp.min(xp.reshape(ranking[:, : groups * size], (m, size, groups)), axis=1)
    return xp.sort(minima, axis=1)[:, k - 1]
