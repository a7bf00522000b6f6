"""``neucmds report``: one HTML page."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from neucmds import api
from neucmds._input import check_column, match_rows
from neucmds.api import DEFAULT_METHOD
from neucmds.cli.console import say, steps
from neucmds.cli.inputs import Drawing, parse_components, parse_curvature, prepare_file
from neucmds.cli.options import (
    Categories,
    ColorBy,
    Curvature,
    Direction,
    File,
    Force,
    Loss,
    Metadata,
    MetadataMissing,
    Method,
    Missing,
    MissingPairs,
    Number,
    OfGraph,
    Seed,
    Squared,
    Symmetrize,
    Weights,
    WithoutRow,
)
from neucmds.cli.outputs import check_file, write_file
from neucmds.errors import InputError
from neucmds.report import report_page


def report(
    context: typer.Context,
    file: File,
    components: Number = None,
    method: Method = DEFAULT_METHOD,
    loss: Loss = "squared",
    curvature: Curvature = "0",
    missing: MissingPairs = Missing.error,
    weights: Weights = None,
    squared: Squared = False,
    symmetrize: Symmetrize = False,
    metric: OfGraph = None,
    direction: Direction = None,
    metadata: Metadata = None,
    metadata_missing: MetadataMissing = WithoutRow.error,
    color_by: ColorBy = None,
    categories: Categories = None,
    stability: Annotated[
        int,
        typer.Option(
            "--stability",
            metavar="N",
            min=0,
            help="Also embed N bootstrap samples of the objects and N permutations of D: shows how "
            "stable the coordinates are.",
        ),
    ] = 0,
    seed: Seed = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="PAGE",
            help="The page; by default the name of FILE with -report.html.",
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Embed FILE, and write one HTML page about the result."""
    page = _default_page(file) if output is None else output
    check_file(page, force=force)
    drawing = Drawing(metadata, metadata_missing, color_by, categories)
    drawing.check()
    if stability and weights is not None:
        raise InputError("--stability and --weights do not go together; leave one of them out.")
    wanted = parse_components(components)
    with steps() as progress:
        progress.now(f"reading {file}")
        table = drawing.read()
        prepared = prepare_file(
            file,
            wanted,
            weights,
            drawing.keeper(table),
            metric=metric,
            direction=direction,
            squared=squared,
            symmetrize=symmetrize,
            missing=missing.value,
            keep_copy=True,
        )
        if table is not None:
            how = metadata_missing.value
            table = match_rows(table, prepared.labels, prepared.n, missing=how)
            if color_by is not None:
                check_column(table, color_by)
        options = api.Options(
            wanted,
            method,
            loss,
            curvature=parse_curvature(curvature),
            random_state=seed,
            callback=progress.show,
        )
        found = api.embed(prepared, options)
        content = report_page(
            found.embedding,
            prepared,
            metadata=table,
            color_by=color_by,
            title=Path(file).name if file != "-" else "standard input",
            replicates=stability,
            random_state=seed,
            command=_command(context),
            callback=progress.show,
        )
        write_file(page, lambda place: place.write(content), force=force)
    api.warn_of_surprises(found.embedding)
    say(f"Written to {page} ({len(content) / 1e6:.1f} MB): open it in a browser.")


def _default_page(source: str) -> Path:
    return Path(f"{'stdin' if source == '-' else Path(source).stem}-report.html")


def _command(context: typer.Context) -> str:
    """Write the command with every option that differs from its default, but the output."""
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
