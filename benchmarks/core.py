"""A fit with every metric against one numpy.linalg.eigh, in one run, alternating.

    python benchmarks/core.py      prints the ratios, writes benchmarks/records/core.json

The bar for the paper's methods is 3 (the authors' code: about 50), for `refined` 5.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

import numpy as np
from sklearn.manifold import smacof

from neucmds.api import ALL_METHODS, evaluate, neuc_mds
from neucmds.datasets import euclidean_ball, random_simplex

RECORD = Path(__file__).parent / "records" / "core.json"
N, K, REPEATS = 1000, 100, 7


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def fit_and_evaluate(D: np.ndarray, method: str) -> None:
    embedding = neuc_mds(D, K, method, squared=True, random_state=0)
    evaluate(embedding, D)


def measure(D: np.ndarray) -> dict[str, float]:
    C = np.eye(N) - 1 / N
    B = -0.5 * C @ D @ C
    times: dict[str, list[float]] = {"eigh": []} | {method: [] for method in ALL_METHODS}
    for repeat in range(REPEATS + 1):
        for name in times:
            if name == "eigh":
                spent = seconds(lambda: np.linalg.eigh(B))
            else:
                spent = seconds(lambda m=name: fit_and_evaluate(D, m))
            if repeat:
                times[name].append(spent)
    eigh = statistics.median(times["eigh"])
    ratios = {method: statistics.median(times[method]) / eigh for method in ALL_METHODS}
    one_start = seconds(
        lambda: smacof(
            np.sqrt(D), n_components=K, n_init=1, max_iter=300, eps=0, random_state=0, init=None
        )
    )
    refined = seconds(lambda: neuc_mds(D, K, "refined", squared=True, random_state=0))
    return ratios | {"eigh_seconds": eigh, "smacof_start_over_refined": one_start / refined}


def main() -> None:
    record = {"n": N, "k": K, "threads": os.environ["OPENBLAS_NUM_THREADS"], "ratios_to_eigh": {}}
    for name, make in (("euclidean-ball", euclidean_ball), ("random-simplex", random_simplex)):
        record["ratios_to_eigh"][name] = measure(make(N, random_state=0))
        print(name, {a: round(b, 3) for a, b in record["ratios_to_eigh"][name].items()}, flush=True)
    RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
