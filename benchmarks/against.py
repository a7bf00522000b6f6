"""Two checkouts of this project side by side: the same fits in turn, as ratios.

    git worktree add ../before v0.1.0
    python benchmarks/against.py ../before          n = 8000, k = 100: ten minutes on two cores

Processes with one of the two on their path take turns; each fits three times. The record has the
least time by the clock and the least CPU time, of first fits ("cold", on fresh memory) and of later
ones ("warm"), and their ratios: a shared machine adds time and never takes any away. A ratio above
1.05 is a loss.
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

import numpy as np

from measure import FAMILIES, RECORDS, SEED, machine, versions, write_record

METHODS = ("neuc+", "refined")
FITS = 3
TIMES = ("cold", "cold_cpu", "warm", "warm_cpu")
HERE = Path(__file__).resolve().parents[1]


def work(path: str, k: int, method: str) -> dict[str, float]:
    """Fit after a warm-up on few objects, with whatever neucmds is on the path."""
    from neucmds import neuc_mds

    warnings.simplefilter("ignore")
    D = np.load(path)
    neuc_mds(D[:300, :300], 5, method, squared=True, random_state=SEED)
    times = []
    for _ in range(FITS):
        started, cpu = time.perf_counter(), time.process_time()
        found = neuc_mds(D, k, method, squared=True, random_state=SEED)
        times.append((time.perf_counter() - started, time.process_time() - cpu))
    (cold, cold_cpu), *later = times
    return {
        "cold": cold,
        "cold_cpu": cold_cpu,
        "warm": min(seconds for seconds, _ in later),
        "warm_cpu": min(seconds for _, seconds in later),
        "stress": found.stress,
    }


def run(checkout: Path, arguments: list[str]) -> dict[str, float]:
    """Run one fit with one checkout."""
    environment = {
        "OPENBLAS_NUM_THREADS": "2",
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(checkout / "src"), str(HERE / "benchmarks")]),
    }
    command = [sys.executable, __file__, "--work", *arguments]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def compared(path: Path, k: int, method: str, other: Path, repeats: int) -> dict[str, Any]:
    """Run one fit by turns, and return the least times and their ratios."""
    runs: dict[str, list[dict[str, float]]] = {"this": [], "other": []}
    for turn in range(repeats):
        order = ("this", "other") if turn % 2 else ("other", "this")
        for name in order:
            checkout = HERE if name == "this" else other
            runs[name].append(run(checkout, [str(path), str(k), method]))
    least = {
        name: {what: min(one[what] for one in found) for what in TIMES}
        for name, found in runs.items()
    }
    return {
        **least,
        "ratios": {what: least["this"][what] / least["other"][what] for what in TIMES},
        "same_stress": runs["this"][0]["stress"] == runs["other"][0]["stress"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, nargs="?")
    parser.add_argument("--n", type=int, default=8000)
    parser.add_argument("-k", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--work", nargs=3, metavar=("FILE", "K", "METHOD"))
    parser.add_argument("--out", type=Path, default=RECORDS / "against.json")
    arguments = parser.parse_args()
    if arguments.work:
        path, k, method = arguments.work
        print(json.dumps(work(path, int(k), method)))
        return
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "D.npy"
        for family, make in FAMILIES.items():
            np.save(path, make(arguments.n))
            for method in METHODS:
                found = compared(
                    path, arguments.k, method, arguments.other.resolve(), arguments.repeats
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
