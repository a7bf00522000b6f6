"""Check a dask array of dissimilarities chunk by chunk, on the workers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import combinations_with_replacement, pairwise
from typing import Any

import numpy as np

from neucmds.backend import dask_arrays as lazy
from neucmds.backend.arrays import Array
from neucmds.errors import InputError
from neucmds.problem import validation
from neucmds.problem.dense import finished, pair_extent
from neucmds.problem.names import Labels
from neucmds.problem.validation import Extent, Floats, Rules, Strips


def lazy_dissimilarity(
    data: Array,
    *,
    squared: bool = False,
    labels: Sequence[object] | None = None,
) -> tuple[Array, Labels]:
    """Check a dask array, put it on the squared scale and keep its chunks on the workers."""
    data = _square_chunks(data)
    n = len(data)
    names = validation.as_labels(labels, n)
    rules = Rules(squared, False, False, names, in_memory=False)
    dtype = np.dtype(validation.working_dtype(data))
    # Kept, as it is walked twice. A cluster frees each of these chunks as its square is made.
    given = data.astype(dtype).persist()
    validation.validate(_survey(given), _strips(given), rules, n, dtype)

    def finish(chunk: Floats, block_info: Any = None) -> Floats:
        (row, _), (col, _) = block_info[0]["array-location"]
        hollow = row == col and bool(np.diagonal(chunk).any())
        return np.asarray(finished(chunk, rules, hollow))

    values = given.map_blocks(finish, dtype=dtype, meta=np.empty((0, 0), dtype))
    del data, given
    return values.persist(), names


def _square_chunks(data: Array) -> Array:
    """Check shape and chunks, and drop chunks without entries."""
    lazy.require_known_chunks(data, "D")
    if data.ndim != 2 or data.shape[0] != data.shape[1]:
        size = " × ".join(str(size) for size in data.shape)
        raise InputError(f"D is not square: {size}; a dask array must be n × n.")
    if len(data) < 2:
        raise InputError(f"D has {len(data)} objects; at least 2 are needed.")
    filled = tuple(tuple(size for size in sizes if size) for sizes in data.chunks)
    if filled != data.chunks:
        data = data.rechunk(filled)
    if data.chunks[0] != data.chunks[1]:
        rows, cols = (f"{len(sizes)} × {sizes[0]}" for sizes in data.chunks)
        raise InputError(
            f"D is not square in chunks: rows are cut into {rows}, columns into {cols}; call "
            f"D.rechunk({{0: {data.chunks[0][0]}, 1: {data.chunks[0][0]}}})."
        )
    return data


def _survey(data: Array) -> Extent:
    """Return how far every chunk on or above the diagonal and its mirror image reach."""
    dask = lazy.require_dask(whole=True)
    chunks, note = data.to_delayed(), dask.delayed(_pair, pure=True)
    pairs = combinations_with_replacement(range(len(data.chunks[0])), 2)
    found: tuple[Extent, ...] = dask.compute(
        *(note(chunks[i, j], chunks[j, i], i == j) for i, j in pairs)
    )
    return reduce(Extent.merged, found)


def _pair(upper: Floats, lower: Floats, diagonal: bool) -> Extent:
    with np.errstate(invalid="ignore", over="ignore"):
        return pair_extent(upper, lower, diagonal)


def _strips(data: Array) -> Strips:
    """Read the chunks of some rows, and those of the same columns."""
    ends = np.cumsum(data.chunks[0]).tolist()
    for start, stop in pairwise([0, *ends]):
        rows, columns = (
            np.asarray(part, dtype=np.float64)
            for part in (data[start:stop].compute(), data[:, start:stop].compute().T)
        )
        yield start, rows, columns
