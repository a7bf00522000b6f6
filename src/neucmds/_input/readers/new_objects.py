"""Tables of new objects: one row each, one column for every object that was fitted."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds._input.readers.table_files import (
    KNOWN_SUFFIXES,
    NPY_MAGIC,
    read_array,
    read_frame,
    read_table,
    standard_input,
)
from neucmds._input.readers.text import Dialect, Line
from neucmds.errors import FileFormatError

TEXT_SUFFIXES = (".csv", ".tsv", ".txt")


@dataclass(frozen=True)
class NewObjects:
    """Dissimilarities of m new objects to n fitted ones.

    Parameters
    ----------
    values : ndarray of shape (m, n)
        As they stand in the file; nothing is squared.
    names : tuple of str, or None
        Of the new objects.
    columns : tuple of str, or None
        What the file calls the fitted ones.
    """

    values: npt.NDArray[Any]
    names: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None

    def in_order(self, fitted: tuple[str, ...] | None) -> NewObjects:
        """Put the columns in the order of the fitted objects, if both are named."""
        if fitted is None or self.columns is None or self.columns == fitted:
            return self
        place = {name: i for i, name in enumerate(self.columns)}
        absent = [name for name in fitted if name not in place]
        if absent:
            raise FileFormatError(
                f"the new objects have no column {absent[0]!r}, which the model was fitted on; "
                "name the columns after the fitted objects, or leave the header out."
            )
        order = [place[name] for name in fitted]
        return NewObjects(self.values[:, order], self.names, fitted)


def read_new_objects(path: str, n: int) -> NewObjects:
    """Read a table of m rows and n columns, with or without a header and row names.

    Parameters
    ----------
    path : str
        npy or npz (a vector is one object), csv, tsv, txt, parquet, or `-` for standard input.
    n : int
        Number of fitted objects.
    """
    file = Path(path)
    if path == "-":
        content = standard_input()
        if not content.startswith(NPY_MAGIC):
            return _from_text(_decoded(content, "standard input"), "standard input", n)
        return _from_array(
            read_array(io.BytesIO(content), len(content), "standard input"), "standard input", n
        )
    suffix = file.suffix.lower()
    if file.is_file() and suffix in TEXT_SUFFIXES:
        return _from_text(_decoded(file.read_bytes(), file.name), file.name, n)
    if file.is_file() and suffix in (".parquet", ".pq"):
        return _from_parquet(file, n)
    if suffix in (".npy", ".npz") or not file.is_file():
        values, names = read_table(file)
        return _from_array(values, file.name, n, names)
    known = [s for s in KNOWN_SUFFIXES if s in (*TEXT_SUFFIXES, ".npy", ".npz", ".parquet", ".pq")]
    raise FileFormatError(
        f"{file.name} cannot hold new objects; pass a file ending in {', '.join(known)}."
    )


def _from_array(
    values: npt.NDArray[Any], name: str, n: int, names: tuple[str, ...] | None = None
) -> NewObjects:
    if values.dtype.kind not in "fiub":
        raise FileFormatError(f"{name} holds {values.dtype}, which is not a real number.")
    table = np.atleast_2d(values)
    if table.ndim != 2 or table.shape[1] != n:
        shape = " × ".join(map(str, values.shape))
        raise FileFormatError(f"{name} is {shape}; {_expected(n)}.")
    named = names if names is not None and len(names) == table.shape[0] else None
    return NewObjects(table, named)


def _decoded(content: bytes, name: str) -> list[str]:
    try:
        return content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{name} is not text in UTF-8; save it so, or as npy.") from error


def _from_text(lines: list[str], name: str, n: int) -> NewObjects:
    filled = [Line(i, text) for i, text in enumerate(lines, 1) if text.strip()]
    if not filled:
        raise FileFormatError(f"{name} is empty.")
    mark = next((mark for mark in "\t;," if mark in filled[-1].text), None)
    dialect = Dialect(name, mark)
    rows = [dialect.cells(line) for line in filled]
    width = len(rows[-1])
    if width not in (n, n + 1):
        raise FileFormatError(f"{name} has {width} columns; {_expected(n)}.")
    labelled = width == n + 1
    header = _is_header(rows[0], width, n, dialect) and len(rows) > 1
    names = tuple(row[0] for row in rows[header:]) if labelled else None
    columns = tuple(rows[0][-n:]) if header else None
    values = [
        _numbers(row[labelled:], line, n, dialect)
        for row, line in zip(rows[header:], filled[header:], strict=True)
    ]
    return NewObjects(np.array(values, dtype=np.float64), names, columns)


def _is_header(first: list[str], width: int, n: int, dialect: Dialect) -> bool:
    # R leaves out the cell above the row names, pandas leaves it empty.
    if len(first) != width or (width == n + 1 and first[0] == ""):
        return True
    return any(dialect.is_text(cell) for cell in first[width - n :])


def _numbers(cells: list[str], line: Line, n: int, dialect: Dialect) -> list[float]:
    if len(cells) != n:
        raise FileFormatError(
            f"{dialect.name}, line {line.number}: {len(cells)} numbers; {_expected(n)}."
        )
    numbers = [dialect.number(cell) for cell in cells]
    for cell, number in zip(cells, numbers, strict=True):
        if number is None:
            raise FileFormatError(
                f"{dialect.name}, line {line.number}: {dialect.not_a_number(cell)}."
            )
    return [number for number in numbers if number is not None]


def _from_parquet(file: Path, n: int) -> NewObjects:
    with file.open("rb") as stream:
        frame = read_frame(stream, file.name)
    if frame.shape[1] == n + 1:
        frame = frame.set_index(frame.columns[0])
    if frame.shape[1] != n:
        raise FileFormatError(f"{file.name} has {frame.shape[1]} columns; {_expected(n)}.")
    try:
        values = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    except (ValueError, TypeError) as error:
        raise FileFormatError(f"{file.name} holds more than numbers.") from error
    names = tuple(str(name) for name in frame.index)
    columns = tuple(str(name) for name in frame.columns)
    counted = columns == tuple(str(i) for i in range(n))
    return NewObjects(values, names, None if counted else columns)


def _expected(n: int) -> str:
    return f"one is expected for each of the {n} fitted objects"
