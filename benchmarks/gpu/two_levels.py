"""Two levels on one GPU: up to ten million objects with features, and a graph of a million nodes.

    python benchmarks/gpu/two_levels.py [--n 100000 1000000 10000000] [--side 1090] [--record FILE]

*features*: 64 in float32 on a curved sheet of five dimensions, cityblock, k = 20, 20,000 landmarks.
`fit` embeds them, `transform` places all objects; both compute where the features lie. Errors are
those of 1,000 objects to the 10 nearest of all, and to as many at random. *graph*: the grid of
`million_graph.py`, k = 16, as a sparse tensor. It is searched on the CPU; the seconds of fit and
placement are those beyond the searches. `--side 0` leaves it out.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from million_graph import Study, walled_grid
from neucmds import LandmarkNeucMDS
from neucmds.problem.graph import as_graph

K, D, LANDMARKS, QUERIES = 20, 64, 20_000, 1000


def draw(n: int, device: str) -> torch.Tensor:
    """Draw points of 50 clusters on a curved sheet of five dimensions, with a little noise."""
    torch.manual_seed(0)
    centers, into = (
        torch.randn((50, 5), device=device),
        torch.randn((5, D), device=device),
    )
    turned, X = (
        torch.randn((5, D), device=device),
        torch.empty((n, D), device=device),
    )
    for start in range(0, n, 2**20):
        size = min(2**20, n - start)
        inner = centers[torch.randint(50, (size,), device=device)]
        inner = inner + 0.6 * torch.randn((size, 5), device=device)
        bent = torch.tanh(inner @ into / 5**0.5) + 0.3 * torch.sin(
            2 * inner @ turned
        )
        X[start : start + size] = bent + 0.01 * torch.randn(
            (size, D), device=device
        )
    return X


def errors(
    X: torch.Tensor, x: torch.Tensor, signs: torch.Tensor
) -> dict[str, float]:
    """Median relative errors, and the share of the ten nearest that are kept."""
    n, near, far, kept = len(X), [], [], []
    for one in torch.randperm(n)[:QUERIES].tolist():
        d = torch.cat(
            [(part - X[one]).abs().sum(dim=1) for part in X.split(2**20)]
        ).double()
        d_hat = ((x - x[one]).double() ** 2) @ signs
        d[one] = d_hat[one] = torch.inf
        nearest, drawn = (
            d.topk(10, largest=False).indices,
            torch.randint(n, (10,), device=X.device),
        )
        kept.append(
            torch.isin(d_hat.topk(10, largest=False).indices, nearest)
            .double()
            .mean()
        )
        for found, ids in ((near, nearest), (far, drawn[drawn != one])):
            found.append((d_hat[ids].clamp(min=0).sqrt() / d[ids] - 1).abs())
    medians = {
        "near_median": torch.cat(near).median(),
        "random_median": torch.cat(far).median(),
    }
    medians["recall10"] = torch.stack(kept).mean()
    return {name: round(float(value), 4) for name, value in medians.items()}


def measure(n: int, device: str) -> dict[str, Any]:
    """Fit landmarks and place n objects."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    X = draw(n, device)
    settings: dict[str, Any] = {
        "n_near": None,
        "metric": "cityblock",
        "loss": "relative",
    }
    est = LandmarkNeucMDS(K, min(LANDMARKS, n // 5), **settings)
    start = time.perf_counter()
    est.fit(X)
    fitted = time.perf_counter() - start
    start = time.perf_counter()
    x = est.transform(X)
    float(x.sum())  # waits for the device
    placed = time.perf_counter() - start
    signs = torch.as_tensor(est.signs_, device=x.device).double()
    row = {
        "what": "features",
        "n": n,
        "landmarks": int(est.landmarks_.size),
        "fit_seconds": round(fitted - placed, 1),  # it places all objects, too
        "place_seconds": round(placed, 2),
        "microseconds_per_object": round(placed / n * 1e6, 2),
    }
    if device == "cuda":
        row["peak_gb"] = round(torch.cuda.max_memory_allocated() / 1e9, 2)
    return row | errors(X, x, signs)


def measure_graph(side: int, device: str) -> dict[str, Any]:
    """Fit landmarks of a grid and place its nodes."""
    graph = as_graph(walled_grid(side, walls=side**2 // 400))
    study, stored = Study(graph), graph.tocoo()
    ends = torch.as_tensor(np.stack(stored.coords).astype(np.int64))
    lengths = torch.as_tensor(stored.data)
    shape = tuple(graph.shape)
    study.two_levels(
        torch.sparse_coo_tensor(ends, lengths, shape, device=device)
    )
    return {"n": int(graph.shape[0]), **study.rows[-1], "what": "graph"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--n", type=int, nargs="*", default=[10**5, 10**6, 10**7]
    )
    parser.add_argument("--side", type=int, default=1090)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    name = (
        torch.cuda.get_device_name() if arguments.device == "cuda" else "cpu"
    )
    record: dict[str, Any] = {
        "device": name,
        "torch": torch.__version__,
        "k": K,
        "rows": [],
    }

    def add(row: dict[str, Any]) -> None:
        record["rows"].append(row)
        print(json.dumps(row), flush=True)
        if arguments.record is not None:
            arguments.record.write_text(json.dumps(record, indent=1) + "\n")

    if arguments.n:
        measure(min(20_000, *arguments.n), arguments.device)  # compiles
    for n in arguments.n:
        add(measure(n, arguments.device))
    if arguments.side:
        add(measure_graph(arguments.side, arguments.device))


if __name__ == "__main__":
    main()
