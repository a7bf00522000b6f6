"""The long run: `python -m tests.fuzz.run files|matrices --until 1000000`, once or many times.

Each call goes on where the last one stopped and adds to `benchmarks/records/fuzz.json`, every half
minute; a seed always gives the same trial, so that every finding can be repeated.
"""

from __future__ import annotations

import argparse
import json
import math
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
# Seconds between two states of the record.
SAVED_EVERY = 30
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

    return 10, trial


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


class Part:
    """One part of the record: sums over all trials so far, and where to go on.

    Parameters
    ----------
    name : str
    path : Path
    """

    def __init__(self, name: str, path: Path) -> None:
        self.name, self.path = name, path
        empty = {"next_seed": 0, "seconds": 0.0, "sums": {name: 0}}
        self.record = self._all().get(name, empty)
        self.saved = time.monotonic()

    def _all(self) -> dict[str, Any]:
        return json.loads(self.path.read_text()) if self.path.exists() else {}

    @property
    def reached(self) -> int:
        """How many files or matrices there have been."""
        return int(self.record["sums"][self.name])

    def add(self, total: dict[str, Any], next_seed: int) -> None:
        """Add the sums of some trials, and save them every now and then."""
        _add(self.record["sums"], total)
        self.record["next_seed"] = next_seed
        if time.monotonic() - self.saved > SAVED_EVERY:
            self.save()

    def merge(self, other: Part) -> None:
        """Add what another process has tried from another seed on, and save."""
        begun = self.record["next_seed"]
        self.record["seconds"] = round(self.record["seconds"] + other.record["seconds"], 1)
        _add(self.record["sums"], other.record["sums"])
        self.record["next_seed"] = max(begun, other.record["next_seed"])
        self.save()

    def save(self) -> None:
        """Write the record; other parts of it may have been written meanwhile."""
        now, part = time.monotonic(), self.record
        part["sums"]["findings"] = part["sums"].get("findings", [])[:200]
        part["seconds"] = round(part["seconds"] + now - self.saved, 1)
        part["command"] = f"python -m tests.fuzz.run {self.name} --until {self.reached}"
        part |= {"neucmds": neucmds.__version__, "numpy": np.__version__}
        part |= {"date": str(date.today()), "python": platform.python_version()}
        self.saved = now
        with atomic_file(self.path) as file:
            file.write((json.dumps(self._all() | {self.name: part}, indent=1) + "\n").encode())


def main() -> None:
    """Run one part for some time, and add it to the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after so long")
    parser.add_argument("--until", type=float, default=math.inf, help="stop at so many in all")
    parser.add_argument("--start", type=int, help="first seed; default: go on after the last run")
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--merge", type=Path, help="add the record of another process, and end")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    part = Part(args.part, args.record)
    if args.merge is not None:
        part.merge(Part(args.part, args.merge))
        return
    start = next_seed = part.record["next_seed"] if args.start is None else args.start
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        size, trial = PARTS[args.part](Path(folder))
        for total in pieces(trial, start, size, args.seconds):
            next_seed += size
            for finding in total.get("findings", ()):
                print(finding, flush=True)
            part.add(total, next_seed)
            if part.reached >= args.until:
                break
    part.save()
    shown = {key: value for key, value in part.record["sums"].items() if key != "findings"}
    findings = len(part.record["sums"]["findings"])
    print(f"seeds {start} to {next_seed - 1}: {shown}, {findings} findings")


if __name__ == "__main__":
    main()
