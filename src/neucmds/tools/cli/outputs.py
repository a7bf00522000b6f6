"""Write a folder of results, all or nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
from rich.table import Table

from neucmds.backend.files import Writer, atomic_folder
from neucmds.errors import InputError
from neucmds.tools.cli.console import print_json, print_table, say
from neucmds.tools.files import check_new

# The start of a text that a spreadsheet runs; a number may have a sign.
_FORMULA = re.compile(
    r"[=@\t\r]|[+-](?!(inf|nan|[\d.]+(e[+-]?\d+)?)$)", re.IGNORECASE
)


def default_place(file: str, end: str = "neucmds") -> Path:
    """Return ``<stem of the file>-<end>`` in the working folder; - is standard input."""
    stem = "stdin" if file == "-" else Path(file).stem
    return Path(f"{stem}-{end}")


class Outputs:
    """Files that will be written into one folder.

    Parameters
    ----------
    folder : Path
    names : iterable of str
        Every file that this command may write.
    force : bool
        Whether older files of these names are replaced, or removed if the new result lacks them.

    Attributes
    ----------
    files : dict
        Name of a file → the function that writes to this file, opened in binary mode.
    """

    def __init__(
        self, folder: Path, names: Iterable[str], *, force: bool
    ) -> None:
        self.folder = folder
        self.names = tuple(names)
        self.files: dict[str, Writer] = {}
        self.force = force
        # A folder is made inside its nearest ancestor that exists.
        nearest = folder.resolve()
        while not nearest.exists():
            nearest = nearest.parent
        is_writable = nearest.is_dir() and os.access(nearest, os.W_OK)
        # Results are built in a hidden folder named after this one; the root has no name.
        if not is_writable or not folder.resolve().name:
            raise InputError(
                f"{folder} cannot hold results; pass another folder with -o."
            )
        if folder.exists():
            for name in self.names:
                check_new(folder / name, overwrite=force)

    def add_plot(self, name: str, ax: Any) -> None:
        """Plan a picture; its suffix is its format."""
        self.files[name] = lambda file: ax.figure.savefig(
            file, format=name.rpartition(".")[2]
        )

    def add_text(self, name: str, text: str) -> None:
        """Plan a text."""
        self.files[name] = lambda file: file.write(text.encode())

    def add_csv(self, name: str, table: pd.DataFrame) -> None:
        """Plan a table."""
        self.add_text(name, as_csv(table))

    def commit(self) -> list[Path]:
        """Write all files, or none if one was made meanwhile and must not be replaced."""
        return atomic_folder(
            self.folder,
            self.files,
            overwrite=self.force,
            owned=self.names,
        )


def tell(
    files: list[Path],
    document: dict[str, Any],
    as_json: bool,
    table: Table,
    remark: str,
) -> None:
    """Print a document as JSON, or else a table, a remark and the names of files written."""
    if as_json:
        print_json(document | {"files": [str(path) for path in files]})
        return
    print_table(table)
    say(remark)
    names = ", ".join(path.name for path in files)
    say(f"Written to {files[0].parent}/: {names}")


def named_rows(columns: Any, names: Any, what: str = "object") -> pd.DataFrame:
    """Return a table of columns, with names of the rows, or their numbers, before them."""
    return pd.DataFrame(columns, index=names).reset_index(names=what)


def as_csv(table: pd.DataFrame) -> str:
    """Return a table as text; an apostrophe precedes what a spreadsheet would run."""
    texts = table.select_dtypes(exclude="number").map(_as_plain_text)
    # A table, too, is a mapping of names to columns.
    table = table.assign(**texts).rename(columns=_as_plain_text)
    return table.to_csv(index=False, lineterminator="\n")


def _as_plain_text(cell: Any) -> Any:
    """Put an apostrophe before a text that a spreadsheet would run."""
    if isinstance(cell, str) and _FORMULA.match(cell):
        return f"'{cell}"
    return cell
