"""The program, its commands, and its exit codes."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import neucmds
from neucmds.errors import InputError, rendered
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

# Parameters of the library whose option has another name.
_FLAGS = {
    "n_components": "-k",
    "n_landmarks": "--landmarks",
    "color": "--color-by",
    "overwrite": "--force",
}


class Program(TyperGroup):
    """A group of commands that ends with an exit code, and with one line if that is not zero."""

    def main(  # type: ignore[override]
        self,
        args: Sequence[str] | None = None,
        *,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Parse, run, and exit: 0 done, 2 bad input, 1 a bug, 130 interrupted."""
        survive_any_encoding()
        if args is None:
            args = sys.argv[1:]
        words = list(args)
        # The first word that names a command is the command that runs.
        command = next(
            (self.commands[word] for word in words if word in self.commands),
            None,
        )

        def with_options(message: str) -> str:
            return rendered(
                message,
                lambda name, value: self.option_text(name, value, command),
            )

        extra |= {
            "prog_name": "neucmds",
            "standalone_mode": False,
            "obj": words,
        }
        code: Any = 0
        with one_line_warnings(with_options):
            try:
                code = super().main(args=words, **extra) or 0
            except BaseException as problem:
                code = _exit_code_of(problem, with_options)
        if code == INTERRUPTED:
            complain(
                "error",
                "interrupted; results are written whole or not at all.",
            )
        if standalone_mode:
            sys.exit(code)
        return code

    def option_text(
        self, name: str, value: str | None, command: Any = None
    ) -> str:
        """Write a parameter of the library as an option of the command, or of one that has it."""
        if name == "metric_params":
            return "--metric NAME,PARAMETER=VALUE"
        if name in ("direction", "part"):
            name, value = "metric", f"shortest_path,{name}={value}"
        flag = _FLAGS.get(name, f"--{name.replace('_', '-')}")
        holders = [
            holder.name
            for holder in self.commands.values()
            if any(flag in parameter.opts for parameter in holder.params)
        ]
        if not holders:
            if value is not None:
                name = f"{name}={value}"
            return f"{name} in Python"
        if value == "False":
            flag = f"no {flag}"
        elif value is not None and value != "True":
            # (3, 4) is 3,4 here, and 'refined' is refined.
            bare = re.sub(r"[()\[\]'\" ]", "", value).rstrip(",")
            flag = f"{flag} {bare}"
        if command is None or command.name in holders:
            return flag
        return f"{flag} of neucmds {holders[0]}"


def _exit_code_of(
    problem: BaseException, with_options: Callable[[str], str]
) -> int:
    """Return the exit code of a problem, and print one line about it, after a bug's traceback."""
    if isinstance(problem, SystemExit):
        return int(problem.code or 0)
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
    """Return the message of a problem that a user can mend; for a bug it is empty."""
    if isinstance(problem, InputError):
        return with_options(problem.marked)
    # A problem of the arguments, from Typer.
    if hasattr(problem, "format_message"):
        text = problem.format_message().rstrip(".")
        command = "neucmds"
        if problem.ctx is not None:
            command = problem.ctx.command_path
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
