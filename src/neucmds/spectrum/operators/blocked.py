"""D outside memory, read in blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import Array, namespace
from neucmds.backend.memory import available_memory, format_bytes, parse_bytes
from neucmds.errors import InputError, option
from neucmds.problem.validation import Rules
from neucmds.spectrum.operators.first_pass import FirstPass
from neucmds.spectrum.operators.gram import Gram, Moments
from neucmds.spectrum.operators.row_sources import RowSource, as_row_source
from neucmds.spectrum.operators.single_precision import Rounded, RoundedGram

Floats = npt.NDArray[Any]
Progress = Callable[[int, int, int], None]

# Two blocks are in flight (one read, one multiplied), a store makes a third, converting a fourth.
_BLOCKS_IN_MEMORY = 4
# Bytes: 32 MB was fastest of 4 to 256 MB at n = 12,000.
_LARGEST_BLOCK = 2**25


class BlockedGram(Gram):
    """B = −½CDC for a D that is read in blocks of rows, never held as a whole.

    Parameters
    ----------
    source : path, memory map, zarr array, HDF5 dataset, array or callable
        An npy file; anything square with a shape, a dtype and slices; or a function
        ``rows(start, stop)`` that returns those rows, of shape ``(stop - start, n)``, as often as
        it is asked.
    n : int, optional
        Number of objects; needed for a function.
    squared : bool, default=False
        Whether the source holds squared dissimilarities; if not, each block is squared when read.
    max_memory : int or str, optional
        Bound on the memory for blocks, and for a float32 working copy of B, which is made only if
        it fits too: bytes, or "2GB". The vectors of a solver come on top.
    labels : tuple of str, optional
        Names of the objects, for messages.
    progress : callable, optional
        Called after every block with the number of the pass, the rows done in it, and n.

    Notes
    -----
    The first pass makes the moments of D and checks it: finite entries, the diagonal and
    negative entries exactly. Symmetry is tested by one random vector v: ``D v`` is compared with
    ``vᵀ D``, which finds a single asymmetric pair for certain and more of them almost surely; the
    row with the largest difference is then compared entry by entry, in a second pass.
    """

    costly_pass = True
    device = "cpu"

    def __init__(
        self,
        source: Any,
        *,
        n: int | None = None,
        squared: bool = False,
        max_memory: int | str | None = None,
        labels: tuple[str, ...] | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.source: RowSource = as_row_source(source, n)
        self.n = self.source.n
        if self.n < 2:
            raise InputError(f"D has {self.n} objects; at least 2 are needed.")
        self.xp = namespace(np.empty(0))
        self.dtype = self.source.dtype
        self.squared = squared
        self.max_memory = None if max_memory is None else parse_bytes(max_memory)
        self.labels = labels
        self.progress = progress
        self.n_passes = 0
        self.block_rows = self._fitting_rows()

    def rows(self, rows: slice) -> Array:
        """Read these rows of D, on the squared scale, the diagonal exactly zero."""
        out = np.empty((rows.stop - rows.start, self.n), dtype=self.dtype)
        return self._read(out, rows.start)

    def row_slices(self) -> list[slice]:
        """Cut the objects into the blocks that are read at a time."""
        step = self.block_rows
        return [slice(at, min(at + step, self.n)) for at in range(0, self.n, step)]

    def product(self, block: Array) -> Array:
        """D @ block in one pass over D, in the precision of `block`."""
        columns = np.ascontiguousarray(block)
        out = np.empty(columns.shape, dtype=columns.dtype)
        for rows, part in self.pass_over(self._read, columns.dtype):
            np.matmul(part, columns, out=out[rows])
        return out

    def walk(self) -> Iterator[tuple[slice, Array]]:
        """Pass over D once, on the squared scale."""
        return self.pass_over(self._read, self.dtype)

    def rounded(self) -> Rounded | None:
        """Return the float32 copy of B if it fits, beside the blocks: then D is read no more."""
        room = available_memory() if self.max_memory is None else self.max_memory
        blocks = _BLOCKS_IN_MEMORY * self.block_rows * self.n * 8
        fits = room is not None and 4 * self.n**2 + blocks <= room
        return RoundedGram.of(self) if fits else super().rounded()

    @cached_property
    def moments(self) -> Moments:
        """Row means and norm of D, from the pass that also checks it.

        Raises
        ------
        InputError
            If D has entries that are not finite, is not symmetric, not zero on the diagonal, or
            negative where it is not squared.
        """
        rules = Rules(self.squared, False, False, self.labels, in_memory=False)
        first = FirstPass(self.source, rules)
        for rows, part in self.pass_over(self.source.fill, self.dtype):
            first.take(part, rows.start)
        if (at := first.suspect) is None:
            first.validate()
            return first.moments
        row, column = np.empty((1, self.n)), np.empty(self.n)
        self.source.fill(row, at)
        for rows, part in self.pass_over(self.source.fill, self.dtype):
            column[rows] = part[:, at]
        first.validate(at, np.abs(row[0] - column))
        return first.moments

    def pass_over(
        self, fill: Callable[[Floats, int], Any], dtype: Any
    ) -> Iterator[tuple[slice, Floats]]:
        """Read all rows once, the next block in a thread; a block lasts until the next but one."""
        slices = self.row_slices()
        blocks = [np.empty((self.block_rows, self.n), dtype=dtype) for _ in slices[:2]]
        parts = [blocks[i % 2][: rows.stop - rows.start] for i, rows in enumerate(slices)]
        self.n_passes += 1
        with ThreadPoolExecutor(1, thread_name_prefix="neucmds-read") as reader:
            coming = reader.submit(fill, parts[0], 0)
            for i, rows in enumerate(slices):
                coming.result()
                if i + 1 < len(slices):
                    coming = reader.submit(fill, parts[i + 1], slices[i + 1].start)
                yield rows, parts[i]
                if self.progress is not None:
                    self.progress(self.n_passes, rows.stop, self.n)

    def _read(self, out: Floats, start: int) -> Floats:
        self.source.fill(out, start)
        if not self.squared:
            np.multiply(out, out, out=out)
        own = np.arange(len(out))
        out[own, start + own] = 0
        return out

    def _fitting_rows(self) -> int:
        """Rows per block: as many as memory allows, up to 32 MB, whole chunks if possible."""
        row = self.n * 8
        least = _BLOCKS_IN_MEMORY * row
        if self.max_memory is not None and self.max_memory < least:
            raise InputError(
                f"{option('max_memory')} is {format_bytes(self.max_memory)}, too little for "
                f"{self.n} objects: blocks of a single row need {format_bytes(least)}; pass at "
                "least that, better a hundred times as much."
            )
        bound = least * self.n if self.max_memory is None else self.max_memory
        fitting = bound // least
        wanted = max(1, min(fitting, _LARGEST_BLOCK // row, self.n))
        chunk = min(self.source.chunk_rows, self.n)
        # A chunk that is cut by blocks is read and unpacked once for each of them.
        if chunk <= fitting:
            wanted = max(chunk, wanted - wanted % chunk)
        return int(wanted)
