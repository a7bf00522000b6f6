"""The default fit of 500 small random D beside every fit that it must not end above.

    python benchmarks/small_random.py                 all, about an hour on two cores; a second call
                                                      goes on where the first one was stopped
    python benchmarks/small_random.py --count 50      the first fifty

D are hops, Jaccard tables, constants, ties, trees and noise of 5 to 40 objects. For every loss the
default stands beside (k, 0), one start without other signatures (`n_init=1`), `exact` ("squared")
and the best of eight SMACOF starts ("distance"). The record counts the losses that end at most
1 % above the least of these, and has every other one.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import pdist, squareform
from sklearn.manifold import smacof

from measure import RECORDS, machine, versions, write_record
from neucmds import neuc_mds

# The power of d that a loss grows with.
POWERS = {"squared": 4, "distance": 2, "relative": 0}


def hops(n: int, rng: np.random.Generator) -> np.ndarray:
    """Edges between each node and an earlier one, and some more."""
    more = rng.integers(0, n, size=(int(rng.integers(0, 2 * n)), 2))
    i = np.r_[np.arange(1, n), more[:, 0]]
    j = np.r_[[int(rng.integers(0, a)) for a in range(1, n)], more[:, 1]]
    return shortest_path(
        coo_array((np.ones(i.size), (i, j)), shape=(n, n)).tocsr(),
        directed=False,
        unweighted=True,
    )


def jaccard(n: int, rng: np.random.Generator) -> np.ndarray:
    """Sparse tables of presence; every object has something."""
    table = rng.random((n, int(rng.integers(5, 40)))) < rng.uniform(0.05, 0.4)
    table[np.arange(n), rng.integers(0, table.shape[1], n)] = True
    return squareform(pdist(table, "jaccard"))


def constant(n: int, rng: np.random.Generator) -> np.ndarray:
    """All objects equally far from each other."""
    return float(rng.uniform(0.5, 2)) * (1 - np.eye(n))


def ties(n: int, rng: np.random.Generator) -> np.ndarray:
    """Return a few whole numbers."""
    upper = np.triu(
        rng.integers(1, int(rng.integers(3, 7)), size=(n, n)), 1
    ).astype(float)
    return upper + upper.T


def tree(n: int, rng: np.random.Generator) -> np.ndarray:
    """Lengths of the ways in a tree; half of the trees have edges of equal length."""
    lengths = (
        np.ones(n - 1) if rng.random() < 0.5 else rng.uniform(0.1, 1, n - 1)
    )
    parent = [
        (a - 1) // 2 if rng.random() < 0.5 else int(rng.integers(0, a))
        for a in range(1, n)
    ]
    graph = coo_array(
        (lengths, (np.arange(1, n), parent)), shape=(n, n)
    ).tocsr()
    return shortest_path(graph, directed=False)


def noise(n: int, rng: np.random.Generator) -> np.ndarray:
    """Uniform numbers, some of them in a narrow range."""
    upper = np.triu(rng.uniform(rng.choice([0.0, 0.8]), 1, size=(n, n)), 1)
    return upper + upper.T


FAMILIES: tuple[Callable[[int, np.random.Generator], np.ndarray], ...] = (
    hops,
    jaccard,
    constant,
    ties,
    tree,
    noise,
)


def case(number: int) -> tuple[str, int, np.ndarray]:
    """Return the family, k and D of a number; the same ones every time."""
    rng = np.random.default_rng(number)
    family = FAMILIES[number % len(FAMILIES)]
    n, k = int(rng.integers(5, 41)), int(rng.integers(2, 7))
    return family.__name__, min(k, n - 2), family(n, rng)


def loss_of(D: np.ndarray, k: Any, loss: str, **given: Any) -> float:
    found = neuc_mds(D, k, loss=loss, random_state=0, **given)
    return 2 * float(found.loss_value)


def raw_stress(D: np.ndarray, k: int) -> float:
    """Return the best of eight SMACOF starts, both orders of a pair counted."""
    starts = {
        "n_init": 8,
        "max_iter": 1000,
        "eps": 1e-8,
        "normalized_stress": False,
    }
    return 2 * float(
        smacof(D, n_components=k, init=None, random_state=0, **starts)[1]
    )


def row(number: int) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    family, k, D = case(number)
    found: dict[str, Any] = {
        "case": number,
        "family": family,
        "n": D.shape[0],
        "k": k,
    }
    for loss in POWERS:
        beside = {"(k, 0)": loss_of(D, (k, 0), loss)}
        if loss == "squared":
            beside["exact"] = float(neuc_mds(D, k, "exact").stress)
        else:
            beside["init=1"] = loss_of(D, k, loss, n_init=1)
        if loss == "distance":
            beside["smacof"] = raw_stress(D, k)
        # Below rounding of the sums every fit is perfect.
        rounding = 1e-9 * float(np.sum(D ** POWERS[loss]))
        here = loss_of(D, k, loss) + rounding
        found[loss] = {
            name: here / (value + rounding) for name, value in beside.items()
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument(
        "--out", type=Path, default=RECORDS / "small_random.json"
    )
    given = parser.parse_args()
    record = {
        "cases": 0,
        "fits": 0,
        "at_most_1_percent_above": 0,
        "worst": 0.0,
        "above": [],
    }
    if given.out.exists():
        record = json.loads(given.out.read_text(encoding="utf-8"))
    with ProcessPoolExecutor(given.processes) as pool:
        for one in pool.map(row, range(record["cases"], given.count)):
            worst = {loss: max(one[loss].values()) for loss in POWERS}
            record["cases"] += 1
            record["fits"] += len(worst)
            record["at_most_1_percent_above"] += sum(
                ratio <= 1.01 for ratio in worst.values()
            )
            record["worst"] = max(record["worst"], *worst.values())
            if (
                record["worst"] == max(worst.values())
                or max(worst.values()) > 1.01
            ):
                print(one, flush=True)
            if max(worst.values()) > 1.01:
                record["above"].append(one)
            if not record["cases"] % 10 or record["cases"] == given.count:
                record |= {
                    "machine": machine(),
                    "versions": versions("numpy", "scikit-learn"),
                }
                write_record(given.out, record)
    print(
        {
            name: record[name]
            for name in ("cases", "fits", "at_most_1_percent_above", "worst")
        }
    )


if __name__ == "__main__":
    main()
