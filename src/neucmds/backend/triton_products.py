"""A large float32 matrix times a few columns on the tensor cores of a GPU, by Triton.

Each factor is split into two TF32 numbers, and products are added up outside the tensor cores, so
that the result is that of float32.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from neucmds.backend.arrays import Array

try:
    import triton
    import triton.language as tl
except ImportError:  # torch brings it along where it has a GPU to compile for
    triton = None

# Rows and columns of a tile, warps and stages of its pipeline: 11.6 ms at n = 100,000 with 32
# columns on an H200, 13 to 17 with six other shapes; cuBLAS takes 16.7.
TILE = {"BLOCK_M": 128, "BLOCK_K": 32, "num_warps": 8, "num_stages": 5}
# Most columns of the matrix that are summed in float32; these sums are added up in float64.
SHARE = 8192
# Least number of programs, so that all 132 multiprocessors of an H200 are busy to the end.
PROGRAMS = 1000


def narrow_product(matrix: Array, columns: Array) -> Array:
    """Return ``matrix @ columns`` for at most 64 columns, summed in float64 in the end.

    Parameters
    ----------
    matrix : torch tensor of shape (n, n), float32, contiguous, on a CUDA device
    columns : torch tensor of shape (n, w), float32
    """
    import torch

    n, width = columns.shape
    rows = columns.T.contiguous()
    padded_width = 32 if width <= 32 else 64
    # A program multiplies a block of rows with a share of the columns, a multiple of BLOCK_K.
    n_blocks = triton.cdiv(n, TILE["BLOCK_M"])
    n_shares = max(
        triton.cdiv(n, SHARE), min(16, triton.cdiv(PROGRAMS, n_blocks))
    )
    block_k = TILE["BLOCK_K"]
    share = triton.cdiv(triton.cdiv(n, n_shares), block_k) * block_k
    # What each share adds to the product.
    parts = torch.empty(
        (n_shares, width, n), dtype=torch.float32, device=matrix.device
    )
    with torch.cuda.device(matrix.device):
        launch = _compiled()[(n_blocks, n_shares)]
        launch(
            matrix,
            rows,
            parts,
            1.0,
            n,
            width,
            share,
            BLOCK_N=padded_width,
            **TILE,
        )
    return parts.sum(dim=0, dtype=torch.float64).T


@cache
def _compiled() -> Any:
    """Return the kernel, which Triton compiles at its first launch."""
    return triton.jit(_panel)


def _panel(  # type: ignore[no-untyped-def]
    matrix,
    rows,
    parts,
    factor,
    n,
    width,
    share,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Multiply some rows of the matrix, and a share of its columns, with all vectors."""
    objects = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    vectors = tl.arange(0, BLOCK_N)
    first = tl.program_id(1) * share
    last = tl.minimum(first + share, n)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    left = matrix + objects[:, None].to(tl.int64) * n
    right = rows + vectors[None, :].to(tl.int64) * n
    for start in range(first, last, BLOCK_K):
        columns = start + tl.arange(0, BLOCK_K)
        is_inside = columns < last
        is_entry = (objects[:, None] < n) & is_inside[None, :]
        is_vector = is_inside[:, None] & (vectors[None, :] < width)
        a = tl.load(left + columns[None, :], mask=is_entry, other=0.0)
        b = tl.load(right + columns[:, None], mask=is_vector, other=0.0)
        # The factor, 1, keeps the compiler from adding up inside the tensor cores.
        total += tl.dot(a, b, input_precision="tf32x3") * factor
    # parts[share, vector, object], with the objects contiguous.
    row = tl.program_id(1) * width + vectors[None, :]
    out = parts + row.to(tl.int64) * n + objects[:, None]
    tl.store(
        out, total, mask=(objects[:, None] < n) & (vectors[None, :] < width)
    )
