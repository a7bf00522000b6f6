"""The program, its commands, and its exit codes."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import neucmds
from neucmds.errors import InputError, in_python, rendered
from neucmds.tools.cli.console import (
    complain,
    one_line_warnings,
    plain_console,
    survive_any_encoding,
    visible,
)
from neucmds.tools.cli.demo import demo
from neucmds.tools.cli.embed import embed
from neucmds.tools.cli.explore import compare, diagnose, stress_curve
from neucmds.tools.cli.project import project
from neucmds.tools.cli.report import report
from neucmds.tools.cli.testing import run_tests

BAD_INPUT = 2
INTERRUPTED = 130

# Parameter of the library → its option, where that has another name.
_FLAGS = {
    "n_components": "-k",
    "n_landmarks": "--landmarks",
    "random_state": "--seed",
    "color": "--color-by",
    "overwrite": "--force",
}


class Program(TyperGroup):
    """All commands; a failure is one line on standard error and an exit code."""

    def main(  # type: ignore[override]
        self,
        args: Sequence[str] | None = None,
        *,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Parse and run, then exit; without `standalone_mode`, return the exit code.

        It is 0 done, 2 bad input, 1 a bug, 130 interrupted. SystemExit passes through.
        """
        survive_any_encoding()
        if args is None:
            args = sys.argv[1:]
        words = list(args)
        # The first word that names a command is the command that runs.
        running = next((word for word in words if word in self.commands), "")

        def with_options(message: str) -> str:
            return rendered(message, partial(self._option_text, running))

        # `report` prints `obj`, the words of the command, on its page.
        extra |= {"prog_name": "neucmds", "obj": words}
        with one_line_warnings(with_options):
            try:
                # Commands return None.
                code = super().main(words, standalone_mode=False, **extra) or 0
            except (Exception, KeyboardInterrupt) as problem:
                code = _complain_of(problem, with_options)
        # Typer turns most interrupts into this code, `_complain_of` the others.
        if code == INTERRUPTED:
            complain(
                "error",
                "interrupted; results are written whole or not at all.",
            )
        if standalone_mode:
            sys.exit(code)
        return code

    def _option_text(self, running: str, name: str, value: str | None) -> str:
        """Write a parameter of the library as an option.

        If the command that is `running` has no such option, name one that has, or else Python.
        """
        if name == "metric_params":
            return "--metric NAME,PARAMETER=VALUE"
        if name in ("direction", "part"):
            # Parameters of this metric.
            value = f"shortest_path,{name}={value}"
            name = "metric"
        flag = _FLAGS.get(name, f"--{name.replace('_', '-')}")
        owners = [
            owner
            for owner, command in self.commands.items()
            if any(flag in parameter.opts for parameter in command.params)
        ]
        if not owners:
            return f"{in_python(name, value)} in Python"
        if value == "False":
            flag = f"no {flag}"
        elif value is not None and value != "True":
            # Written as on a command line: (3, 4) as 3,4, and 'refined' as refined.
            bare = re.sub(r"[()\[\]'\" ]", "", value).rstrip(",")
            flag = f"{flag} {bare}"
        if not running or running in owners:
            return flag
        return f"{flag} of neucmds {owners[0]}"


def _complain_of(
    problem: BaseException, with_options: Callable[[str], str]
) -> int:
    """Print one line about a problem, after a bug's traceback, and return the exit code.

    `with_options` writes the marked parameters of a message as options.
    """
    # `main` prints a line about these.
    if isinstance(problem, (KeyboardInterrupt, typer.Abort)):
        return INTERRUPTED
    message = _message(problem, with_options)
    if message:
        complain("error", message)
        return BAD_INPUT
    text = "".join(traceback.format_exception(problem))
    plain_console(sys.stderr).print(visible(text), end="")
    complain("error", "this is a bug; please report it with the lines above.")
    return 1


def _message(problem: Any, with_options: Callable[[str], str]) -> str:
    """Return the message of a problem that a user can mend, or no text for a bug."""
    if isinstance(problem, InputError):
        return with_options(problem.marked)
    # Typer's exceptions; those of an option or argument know their command.
    if hasattr(problem, "format_message"):
        text = problem.format_message().rstrip(".")
        command = "neucmds"
        context = getattr(problem, "ctx", None)
        if context is not None:
            command = context.command_path
        return f"{text}. See: {command} --help"
    if isinstance(problem, OSError):
        return (
            f"{problem.filename or 'a file'}: {problem.strerror or problem}."
        )
    if isinstance(problem, MemoryError):
        return f"not enough memory for a matrix of this size ({problem})."
    return ""


app = typer.Typer(
    cls=Program,
    name="neucmds",
    help="Multidimensional scaling of non-Euclidean dissimilarities: real coordinates with a sign "
    "per coordinate.",
    epilog="Start with: neucmds demo",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.")
    ] = False,
) -> None:
    """Print the help if no command is given."""
    if version:
        typer.echo(f"neucmds {neucmds.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


for command in (embed, diagnose, compare, stress_curve, project, report, demo):
    app.command()(command)
app.command("test")(run_tests)
