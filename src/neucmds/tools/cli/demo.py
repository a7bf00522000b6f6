"""``neucmds demo``: the commands on digits that ship with scikit-learn."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer
from sklearn.datasets import load_digits

from neucmds.datasets import hop_distances
from neucmds.explore.comparison import REFINED_LOSSES
from neucmds.options import ALL_METHODS
from neucmds.tools.cli.console import progress, say
from neucmds.tools.cli.explore import CURVE_FILES
from neucmds.tools.cli.options import Force
from neucmds.tools.cli.outputs import Outputs
from neucmds.tools.cli.results import RESULT_FILES

NEIGHBOURS = 5
# Run one after the other, with the paths of the demo's files.
COMMANDS = (
    f"compare {{matrix}} -k 20 --methods {','.join((*ALL_METHODS, *REFINED_LOSSES))}",
    "stress-curve {matrix} -k 60 -o {output}",
    "embed {matrix} -k 20 --metadata {classes} --categories digit --color-by digit -o {output}",
)


def demo(
    context: typer.Context,
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="DIR", help="Folder for the results."
        ),
    ] = Path("demo"),
    force: Force = False,
) -> None:
    """Run compare, stress-curve and embed on 1,797 handwritten digits."""
    matrix = output / "digits.npz"
    classes = output / "digits.csv"
    files = (*RESULT_FILES, *CURVE_FILES, matrix.name, classes.name)
    outputs = Outputs(output, files, force=force)
    with progress("loading the digits that ship with scikit-learn"):
        images = load_digits()
        hops = hop_distances(images.data, NEIGHBOURS, connect=True)
        # One byte per number.
        counts = hops.astype(np.uint8)
        outputs.files[matrix.name] = partial(
            np.savez, D=counts, names=np.arange(len(hops))
        )
        digits = pd.DataFrame({"digit": images.target})
        outputs.add_csv(classes.name, digits.reset_index(names="image"))
        outputs.commit()
    say(
        f"{len(hops):,} handwritten digits of scikit-learn. Dissimilarity: shortest-path distances "
        f"(1 to {int(hops.max())} hops) on the graph of {NEIGHBOURS} nearest neighbours, its parts "
        "joined by their closest images. They are not Euclidean: B has large negative eigenvalues. "
        "Classical MDS drops them; neuc, neuc+, exact and refined use some coordinates for them, "
        "which subtract from the dissimilarity."
    )
    program = context.find_root().command
    for command in COMMANDS:
        words = command.format(matrix=matrix, classes=classes, output=output)
        say(f"\nneucmds {words}")
        # Failures are printed there.
        code = program.main(shlex.split(words), standalone_mode=False)
        if code:
            raise typer.Exit(code)
    say(
        "\nFar pairs dominate STRESS; for near neighbours use --loss relative. Next: neucmds "
        f"diagnose {matrix}, neucmds compare YOUR.csv -k 20 (a square table)."
    )
