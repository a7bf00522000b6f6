"""Exact nearest neighbours by D̂."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from neucmds.backend.arrays import (
    CACHED_ELEMENTS,
    DEVICE_ELEMENTS,
    Array,
    Indices,
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
from neucmds.refine.losses import power_of_four

Result = TypeVar("Result")

# Entries of a block: 4 MB in float64, part of which stays in cache.
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
    itself: Indices | None = None,
) -> tuple[Array, Array]:
    """Find the k points of least D̂ from every query; equal ones in the order of their index.

    The order is that of D̂ computed from differences, pair by pair: a matrix product finds all
    candidates up to its rounding error, and only these are computed again.

    Query a is point ``itself[a]``, which is left out of its neighbours; −1 if it is no point.
    Returns indices and D̂, which may be negative, both of shape (m, k).
    """
    xp = namespace(points)
    n = points.shape[0]
    signed = points * asarray_like(form.signs, points)
    # A query's own norm shifts all its D̂ alike and takes no part in the ranking.
    norms = form.norms(points)
    largest_size = float(xp.max(_sizes_of_norms(form, points)))
    # Worst error of a D̂, in a ranking or from differences, relative to the sizes of both norms.
    rounding = 4 * (points.shape[1] + 4) * eps(points.dtype, xp)
    n_candidates = k
    if itself is not None:
        n_candidates = min(k + 1, n)

    def find(rows: slice) -> tuple[Indices, Array]:
        """Return indices and D̂ of the nearest points to some queries."""
        x = queries[rows, :]
        ranking = norms[None, :] - 2 * (x @ signed.T)
        slack = rounding * (_sizes_of_norms(form, x) + largest_size)
        # The bound is too low by one slack at most, and the ranks of its points too high by one.
        bound = _bound(ranking, n_candidates) + 2 * slack
        # Candidate c: the query in row at[c], and point columns[c].
        at, columns = xp.nonzero(ranking <= bound[:, None])
        sq = form.paired_sq(
            xp.take(x, at, axis=0), xp.take(points, columns, axis=0)
        )
        at = to_numpy(at)
        columns = to_numpy(columns)
        sq = to_numpy(sq)
        if itself is not None:
            sq[itself[rows][at] == columns] = np.inf
        # By query, then by D̂, then by index: the first k of every query are its nearest.
        order = np.lexsort((columns, sq, at))
        starts = np.searchsorted(at[order], np.arange(x.shape[0]))
        nearest_k = order[starts[:, None] + np.arange(k)]
        return columns[nearest_k], sq[nearest_k]

    if not queries.shape[0]:
        empty = np.empty((0, k))
        return index_like(empty, points), asarray_like(empty, points)
    ids, sq = zip(*map_blocks(find, points, queries.shape[0], n), strict=True)
    return (
        index_like(np.concatenate(ids), points),
        asarray_like(np.concatenate(sq), points),
    )


def roughly_nearest(
    form: Form, queries: Array, points: Array, known: Indices, count: int
) -> Indices:
    """Find points (m, count) of least D̂ from every query, without the points `known` to each.

    The form has no heights. The search is in single precision: half the time, and rounding can only
    swap points that are equally near. Coordinates are divided by a power of two, which is exact, so
    that squares stay in the range of that precision.
    """
    xp = namespace(queries)
    unit = power_of_four(points)
    queries = xp.astype(queries / unit, xp.float32)
    points = asarray_like(points / unit, queries)
    signs = asarray_like(to_numpy(form.signs), queries)
    nearest_ids = np.empty((queries.shape[0], count), dtype=np.int64)
    for rows in row_blocks(len(nearest_ids), points.shape[0]):
        ranks = sq_ranks(queries[rows, :], points, signs)
        query = xp.arange(ranks.shape[0])[:, None]
        ranks[query, index_like(known[rows], ranks)] = xp.inf
        nearest_ids[rows] = to_numpy(k_smallest(ranks, count)[1])
    return nearest_ids


def sq_ranks(queries: Array, points: Array, signs: Any = 1.0) -> Array:
    """Return D̂ of a form without heights, less the norm of each query, which shifts its D̂ alike."""
    norms = namespace(points).sum(points * points * signs, axis=1)
    return norms - 2 * (queries * signs) @ points.T


def _sizes_of_norms(form: Form, x: Array) -> Array:
    """Return the sum of the absolute terms of every norm: of squares, and of the height."""
    lengths = abs(asarray_like(form.signs, x))
    return (x * x) @ lengths + abs(x) @ (1 - lengths)


def _bound(ranking: Array, k: int) -> Array:
    """Return an upper bound of the k-th smallest entry of every row.

    Columns are split into 4k to 8k groups, or one group per column of few; the last columns may be
    left out. The bound is the k-th smallest minimum of a group: k entries, the minima up to this
    one, are no larger. One vectorised pass finds the minima; a partition of whole rows takes
    several times as long.
    """
    xp = namespace(ranking)
    m, n = ranking.shape
    size = max(1, n // (4 * k))
    n_groups = n // size
    # Group g has every n_groups-th column from g on.
    groups = xp.reshape(ranking[:, : n_groups * size], (m, size, n_groups))
    minima = xp.min(groups, axis=1)
    return xp.sort(minima, axis=1)[:, k - 1]
