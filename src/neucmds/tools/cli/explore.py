"""Commands that look at D: ``diagnose``, ``compare`` and ``stress-curve``."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from neucmds import explore
from neucmds.explore import COMPARED, Diagnosis
from neucmds.options import ALL_METHODS, CLOSED_FORMS
from neucmds.problem.components import MOST_CHOSEN, spaced_ks
from neucmds.tools.cli import options as opt
from neucmds.tools.cli.console import print_json, print_table, progress, say
from neucmds.tools.cli.inputs import (
    parse_value,
    read_problem,
    read_weights,
)
from neucmds.tools.cli.outputs import (
    Outputs,
    default_place,
    named_rows,
    tell,
)
from neucmds.tools.cli.tables import comparison_table, curve_table, facts_table
from neucmds.tools.plots import plot_stress_curve
from neucmds.tools.report.words import (
    diagnosis_facts,
    negative_share,
    outliers_text,
    paradox_text,
)

# Every file that ``neucmds stress-curve`` may write.
CURVE_FILES = ("curve.csv", *(f"curve.{kind}" for kind in opt.PICTURES))
LEGEND = (
    "* best of its column. STRESS: Σ(D̂ − D)², where D = d² are the squares of the dissimilarities; "
    "share: STRESS / ΣD². R² of D̂: 1 is perfect. Rel. error: mean of |d̂/d − 1|. Near: recall@10. "
    "Distortion: 1 is perfect. Neg. D̂: pairs with a negative fitted square. cailliez and "
    "lingoes are measured against the uncorrected d. Seconds leave out the spectrum"
)


def diagnose(
    file: opt.File,
    squared: opt.Squared = False,
    symmetrize: opt.Symmetrize = False,
    metric: opt.Metric = opt.DEFAULTS["metric"],
    seed: opt.Seed = 0,
    as_json: opt.Json = False,
) -> None:
    """Check whether the dissimilarities are Euclidean, and suggest k."""
    with progress(f"reading {file}") as callback:
        problem = read_problem(
            file,
            metric,
            squared=squared,
            symmetrize=symmetrize,
            callback=callback,
        )
        diagnosis = explore.diagnose(
            problem, random_state=seed, callback=callback
        )
    if as_json:
        print_json(
            {"command": "diagnose", "input": file, **diagnosis.as_dict()}
        )
        return
    title = f"{file}: {diagnosis.n:,} objects"
    print_table(facts_table(title, diagnosis_facts(diagnosis, squared)))
    if diagnosis.outliers.entries:
        say(
            f"{outliers_text(diagnosis, squared)}. One outlier can dominate the fit: "
            "correct it, or leave it blank and embed with --missing ignore."
        )
    say(_advice(diagnosis))


def _advice(diagnosis: Diagnosis) -> str:
    """Say what classical MDS loses, and which command comes next."""
    loss = (
        f"Classical MDS drops the negative eigenvalues, {negative_share(diagnosis)} of the "
        "spectrum; 'neuc', 'neuc+', 'exact' and 'refined' keep those that lower the STRESS."
    )
    if diagnosis.euclidean:
        loss = "d is Euclidean: classical MDS loses nothing."
    # Some k predicts held-out objects better than their mean.
    if diagnosis.scan is not None and diagnosis.held_out_r2 > 0:
        return (
            f"{loss} Next: neucmds embed FILE -k 2,0 --loss distance for a plot, or -k "
            f"{diagnosis.suggested_k} for prediction."
        )
    return f"{loss} Choose k by its STRESS. Next: neucmds stress-curve FILE"


def compare(
    file: opt.File,
    components: opt.Components = opt.N_COMPONENTS,
    methods: Annotated[
        str,
        Option(
            metavar="NAMES",
            help=f"Methods, separated by commas; by default all: {','.join(COMPARED)}.",
            show_default=False,
        ),
    ] = ",".join(COMPARED),
    weights: opt.Weights = None,
    squared: opt.Squared = False,
    symmetrize: opt.Symmetrize = False,
    seed: opt.Seed = 0,
    as_json: opt.Json = False,
) -> None:
    """Compare every method on FILE."""
    with progress(f"reading {file}") as callback:
        comparison = explore.compare(
            file,
            parse_value(components),
            methods.split(","),
            squared=squared,
            symmetrize=symmetrize,
            weights=read_weights(weights),
            random_state=seed,
            callback=callback,
        )
    if as_json:
        print_json(
            {"command": "compare", "input": file, **comparison.as_dict()}
        )
        return
    title = f"{file}: {comparison.n:,} objects, k = {comparison.requested}"
    print_table(comparison_table(title, comparison.methods))
    say(f"{LEGEND} ({comparison.spectrum_seconds:.2f} s).")
    for method, reason in comparison.left_out.items():
        say(f"Left out: {method}. {reason}")


def stress_curve(
    file: opt.File,
    k_max: Annotated[
        int | None,
        Option(
            "-k",
            "--k-max",
            help=f"Largest k; {MOST_CHOSEN} by default, or n − 1 if that is less.",
        ),
    ] = None,
    methods: Annotated[
        str,
        Option(
            metavar="NAMES",
            help=f"Some of {','.join(ALL_METHODS)}; refined takes longer.",
        ),
    ] = ",".join(CLOSED_FORMS),
    squared: opt.Squared = False,
    symmetrize: opt.Symmetrize = False,
    output: opt.Folder = None,
    as_json: opt.Json = False,
    force: opt.Force = False,
    plots: opt.PlotsAs = "png",
) -> None:
    """Plot STRESS against k for every closed form, or for the methods you name."""
    outputs = Outputs(output or default_place(file), CURVE_FILES, force=force)
    ks = None
    if k_max is not None:
        ks = spaced_ks(k_max)
    with progress(f"reading {file}") as callback:
        curves = explore.stress_curve(
            file,
            ks,
            methods.split(","),
            squared=squared,
            symmetrize=symmetrize,
            callback=callback,
        )
        columns = {
            method: curves.normalized(method) for method in curves.stress
        }
        outputs.add_csv("curve.csv", named_rows(columns, curves.ks, "k"))
        if plots != "none":
            outputs.add_plot(f"curve.{plots}", plot_stress_curve(curves))
        files = outputs.commit()
    document = {"command": "stress-curve", "input": file, **curves.as_dict()}
    tell(files, document, as_json, curve_table(curves), paradox_text(curves))
