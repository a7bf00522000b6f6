"""Products with B in single precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING

from neucmds.backend.arrays import (
    CACHED_ELEMENTS,
    Array,
    centered,
    empty_like,
    in_double,
    is_numpy,
    on_cpu,
    row_blocks,
)
from neucmds.backend.blas import float32_products
from neucmds.backend.cuda_kernels import centered_single

if TYPE_CHECKING:
    from neucmds.spectrum.operators.gram import Gram

# The product of B with a block of float64 columns, as float64.
Multiply = Callable[[Array], Array]
# Opened for a series of products: `with products() as multiply: multiply(columns)`.
Products = Callable[[], AbstractContextManager[Multiply]]


def float32_copy_products(gram: Gram) -> Products:
    """Store B/scale in float32, the scale a power of two, and return products with B.

    D is centered block by block of rows: no n × n float64 temporary exists.
    """
    xp = gram.xp
    # B_ij/scale = (D_ij − row_means_i − column_shift_j) · factor
    row_means = gram.row_means
    column_shift = row_means - gram.mean
    # The scale is about the root mean square entry of B: tiny entries would underflow in float32.
    rms = math.sqrt(gram.frobenius_sq) / gram.n
    scale = 2.0 ** round(math.log2(rms))
    factor = -0.5 / scale
    matrix = xp.empty((gram.n, gram.n), dtype=xp.float32, device=gram.device)
    in_numpy = is_numpy(matrix)
    elements = CACHED_ELEMENTS
    # On a GPU a block must fill the chip, not a cache.
    if not on_cpu(row_means):
        elements = gram.n**2

    def fill(strip: slice, part: Array) -> None:
        """Center and round a strip of rows, of which D is `part`."""
        out = matrix[strip, :]
        strip_means = row_means[strip]
        # A CUDA kernel, where there is one, fills `out` and says so.
        is_done = not in_numpy and centered_single(
            part, strip_means, column_shift, factor, out
        )
        if is_done:
            return
        blocks = list(row_blocks(part.shape[0], gram.n, elements))
        # One buffer for all blocks, of which the first is the highest, stays in the cache.
        buffer = empty_like(row_means, (blocks[0].stop, gram.n))
        for rows in blocks:
            block = buffer[: rows.stop - rows.start, :]
            block[...] = in_double(part[rows, :])
            block -= strip_means[rows, None]
            block -= column_shift
            block *= factor
            # NumPy rounds as it writes; others may refuse to.
            if not in_numpy:
                block = xp.astype(block, xp.float32)
            out[rows, :] = block

    gram.on_each(fill)
    return partial(float32_products, matrix, scale)


def stored_product(gram: Gram, block: Array) -> Array:
    """Multiply with B in float32 without a copy of B: the product with D is in float32.

    The block is centered before this product and the image after it, both in float64.
    """
    xp = gram.xp
    image = gram.product(xp.astype(centered(block), xp.float32))
    return -0.5 * centered(in_double(image))
