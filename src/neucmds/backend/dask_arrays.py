"""Check the rows of a dask array by their chunks, and place them on the workers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from neucmds.backend.arrays import Array, row_blocks
from neucmds.errors import InputError


def require_dask(whole: bool = False) -> Any:
    """Import dask.array, or all of dask, or say how to get it."""
    try:
        import dask.array
    except ImportError as problem:
        raise ImportError(
            "dask arrays need the extra 'dask': pip install 'neucmds[dask]'."
        ) from problem
    return dask if whole else dask.array


def require_known_chunks(array: Array, name: str) -> None:
    """Raise if chunk sizes are unknown, as after a dataframe or a mask."""
    if any(math.isnan(size) for sizes in array.chunks for size in sizes):
        raise InputError(
            f"{name} has unknown chunk sizes; call {name}.compute_chunk_sizes() first."
        )


def check_rows(X: Array) -> Array:
    """Check the shape of a dask array of rows, and bring every row into one chunk."""
    if X.ndim != 2:
        raise InputError(f"X is a dask array of {X.ndim} dimensions; pass a matrix, one row each.")
    require_known_chunks(X, "X")
    if X.dtype.kind not in "fiub":
        raise InputError(f"X is a dask array of dtype {X.dtype}; convert it to floats.")
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.float64
    return X.astype(dtype).rechunk({1: -1})


def map_rows(X: Array, work: Callable[[Any, int], Any], width: int, n_wide: int) -> Array:
    """Return the lazy array of `work(rows, start)` of every chunk of rows, `width` columns each.

    A chunk is processed in pieces of about 2²¹ entries of `n_wide` columns, and `work` is sent to a
    worker once.
    """
    dask, da = require_dask(whole=True), require_dask()

    def of_chunk(rows: Any, work: Any, block_info: Any = None) -> Any:
        start = int(block_info[0]["array-location"][0][0]) if block_info else 0
        out = np.empty((rows.shape[0], width), dtype=rows.dtype)
        for piece in row_blocks(rows.shape[0], n_wide):
            out[piece] = work(rows[piece], start + piece.start)
        return out

    return da.map_blocks(
        of_chunk,
        X,
        work=dask.delayed(work),
        dtype=X.dtype,
        chunks=(X.chunks[0], (width,)),
        meta=np.empty((0, width), dtype=X.dtype),
    )
