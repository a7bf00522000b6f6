"""Print tables and JSON to standard output, progress and warnings to standard error."""

from __future__ import annotations

import codecs
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from neucmds.tools.plots.figures import printable
from neucmds.tools.report.words import clean

PIPE_WIDTH = 120

# Symbols of this program for terminals that lack them.
_ASCII = {
    "D̂": "D^", "‖": "||", "²": "^2", "−": "-", "–": "-", "√": "sqrt ", "Σ": "sum ", "α": "alpha",
    "×": "x", "≤": "<=", "≥": ">=", "±": "+-", "…": "...", "→": "->", "λ": "lambda", "τ": "tau",
    "“": '"', "”": '"', "’": "'", "⁺": "+", "₂": "_2", "\N{COMBINING CIRCUMFLEX ACCENT}": "^",
}  # fmt: skip


def survive_any_encoding() -> None:
    """Write symbols that the encoding of a stream lacks in ASCII, and escape other letters."""
    codecs.register_error("neucmds", _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="neucmds")


def _in_ascii(problem: UnicodeError) -> tuple[str, int]:
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    lacking = problem.object[problem.start : problem.end]
    text = "".join(_ASCII.get(c, c) for c in lacking)
    return text.encode("ascii", "backslashreplace").decode("ascii"), problem.end


def visible(text: str) -> str:
    """Write control characters as escapes: a file name must not steer the terminal."""
    return "\n".join(printable(line) for line in text.split("\n"))


class PlainConsole(Console):
    """A console without markup, emoji codes and control characters; it wraps standard output."""

    def __init__(self, file: TextIO) -> None:
        to_read = file is sys.stdout
        super().__init__(
            file=file, highlight=False, markup=False, emoji=False, soft_wrap=not to_read
        )
        if to_read and not self.is_terminal:
            self.width = PIPE_WIDTH

    def render_str(self, text: str, **options: Any) -> Text:  # type: ignore[override]
        """Escape control characters before the text is measured and aligned."""
        return super().render_str(visible(text), **options)


def say(text: str = "") -> None:
    """Print a sentence to standard output, wrapped to the screen."""
    PlainConsole(sys.stdout).print(text)


def print_table(table: Table) -> None:
    """Print a table to standard output, never cut: a narrow screen wraps its lines."""
    console = PlainConsole(sys.stdout)
    wide = console.measure(table, options=console.options.update(width=10_000))
    console.width = max(wide.minimum, console.width)
    console.print(table)


def json_text(document: dict[str, Any]) -> str:
    """Write one JSON document; NaN and infinities are null."""
    return json.dumps(clean(document), indent=2, allow_nan=False) + "\n"


def print_json(document: dict[str, Any]) -> None:
    """Print one JSON document to standard output."""
    sys.stdout.write(json_text(document))


def print_error(message: str) -> None:
    """Print one line to standard error."""
    PlainConsole(sys.stderr).print(f"neucmds: error: {' '.join(message.split())}")


@contextmanager
def one_line_warnings(spelled: Callable[[str], str]) -> Iterator[None]:
    """Print every warning as one line; `spelled` writes its parameters as options."""

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if issubclass(category, (DeprecationWarning, PendingDeprecationWarning, FutureWarning)):
            return
        text = spelled(getattr(message, "marked", str(message)))
        PlainConsole(sys.stderr).print(f"neucmds: warning: {' '.join(text.split())}")

    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = show
        yield


@dataclass
class Steps:
    """Progress of a command: a description, and a bar once the number of parts is known."""

    progress: Progress
    task: TaskID

    def now(self, description: str, total: int | None = None) -> None:
        """Start the next step, with its number of parts if it is known."""
        self.progress.reset(self.task, total=total, description=visible(description))

    def show(self, step: int, total: int | None, what: float | str) -> None:
        """Show progress; the callback of functions of the library."""
        shown: dict[str, Any] = {"advance": 1}
        if not isinstance(what, str):
            what = f"refining: STRESS {what:.4g}"
            shown = {"completed": step, "total": total}
        elif total is not None:
            what = f"{what}: {100 * step // total} %"
            shown = {}
        self.progress.update(self.task, description=visible(what), **shown)


@contextmanager
def steps() -> Iterator[Steps]:
    """Show progress on standard error while the block runs, if that is a terminal."""
    console = PlainConsole(sys.stderr)
    bar = Progress(
        SpinnerColumn("dots" if console.encoding.startswith("utf") else "line"),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    account = Steps(bar, bar.add_task("", total=None))
    # rich up to 13 prints an empty line when a bar ends.
    with bar if console.is_terminal else nullcontext():
        yield account
