"""A dozen public calls in units of NumPy's own work, beside those of the last release.

    python benchmarks/gate.py            # fails if a call takes BOUND times what it took
    python benchmarks/gate.py --record   # at a release: write benchmarks/records/gate.json

The unit is the CPU time of a matrix product and a pass of square roots, measured before every
call, so a slower machine slows both. The least of five rounds counts. One thread of BLAS.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import threadpoolctl
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

import neucmds
from neucmds import LandmarkNeucMDS, neuc_mds
from neucmds.datasets import hop_distances

RECORD = Path(__file__).parent / "records" / "gate.json"
ROUNDS = 5
# Ratios of the same code differ by up to a third between runs on a busy machine.
BOUND = 1.5


def cases() -> dict[str, Callable[[], object]]:
    """Return the calls by name, on data that are made once."""
    rng = np.random.default_rng(0)
    points = rng.random((700, 5))
    hops = hop_distances(points, 8, connect=True)
    table = rng.gamma(0.3, size=(700, 60))
    counts = cdist(table, table, "braycurtis")
    small = counts[:150, :150]
    unknown = np.triu(rng.random(small.shape) < 0.1, 1)
    gaps = np.where(unknown | unknown.T, np.nan, small)
    listed = csr_array(np.triu(hops[:300, :300], 1))
    fitted = neuc_mds(hops, 16)
    return {
        "neuc, 700 hops": lambda: neuc_mds(hops, 16, "neuc"),
        "neuc+, 700 Bray–Curtis": lambda: neuc_mds(counts, 16, "neuc+"),
        "squared, 700 hops": lambda: neuc_mds(hops, 16),
        "squared, 150 Bray–Curtis": lambda: neuc_mds(small, 4),
        "distance, 150 Bray–Curtis": lambda: neuc_mds(
            small, 3, loss="distance"
        ),
        "distance, 700 hops": lambda: neuc_mds(hops, 8, loss="distance"),
        "relative, 300 hops": lambda: neuc_mds(
            hops[:300, :300], 8, loss="relative"
        ),
        "gaps, 150 Bray–Curtis": lambda: neuc_mds(gaps, 3, missing="ignore"),
        "listed pairs, 300 hops": lambda: neuc_mds(listed, 3),
        "landmarks, 700 points": lambda: LandmarkNeucMDS(
            8, n_landmarks=100, metric="cityblock"
        ).fit(points),
        "transform, 700 rows": lambda: fitted.transform(hops),
        "neighbors, 700 objects": lambda: fitted.neighbors(10),
    }


def seconds(call: Callable[[], object]) -> float:
    """Return the CPU time of a call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def unit() -> None:
    """Do the work that is the unit of the ratios."""
    matrix = np.full((500, 500), 0.5)
    for _ in range(4):
        np.sqrt(matrix @ matrix).sum()


def ratios() -> dict[str, float]:
    """Return the time of every call in units."""
    measured = {}
    for name, call in cases().items():
        call()
        units = []
        times = []
        for _ in range(ROUNDS):
            units.append(seconds(unit))
            times.append(seconds(call))
        measured[name] = min(times) / min(units)
    return measured


def main() -> int:
    """Measure, and write or compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    with warnings.catch_warnings(), threadpoolctl.threadpool_limits(1):
        warnings.simplefilter("ignore")
        measured = ratios()
    if given.record:
        record = {"neucmds": neucmds.__version__, "ratios": measured}
        text = json.dumps(record, indent=1, ensure_ascii=False)
        RECORD.write_text(text + "\n", encoding="utf-8")
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    print(f"{'units of NumPy':<28}{record['neucmds']:>8}{'now':>8}")
    slower = False
    for name, now in measured.items():
        before = record["ratios"][name]
        mark = ""
        if now > BOUND * before:
            slower = True
            mark = f"  more than {BOUND} times as long"
        print(f"{name:<28}{before:8.2f}{now:8.2f}{mark}")
    return int(slower)


if __name__ == "__main__":
    sys.exit(main())
