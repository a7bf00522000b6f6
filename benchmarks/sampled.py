"""Fits of sampled pairs: R² of all pairs beside that of a fit of all, and reported beside true.

    python benchmarks/sampled.py [--trials 100] [--out FILE]

The 8-NN graph of 3,100 Gaussian points in 10 dimensions and the digits (cityblock), squared loss,
32 pairs a coordinate. Then random trials: features or a graph of 400 to 800 objects, k = 2 to 6,
any loss, 30 to 60 pairs; how many standard errors lie between reported and true R² and STRESS.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import kneighbors_graph

from measure import RECORDS, machine, versions, write_record
from neucmds import evaluate, neuc_mds
from neucmds.prepared import prepare


def neighbour_graph(n: int, d: int, seed: int) -> Any:
    points = np.random.default_rng(seed).normal(size=(n, d))
    graph = kneighbors_graph(points, 8, mode="distance")
    return graph.maximum(graph.T)


def row(name: str, data: Any, metric: str, k: int) -> dict[str, Any]:
    """Fit sampled pairs and all pairs."""
    found = neuc_mds(data, k, metric=metric, n_pairs=32 * k, random_state=0)
    D = prepare(data, k, metric=metric)
    whole = neuc_mds(D, k, random_state=0)
    made = {
        "data": name,
        "k": k,
        "reported": round(found.r2, 4),
        "standard_error": round(found.info.r2_standard_error, 4),
        "true": round(evaluate(found, D).r2, 4),
        "all_pairs": round(whole.r2, 4),
    }
    print(made, flush=True)
    return made


def trial(seed: int) -> dict[str, float]:
    """Fit some pairs of random data; return how many standard errors the report is off."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(400, 800)), int(rng.integers(2, 7))
    loss = ("squared", "distance", "relative")[seed % 3]
    if seed % 2:
        data, metric = neighbour_graph(n, 3, seed), "shortest_path"
    else:
        data, metric = rng.standard_t(4, size=(n, 6)), "cityblock"
    n_pairs = int(rng.integers(30, 60))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings: dict[str, Any] = {
            "loss": loss,
            "metric": metric,
            "random_state": seed,
        }
        found = neuc_mds(data, k, n_pairs=n_pairs, **settings)
    true = evaluate(found, prepare(data, k, metric=metric))
    return {
        "r2_off": (found.r2 - true.r2) / found.info.r2_standard_error,
        "stress_off": (found.stress - true.stress)
        / found.info.stress_standard_error,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--out", type=Path, default=RECORDS / "sampled.json")
    arguments = parser.parse_args()
    before, graph = machine(), neighbour_graph(3100, 10, 0)
    rows = [row("8-NN graph", graph, "shortest_path", k) for k in (10, 20)]
    rows += [
        row("digits", load_digits().data, "cityblock", k) for k in (10, 20)
    ]
    trials = [trial(seed) for seed in range(arguments.trials)]
    within = {
        name: int(sum(abs(one[name]) <= 3 for one in trials))
        for name in ("r2_off", "stress_off")
    }
    # No standard error is told where few objects decide it.
    unknown = sum(np.isnan(one["r2_off"]) for one in trials)
    print(within, unknown, flush=True)
    known = versions("numpy", "scipy", "scikit-learn")
    record = {
        "machine": before,
        "versions": known,
        "within_three": within,
        "unknown": int(unknown),
        "rows": rows,
    }
    write_record(arguments.out, record | {"trials": len(trials)})


if __name__ == "__main__":
    main()
