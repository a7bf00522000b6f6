"""Rows of a D outside memory: from a file, a sliceable object or a function."""

from __future__ import annotations

import mmap
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds._input import read_table, working_dtype
from neucmds.errors import FileFormatError, InputError, option

Floats = npt.NDArray[Any]
RowFunction = Callable[[int, int], Any]

# Bytes converted at a time when a file holds another dtype than is worked in.
_STAGE = 2**22


class RowSource(ABC):
    """Rows of a square matrix, on the scale they were stored in.

    At least `chunk_rows` rows are read together; blocks are best multiples of it.
    """

    def __init__(self, n: int, stored: Any, chunk_rows: int = 1) -> None:
        self.n = n
        self.stored = np.dtype(stored)
        self.dtype: np.dtype[Any] = np.dtype(working_dtype(np.empty(0, dtype=self.stored)))
        self.chunk_rows = chunk_rows
        self.transposed = False

    @abstractmethod
    def fill(self, out: Floats, start: int) -> None:
        """Write rows `start` to `start + len(out)` to `out`, converting them to its dtype."""

    def fill_columns(self, out: Floats, start: int) -> None:
        """Write columns `start` to `start + len(out)` to the rows of `out`."""
        raise InputError(
            f"{option('symmetrize', True)} needs columns of D beside its rows, which a function of "
            "rows does not give; let it return rows of (D + D.T) / 2."
        )


class FileRows(RowSource):
    """Rows that lie one after the other in a file; read, not mapped, so that none stay resident."""

    def __init__(self, path: Path, offset: int, n: int, stored: Any) -> None:
        super().__init__(n, stored)
        self.path, self.offset = path, offset

    def fill(self, out: Floats, start: int) -> None:
        """Read straight into `out`, or through a small stage where the dtype differs."""
        with self.path.open("rb", buffering=0) as file:
            file.seek(self.offset + start * self.n * self.stored.itemsize)
            if out.dtype == self.stored and out.flags.c_contiguous:
                self._read(file, out.reshape(-1))
                return
            step = max(1, _STAGE // (self.n * self.stored.itemsize))
            stage = np.empty((step, self.n), dtype=self.stored)
            for at in range(0, len(out), step):
                part = stage[: min(step, len(out) - at)]
                self._read(file, part.reshape(-1))
                out[at : at + step] = part

    def fill_columns(self, out: Floats, start: int) -> None:
        """Read a piece of every row; mapped, the pages between the pieces would stay resident."""
        width = len(out)
        columns = np.empty((self.n, width), dtype=self.stored)
        with self.path.open("rb", buffering=0) as file:
            for row in range(self.n):
                file.seek(self.offset + (row * self.n + start) * self.stored.itemsize)
                self._read(file, columns[row])
        out[...] = columns.T

    def _read(self, file: Any, flat: Floats) -> None:
        view, done = memoryview(flat.view(np.uint8).data), 0
        while done < len(view):
            got = file.readinto(view[done:])
            if not got:
                raise FileFormatError(f"{self.path.name} ends before its last row; it was cut off.")
            done += got


class SlicedRows(RowSource):
    """Rows of anything with a shape, a dtype and slices: zarr, HDF5, memory maps, arrays."""

    def __init__(self, store: Any) -> None:
        chunks = getattr(store, "chunks", None)
        chunk_rows = int(chunks[0]) if isinstance(chunks, tuple) and chunks else 1
        super().__init__(int(store.shape[0]), store.dtype, chunk_rows)
        self.store = store

    def fill(self, out: Floats, start: int) -> None:
        """Slice, and copy."""
        out[...] = np.asarray(self.store[start : start + len(out)])

    def fill_columns(self, out: Floats, start: int) -> None:
        """Slice the other way."""
        out[...] = np.asarray(self.store[:, start : start + len(out)]).T


class CalledRows(RowSource):
    """Rows made by a function when they are asked for."""

    def __init__(self, function: RowFunction, n: int) -> None:
        first = np.asarray(function(0, 1))
        super().__init__(n, first.dtype)
        self.function = function
        self._checked(first, 0, 1)

    def fill(self, out: Floats, start: int) -> None:
        """Call, and copy."""
        stop = start + len(out)
        out[...] = self._checked(np.asarray(self.function(start, stop)), start, stop)

    def _checked(self, made: Floats, start: int, stop: int) -> Floats:
        if made.shape != (stop - start, self.n):
            raise InputError(
                f"rows({start}, {stop}) has shape {made.shape}; ({stop - start}, {self.n}) is "
                "expected."
            )
        return made


def as_row_source(source: Any, n: int | None = None) -> RowSource:
    """Find out how to read rows from a path, a memory map, a store, an array or a function."""
    if isinstance(source, RowSource):
        return source
    if callable(source) and not hasattr(source, "shape"):
        if n is None:
            raise InputError("rows come from a function of unknown length; pass n=.")
        return CalledRows(source, n)
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
    mapped = _mapped_rows(source) if isinstance(source, np.memmap) else None
    return SlicedRows(source) if mapped is None else mapped


def _mapped_rows(array: np.memmap[Any, Any]) -> RowSource | None:
    """Return the file behind a memory map, if the array is a run of bytes of it."""
    transposed = not array.flags.c_contiguous and array.flags.f_contiguous
    name, memory = getattr(array, "filename", None), getattr(array, "_mmap", None)
    # What was written to a copy-on-write map is nowhere in the file.
    if name is None or memory is None or array.mode == "c":
        return None
    if not (array.flags.c_contiguous or transposed):
        return None
    array.flush()
    # A slice of a map still tells the offset of the whole, so the address decides.
    begin = np.frombuffer(memory, dtype=np.uint8).ctypes.data
    mapped_from = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY
    position = mapped_from + array.ctypes.data - begin
    rows = FileRows(Path(str(name)), position, int(array.shape[0]), array.dtype)
    # D is symmetric: in Fortran order its columns are read as rows, and only messages must know.
    rows.transposed = transposed
    return rows
