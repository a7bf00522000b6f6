"""A graph of a million nodes: landmarks and placement by the relative loss, beside ALT.

    python benchmarks/million_graph.py [--side 1090] [--landmarks 256] [--record FILE]

A grid with obstacles: every cell is passable but those of 3,000 random walls, neighbours are joined
in eight directions, with lengths drawn from 1 to 1.5 times the way. k = 16, one number a coordinate
and node. ALT, the bound of the triangle inequality over landmarks, gets as many numbers: 16
landmarks, far from each other. Errors are those of 100,000 pairs from 25 random sources: to random
nodes, and to nodes within 40. The searches are timed within the fit, by the clock: they run in
processes, the placement in threads. Peak memory is that of this process.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from measure import forget_peak, machine, peak, versions, write_record
from neucmds import LandmarkNeucMDS
from neucmds._methods.geometry import paired_sq_dissimilarities
from neucmds._operator.graph import as_graph, landmark_paths, shortest_path_rows
from neucmds.estimators import among_landmarks

K, SOURCES = 16, 25


def walled_grid(side: int, walls: int = 3000, seed: int = 0) -> Any:
    """Draw a grid without the cells of random walls; the largest part of it."""
    rng = np.random.default_rng(seed)
    free = np.ones((side, side), dtype=bool)
    for _ in range(walls):
        row, column = rng.integers(side, size=2)
        length = int(rng.integers(5, 60))
        if rng.random() < 0.5:
            free[row, column : column + length] = False
        else:
            free[row : row + length, column] = False
    number = np.cumsum(free.ravel()).reshape(free.shape) - 1
    i, j, far = [], [], []
    for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
        here = (slice(0, side - down), slice(max(0, -right), side - max(0, right)))
        there = (slice(down, side), slice(max(0, right), side + min(0, right)))
        both = free[here] & free[there]
        i.append(number[here][both])
        j.append(number[there][both])
        far.append(np.full(int(both.sum()), np.hypot(down, right)))
    length = np.concatenate(far) * rng.uniform(1, 1.5, size=sum(map(len, far)))
    n = int(free.sum())
    graph = sparse.csr_array((length, (np.concatenate(i), np.concatenate(j))), shape=(n, n))
    part = csgraph.connected_components(graph, directed=False)[1]
    kept = np.flatnonzero(part == np.argmax(np.bincount(part)))
    return graph[kept][:, kept]


def errors(estimate: Any, pairs: dict[str, Any]) -> dict[str, float]:
    """Median and 95th percentile of the relative error, for every kind of pair."""
    found = {}
    for kind, (i, j, d) in pairs.items():
        relative = np.abs(estimate(i, j) / d - 1)
        found[f"{kind}_median"] = round(float(np.median(relative)), 5)
        found[f"{kind}_p95"] = round(float(np.quantile(relative, 0.95)), 5)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", type=int, default=1090)
    parser.add_argument("--landmarks", type=int, default=256)
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    before = machine()
    graph = as_graph(walled_grid(arguments.side, walls=arguments.side**2 // 400))
    n, rng = int(graph.shape[0]), np.random.default_rng(1)
    print(f"{n} nodes, {graph.nnz // 2} edges", flush=True)
    sources = rng.choice(n, SOURCES, replace=False)
    rows = shortest_path_rows(graph, sources, dtype=np.float32)
    pairs: dict[str, Any] = {"random": [], "near": []}
    for source, row in zip(sources, rows, strict=True):
        close = np.flatnonzero((row > 0) & (row < 40))
        for kind, among in (("random", np.arange(n)), ("near", close)):
            j = rng.choice(among, 100_000 // SOURCES)
            j = j[j != source]
            pairs[kind].append((np.full(j.size, source), j, row[j]))
    pairs = {kind: tuple(map(np.concatenate, zip(*v, strict=True))) for kind, v in pairs.items()}
    del rows
    forget_peak()
    results = []
    spent: list[float] = []

    def timed_paths(*given: Any, **settings: Any) -> Any:
        start = time.perf_counter()
        found = landmark_paths(*given, **settings)
        spent.append(time.perf_counter() - start)
        return found

    among_landmarks.landmark_paths = timed_paths
    paths: Any = None
    for loss in ("relative", "squared"):
        start = time.perf_counter()
        if paths is None:
            estimator = LandmarkNeucMDS(
                K, arguments.landmarks, metric="shortest_path", loss=loss, random_state=0
            )
            x = estimator.fit_transform(graph).astype(np.float64)
            paths, ids = estimator._paths, estimator.landmarks_
            taken = time.perf_counter() - start
        else:  # with the same searches
            estimator = LandmarkNeucMDS(K, landmarks=ids, symmetrize=True, loss=loss)
            x = estimator.fit_transform(paths).astype(np.float64)
            taken = time.perf_counter() - start + spent[0]
        signs = np.asarray(estimator.signature_)

        def ours(i: Any, j: Any, x: Any = x, signs: Any = signs) -> Any:
            return np.sqrt(np.maximum(paired_sq_dissimilarities(x[i], x[j], signs), 0))

        row = {
            "what": f"landmarks, {loss}",
            "landmarks": arguments.landmarks,
            "signature": [int((signs > 0).sum()), int((signs < 0).sum())],
            "seconds": round(taken, 1),
            "over_searches": round(taken / spent[0], 2),
            "peak_gb": round(peak() / 1e9, 2),
            **errors(ours, pairs),
        }
        results.append(row)
        print(row, flush=True)
    searches = spent[0]
    del paths
    _, alt = landmark_paths(graph, K, "maxmin", np.random.RandomState(0), dtype=np.float32)
    alt = np.ascontiguousarray(alt.T)
    row = {"what": "ALT", "landmarks": K}
    row |= errors(lambda i, j: np.abs(alt[i] - alt[j]).max(axis=1), pairs)
    results.append(row)
    print(row, flush=True)
    record = {
        "machine": before,
        "versions": versions("numpy", "scipy"),
        "nodes": n,
        "edges": int(graph.nnz // 2),
        "k": K,
        "searches_seconds": round(searches, 1),
        "rows": results,
    }
    if arguments.record is not None:
        write_record(arguments.record, record)


if __name__ == "__main__":
    main()
