"""Read delimited text.

The numbers of lines and of cells per line show whether there are names; if they allow both, the
first cell decides.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from neucmds.errors import FileFormatError, option
from neucmds.problem.names import agreed, counts

Floats = npt.NDArray[np.float64]
Labels = tuple[str, ...] | None
Table = tuple[Floats, Labels]

# Of numbers and of metadata alike.
MISSING = (
    *("", "NA", "na", "N/A", "n/a", "NaN", "nan", "-nan", "-NaN"),
    *("NULL", "null", "None", "none", "?"),
)
# The first line of a PHYLIP file, the number of objects.
COUNT = re.compile(r"\s*[0-9]{1,9}\s*")


def require_pandas(what: str) -> Any:
    """Return pandas, or name the extra that brings it."""
    try:
        import pandas
    except ImportError as error:
        raise FileFormatError(f"{what} needs pandas: pip install 'neucmds[cli]'.") from error
    return pandas


def one_line(error: Exception) -> str:
    """Return the message of another library for use inside our own."""
    return " ".join(str(error).split()).rstrip(".")[:200] or type(error).__name__


def ask_for_edges(width: int) -> str:
    """Ask whether a table of three columns lists edges."""
    if width != 3:
        return ""
    return f"; is it a list of edges? Then pass {option('metric', 'shortest_path')}"


def decoded(stream: BinaryIO, name: str) -> str:
    """Return the text of a file, which must be UTF-8 and not blank."""
    try:
        text = stream.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileFormatError(
            f"{name} is not text in UTF-8 (byte {error.start}); save it as UTF-8, or as npy."
        ) from error
    if "\0" in text:
        raise FileFormatError(f"{name} is not text: it holds NUL bytes.")
    if not text.strip():
        raise FileFormatError(f"{name} is empty.")
    return text


@contextmanager
def opened_file(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file, or standard input for `-`, or say in one line why not."""
    file = Path(path)
    if str(path) == "-":
        yield io.BytesIO(_standard_input())
        return
    try:
        if not file.is_file():
            raise FileFormatError(f"{file} does not exist, or is a directory; pass a file.")
        with file.open("rb") as stream:
            yield stream
    except OSError as error:
        raise FileFormatError(f"{file.name} cannot be read: {one_line(error)}.") from error


def read_text(path: str | PathLike[str]) -> tuple[str, str]:
    """Return the name of a file for messages, and the text it holds."""
    name = file_name(path)
    with opened_file(path) as stream:
        return name, decoded(stream, name)


def file_name(path: str | PathLike[str]) -> str:
    """Return the name of a file for messages."""
    return "standard input" if str(path) == "-" else Path(path).name


def _standard_input() -> bytes:
    try:
        return sys.stdin.buffer.read()
    except (AttributeError, ValueError) as error:  # None, or a closed file
        raise FileFormatError("standard input is closed; pass the name of a file.") from error


def parse_number(cell: str, decimal: str = ".") -> float | None:
    """Read a cell as a number, NaN where it says that one is missing; None if it is none."""
    if cell in MISSING:
        return float("nan")
    try:
        return None if "_" in cell else float(cell.replace(decimal, "."))
    except ValueError:
        return None


def looks_like_phylip(text: str) -> bool:
    """Tell PHYLIP from a column of numbers: one whole number first, then a line with a name."""
    filled = [line for line in text[:100_000].splitlines() if line.strip()]
    if len(filled) < 2 or not COUNT.fullmatch(filled[0]):
        return False
    return parse_number(re.split(r"[\s,;]+", filled[1].strip())[0]) is None


