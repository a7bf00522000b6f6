"""Fills the tables of the guide from the records of benchmarks and from the package.

    python docs/tables.py

A table stands between ``<!-- table: NAME -->`` and ``<!-- end -->``; a test compares the pages with
the records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from statistics import mean, median
from typing import Any

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "benchmarks" / "records"
NAMES = ("choosing.md", "coordinates.md", "losses.md", "missing.md", "statistics.md")
PAGES = [*(ROOT / "docs" / "guide" / name for name in NAMES), ROOT / "docs" / "reliability.md"]
SLOT = re.compile(r"(<!-- table: ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def record(name: str) -> Any:
    """Return a record as it was measured."""
    return json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8"))


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def number(value: float) -> str:
    """Return three digits, without an exponent."""
    return f"{value:.3g}" if value < 1e3 else f"{float(f'{value:.2g}'):,.0f}"


def methods() -> str:
    """Return STRESS of every method, divided by that of classical MDS on the same data and k."""
    rows = record("quality")["rows"].values()
    sizes = {
        "fewer than 100 objects": [r["methods"] for r in rows if r["n"] < 100],
        "100 to 1000 objects": [r["methods"] for r in rows if r["n"] >= 100],
    }

    def cell(method: str, group: list[Any]) -> str:
        ratios = [r[method]["stress"] / r["classical"]["stress"] for r in group]
        return f"{number(median(ratios))} ({number(min(ratios))} to {number(max(ratios))})"

    names = ("lower", "neuc", "neuc+", "exact", "refined", "smacof", "lingoes", "cailliez")
    head = ["STRESS / that of classical", *(f"{size}: {len(g)} sets" for size, g in sizes.items())]
    return table(head, ([f"`{m}`", *(cell(m, g) for g in sizes.values())] for m in names))


def new_objects() -> str:
    """Return relative errors of fitted and of placed objects."""
    names = ("classical", "neuc+", "exact", "refined")
    rows = (
        [
            f"{data}, k = {r['k']}",
            *(f"{r['methods'][m]['fitted']:.3f} → {r['methods'][m]['new']:.3f}" for m in names),
        ]
        for data, r in record("placement")["methods"].items()
    )
    return table(["‖D̂ − D‖ / ‖D‖, fitted → new", *(f"`{m}`" for m in names)], rows)


def held_out() -> str:
    """Return errors of new objects to fitted ones over those among the fitted, by every loss."""
    names, found = ("squared", "distance", "relative"), record("placement")

    def curved(row: Any) -> str:
        kappa = f"{row['curvature']:.2g}".replace("-", "−")
        return f"{row['ratio']:.2f}, of d {row['of_d']:.2f} (κ = {kappa})"

    rows = (
        [data, *(f"{losses[name]['ratio']:.2f}" for name in names), curved(found["curved"][data])]
        for data, losses in found["losses"].items()
    )
    head = ["new / fitted, k = 10, five folds", *(f'`"{m}"`' for m in names)]
    return table([*head, '`"relative"`, `curvature="auto"`'], rows)


def gaps() -> str:
    """Return errors on hidden entries, relative to predicting their mean."""
    rows = (
        [
            data,
            str(runs[0]["k"]),
            f"{mean(r['error'] for r in runs):.2f}",
            f"{mean(r['mean_then_exact'] for r in runs):.2f}",
            "yes" if any(r["warnings"] for r in runs) else "no",
        ]
        for data, runs in record("missing").items()
        if "mean_then_exact" in runs[0]
    )
    head = [
        "data, 30 % hidden",
        "k",
        '`missing="ignore"`',
        "mean filled in, then `exact`",
        "warned",
    ]
    return table(head, rows)


def isomap() -> str:
    """Return errors of geodesic distances, of Isomap and of `NeucIsomap`."""
    rows = (
        [
            f"{r['data']}, k = {r['k']}",
            r["method"],
            f"({r['signature'][0]}, {r['signature'][1]})",
            f"{100 * r['geodesic_error']:.1f} %",
            f"{100 * r['geodesic_error_held_out']:.1f} %",
            f"{100 * r['neighbors_kept']:.0f} %",
        ]
        for r in record("isomap")["rows"]
        if r["k"] != 20
    )
    return table(
        ["data", "method", "signature", "mean relative error", "held out", "recall@10"], rows
    )


TESTED = {
    "moving_pictures_unifrac": "moving pictures, UniFrac, body sites",
    "protein213": "213 proteins, families",
    "GlobalPatterns26_braycurtis": "Global Patterns, Bray–Curtis, kinds of sample",
    "dune, Moisture": "dune, Bray–Curtis, Moisture",
}


def of_groups() -> dict[str, dict[str, Any]]:
    """Return the statistics of groups by data and by the matrix that they are of."""
    found: dict[str, dict[str, Any]] = {data: {} for data in TESTED}
    for row in record("permanova")["rows"]:
        found[row["data"]][row["on"]] = row
    return found


def permanova() -> str:
    """Return pseudo-F and R² of groups on D and on √D̂."""
    on = ("D", "√D̂, k = 2", "√D̂, k = 6", "√D̂, k = 12")
    rows = (
        [
            TESTED[data],
            str(of["D"]["groups"]),
            *(f"{of[matrix]['pseudo_f']:.3g}" for matrix in on),
            *(f"{of[matrix]['r2']:.2f}" for matrix in (on[0], on[2])),
        ]
        for data, of in of_groups().items()
    )
    head = ["data", "groups", "pseudo-F on D", "on √D̂, k = 2", "k = 6", "k = 12"]
    return table([*head, "R² of groups on D", "on √D̂, k = 6"], rows)


def permdisp() -> str:
    """Return F of PERMDISP on D by every convention, and vegan's on √D̂."""
    conventions = {
        "scikit-bio, ten axes": ("D", "permdisp_f_ten_axes"),
        "scikit-bio, all axes": ("D", "permdisp_f_all_axes"),
        "vegan, median": ("D", "betadisper_median_f"),
        "vegan, centroid": ("D", "betadisper_centroid_f"),
        "vegan, median, on √D̂": ("√D̂, k = 6", "betadisper_median_f"),
        "vegan, centroid, on √D̂": ("√D̂, k = 6", "betadisper_centroid_f"),
    }
    rows = (
        [TESTED[data], *(f"{of[on][key]:.3g}" for on, key in conventions.values())]
        for data, of in of_groups().items()
    )
    return table(["F", *conventions], rows)


