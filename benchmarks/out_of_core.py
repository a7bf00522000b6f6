"""A matrix larger than the memory it may use: from disk in chunks, against the same in memory.

    python benchmarks/out_of_core.py                     n = 30,000: a 7.2 GB file, deleted after
    python benchmarks/out_of_core.py --n 6000 --max-memory 200 --folder /path/with/room

Balls in a cube (centres and radii), unsquared distances, written in chunks. Both fits run in
processes of their own; memory is the peak of resident pages of the whole process, imports included.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from measure import (
    RECORDS,
    SEED,
    forget_peak,
    machine,
    peak,
    versions,
    write_record,
)
from neucmds import neuc_mds
from neucmds.spectrum.operators.features import FeatureGram


def write_matrix(path: Path, n: int) -> None:
    """Write distances between balls, a block of rows at a time."""
    rng = np.random.default_rng(SEED)
    features = np.hstack(
        [rng.uniform(0, 100, (n, 10)), rng.uniform(0, 5, (n, 1))]
    )
    features[rng.uniform(size=n) < 0.1, -1] *= 4
    space = FeatureGram(features, "balls")
    header = {"descr": "<f8", "fortran_order": False, "shape": (n, n)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_2_0(file, header)
        for start in range(0, n, 256):
            np.sqrt(space.rows(slice(start, min(start + 256, n)))).tofile(file)


def work(
    path: Path, k: int, tol: float, max_memory: int | None
) -> dict[str, Any]:
    """Fit once, from disk if there is a bound (in MB) and in memory if there is none."""
    warnings.simplefilter("ignore")
    passes: set[str] = set()
    settings = {"tol": tol, "random_state": SEED}
    forget_peak()
    cpu = time.process_time()
    started = time.perf_counter()
    if max_memory is None:
        embedding = neuc_mds(np.load(path), k, "neuc+", **settings)
    else:
        with patch(
            "neucmds.backend.memory.available_memory",
            return_value=max_memory * 10**6,
        ):
            embedding = neuc_mds(
                path,
                k,
                "neuc+",
                callback=lambda *step: passes.add(str(step[2])),
                **settings,
            )
    return {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu,
        "peak_gb": peak() / 1e9,
        "passes": sum("pass" in what for what in passes),
        "converged": embedding.info.converged,
        "signature": embedding.signature,
        "stress": embedding.stress,
        "eigenvalues": embedding.info.eigenvalues.tolist(),
    }


def launch(
    path: Path, arguments: argparse.Namespace, max_memory: int | None
) -> dict[str, Any]:
    command = [sys.executable, __file__, "--worker", str(path)]
    command += ["--k", str(arguments.k), "--tol", str(arguments.tol)]
    command += [] if max_memory is None else ["--max-memory", str(max_memory)]
    environment = {
        **os.environ,
        "OPENBLAS_NUM_THREADS": str(arguments.threads),
    }
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def compare(
    chunked: dict[str, Any], memory: dict[str, Any]
) -> dict[str, float]:
    """Return how far the kept eigenvalues and the STRESS of the two fits are apart."""
    a, b = (
        np.asarray(found.pop("eigenvalues")) for found in (chunked, memory)
    )
    return {
        "eigenvalues": float(np.max(np.abs(a / b - 1)))
        if a.size == b.size
        else float("nan"),
        "stress": abs(chunked["stress"] / memory["stress"] - 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=30_000)
    parser.add_argument("--k", type=int, default=50)
    parser.add_argument("--tol", type=float, default=1e-6)
    parser.add_argument("--max-memory", type=int, help="MB")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--folder", type=Path, help="where the file is written and deleted"
    )
    parser.add_argument("--record", type=Path)
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(
            json.dumps(
                work(
                    arguments.worker,
                    arguments.k,
                    arguments.tol,
                    arguments.max_memory,
                )
            )
        )
        return
    bound = arguments.max_memory or 2000
    record: dict[str, Any] = {
        "machine": machine(),
        "versions": versions("numpy", "scipy"),
        "settings": {
            name: getattr(arguments, name)
            for name in ("n", "k", "tol", "threads")
        }
        | {
            "max_memory": f"{bound / 1000:g}GB",
            "seed": SEED,
            "file_gb": 8e-9 * arguments.n**2,
        },
    }
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = Path(folder) / "D.npy"
        write_matrix(path, arguments.n)
        record["from_disk"] = launch(path, arguments, bound)
        record["in_memory"] = launch(path, arguments, None)
    record["relative_difference"] = compare(
        record["from_disk"], record["in_memory"]
    )
    print(json.dumps(record, indent=1))
    default = arguments.n == parser.get_default("n")
    target = arguments.record or (
        RECORDS / "out_of_core.json" if default else None
    )
    if target is not None:
        write_record(target, record)


if __name__ == "__main__":
    main()
