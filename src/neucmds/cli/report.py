"""``neucmds report``: one HTML page to look at."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from neucmds import api
from neucmds._input import check_column, match_rows, read_metadata
from neucmds.api import ALL_METHODS, DEFAULT_METHOD
from neucmds.cli.console import say, steps
from neucmds.cli.options import (
    File,
    Force,
    Missing,
    Number,
    Seed,
    Squared,
    Symmetrize,
    parse_components,
)
from neucmds.cli.outputs import check_file, write_file
from neucmds.errors import InputError
from neucmds.report import report_page


def report(
    context: typer.Context,
    file: File,
    components: Number = None,
    method: Annotated[
        str, typer.Option("--method", metavar="NAME", help=f"One of {', '.join(ALL_METHODS)}.")
    ] = DEFAULT_METHOD,
    loss: Annotated[
        str,
        typer.Option(
            "--loss",
            metavar="NAME",
            help="What --method refined minimises: squared, distance or relative.",
        ),
    ] = "squared",
    missing: Annotated[
        Missing,
        typer.Option("--missing", help="What to do about pairs that are not known (NA, blank)."),
    ] = Missing.error,
    squared: Squared = False,
    symmetrize: Symmetrize = False,
    metadata: Annotated[
        Path | None,
        typer.Option(
            "--metadata",
            metavar="FILE",
            help="A table of the objects with a line of column names, matched by name; every "
            "column can colour the points.",
            show_default=False,
        ),
    ] = None,
    color_by: Annotated[
        str | None,
        typer.Option(
            "--color-by",
            metavar="COLUMN",
            help="The column of --metadata that colours the points at first.",
            show_default=False,
        ),
    ] = None,
    name_column: Annotated[
        str | None,
        typer.Option(
            "--name-column",
            metavar="COLUMN",
            help="The column that names the objects; found by itself where names agree.",
            show_default=False,
        ),
    ] = None,
    categories: Annotated[
        str | None,
        typer.Option(
            "--categories",
            metavar="COLUMNS",
            help="Columns of --metadata, with commas between, whose numbers are categories.",
            show_default=False,
        ),
    ] = None,
    by_order: Annotated[
        bool,
        typer.Option("--by-order", help="Rows of --metadata are in the order of the objects."),
    ] = False,
    seed: Seed = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="PAGE",
            help="The page; FILE's name with -report.html by default.",
            show_default=False,
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Write one HTML page to look at."""
    page = _default_page(file) if output is None else output
    check_file(page, force=force)
    for flag, given in (
        ("--color-by", color_by),
        ("--name-column", name_column),
        ("--categories", categories),
        ("--by-order", by_order),
    ):
        if given and metadata is None:
            raise InputError(f"{flag} needs a table of the objects; pass --metadata FILE.")
    wanted = parse_components(components)
    with steps() as progress:
        progress.now(f"reading {file}")
        prepared = api.prepare(
            file,
            wanted,
            squared=squared,
            symmetrize=symmetrize,
            missing=missing.value,
            keep_copy=True,
        )
        table = None
        if metadata is not None:
            named = tuple(categories.split(",")) if categories else ()
            table = read_metadata(metadata, name_column, categories=named)
            table = match_rows(table, prepared.labels, prepared.n, by_order=by_order)
            if color_by is not None:
                check_column(table, color_by)
        found = api.fit(
            prepared,
            api.Options(wanted, method, loss, random_state=seed, callback=progress.hear),
        )
        content = report_page(
            found.embedding,
            prepared,
            metadata=table,
            color_by=color_by,
            title=Path(file).name if file != "-" else "standard input",
            random_state=seed,
            command=_command(context),
            callback=progress.hear,
        )
        write_file(page, lambda place: place.write(content), force=force)
    api.warn_of_surprises(found.embedding)
    say(f"Written to {page} ({len(content) / 1e6:.1f} MB): open it in any browser.")


def _default_page(source: str) -> Path:
    return Path(f"{'stdin' if source == '-' else Path(source).stem}-report.html")


def _command(context: typer.Context) -> str:
    """Write the command with all that differs from its defaults; where the page went is no part."""
    words = ["neucmds", "report"]
    for param in context.command.params:
        name = str(param.name)
        value: Any = context.params.get(name)
        if name in ("output", "force") or value in (None, False) or value == param.default:
            continue
        value = getattr(value, "value", value)
        if param.param_type_name == "argument":
            words.append(str(value))
        else:
            words += [param.opts[0]] if value is True else [param.opts[0], str(value)]
    return shlex.join(words)
