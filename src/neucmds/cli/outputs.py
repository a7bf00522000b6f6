"""Write a folder of results, all or nothing."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np

from neucmds._backend.arrays import to_numpy
from neucmds._backend.files import Writer, atomic_file, atomic_folder, check_target
from neucmds.embedding import Embedding
from neucmds.errors import InputError
from neucmds.report.words import clean

# What a spreadsheet runs: not numbers, which begin with a sign too.
_FORMULA = re.compile(r"[=+@\t\r-](?!(inf|nan|[\d.]+(e[+-]?\d+)?)$)")


def default_folder(source: str) -> Path:
    """``<stem>-neucmds`` beside where the command runs."""
    return Path(f"{'stdin' if source == '-' else Path(source).stem}-neucmds")


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
        text = json.dumps(clean(document), indent=2, allow_nan=False) + "\n"
        self.files[name] = lambda file: file.write(text.encode())

    def add_csv(self, name: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Plan a table."""
        self.files[name] = lambda file: write_csv(file, header, rows)

    def commit(self) -> list[Path]:
        """Write all files, or none: another run may have written the same ones meanwhile."""
        try:
            with _ended_by_sigterm():
                return atomic_folder(
                    self.folder, self.files, overwrite=self.force, owned=self.names
                )
        except FileExistsError as problem:
            raise _exists(problem.filename) from problem


def object_rows(
    names: Sequence[str] | None, n: int, columns: Mapping[str, Any], what: str = "object"
) -> tuple[list[str], Iterator[list[str]]]:
    """Header and rows of numbers, one of n objects each; digits enough to read back the same."""
    objects = [str(i) for i in range(n)] if names is None else names
    cells = zip(*map(to_numpy, columns.values()), strict=True) if columns else ((),) * n
    rows = ([name, *map(_digits, row)] for name, row in zip(objects, cells, strict=True))
    return [what, *columns], rows


def axis_columns(embedding: Embedding, coordinates: Any) -> dict[str, Any]:
    """Columns of coordinates by the names of their axes."""
    return dict(zip(embedding.axis_names, to_numpy(coordinates).T, strict=True))


def axis_rows(embedding: Embedding) -> tuple[list[str], Iterator[list[str]]]:
    """Header and rows of axes: sign, weight, R² lost without each, and shares where it has some."""
    columns = {"weight": embedding.weights, "r2_lost": embedding.explained}
    columns |= {f"share_of_{name}": share for name, share in embedding.shares.items()}
    signs, values = to_numpy(embedding.signs), zip(*map(to_numpy, columns.values()), strict=True)
    lines = zip(embedding.axis_names, signs, values, strict=True)
    of_all = {"curvature": _digits(embedding.curvature)} if embedding.curvature else {}
    of_all |= {"of": embedding._landmarks_alone} if embedding._landmarks_alone else {}
    rest = of_all.values()
    rows = ([name, f"{sign:+.0f}", *map(_digits, line), *rest] for name, sign, line in lines)
    return ["axis", "sign", *columns, *of_all], rows


def write_csv(file: BinaryIO, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a table of comma-separated values to a binary file."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    write_rows(text, header, rows)
    text.detach()


def write_rows(text: TextIO, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a table to a text file; an apostrophe precedes what a spreadsheet would run."""
    table = csv.writer(text, lineterminator="\n")
    for row in chain([header], rows):
        table.writerow([f"'{cell}" if _FORMULA.match(str(cell)) else cell for cell in row])


def write_file(path: Path, write: Writer, *, force: bool) -> None:
    """Write one file, which appears once it is complete."""
    try:
        with _ended_by_sigterm(), atomic_file(path, overwrite=force) as file:
            write(file)
    except FileExistsError as problem:
        raise _exists(problem.filename) from problem


def check_file(path: Path, *, force: bool) -> None:
    """Refuse a place that cannot be written to, or must not be."""
    check_target(path)
    if os.path.lexists(path) and not force:
        raise _exists(path)


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the program like an exception, so that what is half written is removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


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


def _digits(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, np.float32) else repr(float(value))