def goes_with() -> str:
    """Return which option goes with which kind of input, and the notes below."""
    from neucmds.api.options import FITS, INPUTS, OPTIONS, cell

    notes: list[str] = []

    def mark(kind: str, name: str) -> str:
        found = cell(kind, name)
        word = {"yes": "yes", "refused": "–", "ignored": "ignored"}[found.verdict]
        if not found.why or found.verdict == "refused":
            return word
        if found.why not in notes:
            notes.append(found.why)
        return f"{word} ({notes.index(found.why) + 1})"

    rows = [[what, *(mark(kind, name) for name in OPTIONS)] for kind, what in INPUTS.items()]
    for kind, what in FITS.items():
        marks = [mark(kind, name) for name in OPTIONS]
        rows.append([what, *("" if one == "yes" else one for one in marks)])
    below = "".join(f"({i}) {note}. " for i, note in enumerate(notes, 1)).strip()
    return table(["", *OPTIONS.values()], rows) + f"\n{below}\n"


def defaults() -> str:
    """Return the limits of "refined" by loss, the same for every kind of input."""
    from neucmds._methods.refined.descent import FEW_OBJECTS, MAX_ITER, TOL, TOL_OF_FEW

    rows = (
        [
            f'`"{loss}"`',
            str(MAX_ITER[loss]),
            f"{TOL[loss]:g}",
            "" if loss == "squared" else f"{TOL_OF_FEW:g}",
        ]
        for loss in MAX_ITER
    )
    return table(["`loss`", "`max_iter`", "`tol`", f"`tol`, up to {FEW_OBJECTS} objects"], rows)


