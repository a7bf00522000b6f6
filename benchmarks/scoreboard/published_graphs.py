"""Six public graphs with ten numbers per node: one call of neucmds beside published values.

    NEUCMDS_DATA=… python benchmarks/scoreboard/published_graphs.py [--device cuda] [name …]

The mean of |d̂/d − 1| over all pairs of nodes of the largest part, d the shortest path between them.
Published are the best of Gu et al., "Learning mixed-curvature representations in product spaces"
(ICLR 2019), and of the metric spaces and the mixed or non-metric spaces of Shevkunov and
Prokhorenkova, "Overlapping spaces for compact graph representations" (NeurIPS 2021).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
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
# File, then Gu et al., metric spaces, mixed or non-metric spaces.
PUBLISHED: dict[str, tuple[str, float | None, float, float]] = {
    "USCA312": ("usca312", 0.0593, 0.0032, 0.0028),
    "CS PhDs": ("csphd", 0.0357, 0.0300, 0.0220),
    "power grid": ("power", 0.0323, 0.0231, 0.0235),
    "Facebook": ("facebook", 0.0402, 0.0318, 0.0160),
    "WLA6": ("wla6", None, 0.0272, 0.0187),
    "eu-core": ("eu_core", None, 0.1106, 0.1024),
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


def row(name: str, device: str) -> dict[str, Any]:
    file, gu, metric, mixed = PUBLISHED[name]
    D = path_lengths(file)
    data: Any = D
    if device != "cpu":
        import torch

        data = torch.asarray(D, device=device)
    start = time.perf_counter()
    emb = neuc_mds(data, K, loss="absolute", curvature="auto", heights="auto")
    seconds = time.perf_counter() - start
    off = D > 0
    errors = np.abs(to_numpy(emb.dissimilarities())[off] / D[off] - 1)
    return {
        "name": name,
        "n": len(D),
        "device": device,
        "seconds": round(seconds, 1),
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("names", nargs="*", default=list(PUBLISHED))
    asked = parser.parse_args()
    rows = {}
    if RECORD.exists():
        rows = {one["name"]: one for one in json.loads(RECORD.read_text())}
    for name in asked.names:
        rows[name] = row(name, asked.device)
        print(json.dumps(rows[name]), flush=True)
        RECORD.write_text(json.dumps(list(rows.values()), indent=1) + "\n")


if __name__ == "__main__":
    main()
