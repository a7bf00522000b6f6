"""PHYLIP distance files: a first line with n, then a name and its numbers for each object."""

from __future__ import annotations

import re
from typing import cast

import numpy as np
import numpy.typing as npt

from neucmds.errors import FileFormatError

# The original format gives the name ten characters, spaces included; later programs end it at the
# first blank. The latter is tried first, for it is what nearly all files follow today.
NAME_WIDTH = 10
COUNT = re.compile(r"\s*[0-9]+\s*")


def looks_like_phylip(lines: list[str]) -> bool:
    """Tell PHYLIP from a column of numbers: one whole number first, then a line with a name."""
    filled = [line for line in lines[:100] if line.strip()][:2]
    if len(filled) < 2 or not COUNT.fullmatch(filled[0]):
        return False
    return _numbers(re.split(r"[\s,;]+", filled[1].strip())[:1]) is None


def parse_phylip(lines: list[str], name: str) -> tuple[npt.NDArray[np.float64], tuple[str, ...]]:
    """Parse a square or lower-triangular PHYLIP matrix; long rows may go on over several lines."""
    filled = [(i, line) for i, line in enumerate(lines, 1) if line.strip()]
    if not filled or not COUNT.fullmatch(filled[0][1]):
        raise FileFormatError(
            f"{name} is not a PHYLIP matrix: it does not begin with a whole number."
        )
    count = filled[0][1].strip()
    # Every object has a line of its own; Python refuses to read numbers of 4300 digits.
    if len(count) > 9 or int(count) > len(filled) - 1:
        announced = count if len(count) <= 9 else f"{count[:9]}… ({len(count)} digits)"
        raise FileFormatError(f"{name} announces {announced} objects and holds {len(filled) - 1}.")
    n = int(count)
    rest = filled[1:][::-1]
    labels: list[str] = []
    rows: list[list[float]] = []
    for i in range(n):
        if not rest:
            raise FileFormatError(f"{name} announces {n} objects and holds {i}.")
        number, line = rest.pop()
        label, row = _split_name(line, number, name)
        # The first line tells the layout: a lower triangle begins with nothing, or its own zero.
        begun = len(rows[0]) if rows else len(row)
        wanted = n if begun > 1 else i + begun
        _continue(row, rest, wanted)
        if len(row) != wanted:
            raise FileFormatError(
                f"{name}, line {number}: {label!r} has {len(row)} numbers where {wanted} are due."
            )
        labels.append(label)
        rows.append(row)
    if rest:
        raise FileFormatError(f"{name}, line {rest[-1][0]}: more follows after {n} objects.")
    return _matrix(rows), tuple(labels)


def _continue(row: list[float], rest: list[tuple[int, str]], wanted: int) -> None:
    """Take further lines, last first, until a row is full or something else than numbers comes."""
    while len(row) < wanted and rest:
        more = _numbers(rest[-1][1].split())
        if more is None:
            return
        row += more
        rest.pop()


def _matrix(rows: list[list[float]]) -> npt.NDArray[np.float64]:
    n = len(rows)
    values = np.zeros((n, n))
    for i, row in enumerate(rows):
        values[i, : len(row)] = row
    square = n > 0 and len(rows[0]) == n
    return values if square else values + np.tril(values, -1).T


def _split_name(line: str, number: int, name: str) -> tuple[str, list[float]]:
    first, *rest = line.split()
    row = _numbers(rest)
    if row is not None:
        return first, row
    row = _numbers(line[NAME_WIDTH:].split())
    # A short line with numbers in it is not a long name: it has a bad cell.
    only_name = all(_numbers([cell]) is None for cell in rest)
    if row is not None and (row or only_name):
        return line[:NAME_WIDTH].strip(), row
    bad = next(cell for cell in rest if _numbers([cell]) is None)
    raise FileFormatError(f"{name}, line {number}: {bad!r} is not a number.")


def _numbers(cells: list[str]) -> list[float] | None:
    numbers = [parse_number(cell) for cell in cells]
    return None if None in numbers else cast(list[float], numbers)


def parse_number(cell: str) -> float | None:
    """Read a number; None if it is none. Python alone takes ``1_0`` for 10."""
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None
