"""Graphs from sampled pairs: errors at all distances, neighbours kept, and what an iteration costs.

    python benchmarks/graph_pairs.py [--data FOLDER] [--only NAME] [--seeds 3] [--out FILE]

Two graphs, k = 16, relative loss. *lakes*: random points in the unit square without two lakes,
joined where they are near. *helsinki*: all 6,750 nodes of the streets, no n × n array. Errors are
those of √D̂⁺ against shortest paths, from 500 nodes to all. Iterations are timed as [wall, CPU].
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from scipy.spatial import cKDTree

from measure import RECORDS, forget_peak, machine, peak, versions, write_record
from neucmds import LandmarkNeucMDS
from neucmds._input.pairs import Pairs
from neucmds._methods.geometry import sq_dissimilarities
from neucmds._methods.refined import tiles
from neucmds._methods.refined.descent import Limits, Start
from neucmds._methods.refined.listed_pairs import refine_pairs
from neucmds._operator.graph import as_graph, graph_pairs, shortest_path_rows
from neucmds._operator.sampled_pairs import Sizes

K = 16
SOURCES = 500


def lakes(n: int = 20_500, degree: float = 20.0, seed: int = 0) -> Any:
    """Random points without two round lakes, joined within a radius; the largest part."""
    points = np.random.default_rng(seed).random((n, 2))
    for center, radius in (((0.3, 0.35), 0.16), ((0.68, 0.65), 0.12)):
        points = points[np.hypot(*(points - center).T) > radius]
    ends = cKDTree(points).query_pairs(np.sqrt(degree / (np.pi * n)), output_type="ndarray")
    length = np.linalg.norm(points[ends[:, 0]] - points[ends[:, 1]], axis=1)
    graph = sparse.csr_array((length, ends.T), shape=(len(points),) * 2)
    part = csgraph.connected_components(graph, directed=False)[1]
    kept = np.flatnonzero(part == np.argmax(np.bincount(part)))
    return graph[kept][:, kept]


def helsinki(folder: Path) -> Any:
    with np.load(folder / "networks" / "helsinki.npz") as stored:
        ends, length = stored["edges"], stored["length"].astype(np.float64)
        return sparse.coo_array((length, ends.T), shape=(len(stored["xy"]),) * 2)


def errors(coordinates: Any, signs: Any, rows: Any, sources: Any) -> dict[str, float]:
    """Relative errors of all pairs and of the 50 nearest, and the share of the 10 nearest kept."""
    here = np.arange(sources.size)
    d_hat = np.sqrt(np.maximum(sq_dissimilarities(coordinates[sources], coordinates, signs), 0))
    d = rows.copy()
    d[here, sources] = d_hat[here, sources] = np.inf
    relative = np.full_like(d, np.nan)
    counted = np.isfinite(d) & (d > 0)
    relative[counted] = np.abs(d_hat[counted] / d[counted] - 1)
    near = np.take_along_axis(relative, np.argpartition(d, 49, axis=1)[:, :50], axis=1)
    tenth = np.partition(d, 9, axis=1)[:, 9:10]
    found = np.take_along_axis(d, np.argpartition(d_hat, 9, axis=1)[:, :10], axis=1)
    return {
        "all_median": float(np.nanmedian(relative)),
        "all_mean": float(np.nanmean(relative)),
        "all_p95": float(np.nanquantile(relative, 0.95)),
        "all_p99": float(np.nanquantile(relative, 0.99)),
        "near50_median": float(np.nanmedian(near)),
        "near50_p95": float(np.nanquantile(near, 0.95)),
        "recall10": float(np.mean(found <= tenth * (1 + 1e-12))),
    }


def product_seconds(pairs: Pairs, k: int, repeats: int = 15) -> tuple[float, float]:
    """Best time of scipy's product of all pairs, in both orders, with n × k; wall and CPU."""
    i, j = np.concatenate([pairs.i, pairs.j]), np.concatenate([pairs.j, pairs.i])
    matrix = sparse.csr_array((np.ones(i.size), (i, j)), shape=(pairs.n, pairs.n))
    block, seen = np.random.default_rng(0).standard_normal((pairs.n, k)), []
    for _ in range(repeats):
        start = ticks()
        matrix @ block
        seen.append(ticks() - start)
    return tuple(np.min(seen, axis=0).tolist())


