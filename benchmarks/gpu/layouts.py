"""Stress of layouts by all pairs on one GPU: neucmds beside pymde.

    NEUCMDS_DATA=… python benchmarks/gpu/layouts.py --graphs FOLDER [--device cuda]

Cells, weights and stress are those of benchmarks/scoreboard/stress.py, whose `--graphs` this is. d
and the pairs are on the device when the clock starts; it stops when the coordinates are there. Each
program runs once before, on some of the objects, to load its kernels. pymde starts at random, in
single precision, once for each of two seeds; neucmds from its one usual start.
"""

from __future__ import annotations

import argparse
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.spatial.distance import pdist, squareform

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scoreboard"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import stress

import measure
from neucmds import neuc_mds
from neucmds.backend.arrays import to_numpy

RECORD = measure.RECORDS / "gpu_layouts.json"
# Set, number of coordinates, weights: the larger ones with all pairs.
CELLS = (
    ("dwt_2680", 2, stress.INVERSE),
    ("EVA", 2, stress.INVERSE),
    ("digits", 2, stress.INVERSE),
    ("dwt_2680", 10, stress.PLAIN),
    ("fashion-mnist", 10, stress.PLAIN),
)
# Objects of the run that loads the kernels.
FEW = 700
Row = dict[str, Any]


def by_neucmds(
    d: np.ndarray, k: int, w: np.ndarray | None, device: str
) -> Callable[[int], Any]:
    on_device = torch.asarray(d, device=device)
    weights = None
    if w is not None:
        weights = torch.asarray(w, device=device)

    def run(_: int) -> Any:
        return neuc_mds(
            on_device, (k, 0), loss="distance", weights=weights, n_init=1
        ).coordinates

    return run


def by_pymde(
    d: np.ndarray, k: int, w: np.ndarray | None, device: str
) -> Callable[[int], Any]:
    # pymde loads torchvision for the data that it downloads, and for nothing else.
    sys.modules.setdefault("torchvision", types.ModuleType("torchvision"))
    with measure.needed("pymde"):
        import pymde

    n = len(d)
    rows, columns = np.triu_indices(n, 1)
    edges = torch.asarray(np.stack([rows, columns], axis=1), device=device)
    deviations = torch.asarray(
        d[rows, columns], dtype=torch.float32, device=device
    )
    weights = torch.ones_like(deviations)
    if w is not None:
        weights = torch.asarray(
            w[rows, columns], dtype=torch.float32, device=device
        )

    def run(seed: int) -> Any:
        pymde.seed(seed)
        loss = pymde.losses.WeightedQuadratic(deviations, weights)
        problem = pymde.MDE(n, k, edges, loss, device=device)
        return problem.embed(max_iter=300)

    return run


PROGRAMS = {"neucmds": (by_neucmds, (0,)), "pymde": (by_pymde, (0, 1))}


def timed(
    run: Callable[[int], Any], seed: int, device: str
) -> tuple[float, Any]:
    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    wait()
    begin = time.perf_counter()
    x = run(seed)
    wait()
    return time.perf_counter() - begin, x


def measured(
    cell: tuple[str, int, str], graphs: Path, device: str
) -> Iterator[Row]:
    """Yield the rows of one cell."""
    name, k, weighting = cell
    d = stress.load(name, graphs)
    pairs = squareform(d, checks=False)
    counts = np.ones_like(pairs)
    w = None
    if weighting == stress.INVERSE:
        counts = 1 / pairs**2
        w = squareform(counts)
    total = np.sum(counts * pairs**2)
    for program, (runs_of, seeds) in PROGRAMS.items():
        few = None if w is None else w[:FEW, :FEW]
        timed(runs_of(d[:FEW, :FEW], k, few, device), 0, device)
        run = runs_of(d, k, w, device)
        for seed in seeds:
            seconds, x = timed(run, seed, device)
            errors = pdist(to_numpy(x).astype(float)) - pairs
            yield {
                "set": name,
                "n": len(d),
                "k": k,
                "weights": weighting,
                "program": program,
                "seed": seed,
                "seconds": seconds,
                "stress": float(np.sum(counts * errors**2) / total),
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=Path, default=Path())
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--record", type=Path, default=RECORD)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    device = "CPU"
    if given.device == "cuda":
        device = torch.cuda.get_device_name()
    rows = []
    for cell in CELLS:
        for row in measured(cell, given.graphs, given.device):
            rows.append(row)
            print(row, flush=True)
            record = {
                "device": device,
                "versions": measure.versions("pymde", "torch", "numpy"),
                "rows": rows,
            }
            measure.write_record(given.record, record)


if __name__ == "__main__":
    main()