def curvature() -> str:
    """Return the relative loss at κ = 0 and at the κ of "auto"."""
    rows = record("curvature")["rows"]

    def both(flat: Any, bent: Any, name: str) -> str:
        return f"{100 * flat[name]:.2f} % → {100 * bent[name]:.2f} %"

    pairs = zip(rows[::2], rows[1::2], strict=True)
    return table(
        ("", "n", "k", "κ", "signature", "mean error of d", "of the ten nearest", "recall@10"),
        (
            (
                bent["set"],
                f"{bent['n']:,}",
                str(bent["k"]),
                f"{bent['curvature']:.1f}".replace("-", "−"),
                f"({', '.join(map(str, bent['signature']))})",
                both(flat, bent, "mean_error"),
                both(flat, bent, "near_error"),
                f"{flat['recall_10']:.3f} → {bent['recall_10']:.3f}",
            )
            for flat, bent in pairs
        ),
    )


def curved_spaces() -> str:
    """Return the error of signed coordinates beside hyperbolic and product spaces."""
    rows = record("curved_spaces")["rows"]
    sets = list(dict.fromkeys(row["set"] for row in rows))

    def cell(data: str, prefix: tuple[str, ...]) -> str:
        own = [row for row in rows if row["set"] == data and row["method"].startswith(prefix)]
        best = min(own, key=lambda row: row["mean"])
        ranked = "" if best["mAP"] is None else f", {best['mAP']:.2f}"
        return f"{100 * best['mean']:.1f} %, {100 * best['p99']:.0f} %{ranked}"

    kinds = {
        "signed coordinates, κ chosen": ("neucmds, κ chosen",),
        "signed coordinates, κ = 0": ("neucmds, κ = 0",),
        "Euclidean": ("E",),
        "hyperbolic (H)": tuple(f"H{row['numbers']}, " for row in rows),
        "H × H": tuple(f"H{row['numbers'] // 2} × H" for row in rows),
        "S × H": ("S",),
        "H × E": tuple(f"H{row['numbers'] // 2} × E" for row in rows),
        "hydra": ("hydra",),
    }
    sizes = {row["set"]: f"{row['set']}, k = {row['numbers']}" for row in rows}
    lines = ([name, *(cell(data, prefix) for data in sets)] for name, prefix in kinds.items())
    return table(["mean and p99 error of d, mAP", *(sizes[data] for data in sets)], lines)


def fuzz() -> str:
    """Return how many files and matrices the fuzz run has tried, and what it found."""
    kinds = {"files": ("files", "readings"), "matrices": ("matrices", "fits")}
    rows = []
    for kind, (trials, checks) in kinds.items():
        run = record("fuzz")[kind]
        sums = run["sums"]
        refused = f"{sums['refused'] / sums[checks]:.0%}"
        found = str(len(sums["findings"]))
        rows.append([f"{sums[trials]:,} {trials}", f"{sums[checks]:,} {checks}", refused, found])
    return table(["trials", "checks", "refused with one line", "open findings"], rows)


TABLES = {
    "fuzz": fuzz,
    "curvature": curvature,
    "curved-spaces": curved_spaces,
    "methods": methods,
    "new-objects": new_objects,
    "held-out": held_out,
    "gaps": gaps,
    "isomap": isomap,
    "permanova": permanova,
    "permdisp": permdisp,
    "goes-with": goes_with,
    "defaults": defaults,
}


def filled(text: str) -> str:
    """Return a page with its tables made anew."""
    return SLOT.sub(lambda slot: slot[1] + TABLES[slot[2]]() + slot[4], text)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
