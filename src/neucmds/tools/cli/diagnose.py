"""``neucmds diagnose``: properties of a matrix before embedding it."""

from __future__ import annotations

from typing import Any

from neucmds import explore
from neucmds.explore import Diagnosis
from neucmds.tools.cli import options as opt
from neucmds.tools.cli.console import print_json, print_table, progress, say
from neucmds.tools.cli.inputs import as_problem, read_data
from neucmds.tools.cli.tables import facts_table
from neucmds.tools.report.words import diagnosis_facts, outlying, percent


def diagnose(
    file: opt.File,
    squared: opt.Squared = False,
    symmetrize: opt.Symmetrize = False,
    metric: opt.Metric = opt.DEFAULTS["metric"],
    seed: opt.Seed = 0,
    as_json: opt.Json = False,
) -> None:
    """Check whether D is Euclidean, and suggest k."""
    with progress() as callback:
        callback(0, None, f"reading {file}")
        data, names, measure = read_data(file, metric)
        reading: Any = {"metric": measure, "squared": squared, "symmetrize": symmetrize}
        problem = as_problem(data, names, 1, **reading, callback=callback)
        diagnosis = explore.diagnose(problem, random_state=seed, callback=callback)
    if as_json:
        print_json({"command": "diagnose", "input": file, **diagnosis.as_dict()})
        return
    title = f"{file}: {diagnosis.n:,} objects"
    print_table(facts_table(title, diagnosis_facts(diagnosis, squared)))
    if diagnosis.outliers.entries:
        say(
            f"{outlying(diagnosis, squared, diagnosis.labels)}. One outlier can dominate the fit: "
            "correct it, or leave it blank and embed with --missing ignore."
        )
    arguments = {"-": "FILE"}.get(file, file)
    if metric != opt.DEFAULTS["metric"]:
        arguments += f" --metric {metric}"
    say(_advice(diagnosis, arguments))


def _advice(diagnosis: Diagnosis, arguments: str) -> str:
    share = percent(diagnosis.negative_share)
    if not diagnosis.complete:
        share = f"about {share}"
    text = (
        f"Classical MDS drops the negative eigenvalues, {share} of the spectrum; 'neuc', 'neuc+', "
        "'exact' and 'refined' keep those that lower the STRESS."
    )
    if diagnosis.euclidean:
        text = "D is Euclidean: classical MDS loses nothing."
    if diagnosis.scan is not None and diagnosis.held_out_r2 > 0:
        return f"{text} Next: neucmds embed {arguments} -k {diagnosis.suggested_k}"
    return f"{text} Choose k by its STRESS. Next: neucmds stress-curve {arguments}"
