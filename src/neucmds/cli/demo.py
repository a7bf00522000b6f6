"""``neucmds demo``: every method on digits that ship with scikit-learn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from sklearn.datasets import load_digits

from neucmds import api
from neucmds.api import ALL_METHODS, DEFAULT_METHOD, REFINED_LOSSES, Comparison
from neucmds.cli.compare import LEGEND
from neucmds.cli.console import print_json, print_table, say, steps
from neucmds.cli.curve import CURVE_FILES, add_curve
from neucmds.cli.inputs import Annotations, Drawing
from neucmds.cli.options import Force, Json, Plots
from neucmds.cli.outputs import Outputs
from neucmds.cli.results import RESULT_FILES, Result, add_result, describe
from neucmds.cli.tables import comparison_table
from neucmds.datasets import hop_distances
from neucmds.diagnostics import spaced_ks
from neucmds.metrics import pair_errors
from neucmds.report.words import paradox, percent

K, NEIGHBOURS, CURVE_TO = 20, 5, 60
SHOWN = (*ALL_METHODS, *REFINED_LOSSES)
MATRIX, GROUPS, TABLE = "digits.npy", "digits.csv", "comparison.json"


def demo(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Folder for the results.")
    ] = Path("demo"),
    as_json: Json = False,
    force: Force = False,
) -> None:
    """Compare every method on 1,797 handwritten digits."""
    names = (*RESULT_FILES, *CURVE_FILES, MATRIX, GROUPS, TABLE)
    outputs = Outputs(output, names, force=force)
    with steps() as progress:
        progress.now("loading the digits that ship with scikit-learn")
        images = load_digits()
        hops = hop_distances(images.data, NEIGHBOURS, connect=True)
        digits = images.target
        objects = [f"image{i}:{digit}" for i, digit in enumerate(digits)]
        prepared = api.prepare(hops, K, labels=objects, keep_copy=True)
        progress.now("comparing", len(SHOWN) + 1)
        found = api.compare(prepared, K, SHOWN, callback=progress.show)
        ks = spaced_ks(CURVE_TO, points=10)
        progress.now("embedding", len(ks) + 1)
        curves = api.curve(prepared, ks, callback=progress.show)
        progress.now("writing the result")
        chosen = found[DEFAULT_METHOD]
        result = Result(
            MATRIX,
            chosen.embedding,
            chosen.embedding,
            prepared,
            chosen.quality,
            pair_errors(**prepared.beside(chosen.embedding)),
            curves.eigenvalues,
        )
        groups = [str(digit) for digit in digits]
        known = Annotations(groups, "digit")
        add_result(outputs, result, describe(result), Plots.png, known, Drawing())
        add_curve(outputs, curves, Plots.png)
        outputs.files[MATRIX] = lambda file: np.save(file, hops.astype(np.uint8))
        outputs.add_csv(GROUPS, ("image", "digit"), enumerate(groups))
        best_k = curves.turning_point.k
        document = {"command": "demo", **found.as_dict(), "classical_best_k": best_k}
        outputs.add_json(TABLE, document)
        files = outputs.commit()
    if as_json:
        print_json(document | {"files": [str(path) for path in files]})
        return
    say(
        f"{found.n:,} handwritten digits of scikit-learn. Dissimilarity: shortest-path distances "
        f"(1 to {int(hops.max())} hops) on the graph of {NEIGHBOURS} nearest neighbours, its parts "
        "joined by their closest images.\n"
    )
    print_table(comparison_table(f"Every method with k = {K} coordinates per image", found.methods))
    say(f"{LEGEND} ({found.spectrum_seconds:.2f} s).\n")
    say(_lesson(found) + " " + paradox(curves) + "\n")
    say(
        f"Written to {output}/: see coordinates.png, spectrum.png, curve.png and shepard.png. Then "
        f"try:\n  neucmds inspect {output}/{MATRIX}\n"
        f"  neucmds embed {output}/{MATRIX} -k 20 --metadata {output}/{GROUPS} --categories digit "
        "--color-by digit\n  neucmds compare YOUR.csv -k 20     (a square table)"
    )


def _lesson(found: Comparison) -> str:
    classical, chosen, best = found["classical"], found[DEFAULT_METHOD], found.best
    times = classical.quality.stress / chosen.quality.stress
    text = (
        "Hop counts are not Euclidean: B has large negative eigenvalues. Classical MDS drops them "
        f"and has a STRESS of {percent(classical.quality.normalized_stress)} of ‖D‖². "
        f"{chosen.method} uses {chosen.embedding.signature[1]} of its {K} coordinates for them, "
        "which subtract from the dissimilarity instead of adding to it, and has "
        f"{percent(chosen.quality.normalized_stress)}, {times:.0f} times less."
    )
    if best.method != chosen.method:
        text += f" {best.method} has {percent(best.quality.normalized_stress)}."
    nearest = max(found.methods, key=lambda one: one.quality.neighbors_kept)
    return text + (
        f" Far pairs dominate STRESS; for neighbours use {nearest.method}, with a recall@10 of "
        f"{percent(nearest.quality.neighbors_kept)} (classical MDS: "
        f"{percent(classical.quality.neighbors_kept)})."
    )
