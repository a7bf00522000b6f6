"""The long run: `python -m tests.fuzz.run files|matrices --seconds 400`, once or many times.

Each call goes on where the last one stopped and adds to `benchmarks/records/fuzz.json`; a seed
always gives the same trial, so that every finding can be repeated.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from datetime import date
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

import neucmds
from neucmds._backend.files import atomic_file

RECORD = Path(__file__).parents[2] / "benchmarks" / "records" / "fuzz.json"
# Whatever a file announces, reading it takes no more addresses than this beyond what is loaded.
MOST_MEMORY = 6 * 10**9
Trial = Callable[[int], dict[str, Any]]


def files(folder: Path) -> tuple[int, Trial]:
    """Return how many trials a piece has, and the trial of a seed: files of every kind.

    Four of text and one of each packed kind, which takes four times as long to read.
    """
    from tests.fuzz.mutations import KINDS, problems

    def trial(seed: int) -> dict[str, Any]:
        found: dict[str, Any] = {"files": 0, "readings": 0, "refused": 0, "findings": []}
        for kind in KINDS:
            packed = kind.name.endswith((".npy", ".npz", ".parquet"))
            for one in (seed,) if packed else range(4 * seed, 4 * seed + 4):
                refused, findings = problems(kind, one, folder)
                found["files"] += 1
                found["readings"] += len(kind.readers)
                found["refused"] += refused
                found["findings"] += findings
        return found

    return 100, trial


def matrices(folder: Path) -> tuple[int, Trial]:
    """Return how many trials a piece has, and the trial of a seed: one matrix in every way."""
    from tests.fuzz.matrices import examine

    del folder
    return 5, examine


PARTS = {"files": files, "matrices": matrices}


def pieces(trial: Trial, start: int, size: int, seconds: float) -> Iterator[dict[str, Any]]:
    """Run trials from a seed on until the time is over; yield sums over some at a time."""
    until = time.monotonic() + seconds
    for begin in count(start, size):
        if time.monotonic() > until:
            return
        total: dict[str, Any] = {}
        for seed in range(begin, begin + size):
            _add(total, trial(seed))
        yield total


def _add(total: dict[str, Any], more: dict[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict):
            _add(total.setdefault(key, {}), value)
        elif isinstance(value, float):
            total[key] = max(total.get(key, 0.0), value)
        else:
            total[key] = total[key] + value if key in total else value


def main() -> None:
    """Run one part for some time, and add it to the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--start", type=int, help="first seed; default: go on after the last run")
    parser.add_argument("--record", type=Path, default=RECORD)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    record = json.loads(args.record.read_text()) if args.record.exists() else {}
    part = record.get(args.part, {"next_seed": 0, "seconds": 0.0, "sums": {}})
    start = part["next_seed"] if args.start is None else args.start
    begun, done = time.monotonic(), 0
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        size, trial = PARTS[args.part](Path(folder))
        for total in pieces(trial, start, size, args.seconds):
            done += size
            for finding in total.get("findings", ()):
                print(finding, flush=True)
            _add(part["sums"], total)
    part["sums"]["findings"] = part["sums"].get("findings", [])[:200]
    part["next_seed"] = start + done
    part["seconds"] = round(part["seconds"] + time.monotonic() - begun, 1)
    part["command"] = f"python -m tests.fuzz.run {args.part} --seconds {args.seconds:g}"
    part |= {"neucmds": neucmds.__version__, "numpy": np.__version__, "date": str(date.today())}
    part["python"] = platform.python_version()
    # Another part may have been written meanwhile.
    record = json.loads(args.record.read_text()) if args.record.exists() else {}
    record[args.part] = part
    with atomic_file(args.record) as file:
        file.write((json.dumps(record, indent=1) + "\n").encode())
    shown = {key: value for key, value in part["sums"].items() if key != "findings"}
    print(f"seeds {start} to {start + done - 1}: {shown}, {len(part['sums']['findings'])} findings")


if __name__ == "__main__":
    main()
