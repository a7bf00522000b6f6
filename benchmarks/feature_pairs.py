"""Features too many for all pairs: recall and time from a sample of pairs, on the CPU or a GPU.

    python benchmarks/feature_pairs.py [--n 100000] [--device cpu|cuda] [--cases pairs landmarks]
        [--record FILE]

64 features, cityblock, k = 20: clusters on a curved 5-dimensional sheet. The ten
nearest of 1,000 queries by D̂ are compared with the ten nearest by cityblock, found by brute force;
within = how many candidates by D̂ hold nine in ten of them. Beside: the same descent with the
squared loss, `LandmarkNeucMDS` with either loss, and two levels of it, with a fifth of all rows as
landmarks. Pairs of the relative loss start from two levels; *from landmarks* they start from 100 of
these, by floors that fall, and near pairs count as they did in version 0.2. Seconds are also told
as a multiple of finding the nearest of all objects alone; those of the processor count all threads.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from measure import machine, versions, write_record
from neucmds import LandmarkNeucMDS, NeucMDS
from neucmds.backend.arrays import to_numpy
from neucmds.form import Form
from neucmds.large import sampled as large_sampled
from neucmds.problem.neighbor_search import nearest_rows

K, QUERIES, PAIRS = 20, 1000, 320


def draw(n: int, d: int = 64, seed: int = 0) -> np.ndarray:
    """Draw points of 50 clusters on a curved sheet of five dimensions, with a little noise."""
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((50, 5))
    inner = centers[rng.integers(50, size=n)] + 0.6 * rng.standard_normal(
        (n, 5)
    )
    into = rng.standard_normal((5, d)) / np.sqrt(5)
    bent = np.tanh(inner @ into) + 0.3 * np.sin(
        2 * inner @ rng.standard_normal((5, d))
    )
    return (bent + 0.01 * rng.standard_normal((n, d))).astype(np.float32)


def truth(X: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Find the ten nearest of the queries, by brute force."""
    from scipy.spatial.distance import cdist

    found = []
    for some in np.array_split(queries, 20):
        d = cdist(X[some], X, "cityblock")
        d[np.arange(some.size), some] = np.inf
        found.append(np.argpartition(d, 9, axis=1)[:, :10])
    return np.concatenate(found)


def quality(
    x: np.ndarray, signs: np.ndarray, queries: np.ndarray, nearest: np.ndarray
) -> Any:
    """Share of the ten nearest kept, and how many candidates hold nine in ten of them."""
    kept, ranks = [], []
    for some, near in zip(
        np.array_split(queries, 20), np.array_split(nearest, 20), strict=True
    ):
        d_hat = Form(signs).sq(x[some], x)
        d_hat[np.arange(some.size), some] = np.inf
        order = np.sort(d_hat, axis=1)
        for own, all_sorted in zip(
            np.take_along_axis(d_hat, near, axis=1), order, strict=True
        ):
            rank = np.searchsorted(all_sorted, own)
            kept.append(np.mean(rank < 10))
            ranks.append(rank)
    within = int(np.quantile(np.concatenate(ranks), 0.9)) + 1
    return {"recall10": float(np.mean(kept)), "within": within}


def random_error(X: np.ndarray, x: np.ndarray, signs: np.ndarray) -> float:
    """Median relative error of random pairs."""
    i, j = np.random.default_rng(2).integers(len(X), size=(2, 20_000))
    i, j = i[i != j], j[i != j]
    d = np.abs(X[i].astype(np.float64) - X[j]).sum(axis=1)
    d_hat = np.sqrt(np.maximum(Form(signs).paired_sq(x[i], x[j]), 0))
    return round(float(np.median(np.abs(d_hat / d - 1))), 4)


@contextlib.contextmanager
def before_two_levels(wanted: bool) -> Iterator[None]:
    """Have sampled pairs start and count as they did in version 0.2."""
    usual = large_sampled.MOST_PATHS, large_sampled.RELATIVE_POWER
    if wanted:
        large_sampled.MOST_PATHS, large_sampled.RELATIVE_POWER = (
            sys.maxsize,
            0.5,
        )
    yield
    large_sampled.MOST_PATHS, large_sampled.RELATIVE_POWER = usual


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--iterations",
        type=int,
        help="at most; by default as many as it takes",
    )
    parser.add_argument(
        "--cases", nargs="*", default=["pairs", "landmarks", "two levels"]
    )
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    before, host = machine(), draw(arguments.n)
    queries = np.random.default_rng(1).choice(
        arguments.n, QUERIES, replace=False
    )
    nearest, X = truth(host, queries), host
    if arguments.device != "cpu":
        import torch

        X = torch.as_tensor(host, device=arguments.device)
    common: dict[str, Any] = {"metric": "cityblock", "random_state": 0}
    sampled = {**common, "n_pairs": PAIRS, "max_iter": arguments.iterations}
    n_near = round(0.12 * PAIRS)
    search = nearest_rows(X, "cityblock", random_state=0)
    to_numpy(search(n_near, None)[0])  # compiles
    start = time.perf_counter()
    to_numpy(search(n_near, None)[0])  # waits for the device
    alone = time.perf_counter() - start
    print(f"nearest {n_near} of all: {alone:.1f} s", flush=True)
    cases = {
        "pairs, relative": NeucMDS(K, loss="relative", **sampled),
        "pairs, relative, from landmarks": NeucMDS(
            K, loss="relative", **sampled
        ),
        "pairs, squared": NeucMDS(K, loss="squared", **sampled),
        "landmarks, squared": LandmarkNeucMDS(K, 1000, **common),
        "landmarks, relative": LandmarkNeucMDS(
            K, 1000, loss="relative", **common
        ),
        "two levels, relative": LandmarkNeucMDS(
            K, 0.2, n_near=None, loss="relative", **common
        ),
    }
    rows = []
    for name, estimator in cases.items():
        if not name.startswith(tuple(arguments.cases)):
            continue
        start, processor = time.perf_counter(), time.process_time()
        with (
            warnings.catch_warnings(),
            before_two_levels(name.endswith("from landmarks")),
        ):
            warnings.simplefilter("ignore")
            placed = to_numpy(estimator.fit_transform(X)).astype(np.float64)
        seconds = time.perf_counter() - start
        row = {
            "what": name,
            "seconds": round(seconds, 2),
            "processor_seconds": round(time.process_time() - processor, 1),
            "over_neighbours": round(seconds / alone, 2),
            "signature": np.asarray(estimator.signs_).astype(int).tolist(),
            **quality(placed, to_numpy(estimator.signs_), queries, nearest),
            "random_median": random_error(
                host, placed, to_numpy(estimator.signs_)
            ),
        }
        rows.append(row)
        print(row, flush=True)
    record = {
        "machine": before,
        "device": arguments.device,
        "versions": versions("numpy", "scipy", "scikit-learn"),
        "n": arguments.n,
        "d": 64,
        "k": K,
        "n_pairs": PAIRS,
        "max_iter": arguments.iterations,
        "neighbours_seconds": round(alone, 2),
        "rows": rows,
    }
    if arguments.record is not None:
        write_record(arguments.record, record)


if __name__ == "__main__":
    main()
