"""Signatures that are asked for: how low they end.

    NEUCMDS_DATA=… python benchmarks/signatures.py [words]   prints the bars, writes
                                                             records/signatures.json

Every (p, q) with p + q ≤ 4 on every stored dissimilarity of at most 100 objects:

- `to_random`: STRESS, divided by the least of 20 random starts (at most 300 iterations, tolerance
  1e-6); at most 1.02;
- `above_contained`: by what share STRESS is above the least of all contained signatures; never.

Where new objects go with such signatures is measured by `placement.py`.
"""

from __future__ import annotations

import os
import sys
import time
import warnings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from joblib import Parallel, delayed

from measure import RECORDS, machine, versions, write_record
from neucmds import datasets, neuc_mds
from neucmds._methods.refined.objective import refine
from neucmds._operator import DenseGram

RECORD = RECORDS / "signatures.json"
SIGNATURES = [(p, k - p) for k in range(1, 5) for p in range(k, -1, -1)]
STARTS, MOST_OBJECTS = 20, 100
TO_RANDOM = 1.02
# The same sum in another order.
ROUNDING = 1e-12


def data() -> dict[str, np.ndarray]:
    found = {}
    for name in datasets.list_dissimilarities():
        D = datasets.load_dissimilarity(name).dissimilarity
        D = ((D + D.T) / 2) ** 2
        np.fill_diagonal(D, 0.0)
        if D.shape[0] <= MOST_OBJECTS:
            found[name] = D
    return found


def best_of_random(D: np.ndarray, signature: tuple[int, int]) -> float:
    gram, n, k = DenseGram(D), D.shape[0], sum(signature)
    signs = np.repeat([1.0, -1.0], signature)
    scale = np.sqrt(np.abs(D).mean() / (2 * k))
    starts = (np.random.default_rng(seed).normal(size=(n, k)) * scale for seed in range(STARTS))
    return min(refine(gram, x, signs, max_iter=300, tol=1e-6).stress for x in starts)


def measure(D: np.ndarray) -> list[dict[str, object]]:
    warnings.simplefilter("ignore")
    rows, reached = [], {(0, 0): float(np.sum(D**2))}
    for p, q in SIGNATURES:
        started = time.perf_counter()
        found = neuc_mds(D, (p, q), squared=True)
        seconds = time.perf_counter() - started
        contained = min(v for (a, b), v in reached.items() if a <= p and b <= q)
        reached[p, q] = found.stress
        rows.append(
            {
                "signature": [p, q],
                "returned": list(found.signature),
                "stress": found.stress,
                "relative_gradient": found.relative_gradient,
                "converged": found.converged,
                "seconds": seconds,
                "to_random": found.stress / best_of_random(D, (p, q)),
                "above_contained": max(0.0, found.stress / contained - 1),
            }
        )
    return rows


def report(rows: dict[str, list[dict]]) -> dict[str, object]:
    every = [(name, row) for name, found in rows.items() for row in found]
    missed = [
        f"{name} {tuple(row['signature'])}: {row['to_random']:.4f}"
        for name, row in every
        if row["to_random"] > TO_RANDOM
    ]
    return {
        "rows": len(every),
        "largest_to_random": max(row["to_random"] for _, row in every),
        "above_the_bar": missed,
        "above_contained": sum(row["above_contained"] > ROUNDING for _, row in every),
        "not_converged": sum(not row["converged"] for _, row in every),
        "largest_relative_gradient": max(row["relative_gradient"] for _, row in every),
        "seconds": sum(row["seconds"] for _, row in every),
    }


def show(name: str, rows: dict[str, list[dict]]) -> None:
    found = report(rows)
    print(
        f"{name}: STRESS at most {found['largest_to_random']:.4f} × the best of {STARTS} random "
        f"starts (bar {TO_RANDOM}; missed by {found['above_the_bar'] or 'none'}), above a "
        f"contained signature in {found['above_contained']} of {found['rows']} (bar 0); "
        f"{found['not_converged']} not converged; {found['seconds']:.1f} s",
        flush=True,
    )


def main() -> None:
    words = sys.argv[1:]
    chosen = {n: D for n, D in data().items() if not words or any(word in n for word in words)}
    found = Parallel(n_jobs=int(os.environ.get("JOBS", "1")), return_as="generator")(
        delayed(measure)(D) for D in chosen.values()
    )
    rows = {}
    for name, result in zip(chosen, found, strict=True):
        rows[name] = result
        show(f"{name} (n = {chosen[name].shape[0]})", {name: result})
    show("all", rows)
    if not words:
        record = {"machine": machine(), "versions": versions("numpy", "scipy")}
        write_record(RECORD, {**record, "summary": report(rows), "rows": rows})


if __name__ == "__main__":
    main()
