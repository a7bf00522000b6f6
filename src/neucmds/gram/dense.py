"""D in memory, as one array of any library."""

from __future__ import annotations

from typing import Any

from neucmds.arrays import BLOCK_ELEMENTS, Array, device, namespace, row_blocks
from neucmds.gram.base import Gram
from neucmds.gram.rounded import RoundedGram

__all__ = ["DenseGram"]


class DenseGram(Gram):
    """B = −½CDC for a D held in memory; D is only read, no centered copy is made.

    Parameters
    ----------
    sq_dissimilarity : array of shape (n, n)
        Symmetric and hollow, on the squared scale; checked by `neucmds.inputs`, not here.
    """

    def __init__(self, sq_dissimilarity: Array) -> None:
        self.sq_dissimilarity = sq_dissimilarity
        self.xp = namespace(sq_dissimilarity)
        self.n = int(sq_dissimilarity.shape[0])
        self.dtype = sq_dissimilarity.dtype

    @property
    def device(self) -> Any:
        """The device that D lies on."""
        return device(self.sq_dissimilarity)

    def rows(self, rows: slice) -> Array:
        """Return a view of these rows of D."""
        return self.sq_dissimilarity[rows, :]

    def row_slices(self) -> list[slice]:
        """Cut D into at most 64 parts, so that no pass starts thousands of kernels on a GPU."""
        return list(row_blocks(self.n, self.n, max(BLOCK_ELEMENTS, self.n**2 // 64)))

    def product(self, block: Array) -> Array:
        """D @ block in one matrix product; row by row if D must be widened for it."""
        if block.dtype != self.dtype:
            return super().product(block)
        # Dᵀ = D: OpenBLAS took 38 ms for the wide product of 16 rows, 56 ms for the tall one
        # (float64, n = 8000).
        return (block.T @ self.sq_dissimilarity).T

    def rounded(self) -> RoundedGram:
        """Return the float32 copy: half the size of a float64 D."""
        return RoundedGram.of(self)
