"""Two checkouts of this project side by side: eighteen public calls in turn, as ratios.

    git worktree add ../before v0.3.0
    python benchmarks/calls.py ../before [--rounds 7] [--only distance]

Two processes, each with one of the two on its path, make the same call by turns; who begins
changes from round to round. The record has, of every call, the median of the ratios of times by the
clock and of CPU time (above 1.05 is a loss), the ratio of the least times, and both losses.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import cdist
from sklearn.neighbors import kneighbors_graph

HERE = Path(__file__).resolve().parents[1]
RECORD = HERE / "benchmarks" / "records" / "calls.json"
THREADS = "2"
# Squared fits of up to 600 objects end at 1e-6 by default since 0.4.0; both get what 0.3.0 had.
EARLIER_TOL = 2e-3


def hops(n: int) -> np.ndarray:
    """Shortest paths in the graph of eight nearest neighbours of points in a cube."""
    points = np.random.default_rng(1).random((n, 5))
    graph = kneighbors_graph(points, 8)
    paths = shortest_path(
        graph.maximum(graph.T), directed=False, unweighted=True
    )
    paths[np.isinf(paths)] = paths[np.isfinite(paths)].max() + 1
    return paths


def abundances(n: int) -> np.ndarray:
    """Bray–Curtis dissimilarities of skewed counts."""
    table = np.random.default_rng(2).gamma(0.3, size=(n, 60)) ** 1.5
    return cdist(table, table, "braycurtis")


def gaps_between_balls(n: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    centres = 100 * rng.random((n, 10))
    radii = 5 * rng.random(n)
    gaps = cdist(centres, centres) - radii[:, None] - radii[None, :]
    np.fill_diagonal(gaps, 0)
    return np.maximum(gaps, 0)


def calls() -> dict[str, Callable[[], Any]]:
    """Return the calls by name, each of whatever neucmds is on the path."""
    from neucmds import neuc_mds

    balls = gaps_between_balls(4000)
    paths = hops(2000)
    counts = abundances(2000)
    features = np.random.default_rng(6).random((6000, 20))
    weights = np.random.default_rng(4).random((400, 400))
    hidden = np.triu(np.random.default_rng(5).random((300, 300)) < 0.3, 1)
    gappy = np.where(hidden | hidden.T, np.nan, counts[:300, :300])
    few_paths = hops(400)

    def fit(data: np.ndarray, k: int, **options: Any) -> Callable[[], Any]:
        return lambda: neuc_mds(data, k, **options)

    by_features = {"metric": "cityblock"}
    few = {"tol": EARLIER_TOL}
    return {
        "neuc+, balls 4000": fit(balls, 60, method="neuc+"),
        "neuc+, hops 2000": fit(paths, 60, method="neuc+"),
        "exact, abundances 2000": fit(counts, 20, method="exact"),
        "refined, balls 4000": fit(balls, 60),
        "refined, abundances 100": fit(counts[:100, :100], 4, **few),
        "distance, hops 2000": fit(paths, 10, loss="distance"),
        "distance, abundances 2000": fit(counts, 20, loss="distance"),
        "distance, abundances 100": fit(
            counts[:100, :100], 2, loss="distance"
        ),
        "relative, hops 2000": fit(paths, 20, loss="relative"),
        "relative, abundances 2000": fit(counts, 20, loss="relative"),
        "relative, hops 400": fit(few_paths, 5, loss="relative"),
        "κ auto, hops 300": fit(
            few_paths[:300, :300], 5, loss="relative", curvature="auto"
        ),
        "κ auto, abundances 300": fit(
            counts[:300, :300], 5, loss="relative", curvature="auto"
        ),
        "weights, hops 400": fit(
            few_paths, 10, weights=weights + weights.T, **few
        ),
        "gaps, abundances 300": fit(gappy, 10, missing="ignore", **few),
        "landmarks, features 6000": fit(
            features, 10, landmarks=300, **by_features, **few
        ),
        "landmarks, relative 6000": fit(
            features, 10, landmarks=300, loss="relative", **by_features
        ),
        "pairs, features 6000": fit(features, 10, n_pairs=100, **by_features),
    }


def work() -> None:
    """Make the call whose name comes in, and print its times and its loss."""
    warnings.simplefilter("ignore")
    known = calls()
    print(json.dumps(list(known)), flush=True)
    for line in sys.stdin:
        call = known[line.strip()]
        started = time.perf_counter()
        cpu = time.process_time()
        embedding = call()
        answer = {
            "wall": time.perf_counter() - started,
            "cpu": time.process_time() - cpu,
            "loss": float(embedding.loss_value),
        }
        print(json.dumps(answer), flush=True)


def started(checkout: Path) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            [str(checkout / "src"), os.environ.get("PYTHONPATH", "")]
        ),
        "OPENBLAS_NUM_THREADS": THREADS,
        "OMP_NUM_THREADS": THREADS,
    }
    return subprocess.Popen(
        [sys.executable, __file__, "--work"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


def asked(process: subprocess.Popen[str], name: str) -> dict[str, float]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(name + "\n")
    process.stdin.flush()
    answer: dict[str, float] = json.loads(process.stdout.readline())
    return answer


def row_of(
    pairs: list[tuple[dict[str, float], dict[str, float]]],
) -> dict[str, float]:
    """Return the ratios of a call, the other checkout's time below."""
    row = {}
    for kind in ("wall", "cpu"):
        row[f"{kind}_paired"] = statistics.median(
            now[kind] / before[kind] for before, now in pairs
        )
        row[f"{kind}_least"] = min(now[kind] for _, now in pairs) / min(
            before[kind] for before, _ in pairs
        )
    row["seconds_before"] = min(before["wall"] for before, _ in pairs)
    row["loss_before"] = pairs[0][0]["loss"]
    row["loss_now"] = pairs[0][1]["loss"]
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="")
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--work", action="store_true")
    arguments = parser.parse_args()
    if arguments.work:
        work()
        return
    processes = [started(arguments.before.resolve()), started(HERE)]
    try:
        for process in processes:
            assert process.stdout is not None
            names = json.loads(process.stdout.readline())
        rows = {}
        for name in names:
            if arguments.only not in name:
                continue
            pairs = []
            for process in processes:
                asked(process, name)  # the first call warms up
            for turn in range(arguments.rounds):
                order = processes[:: 1 if turn % 2 == 0 else -1]
                answers = {p.pid: asked(p, name) for p in order}
                pairs.append(tuple(answers[p.pid] for p in processes))
            rows[name] = row_of(pairs)
            print(
                name,
                {
                    key: float(f"{value:.4g}")
                    for key, value in rows[name].items()
                },
                flush=True,
            )
    finally:
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()
            process.wait()
    arguments.record.write_text(
        json.dumps({"rounds": arguments.rounds, "rows": rows}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
