"""What each piece of CPU tuning is worth: fits without it against fits with it, alternating.

    python benchmarks/tuning.py [--n 8000] [--repeats 7] [--piece NAME ...]

writes benchmarks/records/tuning.json. A piece stays in the code only if some fit takes more than
10 % longer without it. Each is switched off by putting what one would write without it in its
place. A ratio is that of the fastest runs: whoever else computes on the machine makes runs slower,
never faster. What was deleted stays in the record with the ratio that decided it.
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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

import joblib
import numpy as np

from measure import RECORDS, SEED, machine, versions, write_record
from neucmds import neuc_mds
from neucmds._backend import blas, threads
from neucmds._input import walk
from neucmds._methods.refined import descent, objective
from neucmds._operator import blocked, dense, gram
from neucmds.datasets import synthetic

RECORD = RECORDS / "tuning.json"
K, WORTH = 100, 1.10
Patches = list[tuple[Any, str, Any]]


def one_by_one(work: Callable[[Any], Any], parts: Any) -> list[Any]:
    return [work(part) for part in parts]


def all_rows(work: Callable[[slice], Any], n: int, width: int) -> list[Any]:
    return [work(slice(0, n))]


def plain_product(matrix: Any, columns: Any) -> Any:
    return matrix @ columns


def by_joblib(self: Any, work: Callable[[Any], Any], parts: Any) -> list[Any]:
    if not hasattr(self, "parallel"):
        self.parallel = joblib.Parallel(self.size, prefer="threads").__enter__()
    return self.parallel(joblib.delayed(work)(part) for part in parts)


def read_in_turn(self: Any, fill: Any, dtype: Any) -> Any:
    self.read_ahead = False
    return pass_over(self, fill, dtype)


pass_over = blocked.BlockedGram.pass_over

# name: (where, what one would write without it)
PIECES: dict[str, tuple[str, Patches]] = {
    "float32 copy of B": (
        "_operator/dense.py",
        [(dense.DenseGram, "rounded", lambda self: None)],
    ),
    "unpacked panels": ("_backend/blas.py", [(blas, "_unpacked", lambda: False)]),
    "basis products by shares": (
        "_backend/blas.py",
        [(blas, "_worth_sharing", lambda basis, count: False)],
    ),
    "few wide rows times D": (
        "_backend/blas.py",
        [(blas, "symmetric_times", plain_product), (dense, "symmetric_times", plain_product)],
    ),
    "threads over slices of X": (
        "_backend/threads.py",
        [(descent, "over_rows", all_rows), (objective, "over_rows", all_rows)],
    ),
    "pool by hand, not joblib": ("_backend/threads.py", [(threads._Pool, "map", by_joblib)]),
    "threads in validation": ("_input/walk.py", [(walk, "parallel_map", one_by_one)]),
    "threads for moments and copy": ("_operator/dense.py", [(dense, "parallel_map", one_by_one)]),
    "⟨B, G⟩ from half of D": (
        "_operator/dense.py",
        [(dense.DenseGram, "quadratic", gram.Gram.quadratic)],
    ),
    "reading ahead": (
        "_operator/blocked.py",
        [(blocked.BlockedGram, "pass_over", read_in_turn)],
    ),
}
FROM_DISK = {"reading ahead"}


@contextmanager
def without(piece: str | None) -> Iterator[None]:
    with ExitStack() as stack:
        for owner, name, replacement in PIECES[piece][1] if piece else ():
            stack.enter_context(patch.object(owner, name, replacement))
        yield


def fits(n: int, folder: Path) -> Iterator[tuple[str, Callable[[], Any], bool]]:
    """Name a fit, the function that does it, and whether it reads D from disk."""

    def fit(D: Any, method: str, k: int = K, **options: Any) -> Callable[[], Any]:
        return lambda: neuc_mds(D, k, method, squared=True, random_state=SEED, **options)

    ball = synthetic.euclidean_ball(n, random_state=SEED)
    yield "neuc+, tol=1e-6, Euclidean-ball", fit(ball, "neuc+", tol=1e-6), False
    yield "neuc+, Euclidean-ball", fit(ball, "neuc+"), False
    yield "refined, Euclidean-ball", fit(ball, "refined"), False
    path = folder / "ball.npy"
    np.save(path, ball)
    limit = 3 * n * n  # less than the float32 copy of B
    yield "neuc+ from disk, k=20", fit(path, "neuc+", 20, max_memory=limit), True


def ratios(fit: Callable[[], Any], pieces: list[str], repeats: int) -> dict[str, Any]:
    times: dict[str | None, list[float]] = {piece: [] for piece in (None, *pieces)}
    for repeat in range(repeats + 1):
        for piece, seen in times.items():
            with without(piece):
                start = time.perf_counter()
                fit()
                if repeat:
                    seen.append(time.perf_counter() - start)
    base = times.pop(None)
    return {
        "seconds": round(min(base), 3),
        "median_seconds": round(statistics.median(base), 3),
        "ratio_without": {name: round(min(t) / min(base), 3) for name, t in times.items()},
    }


FRESH = """
import sys, time, warnings
import numpy as np
from neucmds import neuc_mds
warnings.simplefilter("ignore")
D = np.load(sys.argv[1])
if sys.argv[2] == "keep":
    np.empty(31 * 2**20, dtype=np.uint8)
start = time.perf_counter()
neuc_mds(D, 100, "neuc+", squared=True, tol=1e-6, random_state=0)
print(time.perf_counter() - start)
"""


def fresh_processes(path: Path, repeats: int) -> float:
    """How much longer the first fit of a process takes if malloc is left as it is."""
    times: dict[str, list[float]] = {"keep": [], "leave": []}
    for _ in range(repeats):
        for kind, seen in times.items():
            done = subprocess.run(
                [sys.executable, "-c", FRESH, str(path), kind],
                capture_output=True,
                check=True,
                text=True,
            )
            seen.append(float(done.stdout))
    return round(min(times["leave"]) / min(times["keep"]), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=8000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--piece", nargs="*", default=list(PIECES))
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    earlier = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    record: dict[str, Any] = {
        "machine": machine(),
        "versions": versions("numpy", "scipy", "threadpoolctl", "joblib"),
        "settings": {
            "n": chosen.n,
            "k": K,
            "repeats": chosen.repeats,
            "threads": os.environ["OPENBLAS_NUM_THREADS"],
        },
        "pieces": {name: where for name, (where, _) in PIECES.items()},
        "fits": {},
        "deleted": earlier.get("deleted", {}),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for title, fit, on_disk in fits(chosen.n, folder):
            pieces = [piece for piece in chosen.piece if (piece in FROM_DISK) == on_disk]
            record["fits"][title] = ratios(fit, pieces, chosen.repeats)
            print(title, record["fits"][title], flush=True)
        record["deleted"]["freed memory kept by malloc"] = {
            "where": "_backend/arrays.py",
            "ratio": fresh_processes(folder / "ball.npy", chosen.repeats),
            "fit": "neuc+, tol=1e-6, the first of a process",
            "why": "it changes how the whole process allocates",
        }
    record["machine"]["load_after"] = round(os.getloadavg()[0], 1)
    write_record(RECORD, record)


if __name__ == "__main__":
    main()
