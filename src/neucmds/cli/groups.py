"""A file of labels that colour a plot: one a line, or beside the name of its object."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from neucmds.errors import FileFormatError, InputError

__all__ = ["read_groups"]


def read_groups(path: Path, n: int, names: Sequence[str] | None) -> list[str]:
    """Read a label for each of n objects.

    Parameters
    ----------
    path : Path
        A text file with a label a line, or with an object's name and its label a line (comma,
        semicolon or tab between them); a line more than objects is a header. Or a vector in npy.
    n : int
        Number of objects.
    names : sequence of str, optional
        Their names, by which the lines are put in order if there are two columns.
    """
    if not path.is_file():
        raise FileFormatError(f"{path} does not exist, or is no file.")
    labels = _read_npy(path) if path.suffix == ".npy" else None
    if labels is None:
        rows = _read_rows(path)
        if names is not None and len(rows[0]) == 2:
            return _by_name(path, rows, names)
        labels = [row[-1] for row in rows]
    if len(labels) == n + 1 and path.suffix != ".npy":
        labels = labels[1:]
    if len(labels) != n:
        raise InputError(f"{path.name} holds {len(labels)} labels for {n} objects.")
    return labels


def _by_name(path: Path, rows: list[list[str]], names: Sequence[str]) -> list[str]:
    """Put labels in the order of the objects; in the order of the lines they could be anyone's."""
    by_name: dict[str, str] = {}
    for name, label in rows:
        if by_name.setdefault(name, label) != label:
            raise InputError(f"{path.name} names {name!r} twice, with different labels.")
    for name in names:
        if name not in by_name:
            raise InputError(f"{path.name} has no line for {name!r}; name every object once.")
    return [by_name[name] for name in names]


def _read_npy(path: Path) -> list[str]:
    try:
        values = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise FileFormatError(f"{path.name} is no npy file of labels, or is damaged.") from error
    return [str(value) for value in np.ravel(values)]


def _read_rows(path: Path) -> list[list[str]]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (UnicodeDecodeError, OSError) as error:
        raise FileFormatError(f"{path.name} cannot be read as text in UTF-8.") from error
    lines = [line for line in lines if line.strip()]
    if not lines:
        raise FileFormatError(f"{path.name} is empty.")
    mark = next((m for m in "\t;," if all(line.count(m) == 1 for line in lines)), None)
    return [
        [cell.strip().strip('"') for cell in line.split(mark, 1)] if mark else [line.strip()]
        for line in lines
    ]
