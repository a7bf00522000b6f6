"""Speed and memory: our solver and others on the same matrices, each in its own process.

    python benchmarks/scoreboard/speed.py            n = 8000, k = 100: half an hour on two cores
    python benchmarks/scoreboard/speed.py --quick    n = 1500, k = 30: two minutes
    python benchmarks/scoreboard/speed.py --n 4000 --family "8-NN hops" --system eigsh neucmds

Others are scikit-learn's ClassicalMDS, both methods of scikit-bio's pcoa, SciPy's eigsh and eigh.

Every system starts from D in memory, prepared on the scale it wants; the clock runs from there to
its eigenpairs or coordinates, centering included, after a warm-up on 200 objects. Memory is the
peak beyond what was resident when the clock started, D included in that. Repeats alternate between
the systems; those that decompose all of B run once, and one of them is the reference. "k largest"
are the k eigenvalues of largest magnitude; every system is held to the pairs it means to keep.
Where squared dissimilarities are negative (Random-simplex), systems that want their square roots
are timed on what is left with those set to zero, which is another matrix: no error is given.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from measure import (
    FAMILIES,
    RECORDS,
    SEED,
    forget_peak,
    machine,
    peak,
    resident,
    versions,
    write_record,
)
from neucmds.spectrum.selection import METHODS
from neucmds.spectrum.spectrum import Spectrum

TOL = 1e-6
Solver = Callable[[Any, int], np.ndarray]


def centered(D: np.ndarray) -> np.ndarray:
    """Return −½CDC as one new array."""
    B = D - D.mean(axis=0)
    B -= B.mean(axis=1, keepdims=True)
    B *= -0.5
    return B


def run_neucmds(D: np.ndarray, k: int) -> np.ndarray:
    from neucmds import neuc_mds

    return neuc_mds(
        D, k, "neuc+", squared=True, tol=TOL, random_state=SEED
    ).info.eigenvalues


def run_classical_mds(distances: np.ndarray, k: int) -> np.ndarray:
    from sklearn.manifold import ClassicalMDS

    return (
        ClassicalMDS(n_components=k, metric="precomputed")
        .fit(distances)
        .eigenvalues_
    )


def run_pcoa_eigh(matrix: Any, k: int) -> np.ndarray:
    from skbio.stats.ordination import pcoa

    return pcoa(matrix, method="eigh", dimensions=k).eigvals.to_numpy()


def run_pcoa_fsvd(matrix: Any, k: int) -> np.ndarray:
    from skbio.stats.ordination import pcoa

    return pcoa(
        matrix, method="fsvd", dimensions=k, seed=SEED
    ).eigvals.to_numpy()


def run_eigsh(D: np.ndarray, k: int) -> np.ndarray:
    from scipy.sparse.linalg import eigsh

    start = np.random.default_rng(SEED).standard_normal(len(D))
    return eigsh(centered(D), k, which="LM", tol=TOL, v0=start)[0]


def run_eigh(D: np.ndarray, k: int) -> np.ndarray:
    from scipy.linalg import eigh

    return eigh(centered(D), overwrite_a=True, check_finite=False)[0]


# name: (solver, what it wants, which pairs it means to keep, whether it decomposes all of B)
SYSTEMS: dict[str, tuple[Solver, str, str, bool]] = {
    "neucmds": (run_neucmds, "squared", "neuc+", False),
    "eigsh": (run_eigsh, "squared", "k largest", False),
    "pcoa fsvd": (run_pcoa_fsvd, "DistanceMatrix", "k largest", False),
    "ClassicalMDS": (run_classical_mds, "distances", "top k", True),
    "pcoa eigh": (run_pcoa_eigh, "DistanceMatrix", "top k", True),
    "eigh": (run_eigh, "squared", "all", True),
}


def prepared(D: np.ndarray, wants: str) -> Any:
    """Put squared dissimilarities on the scale, and into the wrapping, that a system wants."""
    if wants == "squared":
        return D
    np.sqrt(np.maximum(D, 0.0, out=D), out=D)
    if wants == "distances":
        return D
    from skbio import DistanceMatrix

    return DistanceMatrix(D)


def work(system: str, matrix: Path, k: int) -> dict[str, Any]:
    """Time one system in this process."""
    solver, wants, _, _ = SYSTEMS[system]
    warnings.simplefilter("ignore")
    D = np.load(matrix)
    clipped = wants != "squared" and bool(D.min() < 0)
    solver(prepared(D[:200, :200].copy(), wants), min(k, 20))
    ready = prepared(D, wants)
    forget_peak()
    before, started = resident(), time.perf_counter()
    values = solver(ready, k)
    seconds = time.perf_counter() - started
    return {
        "seconds": seconds,
        "peak_beyond_D": max(0, peak() - before),
        "values": np.asarray(values, dtype=float).tolist(),
        "clipped": clipped,
    }


def launch(system: str, matrix: Path, k: int, threads: int) -> dict[str, Any]:
    """Run one system in a process of its own."""
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(names, str(threads))}
    command = [
        sys.executable,
        __file__,
        "--worker",
        system,
        str(matrix),
        "--k",
        str(k),
    ]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"failed": last}
    return json.loads(done.stdout.splitlines()[-1])


def accuracy(
    values: np.ndarray, keeps: str, full: np.ndarray, k: int
) -> dict[str, Any]:
    """Hold the eigenvalues of a system to those of the full solve that it means to keep."""
    full = np.sort(full)[::-1]
    largest = full[np.argsort(-np.abs(full), kind="stable")[:k]]
    if keeps == "neuc+":
        kept = METHODS["neuc+"](Spectrum.of(full), k).kept
        expected = full[kept]
    else:
        expected = {"k largest": largest, "top k": full[:k], "all": full}[
            keeps
        ]
    found = {
        "found": int(values.size),
        "split": [int(np.sum(values > 0)), int(np.sum(values < 0))],
        "split_of_full_solve": [
            int(np.sum(expected > 0)),
            int(np.sum(expected < 0)),
        ],
        "negatives_among_k_largest": int(np.sum(largest < 0)),
    }
    # Singular values come without signs: they are matched by size, and counted as they come.
    by = (
        (lambda v: np.argsort(-np.abs(v), kind="stable"))
        if keeps == "k largest"
        else np.argsort
    )
    if values.size == expected.size:
        a, b = values[by(values)], expected[by(expected)]
        scale = np.abs(b) if keeps != "all" else np.max(np.abs(b))
        found["largest_relative_error"] = float(np.max(np.abs(a - b) / scale))
    return found


def measure_family(
    family: str, systems: list[str], n: int, k: int, repeats: int, threads: int
) -> list[dict[str, Any]]:
    """Run all systems on one matrix, alternating, and compare them."""
    runs: dict[str, list[dict[str, Any]]] = {system: [] for system in systems}
    with tempfile.TemporaryDirectory() as folder:
        matrix = Path(folder) / "D.npy"
        np.save(matrix, FAMILIES[family](n))
        reference = launch("eigh", matrix, k, threads)
        full = np.asarray(reference["values"])
        for repeat in range(repeats):
            for system in systems:
                if SYSTEMS[system][3] and repeat:
                    continue
                again = system == "eigh"
                runs[system].append(
                    reference if again else launch(system, matrix, k, threads)
                )
                said = runs[system][-1]
                outcome = said.get("failed") or f"{said['seconds']:.2f} s"
                print(
                    f"{family}, {system}: {outcome}",
                    file=sys.stderr,
                    flush=True,
                )
    rows = [
        summary(family, system, runs[system], full, n, k) for system in systems
    ]
    ours = next(
        (row["seconds"] for row in rows if row["system"] == "neucmds"), None
    )
    for row in rows:
        if ours and "seconds" in row:
            row["times_neucmds"] = row["seconds"] / ours
    return rows


def summary(
    family: str,
    system: str,
    runs: list[dict[str, Any]],
    full: np.ndarray,
    n: int,
    k: int,
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "family": family,
        "system": system,
        "keeps": SYSTEMS[system][2],
    }
    if "failed" in runs[0]:
        return row | {"failed": runs[0]["failed"]}
    values = np.asarray(runs[-1]["values"])
    row["seconds"] = statistics.median(run["seconds"] for run in runs)
    row["all_seconds"] = [run["seconds"] for run in runs]
    row["clipped"] = runs[-1]["clipped"]
    row["peak_over_D"] = max(run["peak_beyond_D"] for run in runs) / (
        8 * n * n
    )
    if system == "eigh":
        row["keeps"] = "k largest"
        values = values[np.argsort(-np.abs(values), kind="stable")[:k]]
    row |= accuracy(values, row["keeps"], full, k)
    if row["clipped"]:
        row.pop("largest_relative_error", None)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=8000)
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--family", nargs="+", choices=FAMILIES, default=list(FAMILIES)
    )
    parser.add_argument(
        "--system", nargs="+", choices=SYSTEMS, default=list(SYSTEMS)
    )
    parser.add_argument(
        "--quick", action="store_true", help="n = 1500, k = 30, one repeat"
    )
    parser.add_argument(
        "--record", type=Path, help="default: records/speed.json, quick: none"
    )
    parser.add_argument(
        "--worker",
        nargs=2,
        metavar=("SYSTEM", "MATRIX"),
        help=argparse.SUPPRESS,
    )
    arguments = parser.parse_args()
    if arguments.worker:
        system, matrix = arguments.worker
        print(json.dumps(work(system, Path(matrix), arguments.k)))
        return
    if arguments.quick:
        arguments.n, arguments.k, arguments.repeats = 1500, 30, 1
    target = arguments.record or (
        None if arguments.quick else RECORDS / "speed.json"
    )
    record: dict[str, Any] = {
        "machine": machine(),
        "versions": versions("numpy", "scipy", "scikit-learn", "scikit-bio"),
        "settings": {
            name: getattr(arguments, name)
            for name in ("n", "k", "repeats", "threads")
        }
        | {"tol": TOL, "seed": SEED},
        "rows": [],
    }
    for family in arguments.family:
        made = measure_family(
            family,
            arguments.system,
            arguments.n,
            arguments.k,
            arguments.repeats,
            arguments.threads,
        )
        record["rows"] += made
        print(*made, sep="\n", flush=True)
        if target is not None:
            write_record(target, record)


if __name__ == "__main__":
    main()