@dataclass(frozen=True)
class Lines:
    """The lines of a file that are not blank, their numbers, and the delimiter (None: blanks)."""

    name: str
    texts: Sequence[str]
    places: Sequence[int]
    delimiter: str | None

    @classmethod
    def of(cls, text: str, name: str) -> Lines:
        """Leave out blank lines and remarks at the top, and find the delimiter."""
        filled = [(i, line) for i, line in enumerate(text.splitlines(), 1) if line.strip()]
        # The last line is the one that has cells in every layout, the lower triangle included.
        delimiter = next((mark for mark in "\t;," if mark in filled[-1][1]), None)
        while filled and filled[0][1].lstrip().startswith("#"):
            above = [cell.strip() for cell in filled[0][1].split(delimiter)]
            filled, header = filled[1:], filled[0]
            beside = [line.split(delimiter, 1)[0].strip() for _, line in filled]
            if above[0] == "#" and filled and above[1:] == beside:
                filled = [header, *filled]
                break
        if not filled:
            raise FileFormatError(f"{name} is empty.")
        places, texts = zip(*filled, strict=True)
        return cls(name, texts, places, delimiter)

    def cells(self, i: int) -> list[str]:
        """Cut a line into cells without quotes and blanks around them."""
        line = self.texts[i]
        if '"' not in line:
            return [cell.strip() for cell in line.split(self.delimiter)]
        try:
            line = line.strip() if self.delimiter is None else line
            cut = csv.reader([line], delimiter=self.delimiter or " ", skipinitialspace=True)
            return [cell.strip() for cell in next(cut)]
        except csv.Error as error:
            raise FileFormatError(f"{self.name}, line {self.places[i]}: {error}.") from error

    def number(self, cell: str) -> float | None:
        """Read a cell as a number; between semicolons a comma is a decimal point (R's csv2)."""
        return parse_number(cell, "," if self.delimiter == ";" else ".")

    def is_text(self, cell: str) -> bool:
        """Tell whether a cell is neither a number nor a missing one."""
        return self.number(cell) is None

    @cached_property
    def widths(self) -> list[int]:
        """Number of cells per line."""
        quoted = self.delimiter is None or any('"' in line for line in self.texts)
        if quoted:
            return [len(self.cells(i)) for i in range(len(self.texts))]
        return [line.count(str(self.delimiter)) + 1 for line in self.texts]

    @cached_property
    def filled(self) -> list[int]:
        """Number of cells per line up to the last one that is not blank."""
        blank = f"{self.delimiter or ''} "
        return [
            width - (line[len(line.rstrip(blank)) :].count(self.delimiter) if self.delimiter else 0)
            for width, line in zip(self.widths, self.texts, strict=True)
        ]

    def columns(self, start: int, n_names: int, width: int) -> tuple[list[list[str]], Floats]:
        """Parse lines from `start` on: columns of names, and an array of the numbers after them.

        Cells that a line lacks at its end are NaN.
        """
        texts, numbers, names = self.texts[start:], range(n_names, width), []
        whole = min(self.widths[start:]) >= width and not any('"' in line for line in texts)
        if whole and self.delimiter != ";":  # NumPy is faster
            with suppress(ValueError):
                values = np.loadtxt(
                    texts, delimiter=self.delimiter, comments=None, ndmin=2, usecols=numbers
                )
                cut = (line.split(self.delimiter, n_names)[:n_names] for line in texts)
                names = [[cell.strip() for cell in cells] for cells in cut]
                return [list(cells) for cells in zip(*names, strict=True)], values
        values, marks = np.full((len(texts), len(numbers)), np.nan), set[str]()
        for i, row in enumerate(values, start):
            cells = self.cells(i)[:width]
            names.append(cells[:n_names])
            for at, cell in enumerate(cells[n_names:]):
                number = self.number(cell)
                if number is None:
                    raise self._bad_cell(i, n_names + at + 1, cell)
                row[at] = number
                if self.delimiter == ";":
                    marks |= {",", "."}.intersection(cell)
        if len(marks) > 1:
            raise FileFormatError(f"{self.name} has decimal commas and decimal points; keep one.")
        return [list(cells) for cells in zip(*names, strict=True)], values

    def _bad_cell(self, i: int, at: int, cell: str) -> FileFormatError:
        """Return the error that names a cell which is not a number."""
        said = f"{cell[:40]!r} is not a number"
        if self.delimiter != "," and parse_number(cell, ",") is not None:
            said += "; write a decimal point, or ';' between cells if ',' is meant so"
        return FileFormatError(f"{self.name}, line {self.places[i]}, cell {at}: {said}.")

    def ragged(self, i: int, width: int) -> FileFormatError:
        """Return the error that names a line of another width."""
        return FileFormatError(
            f"{self.name}, line {self.places[i]}: {self.widths[i]} cells where others have {width}."
        )


