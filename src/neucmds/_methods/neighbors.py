"""Exact nearest neighbours by D̂."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds._backend.arrays import (
    Array,
    asarray_like,
    eps,
    is_numpy,
    k_smallest,
    namespace,
    row_blocks,
    to_numpy,
)
from neucmds._backend.threads import parallel_map
from neucmds._methods.geometry import paired_sq_dissimilarities

Indices = npt.NDArray[np.int64]

# Entries of a block: 4 MB in float64, so that its passes stay in cache.
CPU_BLOCK, GPU_BLOCK = 2**19, 2**26
# Columns of a group; see `_bound`.
GROUP = 32
# Candidates beyond k that other libraries than NumPy begin with.
SPARE = 16


def nearest(
    queries: Array, points: Array, signs: Array, k: int, own: Indices | None = None
) -> tuple[Array, Array]:
    """Find the k points of least D̂ from every query; equal ones in the order of their index.

    The order is that of D̂ computed from differences, pair by pair: a matrix product finds all
    candidates up to its rounding error, and only these are computed again.

    `own` is the number of the point that each query is, and which is left out. Returns indices and
    D̂, which may be negative, of shape (m, k).
    """
    xp, m, n = namespace(points), int(queries.shape[0]), int(points.shape[0])
    weighted = points * signs[None, :]
    # A query's own norm shifts all its D̂ alike and takes no part in the ranking.
    norms = xp.sum(weighted * points, axis=1)
    farthest = float(xp.max(xp.sum(points * points, axis=1)))
    # Worst case of sums of d products, of the norms and of their difference.
    rounding = 4 * (int(points.shape[1]) + 4) * eps(points.dtype, xp)

    def find(rows: slice) -> tuple[Indices, npt.NDArray[Any]]:
        x = queries[rows, :]
        ranking = norms[None, :] - 2 * (x @ xp.matrix_transpose(weighted))
        if own is not None and is_numpy(ranking):
            known = np.flatnonzero(own[rows] >= 0)
            ranking[known, own[rows][known]] = np.inf
        elif own is not None:
            ids, itself = (asarray_like(i, x, dtype=xp.int64) for i in (np.arange(n), own[rows]))
            ranking = xp.where(ids == itself[:, None], xp.full_like(ranking, xp.inf), ranking)
        slack = rounding * (xp.sum(x * x, axis=1) + farthest)

        def exact(row_ids: Indices, col_ids: Indices) -> npt.NDArray[Any]:
            left, right = (asarray_like(ids, x, dtype=xp.int64) for ids in (row_ids, col_ids))
            pairs = paired_sq_dissimilarities(
                xp.take(x, left, axis=0), xp.take(points, right, axis=0), signs
            )
            return to_numpy(pairs)

        candidates = _numpy_candidates if is_numpy(points) else _candidates
        return _first(*candidates(ranking, slack, k), exact, k, int(x.shape[0]))

    blocks = list(row_blocks(m, n, CPU_BLOCK if is_numpy(points) else GPU_BLOCK))
    found = parallel_map(find, blocks) if is_numpy(points) else [find(rows) for rows in blocks]
    ids = np.concatenate([part for part, _ in found]) if found else np.zeros((0, k), np.int64)
    values = np.concatenate([part for _, part in found]) if found else np.zeros((0, k))
    return asarray_like(ids, points, dtype=xp.int64), asarray_like(values, points)


def _numpy_candidates(
    ranking: npt.NDArray[Any], slack: npt.NDArray[Any], k: int
) -> tuple[Indices, Indices]:
    """Rows and columns of all entries that may be among the k smallest of their row."""
    rows, cols = np.nonzero(ranking <= (_bound(ranking, k) + 2 * slack)[:, None])
    return rows, cols


def _bound(ranking: npt.NDArray[Any], k: int) -> npt.NDArray[Any]:
    """Bound the k-th smallest entry of every row by the k-th smallest of the minima of groups.

    That takes one vectorised pass; `numpy.partition` of whole rows takes several times as long.
    """
    m, n = ranking.shape
    size = max(1, min(GROUP, n // (4 * k)))
    groups = n // size
    minima = ranking[:, : groups * size].reshape(m, size, groups).min(axis=1)
    return np.partition(minima, k - 1, axis=1)[:, k - 1]  # type: ignore[no-any-return]


def _candidates(ranking: Array, slack: Array, k: int) -> tuple[Indices, Indices]:
    """Rows and columns of candidates: k and some more, until rounding cannot hide another."""
    m, n = ranking.shape
    count = min(n, k + SPARE)
    while True:
        taken, ids = (to_numpy(part) for part in k_smallest(ranking, count))
        rows = np.repeat(np.arange(m), count)
        if count == n:
            break
        within = np.sort(taken, axis=1)
        if np.all(within[:, -1] > within[:, k - 1] + 2 * to_numpy(slack)):
            break
        count = min(n, 4 * count)
    finite = np.isfinite(taken.ravel())
    return rows[finite], ids.ravel()[finite].astype(np.int64)


def _first(
    rows: Indices,
    cols: Indices,
    exact: Callable[[Indices, Indices], npt.NDArray[Any]],
    k: int,
    m: int,
) -> tuple[Indices, npt.NDArray[Any]]:
    """Sort candidates by their exact value, then index, and take the first k of every row."""
    values = exact(rows, cols)
    order = np.lexsort((cols, values, rows))
    starts = np.searchsorted(rows[order], np.arange(m))
    take = order[starts[:, None] + np.arange(k)]
    return cols[take].astype(np.int64), values[take]
