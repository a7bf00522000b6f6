"""What goes where: tables and JSON to standard output, progress and warnings to standard error."""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

__all__ = [
    "Steps",
    "clean",
    "error_console",
    "one_line_warnings",
    "print_error",
    "print_json",
    "print_table",
    "say",
    "steps",
]

# A table is for reading, and is the same in a pipe as on a narrow screen.
PIPE_WIDTH = 120


def _out() -> Console:
    console = Console(file=sys.stdout, highlight=False, soft_wrap=False)
    if not console.is_terminal:
        console = Console(file=sys.stdout, highlight=False, width=PIPE_WIDTH)
    return console


def error_console() -> Console:
    """Return the console of standard error as it is now, which tests and pipes may have moved."""
    return Console(file=sys.stderr, highlight=False, soft_wrap=True)


def say(text: str = "") -> None:
    """Print a sentence to standard output, wrapped to the screen."""
    _out().print(text, markup=False)


def print_table(table: Table) -> None:
    """Print a table to standard output, never cut: a narrow screen wraps its lines."""
    console = _out()
    needed = Console(width=10_000).measure(table).minimum
    console.width = max(needed, console.width)
    console.print(table)


def print_json(document: dict[str, Any]) -> None:
    """Print one JSON document to standard output; what is no number there is null."""
    sys.stdout.write(json.dumps(clean(document), indent=2, allow_nan=False) + "\n")


def clean(value: Any) -> Any:
    """Turn arrays into lists, and NaN and infinities into None."""
    if isinstance(value, dict):
        return {str(key): clean(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(part) for part in value]
    if isinstance(value, np.ndarray):
        return clean(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def print_error(message: str) -> None:
    """Print one line to standard error."""
    error_console().print(f"neucmds: error: {' '.join(message.split())}", markup=False)


@contextmanager
def one_line_warnings() -> Iterator[None]:
    """Print every warning as one line, without the file and source line that Python adds."""

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if issubclass(category, (DeprecationWarning, PendingDeprecationWarning, FutureWarning)):
            return
        text = " ".join(str(message).split())
        error_console().print(f"neucmds: warning: {text}", markup=False)

    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = show
        yield


class Steps:
    """A running account of what is being done: a description, and a bar once its length is known.

    Parameters
    ----------
    progress : Progress
        Where it is shown.
    """

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.task = progress.add_task("", total=None)
        self.start = time.perf_counter()

    def now(self, description: str) -> None:
        """Say what is being done from here on; its length is not known."""
        self.progress.reset(self.task, total=None, description=description)

    def begin(self, description: str, total: int) -> None:
        """Say what is being done from here on, in how many parts."""
        self.progress.reset(self.task, total=total, description=description)

    def describe(self, description: str) -> None:
        """Say more of what goes on, without counting."""
        self.progress.update(self.task, description=description)

    def advance(self, description: str | None = None) -> None:
        """Count one part, and say what comes now."""
        self.progress.advance(self.task)
        if description is not None:
            self.describe(description)


@contextmanager
def steps() -> Iterator[Steps]:
    """Show progress on standard error while the block runs, if somebody is there to see it."""
    console = error_console()
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        yield Steps(progress)
