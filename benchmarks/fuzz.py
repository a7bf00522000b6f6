"""The long run: `python -m benchmarks.fuzz files|matrices --seconds 300`, once or many times.

Each call goes on after the last seed of `benchmarks/records/fuzz.json` and adds to it. A seed
always gives the same trial, so that `--start SEED` repeats a finding.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import tempfile
import time
import warnings
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

import neucmds
from tests.fuzz import files, matrices

RECORD = Path(__file__).parent / "records" / "fuzz.json"
# Whatever a file announces, reading it takes no more addresses than this.
MOST_MEMORY = 6 * 10**9


def trial(part: str, seed: int, folder: Path) -> dict[str, Any]:
    """Return counts and findings of one matrix, or of one mutated file of every kind."""
    if part == "matrices":
        return matrices.examine(matrices.draw(seed))
    tried = [files.problems(kind, seed, folder) for kind in files.KINDS]
    return {
        "files": len(tried),
        "readings": sum(len(kind.readers) for kind in files.KINDS),
        "refused": sum(refused for refused, _ in tried),
        "findings": [finding for _, findings in tried for finding in findings],
    }


def main() -> None:
    """Run one part for some time, and add it to the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("files", "matrices"))
    parser.add_argument(
        "--seconds", type=float, default=300, help="stop after so long"
    )
    parser.add_argument(
        "--start",
        type=int,
        help="first seed; default: go on after the last run",
    )
    parser.add_argument("--record", type=Path, default=RECORD)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    record = (
        json.loads(args.record.read_text()) if args.record.exists() else {}
    )
    part = record.setdefault(
        args.part, {"next_seed": 0, "seconds": 0.0, "sums": {}}
    )
    start = seed = part["next_seed"] if args.start is None else args.start
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() - begun < args.seconds:
            found = trial(args.part, seed, Path(folder))
            print(
                *found["findings"],
                sep="\n",
                end="\n" * bool(found["findings"]),
                flush=True,
            )
            for name, count in found.items():
                part["sums"][name] = (
                    part["sums"].get(name, type(count)()) + count
                )
            seed += 1
    part["next_seed"] = max(seed, part["next_seed"])
    part["seconds"] = round(part["seconds"] + time.monotonic() - begun, 1)
    part |= {"neucmds": neucmds.__version__, "numpy": np.__version__}
    part |= {"date": str(date.today()), "python": platform.python_version()}
    args.record.write_text(json.dumps(record, indent=1) + "\n")
    print(f"{args.part}, seeds {start} to {seed - 1}; in all {part['sums']}")


if __name__ == "__main__":
    main()
