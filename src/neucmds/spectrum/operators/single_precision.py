"""Products with B in single precision."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from neucmds.backend.arrays import Array, centered, empty_like, is_numpy, on_cpu, row_blocks
from neucmds.backend.blas import single_products
from neucmds.backend.cuda_kernels import centered_single

if TYPE_CHECKING:
    from neucmds.spectrum.operators.gram import Gram

Multiply = Callable[[Array], Array]

# Entries centered at a time: 2 MB in float64.
_CACHED_ELEMENTS = 2**18


class Rounded(Protocol):
    """Products with B to single precision: all that a solver asks of a cheaper B."""

    @property
    def precision(self) -> float:
        """Relative error of a product, beside what BLAS adds by summing n terms."""

    def products(self) -> AbstractContextManager[Multiply]:
        """Give the function for B @ block, to single precision but as float64."""


@dataclass(frozen=True)
class RoundedGram:
    """The entries of B/σ in float32; σ, the scale, is a power of two."""

    matrix: Array
    scale: float
    precision: float = 1e-7

    @classmethod
    def of(cls, gram: Gram) -> RoundedGram:
        """Center D row block by row block, then round: no n × n float64 temporary exists."""
        xp, means = gram.xp, gram.moments.row_means
        # √F/n is the root mean square entry of B; D·1e-75 would underflow in float32 without it.
        scale = 2.0 ** round(0.5 * math.log2(gram.frobenius_sq) - math.log2(gram.n))
        columns = means - gram.moments.mean
        matrix = xp.empty((gram.n, gram.n), dtype=xp.float32, device=gram.device)
        factor, numpy = -0.5 / scale, is_numpy(matrix)
        # On a GPU a block must fill the chip, not a cache.
        elements = _CACHED_ELEMENTS if on_cpu(means) else gram.n**2
        # A thread centers in the same memory again: a first fit of 8,000 took 5 % longer without.
        held = threading.local()

        def fill(whole: slice, part: Array) -> None:
            own, out = means[whole], matrix[whole, :]
            if not numpy and centered_single(part, own, columns, factor, out):
                return
            for rows in row_blocks(int(part.shape[0]), gram.n, elements):
                count = rows.stop - rows.start
                if not hasattr(held, "rows") or held.rows.shape[0] < count:
                    held.rows = empty_like(means, (count, gram.n))
                block = held.rows[:count, :]
                block[...] = xp.astype(part[rows, :], xp.float64, copy=False)
                block -= own[rows, None]
                block -= columns
                block *= factor
                # NumPy rounds as it writes; others may refuse to.
                out[rows, :] = block if numpy else xp.astype(block, xp.float32)

        gram.on_each(fill)
        return cls(matrix, scale)

    def products(self) -> AbstractContextManager[Multiply]:
        """Give the function for B @ block, to single precision but as float64."""
        return single_products(self.matrix, self.scale)


@dataclass(frozen=True)
class SingleGram:
    """A D that is float32 already: no copy, centered in float64 on both sides of the product."""

    gram: Gram
    precision: float = 1e-6

    def products(self) -> AbstractContextManager[Multiply]:
        """Give the function for B @ block, to single precision but as float64."""
        return nullcontext(self._multiply)

    def _multiply(self, block: Array) -> Array:
        xp, gram = self.gram.xp, self.gram
        image = gram.product(xp.astype(centered(block), xp.float32))
        return -0.5 * centered(xp.astype(image, xp.float64))
