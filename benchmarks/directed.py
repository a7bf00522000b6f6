"""Directed and rectangular dissimilarities: departures and arrivals beside other ways to keep them.

    NEUCMDS_DATA=… python benchmarks/directed.py             all parts
    NEUCMDS_DATA=… python benchmarks/directed.py breakfast   some: streets, folds, tuned, curved
    python benchmarks/directed.py towns listed quadrangles   towns that are drawn (towns.py)
    python benchmarks/directed.py large landmarks            100,000 nodes, about half an hour

Streets: driving distances of central Helsinki between all ordered pairs, relative loss. Near pairs
are those of a node and its ten nearest targets. Directed ALT keeps the distances to and from k
landmarks that are far from each other, and takes the largest lower bound. Factors are those of the
singular value decomposition of d. The symmetric fit is that of the mean of both directions. Folds:
a fifth of the nodes is placed, from their distances to the others and back. Towns: the default call
on towns that are drawn, in several parts, with dead ends and streets of length 0. Listed: some
pairs of a town. Large: a town of 100,000 nodes, by sampled pairs; landmarks: one of 20,000, by 200
landmarks. Breakfast: beside R's smacof, or the source of it in the folder SMACOF_SOURCE. Seconds
are of processor time, beyond the searches from the first report of a fit to its last iteration.
Quadrangles: how often d(i, j) > d(i, l) + d(m, l) + d(m, j), which no Euclidean departures and
arrivals can have.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components, dijkstra

import losses
import measure
import towns
from neucmds import neuc_mds

RECORD = measure.RECORDS / "directed.json"
UNFOLDING = Path(__file__).with_name("unfolding.R")
Floats = np.ndarray
NEAR = 10
FOLDS = 5
LARGE = 100_000
# Nodes whose ways are measured after a large fit, and quadrangles that are drawn.
ASKED = 200
# Seed, share of one-way streets, and share of streets that are left out, of towns that are drawn.
TOWNS = ((1, 0.3, 0.3), (2, 0.5, 0.4), (3, 0.8, 0.25))
QUADRANGLES = 1_000_000


def streets() -> Floats:
    """Return driving distances between all nodes, in metres."""
    content = np.load(losses._file("networks", "helsinki_drive.npz"))
    n = len(content["xy"])
    edges = (content["rows"], content["cols"])
    graph = csr_array(
        (content["length"].astype(np.float64), edges), shape=(n, n)
    )
    return dijkstra(graph)


def errors(D: Floats, fitted: Floats, ranks: Floats) -> dict[str, float]:
    """Return errors over ordered pairs and neighbours kept; `ranks` orders the targets."""
    off = ~np.eye(len(D), dtype=bool)
    known = off & (D > 0)
    error = np.abs(fitted / np.where(known, D, 1.0) - 1)
    nearest = np.argsort(np.where(off, D, np.inf), axis=1, kind="stable")
    nearest = nearest[:, :NEAR]
    found = np.argsort(np.where(off, ranks, np.inf), axis=1, kind="stable")
    kept = [
        len({*a} & {*b}) for a, b in zip(nearest, found[:, :NEAR], strict=True)
    ]
    return {
        "mean": float(error[known].mean()),
        "median": float(np.median(error[known])),
        "p95": float(np.quantile(error[known], 0.95)),
        "near": near_error(error, nearest, known),
        "recall": float(np.mean(kept)) / NEAR,
    }


def near_error(error: Floats, nearest: Floats, known: Floats) -> float:
    """Return the mean error of near pairs; those at distance 0 have no share of it."""
    counted = np.take_along_axis(known, nearest, axis=1)
    return float(np.take_along_axis(error, nearest, axis=1)[counted].mean())


def alt(D: Floats, n_landmarks: int) -> Floats:
    """Return the largest lower bound by landmarks, each as far as can be from those before."""
    landmarks = [int(D.sum(axis=1).argmax())]
    while len(landmarks) < n_landmarks:
        nearest = (D + D.T)[landmarks].min(axis=0)
        landmarks.append(int(nearest.argmax()))
    bound = np.zeros(D.shape)
    for landmark in landmarks:
        leaving = D[landmark][None, :] - D[landmark][:, None]
        reaching = D[:, landmark][:, None] - D[:, landmark][None, :]
        bound = np.maximum(bound, np.maximum(leaving, reaching))
    return bound


def factors(D: Floats, rank: int) -> Floats:
    """Return d by its largest singular values."""
    u, s, v = np.linalg.svd(D)
    return (u[:, :rank] * s[:rank]) @ v[:rank]


def street_rows() -> list[dict[str, Any]]:
    """Compare ways to keep all ordered pairs of central Helsinki."""
    return compared(streets(), (8, 16, 32))


def tuned_rows() -> list[dict[str, Any]]:
    """Fit central Helsinki with a curvature that is sought, to a lower tolerance."""
    return rows_of({8: {"curvature": "auto", "tol": 1e-4}})


def curved_rows() -> list[dict[str, Any]]:
    """Fit central Helsinki with a curvature that is given."""
    return rows_of({8: {"curvature": -7.0}})


def rows_of(options: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """Fit central Helsinki with some numbers of coordinates and the options of each."""
    D = streets()
    rows = []
    for k, given in options.items():
        start = time.process_time()
        emb = neuc_mds(D, k, loss="relative", directed=True, **given)
        seconds = time.process_time() - start
        words = ", ".join(f"{name}={value!r}" for name, value in given.items())
        rows.append(street_row(words, emb, D, 2 * k, seconds))
        rows[-1]["kappa"] = emb.kappa
    return rows


def town_rows() -> list[dict[str, Any]]:
    """Fit towns that are drawn as a user would, whose parts are not all kept."""
    rows = []
    for seed, one_way, closed in TOWNS:
        graph, _ = towns.streets(1300, seed, one_way, closed, no_length=0.02)
        n_parts, _ = connected_components(graph, connection="strong")
        for k in (8, 16):
            start = time.process_time()
            emb = neuc_mds(
                graph,
                k,
                metric="shortest_path",
                metric_params={"part": "largest"},
                loss="relative",
                directed=True,
            )
            seconds = time.process_time() - start
            kept = np.array(emb.labels, dtype=int)
            D = dijkstra(graph[kept][:, kept])
            facts = {
                "town": seed,
                "one_way": one_way,
                "parts": int(n_parts),
                "nodes": graph.shape[0],
                "kept": kept.size,
                "directions_differ": np.abs(D - D.T).sum() / D.sum(),
            }
            fitted = street_row(
                "departures and arrivals", emb, D, 2 * k, seconds
            )
            bounds = {"way": "directed ALT", "numbers": 2 * k}
            bound = alt(D, k)
            bounds |= errors(D, bound, bound)
            rows += [facts | fitted, facts | bounds]
    return rows


def compared(D: Floats, sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    """Compare ways to keep all ordered pairs by 2k numbers per node."""
    n = len(D)
    both = np.abs(D - D.T).sum() / D.sum()
    mean = (D + D.T) / 2
    rows = [
        {
            "way": "all pairs, exact",
            "numbers": n,
            "megabytes": 4 * n * n / 1e6,
            **errors(D, D, D),
        },
        {
            "way": "the mean of both directions, exact",
            "numbers": n,
            "directions_differ": both,
            **errors(D, mean, mean),
        },
    ]
    for k in sizes:
        others = {
            "directed ALT": alt(D, k),
            "factors of d": factors(D, k),
        }
        for way, fitted in others.items():
            rows.append(
                {"way": way, "numbers": 2 * k, **errors(D, fitted, fitted)}
            )
        symmetric = neuc_mds(mean, 2 * k, loss="relative")
        rows.append(street_row("symmetric", symmetric, D, 2 * k, 0.0))
        for way, size in (
            ("departures and arrivals", k),
            ("Euclidean departures and arrivals", (k, 0)),
        ):
            start = time.process_time()
            emb = neuc_mds(D, size, loss="relative", directed=True)
            seconds = time.process_time() - start
            rows.append(street_row(way, emb, D, 2 * k, seconds))
    return rows


def street_row(
    way: str, emb: Any, D: Floats, numbers: int, seconds: float
) -> dict[str, Any]:
    """Measure an embedding of all nodes."""
    row = {
        "way": way,
        "numbers": numbers,
        "signature": emb.signature,
        "cpu_seconds": round(seconds, 1),
        "megabytes": 4 * numbers * len(D) / 1e6,
        **errors(D, emb.dissimilarities(), emb.dissimilarities(squared=True)),
    }
    print(json.dumps(row), flush=True)
    return row


def large_rows() -> list[dict[str, Any]]:
    """Fit a sample of both directions of a large town; measure random pairs and near ones."""
    return [large_row(LARGE, 16, n_pairs=256)]


def landmark_rows() -> list[dict[str, Any]]:
    """Place the nodes of a large town by the ways to and from landmarks."""
    return [large_row(LARGE // 5, 16, landmarks=200)]


def large_row(n: int, k: int, **way: int) -> dict[str, Any]:
    """Fit a large town in some way, and measure it."""
    graph, _ = towns.town(n)
    n = graph.shape[0]
    ticks: list[float] = []

    def tick(*_: Any) -> None:
        ticks.append(time.process_time())

    start = time.process_time()
    wall = time.perf_counter()
    emb = neuc_mds(
        graph,
        k,
        metric="shortest_path",
        loss="relative",
        directed=True,
        callback=tick,
        **way,
    )
    row = {
        **way,
        "n": n,
        "k": k,
        "signature": emb.signature,
        "cpu_seconds": round(time.process_time() - start, 1),
        "seconds": round(time.perf_counter() - wall, 1),
        "cpu_seconds_beyond_searches": round(ticks[-1] - ticks[0], 1),
        "peak_gb": round(
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2
        ),
        **sampled_errors(graph, emb),
    }
    print(json.dumps(row), flush=True)
    return row


def sampled_errors(graph: Any, emb: Any) -> dict[str, float]:
    """Return errors of the ways from some nodes to all, and to their nearest."""
    n = graph.shape[0]
    nodes = np.random.default_rng(1).permutation(n)[:ASKED]
    given = dijkstra(graph, indices=nodes)
    sq = emb.dissimilarities(nodes, np.arange(n), squared=True)
    own = nodes[:, None] == np.arange(n)[None, :]
    d = np.sqrt(np.maximum(sq, 0))
    error = np.abs(d / np.where(own, 1.0, given) - 1)
    nearest = np.argsort(np.where(own, np.inf, given), axis=1)[:, :NEAR]
    found = np.argsort(np.where(own, np.inf, sq), axis=1)[:, :NEAR]
    kept = [len({*a} & {*b}) for a, b in zip(nearest, found, strict=True)]
    return {
        "mean": float(error[~own].mean()),
        "near": float(np.take_along_axis(error, nearest, axis=1).mean()),
        "recall": float(np.mean(kept)) / NEAR,
    }


def quadrangle_rows() -> list[dict[str, Any]]:
    """Count quadrangles that no Euclidean departures and arrivals have, in rings and streets."""
    ring = np.arange(100)
    ways = (ring[None, :] - ring[:, None]) % ring.size
    networks = {
        "a one-way ring of 100 nodes": ways.astype(float),
        "a town that is drawn": dijkstra(towns.town(1200)[0]),
        "central Helsinki, driving": streets(),
    }
    rows = []
    for name, D in networks.items():
        rng = np.random.default_rng(0)
        i, j, other, m = rng.integers(len(D), size=(4, QUADRANGLES))
        apart = (i != j) & (i != other) & (m != other) & (m != j)
        around = D[i, other] + D[m, other] + D[m, j]
        broken = (D[i, j] > (1 + 1e-9) * around) & apart
        worst = shortest_detours(D)
        off = ~np.eye(len(D), dtype=bool)
        is_broken = (1 + 1e-9) * worst < D
        row = {
            "network": name,
            "n": len(D),
            "quadrangles_broken": float(broken.sum() / apart.sum()),
            "pairs_broken": float(is_broken[off].mean()),
        }
        print(json.dumps(row), flush=True)
        rows.append(row)
    return rows


def shortest_detours(D: Floats) -> Floats:
    """Return the least d(i, l) + d(m, l) + d(m, j) over l ≠ i and m ≠ j, of every i → j."""
    own = np.eye(len(D), dtype=bool)
    away = np.where(own, np.inf, D)
    # Least d(i, l) + d(m, l) over l, then plus d(m, j) over m.
    meet = np.array([(away[i] + away).min(axis=1) for i in range(len(D))])
    return np.array([(row[:, None] + away).min(axis=0) for row in meet])


def fold_rows() -> list[dict[str, Any]]:
    """Place a fifth of the nodes each time, with k = 16, and compare errors."""
    D = streets()
    order = np.random.default_rng(0).permutation(len(D))
    rows = []
    for number, out in enumerate(np.array_split(order, FOLDS)):
        inside = np.setdiff1d(order, out)
        among = D[np.ix_(inside, inside)]
        there = D[np.ix_(out, inside)]
        back = D[np.ix_(inside, out)]
        emb = neuc_mds(among, 16, loss="relative", directed=True)
        departures, arrivals = emb.transform(to=there, from_=back.T)
        row = {"fold": number, "signature": emb.signature}
        fitted = emb.dissimilarities()
        row["fitted"] = relative_error(fitted, among)
        row["new sources"] = relative_error(
            emb.between(departures, emb.arrivals), there
        )
        row["new targets"] = relative_error(
            emb.between(emb.coordinates, arrivals), back
        )
        row["between new"] = relative_error(
            emb.between(departures, arrivals), D[np.ix_(out, out)]
        )
        print(json.dumps(row), flush=True)
        rows.append(row)
    return rows


def relative_error(fitted: Floats, given: Floats) -> float:
    """Return the mean of |d̂/d − 1| where d > 0."""
    known = given > 0
    return float(np.abs(fitted[known] / given[known] - 1).mean())


def breakfast_rows() -> list[dict[str, Any]]:
    """Unfold the preferences of 42 people for 15 foods, whole, with gaps and with weights."""
    D = np.load(losses._file("preferences", "breakfast.npz"))["D"]
    rng = np.random.default_rng(0)
    hidden = rng.random(D.shape) < 0.1
    weights = rng.uniform(0.5, 2.0, D.shape)
    cases: dict[str, dict[str, Any]] = {
        "all": {},
        "all, 300 starts": {"n_init": 300},
        "a tenth hidden": {"missing": "ignore"},
        "random weights": {"weights": weights},
    }
    rows = []
    for name, options in cases.items():
        given = D
        counted = options.get("weights", np.ones(D.shape))
        if name == "a tenth hidden":
            given = np.where(hidden, np.nan, D)
            counted = ~hidden * 1.0
        emb = neuc_mds(
            given, (2, 0), loss="distance", directed=True, **options
        )
        fitted = emb.dissimilarities()
        scale = (counted * D * fitted).sum() / (counted * fitted**2).sum()
        left = (counted * (D - scale * fitted) ** 2).sum()
        row = {
            "case": name,
            "stress": float(np.sqrt(left / (counted * D**2).sum())),
            "smacof": smacof_stress(D, counted),
        }
        print(json.dumps(row), flush=True)
        rows.append(row)
    return rows


def smacof_stress(D: Floats, weights: Floats) -> float | None:
    """Return the stress of smacof's unfolding in R, without which it is not measured."""
    with tempfile.TemporaryDirectory() as folder:
        files = [f"{folder}/D.csv", f"{folder}/weights.csv"]
        for file, table in zip(files, (D, weights), strict=True):
            np.savetxt(file, table, delimiter=",", fmt="%.17g")
        source = os.environ.get("SMACOF_SOURCE")
        if source is not None:
            files.append(source)
        try:
            run = subprocess.run(
                ["Rscript", str(UNFOLDING), *files],
                capture_output=True,
                text=True,
                check=True,
            )
        except (OSError, subprocess.CalledProcessError):
            return None
    return float(run.stdout.split()[-1])


