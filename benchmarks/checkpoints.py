"""What it costs to keep the products of a D that is read in blocks, and what that saves.

    python benchmarks/checkpoints.py            n = 12,000: a 1.2 GB file, deleted after
    python benchmarks/checkpoints.py --n 4000

The matrix of `out_of_core.py`, fitted in turn without a checkpoint, with one, and from one that
lacks the last product only, which is the work between the passes, done again.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from measure import RECORDS, SEED, machine, versions, write_record
from neucmds import Embedding, neuc_mds
from neucmds._backend.checkpoints import StepCheckpoint
from out_of_core import write_matrix


class Watched(StepCheckpoint):
    """Times what is made, and what is kept of it; may be interrupted."""

    made: list[float]
    kept: list[float]
    stop_at: int | None = None

    def step(self, name: str, given: Any, make: Any, shape: Any = None) -> Any:
        """Time a step."""
        started, spent = time.perf_counter(), [0.0]

        def timed(block: Any) -> Any:
            if len(self.made) == self.stop_at:
                raise KeyboardInterrupt
            begun = time.perf_counter()
            result = make(block)
            spent[0] = time.perf_counter() - begun
            return result

        result = super().step(name, given, timed, shape)
        if spent[0]:
            self.made.append(spent[0])
            self.kept.append(time.perf_counter() - started - spent[0])
        return result


def timed_fit(path: Path, settings: dict[str, Any]) -> tuple[Embedding, float]:
    """Fit, and return how long that took."""
    started = time.perf_counter()
    found = neuc_mds(path, random_state=SEED, **settings)
    return found, time.perf_counter() - started


def one_round(path: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Fit without a checkpoint, with one, and from one that lacks the last product."""
    kept = path.with_name("fit.part")
    whole, without = timed_fit(path, settings)
    Watched.made, Watched.kept, Watched.stop_at = [], [], None
    same, keeping = timed_fit(path, settings | {"checkpoint": kept})
    made, written = Watched.made, Watched.kept
    Watched.made, Watched.kept, Watched.stop_at = [], [], len(made) - 1
    try:
        timed_fit(path, settings | {"checkpoint": kept})
    except KeyboardInterrupt:
        size = kept.stat().st_size
    Watched.made, Watched.stop_at = [], None
    again, resumed = timed_fit(path, settings | {"checkpoint": kept})
    for found in (same, again):
        np.testing.assert_array_equal(found.coordinates, whole.coordinates)
    return {
        "seconds": {"without": without, "with": keeping, "from the last product": resumed},
        "products": len(made) - 1,
        "seconds_a_product": float(np.median(made[1:])),
        "seconds_to_keep_it": float(np.median(written[1:])),
        "seconds_of_the_last_product": Watched.made[-1],
        "file_share_of_D": size / path.stat().st_size,
    }


def summary(rounds: list[dict[str, Any]]) -> dict[str, float]:
    """Return ratios, each of one round; the median of the rounds."""
    return {
        name: round(float(np.median([ratio(one) for one in rounds])), 5)
        for name, ratio in {
            "keeping_over_product": lambda one: (
                one["seconds_to_keep_it"] / one["seconds_a_product"]
            ),
            "with_over_without": lambda one: one["seconds"]["with"] / one["seconds"]["without"],
            "replay_over_fit": lambda one: (
                (one["seconds"]["from the last product"] - one["seconds_of_the_last_product"])
                / one["seconds"]["without"]
            ),
            "file_share_of_D": lambda one: one["file_share_of_D"],
        }.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=12_000)
    parser.add_argument("--k", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--max-memory", default="250MB")
    parser.add_argument("--folder", type=Path, help="where the file is written and deleted")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    import neucmds._operator.kept as kept

    kept.StepCheckpoint = Watched
    record: dict[str, Any] = {
        "machine": machine(),
        "versions": versions("numpy", "scipy"),
        "settings": {name: getattr(arguments, name) for name in ("n", "k", "max_memory")},
        "rounds": {},
        "ratios": {},
    }
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = Path(folder) / "D.npy"
        write_matrix(path, arguments.n)
        for method in ("neuc+", "refined"):
            settings = {"n_components": arguments.k, "method": method}
            settings["max_memory"] = arguments.max_memory
            rounds = [one_round(path, settings) for _ in range(arguments.repeats)]
            record["rounds"][method], record["ratios"][method] = rounds, summary(rounds)
            print(method, json.dumps(record["ratios"][method]))
    if arguments.n == parser.get_default("n"):
        write_record(RECORDS / "checkpoints.json", record)


if __name__ == "__main__":
    main()
