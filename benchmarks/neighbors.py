"""`Embedding.neighbors` against brute force with negative D̂ and ties, and its time.

    python benchmarks/neighbors.py     prints both, writes records/neighbors.json; one minute

10⁴ points with whole-numbered coordinates, fourteen positive and six negative, so that D̂ is exact,
often tied and sometimes negative: the neighbours must be those of a stable sort of every row of D̂.
The time is compared with that of one D̂ product, every entry of D̂ computed block by block and
thrown away, in alternation; the ratio of CPU seconds does not depend on who else computes.
"""

from __future__ import annotations

import os
import time
from typing import Any

# Small products by many threads wait for each other where others compute as well.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

import measure
from neucmds._methods.geometry import sq_dissimilarities
from neucmds._methods.neighbors import nearest

RECORD = measure.RECORDS / "neighbors.json"
N, SIGNATURE, K = 10_000, (14, 6), 10
ROUNDS = 7
BLOCK = 500


def points(whole: bool) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    signs = np.r_[np.ones(SIGNATURE[0]), -np.ones(SIGNATURE[1])]
    x = rng.normal(size=(N, signs.size))
    return (np.rint(2 * x) if whole else x), signs


def product(x: np.ndarray, signs: np.ndarray) -> None:
    """Compute D̂ with as little as can be: one product and two additions to an array that is there.

    `sq_dissimilarities` makes new arrays and takes longer.
    """
    weighted, columns, d = x * signs, np.ascontiguousarray(x.T), np.empty((BLOCK, N))
    norms = np.sum(weighted * x, axis=1)
    for start in range(0, N, BLOCK):
        rows = slice(start, start + BLOCK)
        np.matmul(-2 * weighted[rows], columns, out=d)
        d += norms[None, :]
        d += norms[rows, None]


def brute_force(x: np.ndarray, signs: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
    """Return the K nearest by a stable sort of each row, and how often D̂ is negative or tied."""
    ids, negative, tied = np.empty((N, K), dtype=np.int64), 0, 0
    for start in range(0, N, BLOCK):
        own = np.arange(start, min(start + BLOCK, N))
        d = sq_dissimilarities(x[own], x, signs)
        negative += int(np.sum(d < 0))
        d[np.arange(own.size), own] = np.inf
        order = np.argsort(d, axis=1, kind="stable")[:, : K + 1]
        ids[own] = order[:, :K]
        edge = np.take_along_axis(d, order[:, K - 1 :], axis=1)
        tied += int(np.sum(edge[:, 0] == edge[:, 1]))
    return ids, {"negative_share": negative / N**2, "rows_tied_at_the_edge": tied}


def timed(work: Any) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    x, signs = points(whole=True)
    expected, facts = brute_force(x, signs)
    found, _ = nearest(x, x, signs, K, np.arange(N))
    facts["equal"] = bool(np.array_equal(found, expected))
    print(facts)
    ratios = []
    x, _ = points(whole=False)
    for _ in range(ROUNDS):
        base = timed(lambda: product(x, signs))
        ours = timed(lambda: nearest(x, x, signs, K, np.arange(N)))
        ratios.append([ours[0] / base[0], ours[1] / base[1]])
    wall, cpu = np.median(ratios, axis=0).tolist()
    print(f"neighbors takes {wall:.2f} × the time of one D̂ product, {cpu:.2f} × its CPU time")
    record = {
        "machine": measure.machine(),
        "versions": measure.versions("numpy"),
        "n": N,
        "signature": SIGNATURE,
        "k": K,
        **facts,
        "median_ratio_wall": wall,
        "median_ratio_cpu": cpu,
        "ratios": ratios,
    }
    measure.write_record(RECORD, record)


if __name__ == "__main__":
    main()
