"""A million objects placed from a thousand landmarks, with features that are on the GPU.

    python benchmarks/gpu/landmarks.py --record benchmarks/records/gpu_landmarks.json

`fit` embeds the landmarks on the CPU, `transform` computes on the device. Seconds are medians of
three after a warm-up, with the device synchronised. The first rows are placed once more by NumPy on
the CPU, with the landmarks of the same seed: the largest difference is told in spreads.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from pathlib import Path
from typing import Any

import torch

from neucmds import LandmarkNeucMDS
from neucmds.problem.metrics import Metric

CASES = (
    ("euclidean", "squared"),
    ("cosine", "squared"),
    ("cityblock", "squared"),
    ("braycurtis", "squared"),
    ("cityblock", "relative"),
)
CHECKED = 20_000


def draw(n: int, d: int, device: str, seed: int = 0) -> torch.Tensor:
    """Draw features with a spread from 1 down to 0.1 over the axes, all above zero."""
    generator = torch.Generator(device=device).manual_seed(seed)
    X = torch.randn((n, d), generator=generator, device=device)
    X *= torch.linspace(1.0, 0.1, d, device=device)
    return X.abs_()


def timed(work: Any, device: str) -> tuple[float, Any]:
    if device == "cuda":
        torch.cuda.synchronize()
    started = time.perf_counter()
    result = work()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started, result


def measure(
    metric: str, loss: str, arguments: argparse.Namespace
) -> dict[str, Any]:
    """Time a fit and the placement of all objects."""
    device = arguments.device
    X = draw(arguments.n, arguments.d, device)
    settings: dict[str, Any] = {
        "metric": metric,
        "loss": loss,
        "random_state": 0,
    }
    estimator = LandmarkNeucMDS(arguments.k, arguments.landmarks, **settings)
    fit_seconds, _ = timed(lambda: estimator.fit(X), device)
    estimator.transform(X)
    runs = [timed(lambda: estimator.transform(X), device) for _ in range(3)]
    placed = runs[-1][1]
    place_seconds = statistics.median(seconds for seconds, _ in runs)
    to_landmarks = Metric.of(metric).fitted_to(
        X[estimator.landmarks_].double().cpu().numpy()
    )
    measured = to_landmarks.squares_to(X[:CHECKED].double().cpu().numpy())
    expected = torch.as_tensor(
        estimator.landmark_result_.placement.place(measured)
    )
    gap = (placed[:CHECKED].cpu() - expected).abs().max() / expected.std()
    peak = (
        torch.cuda.max_memory_allocated() / 1e9
        if device == "cuda"
        else float("nan")
    )
    return {
        "metric": metric,
        "loss": loss,
        "n": arguments.n,
        "d": arguments.d,
        "n_landmarks": arguments.landmarks,
        "k": arguments.k,
        "fit_seconds": fit_seconds
        - place_seconds,  # it places all objects, too
        "place_seconds": place_seconds,
        "all_place_seconds": [seconds for seconds, _ in runs],
        "device": str(placed.device),
        "largest_gap_to_cpu": float(gap),
        "peak_gb": peak,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--d", type=int, default=50)
    parser.add_argument("--k", type=int, default=20)
    parser.add_argument("--landmarks", type=int, default=1000)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    name = (
        torch.cuda.get_device_name() if arguments.device == "cuda" else "cpu"
    )
    record: dict[str, Any] = {
        "device": name,
        "torch": torch.__version__,
        "rows": [],
    }
    for metric, loss in CASES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            row = measure(metric, loss, arguments)
        record["rows"].append(row)
        print(json.dumps(row), flush=True)
        if arguments.record is not None:
            arguments.record.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
