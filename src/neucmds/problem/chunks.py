"""Check a dask array of dissimilarities chunk by chunk, on the workers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from neucmds.backend import dask_arrays as lazy
from neucmds.backend.arrays import Array, Floats, eps
from neucmds.errors import InputError
from neucmds.problem.dense import hollow
from neucmds.problem.validation import (
    Strips,
    as_labels,
    asymmetric,
    entry_name,
    loses_squares,
    tolerance,
    validate,
    working_dtype,
)


def lazy_dissimilarity(
    data: Array,
    *,
    squared: bool = False,
    labels: Sequence[object] | None = None,
) -> Array:
    """Return the squares of a dask array D, lazy, after D was checked.

    Chunks stay on the workers of a cluster, or in memory if they fit; else they are computed or
    read again whenever they are used.

    Symmetry is tested by one random vector v: ``D v`` is compared with ``vᵀ D``, which finds a
    single asymmetric pair for certain and more of them almost surely. The row with the largest
    difference is then compared with its column, entry by entry.
    """
    lazy.require_known_chunks(data, "D")
    n = len(data)
    if data.shape != (n, n) or n < 2:
        shape = " × ".join(map(str, data.shape))
        raise InputError(
            f"D is {shape}; a dask array must be n × n, of 2 objects or more."
        )
    names = as_labels(labels, n)
    # Without empty chunks, which have no lowest entry.
    data = data.rechunk([list(filter(None, sizes)) for sizes in data.chunks])
    dtype = np.dtype(working_dtype(data))
    stored = lazy.persist(data.astype(dtype))
    dask = lazy.require_dask()
    rng = np.random.default_rng(0)
    # No entry of v is small, so a single gap between D and Dᵀ cannot hide behind one.
    v = rng.uniform(0.5, 1.5, n) * rng.choice([-1.0, 1.0], n)
    low, high, diagonal, row_sums, column_sums = lazy.compute(
        stored.min(),
        stored.max(),
        dask.array.diagonal(stored),
        stored @ v,
        v @ stored,
    )
    low = float(low)
    high = float(high)
    rounding = tolerance(max(high, -low), eps(dtype))
    row_gaps = np.abs(row_sums - column_sums)
    row = int(np.argmax(row_gaps))
    # A gap of D is at least half as large in D v, since |v| ≥ 0.5.
    if row_gaps[row] > 0.5 * rounding:
        gaps = np.abs(np.subtract(*lazy.compute(stored[row], stored[:, row])))
        column = int(np.argmax(gaps))
        if gaps[column] > rounding:
            i, j = sorted((row, column))
            raise asymmetric(gaps[column], entry_name(i, j, names))
    largest = validate(
        # No gap: symmetry has been checked.
        (low, high, 0.0),
        diagonal,
        partial(_strips, stored),
        eps(dtype),
        squared=squared,
        labels=names,
    )
    if loses_squares(largest, squared, n):
        dtype = np.dtype(np.float64)

    def square_chunk(chunk: Floats, block_info: Any = None) -> Floats:
        """Return a chunk squared, with zeros where it meets the diagonal of D."""
        (top, bottom), (left, right) = block_info[0]["array-location"]
        # A copy: the chunk may belong to someone else.
        square = chunk.astype(dtype)
        if not squared:
            square *= square
        objects = np.arange(max(top, left), min(bottom, right))
        square[objects - top, objects - left] = 0
        return square

    return lazy.persist(
        stored.map_blocks(
            square_chunk, dtype=dtype, meta=np.empty((0, 0), dtype)
        )
    )


def _strips(data: Array) -> Strips:
    """Yield blocks of rows, also in place of columns: symmetry has been checked."""
    start = 0
    for size in data.chunks[0]:
        (rows,) = lazy.compute(data[start : start + size])
        rows = rows.astype(np.float64)
        yield hollow(start, rows, rows)
        start += size
