"""Six public graphs with ten numbers per node: one call of neucmds beside published values.

    NEUCMDS_DATA=… python benchmarks/scoreboard/published_graphs.py [name …]
    NEUCMDS_DATA=… python benchmarks/scoreboard/published_graphs.py --device cpu cuda --jobs 12
    NEUCMDS_DATA=… python benchmarks/scoreboard/published_graphs.py --folds --jobs 12

The mean of |d̂/d − 1| over all pairs of nodes of the largest part, d the shortest path between them.
Published are the best of Gu et al., "Learning mixed-curvature representations in product spaces"
(ICLR 2019), and of the metric spaces and the mixed or non-metric spaces of Shevkunov and
Prokhorenkova, "Overlapping spaces for compact graph representations" (NeurIPS 2021): the least in
the supplement and the notebooks of the latter's repository,
shevkunov/overlapping-spaces-for-compact-graph-representations. Those of Gu et al. are in table 2 of
the supplement. Those of metric spaces are in its table 3 (Facebook), in
reviews_ttl_distortion-ttl3 (USCA312, CS PhDs, power grid) and in more_graph_exp* (WLA6, eu-core);
all mixed or non-metric ones are in more_graph_exp*, that of eu-core the best of three runs in
more_graph_exp_wips. Folds: a fifth of the nodes is placed by its paths to the others, with heights
and the curvature that the record has of the whole graph.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components, shortest_path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import measure
from neucmds import evaluate, neuc_mds
from neucmds.backend.arrays import to_numpy

RECORD = measure.RECORDS / "published_graphs.json"
K = 10
FOLDS = 5
# File, then Gu et al., metric spaces, mixed or non-metric spaces.
PUBLISHED: dict[str, tuple[str, float | None, float, float]] = {
    "USCA312": ("usca312", 0.0593, 0.0026, 0.0028),
    "CS PhDs": ("csphd", 0.0357, 0.0273, 0.0220),
    "power grid": ("power", 0.0323, 0.0210, 0.0235),
    "Facebook": ("facebook", 0.0402, 0.0318, 0.0160),
    "WLA6": ("wla6", None, 0.0270, 0.0187),
    "eu-core": ("eu_core", None, 0.1106, 0.0982),
}


def path_lengths(file: str) -> np.ndarray:
    """Return shortest paths between all nodes of the largest part of a graph."""
    folder = Path(os.environ["NEUCMDS_DATA"]) / "graphs"
    stored = np.load(folder / f"{file}.npz")
    first, second = stored["edges"].T
    n = int(stored["edges"].max()) + 1
    lengths = np.ones(first.size)
    has_lengths = "length" in stored.files
    if has_lengths:
        lengths = stored["length"].astype(np.float64)
    edges = sparse.coo_array((lengths, (first, second)), shape=(n, n)).tocsr()
    edges = edges.maximum(edges.T)
    _, part = connected_components(edges, directed=False)
    kept = np.flatnonzero(part == np.bincount(part).argmax())
    edges = edges[kept][:, kept]
    return shortest_path(edges, directed=False, unweighted=not has_lengths)


def on(device: str, D: np.ndarray) -> Any:
    """Return D in the memory of a device."""
    if device == "cpu":
        return D
    import torch

    return torch.asarray(D, device=device)


def mean_error(fitted: np.ndarray, given: np.ndarray) -> float:
    """Return the mean of |d̂/d − 1| where d > 0."""
    known = given > 0
    return float(np.abs(fitted[known] / given[known] - 1).mean())


def graph_row(name: str, device: str, seed: int) -> dict[str, Any]:
    file, gu, metric, mixed = PUBLISHED[name]
    D = path_lengths(file)
    data = on(device, D)
    start = time.perf_counter()
    cpu_start = time.process_time()
    emb = neuc_mds(
        data,
        K,
        loss="absolute",
        curvature="auto",
        heights="auto",
        random_state=seed,
    )
    cpu_seconds = time.process_time() - cpu_start
    seconds = time.perf_counter() - start
    fitted = to_numpy(emb.dissimilarities())
    off = D > 0
    errors = np.abs(fitted[off] / D[off] - 1)
    return {
        "name": name,
        "n": len(D),
        "device": device,
        "seconds": round(seconds, 1),
        "cpu seconds": round(cpu_seconds, 1),
        "converged": emb.info.converged,
        "signature": list(emb.signature),
        "heights": emb.heights is not None,
        "curvature": emb.curvature,
        "mean error": float(errors.mean()),
        "p99 error": float(np.quantile(errors, 0.99)),
        "recall@10": evaluate(emb, D).neighbors_kept,
        "Gu et al.": gu,
        "metric spaces": metric,
        "mixed spaces": mixed,
    }


def fold(
    name: str, device: str, known: dict[str, Any], number: int
) -> tuple[float, float]:
    """Return mean errors among four fifths of the nodes, and of the last fifth placed there."""
    D = path_lengths(PUBLISHED[name][0])
    order = np.random.default_rng(0).permutation(len(D))
    negatives = known["signature"][1]
    signature = (K - 1 - negatives, negatives)
    out = np.array_split(order, FOLDS)[number]
    inside = np.setdiff1d(order, out)
    among = D[np.ix_(inside, inside)]
    rows = D[np.ix_(out, inside)]
    emb = neuc_mds(
        on(device, among),
        signature,
        loss="absolute",
        curvature=known["curvature"],
        heights=True,
        random_state=0,
    )
    new = emb.transform(on(device, rows))
    fitted = mean_error(to_numpy(emb.dissimilarities()), among)
    placed = mean_error(to_numpy(emb.between(new, emb.coordinates)), rows)
    return fitted, placed


def write(path: Path, part: str, new: dict[str, Any]) -> None:
    """Put a row in the place of that which the record has of the same graph and device."""
    content: dict[str, Any] = {"rows": [], "folds": []}
    if path.exists():
        content = json.loads(path.read_text())
    others = [
        old
        for old in content[part]
        if (old["name"], old["device"]) != (new["name"], new["device"])
    ]
    content |= {
        "machine": measure.machine(),
        "versions": measure.versions("numpy", "scipy", "torch"),
        part: [*others, new],
    }
    print(json.dumps(new), flush=True)
    measure.write_record(path, content)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", nargs="+", default=["cpu"])
    parser.add_argument("--folds", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("names", nargs="*", default=list(PUBLISHED))
    asked = parser.parse_args()
    known = {}
    if asked.folds:
        if not asked.record.exists():
            parser.error("--folds takes curvatures of a record: run without")
        rows = json.loads(asked.record.read_text())["rows"]
        known = {(row["name"], row["device"]): row for row in rows}
    with ProcessPoolExecutor(
        asked.jobs, mp_context=get_context("spawn")
    ) as pool:
        tasks = [(name, one) for name in asked.names for one in asked.device]
        if not asked.folds:
            calls = [
                pool.submit(graph_row, *task, asked.seed) for task in tasks
            ]
            for call in as_completed(calls):
                write(asked.record, "rows", call.result())
            return
        folds = {
            task: [
                pool.submit(fold, *task, known[task], number)
                for number in range(FOLDS)
            ]
            for task in tasks
        }
        for (name, device), calls in folds.items():
            errors = np.array([call.result() for call in calls])
            print(name, errors.tolist(), flush=True)
            fitted, placed = errors.mean(axis=0).tolist()
            new = {
                "name": name,
                "device": device,
                "signature": known[name, device]["signature"],
                "curvature": known[name, device]["curvature"],
                "fitted": fitted,
                "placed": placed,
                "ratio": placed / fitted,
            }
            write(asked.record, "folds", new)


if __name__ == "__main__":
    main()