def parse_matrix(lines: Lines) -> Table:
    """Read a square matrix, a lower triangle or a condensed list, with or without names."""
    if len(lines.texts) == 1 or max(lines.widths) == 1:
        return _condensed(lines), None
    for header in (0, 1):
        if _grows(lines, header):
            return _triangle(lines, header)
    return _square(lines)


def _condensed(lines: Lines) -> Floats:
    first = lines.cells(0)
    if len(lines.texts) == 1:
        if all(cell == "" or lines.is_text(cell) for cell in first):
            raise FileFormatError(
                f"{lines.name} holds one line of {len(first)} names and no numbers below it."
            )
        lines = Lines(lines.name, first, len(first) * [lines.places[0]], lines.delimiter)
        return lines.columns(0, 0, 1)[1][:, 0]
    return lines.columns(int(lines.is_text(first[0])), 0, 1)[1][:, 0]


def _grows(lines: Lines, header: int) -> bool:
    """Tell whether every line has a cell more than the line before, as in a lower triangle."""
    widths = lines.filled[header:]
    if len(widths) < 2 or not all(b == a + 1 for a, b in pairwise(widths)):
        return False
    if widths[0] != 2:
        return widths[0] == 1
    beside = _beside(lines, header)
    named = lines.is_text(beside[0])
    if not header:
        return named or are_numbers(beside)
    return named or _repeats(lines, beside) or _is_shifted(_above(lines, False), beside)


def _beside(lines: Lines, header: int) -> tuple[str, ...]:
    """Return the first cells of the lines below the header."""
    return tuple(lines.cells(i)[0] for i in range(header, len(lines.texts)))


def _repeats(lines: Lines, beside: tuple[str, ...]) -> bool:
    """Tell whether the first line holds the first cells of the others, after a corner or not."""
    return _above(lines, lines.is_text(lines.cells(0)[0])) == beside


def are_numbers(cells: Sequence[str]) -> bool:
    """Tell whether cells may be names that are numbers: whole, and different."""
    return len(cells) > 1 and len(set(cells)) == len(cells) and all(map(str.isdigit, cells))


def _above(lines: Lines, corner: bool) -> Labels:
    """Return names of the first line, without the cell above names beside."""
    first = lines.cells(0)[: lines.filled[0]]
    return tuple(first[1:] if corner or first[0] == "" else first)


def _triangle(lines: Lines, header: int) -> Table:
    """Read a lower triangle, with or without its diagonal, below names, beside names or neither."""
    begun, width = lines.filled[header], lines.filled[-1]
    first = _beside(lines, header)
    labelled = begun == 2 or lines.is_text(first[0]) or (header == 1 and _repeats(lines, first))
    above = _above(lines, labelled and lines.widths[0] == lines.widths[-1]) if header else None
    names, values = lines.columns(header, int(labelled), width)
    if begun == labelled:  # no diagonal, and nothing beside the first name
        values = np.pad(values, ((0, 0), (0, 1)), constant_values=np.nan)
    n = len(values)
    beside = tuple(names[0]) if labelled else None
    own = np.diagonal(values)
    if not (_is_shifted(above, beside) or np.isnan(own).all() or (own == 0).all()):
        fractions = (values[:, 1:] % 1 > 0).any()
        if not labelled and are_numbers(first) and (fractions or (np.diff(values[:, 0]) > 0).all()):
            raise FileFormatError(
                f"{lines.name}: whole numbers in the first column of a triangle look like names "
                f"({first[0]}, {first[1]}, …); repeat them in a header line, or add a diagonal of "
                "zeros if they are dissimilarities."
            )
        # Without a diagonal, and so without a line for the first object.
        if above is not None and len(above) == n + 1:
            return _strict(values), above
        if beside is not None:
            raise FileFormatError(
                f"{lines.name} is a triangle whose diagonal is not zero, first {own[0]:.4g}; add a "
                "line for the first object if there is no diagonal."
            )
        return _strict(values), None
    above = above if above and len(above) == n else None
    return as_matrix(values, above, beside, lines.name, lower=True)


