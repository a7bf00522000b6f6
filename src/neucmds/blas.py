"""Products of a large matrix with a few vectors, where OpenBLAS can do them without packing.

For every product OpenBLAS first copies the matrix into its own order; with 16 to 40 vectors that is
half of the time. Its AVX-512 builds skip the copy for products below 10⁶ multiplications, so a
large product is cut into such panels here. n = 8000, float32, 2 threads, best milliseconds for
16 / 24 / 32 vectors: 23 / 28 / 33 by one product, 11 / 17 / 20 by panels (no other BLAS thread
spinning).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

from neucmds.arrays import Array, contiguous, is_numpy, on_cpu

__all__ = ["few_rows_times", "symmetric_times"]

# Cores whose OpenBLAS kernels have the unpacked small product.
_UNPACKED_CORES = {"SkylakeX", "Cooperlake", "SapphireRapids"}
_SMALL = 10**6
_FEW = 48
# Columns of a panel: with 1000 the vectors' part stays in the L2 cache.
_PANEL_COLUMNS = 1000
# Rows handed to a thread at a time; a multiple of 6 rows runs fastest in the kernel.
_TASK_ROWS = 252


@contextmanager
def few_rows_times(matrix: Array, count: int = 1) -> Iterator[Callable[[Array], Array]]:
    """Yield the function that multiplies a few rows with a symmetric matrix.

    Of more rows than 48 (`count`) packing is a small part, and BLAS does better by itself.

    Where the product is done by panels, BLAS itself keeps to one thread until the end of the
    context: its idle threads spin, and took half of the gain away. The panels do not depend on the
    number of threads, so neither do the last digits.
    """
    panels = is_numpy(matrix) and matrix.shape[0] >= _PANEL_COLUMNS and count <= _FEW
    blas = _openblas() if panels else None
    if blas is None:
        yield lambda rows: symmetric_times(matrix, rows.T).T
        return
    threads = max(int(library["num_threads"]) for library in blas.info())
    with ThreadPoolExecutor(threads) as pool, blas.limit(limits=1):
        yield lambda rows: _by_panels(matrix, rows, pool)


def symmetric_times(matrix: Array, columns: Array) -> Array:
    """Multiply a symmetric matrix with a block of columns, the way round that is quicker.

    OpenBLAS packs less for a few wide rows: 38 ms against 56 (float64, n = 8000, 16 columns).
    cuBLAS likes tall contiguous columns and the matrix transposed: 16.7 ms against 26.9 (float32,
    n = 100,000, 32 columns, one H200).
    """
    if on_cpu(matrix):
        return (columns.T @ matrix).T
    return matrix.T @ contiguous(columns)


@lru_cache(maxsize=1)
def _openblas() -> Any:
    """Return the handle on all OpenBLAS libraries if each has unpacked kernels, else None."""
    blas = ThreadpoolController().select(user_api="blas")
    known = [
        library["internal_api"] == "openblas" and library["architecture"] in _UNPACKED_CORES
        for library in blas.info()
    ]
    return blas if known and all(known) else None


def _by_panels(
    matrix: npt.NDArray[Any], rows: npt.NDArray[Any], pool: ThreadPoolExecutor
) -> npt.NDArray[Any]:
    n, columns = matrix.shape[0], np.ascontiguousarray(rows.T)
    product = np.zeros_like(columns)
    starts = range(0, n, _TASK_ROWS)
    done = pool.map(lambda a: _multiply(matrix[a : a + _TASK_ROWS], columns, product[a:]), starts)
    for _ in done:
        pass
    return product.T


def _multiply(
    matrix: npt.NDArray[Any], columns: npt.NDArray[Any], product: npt.NDArray[Any]
) -> None:
    """Add ``matrix @ columns`` to the first rows of `product`, panel by panel."""
    height = max(1, _SMALL // (_PANEL_COLUMNS * columns.shape[1]))
    height = height // 6 * 6 or height
    whole = matrix.shape[0] // height * height
    stack = matrix[:whole].reshape(-1, height, matrix.shape[1])
    target = product[:whole].reshape(-1, height, columns.shape[1])
    rest = slice(whole, matrix.shape[0])
    for start in range(0, matrix.shape[1], _PANEL_COLUMNS):
        part = slice(start, start + _PANEL_COLUMNS)
        target += stack[:, :, part] @ columns[part]
        product[rest] += matrix[rest, part] @ columns[part]
