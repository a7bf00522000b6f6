"""Signatures that are asked for: where they end, and where new objects go.

    NEUCMDS_DATA=… python benchmarks/signatures.py [words]   prints a table, writes
                                                             records/signatures.json

Every (p, q) with p + q ≤ 4 on every stored dissimilarity of at most 100 objects:

- `to_random`: STRESS, divided by the least of 20 random starts (300 iterations, tolerance 1e-6);
- `above_contained`: by how much STRESS is above the least of all contained signatures;
- `new_new / new_old`, for three tolerances: root mean squared error of dissimilarities between two
  held-out objects, divided by that between a held-out and a fitted one. Five folds, repeated until
  150 pairs of new objects have been measured;
- `spreads`: how far the farthest new object is along any column, in root mean squares of the fitted
  objects' coordinates.
"""

from __future__ import annotations

import os
import sys
import warnings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from measure import RECORDS, machine, versions, write_record
from neucmds import datasets
from neucmds._methods.geometry import sq_dissimilarities
from neucmds._methods.refined.objective import refine
from neucmds._methods.refined.starts import RefineSettings
from neucmds._operator import DenseGram
from neucmds.api import Prepared, fit
from neucmds.embedding import Embedding

RECORD = RECORDS / "signatures.json"
SIGNATURES = [(p, k - p) for k in range(1, 5) for p in range(k, -1, -1)]
TOLERANCES = (1e-1, 2e-3, 1e-6)
STARTS, FOLDS, NEW_PAIRS, MOST_OBJECTS = 20, 5, 150, 100


def data() -> dict[str, np.ndarray]:
    found = {}
    for name in datasets.list_dissimilarities():
        D = datasets.load_dissimilarity(name).dissimilarity
        D = ((D + D.T) / 2) ** 2
        np.fill_diagonal(D, 0.0)
        if D.shape[0] <= MOST_OBJECTS:
            found[name] = D
    return found


def embed(D: np.ndarray, signature: tuple[int, int], tol: float = 2e-3) -> Embedding:
    prepared = Prepared(DenseGram(np.ascontiguousarray(D)), squared=True)
    settings = RefineSettings(max_iter=1000, tol=tol)
    return fit(prepared, signature, settings=settings).embedding


def best_of_random(D: np.ndarray, signature: tuple[int, int]) -> float:
    gram, n, k = DenseGram(D), D.shape[0], sum(signature)
    signs = np.repeat([1.0, -1.0], signature)
    scale = np.sqrt(np.abs(D).mean() / (2 * k))
    starts = (np.random.default_rng(seed).normal(size=(n, k)) * scale for seed in range(STARTS))
    return min(refine(gram, x, signs, max_iter=300, tol=1e-6).stress for x in starts)


def placement(D: np.ndarray, signature: tuple[int, int], tol: float) -> dict[str, float]:
    n = D.shape[0]
    to_new, to_old, farthest, repeat = [], [], 0.0, 0
    while sum(errors.size for errors in to_new) < 2 * NEW_PAIRS:
        order = np.random.default_rng(repeat).permutation(n)
        repeat += 1
        for fold in range(FOLDS):
            new = order[fold::FOLDS]
            old = np.setdiff1d(order, new)
            model = embed(D[np.ix_(old, old)], signature, tol)
            placed = model.transform(D[np.ix_(new, old)])
            x, signs = model.coordinates, model.signs
            among = sq_dissimilarities(placed, placed, signs) - D[np.ix_(new, new)]
            to_new.append(among[~np.eye(new.size, dtype=bool)])
            to_old.append((sq_dissimilarities(placed, x, signs) - D[np.ix_(new, old)]).ravel())
            if model.k:
                spread = np.sqrt(np.mean(x**2, axis=0))
                farthest = max(farthest, float(np.max(np.abs(placed) / spread)))
    new_new, new_old = (np.sqrt(np.mean(np.concatenate(e) ** 2)) for e in (to_new, to_old))
    return {"ratio": float(new_new / new_old), "spreads": farthest, "repeats": repeat}


def measure(D: np.ndarray) -> list[dict[str, object]]:
    warnings.simplefilter("ignore")
    rows, reached = [], {(0, 0): float(np.sum(D**2))}
    for p, q in SIGNATURES:
        found = embed(D, (p, q))
        contained = min(v for (a, b), v in reached.items() if a <= p and b <= q)
        reached[p, q] = found.stress
        rows.append(
            {
                "signature": [p, q],
                "returned": list(found.signature),
                "stress": found.stress,
                "relative_gradient": found.relative_gradient,
                "converged": found.converged,
                "to_random": found.stress / best_of_random(D, (p, q)),
                "above_contained": max(0.0, found.stress / contained - 1),
                "placement": {str(tol): placement(D, (p, q), tol) for tol in TOLERANCES},
            }
        )
    return rows


def report(rows: dict[str, list[dict]]) -> dict[str, object]:
    every = [(name, row) for name, found in rows.items() for row in found]
    ratios = [
        (one["ratio"], name, row["signature"], tol)
        for name, row in every
        for tol, one in row["placement"].items()
    ]
    return {
        "rows": len(every),
        "largest_to_random": max(row["to_random"] for _, row in every),
        "above_contained": sum(row["above_contained"] > 0 for _, row in every),
        "not_converged": sum(not row["converged"] for _, row in every),
        "largest_new_new_to_new_old": max(ratios)[0],
        "above_two": [list(one) for one in sorted(ratios, reverse=True) if one[0] > 2],
        "largest_spreads": max(
            one["spreads"] for _, row in every for one in row["placement"].values()
        ),
    }


def main() -> None:
    words = sys.argv[1:]
    chosen = {n: D for n, D in data().items() if not words or any(word in n for word in words)}
    found = Parallel(n_jobs=-1, return_as="generator")(delayed(measure)(D) for D in chosen.values())
    rows = {}
    for name, result in zip(chosen, found, strict=True):
        rows[name] = result
        print(name, chosen[name].shape[0], report({name: result}), flush=True)
    record = {
        "machine": machine(),
        "versions": versions("numpy", "scipy"),
        "summary": report(rows),
        "rows": rows,
    }
    print(record["summary"])
    if not words:
        write_record(RECORD, record)


if __name__ == "__main__":
    main()
