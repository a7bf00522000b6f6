"""``neucmds report``: one HTML page."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from neucmds.errors import InputError
from neucmds.fit import embed
from neucmds.fitting import warn_of_surprises
from neucmds.options import DEFAULT_METHOD, Options
from neucmds.tools.cli import options as opt
from neucmds.tools.cli.console import say, steps
from neucmds.tools.cli.inputs import GIVEN, Drawing, parse_components, parse_curvature, read_source
from neucmds.tools.cli.outputs import check_file, default_place
from neucmds.tools.report import write_report


def report(
    context: typer.Context,
    file: opt.File,
    components: opt.Number = opt.N_COMPONENTS,
    method: opt.Method = DEFAULT_METHOD,
    loss: opt.Loss = "squared",
    floor: opt.Floor = None,
    curvature: opt.Curvature = "0",
    n_init: opt.Starts = None,
    missing: opt.MissingPairs = "error",
    weights: opt.Weights = None,
    squared: opt.Squared = False,
    symmetrize: opt.Symmetrize = False,
    metric: opt.Metric = GIVEN,
    metadata: opt.Metadata = None,
    metadata_missing: opt.MetadataMissing = "error",
    color_by: opt.ColorBy = None,
    categories: opt.Categories = None,
    bootstrap: Annotated[
        int,
        typer.Option(
            "--bootstrap",
            metavar="N",
            min=0,
            help="Also embed N bootstrap samples of the objects and N permutations of D: shows how "
            "stable the coordinates are.",
        ),
    ] = 0,
    seed: opt.Seed = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="PAGE",
            help="The page; by default the name of FILE with -report.html.",
        ),
    ] = None,
    force: opt.Force = False,
) -> None:
    """Embed FILE, and write one HTML page about the result."""
    page = default_place(file, "report.html") if output is None else output
    check_file(page, force=force)
    drawing = Drawing(metadata, metadata_missing, color_by, categories)
    if bootstrap and weights is not None:
        raise InputError("--bootstrap and --weights do not go together; leave one of them out.")
    wanted = parse_components(components)
    with steps() as progress:
        progress.now(f"reading {file}")
        drawing = drawing.read()
        source = read_source(file, metric, weights, drawing.keeper).prepared(
            wanted,
            squared=squared,
            symmetrize=symmetrize,
            missing=missing,
            keep_copy=True,
        )
        drawing = drawing.matched(source)
        options = Options(
            wanted,
            method,
            loss,
            floor=floor,
            curvature=parse_curvature(curvature),
            random_state=seed,
            n_init=n_init,
            callback=progress.show,
        )
        found = embed(source.data, options)
        write_report(
            page,
            found.embedding,
            source.data,
            metadata=drawing.table,
            color_by=color_by,
            title=Path(file).name if file != "-" else "standard input",
            replicates=bootstrap,
            random_state=seed,
            command=shlex.join(["neucmds", *context.obj]),
            callback=progress.show,
            overwrite=force,
        )
    warn_of_surprises(found.embedding)
    say(f"Written to {page} ({page.stat().st_size / 1e6:.1f} MB): open it in a browser.")
