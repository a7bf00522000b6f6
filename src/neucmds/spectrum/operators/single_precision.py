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
    """Store B/σ in float32, σ a power of two, and return products with it.

    D is centered block by block of rows: no n × n float64 temporary exists.
    """
    xp = gram.xp
    # B_ij/σ = (D_ij − means_i − column_shift_j) · factor
    means = gram.row_means
    column_shift = means - gram.mean
    # σ is about the root mean square entry of B: tiny entries would underflow in float32.
    rms = math.sqrt(gram.frobenius_sq) / gram.n
    scale = 2.0 ** round(math.log2(rms))
    factor = -0.5 / scale
    matrix = xp.empty((gram.n, gram.n), dtype=xp.float32, device=gram.device)
    in_numpy = is_numpy(matrix)
    # On a GPU a block must fill the chip, not a cache.
    elements = gram.n**2
    if on_cpu(means):
        elements = CACHED_ELEMENTS

    def fill(strip: slice, part: Array) -> None:
        """Center and round a strip of rows, of which D is `part`."""
        out = matrix[strip, :]
        row_means = means[strip]
        if not in_numpy and centered_single(
            part, row_means, column_shift, factor, out
        ):
            # A CUDA kernel did it.
            return
        blocks = list(row_blocks(part.shape[0], gram.n, elements))
        # One buffer for all blocks stays in the cache.
        buffer = empty_like(means, (blocks[0].stop, gram.n))
        for rows in blocks:
            block = buffer[: rows.stop - rows.start, :]
            block[...] = in_double(part[rows, :])
            block -= row_means[rows, None]
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
