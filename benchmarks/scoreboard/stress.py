"""Stress against CPU seconds: graph layouts and feature sets, beside s_gd2, pymde and scikit-learn.

    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 NEUCMDS_DATA=… \
        python benchmarks/scoreboard/stress.py --graphs FOLDER [word]

FOLDER holds the edge lists of `data` in github.com/jxz12/s_gd2 (Zheng et al. 2019), most of them of
the SuiteSparse collection; d is the number of hops in the largest component. Feature sets are those
of scikit-learn, and of the folder NEUCMDS_DATA. 16 cells: a set, 2 or 10 coordinates, and weights
of one or of 1/d². The value is the stress Σw(d̂ − d)² / Σwd² over all pairs.

All coordinates are Euclidean, ours too: `neuc_mds(d, (k, 0), loss="distance", weights=w)`. A system
runs with several settings, each run from its own start; runs of different systems alternate in one
process and on one thread, and time is CPU time from d in memory to coordinates. After a run of more
than `LIMIT` seconds, the longer settings of that system are left out. The final value of a system
is the lowest of its runs. "To 1 %" is the time of its fastest run within 1 % of the lowest final
value of the others, which are `RIVALS`.

s_gd2 has two coordinates or three, and scikit-learn no weights: each is missing in some cells. At
10,000 objects, programs that need all pairs are left out: neucmds fits landmarks and places the
others, or fits a sample of pairs, near and random ones, as pymde fits random ones; the value is
that of two million others.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, shortest_path
from scipy.spatial.distance import pdist, squareform
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_sample_image,
)
from sklearn.feature_extraction.image import extract_patches_2d
from sklearn.manifold import MDS
from sklearn.preprocessing import scale

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import measure
from neucmds import neuc_mds

with measure.needed("s_gd2", "torch", "pymde"):
    import torch

RECORD = measure.RECORDS / "stress.json"
RIVALS = ("s_gd2", "pymde", "scikit-learn")
PLAIN, INVERSE = "1", "1/d²"
# Set, number of coordinates, weights.
CELLS = (
    ("dwt_1005", 2, INVERSE),
    ("dwt_2680", 2, INVERSE),
    ("1138_bus", 2, INVERSE),
    ("EVA", 2, INVERSE),
    ("digits", 2, INVERSE),
    ("qh882", 2, PLAIN),
    ("email", 2, PLAIN),
    ("dwt_1005", 2, PLAIN),
    ("patches", 2, PLAIN),
    ("CSphd", 10, PLAIN),
    ("harvard500", 10, PLAIN),
    ("dwt_2680", 10, PLAIN),
    ("fashion-mnist", 10, PLAIN),
    ("qh882", 10, INVERSE),
    ("email", 10, INVERSE),
    ("breast cancer", 10, INVERSE),
)
SAMPLED = "patches"
N_PATCHES = 10_000
LIMIT = 40.0
SEED = 0
Run = Callable[[], np.ndarray]
Row = dict[str, Any]


def hops(path: Path) -> np.ndarray:
    """Return hops in the largest component of a list of edges."""
    edges = np.loadtxt(path, dtype=int, usecols=(0, 1))
    n = edges.max() + 1
    ones = np.ones(len(edges))
    graph = coo_array((ones, tuple(edges.T)), shape=(n, n)).tocsr()
    labels = connected_components(graph, directed=False)[1]
    kept = np.flatnonzero(labels == np.bincount(labels).argmax())
    return shortest_path(graph[kept][:, kept], directed=False, unweighted=True)


def features(name: str) -> np.ndarray:
    if name == "digits":
        return load_digits().data
    if name == "breast cancer":
        return scale(load_breast_cancer().data)
    if name == "fashion-mnist":
        folder = Path(os.environ["NEUCMDS_DATA"]) / "images"
        images = np.load(folder / "fashion_mnist.npz")["x"]
        return images.reshape(len(images), -1).astype(float)
    picture = load_sample_image("china.jpg")
    patches = extract_patches_2d(
        picture, (8, 8), max_patches=N_PATCHES, random_state=SEED
    )
    return patches.reshape(N_PATCHES, -1).astype(float)


def load(name: str, graphs: Path) -> np.ndarray:
    """Return all d of a set."""
    path = graphs / f"{name}.txt"
    if path.exists():
        return hops(path)
    return squareform(pdist(features(name)))


def ours(d: np.ndarray, k: int, w: np.ndarray | None) -> dict[str, Run]:
    fit = partial(neuc_mds, d, (k, 0), loss="distance", weights=w)
    settings = {
        "n_init=1, max_iter=5": {"n_init": 1, "max_iter": 5},
        "n_init=1, max_iter=10": {"n_init": 1, "max_iter": 10},
        "n_init=1, max_iter=50": {"n_init": 1, "max_iter": 50},
        "n_init=1": {"n_init": 1},
        "n_init=1, tol=1e-7": {"n_init": 1, "tol": 1e-7},
        "n_init=4": {"n_init": 4},
    }
    return {
        name: lambda given=given: fit(**given).coordinates
        for name, given in settings.items()
    }


def by_s_gd2(d: np.ndarray, k: int, w: np.ndarray | None) -> dict[str, Run]:
    if k > 3:
        return {}
    with measure.needed("s_gd2"):
        import s_gd2
    n = len(d)
    pairs = squareform(d, checks=False)
    weights = np.ones_like(pairs)
    if w is not None:
        weights = squareform(w, checks=False)

    def run(t_max: int, seed: int) -> np.ndarray:
        etas = s_gd2.default_schedule(weights, t_max=t_max)
        return s_gd2.mds_direct(n, pairs, weights, etas, random_seed=seed)

    settings = [(8, 0), (15, 0), (30, 0), (60, 0), (60, 1)]
    return {
        f"t_max={t_max}, seed {seed}": partial(run, t_max, seed)
        for t_max, seed in settings
    }


def by_pymde(
    edges: np.ndarray, d: np.ndarray, w: np.ndarray, n: int, k: int
) -> dict[str, Run]:
    """Return runs on listed pairs, from random starts as pymde takes them."""
    # pymde loads torchvision for the data that it downloads, and for nothing else.
    sys.modules.setdefault("torchvision", types.ModuleType("torchvision"))
    with measure.needed("pymde"):
        import pymde

    def run(max_iter: int, seed: int) -> np.ndarray:
        pymde.seed(seed)
        loss = pymde.losses.WeightedQuadratic(
            torch.tensor(d, dtype=torch.float32),
            torch.tensor(w, dtype=torch.float32),
        )
        problem = pymde.MDE(n, k, torch.tensor(edges), loss)
        return problem.embed(max_iter=max_iter).numpy().astype(float)

    settings = [(30, 0), (100, 0), (300, 0), (300, 1)]
    return {
        f"max_iter={max_iter}, seed {seed}": partial(run, max_iter, seed)
        for max_iter, seed in settings
    }


def by_scikit_learn(
    d: np.ndarray, k: int, w: np.ndarray | None
) -> dict[str, Run]:
    if w is not None:
        return {}
    fit = partial(MDS, k, metric="precomputed", random_state=SEED)
    classical = partial(fit, init="classical_mds", n_init=1)
    return {
        f"max_iter={max_iter}": lambda m=max_iter: classical(
            max_iter=m
        ).fit_transform(d)
        for max_iter in (30, 300)
    }


def of_all_pairs(
    d: np.ndarray, k: int, weighting: str
) -> tuple[dict[str, dict[str, Run]], Callable[[np.ndarray], float]]:
    """Return the runs of every system, and the function that measures stress."""
    w = None
    pairs = squareform(d, checks=False)
    weights = np.ones_like(pairs)
    if weighting == INVERSE:
        weights = 1 / pairs**2
        w = squareform(weights)
    total = np.sum(weights * pairs**2)

    def stress(x: np.ndarray) -> float:
        return float(np.sum(weights * (pdist(x) - pairs) ** 2) / total)

    edges = np.stack(np.triu_indices(len(d), 1), axis=1)
    runs = {
        "neucmds": ours(d, k, w),
        "s_gd2": by_s_gd2(d, k, w),
        "pymde": by_pymde(edges, pairs, weights, len(d), k),
        "scikit-learn": by_scikit_learn(d, k, w),
    }
    return runs, stress


def of_samples(
    data: np.ndarray, k: int
) -> tuple[dict[str, dict[str, Run]], Callable[[np.ndarray], float]]:
    """Return runs on landmarks or samples of pairs, and the stress of other pairs."""
    n = len(data)
    rng = np.random.default_rng(SEED)

    def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
        edges = rng.integers(0, n, (count, 2))
        edges = edges[edges[:, 0] != edges[:, 1]]
        edges.sort(axis=1)
        edges = np.unique(edges, axis=0)
        apart = data[edges[:, 0]] - data[edges[:, 1]]
        return edges, np.linalg.norm(apart, axis=1)

    held_out, d = draw(2_000_000)

    def stress(x: np.ndarray) -> float:
        fitted = np.linalg.norm(x[held_out[:, 0]] - x[held_out[:, 1]], axis=1)
        return float(np.sum((fitted - d) ** 2) / np.sum(d**2))

    fit = partial(neuc_mds, data, (k, 0), loss="distance", metric="euclidean")

    def by_edges(per_object: int, seed: int) -> np.ndarray:
        edges, apart = draw(per_object * n // 2)
        runs = by_pymde(edges, apart, np.ones_like(apart), n, k)
        return runs[f"max_iter=300, seed {seed}"]()

    settings = [{"landmarks": count} for count in (500, 1000, 2000)]
    settings += [{"n_pairs": count} for count in (100, 400)]
    own = {
        str(given): lambda given=given: fit(**given).coordinates
        for given in settings
    }
    other = {
        f"{count} pairs, seed {seed}": partial(by_edges, count, seed)
        for count, seed in ((25, 0), (50, 0), (100, 0), (100, 1))
    }
    return {"neucmds": own, "pymde": other}, stress


def alternating(
    runs: dict[str, dict[str, Run]],
) -> Iterator[tuple[str, str, Run]]:
    """Yield the first setting of every system, then the second of every one, and so on."""
    for turn in zip_longest(*(settings.items() for settings in runs.values())):
        for system, entry in zip(runs, turn, strict=True):
            if entry is not None:
                yield system, *entry


def measured(
    cell: tuple[str, int, str], graphs: Path, system: str
) -> list[Row]:
    """Return the rows of one cell, of all systems or of one."""
    name, k, weighting = cell
    if name == SAMPLED:
        data = features(name)
        runs, stress = of_samples(data, k)
    else:
        data = load(name, graphs)
        runs, stress = of_all_pairs(data, k, weighting)
    if system:
        runs = {system: runs[system]}
    rows = []
    slowest: dict[str, float] = {}
    for system, setting, run in alternating(runs):
        if slowest.get(system, 0.0) > LIMIT:
            continue
        begin = time.process_time()
        x = run()
        seconds = time.process_time() - begin
        slowest[system] = max(slowest.get(system, 0.0), seconds)
        rows.append(
            {
                "set": name,
                "n": len(data),
                "k": k,
                "weights": weighting,
                "system": system,
                "setting": setting,
                "cpu_seconds": seconds,
                "stress": stress(x),
            }
        )
        print(rows[-1], flush=True)
    return rows


def cell_of(row: Row) -> tuple[str, int, str]:
    return row["set"], row["k"], row["weights"]


def summary(rows: list[Row]) -> Row:
    """Return the final values and times of one cell, and whether ours is lowest and fastest."""
    final: dict[str, float] = {}
    for row in rows:
        before = final.get(row["system"], np.inf)
        final[row["system"]] = min(before, row["stress"])
    best_rival = min(final[system] for system in RIVALS if system in final)
    seconds = {}
    for system in final:
        near = [
            row["cpu_seconds"]
            for row in rows
            if row["system"] == system and row["stress"] <= 1.01 * best_rival
        ]
        seconds[system] = min(near, default=None)
    reached = [
        seconds[system] for system in RIVALS if seconds.get(system) is not None
    ]
    own = seconds["neucmds"]
    name, k, weighting = cell_of(rows[0])
    return {
        "set": name,
        "n": rows[0]["n"],
        "k": k,
        "weights": weighting,
        "final": final,
        "to_1_percent": seconds,
        "above_best": final["neucmds"] / best_rival - 1,
        "lowest": final["neucmds"] <= 1.001 * best_rival,
        "fastest": own is not None and own <= min(reached),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("word", nargs="?", default="")
    parser.add_argument("--system", default="", help="this one alone")
    parser.add_argument("--graphs", type=Path, default=Path())
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument(
        "--merge", type=Path, nargs="+", default=[], help="records to take in"
    )
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rows: list[Row] = []
    if given.record.exists():
        rows = json.loads(given.record.read_text())["rows"]
    if given.merge:
        records = [json.loads(path.read_text()) for path in given.merge]
        for record in records:
            new = {(*cell_of(row), row["system"]) for row in record["rows"]}
            rows = [
                row
                for row in rows
                if (*cell_of(row), row["system"]) not in new
            ]
            rows += record["rows"]
        write(given.record, rows, records[0]["machine"])
        return
    for cell in CELLS:
        if given.word not in f"{cell[0]} {cell[1]} {cell[2]}":
            continue
        rows = [
            row
            for row in rows
            if cell_of(row) != cell or given.system not in ("", row["system"])
        ]
        rows += measured(cell, given.graphs, given.system)
        write(given.record, rows, measure.machine())


def write(path: Path, rows: list[Row], machine: Row) -> None:
    cells = []
    for cell in CELLS:
        own = [row for row in rows if cell_of(row) == cell]
        if own:
            cells.append(summary(own))
    record = {
        "machine": machine,
        "versions": measure.versions(
            "s_gd2", "pymde", "torch", "scikit-learn", "numpy", "scipy"
        ),
        "lowest": sum(entry["lowest"] for entry in cells),
        "fastest": sum(entry["fastest"] for entry in cells),
        "cells": cells,
        "rows": rows,
    }
    print(record["lowest"], record["fastest"], len(cells), flush=True)
    measure.write_record(path, record)


if __name__ == "__main__":
    main()
