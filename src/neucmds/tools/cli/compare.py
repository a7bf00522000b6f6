"""``neucmds compare``: every method on the same matrix, in one table."""

from __future__ import annotations

from typing import Annotated

import typer

from neucmds import explore
from neucmds.explore.comparison import COMPARED
from neucmds.tools.cli import options as opt
from neucmds.tools.cli.console import print_json, print_table, progress, say
from neucmds.tools.cli.inputs import parse_value, read_weights
from neucmds.tools.cli.tables import comparison_table

LEGEND = (
    "* best of its column. STRESS: S-STRESS, Σ(D̂ − D)² on squared dissimilarities; share: of ΣD². "
    "R²: 1 is perfect, 0 a constant. Rel. error: mean of |d̂/d − 1|, d = √D. Near: recall@10. "
    "Distortion: 1 is perfect. Neg. D̂: pairs with a negative fitted square. D is as given, "
    "also for cailliez and lingoes. Seconds exclude the spectrum, which the first six methods share"
)


def compare(
    file: opt.File,
    components: opt.Number = opt.N_COMPONENTS,
    methods: Annotated[
        str,
        typer.Option(
            "--methods",
            metavar="NAMES",
            help=f"Methods, separated by commas; by default all: {','.join(COMPARED)}.",
            show_default=False,
        ),
    ] = ",".join(COMPARED),
    weights: opt.Weights = None,
    squared: opt.Squared = False,
    symmetrize: opt.Symmetrize = False,
    curvature: opt.Curvature = "0",
    seed: opt.Seed = 0,
    as_json: opt.Json = False,
) -> None:
    """Compare every method on FILE."""
    wanted = parse_value(components)
    with progress() as callback:
        callback(0, None, f"reading {file}")
        comparison = explore.compare(
            file,
            wanted,
            methods.split(","),
            squared=squared,
            symmetrize=symmetrize,
            weights=read_weights(weights),
            curvature=parse_value(curvature),
            random_state=seed,
            callback=callback,
        )
    if as_json:
        print_json({"command": "compare", "input": file, **comparison.as_dict()})
        return
    title = f"{file}: {comparison.n:,} objects, k = {comparison.requested}"
    print_table(comparison_table(title, comparison.methods))
    say(f"{LEGEND} ({comparison.spectrum_seconds:.2f} s).")
    for method, reason in comparison.left_out.items():
        say(f"Left out: {method}. {reason}")
