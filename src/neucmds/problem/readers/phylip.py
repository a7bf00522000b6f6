"""Read PHYLIP distance files."""

from __future__ import annotations

from typing import cast

import numpy as np

from neucmds.errors import FileFormatError
from neucmds.problem.readers.text import COUNT, Table, as_matrix, parse_number


def parse_phylip(text: str, name: str) -> Table:
    """Parse a square or lower-triangular PHYLIP matrix; long rows may go on over several lines."""
    filled = [(i, line) for i, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not COUNT.fullmatch(filled[0][1]):
        raise FileFormatError(
            f"{name} is not a PHYLIP matrix: it does not begin with a whole number."
        )
    n, rest = int(filled[0][1]), filled[1:][::-1]
    labels: list[str] = []
    rows: list[list[float]] = []
    while rest and len(rows) < n:
        number, line = rest.pop()
        label, *cells = line.split()
        row = _numbers(cells)
        if row is None:
            bad = next(cell for cell in cells if parse_number(cell) is None)
            raise FileFormatError(f"{name}, line {number}: {bad[:40]!r} is not a number.")
        # A lower triangle begins with no number, or with its own zero.
        begun = len(rows[0]) if rows else len(row)
        wanted = n if begun > 1 else len(rows) + begun
        while rest and len(row) < wanted and (more := _numbers(rest[-1][1].split())) is not None:
            row += more
            rest.pop()
        if len(row) != wanted:
            raise FileFormatError(
                f"{name}, line {number}: {label!r} has {len(row)} numbers instead of {wanted}."
            )
        labels.append(label)
        rows.append(row)
    if len(rows) != n or n == 0:
        raise FileFormatError(f"{name} announces {n} objects and holds {len(rows)}.")
    if rest:
        raise FileFormatError(f"{name}, line {rest[-1][0]}: more follows after {n} objects.")
    values = np.full((n, n), np.nan)
    for i, row in enumerate(rows):
        values[i, : len(row)] = row
    return as_matrix(values, None, tuple(labels), name, lower=len(rows[0]) < 2)


def _numbers(cells: list[str]) -> list[float] | None:
    numbers = [parse_number(cell) for cell in cells]
    return None if None in numbers else cast(list[float], numbers)