def _square(lines: Lines) -> Table:
    # A column without a name or a number: something wrote a delimiter after every cell.
    spare = min(width - filled for width, filled in zip(lines.widths, lines.filled, strict=True))
    widths = [width - spare for width in lines.widths]
    height, width = len(lines.texts), widths[-1]
    for i in range(1, height):
        if widths[i] != width:
            raise lines.ragged(i, lines.widths[-1])
    first = lines.cells(0)[: widths[0]]
    corner = first[0] == "" or lines.is_text(first[0])
    # R leaves out the cell above the names, which may be numbers.
    corner = corner or first == [lines.cells(i)[0] for i in range(1, height)]
    header = height == width + 1 or (height == width and corner)
    labelled = width == height + 1 or (height == width and corner)
    n = width - labelled
    if height - header != n:
        raise FileFormatError(
            f"{lines.name} is not a square matrix: {height} lines of {width} cells"
            f"{ask_for_edges(width)}."
        )
    if widths[0] != width and not (header and labelled and widths[0] == n):
        raise lines.ragged(0, width)
    names, values = lines.columns(int(header), int(labelled), width)
    above = tuple(first[-n:]) if header else None
    return as_matrix(values, above, tuple(names[0]) if labelled else None, lines.name)


def as_matrix(
    values: Floats, above: Labels, beside: Labels, name: str, *, lower: bool = False
) -> Table:
    """Return D and the names of its objects from a square table of all or one half of D.

    `lower`: entries above the diagonal are missing; `name` is that of the file, for messages.
    """
    if above and beside and _is_shifted(above, beside) and _is_lower(values):
        return _strict(values), (above[0], *beside)
    if above and all(mark == f"V{i}" for i, mark in enumerate(above, 1)):
        # What R calls columns without names, beside rows that it numbers.
        above, beside = None, None if beside is None or counts(beside, 1) else beside
    labels = beside if above is None else above
    if labels is not None:
        labels = agreed(beside or labels, above or labels, name, FileFormatError)
    return _mirrored(values, lower), labels


def _is_shifted(above: Labels, beside: Labels) -> bool:
    """Tell R's print of a `dist`: columns are all objects but the last, rows all but the first."""
    if above is None or beside is None or len(above) != len(beside):
        return False
    return above != beside and above[1:] == beside[:-1]


def _is_lower(values: Floats) -> bool:
    """Tell whether everything above the diagonal is zero or NaN."""
    return not any(np.nan_to_num(row[i + 1 :], nan=0.0).any() for i, row in enumerate(values))


def _mirrored(values: Floats, lower: bool) -> Floats:
    """Complete a square table that holds one half of D, the other being zeros, NA or blanks."""
    if not lower:
        lower, upper = _is_lower(values), _is_lower(values.T)
        if lower == upper:
            return values
    half = np.tril(values if lower else values.T, -1)
    # A diagonal that is blank like the other half was left out, not missed.
    own = np.diagonal(values)
    own = np.zeros_like(own) if np.isnan(own).all() else own
    return half + half.T + np.diag(own)


def _strict(values: Floats) -> Floats:
    """Spread a lower triangle without its diagonal: row i holds i + 1 numbers, of object i + 1."""
    n = len(values) + 1
    square = np.zeros((n, n))
    square[1:, :-1] = np.tril(values)
    return square + square.T
