"""Products of a large matrix with a few vectors, cut so that OpenBLAS does not pack the matrix.

To pack is to copy the matrix into the order of the kernel, which takes half of the time with 16 to
40 vectors. OpenBLAS packs for every product, except, in AVX-512 builds, below 10⁶ multiplications.
So the matrix is cut into strips of columns, these into panels of rows, and the vectors into groups:
the product of a panel and a group is so small.

Products with a basis, whose vectors are m long rows (m, n), are cut into slices for threads alone.
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
# Most vectors in a group: 100 are multiplied as 50 and 50.
_MAX_VECTORS = 52
# Columns of a strip: so few that the entries of a group for them stay in the L2 cache.
_STRIP_COLUMNS = 1334
# Rows that a thread multiplies at a time: a multiple of 6, which is fastest in the kernel.
_TASK_ROWS = 504
# Slices that the n columns of a basis (m, n) are cut into, for threads.
_SHARES = 4


@contextmanager
def float32_products(
    matrix: Array, scale: float
) -> Iterator[Callable[[Array], Array]]:
    """Yield the function that returns ``scale * (matrix @ columns)`` for float64 columns.

    The matrix is symmetric and float32. It is multiplied in float32; the result is float64.
    """
    is_large = is_numpy(matrix) and matrix.shape[0] >= _STRIP_COLUMNS
    if is_large and _skips_packing():
        # One pool of threads for all products in the context.
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
    """Return ``block @ basis.T`` (b, m) of a block (b, n) and a basis (m, n)."""
    parts = _by_shares(
        lambda share: block[:, share] @ basis[:, share].T, basis
    )
    return reduce(add, parts)


def combine_rows(block: Array, coefficients: Array) -> Array:
    """Write ``coefficients @ block`` over the first rows of `block`, and return these rows (m, n).

    `coefficients` (m, b) combine the rows of `block` (b, n), and m ≤ b.
    """
    combined = block[: coefficients.shape[0], :]

    def multiply(share: slice) -> None:
        combined[:, share] = coefficients @ block[:, share]

    _by_shares(multiply, block)
    return combined


def subtract_combined_rows(
    block: Array, coefficients: Array, basis: Array
) -> None:
    """Subtract ``coefficients @ basis``, of shapes (b, m) and (m, n), from `block`, in place."""
    # This function of torch needs no array for the product.
    if is_torch(block):
        block.addmm_(coefficients, basis, alpha=-1)
        return

    def subtract(share: slice) -> None:
        block[:, share] -= coefficients @ basis[:, share]

    _by_shares(subtract, basis)


def symmetric_times(matrix: Array, columns: Array) -> Array:
    """Multiply a symmetric matrix with a block of columns, in the fastest order.

    OpenBLAS packs less if the columns are rows on the left, cuBLAS prefers contiguous columns and
    the matrix transposed, and Triton's tensor cores are faster than cuBLAS.
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
    """Return ``work(share)`` of slices of the n columns of a basis (m, n), in the open pool.

    Without a pool, as for other libraries than NumPy, one slice has all columns. Slices do not
    depend on the number of threads.
    """
    if not is_numpy(basis) or open_pool.get() is None:
        return [work(slice(None))]
    bounds = [basis.shape[1] * i // _SHARES for i in range(_SHARES + 1)]
    return parallel_map(work, [slice(*pair) for pair in pairwise(bounds)])


def _by_panels(matrix: Array, columns: Array, scale: float) -> Array:
    """Return ``scale * (matrix @ columns)`` as float64, multiplied in the matrix's precision."""
    # Column-major, as the caller transposes the product: its columns are rows of a basis.
    product = np.empty(columns.shape, order="F")
    n_groups = max(1, math.ceil(columns.shape[1] / _MAX_VECTORS))
    groups = [
        np.ascontiguousarray(group, matrix.dtype)
        for group in np.array_split(columns, n_groups, axis=1)
    ]
    # Views of the product, one for each group.
    targets = np.array_split(product, n_groups, axis=1)

    def multiply(start: int) -> None:
        """Write the rows of the product from `start` on."""
        rows = slice(start, start + _TASK_ROWS)
        sums = _sums_over_strips(matrix[rows], groups)
        for total, target in zip(sums, targets, strict=True):
            np.multiply(total, scale, out=target[rows], dtype=np.float64)

    parallel_map(multiply, range(0, matrix.shape[0], _TASK_ROWS))
    return product


def _sums_over_strips(matrix: Array, groups: list[Array]) -> list[Array]:
    """Return ``matrix @ group`` for every group of vectors, added up over strips of columns."""
    sums = [
        np.zeros((matrix.shape[0], group.shape[1]), dtype=matrix.dtype)
        for group in groups
    ]
    for start in range(0, matrix.shape[1], _STRIP_COLUMNS):
        columns = slice(start, start + _STRIP_COLUMNS)
        strip = matrix[:, columns]
        for group, total in zip(groups, sums, strict=True):
            width = group.shape[1]
            # Rows of a panel: a multiple of 6 is fastest in the kernel.
            height = max(1, _SMALL_PRODUCT // (_STRIP_COLUMNS * width))
            if height > 6:
                height -= height % 6
            # NumPy multiplies a stack of panels one by one. `panel_sums` is a view: what is added
            # to it is added to `total`.
            n_stacked = len(strip) // height * height
            panels = strip[:n_stacked].reshape(-1, height, strip.shape[1])
            panel_sums = total[:n_stacked].reshape(-1, height, width)
            panel_sums += panels @ group[columns]
            # Rows that make no whole panel: all rows, if the panel is higher than the strip.
            total[n_stacked:] += strip[n_stacked:] @ group[columns]
    return sums
