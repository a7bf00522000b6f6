"""Speed against its limit: the passes over D of one fit, and what a relative fit costs more.

    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/scoreboard/limits.py

Closed form: `neuc` of 8-NN hops, n = 5,000 and k = 60. Every product of D with a block of columns
is counted, with the bytes of D that it reads (float32 or float64); sums of D and checks of the
input are not. The floor is as many products of the same shapes and nothing else, timed in between.
Beside it stands SciPy's eigsh on B with the same tolerance.

Relative loss: hops between 1,797 digits, k = 20, beside the squared fit, in turn. "Floors" is the
share of the CPU time in descents on floors that fall, "signature" that in the search for it, both
by a profile.

Times are CPU times.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse.linalg import eigsh
from sklearn.datasets import load_digits

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import losses
import measure
from neucmds import neuc_mds
from neucmds.backend import blas
from neucmds.datasets import hop_distances
from neucmds.spectrum.operators import dense

RECORD = measure.RECORDS / "limits.json"
TOL = 1e-6
REPEATS = 3
Row = dict[str, Any]


def timed(call: Any) -> tuple[float, Any]:
    begin = time.process_time()
    value = call()
    return time.process_time() - begin, value


def counted(call: Any) -> list[tuple[int, str]]:
    """Return columns of the block and number format of D, of every product of a call."""
    products: list[tuple[int, str]] = []

    def counting(plain: Any) -> Any:
        def product(matrix: Any, columns: Any, *rest: Any) -> Any:
            products.append((columns.shape[1], str(matrix.dtype)))
            return plain(matrix, columns, *rest)

        return product

    # Products of float32 by panels of rows, or in one call of BLAS.
    places: list[tuple[Any, str]] = [
        (blas, "_by_panels"),
        (blas, "symmetric_times"),
        (dense, "symmetric_times"),
    ]
    plain = [getattr(module, name) for module, name in places]
    for (module, name), function in zip(places, plain, strict=True):
        setattr(module, name, counting(function))
    try:
        call()
    finally:
        for (module, name), function in zip(places, plain, strict=True):
            setattr(module, name, function)
    return products


def closed_form(n: int, k: int) -> Row:
    D = measure.random_hops(n)

    def fit() -> Any:
        return neuc_mds(D, k, "neuc", squared=True, tol=TOL, random_state=0)

    def centred() -> Any:
        B = D - D.mean(axis=0)
        B -= B.mean(axis=1, keepdims=True)
        return eigsh(-0.5 * B, k, which="LM", tol=TOL)

    products = counted(fit)
    copies = {kind: D.astype(kind) for kind in {row[1] for row in products}}

    def floor() -> None:
        for columns, kind in products:
            copies[kind] @ np.ones((n, columns), kind)

    seconds: dict[str, list[float]] = {"neucmds": [], "floor": [], "eigsh": []}
    for _ in range(REPEATS):
        seconds["neucmds"].append(timed(fit)[0])
        seconds["floor"].append(timed(floor)[0])
    seconds["eigsh"].append(timed(centred)[0])
    medians = {name: statistics.median(own) for name, own in seconds.items()}
    return {
        "n": n,
        "k": k,
        "passes": len(products),
        "columns": sum(row[0] for row in products),
        "bytes": sum(copies[row[1]].nbytes for row in products),
        "formats": sorted(copies),
        "cpu_seconds": medians,
        "times_floor": medians["neucmds"] / medians["floor"],
    }


def relative_loss() -> Row:
    D = hop_distances(load_digits().data, n_neighbors=5, connect=True)
    seconds: dict[str, list[float]] = {"squared": [], "relative": []}
    for _ in range(REPEATS):
        for loss, own in seconds.items():
            own.append(timed(lambda loss=loss: neuc_mds(D, 20, loss=loss))[0])
    profile = cProfile.Profile(time.process_time)
    fitted = profile.runcall(neuc_mds, D, 20, loss="relative")
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]

    def spent(function: str) -> float:
        return max(
            (row[3] for key, row in stats.items() if key[2] == function),
            default=0.0,
        )

    total = spent("neuc_mds")
    medians = {name: statistics.median(own) for name, own in seconds.items()}
    return {
        "n": len(D),
        "k": 20,
        "cpu_seconds": medians,
        "ratio": medians["relative"] / medians["squared"],
        "floors": spent("lowered") / total,
        "signature": spent("best_negatives") / total,
        "recall_at_10": losses.nearest_kept(D, fitted.dissimilarities(), 10),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=5000)
    parser.add_argument("--k", type=int, default=60)
    parser.add_argument("--record", type=Path, default=RECORD)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    record = {
        "machine": measure.machine(),
        "versions": measure.versions("numpy", "scipy"),
        "relative": relative_loss(),
        "closed": closed_form(given.n, given.k),
    }
    print(record)
    measure.write_record(given.record, record)


if __name__ == "__main__":
    main()
