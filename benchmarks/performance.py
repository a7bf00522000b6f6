"""Write docs/performance.md from the records; no number in it is typed in by hand.

python benchmarks/performance.py
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measure import RECORDS
from peers import plot, table

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
    plot(record, PAGE.parent / "peers.svg")
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
        "",
        "![Seconds of every system](peers.svg)",
    ]


def growth(record: dict[str, Any]) -> list[str]:
    s = record["settings"]
    lines = ["## Growth", "", where(record), ""]
    for family, powers in record["exponents"].items():
        lines += [
            f"{family}: time grows as n^{powers['n']:.2f} at k = {s['fixed_k']} (n ≥ 2000) and as "
            f"k^{powers['k']:.2f} at n = {s['fixed_n']}.",
            "",
        ]
    lines += ["| data | n | k | seconds | memory beyond D |", "|---|--:|--:|--:|--:|"]
    for row in record["rows"]:
        lines.append(
            f"| {row['family']} | {row['n']} | {row['k']} | {row['seconds']:.3g} | "
            f"{row['peak_over_D']:.2f} D |"
        )
    return lines


def out_of_core(record: dict[str, Any]) -> list[str]:
    s, apart = record["settings"], record["relative_difference"]
    lines = [
        "## From disk",
        "",
        f"n = {s['n']}, k = {s['k']}, tolerance {s['tol']:g}: a file of {s['file_gb']:.1f} GB with "
        f'`max_memory="{s["max_memory"]}"`. Kept eigenvalues differ from those in memory by '
        f"{apart['eigenvalues']:.1e}, STRESS by {apart['stress']:.1e}.",
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
    cold = record["one_pass_cold_seconds"]
    return [
        *lines,
        "",
        f"One pass of 16 columns over the file, not cached: {cold['ahead']:.1f} s reading ahead, "
        f"{cold['in turn']:.1f} s reading in turn.",
    ]


def rows_as_table(record: dict[str, Any], columns: dict[str, str]) -> list[str]:
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for row in record["rows"]:
        cells = []
        for name, form in columns.items():
            value = row.get(name)
            cells.append("" if value is None else form.format(value))
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def gpu_dense(record: dict[str, Any]) -> list[str]:
    columns = {"what": "{}", "n": "{}", "k": "{}", "dtype": "{}", "seconds": "{:.3g}"}
    columns |= {"peak_over_D": "{:.2f}", "worst_residual": "{:.1e}", "ratio": "{:.0f}"}
    columns |= {"largest_relative_error": "{:.1e}", "iterations": "{}", "monotone": "{}"}
    title = ["## On a GPU, D stored", "", f"{record['device']}, torch {record['torch']}.", ""]
    return title + rows_as_table(record, columns)


def gpu_dense_other_host(record: dict[str, Any]) -> list[str]:
    lines = gpu_dense(record)[4:]
    title = "### The same on another host"
    return [title, "", "Fits of up to 20,000 objects are bound by the host's CPU.", "", *lines]


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


# As measured on an H200 when they were written; the comments beside them carry the times.
GPU_PIECES = (
    ("D transposed times tall columns", "_backend/blas.py", "1.6", "a product, n = 100,000"),
    ("small eigenproblems on the GPU", "_spectrum/lanczos.py", "4.4", "500 × 500"),
    ("blocks queued, not waited for", "_spectrum/lanczos.py", "1.7", "a fit, n = 20,000"),
    ("one fused kernel a metric", "_backend/arrays.py", "not separately", "D never stored"),
    ("mean and variance in one walk", "_backend/arrays.py", "not separately", "first pass"),
    ("checks in one kernel", "_backend/cuda_kernels.py", "5.8", "symmetry, range; n = 50,000"),
    (
        "the float32 copy in one kernel",
        "_backend/cuda_kernels.py",
        "not separately",
        "9 ms, 50,000",
    ),
    ("sum metrics in one kernel", "_backend/cuda_kernels.py", "121", "cityblock against cdist"),
    ("D̂ of pairs in one kernel", "_backend/cuda_kernels.py", "34", "16 million pairs, k = 20"),
    ("pairs sampled and sorted there", "_operator/sampled_pairs.py", "8.6", "16 million pairs"),
    ("tensor cores, split in TF32", "_backend/triton_products.py", "1.4", "a product, n = 100,000"),
)


def tuning(record: dict[str, Any]) -> list[str]:
    s, calls = record["settings"], record["milliseconds_a_call"]
    clock = "Wall time."
    if s["busy"]:
        clock = (
            "CPU seconds of one thread, as others used the machine; for what only puts work on "
            "threads, marked *, 1 + its share of them: a projection to two cores, not a timing."
        )
    lines = [
        "## What the tuning is worth",
        "",
        f"Time without a piece over time with it, n = {s['n']}, the fastest of {s['repeats']} "
        f"alternating runs each, lowest and highest over {len(record['fits'])} fits. {clock} What "
        "is worth less than 10 % is to be deleted, or has a reason here (`benchmarks/tuning.py`). "
        "The pool of threads is "
        f"written by hand because a call of it takes {calls['pool']:.2g} ms, one of "
        f"joblib.Parallel {calls['joblib.Parallel']:.2g} ms.",
        "",
        *record.get("remarks", []),
        "",
        where(record),
        "",
        "| piece | where | ratio without it | |",
        "|---|---|--:|---|",
    ]
    for name, place in record["pieces"].items():
        found = [fit["ratio_without"].get(name) for fit in record["fits"].values()]
        ratios = sorted(ratio for ratio in found if ratio is not None)
        star = "*" if name in record["threaded"] and s["busy"] else ""
        span = " to ".join(f"{ratio:.2f}" for ratio in dict.fromkeys((ratios[0], ratios[-1])))
        # A timing within the noise of the threshold decides nothing.
        noise = 0.0 if star else record.get("noise", 0.0)
        decided = "kept" if ratios[-1] > 1.10 + noise else "kept, not decided"
        if ratios[-1] <= 1.10 and name in record.get("stays", {}):
            decided = f"kept: {record['stays'][name]}"
        lines.append(f"| {name}{star} | `{place}` | {span} | {decided} |")
    for name, row in record["deleted"].items():
        lines.append(f"| {name} | `{row['where']}` | {row['ratio']:.2f} | deleted: {row['why']} |")
    lines += [f"| {n} | `{p}` | {r} (H200: {t}) | kept | " for n, p, r, t in GPU_PIECES]
    return [line.rstrip() for line in lines]


SECTIONS: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "peers": peers,
    "growth": growth,
    "out_of_core": out_of_core,
    "tuning": tuning,
    "gpu_dense": gpu_dense,
    "gpu_dense_other_host": gpu_dense_other_host,
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
