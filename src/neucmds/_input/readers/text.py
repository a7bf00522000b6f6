"""Delimited text: a square matrix, a lower triangle or a condensed list, with labels or without.

Nothing in such a file says which it is; the number of lines against the number of cells a line
does. Only where both readings have the same shape do the contents of the first cell decide.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from neucmds._input.readers.phylip import looks_like_phylip, parse_number, parse_phylip
from neucmds.errors import FileFormatError

Labels = tuple[str, ...] | None
Table = tuple[npt.NDArray[np.float64], Labels]

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "-nan", "?"})


@dataclass(frozen=True)
class Line:
    """A line that holds something, and its number in the file."""

    number: int
    text: str


@dataclass(frozen=True)
class Dialect:
    """How cells are told apart; where `;` does it, a comma is the decimal point (R's csv2)."""

    name: str
    delimiter: str | None

    def cells(self, line: Line) -> list[str]:
        """Cut a line into cells without quotes and blanks around them."""
        if '"' in line.text:
            cut = csv.reader([line.text], delimiter=self.delimiter or " ", skipinitialspace=True)
            try:
                return [cell.strip() for cell in next(cut)]
            except csv.Error as error:  # a cell of more than 131,072 characters
                raise FileFormatError(f"{self.name}, line {line.number}: {error}.") from error
        return [cell.strip() for cell in line.text.split(self.delimiter)]

    def first(self, line: Line) -> str:
        """Cut off the first cell and leave the rest of the line alone."""
        if '"' in line.text:
            return self.cells(line)[0]
        return line.text.split(self.delimiter, 1)[0].strip()

    def number(self, cell: str) -> float | None:
        """Read a cell as a number, NaN where it says that one is missing."""
        if cell.lower() in MISSING:
            return float("nan")
        return parse_number(cell.replace(",", ".") if self.delimiter == ";" else cell)

    def not_a_number(self, cell: str) -> str:
        """Say of a cell that it is not a number, and what it may be instead."""
        said = f"{cell[:40]!r} is not a number"
        if self.delimiter != "," and parse_number(cell.replace(",", ".", 1)) is not None:
            return said + "; write a decimal point, or ';' between cells if ',' is the decimal mark"
        return said

    def is_text(self, cell: str) -> bool:
        """Tell whether a cell is neither a number nor a missing one."""
        return self.number(cell) is None


def parse_text(lines: list[str], name: str) -> Table:
    """Find out what kind of table the lines hold, and read it."""
    if looks_like_phylip(lines):
        return parse_phylip(lines, name)
    filled = [Line(i, text) for i, text in enumerate(lines, 1) if text.strip()]
    while filled and filled[0].text.lstrip().startswith("#"):
        filled = filled[1:]
    if not filled:
        raise FileFormatError(f"{name} is empty.")
    dialect = Dialect(name, _delimiter(filled))
    widths = [_width(line, dialect) for line in filled]
    if len(filled) == 1 or max(widths) == 1:
        return _condensed(filled, dialect), None
    found = _ragged(filled, dialect)
    if found is None and dialect.delimiter is not None:
        # What was saved as a whole table: a triangle has blanks to the right.
        found = _ragged([_trimmed(line, dialect.delimiter) for line in filled], dialect)
    if found is not None:
        return found
    while dialect.delimiter and all(_ends(line, dialect.delimiter) for line in filled):
        # A column without a name or a number: something wrote a delimiter after every cell.
        filled = [Line(line.number, line.text.rstrip(" ")[:-1]) for line in filled]
    return _square(filled, [_width(line, dialect) for line in filled], dialect)


def _ragged(lines: list[Line], dialect: Dialect) -> Table | None:
    """Read a triangle whose lines grow by one cell each; None if they do not."""
    widths = [_width(line, dialect) for line in lines]
    if _is_r_dist(lines, widths, dialect):
        return _r_dist(lines, dialect)
    for header in (0, 1):
        if _is_triangle(lines[header:], widths[header:], dialect):
            above = tuple(cell for cell in dialect.cells(lines[0]) if cell) if header else ()
            return _triangle(lines[header:], dialect, above)
    return None


def _ends(line: Line, delimiter: str) -> bool:
    return line.text.rstrip(" ").endswith(delimiter)


def _trimmed(line: Line, delimiter: str) -> Line:
    """Return a line without the blank cells at its end."""
    return Line(line.number, line.text.rstrip(delimiter + " "))


def _is_triangle(lines: list[Line], widths: list[int], dialect: Dialect) -> bool:
    if len(lines) < 2 or not all(b == a + 1 for a, b in pairwise(widths)):
        return False
    return widths[0] == 1 or (widths[0] == 2 and dialect.is_text(dialect.first(lines[0])))


def _delimiter(lines: list[Line]) -> str | None:
    # The last line is the one that has cells in every layout, the lower triangle included.
    return next((mark for mark in "\t;," if mark in lines[-1].text), None)


def _width(line: Line, dialect: Dialect) -> int:
    if dialect.delimiter is None or '"' in line.text:
        return len(dialect.cells(line))
    return line.text.count(dialect.delimiter) + 1


def _condensed(lines: list[Line], dialect: Dialect) -> npt.NDArray[np.float64]:
    cells = dialect.cells(lines[0])
    if len(lines) == 1 and all(cell == "" or dialect.is_text(cell) for cell in cells):
        raise FileFormatError(
            f"{dialect.name} holds one line of {len(cells)} names and no numbers below it."
        )
    if len(lines) > 1 and dialect.is_text(dialect.first(lines[0])):
        lines = lines[1:]
    return np.concatenate([_row(line, dialect, 0) for line in lines])


def _square(lines: list[Line], widths: list[int], dialect: Dialect) -> Table:
    height, width = len(lines), widths[-1]
    for line, cells in zip(lines[1:], widths[1:], strict=True):
        if cells != width:
            raise FileFormatError(
                f"{dialect.name}, line {line.number}: {cells} cells where others have {width}."
            )
    first = dialect.cells(lines[0])
    corner = first[0] == "" or dialect.is_text(first[0])
    header = height == width + 1 or (height == width and corner)
    labelled = width == height + 1 or (height == width and corner)
    n = width - labelled
    if height - header != n:
        raise FileFormatError(
            f"{dialect.name} is not a square matrix: {height} lines of {width} cells"
            f"{_first_text(lines, dialect)}."
        )
    # R leaves out the cell above the row labels.
    if widths[0] != width and not (header and labelled and widths[0] == n):
        raise FileFormatError(
            f"{dialect.name}, line {lines[0].number}: {widths[0]} cells where others have {width}."
        )
    above = tuple(first[-n:]) if header else None
    body = lines[header:]
    values, beside = _body(body, n, labelled, dialect)
    if above and beside and above != beside and above[1:] == beside[:-1] and _is_lower(values):
        return _strict([row[: i + 1] for i, row in enumerate(values)]), (above[0], *beside)
    return mirrored_triangle(values), _agreed(above, beside, dialect.name)


def _is_lower(values: npt.NDArray[np.float64]) -> bool:
    """Tell whether everything above the diagonal is zero or NaN."""
    return not any(np.nan_to_num(row[i + 1 :], nan=0.0).any() for i, row in enumerate(values))


def mirrored_triangle(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Complete a square table that holds one half of D, the other being zeros, NA or blanks."""
    if values.ndim != 2 or values.shape[0] != values.shape[1]:
        return values
    lower, upper = _is_lower(values), _is_lower(values.T)
    if lower == upper:
        return values
    half = np.tril(values if lower else values.T, -1)
    # A diagonal that is blank like the other half was left out, not missed.
    own = np.diagonal(values)
    own = np.zeros_like(own) if np.isnan(own).all() else own
    return half + half.T + np.diag(own)


def _first_text(lines: list[Line], dialect: Dialect) -> str:
    for line in lines:
        for cell in dialect.cells(line):
            if dialect.is_text(cell):
                return f" (line {line.number} holds {cell[:40]!r}, which is not a number)"
    return ""


def _body(
    lines: list[Line], n: int, labelled: bool, dialect: Dialect
) -> tuple[npt.NDArray[np.float64], Labels]:
    labels = tuple(dialect.first(line) for line in lines) if labelled else None
    plain = dialect.delimiter != ";" and not any('"' in line.text for line in lines)
    if plain:
        texts = (
            line.text.split(dialect.delimiter, 1)[1] if labelled else line.text for line in lines
        )
        try:
            # 4.5 s for 5000 × 5000 cells of six decimals; the row-by-row reading below takes 9.3.
            values = np.loadtxt(texts, delimiter=dialect.delimiter, comments=None, ndmin=2)
            return values.reshape(len(lines), n), labels
        except ValueError:
            pass  # a missing value or a bad cell: read on by hand, which can tell and name them
    return np.stack([_row(line, dialect, int(labelled)) for line in lines]), labels


def _row(line: Line, dialect: Dialect, skip: int) -> npt.NDArray[np.float64]:
    cells = dialect.cells(line)[skip:]
    numbers = [dialect.number(cell) for cell in cells]
    for i, number in enumerate(numbers):
        if number is None:
            raise FileFormatError(
                f"{dialect.name}, line {line.number}, cell {i + 1 + skip}: "
                f"{dialect.not_a_number(cells[i])}."
            )
    return np.array(numbers, dtype=np.float64)


def _agreed(above: Labels, beside: Labels, name: str) -> Labels:
    """Labels of header and rows, which must be the same; plain counting is no labelling."""
    labels = beside if above is None else above
    if above is not None and beside is not None and above != beside:
        if sorted(above) == sorted(beside):
            raise FileFormatError(
                f"{name} has the same labels in another order above and beside; reorder one."
            )
        at = next(i for i, (a, b) in enumerate(zip(above, beside, strict=True)) if a != b)
        raise FileFormatError(
            f"{name} labels column {at + 1} {above[at]!r} and row {at + 1} {beside[at]!r}; "
            "make them agree."
        )
    if labels is None or labels == tuple(str(i) for i in range(len(labels))):
        return None
    return labels


def _is_r_dist(lines: list[Line], widths: list[int], dialect: Dialect) -> bool:
    """Tell R's print of a `dist`: columns are all objects but the last, rows all but the first."""
    above, below = dialect.cells(lines[0]), lines[1:]
    if any(width != i for i, width in enumerate(widths[1:], 2)):
        return False
    above = above[1:] if above[0] == "" else above
    beside = [dialect.first(line) for line in below]
    if len(above) != len(below) or above[1:] != beside[:-1]:
        return False
    return len(below) > 1 or dialect.is_text(above[0])


def _r_dist(lines: list[Line], dialect: Dialect) -> Table:
    above = [cell for cell in dialect.cells(lines[0]) if cell]
    labels = (above[0], *(dialect.first(line) for line in lines[1:]))
    return _strict([_row(line, dialect, 1) for line in lines[1:]]), labels


def _strict(rows: list[npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
    """Spread a lower triangle without its diagonal: row i holds i + 1 numbers, of object i + 1."""
    values = np.zeros((len(rows) + 1, len(rows) + 1))
    for i, row in enumerate(rows, 1):
        values[i, :i] = row
    return values + values.T


def _with_the_first(beside: Labels, above: tuple[str, ...]) -> Labels:
    """Names of all objects where no line is the first one's."""
    if beside is None or (len(above) == len(beside) + 1 and above[1:] == beside):
        return above if beside is not None else None
    unnamed = "unnamed"
    while unnamed in beside:
        unnamed += "_"
    return (unnamed, *beside)


def _triangle(lines: list[Line], dialect: Dialect, above: tuple[str, ...] = ()) -> Table:
    """Read a lower triangle, with or without its diagonal and row labels, names above it or not."""
    cells = [dialect.cells(line) for line in lines]
    labelled = all(dialect.is_text(row[0]) for row in cells)
    rows = [_row(line, dialect, int(labelled)) for line in lines]
    labels = tuple(row[0] for row in cells) if labelled else None
    if labels is None and len(above) == len(rows):
        labels = _agreed(above, None, dialect.name)
    if len(rows[0]) == 0:
        return _strict(rows[1:]), labels
    own = np.array([row[-1] for row in rows])
    if not (np.isnan(own).all() or (own == 0).all()):
        # Without its diagonal, and so without a line, or a name, for the first object.
        return _strict(rows), _with_the_first(labels, above)
    values = np.zeros((len(rows), len(rows)))
    for i, row in enumerate(rows):
        values[i, :i] = row[:-1]
    return values + np.tril(values, -1).T, labels
