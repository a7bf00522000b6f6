"""``neucmds stress-curve``: STRESS against k for several methods."""

from __future__ import annotations

from typing import Annotated

import typer

from neucmds import explore
from neucmds.errors import InputError
from neucmds.explore import StressCurves
from neucmds.explore.comparison import REFINED_LOSSES
from neucmds.options import ALL_METHODS, CLOSED_FORMS
from neucmds.prepared import prepare
from neucmds.problem.components import MOST_CHOSEN, spaced_ks
from neucmds.tools.cli import options as opt
from neucmds.tools.cli.console import print_json, print_table, say, steps
from neucmds.tools.cli.inputs import parse_curvature
from neucmds.tools.cli.outputs import Outputs, default_place, object_table
from neucmds.tools.cli.tables import curve_table
from neucmds.tools.report.words import paradox

CURVE_FILES = ("curve.csv", *(f"curve.{kind}" for kind in opt.PICTURES))
ROWS_SHOWN = 14


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
    folder = default_place(file) if output is None else output
    outputs = Outputs(folder, CURVE_FILES, force=force)
    with steps() as progress:
        progress.now(f"reading {file}")
        prepared = prepare(file, squared=squared, symmetrize=symmetrize)
        ks = spaced_ks(_largest_k(k_max, prepared.n))
        progress.now("embedding", len(ks) + 1)
        curves = explore.stress_curve(
            prepared,
            ks,
            methods.split(","),
            curvature=parse_curvature(curvature),
            callback=progress.show,
        )
        add_curve(outputs, curves, plots)
        files = outputs.commit()
    if as_json:
        document = {"command": "stress-curve", "input": file, **curves.as_dict()}
        print_json(document | {"files": [str(path) for path in files]})
        return
    ks = curves.ks
    shown = ks if len(ks) <= ROWS_SHOWN else sorted({*ks[:5], *ks[::-4]})
    print_table(curve_table(curves, shown))
    say(paradox(curves))
    say(f"Written to {folder}/: {', '.join(path.name for path in files)}")


def add_curve(outputs: Outputs, curves: StressCurves, plots: opt.Plots) -> None:
    """Plan the files of a curve: STRESS as a share of ‖D‖², and the plot."""
    columns = {method: curves.normalized(method) for method in curves.stress}
    outputs.add_csv("curve.csv", object_table(columns, curves.ks, "k"))
    if plots != "none":
        from neucmds.tools.plots import plot_stress_curve

        outputs.add_plot(f"curve.{plots}", plot_stress_curve(curves))


def _largest_k(k_max: int | None, n: int) -> int:
    if k_max is None:
        return min(MOST_CHOSEN, n - 1)
    if not 1 <= k_max < n:
        raise InputError(f"--k-max {k_max} must be between 1 and n − 1 = {n - 1}.")
    return k_max
