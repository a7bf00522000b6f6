"""``neucmds demo``: the commands on digits that ship with scikit-learn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer
from sklearn.datasets import load_digits

from neucmds.datasets import hop_distances
from neucmds.explore.comparison import REFINED_LOSSES
from neucmds.options import ALL_METHODS
from neucmds.tools.cli.compare import compare
from neucmds.tools.cli.console import say, steps
from neucmds.tools.cli.embed import embed
from neucmds.tools.cli.options import Force
from neucmds.tools.cli.outputs import Outputs
from neucmds.tools.cli.results import RESULT_FILES
from neucmds.tools.cli.stress_curve import CURVE_FILES, stress_curve

K, NEIGHBOURS, CURVE_TO = "20", 5, 60
METHODS = ",".join((*ALL_METHODS, *REFINED_LOSSES))


def demo(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Folder for the results.")
    ] = Path("demo"),
    force: Force = False,
) -> None:
    """Run compare, stress-curve and embed on 1,797 handwritten digits."""
    matrix, groups = output / "digits.npz", output / "digits.csv"
    files = (*RESULT_FILES, *CURVE_FILES, matrix.name, groups.name)
    outputs = Outputs(output, files, force=force)
    with steps() as progress:
        progress.now("loading the digits that ship with scikit-learn")
        images = load_digits()
        hops = hop_distances(images.data, NEIGHBOURS, connect=True)
        counts, names = hops.astype(np.uint8), np.arange(len(hops))
        outputs.files[matrix.name] = lambda file: np.savez(file, D=counts, names=names)
        digits = pd.DataFrame({"digit": images.target})
        outputs.add_csv(groups.name, digits.reset_index(names="image"))
        outputs.commit()
    say(
        f"{len(hops):,} handwritten digits of scikit-learn. Dissimilarity: shortest-path distances "
        f"(1 to {int(hops.max())} hops) on the graph of {NEIGHBOURS} nearest neighbours, its parts "
        "joined by their closest images. They are not Euclidean: B has large negative eigenvalues. "
        "Classical MDS drops them; neuc, neuc+, exact and refined use some coordinates for them, "
        "which subtract from the dissimilarity.\n"
    )
    file, coloured = str(matrix), f"--metadata {groups} --categories digit --color-by digit"
    say(f"neucmds compare {file} -k {K} --methods {METHODS}")
    compare(file, K, METHODS)
    say(f"\nneucmds stress-curve {file} -k {CURVE_TO} -o {output}")
    stress_curve(file, CURVE_TO, output=output, force=True)
    say(f"\nneucmds embed {file} -k {K} {coloured} -o {output}")
    embed(file, K, metadata=groups, categories="digit", color_by="digit", output=output, force=True)
    say(
        f"\nFar pairs dominate STRESS; for near neighbours use --loss relative. Next: neucmds "
        f"diagnose {file}, neucmds compare YOUR.csv -k {K} (a square table)."
    )
