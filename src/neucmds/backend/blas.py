"""Products of a large matrix with a few vectors, cut so that OpenBLAS does not pack the matrix.

OpenBLAS copies the matrix for every product, which takes half of the time with 16 to 40 vectors.
Its AVX-512 builds skip the copy below 10⁶ multiplications, so a large product is cut into such
panels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, reduce
from itertools import pairwise
from operator import add
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from neucmds.backend.arrays import (
    Array,
    contiguous,
    is_numpy,
    is_torch,
    namespace,
    on_cpu,
)
from neucmds.backend.cuda_kernels import narrow_product
from neucmds.backend.threads import open_pool, parallel_map, worker_pool

# OpenBLAS names of the cores whose kernels multiply small matrices without packing.
_UNPACKED_CORES = {"SkylakeX", "Cooperlake", "SapphireRapids"}
# Multiplications below which these kernels do not pack.
_SMALL_PRODUCT = 1_000_000
# At most this many vectors in a panel: 100 are done as 50 and 50.
_MAX_VECTORS = 52
# Columns of a panel: so few that the vectors' entries for them stay in the L2 cache.
_PANEL_COLUMNS = 1334
# Rows of a task: a multiple of 6, the rows that run fastest in the kernel.
_TASK_ROWS = 504
# Shares that the columns of a basis are cut into, for threads.
_SHARES = 4


@contextmanager
def float32_products(
    matrix: Array, scale: float
) -> Iterator[Callable[[Array], Array]]:
    """Yield the function that multiplies float64 columns with a scaled symmetric float32 matrix.

    Products by panels open a pool of threads until the end of the context.
    """
    is_large = is_numpy(matrix) and matrix.shape[0] >= _PANEL_COLUMNS
    if is_large and _skips_packing():
        with worker_pool():
            yield lambda columns: _by_panels(matrix, columns, scale)
        return
    xp = namespace(matrix)

    def multiply(columns: Array) -> Array:
        product = symmetric_times(matrix, xp.astype(columns, xp.float32))
        image = xp.astype(product, xp.float64)
        image *= scale
        return image

    yield multiply


def inner_products(block: Array, basis: Array) -> Array:
    """``block @ basis.T``."""
    parts = _by_shares(
        lambda share: block[:, share] @ basis[:, share].T, basis
    )
    return reduce(add, parts)


def combine_rows(block: Array, coefficients: Array) -> Array:
    """``coefficients @ block``, written over the first rows of `block`."""
    combined = block[: coefficients.shape[0], :]

    def multiply(share: slice) -> None:
        combined[:, share] = coefficients @ block[:, share]

    _by_shares(multiply, block)
    return combined


def subtract_combined_rows(
    block: Array, coefficients: Array, basis: Array
) -> None:
    """``block -= coefficients @ basis``."""
    if is_torch(block):
        block.addmm_(coefficients, basis, alpha=-1)
        return

    def subtract(share: slice) -> None:
        block[:, share] -= coefficients @ basis[:, share]

    _by_shares(subtract, basis)


def symmetric_times(matrix: Array, columns: Array) -> Array:
    """Multiply a symmetric matrix with a block of columns, in the faster order.

    OpenBLAS packs less for a few wide rows, cuBLAS prefers tall contiguous columns and the matrix
    transposed, and Triton's tensor cores are faster still.
    """
    if on_cpu(matrix):
        return (columns.T @ matrix).T
    product = narrow_product(matrix, columns)
    if product is None:
        return matrix.T @ contiguous(columns)
    return product


@lru_cache(maxsize=1)
def _skips_packing() -> bool:
    """Tell whether every BLAS here is an OpenBLAS that skips packing for small products."""
    are_unpacked = [
        library["internal_api"] == "openblas"
        and library["architecture"] in _UNPACKED_CORES
        for library in threadpool_info()
        if library["user_api"] == "blas"
    ]
    return bool(are_unpacked) and all(are_unpacked)


def _by_shares(work: Callable[[slice], Any], basis: Array) -> list[Any]:
    """Work on shares of the columns where a pool is open, otherwise on all at once.

    The shares are the same whatever the number of threads.
    """
    if not is_numpy(basis) or open_pool.get() is None:
        return [work(slice(None))]
    bounds = [basis.shape[1] * i // _SHARES for i in range(_SHARES + 1)]
    return parallel_map(work, [slice(*pair) for pair in pairwise(bounds)])


def _by_panels(matrix: Array, columns: Array, scale: float) -> Array:
    """Return ``scale * (matrix @ columns)`` as float64, multiplied in the matrix's precision."""
    # Column-major, so that each column is contiguous, as the rows of a basis are.
    product = np.empty(columns.shape, order="F")
    n_groups = max(1, math.ceil(columns.shape[1] / _MAX_VECTORS))
    groups = np.array_split(columns, n_groups, axis=1)
    targets = np.array_split(product, n_groups, axis=1)
    parts = [np.ascontiguousarray(group, matrix.dtype) for group in groups]

    def multiply(start: int) -> None:
        rows = slice(start, start + _TASK_ROWS)
        sums = _panel_sums(matrix[rows], parts)
        for total, target in zip(sums, targets, strict=True):
            np.multiply(total, scale, out=target[rows], dtype=np.float64)

    parallel_map(multiply, range(0, matrix.shape[0], _TASK_ROWS))
    return product


def _panel_sums(matrix: Array, parts: list[Array]) -> list[Array]:
    """Return ``matrix @ part`` for every part, a strip of columns at a time.

    A strip is cut into panels of `height` rows, each small enough not to be packed.
    """
    sums = [
        np.zeros((matrix.shape[0], part.shape[1]), dtype=matrix.dtype)
        for part in parts
    ]
    for start in range(0, matrix.shape[1], _PANEL_COLUMNS):
        strip_columns = slice(start, start + _PANEL_COLUMNS)
        strip = matrix[:, strip_columns]
        for part, total in zip(parts, sums, strict=True):
            width = part.shape[1]
            height = max(1, _SMALL_PRODUCT // (_PANEL_COLUMNS * width))
            # A multiple of 6 rows runs fastest in the kernel.
            if height > 6:
                height -= height % 6
            # Whole panels as a stack of small products, added to a view of `total`; then the rest.
            n_stacked = len(strip) // height * height
            panels = strip[:n_stacked].reshape(-1, height, strip.shape[1])
            sums_of_panels = total[:n_stacked].reshape(-1, height, width)
            sums_of_panels += panels @ part[strip_columns]
            total[n_stacked:] += strip[n_stacked:] @ part[strip_columns]
    return sums
