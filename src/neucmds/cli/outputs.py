"""A folder of results: refused before the work, or written all or nothing."""

from __future__ import annotations

import csv
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from neucmds._backend.arrays import to_numpy
from neucmds.cli.console import clean
from neucmds.embedding import Embedding
from neucmds.errors import InputError
from neucmds.plots import axis_names

__all__ = ["Outputs", "check_file", "coordinate_rows", "default_folder", "write_csv", "write_file"]

Writer = Callable[[Path], None]


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
    """

    def __init__(self, folder: Path, names: Iterable[str], *, force: bool) -> None:
        self.folder, self.names = folder, tuple(names)
        self.files: dict[str, Writer] = {}
        _check_place(folder)
        there = [name for name in self.names if (folder / name).exists()]
        if there and not force:
            raise InputError(
                f"{folder / there[0]} exists already; pass --force to overwrite it, "
                "or another folder with -o."
            )

    def add(self, name: str, write: Writer) -> None:
        """Plan a file; `write` gets the path to write it to."""
        self.files[name] = write

    def add_plot(self, name: str, ax: Any) -> None:
        """Plan a picture; its suffix is its format."""
        self.add(name, lambda path: _save_figure(ax, path))

    def add_json(self, name: str, document: dict[str, Any]) -> None:
        """Plan a JSON document."""
        text = json.dumps(clean(document), indent=2, allow_nan=False) + "\n"
        self.add(name, lambda path: _write_text(path, text))

    def add_csv(self, name: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Plan a table."""
        self.add(name, lambda path: write_csv(path, header, rows))

    def commit(self) -> list[Path]:
        """Write all files beside the folder, then move them in; nothing stays if one fails."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        prefix = f".{self.folder.name}."
        staging = Path(tempfile.mkdtemp(dir=self.folder.resolve().parent, prefix=prefix))
        try:
            for name, write in self.files.items():
                write(staging / name)
                (staging / name).chmod(0o666 & ~_umask())
            staging.chmod(0o777 & ~_umask())
            if not self.folder.exists():
                staging.replace(self.folder)
            else:
                self._replace_files(staging)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        return [self.folder / name for name in self.files]

    def _replace_files(self, staging: Path) -> None:
        for name in self.files:
            (staging / name).replace(self.folder / name)
        for name in set(self.names) - set(self.files):
            (self.folder / name).unlink(missing_ok=True)


def coordinate_rows(
    embedding: Embedding, coordinates: Any, names: Sequence[str] | None
) -> tuple[list[str], Iterator[list[str]]]:
    """Header and rows of coordinates, one object each; digits enough to read back the same."""
    values = to_numpy(coordinates)
    objects = [str(i) for i in range(len(values))] if names is None else names
    rows = ([name, *(_digits(x) for x in row)] for name, row in zip(objects, values, strict=True))
    return ["object", *axis_names(embedding)], rows


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a table of comma-separated values."""
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(header)
        table.writerows(rows)


def write_file(path: Path, write: Writer, *, force: bool) -> None:
    """Write one file beside its place, then move it there."""
    check_file(path, force=force)
    with _temporary_beside(path) as temporary:
        write(temporary)
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)


def check_file(path: Path, *, force: bool) -> None:
    """Refuse a place that cannot be written to, or must not be."""
    if path.is_dir():
        raise InputError(f"{path} is a directory; pass the name of a file with -o.")
    if path.exists() and not force:
        raise InputError(f"{path} exists already; pass --force to overwrite it.")
    if not path.resolve().parent.is_dir():
        raise InputError(f"{path.parent} does not exist; create it first.")


@contextmanager
def _temporary_beside(path: Path) -> Iterator[Path]:
    handle, name = tempfile.mkstemp(dir=path.resolve().parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _check_place(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; pass another folder with -o.")
    nearest = folder.resolve()
    while not nearest.exists():
        nearest = nearest.parent
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise InputError(f"{nearest} cannot be written to; pass another folder with -o.")


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _save_figure(ax: Any, path: Path) -> None:
    import matplotlib as mpl

    kind = path.suffix[1:]
    # The same result gives the same file: no date, and ids that do not depend on the run.
    with mpl.rc_context({"svg.hashsalt": "neucmds"}):
        metadata = {"Date": None} if kind == "svg" else {}
        ax.figure.savefig(path, format=kind, metadata=metadata)


def _digits(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, np.float32) else repr(float(value))


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
