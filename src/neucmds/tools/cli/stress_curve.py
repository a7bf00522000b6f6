"""``neucmds stress-curve``: STRESS against k for several methods."""

from __future__ import annotations

from typing import Annotated

import typer

from neucmds import explore
from neucmds.explore.comparison import REFINED_LOSSES
from neucmds.options import ALL_METHODS, CLOSED_FORMS
from neucmds.problem.components import MOST_CHOSEN, spaced_ks
from neucmds.tools.cli import options as opt
from neucmds.tools.cli.console import print_json, print_table, progress, say
from neucmds.tools.cli.inputs import parse_value
from neucmds.tools.cli.outputs import Outputs, default_place, named_rows
from neucmds.tools.cli.tables import curve_table
from neucmds.tools.plots import plot_stress_curve
from neucmds.tools.report.words import paradox

CURVE_FILES = ("curve.csv", *(f"curve.{kind}" for kind in opt.PICTURES))


def stress_curve(
    file: opt.File,
    k_max: Annotated[
        int | None,
        typer.Option(
            "-k",
            "--k-max",
            help=f"Largest k; {MOST_CHOSEN} by default, or n − 1 if that is less.",
        ),
    ] = None,
    methods: Annotated[
        str,
        typer.Option(
            "--methods",
            metavar="NAMES",
            help=f"Some of {','.join((*ALL_METHODS, *REFINED_LOSSES))}; refined ones take longer.",
        ),
    ] = ",".join(CLOSED_FORMS),
    squared: opt.Squared = False,
    symmetrize: opt.Symmetrize = False,
    curvature: opt.Curvature = "0",
    output: opt.Folder = None,
    as_json: opt.Json = False,
    force: opt.Force = False,
    plots: opt.PlotsAs = "png",
) -> None:
    """Plot STRESS against k for every closed form, or for the methods you name."""
    folder = output or default_place(file)
    outputs = Outputs(folder, CURVE_FILES, force=force)
    ks = None
    if k_max is not None:
        ks = spaced_ks(k_max)
    with progress() as callback:
        callback(0, None, f"reading {file}")
        curves = explore.stress_curve(
            file,
            ks,
            methods.split(","),
            squared=squared,
            symmetrize=symmetrize,
            curvature=parse_value(curvature),
            callback=callback,
        )
        columns = {method: curves.normalized(method) for method in curves.stress}
        outputs.add_csv("curve.csv", named_rows(columns, curves.ks, "k"))
        if plots != "none":
            outputs.add_plot(f"curve.{plots}", plot_stress_curve(curves))
        files = outputs.commit()
    if as_json:
        document = {"command": "stress-curve", "input": file, **curves.as_dict()}
        print_json(document | {"files": [str(path) for path in files]})
        return
    print_table(curve_table(curves))
    say(paradox(curves))
    say(f"Written to {folder}/: {', '.join(path.name for path in files)}")
