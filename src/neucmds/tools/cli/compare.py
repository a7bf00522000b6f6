"""``neucmds compare``: every method on the same matrix, in one table."""

from __future__ import annotations

from typing import Annotated

import typer

from neucmds import explore
from neucmds.errors import InputError
from neucmds.explore.comparison import COMPARED
from neucmds.tools.cli import options as opt
from neucmds.tools.cli.console import print_json, print_table, say, steps
from neucmds.tools.cli.inputs import parse_components, parse_curvature, read_source
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
        str | None,
        typer.Option(
            "--methods",
            metavar="NAMES",
            help=f"Methods, separated by commas; by default all: {','.join(COMPARED)}.",
        ),
    ] = None,
    weights: opt.Weights = None,
    squared: opt.Squared = False,
    symmetrize: opt.Symmetrize = False,
    curvature: opt.Curvature = "0",
    seed: opt.Seed = 0,
    as_json: opt.Json = False,
) -> None:
    """Compare every method on FILE."""
    wanted = parse_components(components)
    if isinstance(wanted, tuple):
        raise InputError("-k of compare must be a number: classical has no negative coordinates.")
    names = COMPARED if methods is None else tuple(methods.split(","))
    with steps() as progress:
        progress.now(f"reading {file}", len(names) + 1)
        settings = {"squared": squared, "symmetrize": symmetrize, "callback": progress.show}
        source = read_source(file, weights=weights)
        prepared = source.prepared(wanted, keep_copy="refined" in names, **settings).data
        found = explore.compare(
            prepared,
            wanted,
            names,
            curvature=parse_curvature(curvature),
            random_state=seed,
            callback=progress.show,
        )
    if as_json:
        print_json({"command": "compare", "input": file, **found.as_dict()})
        return
    title = f"{file}: {found.n:,} objects, k = {found.requested}"
    print_table(comparison_table(title, found.methods))
    say(f"{LEGEND} ({found.spectrum_seconds:.2f} s).")
    for method, reason in found.left_out.items():
        say(f"Left out: {method}. {reason}")
