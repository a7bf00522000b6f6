"""Every loss of "refined" by every measure: the record behind "Which loss?".

    NEUCMDS_DATA=… python benchmarks/losses.py            all, about fifteen minutes
    NEUCMDS_DATA=… python benchmarks/losses.py --quick    sets of up to 50 objects at k = 2 and 3
    NEUCMDS_DATA=… python benchmarks/losses.py digits     names that contain a word, or "cost"
    python benchmarks/losses.py --render                  the tables from the record alone

Beside the losses stand classical MDS, SMACOF (scikit-learn's, best of eight starts, where that is
a matter of seconds) and, for latencies, the best matrix of rank k.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra
from sklearn.datasets import load_digits
from sklearn.manifold import smacof

import measure
from neucmds import datasets, neuc_mds
from neucmds._methods.geometry import sq_dissimilarities
from neucmds._methods.refined.pair_descent import minimize_loss
from neucmds._operator import DenseGram
from neucmds.datasets._home import data_folders
from neucmds.metrics import measure as quality_of

RECORD = measure.RECORDS / "losses.json"
SEED = 0
# Eight starts, each much tighter than scikit-learn's default (300 iterations, 1e-6).
SMACOF = {"n_init": 8, "max_iter": 1000, "eps": 1e-8, "normalized_stress": False}
MOST_SMACOF = 500
MAX_ITER = 200


@dataclass(frozen=True)
class Case:
    """A matrix on the unsquared scale, and the numbers of coordinates to try."""

    name: str
    load: Callable[[], np.ndarray]
    ks: tuple[int, ...]
    group: str


def stored(quick: bool) -> Iterator[Case]:
    def load(name: str) -> np.ndarray:
        D = datasets.load_dissimilarity(name).dissimilarity
        return _hollow((D + D.T) / 2)

    sizes = {name: load(name).shape[0] for name in datasets.list_dissimilarities()}
    for name in sorted(sizes, key=lambda one: sizes[one]):
        if not quick:
            yield Case(name, lambda a=name: load(a), (2, 3, 5, 10), "shared")
        elif sizes[name] <= 50:
            yield Case(name, lambda a=name: load(a), (2, 3), "shared")


def others() -> Iterator[Case]:
    def affinities(name: str) -> np.ndarray:
        return _hollow(datasets.entropic_affinities(datasets.load_genomics(name).values, 30))

    for name in ("breast_colon_chowdary", "leukemia_chiaretti", "tox_171"):
        yield Case(name, lambda a=name: affinities(a), (20,), "genomics")
    ball = lambda: np.sqrt(datasets.euclidean_ball(1000, random_state=SEED).clip(0))  # noqa: E731
    yield Case("euclidean-ball", ball, (20,), "synthetic")
    yield Case("planetlab490", _latency, (5, 10), "latency")
    yield Case("digits 5-NN hops", _digits, (10, 20), "digits")
    yield Case("Helsinki streets", _streets, (8, 16, 32, 64), "streets")


def _digits() -> np.ndarray:
    return datasets.hop_distances(load_digits().data, n_neighbors=5, connect=True).astype(float)


def _latency() -> np.ndarray:
    return _hollow(np.load(_file("latency", "planetlab490.npz"))["D"].astype(float))


def _streets() -> np.ndarray:
    """Shortest ways between all crossings of central Helsinki, in metres."""
    content = np.load(_file("networks", "helsinki.npz"))
    edges, nodes = content["edges"], content["xy"].shape[0]
    graph = coo_array((content["length"], (edges[:, 0], edges[:, 1])), shape=(nodes, nodes))
    crossings = content["crossings"]
    ways = dijkstra(graph.tocsr(), directed=False, indices=crossings)[:, crossings]
    return _hollow((ways + ways.T) / 2)


def _file(folder: str, name: str) -> Path:
    for home in data_folders(None, folder):
        if (Path(home) / name).exists():
            return Path(home) / name
    raise SystemExit(f"{folder}/{name} is not in $NEUCMDS_DATA")


def _hollow(D: np.ndarray) -> np.ndarray:
    D = D.astype(float)
    np.fill_diagonal(D, 0)
    return D


def measures(D: np.ndarray, fitted: np.ndarray) -> dict[str, float | int]:
    """Compare D and D̂ (the latter squared, maybe negative) on both scales."""
    upper = np.triu_indices(D.shape[0], 1)
    d, sq_fit = D[upper], fitted[upper]
    fit = np.sqrt(np.maximum(sq_fit, 0))
    error = np.abs(fit[d > 0] / d[d > 0] - 1)
    squared = np.sum((sq_fit - d**2) ** 2)
    return {
        "stress": float(2 * squared),
        "r2": float(1 - squared / np.sum((d**2 - np.mean(d**2)) ** 2)),
        "raw_stress": float(np.sum((fit - d) ** 2)),
        "mean_error": float(error.mean()),
        "median_error": float(np.median(error)),
        "p95_error": float(np.quantile(error, 0.95)),
        "p99_error": float(np.quantile(error, 0.99)),
        "recall_10": nearest_kept(D, fitted, min(10, D.shape[0] - 1)),
        "negative_pairs": int(np.sum(sq_fit < 0)),
    }


def nearest_kept(D: np.ndarray, fitted: np.ndarray, m: int) -> float:
    """Share of the m nearest by D̂ that are among the m nearest by D, ties counted."""
    D, fitted = D.copy(), fitted.copy()
    np.fill_diagonal(D, np.inf)
    np.fill_diagonal(fitted, np.inf)
    farthest = np.partition(D, m - 1, axis=1)[:, m - 1 : m]
    chosen = np.argpartition(fitted, m - 1, axis=1)[:, :m]
    return float(np.mean(np.take_along_axis(D, chosen, 1) <= farthest * (1 + 1e-9)))


Fitted = tuple[np.ndarray, np.ndarray, dict[str, Any]]


def fit_squared(D: np.ndarray, k: int) -> Fitted:
    emb = neuc_mds(D, k, random_state=SEED)
    return emb.coordinates, emb.signs, {}


def fit_classical(D: np.ndarray, k: int) -> Fitted:
    emb = neuc_mds(D, k, "classical", random_state=SEED)
    return emb.coordinates, emb.signs, {}


def fit_smacof(D: np.ndarray, k: int) -> Fitted:
    x = smacof(D, n_components=k, random_state=SEED, **SMACOF)[0]
    return x, np.ones(k), {}


def fit_loss(loss: str) -> Callable[[np.ndarray, int], Fitted]:
    def fit(D: np.ndarray, k: int) -> Fitted:
        found = neuc_mds(D, k, loss=loss, max_iter=MAX_ITER, random_state=SEED)
        facts = {
            "iterations": len(found.history) - 1,
            "converged": found.converged,
            "relative_gradient": found.relative_gradient,
            "floor": float(np.sqrt(found.placement.loss.floor)),
        }
        return found.coordinates, found.signs, facts

    return fit


METHODS: dict[str, Callable[[np.ndarray, int], Fitted]] = {
    "squared": fit_squared,
    "distance": fit_loss("distance"),
    "relative": fit_loss("relative"),
    "classical": fit_classical,
    "smacof": fit_smacof,
}


def rows_of(case: Case) -> Iterator[dict[str, Any]]:
    D = case.load()
    gram = DenseGram(D**2)
    fit_squared(D, 2)  # so that no method pays for what the first call imports
    for k in case.ks:
        for name, fit in METHODS.items():
            if name == "smacof" and D.shape[0] > MOST_SMACOF:
                continue
            wall, cpu = time.perf_counter(), time.process_time()
            x, signs, facts = fit(D, k)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            negatives = int(np.sum(signs < 0))
            yield {
                **{"data": case.name, "group": case.group, "n": D.shape[0], "k": k, "method": name},
                "signature": [int(signs.size) - negatives, negatives],
                **measures(D, sq_dissimilarities(x, x, signs)),
                "distortion": quality_of(gram, x, signs).distortion,
                **{"seconds": wall, "cpu_seconds": cpu, **facts},
            }
        if case.group == "latency":
            yield {
                **{"data": case.name, "group": case.group, "n": D.shape[0], "k": k},
                **{"method": "rank k of D", **measures(D, rank_k(D, k))},
            }


def rank_k(D: np.ndarray, k: int) -> np.ndarray:
    """Return the best matrix of rank k, squared; below zero where it is."""
    values, vectors = np.linalg.eigh(D)
    kept = np.argsort(-np.abs(values))[:k]
    fit = (vectors[:, kept] * values[kept]) @ vectors[:, kept].T
    return np.sign(fit) * fit**2


def cost_of_an_iteration(n: int = 8000, k: int = 20, iterations: int = 24) -> dict[str, Any]:
    """Time and memory of an iteration, against a product of D in float64 with k vectors."""
    D = datasets.random_hops(n, n_neighbors=8, random_state=SEED).astype(float)
    emb = neuc_mds(D, k, squared=True, random_state=SEED)
    vectors = np.random.RandomState(SEED).standard_normal((n, k))

    def product() -> float:
        times = []
        for _ in range(5):
            start = time.perf_counter()
            D @ vectors
            times.append(time.perf_counter() - start)
        return min(times)

    record: dict[str, Any] = {"n": n, "k": k}
    for loss in ("relative", "distance"):
        before, held = product(), measure.resident()
        measure.forget_peak()
        start = time.perf_counter()
        found = minimize_loss(D, emb.coordinates, emb.signs, loss, max_iter=iterations, tol=0)
        seconds = time.perf_counter() - start
        peak, after = measure.peak() - held, product()
        record[loss] = {
            "iterations": len(found.history) - 1,
            "seconds_per_iteration": seconds / (len(found.history) - 1),
            "product_seconds": [before, after],
            "products_per_iteration": seconds / (len(found.history) - 1) / min(before, after),
            "peak_over_D": peak / D.nbytes,
        }
    return record


def summary(record: dict[str, Any]) -> Iterator[str]:
    """State what the rows come to, against SMACOF and against the default fit."""
    table = {(r["data"], r["k"], r["method"]): r for r in record["rows"]}
    raw, distortion, ours, theirs = [], [], 0.0, 0.0
    for (data, k, method), row in table.items():
        if method != "smacof" or row["group"] != "shared":
            continue
        distance, relative = table[data, k, "distance"], table[data, k, "relative"]
        raw.append(distance["raw_stress"] / row["raw_stress"])
        least = min(distance["distortion"], relative["distortion"])
        distortion.append(least / row["distortion"])
        ours, theirs = ours + distance["seconds"], theirs + row["seconds"]
    if raw:
        ratios, spread = np.array(raw), np.array(distortion)
        yield (
            f"raw stress, distance / SMACOF, {ratios.size} rows: ≤ 1.0005 in "
            f"{_share(ratios, 1.0005)}, worst {ratios.max():.4f}; {ours:.1f} s / {theirs:.1f} s"
        )
        yield (
            f"distortion, best of both / SMACOF: < 1 in {_share(spread, 1 - 1e-12)}, "
            f"≤ 1.0001 in {_share(spread, 1.0001)}, worst {spread.max():.4f}"
        )
    for data, ks in (("digits 5-NN hops", (10, 20)), ("Helsinki streets", (8, 16, 32, 64))):
        for k in ks:
            if (data, k, "relative") in table:
                row, default = table[data, k, "relative"], table[data, k, "squared"]
                yield (
                    f"{data}, k = {k}: mean {row['mean_error']:.2%}, p99 {row['p99_error']:.1%}, "
                    f"recall {row['recall_10']:.4f}, {row['seconds'] / default['seconds']:.1f} × "
                    "the default fit"
                )
    if "cost" in record:
        for loss in ("relative", "distance"):
            cost = record["cost"][loss]
            yield (
                f"n = {record['cost']['n']}, {loss}: an iteration is "
                f"{cost['products_per_iteration']:.1f} products, peak {cost['peak_over_D']:.2f} D"
            )


def _share(values: np.ndarray, limit: float) -> str:
    return f"{np.mean(values <= limit):.1%}"


COLUMNS = (
    ("stress", ".4g"),
    ("r2", ".4f"),
    ("raw_stress", ".4g"),
    ("distortion", ".4f"),
    ("mean_error", ".2%"),
    ("median_error", ".2%"),
    ("p95_error", ".2%"),
    ("p99_error", ".2%"),
    ("recall_10", ".3f"),
    ("seconds", ".2f"),
)


def render(record: dict[str, Any]) -> str:
    names = ["data", "n", "k", "method", "signs", *(name for name, _ in COLUMNS)]
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    for row in record["rows"]:
        signs = ", ".join(str(count) for count in row.get("signature", []))
        cells = [row["data"], row["n"], row["k"], row["method"], signs]
        cells += [format(row[name], how) if name in row else "" for name, how in COLUMNS]
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return "\n".join([*lines, "", *summary(record)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("words", nargs="*", help="only cases whose name contains one of these")
    parser.add_argument("--quick", action="store_true", help="small sets only, no record")
    parser.add_argument("--render", action="store_true", help="print the record's tables")
    arguments = parser.parse_args()
    if arguments.render:
        print(render(json.loads(RECORD.read_text())))
        return
    warnings.simplefilter("ignore")
    words = arguments.words
    cases = [*stored(arguments.quick), *([] if arguments.quick else others())]
    if words:
        cases = [case for case in cases if any(word in case.name for word in words)]
    record: dict[str, Any] = {
        "machine": measure.machine(),
        "versions": measure.versions("numpy", "scipy", "scikit-learn"),
        "seed": SEED,
        "smacof": SMACOF,
        "rows": [],
    }
    if words and RECORD.exists():
        record = json.loads(RECORD.read_text())
    for case in cases:
        kept = [row for row in record["rows"] if row["data"] != case.name]
        record["rows"] = kept
        for row in rows_of(case):
            kept.append(row)
            print(
                row["data"], row["k"], row["method"], f"{row.get('seconds', 0):.2f} s", flush=True
            )
        if not arguments.quick:
            measure.write_record(RECORD, record)
    if "cost" in words or not (arguments.quick or words):
        record["cost"] = cost_of_an_iteration()
        measure.write_record(RECORD, record)
    print(render(record))


if __name__ == "__main__":
    main()
