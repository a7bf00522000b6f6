"""Print tables and JSON to standard output, progress and warnings to standard error."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, TimeElapsedColumn
from rich.table import Table

from neucmds.options import Callback
from neucmds.tools.plots.figures import printable
from neucmds.tools.report.words import clean

# Characters per line where standard output is no screen.
PIPE_WIDTH = 120


def survive_any_encoding() -> None:
    """Let streams write symbols and letters that their encoding lacks as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def visible(text: str) -> str:
    """Escape control characters but line breaks: a file name must not steer the screen."""
    return "\n".join(printable(line) for line in text.split("\n"))


def plain_console(file: TextIO) -> Console:
    """Return a console that prints texts as they are; lines of standard output are wrapped."""
    is_stdout = file is sys.stdout
    console = Console(
        file=file,
        highlight=False,
        markup=False,
        emoji=False,
        # Rich's word for leaving lines whole.
        soft_wrap=not is_stdout,
    )
    if is_stdout and not console.is_terminal:
        console.width = PIPE_WIDTH
    return console


def say(text: str) -> None:
    """Print a text, if there is one, to standard output, wrapped to the screen."""
    if text:
        plain_console(sys.stdout).print(visible(text))


def complain(kind: str, text: str) -> None:
    """Print one line to standard error: an error or a warning."""
    line = " ".join(text.split())
    plain_console(sys.stderr).print(f"neucmds: {kind}: {visible(line)}")


def print_table(table: Table) -> None:
    """Print a table to standard output, never cut: a narrow screen wraps its lines."""
    console = plain_console(sys.stdout)
    # Rich cuts a table to this width before it measures.
    unlimited = console.options.update(width=10_000)
    least_width = console.measure(table, options=unlimited).minimum
    console.width = max(least_width, console.width)
    console.print(table)


def json_text(document: dict[str, Any]) -> str:
    """Return one JSON document as text; NaN and infinities are null."""
    return json.dumps(clean(document), indent=2, allow_nan=False) + "\n"


def print_json(document: dict[str, Any]) -> None:
    """Print one JSON document to standard output."""
    sys.stdout.write(json_text(document))


@contextmanager
def one_line_warnings(with_options: Callable[[str], str]) -> Iterator[None]:
    """Print every warning for users as one line; `with_options` writes parameters as options."""

    def print_warning(
        message: Warning | str, category: type[Warning], *_: Any, **__: Any
    ) -> None:
        if issubclass(category, UserWarning):
            # Warnings of other packages have no marked parameters.
            text = getattr(message, "marked", str(message))
            complain("warning", with_options(text))

    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = print_warning
        yield


@contextmanager
def progress(beginning: str) -> Iterator[Callback]:
    """Yield a callback that shows a bar on standard error, if that is a terminal.

    `beginning` is shown until the library calls back.
    """
    console = plain_console(sys.stderr)
    bar = Progress(
        *Progress.get_default_columns(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    task = bar.add_task(escape(visible(beginning)), total=None)

    def show_step(step: int, total: int | None, what: float | str) -> None:
        # Descents tell their STRESS, all other work tells its name.
        if not isinstance(what, str):
            what = f"refining: STRESS {what:.4g}"
        text = escape(visible(what))
        bar.update(task, completed=step, total=total, description=text)

    with bar:
        yield show_step
