"""``neucmds diagnose``: properties of a matrix before embedding it."""

from __future__ import annotations

from neucmds import explore
from neucmds.explore import Diagnosis
from neucmds.tools.cli import options as opt
from neucmds.tools.cli.console import print_json, print_table, say, steps
from neucmds.tools.cli.inputs import GIVEN, read_source
from neucmds.tools.cli.tables import facts_table
from neucmds.tools.report.words import diagnosis_facts, outlying, percent


def diagnose(
    file: opt.File,
    squared: opt.Squared = False,
    symmetrize: opt.Symmetrize = False,
    metric: opt.Metric = GIVEN,
    seed: opt.Seed = 0,
    as_json: opt.Json = False,
) -> None:
    """Check whether D is Euclidean, and suggest k."""
    with steps() as progress:
        progress.now(f"reading {file}")
        settings = {"squared": squared, "symmetrize": symmetrize, "callback": progress.show}
        prepared = read_source(file, metric).prepared(1, **settings).data
        found = explore.diagnose(prepared, random_state=seed, callback=progress.show)
    if as_json:
        print_json({"command": "diagnose", "input": file, **found.as_dict()})
        return
    print_table(facts_table(f"{file}: {found.n:,} objects", diagnosis_facts(found, squared)))
    if found.outliers.entries:
        say(
            f"{outlying(found, squared, found.labels)}. One outlier can dominate the fit: correct "
            "it, or leave it blank and embed with --missing ignore."
        )
    by_metric = "" if metric == GIVEN else f" --metric {metric}"
    say(_advice(found, ("FILE" if file == "-" else file) + by_metric))


def _advice(found: Diagnosis, file: str) -> str:
    parts: list[str] = []
    if found.euclidean:
        parts.append("D is Euclidean: classical MDS loses nothing.")
    else:
        about = "" if found.complete else "about "
        parts.append(
            f"Classical MDS drops the negative eigenvalues, {about}{percent(found.negative_share)} "
            "of the spectrum; 'neuc', 'neuc+', 'exact' and 'refined' keep those that lower the "
            "STRESS."
        )
    if found.scan is not None and found.held_out_r2 > 0:
        parts.append(f"Next: neucmds embed {file} -k {found.suggested_k}")
    else:
        parts.append(f"Choose k by its STRESS. Next: neucmds stress-curve {file}")
    return " ".join(parts)
