"""Both directions of all pairs of a town with one-way streets, on one GPU.

    python benchmarks/gpu/directed.py --record benchmarks/records/gpu_directed.json

Lengths of paths are searched on the CPU, along directed edges, and D is put into device memory:
`neuc_mds(D, k, loss="relative", directed=True)`. Errors are |d̂/d − 1|: of pairs drawn at random,
and of 2,000 nodes and their ten nearest targets.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.sparse.csgraph import dijkstra

sys.path.insert(0, str(Path(__file__).parents[1]))

from neucmds import neuc_mds
from towns import town

NEAR = 10
ASKED = 2000


def paths(graph: Any, n_jobs: int = -1) -> np.ndarray:
    """Return lengths of all shortest paths, searched in processes."""
    n = graph.shape[0]
    parts = np.array_split(np.arange(n), 64)
    rows = Parallel(n_jobs=n_jobs)(
        delayed(dijkstra)(graph, indices=part) for part in parts
    )
    return np.concatenate(rows)


def measured(n: int, k: int, device: str) -> dict[str, Any]:
    """Fit all pairs of a town of about n nodes, and measure errors."""
    graph, _ = town(n)
    start = time.perf_counter()
    given = paths(graph)
    searched = time.perf_counter() - start
    n = len(given)
    D: Any = given
    on_gpu = device != "cpu"
    if on_gpu:
        import torch

        D = torch.as_tensor(given, device=device)
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
    start = time.perf_counter()
    emb = neuc_mds(D, k, loss="relative", directed=True)
    if on_gpu:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    peak = 0.0
    if on_gpu:
        peak = torch.cuda.max_memory_allocated() / 1e9
    rng = np.random.default_rng(0)
    asked = rng.permutation(n)[:ASKED]
    near = 0.0
    random = 0.0
    kept = 0.0
    for node in asked.tolist():
        row = given[node].copy()
        row[node] = np.inf
        sq = emb.dissimilarities([node], squared=True)
        sq_row = np.asarray(sq.cpu() if hasattr(sq, "cpu") else sq)[0].copy()
        sq_row[node] = np.inf
        nearest = np.argsort(row)[:NEAR]
        others = np.delete(np.arange(n), node)
        error = np.abs(
            np.sqrt(np.maximum(sq_row, 0))[others] / row[others] - 1
        )
        random += float(error.mean())
        of_near = np.sqrt(np.maximum(sq_row[nearest], 0)) / row[nearest]
        near += float(np.abs(of_near - 1).mean())
        kept += len({*nearest} & {*np.argsort(sq_row)[:NEAR]}) / NEAR
    return {
        "n": n,
        "k": k,
        "signature": emb.signature,
        "search_seconds": round(searched, 1),
        "fit_seconds": round(seconds, 2),
        "peak_gb": round(peak, 1),
        "mean": random / len(asked),
        "near": near / len(asked),
        "recall": kept / len(asked),
    }


def main() -> None:
    """Measure, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", type=Path)
    parser.add_argument("--n", type=int, default=20_000)
    parser.add_argument("--k", type=int, nargs="+", default=[8, 16])
    parser.add_argument("--device", default="cuda")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = [measured(2_000, 8, asked.device)]
    for k in asked.k:
        rows.append(measured(asked.n, k, asked.device))
        print(json.dumps(rows[-1]), flush=True)
    name = "CPU"
    if asked.device != "cpu":
        import torch

        name = torch.cuda.get_device_name()
    content = {"device": name, "rows": rows[1:]}
    if asked.record:
        asked.record.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
