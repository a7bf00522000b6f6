"""The program, its commands, and its exit codes."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import neucmds
from neucmds.errors import InputError, option, rendered
from neucmds.tools.cli import INTERRUPTED, INTERRUPTION
from neucmds.tools.cli.compare import compare
from neucmds.tools.cli.console import (
    PlainConsole,
    one_line_warnings,
    print_error,
    survive_any_encoding,
)
from neucmds.tools.cli.demo import demo
from neucmds.tools.cli.diagnose import diagnose
from neucmds.tools.cli.embed import embed
from neucmds.tools.cli.project import project
from neucmds.tools.cli.report import report
from neucmds.tools.cli.stress_curve import stress_curve

DONE, BUG, BAD_INPUT, READER_GONE = 0, 1, 2, 141


# Parameters whose option has another name.
_FLAGS = {"n_components": "-k", "n_landmarks": "--landmarks", "color": "--color-by"}


class Program(TyperGroup):
    """A group of commands that ends with an exit code, and with one line if that is not zero."""

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **extra: Any
    ) -> Any:
        """Parse, run, and exit: 0 done, 2 bad input, 1 a bug, 130 interrupted."""
        survive_any_encoding()
        words = list(sys.argv[1:] if args is None else args)
        debug = "--debug" in words or os.environ.get("NEUCMDS_DEBUG", "0") not in ("", "0")
        words = [word for word in words if word != "--debug"]
        named = next((self.commands[word] for word in words if word in self.commands), None)

        def spelled(message: str) -> str:
            return rendered(message, lambda name, value: self.spell(name, value, named))

        with one_line_warnings(spelled):
            try:
                extra |= {"prog_name": "neucmds", "standalone_mode": False, "obj": words}
                code = super().main(args=words, **extra)
            except BaseException as problem:
                code = _report(problem, spelled, debug=debug)
        if code == INTERRUPTED:
            print_error(INTERRUPTION)
        code = code if isinstance(code, int) else DONE
        if standalone_mode:
            sys.exit(code)
        return code

    def spell(self, name: str, value: str | None, command: Any = None) -> str:
        """Write a parameter of the library as an option of this command, or of one that has it."""
        if name == "metric_params":
            return "--metric NAME,PARAMETER=VALUE"
        if name == "direction":
            name, value = "metric", f"shortest_path,direction={value}"
        flag = _FLAGS.get(name, f"--{name.replace('_', '-')}")
        holders = [c.name for c in self.commands.values() if any(flag in p.opts for p in c.params)]
        if not holders:
            return f"{rendered(option(name)) if value is None else f'{name}={value}'} in Python"
        if value == "False":
            flag = f"no {flag}"
        elif value is not None and value != "True":
            flag = f"{flag} {_bare(value)}"
        if command is None or command.name in holders:
            return flag
        return f"{flag} of neucmds {holders[0]}"


def _bare(value: str) -> str:
    """Write (3, 4) as 3,4 and 'refined' as refined."""
    return re.sub("[()'\"]", "", value).replace(", ", ",")


def _report(problem: BaseException, spelled: Callable[[str], str], *, debug: bool) -> int:
    """Print one line about a problem, and return its exit code."""
    if isinstance(problem.__context__, BrokenPipeError):
        return READER_GONE
    if isinstance(problem, SystemExit):
        return problem.code if isinstance(problem.code, int) else BUG
    if isinstance(problem, (KeyboardInterrupt, typer.Abort)):
        return INTERRUPTED
    usage = getattr(problem, "format_message", None)
    if usage is not None:
        context = getattr(problem, "ctx", None)
        command = context.command_path if context is not None else "neucmds"
        text = usage()
        end = "" if text.endswith((".", "?", "!")) else "."
        print_error(f"{text}{end} See: {command} --help")
        return BAD_INPUT
    if isinstance(problem, InputError):
        print_error(spelled(problem.marked))
        return BAD_INPUT
    if isinstance(problem, OSError):
        place = f"{problem.filename}: " if problem.filename else ""
        print_error(f"{place}{problem.strerror or problem}.")
        return BAD_INPUT
    if isinstance(problem, MemoryError):
        print_error(f"not enough memory for a matrix of this size ({problem}).")
        return BAD_INPUT
    if debug:
        text = "".join(traceback.format_exception(problem))
        PlainConsole(sys.stderr).print(text, end="")
    print_error(
        f"this is a bug ({type(problem).__name__}: {problem}); please report it with the output "
        "of --debug."
    )
    return BUG


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
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Print the traceback of a bug; also NEUCMDS_DEBUG=1.")
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
