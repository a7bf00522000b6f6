"""Two checkouts of this project side by side: the same fits in turn, as ratios.

    git worktree add ../before v0.1.0
    python benchmarks/against.py ../before          n = 8000, k = 100: half an hour on two cores

Two processes, each with one of the two on its path, fit by turns. The record has the least time by
the clock and the least CPU time, of first fits ("cold", on fresh memory) and of later ones
("warm"), their ratios, and the median of the ratios of fits that followed each other ("paired"): a
shared machine adds time and never takes any away, and what it adds lasts longer than one fit. A
ratio above 1.05 is a loss. First fits vary most, with what the system does for a page of memory, so
more processes are started for them alone.
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from measure import FAMILIES, RECORDS, SEED, machine, versions, write_record

METHODS = ("neuc+", "refined")
# Fits of a process, and processes that fit once.
FITS, FIRST_FITS = 8, 12
Pair = tuple[dict[str, float], dict[str, float]]
HERE = Path(__file__).resolve().parents[1]


def work(path: str, k: int, method: str) -> None:
    """Fit whenever a line comes in, with whatever neucmds is on the path, and print the times."""
    from neucmds import neuc_mds

    warnings.simplefilter("ignore")
    D = np.load(path)
    neuc_mds(D[:300, :300], 5, method, squared=True, random_state=SEED)
    for _ in sys.stdin:
        started, cpu = time.perf_counter(), time.process_time()
        found = neuc_mds(D, k, method, squared=True, random_state=SEED)
        times = {
            "wall": time.perf_counter() - started,
            "cpu": time.process_time() - cpu,
        }
        print(json.dumps({**times, "stress": found.stress}), flush=True)


@contextmanager
def worker(
    checkout: Path, arguments: list[str]
) -> Iterator[Callable[[], dict[str, float]]]:
    """Start a process with one checkout, and yield what makes it fit once."""
    environment = {
        "OPENBLAS_NUM_THREADS": "2",
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            [str(checkout / "src"), str(HERE / "benchmarks")]
        ),
    }
    command = [sys.executable, __file__, "--work", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, env=environment, stdin=pipe, stdout=pipe, text=True
    ) as process:

        def fit() -> dict[str, float]:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("fit\n")
            process.stdin.flush()
            found: dict[str, float] = json.loads(process.stdout.readline())
            return found

        yield fit


def by_turns(
    fits: Sequence[Callable[[], dict[str, float]]], first: int
) -> Pair:
    """Fit once with each of the two, beginning with the one that is named."""
    found = {first: fits[first]()}
    found[1 - first] = fits[1 - first]()
    return found[0], found[1]


def compared(
    path: Path, k: int, method: str, other: Path, repeats: int
) -> dict[str, Any]:
    """Fit by turns, and return the least times, their ratios, and the median of paired ratios."""
    arguments = [str(path), str(k), method]
    runs = []
    for repeat in range(repeats + FIRST_FITS):
        fits = FITS if repeat < repeats else 1
        with worker(HERE, arguments) as this, worker(other, arguments) as that:
            runs.append(
                [
                    by_turns((this, that), (repeat + turn) % 2)
                    for turn in range(fits)
                ]
            )
    phases = {
        "cold": [run[0] for run in runs],
        "warm": [pair for run in runs for pair in run[1:]],
    }
    row: dict[str, Any] = {"this": {}, "other": {}, "ratios": {}, "paired": {}}
    for phase, pairs in phases.items():
        for clock in ("wall", "cpu"):
            name = f"{phase}_{clock}"
            mine, theirs = (
                np.array([pair[side][clock] for pair in pairs])
                for side in (0, 1)
            )
            row["this"][name], row["other"][name] = (
                float(mine.min()),
                float(theirs.min()),
            )
            row["ratios"][name] = float(mine.min() / theirs.min())
            row["paired"][name] = float(np.median(mine / theirs))
    first, second = runs[0][0]
    return {**row, "same_stress": first["stress"] == second["stress"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, nargs="?")
    parser.add_argument("--n", type=int, default=8000)
    parser.add_argument("-k", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--work", nargs=3, metavar=("FILE", "K", "METHOD"))
    parser.add_argument("--out", type=Path, default=RECORDS / "against.json")
    arguments = parser.parse_args()
    if arguments.work:
        path, k, method = arguments.work
        work(path, int(k), method)
        return
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "D.npy"
        for family, make in FAMILIES.items():
            np.save(path, make(arguments.n))
            for method in METHODS:
                found = compared(
                    path,
                    arguments.k,
                    method,
                    arguments.other.resolve(),
                    arguments.repeats,
                )
                rows.append({"family": family, "method": method, **found})
                print(rows[-1], flush=True)
    record = {
        "command": "python benchmarks/against.py OTHER",
        "machine": machine(),
        "versions": versions("neucmds", "numpy", "scipy"),
        "n": arguments.n,
        "k": arguments.k,
        "rows": rows,
    }
    write_record(arguments.out, record)


if __name__ == "__main__":
    main()
