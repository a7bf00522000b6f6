"""What each piece of CPU tuning is worth: fits without it against fits with it, alternating.

    python benchmarks/tuning.py [--n 8000] [--repeats 7] [--piece NAME ...] [--busy]

writes benchmarks/records/tuning.json. A piece stays in the code only if some fit takes more than
10 % longer without it. Each is switched off by putting what one would write without it in its
place. A ratio is that of the fastest runs: whoever else computes on the machine makes runs slower,
never faster. What was deleted stays in the record with the ratio that decided it.

With --busy, for a machine that others use, one thread works and its CPU seconds are counted. A
piece that only puts work on threads is then given 1 + its share of them: what two cores would lose.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

import joblib
import numpy as np
from threadpoolctl import threadpool_limits

from measure import RECORDS, SEED, machine, versions, write_record
from neucmds import neuc_mds
from neucmds._backend import blas, threads
from neucmds._input import tiles
from neucmds._methods.refined import descent, objective
from neucmds._operator import blocked, dense, gram
from neucmds._spectrum import orthogonal
from neucmds.datasets import synthetic

RECORD = RECORDS / "tuning.json"
K = 100


def one_by_one(work: Callable[[Any], Any], parts: Any) -> list[Any]:
    return [work(part) for part in parts]


def all_rows(work: Callable[[slice], Any], n: int, width: int) -> list[Any]:
    return [work(slice(0, n))]


def plain_product(matrix: Any, columns: Any) -> Any:
    return matrix @ columns


def read_in_turn(self: Any, fill: Any, dtype: Any) -> Any:
    self.read_ahead = False
    return pass_over(self, fill, dtype)


pass_over = blocked.BlockedGram.pass_over


@dataclass(frozen=True)
class Piece:
    """Where it is, what one would write without it, and the functions it puts on threads.

    `stays` says why it is kept even if it is worth less than 10 %.
    """

    where: str
    instead: list[tuple[Any, str, Any]]
    threaded: tuple[tuple[Any, str], ...] = ()
    from_disk: bool = False
    stays: str = ""


PIECES = {
    "float32 copy of B": Piece(
        "_operator/dense.py", [(dense.DenseGram, "rounded", lambda self: None)]
    ),
    "unpacked panels": Piece("_backend/blas.py", [(blas, "_unpacked", lambda: False)]),
    "basis products by shares": Piece(
        "_backend/blas.py",
        [(blas, "_worth_sharing", lambda basis, count: False)],
        ((orthogonal, "inner_products"), (orthogonal, "combine_rows")),
    ),
    "few wide rows times D": Piece(
        "_backend/blas.py",
        [(blas, "symmetric_times", plain_product), (dense, "symmetric_times", plain_product)],
    ),
    "threads over slices of X": Piece(
        "_backend/threads.py",
        [(descent, "over_rows", all_rows), (objective, "over_rows", all_rows)],
        ((descent, "over_rows"), (objective, "over_rows")),
        stays="without it refined falls more than 5 % behind the first release",
    ),
    "threads in validation": Piece(
        "_input/tiles.py", [(tiles, "parallel_map", one_by_one)], ((tiles, "parallel_map"),)
    ),
    "threads for moments and copy": Piece(
        "_operator/dense.py", [(dense, "parallel_map", one_by_one)], ((dense, "parallel_map"),)
    ),
    "⟨B, G⟩ from half of D": Piece(
        "_operator/dense.py",
        [(dense.DenseGram, "quadratic", gram.Gram.quadratic)],
        stays="without it the last bits of every STRESS of refined change",
    ),
    "reading ahead": Piece(
        "_operator/blocked.py",
        [(blocked.BlockedGram, "pass_over", read_in_turn)],
        from_disk=True,
        stays="an option of BlockedGram, for disks slower than a product",
    ),
}


@contextmanager
def without(piece: str | None) -> Iterator[None]:
    with ExitStack() as stack:
        for owner, name, replacement in PIECES[piece].instead if piece else ():
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
    yield "neuc+, k=10, Euclidean-ball", fit(ball, "neuc+", 10), False
    single = ball.astype(np.float32)
    yield "neuc+, tol=1e-6, float32 D", fit(single, "neuc+", tol=1e-6), False
    path = folder / "ball.npy"
    np.save(path, ball)
    limit = 3 * n * n  # less than the float32 copy of B
    yield "neuc+ from disk, k=20", fit(path, "neuc+", 20, max_memory=limit), True


def ratios(fit: Callable[[], Any], pieces: list[str], repeats: int) -> dict[str, Any]:
    """Time the fit with everything, and without each piece over that."""
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


def busy_ratios(fit: Callable[[], Any], pieces: list[str], repeats: int) -> dict[str, Any]:
    """Do the same with the CPU seconds of one thread."""
    changed = [piece for piece in pieces if not PIECES[piece].threaded]
    times: dict[str | None, list[float]] = {piece: [] for piece in (None, *changed)}
    shares: dict[str, list[float]] = {piece: [] for piece in pieces if piece not in changed}
    with threadpool_limits(1):
        for repeat in range(repeats + 1):
            for piece, seen in times.items():
                with without(piece):
                    start = time.thread_time()
                    fit()
                    if repeat:
                        seen.append(time.thread_time() - start)
            for piece, found in shares.items():
                with counted(piece) as inside:
                    start = time.thread_time()
                    fit()
                    if repeat:
                        found.append(sum(inside) / (time.thread_time() - start))
    base = times.pop(None)
    without_piece = {name: min(t) / min(base) for name, t in times.items()}
    without_piece |= {name: 1 + statistics.median(found) for name, found in shares.items()}
    return {
        "cpu_seconds": round(min(base), 3),
        "ratio_without": {name: round(without_piece[name], 3) for name in pieces},
    }


@contextmanager
def counted(piece: str) -> Iterator[list[float]]:
    """Collect the CPU seconds spent in the functions that a piece puts on threads."""
    inside: list[float] = []

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            start = time.thread_time()
            found = function(*args)
            inside.append(time.thread_time() - start)
            return found

        return call

    with ExitStack() as stack:
        for owner, name in PIECES[piece].threaded:
            stack.enter_context(patch.object(owner, name, timed(getattr(owner, name))))
        yield inside


def cold_pass() -> dict[str, Any]:
    """Take what reading ahead is worth from the record of `out_of_core.py`."""
    seconds = json.loads((RECORDS / "out_of_core.json").read_text())["one_pass_cold_seconds"]
    ratio = round(seconds["in turn"] / seconds["ahead"], 3)
    return {"one pass over a file, not cached": {"ratio_without": {"reading ahead": ratio}}}


def milliseconds_a_call(parts: int = 16) -> dict[str, float]:
    """Time calls of the pool, and of joblib's, that do nothing."""
    best = {"pool": math.inf, "joblib.Parallel": math.inf}
    with threads.worker_pool(), joblib.Parallel(2, prefer="threads") as parallel:
        calls = {
            "pool": lambda: threads.parallel_map(abs, range(parts)),
            "joblib.Parallel": lambda: parallel(joblib.delayed(abs)(i) for i in range(parts)),
        }
        for _ in range(60):
            for name, call in calls.items():
                start = time.perf_counter()
                call()
                best[name] = min(best[name], 1e3 * (time.perf_counter() - start))
    return {name: round(value, 3) for name, value in best.items()}


