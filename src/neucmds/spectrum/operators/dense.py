"""D in memory, as one array of any library."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from neucmds.backend import arrays
from neucmds.backend.arrays import (
    Array,
    Floats,
    Indices,
    is_numpy,
    namespace,
    row_blocks,
    taken,
)
from neucmds.backend.blas import symmetric_times
from neucmds.backend.threads import parallel_map
from neucmds.spectrum.operators.gram import Gram, Result


class DenseGram(Gram):
    """B = −½CDC for a checked, squared D (n, n) in memory, which is not changed.

    `working_copy` says whether memory suffices for a float32 copy of B.
    """

    def __init__(
        self,
        sq_dissimilarity: Array,
        *,
        working_copy: bool = True,
    ) -> None:
        self.sq_dissimilarity = sq_dissimilarity
        self.working_copy = working_copy
        self.xp = namespace(sq_dissimilarity)
        self.n = sq_dissimilarity.shape[0]
        self.dtype = sq_dissimilarity.dtype
        self.device = sq_dissimilarity.device

    def rows(self, rows: slice) -> Array:
        """Return a view of these rows of D."""
        return self.sq_dissimilarity[rows, :]

    def row_slices(self) -> list[slice]:
        """Cut D into blocks of rows, larger on a GPU: to launch a kernel takes time."""
        elements = arrays.block_elements(
            self.sq_dissimilarity, arrays.BLOCK_ELEMENTS
        )
        return list(row_blocks(self.n, self.n, elements))

    def on_each(self, work: Callable[[slice, Array], Result]) -> list[Result]:
        """Return ``work(rows, part of D)`` of every row slice, for NumPy in threads."""
        # Other libraries have threads of their own.
        if not is_numpy(self.sq_dissimilarity):
            return super().on_each(work)
        return parallel_map(
            lambda rows: work(rows, self.rows(rows)),
            self.row_slices(),
        )

    def entries(self, i: Indices, j: Indices) -> Floats:
        """Return D of pairs (i, j), as NumPy float64."""
        sq_d = self.sq_dissimilarity
        if is_numpy(sq_d):
            return np.asarray(sq_d[i, j], dtype=np.float64)
        # The array standard has no index of two arrays.
        entries = taken(self.xp.reshape(sq_d, (-1,)), i * self.n + j)
        return arrays.to_numpy(entries).astype(np.float64)

    def product(self, block: Array) -> Array:
        """D @ block in one matrix product; by blocks of rows if they must be converted."""
        if block.dtype != self.dtype:
            return super().product(block)
        return symmetric_times(self.sq_dissimilarity, block)

    @cached_property
    def uses_float32_copy(self) -> bool:
        """Whether products in single precision are those of a float32 copy of B.

        If D is float32 itself, the copy pays on a GPU alone: its products need no centering.
        """
        if not self.working_copy or self.dtype != self.xp.float32:
            return self.working_copy
        # 4 n² bytes for the copy, and half as much for vectors; in main memory none count as free.
        free = arrays.free_memory(self.sq_dissimilarity) or 0
        return free >= 6 * self.n**2
