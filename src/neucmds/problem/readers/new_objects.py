"""Read tables of new objects: one row per object, one column per fitted object."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds.errors import FileFormatError
from neucmds.problem.names import order_of
from neucmds.problem.readers.files import READERS, opened
from neucmds.problem.readers.text import Labels, Lines, are_numbers, decoded


@dataclass(frozen=True)
class NewObjects:
    """Dissimilarities (m, n) of m new objects to n fitted ones, as in the file, and their names."""

    values: npt.NDArray[Any]
    names: Labels = None
    columns: Labels = None

    def in_order(self, fitted: Labels) -> NewObjects:
        """Take the columns of the fitted objects, in their order, if both are named.

        Where there are other columns, it is a table of old and new: fitted objects among its rows
        are left out.
        """
        if fitted is None or self.columns is None or self.columns == fitted:
            return self
        order = order_of(self.columns, fitted, "columns of the new objects", others=True)
        values, names = self.values[:, order], self.names
        if len(self.columns) > len(fitted) and names is not None:
            old = set(fitted)
            new = [i for i, name in enumerate(names) if name not in old]
            values, names = values[new], tuple(names[i] for i in new)
        return NewObjects(values, names, fitted)


def read_new_objects(path: str | PathLike[str], n: int, fitted: Labels = None) -> NewObjects:
    """Read a table with a column for each of n fitted objects, with or without names of either.

    It is npy or npz (a vector is one object), csv, tsv, txt, or `-` for standard input.
    With the names of the `fitted` objects, columns go by name, and there may be others.
    """
    with opened(path) as (kind, stream, name):
        if kind == "phylip":
            raise FileFormatError(f"{name} is PHYLIP, which holds no new objects; pass csv or npy.")
        if kind == "text":
            lines = Lines.of(decoded(stream, name), name)
            wide = fitted is not None and set(fitted) <= set(lines.cells(0))
            found = _from_text(lines, n, wide)
        else:
            values, names = READERS[kind](stream, name)
            values = np.atleast_2d(values)
            names = names if names and len(names) == len(values) else None
            square = len(values) == values.shape[1] > n
            found = NewObjects(values, names, names if square else None)
    found = found.in_order(fitted)
    if found.values.dtype.kind not in "fiub" or found.values.shape[1:] != (n,):
        shape = " × ".join(map(str, found.values.shape))
        raise FileFormatError(
            f"{name} is {shape} of {found.values.dtype}; one number is expected for each of the "
            f"{n} fitted objects."
        )
    return found


def _from_text(lines: Lines, n: int, wide: bool = False) -> NewObjects:
    """Read names and numbers; `wide` where the header names all fitted objects, and maybe more."""
    width, first = lines.widths[-1], lines.cells(0)
    # R leaves out the cell above the row names, pandas leaves it empty.
    labelled = len(first) == width - 1 or first[0] == ""
    if wide:
        labelled = labelled or lines.is_text(lines.cells(-1)[0])
        n = width - labelled
    labelled = labelled or width == n + 1
    if width != n + labelled:
        raise FileFormatError(
            f"{lines.name} has {width - labelled} columns of dissimilarities; one is expected for "
            f"each of the {n} fitted objects."
        )
    header = wide or len(first) != width or (labelled and first[0] == "")
    header = len(lines.texts) > 1 and (header or any(map(lines.is_text, first[labelled:])))
    own = [] if header else [lines.cells(i)[0] for i in range(len(lines.texts))]
    if labelled and own and lines.is_text(own[0]) and are_numbers(own[1:]):
        header = are_numbers(first[1:])  # names of fitted objects below a title
    for i in range(header, len(lines.texts)):
        if lines.widths[i] != width:
            raise lines.ragged(i, width)
    names, values = lines.columns(int(header), int(labelled), width)
    if not labelled and are_numbers(own) and not (values[:, 1:] % 1 == 0).all(axis=0).any():
        raise FileFormatError(
            f"{lines.name}: whole numbers in the first column alone look like names ({own[0]}, "
            f"{own[1]}, …), and then {n - 1} columns of dissimilarities are left for {n} fitted "
            "objects; add the missing column, or a header."
        )
    columns = tuple(first[-n:]) if header else None
    return NewObjects(values, tuple(names[0]) if labelled else None, columns)
