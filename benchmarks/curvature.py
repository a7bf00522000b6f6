"""The relative loss flat and curved: error of d, near pairs and neighbours kept, and the time.

    NEUCMDS_DATA=… python benchmarks/curvature.py                all sets
    NEUCMDS_DATA=… python benchmarks/curvature.py Helsinki       names that contain a word
    NEUCMDS_DATA=… python benchmarks/curvature.py --device cuda  with torch, on a GPU
    NEUCMDS_DATA=… python benchmarks/curvature.py --heights --jobs 12
                                             every row without heights and with heights="auto", up
                                             to twelve processes at a time; prints the changes

Near pairs are those of an object and one of its ten nearest. Rows of a set and k replace those that
the record has of them. "sphere" and "disc" have a true κ, which is given and then looked for;
"floor" is the CPU time of a fit of 8,000 street nodes with the floor of today over that with half
of the 1 % quantile of d.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, dijkstra, shortest_path

import losses
import measure
import real_data
from neucmds import neuc_mds
from neucmds.backend.arrays import to_numpy

RECORD = measure.RECORDS / "curvature.json"
Floats = np.ndarray


def hops(name: str) -> Floats:
    """Hops in the largest part of a graph."""
    edges = np.load(losses._file("graphs", f"{name}.npz"))["edges"]
    n = int(edges.max()) + 1
    graph = coo_array(
        (np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(n, n)
    ).tocsr()
    part = connected_components(graph, directed=False)[1]
    ids = np.flatnonzero(part == np.argmax(np.bincount(part)))
    return shortest_path(graph[ids][:, ids], directed=False, unweighted=True)


def streets() -> Floats:
    """Shortest ways between all nodes of central Helsinki, in metres."""
    content = np.load(losses._file("networks", "helsinki.npz"))
    edges, nodes = content["edges"], content["xy"].shape[0]
    graph = coo_array(
        (content["length"], (edges[:, 0], edges[:, 1])), shape=(nodes, nodes)
    )
    ways = dijkstra(graph.tocsr(), directed=False)
    return (ways + ways.T) / 2


def strings() -> Floats:
    """Edit distances of 2,000 SMILES; needs rapidfuzz."""
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist

    words = (
        losses._file("strings", "nci_smiles.txt")
        .read_text(encoding="utf-8")
        .split()
    )
    words = [
        words[i]
        for i in np.random.default_rng(0).permutation(len(words))[:2000]
    ]
    return losses._hollow(cdist(words, words, scorer=Levenshtein.distance))


def sphere(n: int = 300) -> Floats:
    """Great-circle distances of random points of a sphere of radius one."""
    x = np.random.default_rng(0).normal(size=(n, 3))
    x /= np.linalg.norm(x, axis=1)[:, None]
    return losses._hollow(np.arccos(np.clip(x @ x.T, -1, 1)))


def disc(n: int = 300, radius: float = 3.0) -> Floats:
    """Distances of random points, uniform by area, of a disc of the hyperbolic plane."""
    rng = np.random.default_rng(1)
    r = np.arccosh(1 + rng.random(n) * (np.cosh(radius) - 1))
    t = rng.uniform(0, 2 * np.pi, n)
    x = np.c_[np.cosh(r), np.sinh(r) * np.cos(t), np.sinh(r) * np.sin(t)]
    return losses._hollow(np.arccosh(np.maximum(x * [1, -1, -1] @ x.T, 1)))


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
    "SMILES": (strings, (32,)),
}
# Distances with a true κ of ±1/d², and the signature that is exact.
TRUE = {"sphere": (sphere, (3, 0), 1.0), "disc": (disc, (2, 1), -1.0)}


def row(
    D: Floats,
    k: int,
    curvature: float | str,
    device: str,
    heights: bool | str = False,
) -> dict[str, Any]:
    """Fit, and measure on all pairs."""
    data: Any = D
    if device != "cpu":
        import torch

        data = torch.as_tensor(D, device=device)
    start = time.perf_counter()
    found = neuc_mds(
        data,
        k,
        loss="relative",
        curvature=curvature,
        heights=heights,
        random_state=0,
    )
    fitted = to_numpy(found.dissimilarities())
    seconds = time.perf_counter() - start
    others = D + np.diag(np.full(len(D), np.inf))
    near = np.argpartition(others, 9, axis=1)[:, :10]
    d, d_hat = (np.take_along_axis(one, near, axis=1) for one in (D, fitted))
    errors = np.abs(d_hat[d > 0] / d[d > 0] - 1)
    of_all = losses.measures(D, to_numpy(found.dissimilarities(squared=True)))
    upper = np.triu(D, 1) > 0
    relative = np.abs(fitted[upper] / D[upper] - 1)
    return {
        "k": k,
        "asked": curvature,
        "curvature": found.curvature,
        "signature": found.signature,
        "heights": found.heights is not None,
        "floor": found.floor,
        "mean_error": float(relative.mean()),
        "p99_error": float(np.quantile(relative, 0.99)),
        "near_error": float(errors.mean()),
        "near_p99": float(np.quantile(errors, 0.99)),
        "recall_10": of_all["recall_10"],
        "seconds": seconds,
    }


def true_row(name: str) -> dict[str, Any]:
    """Fit with the true κ, and with the one that is found."""
    load, signature, kappa = TRUE[name]
    D = load()
    unit = D.sum() / (len(D) * (len(D) - 1))
    given = neuc_mds(D, signature, loss="relative", curvature=kappa * unit**2)
    found = neuc_mds(D, 3, loss="relative", curvature="auto")
    off = ~np.eye(len(D), dtype=bool)
    given_error, error = (
        float(np.mean(np.abs(one.dissimilarities()[off] / D[off] - 1)))
        for one in (given, found)
    )
    own = {
        "given_error": given_error,
        "auto_error": error,
        "signature": found.signature,
    }
    return {
        "n": len(D),
        **own,
        "auto_over_true": found.curvature / (kappa * unit**2),
    }


def floor_times(n: int = 8000, k: int = 16) -> dict[str, Any]:
    """CPU seconds of fits of street distances, with both floors."""
    content = np.load(losses._file("networks", "jinan.npz"))
    edges, nodes = content["edges"], int(content["edges"].max()) + 1
    graph = coo_array(
        (content["length"], (edges[:, 0], edges[:, 1])), shape=(nodes, nodes)
    )
    part = connected_components(graph, directed=False)[1]
    largest = np.flatnonzero(part == np.argmax(np.bincount(part)))
    drawn = np.sort(np.random.default_rng(0).permutation(largest)[:n])
    ways = dijkstra(graph.tocsr(), directed=False, indices=drawn)[:, drawn]
    ways = losses._hollow((ways + ways.T) / 2)
    old = 0.5 * float(np.quantile(ways[ways > 0], 0.01))
    found = {}
    for name, loss in (("old", ("relative", old)), ("today", "relative")):
        start = time.process_time()
        fit = neuc_mds(ways, k, loss=loss)
        seconds = time.process_time() - start
        some = fit.dissimilarities(slice(300))
        near = (ways[:300] > 0) & (
            ways[:300] <= np.partition(ways[:300], 10, axis=1)[:, 10:11]
        )
        errors = np.abs(some[near] / ways[:300][near] - 1)
        own = {
            "floor": fit.floor,
            "near_error": float(errors.mean()),
            "converged": fit.info.converged,
        }
        found[name] = {**own, "cpu_seconds": seconds}
    ratio = found["today"]["cpu_seconds"] / found["old"]["cpu_seconds"]
    return {"n": len(ways), "k": k, **found, "ratio": ratio}


def one_row(
    name: str, k: int, curvature: float | str, heights: bool | str, device: str
) -> dict[str, Any]:
    """Load a set and fit it, in a process of its own."""
    warnings.simplefilter("ignore")
    D = CASES[name][0]()
    found = row(D, k, curvature, device, heights)
    own = {"set": name, "n": len(D), "device": device, **found}
    return {**own, "versions": measure.versions("neucmds")}


def compare_heights(names: list[str], device: str, jobs: int) -> None:
    """Fit every row without heights and with heights="auto"; write both, print the changes."""
    made: dict[tuple[Any, ...], list[Any]] = {}
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        calls = {}
        for name in names:
            for k in CASES[name][1]:
                for curvature in ("auto", 0):
                    for heights in ("auto", False):
                        own = (name, k, curvature, heights, device)
                        calls[pool.submit(one_row, *own)] = own
        for call in as_completed(calls):
            name, k, curvature, heights, _ = calls[call]
            try:
                found = call.result()
            except (ImportError, SystemExit) as missing:
                print(name, missing, flush=True)
                continue
            print(found, flush=True)
            pair = made.setdefault((name, k, curvature), [None, None])
            pair[heights == "auto"] = found
            record = json.loads(RECORD.read_text(encoding="utf-8"))
            rows = [one for pair in made.values() for one in pair if one]
            rows += [
                one
                for one in record.get("heights", [])
                if (one["set"], one["k"], one["asked"]) not in made
            ]
            measure.write_record(RECORD, {**record, "heights": rows})
    for (name, k, curvature), (plain, raised) in sorted(made.items(), key=str):
        change = raised["mean_error"] / plain["mean_error"] - 1
        print(
            f"{name}, k = {k}, κ {curvature}: {plain['mean_error']:.2%}, heights auto "
            f"{raised['mean_error']:.2%}, {change:+.1%}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("word", nargs="?", default="")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--heights", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.heights:
        # The largest first.
        order = [
            "power grid",
            "Helsinki, all nodes",
            "SMILES",
            *CASES,
        ]
        names = [name for name in dict.fromkeys(order) if given.word in name]
        compare_heights(names, given.device, given.jobs)
        return
    facts = {
        "machine": measure.machine(),
        "versions": measure.versions("neucmds", "numpy"),
    }
    for name, make in [
        *((one, lambda a=one: true_row(a)) for one in TRUE),
        ("floor", floor_times),
    ]:
        if given.word in name:
            record = json.loads(RECORD.read_text(encoding="utf-8"))
            record[name] = {**make(), **facts}
            print(name, record[name], flush=True)
            measure.write_record(RECORD, record)
    record = (
        json.loads(RECORD.read_text(encoding="utf-8"))
        if RECORD.exists()
        else {"rows": []}
    )
    rows = record["rows"]
    for name, (load, ks) in CASES.items():
        if given.word not in name:
            continue
        D = load()
        for k in ks:
            made = [
                row(D, k, curvature, given.device) for curvature in (0, "auto")
            ]
            own = [
                {"set": name, "n": len(D), "device": given.device, **one}
                for one in made
            ]
            rows = [
                one for one in rows if (one["set"], one["k"]) != (name, k)
            ] + own
            print(*own, sep="\n", flush=True)
            measure.write_record(RECORD, {**record, **facts, "rows": rows})


if __name__ == "__main__":
    main()
