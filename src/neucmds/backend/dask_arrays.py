"""Files as dask arrays, checks of dask arrays, and work on their rows."""

from __future__ import annotations

import math
import mmap
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from neucmds.backend import memory
from neucmds.backend.arrays import Array, row_blocks
from neucmds.backend.threads import single_blas_thread
from neucmds.errors import InputError


def require_dask() -> Any:
    """Import dask and dask.array, or say how to get them."""
    try:
        import dask.array
    except ImportError as problem:
        raise ImportError(
            "dask arrays, and files that do not fit in memory, need the extra 'dask': "
            "pip install 'neucmds[dask]'."
        ) from problem
    return dask


def compute(*values: Any) -> list[Any]:
    """Compute lazy values together, with BLAS in one thread: dask has threads for the chunks."""
    with single_blas_thread():
        return list(require_dask().compute(*values))


def cluster() -> Any:
    """Return the client of the distributed scheduler; None if threads of this process compute."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.get_client()
    except ValueError:
        return None


def persist(array: Array) -> Array:
    """Return an array with its chunks computed and kept in memory; as it was if they do not fit.

    A cluster keeps them on its workers, and is not asked whether they fit.
    """
    free = memory.available_memory()
    # Twice: with the chunks that they are computed from.
    fits = free is None or 2 * array.nbytes <= free
    if fits or cluster() is not None:
        return array.persist()
    return array


def from_store(store: Any) -> Array:
    """Return a square matrix in a file as a dask array whose chunks are whole rows.

    `store` is a memory map, a zarr array or an HDF5 dataset. The file of a map is read instead, so
    that its pages do not stay in memory; a symmetric D may be in Fortran order, too.
    """
    da = require_dask().array
    n = store.shape[0]
    chunks = getattr(store, "chunks", None) or (1,)
    # Whole chunks of the store: one that is cut would be read and unpacked several times.
    least = min(n, int(chunks[0]))
    step = next(row_blocks(n, n)).stop // least * least or least
    strips = tuple(min(step, n - start) for start in range(0, n, step))
    # Not a view of a map, nor mode "c", whose changes are not in the file.
    is_map = isinstance(store, np.memmap) and isinstance(store.base, mmap.mmap)
    if not is_map or store.mode == "c":
        return da.from_array(store, chunks=(strips, (n,)))
    return da.map_blocks(
        _read_rows,
        str(store.filename),
        store.offset,
        chunks=(strips, (n,)),
        dtype=store.dtype,
        meta=np.empty((0, 0), dtype=store.dtype),
    )


def _read_rows(path: str, offset: int, block_info: Any = None) -> Array:
    """Read the rows of a chunk from a file, `offset` bytes from its beginning."""
    chunk = block_info[None]
    (start, stop), (_, n) = chunk["array-location"]
    dtype = np.dtype(chunk["dtype"])
    skipped = offset + start * n * dtype.itemsize
    rows = np.fromfile(
        path, dtype=dtype, count=(stop - start) * n, offset=skipped
    )
    return rows.reshape(stop - start, n)


def require_known_chunks(array: Array, name: str) -> None:
    """Raise if chunk sizes are unknown, as after a dataframe or a mask."""
    if any(math.isnan(size) for sizes in array.chunks for size in sizes):
        raise InputError(
            f"{name} has unknown chunk sizes; call {name}.compute_chunk_sizes() first."
        )


def check_rows(X: Array) -> Array:
    """Return a dask array of rows as floats with every row in one chunk, or refuse it."""
    if X.ndim != 2:
        raise InputError(
            f"X is a dask array of {X.ndim} dimensions; pass a matrix, one row each."
        )
    require_known_chunks(X, "X")
    if X.dtype.kind not in "fiub":
        raise InputError(
            f"X is a dask array of dtype {X.dtype}; convert it to floats."
        )
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    return X.rechunk({1: -1})


def map_rows(
    X: Array, work: Callable[[Any, int], Any], width: int, n_wide: int
) -> Array:
    """Return the lazy array (n, width) of ``work(rows, number of the first row)``.

    A chunk is worked on in pieces of so many rows that `n_wide` numbers each make about 2²¹. `work`
    is sent to a worker once.
    """
    dask = require_dask()
    # Whole rows.
    X = X.rechunk({1: -1})

    def of_chunk(rows: Any, work: Any, block_info: Any = None) -> Any:
        start = 0
        if block_info:
            start = int(block_info[0]["array-location"][0][0])
        out = np.empty((rows.shape[0], width), dtype=rows.dtype)
        for piece in row_blocks(rows.shape[0], n_wide):
            out[piece] = work(rows[piece], start + piece.start)
        return out

    return dask.array.map_blocks(
        of_chunk,
        X,
        work=dask.delayed(work),
        dtype=X.dtype,
        chunks=(X.chunks[0], (width,)),
        meta=np.empty((0, width), dtype=X.dtype),
    )