def listed_rows() -> list[dict[str, Any]]:
    """Fit some ordered pairs of a town that is drawn, and measure all of them."""
    D = dijkstra(towns.town(420, seed=5)[0])
    rng = np.random.default_rng(0)
    off = ~np.eye(len(D), dtype=bool)
    rows = []
    for share in (1.0, 0.5, 0.2, 0.1):
        given: Any = D
        if share < 1:
            ends = np.nonzero((rng.random(D.shape) < share) & off)
            given = coo_array((D[ends], ends), shape=D.shape)
        start = time.process_time()
        emb = neuc_mds(given, 6, loss="relative", directed=True)
        seconds = time.process_time() - start
        row = street_row("departures and arrivals", emb, D, 12, seconds)
        rows.append({"known": share, "nodes": len(D)} | row)
    return rows


def morse_rows() -> list[dict[str, Any]]:
    """Explain confusions of Morse code, and how much they differ by their order."""
    D = np.load(losses._file("dissimilarities", "morse36_asym.npz"))["D"]
    np.fill_diagonal(D, 0.0)
    off = ~np.eye(len(D), dtype=bool)
    skew = D - D.T
    rows = []
    for k in (2, 3, 4, 6):
        for way, size in (("directed", k), ("symmetric", 2 * k)):
            directed = way == "directed"
            emb = neuc_mds(
                D,
                size,
                loss="distance",
                directed=directed,
                symmetrize=not directed,
            )
            fitted = emb.dissimilarities()
            left = ((fitted - D)[off] ** 2).sum()
            left_of_skew = ((fitted - fitted.T - skew) ** 2).sum()
            row = {
                "way": way,
                "k": size,
                "numbers": 2 * k,
                "signature": emb.signature,
                "stress1": float(np.sqrt(left / (D[off] ** 2).sum())),
                "asymmetry_explained": 1
                - float(left_of_skew / (skew**2).sum()),
            }
            print(json.dumps(row), flush=True)
            rows.append(row)
    return rows


PARTS = {
    "breakfast": breakfast_rows,
    "morse": morse_rows,
    "streets": street_rows,
    "folds": fold_rows,
    "tuned": tuned_rows,
    "curved": curved_rows,
    "towns": town_rows,
    "listed": listed_rows,
    "quadrangles": quadrangle_rows,
    "large": large_rows,
    "landmarks": landmark_rows,
}


def main() -> None:
    """Measure, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS])
    names = parser.parse_args().parts or list(PARTS)
    warnings.simplefilter("ignore")
    content: dict[str, Any] = {}
    if RECORD.exists():
        content = json.loads(RECORD.read_text())
    for name in names:
        content[name] = PARTS[name]()
        content["machine"] = measure.machine()
        content["versions"] = measure.versions("neucmds", "numpy", "scipy")
        measure.write_record(RECORD, content)


if __name__ == "__main__":
    main()
