"""Graphs by the relative loss: all pairs, sampled pairs, landmarks in one and in two levels.

    python benchmarks/graph_pairs.py [--data FOLDER] [--only NAME ...] [--record FILE]

Three graphs, k = 16. *helsinki* and *jinan*: streets with their lengths. *lakes*: random points in
the unit square without two lakes, joined where they are near. Errors are those of √D̂⁺ against
shortest paths, from 500 nodes to all and to their 50 nearest; recall@10 is the share of the ten
nearest that are kept. Shortest paths are searched within the fit.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from scipy.spatial import cKDTree

from measure import RECORDS, machine, versions, write_record
from neucmds import LandmarkNeucMDS, NeucMDS
from neucmds.form import Form
from neucmds.problem.graph import as_graph, shortest_path_rows

K, SOURCES, NEAR, MOST_WITH_ALL_PAIRS = 16, 500, 50, 10_000


def lakes(n: int = 20_500, degree: float = 20.0, seed: int = 0) -> Any:
    """Random points without two round lakes, joined within a radius; the largest part."""
    points = np.random.default_rng(seed).random((n, 2))
    for center, radius in (((0.3, 0.35), 0.16), ((0.68, 0.65), 0.12)):
        points = points[np.hypot(*(points - center).T) > radius]
    ends = cKDTree(points).query_pairs(
        np.sqrt(degree / (np.pi * n)), output_type="ndarray"
    )
    length = np.linalg.norm(points[ends[:, 0]] - points[ends[:, 1]], axis=1)
    graph = sparse.csr_array((length, ends.T), shape=(len(points),) * 2)
    part = csgraph.connected_components(graph, directed=False)[1]
    kept = np.flatnonzero(part == np.argmax(np.bincount(part)))
    return graph[kept][:, kept]


def streets(folder: Path, name: str) -> Any:
    """Read the streets of a town."""
    with np.load(folder / "networks" / f"{name}.npz") as stored:
        ends, length = stored["edges"], stored["length"].astype(np.float64)
        return sparse.coo_array(
            (length, ends.T), shape=(len(stored["xy"]),) * 2
        )


def errors(x: Any, signs: Any, rows: Any, sources: Any) -> dict[str, float]:
    """Relative errors of all pairs and of the 50 nearest, and the share of the 10 nearest kept."""
    here = np.arange(sources.size)
    d_hat = np.sqrt(np.maximum(Form(signs).sq(x[sources], x), 0))
    d = rows.copy()
    d[here, sources] = d_hat[here, sources] = np.inf
    relative = np.full_like(d, np.nan)
    counted = np.isfinite(d) & (d > 0)
    relative[counted] = np.abs(d_hat[counted] / d[counted] - 1)
    near = np.take_along_axis(
        relative, np.argpartition(d, NEAR - 1, axis=1)[:, :NEAR], axis=1
    )
    tenth = np.partition(d, 9, axis=1)[:, 9:10]
    found = np.take_along_axis(
        d, np.argpartition(d_hat, 9, axis=1)[:, :10], axis=1
    )
    kept = {"recall10": float(np.mean(found <= tenth * (1 + 1e-12)))}
    for kind, some in (("all", relative), ("near", near)):
        kept[f"{kind}_median"] = float(np.nanmedian(some))
        kept[f"{kind}_p95"] = float(np.nanquantile(some, 0.95))
    return {name: round(value, 4) for name, value in kept.items()}


def study(name: str, graph: Any) -> list[dict[str, Any]]:
    """Embed a graph in every way that is made for its size."""
    n = int(graph.shape[0])
    common: dict[str, Any] = {
        "metric": "shortest_path",
        "loss": "relative",
        "random_state": 0,
    }
    ways: dict[str, Any] = {
        "all pairs": NeucMDS(K, **common)
        if n <= MOST_WITH_ALL_PAIRS
        else None,
        "sampled pairs": NeucMDS(K, n_pairs=16 * K, **common),
        "two levels": LandmarkNeucMDS(K, n_near=None, **common),
        "landmarks": LandmarkNeucMDS(K, 256, **common),
    }
    sources = np.random.default_rng(1).choice(n, SOURCES, replace=False)
    paths, rows = shortest_path_rows(as_graph(graph), sources), []
    for way, estimator in ways.items():
        if estimator is None:
            continue
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            x = estimator.fit_transform(graph).astype(np.float64)
        row = {"graph": name, "nodes": n, "way": way}
        row["seconds"] = round(time.perf_counter() - start, 1)
        rows.append(row | errors(x, estimator.signs_, paths, sources))
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    shared = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(os.environ.get("NEUCMDS_DATA", shared)),
    )
    parser.add_argument(
        "--only", nargs="+", default=["helsinki", "jinan", "lakes"]
    )
    parser.add_argument(
        "--record", type=Path, default=RECORDS / "graph_pairs.json"
    )
    arguments = parser.parse_args()
    record: dict[str, Any] = {
        "machine": machine(),
        "versions": versions("numpy", "scipy"),
        "k": K,
    }
    record["rows"] = []
    for name in arguments.only:
        graph = lakes() if name == "lakes" else streets(arguments.data, name)
        record["rows"] += study(name, graph)
    write_record(arguments.record, record)


if __name__ == "__main__":
    main()
