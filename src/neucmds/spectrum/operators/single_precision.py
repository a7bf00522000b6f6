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

Multiply = Callable[[Array], Array]
# Opened for a series of products: `with products() as multiply: multiply(columns)`.
Products = Callable[[], AbstractContextManager[Multiply]]


def rounded(gram: Gram) -> Products:
    """Round the entries of B/σ to float32, σ a power of two, and return products with them.

    D is centered row block by row block: no n × n float64 temporary exists.
    """
    xp = gram.xp
    # B_ij/σ = (D_ij − row_means_i − column_shift_j) · factor
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
        by_kernel = not in_numpy and centered_single(
            part, row_means, column_shift, factor, out
        )
        if by_kernel:
            return
        blocks = list(row_blocks(part.shape[0], gram.n, elements))
        # Memory that is used again stays in the cache.
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
    """Multiply with B by way of a D that is float32 already, without a copy of it.

    B = −½ J D J with J = I − 11ᵀ/n: the block is centered before the product with D and the image
    after it, both in float64.
    """
    xp = gram.xp
    image = gram.product(xp.astype(centered(block), xp.float32))
    return -0.5 * centered(in_double(image))