FRESH = """
import sys, time, warnings
import numpy as np
from neucmds import neuc_mds
warnings.simplefilter("ignore")
D = np.load(sys.argv[1])
if sys.argv[2] == "keep":
    np.empty(31 * 2**20, dtype=np.uint8)
clock = time.process_time if sys.argv[3] == "busy" else time.perf_counter
start = clock()
neuc_mds(D, 100, "neuc+", squared=True, tol=1e-6, random_state=0)
print(clock() - start)
"""


def fresh_processes(path: Path, repeats: int, busy: bool) -> float:
    """How much longer the first fit of a process takes if malloc is left as it is."""
    times: dict[str, list[float]] = {"keep": [], "leave": []}
    one_thread = {"OPENBLAS_NUM_THREADS": "1"} if busy else {}
    for _ in range(repeats):
        for kind, seen in times.items():
            done = subprocess.run(
                [sys.executable, "-c", FRESH, str(path), kind, "busy" if busy else "quiet"],
                env=os.environ | one_thread,
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
    parser.add_argument("--busy", action="store_true")
    chosen = parser.parse_args()
    measure = busy_ratios if chosen.busy else ratios
    warnings.simplefilter("ignore")
    earlier = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    record: dict[str, Any] = {
        "machine": machine(),
        "versions": versions("numpy", "scipy", "threadpoolctl"),
        "settings": {
            "n": chosen.n,
            "k": K,
            "repeats": chosen.repeats,
            "threads": 1 if chosen.busy else int(os.environ["OPENBLAS_NUM_THREADS"]),
            "busy": chosen.busy,
        },
        "pieces": {name: piece.where for name, piece in PIECES.items()},
        "stays": {name: piece.stays for name, piece in PIECES.items() if piece.stays},
        "threaded": [name for name, piece in PIECES.items() if piece.threaded],
        "milliseconds_a_call": milliseconds_a_call(),
        "fits": {},
        "deleted": earlier.get("deleted", {}),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for title, fit, on_disk in fits(chosen.n, folder):
            if on_disk and chosen.busy:
                record["fits"] |= cold_pass()  # waiting for the disk takes no CPU time
                continue
            pieces = [name for name in chosen.piece if PIECES[name].from_disk == on_disk]
            record["fits"][title] = measure(fit, pieces, chosen.repeats)
            print(title, record["fits"][title], flush=True)
        record["deleted"]["freed memory kept by malloc"] = {
            "where": "_backend/arrays.py",
            "ratio": fresh_processes(folder / "ball.npy", chosen.repeats, chosen.busy),
            "fit": "neuc+, tol=1e-6, the first of a process",
            "why": "it changes how the whole process allocates",
        }
    record["machine"]["load_after"] = round(os.getloadavg()[0], 1)
    write_record(RECORD, record)


if __name__ == "__main__":
    main()