def iteration_seconds(pairs: Pairs, start: Start, iterations: int = 40) -> tuple[float, float]:
    """Mean time of ten iterations, a renewal of the blocks among them; the best ten; wall, CPU."""
    seen = [ticks()]
    refine_pairs(pairs, start, Limits(iterations, 0.0, lambda *_: seen.append(ticks())))
    run = tiles.LAST_RENEWAL
    times = np.array([(seen[at + run] - seen[at]) / run for at in range(1, len(seen) - run)])
    return tuple(times.min(axis=0).tolist())


def ticks() -> np.ndarray:
    """Clock of the wall and of this process on all threads; the latter does not hear others."""
    return np.array([time.perf_counter(), time.process_time()])


def study(
    name: str, graph: Any, max_iter: int, seed: int = 0, timed: bool = True, **sizes: Any
) -> dict[str, Any]:
    forget_peak()
    clock = [time.perf_counter()]
    how = {"n_landmarks": 100, "random_state": seed}
    sample = graph_pairs(graph, Sizes(**sizes), **how)
    clock.append(time.perf_counter())
    placed = LandmarkNeucMDS(K, metric="precomputed", landmarks=sample.landmarks, random_state=seed)
    start = placed.fit_transform(sample.to_landmarks)
    clock.append(time.perf_counter())
    signs, pairs = placed.signature_, sample.pairs
    end = refine_pairs(pairs, Start(start, signs), Limits(max_iter, 2e-3))
    clock.append(time.perf_counter())
    held = peak()
    sources = np.random.default_rng(1).choice(pairs.n, SOURCES, replace=False)
    rows = shortest_path_rows(as_graph(graph), sources)
    costs: dict[str, Any] = {}
    if timed:
        product = product_seconds(pairs, K)
        iteration = iteration_seconds(pairs, Start(start, signs))
        costs["numpy"] = {
            "product_ms": [round(1e3 * one, 1) for one in product],
            "iteration_ms": [round(1e3 * one, 1) for one in iteration],
            "iteration_over_product": round(iteration[0] / product[0], 2),
            "iteration_over_product_cpu": round(iteration[1] / product[1], 2),
        }
    steps = dict(
        zip(("pairs", "landmarks", "descent"), np.diff(clock).round(2).tolist(), strict=True)
    )
    row = {
        "graph": name,
        "seed": seed,
        "nodes": pairs.n,
        "edges": int(as_graph(graph).nnz // 2),
        "sizes": sizes,
        "pairs_a_node": round(2 * pairs.size / pairs.n, 1),
        "signature": list(end.signature),
        "iterations": len(end.history) - 1,
        "relative_gradient": round(end.relative_gradient, 4),
        "seconds": steps,
        "peak_mb": round(held / 1e6),
        **costs,
        "landmarks": errors(start, signs, rows, sources),
        "pairs": errors(end.coordinates, signs, rows, sources),
    }
    for kind in ("landmarks", "pairs"):
        shown = ", ".join(f"{key} {value:.4f}" for key, value in row[kind].items())
        print(f"{name:9s} {kind:9s} {shown}", flush=True)
    print({key: row[key] for key in list(row)[1:-2]}, flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    shared = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("NEUCMDS_DATA", shared)))
    parser.add_argument("--seeds", type=int, default=3, help="graphs with lakes that are drawn")
    parser.add_argument("--only", choices=("lakes", "helsinki"))
    parser.add_argument("--out", type=Path, default=RECORDS / "graph_pairs.json")
    arguments = parser.parse_args()
    rows, before = [], machine()
    if arguments.only != "lakes":
        # First, while nothing else has made the process large.
        sizes = {"n_far": 200, "n_near": 60, "n_ring": 300}
        rows.append(study("helsinki", helsinki(arguments.data), 500, **sizes))
    if arguments.only != "helsinki":
        for seed in range(arguments.seeds):
            sizes = {"n_far": 80, "n_near": 30, "n_ring": 30}
            rows.append(study("lakes", lakes(seed=seed), 60, seed, seed == 0, **sizes))
    known = versions("numpy", "scipy")
    record = {"machine": before, "versions": known, "k": K, "rows": rows}
    if arguments.only is None or arguments.out != RECORDS / "graph_pairs.json":
        write_record(arguments.out, record)


if __name__ == "__main__":
    main()
