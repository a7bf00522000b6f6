"""How the cost of a fit grows: with n at fixed k, and with k at fixed n.

    python benchmarks/growth.py            n = 1000 … 16,000 and k = 10 … 200, ten minutes
    python benchmarks/growth.py --quick    up to n = 3000, without a record

Each fit runs in a process of its own, as in peers.py, alternating over the sizes.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from measure import FAMILIES, RECORDS, SEED, machine, versions, write_record
from peers import TOL, launch


def measure(
    family: str, sizes: list[tuple[int, int]], repeats: int, threads: int
) -> list[dict[str, Any]]:
    """Fit (n, k) after (n, k), several times over."""
    runs: dict[tuple[int, int], list[dict[str, Any]]] = {size: [] for size in sizes}
    with tempfile.TemporaryDirectory() as folder:
        for n in {n for n, _ in sizes}:
            np.save(Path(folder) / f"{n}.npy", FAMILIES[family](n))
        for _ in range(repeats):
            for n, k in sizes:
                found = launch("neucmds", Path(folder) / f"{n}.npy", k, threads)
                runs[n, k].append(found)
                said = found.get("failed") or f"{found['seconds']:.2f} s"
                print(f"{family}, n = {n}, k = {k}: {said}", file=sys.stderr, flush=True)
    return [
        {
            "family": family,
            "n": n,
            "k": k,
            "seconds": statistics.median(run["seconds"] for run in found),
            "peak_over_D": max(run["peak_beyond_D"] for run in found) / (8 * n * n),
        }
        for (n, k), found in runs.items()
    ]


def exponent(rows: list[dict[str, Any]], by: str) -> float:
    """Slope of log seconds over log size."""
    sizes, seconds = ([row[name] for row in rows] for name in (by, "seconds"))
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--family", nargs="+", choices=FAMILIES, default=["Euclidean-ball"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    by_n = [1000, 1500, 2000, 3000] if arguments.quick else [1000, 2000, 4000, 8000, 16_000]
    by_k, fixed_n, fixed_k = [10, 20, 50, 100, 200], by_n[-2], 50
    record: dict[str, Any] = {
        "machine": machine(),
        "versions": versions("numpy", "scipy"),
        "settings": {"threads": arguments.threads, "repeats": arguments.repeats}
        | {"tol": TOL, "seed": SEED, "fixed_n": fixed_n, "fixed_k": fixed_k},
        "rows": [],
        "exponents": {},
    }
    for family in arguments.family:
        sizes = [(n, fixed_k) for n in by_n] + [(fixed_n, k) for k in by_k if k != fixed_k]
        rows = measure(
            family, sizes, 1 if arguments.quick else arguments.repeats, arguments.threads
        )
        record["rows"] += rows
        # Below 2000 objects what does not grow at all still shows.
        in_n = [row for row in rows if row["k"] == fixed_k and row["n"] >= 2000]
        in_k = [row for row in rows if row["n"] == fixed_n]
        record["exponents"][family] = {"n": exponent(in_n, "n"), "k": exponent(in_k, "k")}
        print(family, record["exponents"][family])
        if not arguments.quick:
            write_record(RECORDS / "growth.json", record)


if __name__ == "__main__":
    main()
