"""Exact nearest neighbours by D̂."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import (
    CACHED_ELEMENTS,
    DEVICE_ELEMENTS,
    Array,
    asarray_like,
    eps,
    index_like,
    is_numpy,
    k_smallest,
    namespace,
    row_blocks,
    to_numpy,
)
from neucmds.backend.threads import parallel_map
from neucmds.form import Form

Indices = npt.NDArray[np.int64]
Result = TypeVar("Result")

# Entries of a block: 4 MB in float64, some of which stay in cache.
CPU_BLOCK = 4 * CACHED_ELEMENTS


def map_blocks(
    work: Callable[[slice], Result], like: Array, n_rows: int, width: int
) -> list[Result]:
    """Apply a function to blocks of rows: in threads on the CPU, one by one on a device."""
    if is_numpy(like):
        return parallel_map(work, row_blocks(n_rows, width, CPU_BLOCK))
    return [work(rows) for rows in row_blocks(n_rows, width, DEVICE_ELEMENTS)]


def nearest(
    form: Form,
    queries: Array,
    points: Array,
    k: int,
    own: Indices | None = None,
) -> tuple[Array, Array]:
    """Find the k points of least D̂ from every query; equal ones in the order of their index.

    The order is that of D̂ computed from differences, pair by pair: a matrix product finds all
    candidates up to its rounding error, and only these are computed again.

    `own` is the number of the point that each query is, and which is left out. Returns indices and
    D̂, which may be negative, of shape (m, k).
    """
    xp = namespace(points)
    n = int(points.shape[0])
    weighted = points * asarray_like(form.signs, points)
    # A query's own norm shifts all its D̂ alike and takes no part in the ranking.
    norms = xp.sum(weighted * points, axis=1)
    farthest = float(xp.max(xp.sum(points * points, axis=1)))
    # Worst case of sums of d products, of the norms and of their difference.
    rounding = 4 * (int(points.shape[1]) + 4) * eps(points.dtype, xp)
    wanted = k
    if own is not None:
        wanted = min(k + 1, n)

    def find(rows: slice) -> tuple[Indices, npt.NDArray[Any]]:
        x = queries[rows, :]
        ranking = norms[None, :] - 2 * (x @ xp.matrix_transpose(weighted))
        slack = rounding * (xp.sum(x * x, axis=1) + farthest)
        at, columns = xp.nonzero(
            ranking <= (_bound(ranking, wanted) + 2 * slack)[:, None]
        )
        sq = form.paired_sq(
            xp.take(x, at, axis=0), xp.take(points, columns, axis=0)
        )
        at, columns, sq = to_numpy(at), to_numpy(columns), to_numpy(sq)
        if own is not None:
            sq[own[rows][at] == columns] = np.inf
        order = np.lexsort((columns, sq, at))
        starts = np.searchsorted(at[order], np.arange(x.shape[0]))
        first = order[starts[:, None] + np.arange(k)]
        return columns[first], sq[first]

    if not queries.shape[0]:
        empty = np.empty((0, k))
        return index_like(empty, points), asarray_like(empty, points)
    ids, sq = zip(
        *map_blocks(find, points, int(queries.shape[0]), n), strict=True
    )
    return (
        index_like(np.concatenate(ids), points),
        asarray_like(np.concatenate(sq), points),
    )


def roughly_nearest(
    form: Form, queries: Array, points: Array, known: Indices, count: int
) -> Indices:
    """Find points (m, count) of least D̂ from every query, without those that are `known`.

    In single precision: half the time, and it matters little which of two comes last.
    """
    xp = namespace(queries)
    queries = xp.astype(queries, xp.float32, copy=False)
    points = asarray_like(points, queries)
    signs = asarray_like(to_numpy(form.signs), queries)
    nearest_ids = np.empty((int(queries.shape[0]), count), dtype=np.int64)
    for rows in row_blocks(len(nearest_ids), int(points.shape[0])):
        ranks = sq_ranks(queries[rows, :], points, signs)
        each = xp.arange(ranks.shape[0])[:, None]
        ranks[each, index_like(known[rows], ranks)] = xp.inf
        nearest_ids[rows] = to_numpy(k_smallest(ranks, count)[1])
    return nearest_ids


def sq_ranks(queries: Array, points: Array, signs: Any = 1.0) -> Array:
    """Return D̂ but for the norm of each query, which shifts all of its D̂ alike."""
    xp = namespace(points)
    norms = xp.sum(points * points * signs, axis=1)
    return norms - 2 * (queries * signs) @ xp.matrix_transpose(points)


def _bound(ranking: Array, k: int) -> Array:
    """Bound the k-th smallest entry of every row by the k-th smallest of the minima of groups.

    That takes one vectorised pass; a partition of whole rows takes several times as long.
    """
    xp = namespace(ranking)
    m, n = ranking.shape
    size = max(1, n // (4 * k))
    groups = n // size
    minima = xp.min(
        xp.reshape(ranking[:, : groups * size], (m, size, groups)), axis=1
    )
    return xp.sort(minima, axis=1)[:, k - 1]
