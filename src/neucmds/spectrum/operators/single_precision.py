"""Products with B in single precision."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neucmds.backend.arrays import (
    CACHED_ELEMENTS,
    Array,
    centered,
    empty_like,
    is_numpy,
    on_cpu,
    row_blocks,
)
from neucmds.backend.blas import single_products
from neucmds.backend.cuda_kernels import centered_single

if TYPE_CHECKING:
    from neucmds.spectrum.operators.gram import Gram

Multiply = Callable[[Array], Array]


@dataclass(frozen=True)
class Single:
    """B in single precision: a context with its product, and the relative error of that.

    Blocks of columns and their images are float64. BLAS adds an error by summing n terms.
    """

    products: Callable[[], AbstractContextManager[Multiply]]
    precision: float


def rounded(gram: Gram) -> Single:
    """Round the entries of B/σ to float32; σ is a power of two.

    D is centered row block by row block: no n × n float64 temporary exists.
    """
    xp = gram.xp
    means = gram.moments.row_means
    columns = means - gram.moments.mean
    # √F/n is the root mean square entry of B; D·1e-75 would underflow in float32 without it.
    scale = 2.0 ** round(0.5 * math.log2(gram.frobenius_sq) - math.log2(gram.n))
    factor = -0.5 / scale
    matrix = xp.empty((gram.n, gram.n), dtype=xp.float32, device=gram.device)
    numpy = is_numpy(matrix)
    # On a GPU a block must fill the chip, not a cache.
    elements = CACHED_ELEMENTS if on_cpu(means) else gram.n**2
    # A thread centers in the same memory again: a first fit of 8,000 took 5 % longer without.
    buffer = threading.local()

    def fill(strip: slice, part: Array) -> None:
        out = matrix[strip, :]
        if not numpy and centered_single(part, means[strip], columns, factor, out):
            return
        for rows in row_blocks(int(part.shape[0]), gram.n, elements):
            count = rows.stop - rows.start
            if not hasattr(buffer, "rows") or buffer.rows.shape[0] < count:
                buffer.rows = empty_like(means, (count, gram.n))
            block = buffer.rows[:count, :]
            block[...] = xp.astype(part[rows, :], xp.float64, copy=False)
            block -= means[strip][rows, None]
            block -= columns
            block *= factor
            # NumPy rounds as it writes; others may refuse to.
            out[rows, :] = block if numpy else xp.astype(block, xp.float32)

    gram.on_each(fill)
    return Single(lambda: single_products(matrix, scale), precision=1e-7)


def as_stored(gram: Gram) -> Single:
    """Take a D that is float32 already: no copy, centered in float64 around the product."""
    xp = gram.xp

    def multiply(block: Array) -> Array:
        image = gram.product(xp.astype(centered(block), xp.float32))
        return -0.5 * centered(xp.astype(image, xp.float64))

    return Single(lambda: nullcontext(multiply), precision=1e-6)
