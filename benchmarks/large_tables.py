"""`inspect` and `curve` of a large file beside one `neuc+` fit of it: time and memory, as ratios.

    python benchmarks/large_tables.py                n = 20,000: a 3.2 GB file, deleted after
    python benchmarks/large_tables.py --n 4000 --folder /path/with/room

Balls in a cube (centres and radii), unsquared distances. Each piece of work runs in a process of
its own, in turn, `--repeat` times; the record has CPU seconds and seconds by the clock of each,
their medians as multiples of the fit's, and the largest peak of resident pages, imports included.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from measure import RECORDS, SEED, forget_peak, machine, peak, versions, write_record
from neucmds import curve, inspect, neuc_mds
from neucmds.diagnostics import spaced_ks
from out_of_core import write_matrix

K = 50
WORK = {
    "fit": lambda path: neuc_mds(path, K, "neuc+", random_state=SEED),
    "inspect": inspect,
    "curve": lambda path: curve(path, spaced_ks(K)),
}
BARS = {"inspect": 3.0, "curve": 6.0}


def work(name: str, path: Path) -> dict[str, Any]:
    """Do one piece of work on the file."""
    warnings.simplefilter("ignore")
    forget_peak()
    started, cpu = time.perf_counter(), time.process_time()
    WORK[name](path)
    return {
        "work": name,
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu,
        "peak_bytes": peak(),
    }


def measured(path: Path, repeat: int) -> list[dict[str, Any]]:
    """Do everything in turn, each in a process of its own."""
    runs = []
    for _ in range(repeat):
        for name in WORK:
            command = [sys.executable, __file__, "--work", name, "--file", str(path)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            runs.append(json.loads(done.stdout))
            print(runs[-1], flush=True)
    return runs


def summary(runs: list[dict[str, Any]], n: int) -> list[dict[str, Any]]:
    """Return medians as multiples of the fit's, and peaks as multiples of D."""

    def median(name: str, what: str) -> float:
        return statistics.median(run[what] for run in runs if run["work"] == name)

    return [
        {
            "work": name,
            "times_the_fit": median(name, "seconds") / median("fit", "seconds"),
            "times_the_fit_cpu": median(name, "cpu_seconds") / median("fit", "cpu_seconds"),
            "bar": BARS.get(name),
            "peak_of_D": max(run["peak_bytes"] for run in runs if run["work"] == name)
            / (8 * n * n),
        }
        for name in WORK
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=20_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--work", choices=list(WORK))
    parser.add_argument("--file", type=Path)
    parser.add_argument("--out", type=Path, default=RECORDS / "large_tables.json")
    arguments = parser.parse_args()
    if arguments.work:
        print(json.dumps(work(arguments.work, arguments.file)))
        return
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = Path(folder) / "balls.npy"
        write_matrix(path, arguments.n)
        runs = measured(path, arguments.repeat)
    rows = summary(runs, arguments.n)
    for row in rows:
        print(row)
    record = {
        "command": "python benchmarks/large_tables.py",
        "machine": machine(),
        "versions": versions("neucmds", "numpy", "scipy"),
        "n": arguments.n,
        "k": K,
        "rows": rows,
        "runs": runs,
    }
    write_record(arguments.out, record)


if __name__ == "__main__":
    main()
