"""One kind of data at growing n: all pairs, sampled pairs and two levels, by the relative loss.

    python benchmarks/growing.py [--n 5000 20000 100000 300000 1000000] [--device cpu|cuda]
        [--ways "two levels"] [--record FILE]

The features of `feature_pairs.py`: 64 of them, cityblock, k = 20. All pairs are fitted up to 20,000
objects, 320 sampled pairs per object up to 200,000, two levels with their default numbers of
landmarks at every n. Recall is the share of the ten nearest of some queries that D̂ keeps, errors
are those of random pairs. For two levels the time per object is that of placing all of them,
counted over all threads on the CPU and by the clock on a GPU. Peak memory is that of the process,
or of the GPU.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from feature_pairs import PAIRS, K, draw, quality, random_error, truth
from measure import forget_peak, machine, peak, versions, write_record
from neucmds import LandmarkNeucMDS, NeucMDS
from neucmds.backend.arrays import is_numpy, to_numpy

ALL_UP_TO, SAMPLED_UP_TO = 20_000, 200_000


def ways(n: int) -> dict[str, Any]:
    """Return what is fitted to n objects."""
    common: dict[str, Any] = {
        "metric": "cityblock",
        "loss": "relative",
        "random_state": 0,
    }
    found: dict[str, Any] = {
        "two levels": LandmarkNeucMDS(K, n_near=None, **common)
    }
    if n <= SAMPLED_UP_TO:
        found["sampled pairs"] = NeucMDS(K, n_pairs=PAIRS, **common)
    if n <= ALL_UP_TO:
        found["all pairs"] = NeucMDS(K, **common)
    return found


def measured(
    n: int, what: str, estimator: Any, X: Any
) -> tuple[dict[str, Any], Any]:
    """Fit n objects; return the row of the record, and their coordinates."""
    forget_peak()
    start, processor = time.perf_counter(), time.process_time()
    x = to_numpy(estimator.fit_transform(X))
    row = {
        "n": n,
        "what": what,
        "seconds": round(time.perf_counter() - start, 1),
        "processor_seconds": round(time.process_time() - processor, 1),
        "peak_gb": round(device_peak(X) / 1e9, 2),
    }
    if what == "two levels":
        start, processor = time.perf_counter(), time.process_time()
        to_numpy(estimator.transform(X))
        placed = time.perf_counter() - start
        each = time.process_time() - processor if is_numpy(X) else placed
        row["landmarks"] = int(estimator.landmarks_.size)
        row["fit_seconds"] = round(row["seconds"] - placed, 1)
        row["microseconds_per_object"] = round(each / n * 1e6, 1)
    return row, x.astype(np.float64)


def device_peak(X: Any) -> int:
    """Most bytes that the process held, or the GPU for an array that lies there."""
    if is_numpy(X):
        return peak()
    import torch

    held = int(torch.cuda.max_memory_allocated()) if X.is_cuda else peak()
    if X.is_cuda:
        torch.cuda.reset_peak_memory_stats()
    return held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sizes = [5000, 20_000, 100_000, 300_000, 1_000_000]
    parser.add_argument("--n", type=int, nargs="+", default=sizes)
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--ways",
        nargs="+",
        default=["all pairs", "sampled pairs", "two levels"],
    )
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    record: dict[str, Any] = {
        "machine": machine(),
        "device": arguments.device,
        "versions": versions("numpy", "scipy", "scikit-learn"),
        "k": K,
        "rows": [],
    }
    for n in arguments.n:
        host = draw(n)
        queries = np.random.default_rng(1).choice(
            n, min(1000, 10**8 // n), replace=False
        )
        nearest, X = truth(host, queries), host
        if arguments.device != "cpu":
            import torch

            X = torch.as_tensor(host, device=arguments.device)
        for what, estimator in ways(n).items():
            if what not in arguments.ways:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                row, x = measured(n, what, estimator, X)
            signs = to_numpy(estimator.signs_)
            row |= quality(x, signs, queries, nearest)
            row["random_median"] = random_error(host, x, signs)
            record["rows"].append(row)
            print(row, flush=True)
            if arguments.record is not None:
                write_record(arguments.record, record)


if __name__ == "__main__":
    main()
