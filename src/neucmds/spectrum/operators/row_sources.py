"""Rows of a D outside memory: from a file, a sliceable object or a function."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds.errors import FileFormatError, InputError
from neucmds.problem.readers.files import read_table
from neucmds.problem.validation import working_dtype

Floats = npt.NDArray[Any]
RowFunction = Callable[[int, int], Any]


class RowSource:
    """Rows of a square matrix, on the scale they were stored in, from ``read(start, stop)``.

    At least `chunk_rows` rows are read together; blocks are best multiples of it.
    """

    def __init__(self, read: RowFunction, n: int, stored: Any, chunk_rows: int = 1) -> None:
        self.read, self.n, self.chunk_rows = read, n, chunk_rows
        self.dtype: np.dtype[Any] = np.dtype(working_dtype(np.empty(0, dtype=stored)))

    def fill(self, out: Floats, start: int) -> None:
        """Write rows `start` to `start + len(out)` to `out`, converting them to its dtype."""
        stop = start + len(out)
        rows = np.asarray(self.read(start, stop))
        if rows.shape != out.shape:
            raise InputError(
                f"rows({start}, {stop}) has shape {rows.shape}; {out.shape} is expected."
            )
        out[...] = rows


class FileRows(RowSource):
    """Rows that lie one after the other in a file; read, not mapped, so that none stay resident."""

    def __init__(self, path: Path, offset: int, n: int, stored: Any) -> None:
        super().__init__(self._read, n, stored)
        self.path, self.offset, self.stored = path, offset, np.dtype(stored)

    def fill(self, out: Floats, start: int) -> None:
        """Read straight into `out`, unless the dtype differs."""
        if out.dtype == self.stored:
            self._read_into(out, start)
        else:
            super().fill(out, start)

    def _read(self, start: int, stop: int) -> Floats:
        return self._read_into(np.empty((stop - start, self.n), dtype=self.stored), start)

    def _read_into(self, rows: Floats, start: int) -> Floats:
        with self.path.open("rb") as file:
            file.seek(self.offset + start * self.n * self.stored.itemsize)
            if file.readinto(rows.view(np.uint8).data) < rows.nbytes:
                raise FileFormatError(f"{self.path.name} ends before its last row; it was cut off.")
        return rows


def as_row_source(source: Any, n: int | None = None) -> RowSource:
    """Find out how to read rows from a path, a memory map, a store, an array or a function."""
    if callable(source) and not hasattr(source, "shape"):
        if n is None:
            raise InputError("rows come from a function of unknown length; pass n=.")
        rows = RowSource(source, n, np.asarray(source(0, 1)).dtype)
        rows.fill(np.empty((1, n)), 0)  # refuses other shapes
        return rows
    if isinstance(source, (str, os.PathLike)):
        source, _ = read_table(source, mmap=True)
    shape = tuple(int(length) for length in source.shape)
    if len(shape) != 2 or shape[0] != shape[1]:
        size = " × ".join(map(str, shape)) or "a single number"
        raise InputError(
            f"D is not square: {size}; in blocks, only a square matrix is read (a condensed "
            "one must fit in memory)."
        )
    if n is not None and n != shape[0]:
        raise InputError(f"D is {shape[0]} × {shape[0]}, but n={n} was given; leave n out.")
    # Neither a part of a map, nor one whose changes are nowhere in the file. D is symmetric: in
    # Fortran order its columns are read as rows.
    if isinstance(source, np.memmap) and isinstance(source.base, mmap.mmap) and source.mode != "c":
        return FileRows(Path(str(source.filename)), source.offset, shape[0], source.dtype)
    chunks = getattr(source, "chunks", None)
    chunk_rows = int(chunks[0]) if isinstance(chunks, tuple) and chunks else 1
    return RowSource(lambda start, stop: source[start:stop], shape[0], source.dtype, chunk_rows)
