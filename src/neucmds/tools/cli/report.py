"""``neucmds report``: one HTML page."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from neucmds.errors import InputError
from neucmds.fit import neuc_mds
from neucmds.tools.cli import options as opt
from neucmds.tools.cli.console import progress, say
from neucmds.tools.cli.inputs import (
    parse_value,
    read_objects,
    read_problem,
    read_weights,
)
from neucmds.tools.cli.outputs import default_place
from neucmds.tools.files import check_new
from neucmds.tools.report import write_report


def report(
    context: typer.Context,
    file: opt.File,
    components: opt.Components = opt.N_COMPONENTS,
    method: opt.Method = opt.DEFAULTS["method"],
    loss: opt.Loss = opt.DEFAULTS["loss"],
    ties: opt.Ties = opt.DEFAULTS["ties"],
    curvature: opt.Curvature = "0",
    heights: opt.Heights = "no",
    missing: opt.MissingPairs = "error",
    weights: opt.Weights = None,
    squared: opt.Squared = False,
    symmetrize: opt.Symmetrize = False,
    directed: opt.Directed = False,
    metric: opt.Metric = opt.DEFAULTS["metric"],
    metadata: opt.Metadata = None,
    metadata_missing: opt.MetadataMissing = "error",
    color_by: opt.ColorBy = None,
    categories: opt.Categories = None,
    bootstrap: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="Also embed N bootstrap samples of the objects and N permutations of d: shows how "
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
    page = output or default_place(file, "report.html")
    check_new(page, overwrite=force)
    table = read_objects(metadata, categories)
    n_components = parse_value(components)
    with progress(f"reading {file}") as callback:
        if directed and (weights is not None or symmetrize):
            raise InputError(
                "--directed goes without --weights and --symmetrize; leave one out."
            )
        problem = read_problem(
            file,
            metric,
            n_components,
            directed,
            squared=squared,
            symmetrize=symmetrize,
            weights=read_weights(weights),
            missing=missing,
            callback=callback,
        )
        embedding = neuc_mds(
            problem,
            n_components,
            method,  # type: ignore[arg-type]
            loss=loss,  # type: ignore[arg-type]
            ties=ties,  # type: ignore[arg-type]
            directed=directed,
            curvature=parse_value(curvature),
            heights=opt.HEIGHTS[heights],
            random_state=seed,
            callback=callback,
        )
        write_report(
            page,
            embedding,
            problem,
            metadata=table,
            metadata_missing=metadata_missing,
            color_by=color_by,
            title=Path(file).name,
            replicates=bootstrap,
            random_state=seed,
            # The words of the command line: see `Program.main`.
            command=shlex.join(["neucmds", *context.obj]),
            callback=callback,
            overwrite=force,
        )
    say(
        f"Written to {page} ({page.stat().st_size / 1e6:.1f} MB): open it in a browser."
    )
