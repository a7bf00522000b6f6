"""Check a dask array of dissimilarities chunk by chunk, on the workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from neucmds.backend import dask_arrays as lazy
from neucmds.backend.arrays import Array, eps
from neucmds.errors import InputError
from neucmds.problem import validation
from neucmds.problem.dense import finished
from neucmds.problem.validation import Extent, Floats, Rules, Strips


def lazy_dissimilarity(
    data: Array,
    *,
    squared: bool = False,
    labels: Sequence[object] | None = None,
) -> Array:
    """Check a dask array and put it on the squared scale.

    Its chunks stay on the workers of a cluster, or in memory if they fit; else they are computed
    or read again whenever they are used.

    Symmetry is tested by one random vector v: ``D v`` is compared with ``vᵀ D``, which finds a
    single asymmetric pair for certain and more of them almost surely; the row with the largest
    difference is then compared entry by entry.
    """
    _check_shape(data)
    n = len(data)
    rules = Rules(
        squared, False, False, validation.as_labels(labels, n), in_memory=False
    )
    dtype = np.dtype(validation.working_dtype(data))
    given = lazy.kept(data.astype(dtype))
    extent, gap_at = _survey(given)
    validation.validate(
        extent, partial(_strips, given), rules, n, dtype, gap_at=gap_at
    )

    def finish(chunk: Floats, block_info: Any = None) -> Floats:
        (top, bottom), (left, right) = block_info[0]["array-location"]
        square = np.asarray(finished(chunk, rules, False))
        own = np.arange(max(top, left), min(bottom, right))
        if not np.any(square[own - top, own - left]):
            return square
        # The chunk may belong to someone else.
        square = square.copy()
        square[own - top, own - left] = 0
        return square

    return lazy.kept(
        given.map_blocks(finish, dtype=dtype, meta=np.empty((0, 0), dtype))
    )


def _check_shape(data: Array) -> None:
    lazy.require_known_chunks(data, "D")
    if data.ndim != 2 or data.shape[0] != data.shape[1]:
        size = " × ".join(str(size) for size in data.shape)
        raise InputError(
            f"D is not square: {size}; a dask array must be n × n."
        )
    if len(data) < 2:
        raise InputError(f"D has {len(data)} objects; at least 2 are needed.")


def _survey(data: Array) -> tuple[Extent, tuple[int, int]]:
    """Return how far the entries reach in one walk, and the place of the largest gap of a row."""
    dask = lazy.require_dask()
    n = len(data)
    rng = np.random.default_rng(0)
    # No entry of v is small, so a single gap between D and Dᵀ cannot hide behind one.
    v = rng.uniform(0.5, 1.5, n) * rng.choice([-1.0, 1.0], n)
    shared = dask.delayed(v)
    reach = dask.delayed(_reach, pure=True)
    tops, lefts = (_slices(sizes) for sizes in data.chunks)
    tiles = [(rows, columns) for rows in tops for columns in lefts]
    chunks = data.to_delayed().ravel()
    reached = lazy.compute(
        *(
            reach(chunk, *tile, shared)
            for chunk, tile in zip(chunks, tiles, strict=True)
        )
    )
    extent = Extent()
    apart = np.zeros(n)
    for (rows, columns), (part, along_rows, along_columns) in zip(
        tiles, reached, strict=True
    ):
        extent = extent.merged(part)
        apart[rows] += along_rows
        apart[columns] -= along_columns
    apart = np.abs(apart)
    row = int(np.argmax(apart))
    column = row
    if apart[row] > 0.5 * validation.tolerance(extent.size, eps(data.dtype)):
        gaps = np.abs(np.subtract(*lazy.compute(data[row], data[:, row])))
        column = int(np.argmax(gaps))
        extent = replace(extent, gap=float(gaps[column]))
    i, j = sorted((row, column))
    return extent, (i, j)


def _reach(
    chunk: Floats, rows: slice, columns: slice, v: Floats
) -> tuple[Extent, Floats, Floats]:
    """Return how far the entries of a chunk reach, and its parts of D v and vᵀ D."""
    if not chunk.size:
        return Extent(), np.zeros(chunk.shape[0]), np.zeros(chunk.shape[1])
    low = float(chunk.min())
    high = float(chunk.max())
    size = max(high, -low)
    own = float(
        np.abs(np.diagonal(chunk, rows.start - columns.start)).max(initial=0.0)
    )
    extent = Extent(-low, high, 0.0, size, size, own)
    with np.errstate(
        invalid="ignore", over="ignore"
    ):  # decided when the walk is over
        return extent, chunk @ v[columns], v[rows] @ chunk


def _slices(sizes: Sequence[int]) -> list[slice]:
    ends = np.cumsum([0, *sizes]).tolist()
    return [slice(start, stop) for start, stop in pairwise(ends)]


def _strips(data: Array) -> Strips:
    """Read rows once more; mirrored entries are not at hand, and none is used."""
    for rows in _slices(data.chunks[0]):
        if rows.start < rows.stop:
            (part,) = lazy.compute(data[rows])
            part = part.astype(np.float64, copy=False)
            yield rows.start, part, part
