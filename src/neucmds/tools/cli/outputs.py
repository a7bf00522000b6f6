"""Write a folder of results, all or nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import pandas as pd

from neucmds.backend.arrays import to_numpy
from neucmds.backend.files import Writer, atomic_file, atomic_folder, check_target
from neucmds.embedding import Embedding
from neucmds.errors import InputError
from neucmds.tools.cli.console import json_text

# What a spreadsheet runs: not numbers, which begin with a sign too.
_FORMULA = re.compile(r"[=+@\t\r-](?!(inf|nan|[\d.]+(e[+-]?\d+)?)$)")


def default_place(source: str, end: str = "neucmds") -> Path:
    """``<stem>-neucmds`` beside where the command runs."""
    return Path(f"{'stdin' if source == '-' else Path(source).stem}-{end}")


class Outputs:
    """Files that are going to be written into one folder.

    Parameters
    ----------
    folder : Path
    names : iterable of str
        Every file that this kind of result may have; with `force`, older ones are replaced, and
        those that the new result lacks are removed.
    force : bool

    Attributes
    ----------
    files : dict
        Name → what writes the file, given the open binary file.
    """

    def __init__(self, folder: Path, names: Iterable[str], *, force: bool) -> None:
        self.folder, self.names = folder, tuple(names)
        self.files: dict[str, Writer] = {}
        self.force = force
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file; pass another folder with -o.")
        nearest = folder.resolve()
        if not nearest.name:
            raise InputError(f"{folder} cannot hold results; pass another folder with -o.")
        while not nearest.exists():
            nearest = nearest.parent
        if not nearest.is_dir() or not os.access(nearest, os.W_OK):
            raise InputError(f"{nearest} cannot be written to; pass another folder with -o.")
        there = [name for name in self.names if os.path.lexists(folder / name)]
        if there and not force:
            raise _exists(folder / there[0])

    def add_plot(self, name: str, ax: Any) -> None:
        """Plan a picture; its suffix is its format."""
        self.files[name] = lambda file: save_figure(ax, file, name.rpartition(".")[2])

    def add_json(self, name: str, document: dict[str, Any]) -> None:
        """Plan a JSON document."""
        self.files[name] = lambda file: file.write(json_text(document).encode())

    def add_csv(self, name: str, table: pd.DataFrame) -> None:
        """Plan a table."""
        self.files[name] = lambda file: file.write(as_csv(table).encode())

    def commit(self) -> list[Path]:
        """Write all files, or none: another run may have written the same ones meanwhile."""
        try:
            return atomic_folder(self.folder, self.files, overwrite=self.force, owned=self.names)
        except FileExistsError as problem:
            raise _exists(problem.filename) from problem


def object_table(columns: Any, names: Any, what: str = "object") -> pd.DataFrame:
    """Return columns with the names of their rows, or numbers, in front."""
    return pd.DataFrame(columns, index=names).reset_index(names=what)


def axis_table(embedding: Embedding) -> pd.DataFrame:
    """Return sign, weight, R² lost without it, and shares of every axis."""
    columns: dict[str, Any] = {"axis": embedding.axis_names}
    columns |= {"sign": to_numpy(embedding.signs).astype(int)}
    columns |= {"weight": to_numpy(embedding.weights), "r2_lost": embedding.explained}
    columns |= {f"share_of_{name}": share for name, share in embedding.shares.items()}
    columns |= {"curvature": embedding.curvature} if embedding.curvature else {}
    columns |= {"of": embedding._landmarks_alone} if embedding._landmarks_alone else {}
    return pd.DataFrame(columns)


def as_csv(table: pd.DataFrame) -> str:
    """Write a table as text; an apostrophe precedes what a spreadsheet would run."""
    texts = table.select_dtypes(exclude="number").map(_harmless)
    table = table.assign(**texts).rename(columns=_harmless)
    return table.to_csv(index=False, lineterminator="\n")


def _harmless(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


def write_file(path: Path, write: Writer, *, force: bool) -> None:
    """Write one file, which appears once it is complete."""
    try:
        with atomic_file(path, overwrite=force) as file:
            write(file)
    except FileExistsError as problem:
        raise _exists(problem.filename) from problem


def check_file(path: Path, *, force: bool) -> None:
    """Refuse a place that cannot be written to, or must not be."""
    check_target(path)
    if os.path.lexists(path) and not force:
        raise _exists(path)


def _exists(path: Path | str) -> InputError:
    return InputError(
        f"{path} exists already; pass --force to overwrite it, or another place with -o."
    )


def save_figure(ax: Any, file: BinaryIO, kind: str) -> None:
    """Write the figure of a picture to a binary file."""
    import matplotlib as mpl

    # The same result gives the same file: no date, and ids that do not depend on the run.
    with mpl.rc_context({"svg.hashsalt": "neucmds"}):
        dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
        ax.figure.savefig(file, format=kind, metadata=dates.get(kind, {}))
