"""Write docs/performance.md from the records; no number in it is typed in by hand.

python benchmarks/performance.py
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measure import RECORDS
from peers import table

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"


def where(record: dict[str, Any]) -> str:
    """Name the machine, the settings and the versions in one line."""
    m, settings = record["machine"], record["settings"]
    versions = ", ".join(f"{name} {number}" for name, number in record["versions"].items())
    return (
        f"{m['processor']}, {m['cores']} cores, {m.get('memory_gb', '?')} GB, "
        f"{settings['threads']} BLAS threads; {versions}."
    )


def peers(record: dict[str, Any]) -> list[str]:
    s = record["settings"]
    return [
        "## Against the peers",
        "",
        f"n = {s['n']}, k = {s['k']}, tolerance {s['tol']:g}, seed {s['seed']}, medians of "
        f"{s['repeats']} alternating runs (one for those that decompose all of B), each in its own "
        "process. The clock runs from D in memory, on the scale each system wants, to its "
        "eigenpairs or coordinates. Memory is the peak beyond D. The largest error is relative to "
        "the same eigenvalue of the full solve; 2 means the wrong sign. The last columns count "
        "positive and negative eigenvalues: as kept, and as the pairs the system means to keep "
        "have them in the full solve.",
        "",
        where(record),
        "",
        *table(record),
    ]


def out_of_core(record: dict[str, Any]) -> list[str]:
    s, apart = record["settings"], record["relative_difference"]
    lines = [
        "## From disk",
        "",
        f"n = {s['n']}, k = {s['k']}, tolerance {s['tol']:g}: a file of {s['file_gb']:.1f} GB as "
        f'`BlockedGram(path, max_memory="{s["max_memory"]}")`. Kept eigenvalues '
        f"differ from those in memory by {apart['eigenvalues']:.1e}, STRESS by "
        f"{apart['stress']:.1e}.",
        "",
        where(record),
        "",
        "| D | seconds | passes over D | peak of the process |",
        "|---|--:|--:|--:|",
    ]
    for name, title in (("blocked", "in blocks from disk"), ("in_memory", "in memory")):
        row = record[name]
        passes = row["passes"] or "–"
        lines.append(f"| {title} | {row['seconds']:.0f} | {passes} | {row['peak_gb']:.2f} GB |")
    return lines


def rows_as_table(record: dict[str, Any], columns: dict[str, str]) -> list[str]:
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for row in record["rows"]:
        if not {"seconds", "fit_seconds"} & set(row):
            continue  # a check, not a time
        cells = []
        for name, form in columns.items():
            value = row.get(name)
            cells.append("" if value is None else form.format(value))
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def gpu_dense(record: dict[str, Any]) -> list[str]:
    columns = {"what": "{}", "n": "{}", "k": "{}", "dtype": "{}", "seconds": "{:.3g}"}
    columns |= {"peak_over_D": "{:.2f}", "worst_residual": "{:.1e}", "ratio": "{:.0f}"}
    columns |= {"largest_relative_error": "{:.1e}"}
    title = ["## On a GPU, D stored", "", f"{record['device']}, torch {record['torch']}.", ""]
    return title + rows_as_table(record, columns)


def gpu_features(record: dict[str, Any]) -> list[str]:
    columns = {"metric": "{}", "n": "{}", "d": "{}", "k": "{}", "dtype": "{}", "library": "{}"}
    columns |= {"seconds": "{:.3g}", "passes": "{}", "peak_gb": "{:.1f}"}
    columns |= {"worst_residual": "{:.1e}", "rows_against_float64": "{:.1e}"}
    columns |= {"subsample_against_stored": "{:.1e}"}
    title = ["## On a GPU, D never stored", "", f"{record['device']}, torch {record['torch']}.", ""]
    return title + rows_as_table(record, columns)


def gpu_landmarks(record: dict[str, Any]) -> list[str]:
    columns = {"metric": "{}", "loss": "{}", "n": "{}", "d": "{}", "n_landmarks": "{}", "k": "{}"}
    columns |= {"fit_seconds": "{:.2f}", "place_seconds": "{:.2f}", "peak_gb": "{:.1f}"}
    columns |= {"largest_gap_to_cpu": "{:.0e}"}
    title = ["## On a GPU, objects placed among landmarks", ""]
    title += [f"{record['device']}, torch {record['torch']}; features are on the device.", ""]
    return title + rows_as_table(record, columns)


SECTIONS: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "peers": peers,
    "out_of_core": out_of_core,
    "gpu_dense": gpu_dense,
    "gpu_features": gpu_features,
    "gpu_landmarks": gpu_landmarks,
}


def main() -> None:
    lines = [
        "# Performance",
        "",
        "Made by `python benchmarks/performance.py` from `benchmarks/records`, which `make bench` "
        "measures anew.",
    ]
    for name, section in SECTIONS.items():
        path = RECORDS / f"{name}.json"
        if path.exists():
            lines += ["", *section(json.loads(path.read_text()))]
    PAGE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
