"""Whether one more coordinate ever ends higher: `python -m benchmarks.nested --seconds 300`.

A fit in k + 1 coordinates does not start from that in k, though a zero column would make it as low.
Random small tables are fitted in 1 to 4 coordinates, and the losses of neighbouring k compared.
Counted are steps to a loss above 1e-6 of its value at D̂ = 0; below, both fits are exact.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import cdist

import neucmds
from neucmds import neuc_mds

RECORD = Path(__file__).parent / "records" / "nested.json"
KINDS = (
    "cityblock",
    "snowflake",
    "noise",
    "bray-curtis",
    "graph",
    "lognormal",
    "twins",
    "noisy Euclidean",
)
LOSSES = ("relative", "distance", "absolute")
MOST = 4
# Losses that differ by less are equal up to the tolerance of the descent.
TOLERANCE = 1e-3


def main() -> None:
    """Fit tables of rising seeds for so many seconds of CPU time, and write the record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--output", type=Path, default=RECORD)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    end = time.process_time() + given.seconds
    seed = given.start
    ratios: list[float] = []
    above: list[dict[str, Any]] = []
    while time.process_time() < end:
        loss = LOSSES[seed % len(LOSSES)]
        kind, D = table(seed)
        values = losses(D, loss)
        for k, (fewer, more) in enumerate(pairwise(values), start=1):
            if more <= 1e-6:
                continue
            ratios.append(more / fewer)
            if more > fewer * (1 + TOLERANCE):
                case = {"seed": seed, "kind": kind, "n": len(D), "k": k}
                above.append(case | {"loss": loss, "ratio": more / fewer})
                print(above[-1])
        seed += 1
    record = {
        "version": neucmds.__version__,
        "machine": platform.machine(),
        "seeds": [given.start, seed - 1],
        "steps": len(ratios),
        "largest_ratio": max(ratios),
        "above": above,
    }
    given.output.write_text(json.dumps(record, indent=1) + "\n")
    print(
        f"{len(ratios)} steps, {len(above)} above, largest {max(ratios):.4f}"
    )


def losses(D: Any, loss: str) -> list[float]:
    """Return the loss in 1 to `MOST` coordinates, in units of its value at D̂ = 0."""
    d = D[np.triu_indices(len(D), 1)]
    unit = len(d) if loss != "distance" else float(d @ d)
    return [
        neuc_mds(D, k, loss=loss).loss_value / unit for k in range(1, MOST + 1)
    ]


def table(seed: int) -> tuple[str, Any]:
    """Return a kind of dissimilarities, and those of 10 to 40 objects."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(10, 41))
    kind = str(rng.choice(KINDS))
    x = rng.normal(size=(n, rng.integers(2, 8)))
    if kind == "cityblock":
        return kind, cdist(x, x, "cityblock")
    if kind == "snowflake":
        return kind, np.sqrt(cdist(x, x, "chebyshev"))
    if kind == "noise":
        D = rng.uniform(0.1, 1, size=(n, n))
        return kind, np.triu(D, 1) + np.triu(D, 1).T
    if kind == "bray-curtis":
        counts = rng.poisson(rng.gamma(0.5, 3, size=20), size=(n, 20))
        counts[:, 0] += 1
        return kind, cdist(counts, counts, "braycurtis")
    if kind == "graph":
        edges = np.zeros((n, n))
        for i in range(1, n):
            edges[i, rng.integers(0, i)] = 1
        more = rng.integers(0, n, size=(rng.integers(0, n), 2))
        edges[more[:, 0], more[:, 1]] = 1
        np.fill_diagonal(edges, 0)
        return kind, shortest_path(edges, directed=False, unweighted=True)
    if kind == "lognormal":
        x = np.exp(1.5 * x)
    if kind == "twins":
        apart = 10.0 ** -rng.integers(1, 4)
        x = np.repeat(x[: (n + 1) // 2], 2, axis=0)[:n]
        x = x + apart * rng.normal(size=x.shape)
    D = cdist(x, x)
    if kind == "noisy Euclidean":
        noise = np.exp(0.5 * rng.normal(size=(n, n)))
        D = D * np.sqrt(noise * noise.T)
    return kind, D


if __name__ == "__main__":
    main()
