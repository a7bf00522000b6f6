"""The relative loss flat and curved: error of d, near pairs and neighbours kept, and the time.

    NEUCMDS_DATA=… python benchmarks/curvature.py                all sets
    NEUCMDS_DATA=… python benchmarks/curvature.py Helsinki       names that contain a word
    NEUCMDS_DATA=… python benchmarks/curvature.py --device cuda  with torch, on a GPU

Near pairs are those of an object and one of its ten nearest. Rows of a set and k replace those that
the record has of them.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, dijkstra, shortest_path

import losses
import measure
import real_data
from neucmds import neuc_mds
from neucmds._backend.arrays import to_numpy

RECORD = measure.RECORDS / "curvature.json"
Floats = np.ndarray


def hops(name: str) -> Floats:
    """Hops in the largest part of a graph."""
    edges = np.load(losses._file("graphs", f"{name}.npz"))["edges"]
    n = int(edges.max()) + 1
    graph = coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(n, n)).tocsr()
    part = connected_components(graph, directed=False)[1]
    ids = np.flatnonzero(part == np.argmax(np.bincount(part)))
    return shortest_path(graph[ids][:, ids], directed=False, unweighted=True)


def streets() -> Floats:
    """Shortest ways between all nodes of central Helsinki, in metres."""
    content = np.load(losses._file("networks", "helsinki.npz"))
    edges, nodes = content["edges"], content["xy"].shape[0]
    graph = coo_array((content["length"], (edges[:, 0], edges[:, 1])), shape=(nodes, nodes))
    ways = dijkstra(graph.tocsr(), directed=False)
    return (ways + ways.T) / 2


def table(name: str) -> Floats:
    D = real_data.load_dissimilarity(name).dissimilarity
    return losses._hollow((D + D.T) / 2)


CASES: dict[str, tuple[Callable[[], Floats], tuple[int, ...]]] = {
    "CS PhDs": (lambda: hops("csphd"), (10,)),
    "power grid": (lambda: hops("power"), (10,)),
    "enterotypes": (lambda: table("enterotype280_braycurtis"), (5,)),
    "proteins": (lambda: table("protein213"), (5,)),
    "PlanetLab": (losses._latency, (10,)),
    "digits 5-NN hops": (losses._digits, (20,)),
    "Helsinki crossings": (losses._streets, (16, 32)),
    "Helsinki, all nodes": (streets, (16, 64)),
}


def row(D: Floats, k: int, curvature: float | str, device: str) -> dict[str, Any]:
    """Fit, and measure on all pairs."""
    data: Any = D
    if device != "cpu":
        import torch

        data = torch.as_tensor(D, device=device)
    start = time.perf_counter()
    found = neuc_mds(data, k, loss="relative", curvature=curvature)
    fitted = to_numpy(found.dissimilarities(scale="distance"))
    seconds = time.perf_counter() - start
    others = D + np.diag(np.full(len(D), np.inf))
    near = np.argpartition(others, 9, axis=1)[:, :10]
    d, d_hat = (np.take_along_axis(one, near, axis=1) for one in (D, fitted))
    errors = np.abs(d_hat[d > 0] / d[d > 0] - 1)
    of_all = losses.measures(D, to_numpy(found.dissimilarities()))
    upper = np.triu(D, 1) > 0
    relative = np.abs(fitted[upper] / D[upper] - 1)
    return {
        "k": k,
        "asked": curvature,
        "curvature": found.curvature,
        "signature": found.signature,
        "floor": found.floor,
        "mean_error": float(relative.mean()),
        "p99_error": float(np.quantile(relative, 0.99)),
        "near_error": float(errors.mean()),
        "near_p99": float(np.quantile(errors, 0.99)),
        "recall_10": of_all["recall_10"],
        "seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("word", nargs="?", default="")
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = json.loads(RECORD.read_text(encoding="utf-8"))["rows"] if RECORD.exists() else []
    for name, (load, ks) in CASES.items():
        if given.word not in name:
            continue
        D = load()
        for k in ks:
            made = [row(D, k, curvature, given.device) for curvature in (0, "auto")]
            own = [{"set": name, "n": len(D), "device": given.device, **one} for one in made]
            rows = [one for one in rows if (one["set"], one["k"]) != (name, k)] + own
            print(*own, sep="\n", flush=True)
            facts = {"machine": measure.machine(), "versions": measure.versions("neucmds", "numpy")}
            measure.write_record(RECORD, {**facts, "rows": rows})


if __name__ == "__main__":
    main()
