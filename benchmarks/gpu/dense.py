"""D in device memory: time, memory and accuracy of a fit on one GPU.

    python benchmarks/gpu/dense.py --record benchmarks/records/gpu_dense.json

Euclidean-ball dissimilarities are built on the device. Times are medians of three fits after a
warm-up fit at the same size, with the device synchronised around each.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
import warnings
from pathlib import Path
from typing import Any

# The CPU only sees matrices of 500 rows here; idle BLAS threads would spin beside the launches.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import torch

from neucmds import NeucMDS, neuc_mds
from neucmds.spectrum.operators.dense import DenseGram

DEVICE = "cuda"


def ball(n: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Squared gaps between balls; one in ten reaches 0.8 of the way to the nearest centre."""
    generator = torch.Generator(device=DEVICE).manual_seed(seed)
    options = {
        "generator": generator,
        "device": DEVICE,
        "dtype": torch.float64,
    }
    centres = 100 * torch.rand((n, 10), **options)
    radii = 5 * torch.rand((n,), **options)
    large = torch.rand((n,), **options) < 0.1
    D = torch.empty((n, n), dtype=dtype, device=DEVICE)
    for rows in torch.arange(n, device=DEVICE).split(2048):
        gaps = torch.cdist(centres[rows], centres)
        gaps[torch.arange(len(rows), device=DEVICE), rows] = torch.inf
        nearest = gaps.min(dim=1).values
        radii[rows] = torch.where(large[rows], 0.8 * nearest, radii[rows])
    for rows in torch.arange(n, device=DEVICE).split(2048):
        gaps = (
            torch.cdist(centres[rows], centres)
            - radii[rows, None]
            - radii[None, :]
        )
        D[rows] = (gaps.clamp_(min=0) ** 2).to(dtype)
    D.fill_diagonal_(0)
    # cdist is not symmetric to the last bit
    for rows in torch.arange(n, device=DEVICE).split(2048):
        start = int(rows[0])
        D[rows, start:] = D[start:, rows].T.contiguous()
    return D


def timed(work: Any) -> tuple[float, Any]:
    torch.cuda.synchronize()
    started = time.perf_counter()
    result = work()
    torch.cuda.synchronize()
    return time.perf_counter() - started, result


def fit(D: torch.Tensor, k: int, method: str, **settings: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = {"tol": 1e-6, **settings}
        return neuc_mds(D, k, method, squared=True, random_state=0, **settings)


def measure_fit(
    n: int, dtype: torch.dtype, k: int = 100, method: str = "neuc+"
) -> dict[str, Any]:
    """Time and peak memory of one fit, with the bound on the residuals of the kept pairs."""
    D = ball(n, dtype)
    fit(D, k, method)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    runs = [timed(lambda: fit(D, k, method)) for _ in range(3)]
    embedding = runs[-1][1]
    size = D.numel() * D.element_size()
    worst = float(
        embedding.info.residuals.max()
        / np.abs(embedding.info.eigenvalues).max()
    )
    return {
        "what": f"fit, {method}",
        "n": n,
        "k": k,
        "dtype": str(dtype).removeprefix("torch."),
        "seconds": statistics.median(seconds for seconds, _ in runs),
        "all_seconds": [seconds for seconds, _ in runs],
        "peak_over_D": torch.cuda.max_memory_allocated() / size,
        "signature": embedding.signature,
        "converged": embedding.info.converged,
        "worst_residual": worst,
        "normalized_stress": embedding.normalized_stress,
    }


def measure_against_eigh(n: int, k: int = 100) -> dict[str, Any]:
    """Time fits before and after torch.linalg.eigh of the same B; the median of six."""
    D = ball(n, torch.float64)
    fit(D, k, "neuc+")
    before = [timed(lambda: fit(D, k, "neuc+"))[0] for _ in range(3)]
    B = DenseGram(D).matmat(torch.eye(n, dtype=torch.float64, device=DEVICE))
    B = (B + B.T) / 2
    torch.linalg.eigh(B[:2000, :2000])
    theirs, (values, _) = timed(lambda: torch.linalg.eigh(B))
    after = [timed(lambda: fit(D, k, "neuc+")) for _ in range(3)]
    embedding = after[-1][1]
    ours = statistics.median([*before, *(seconds for seconds, _ in after)])
    full = values.cpu().numpy()
    kept = np.sort(embedding.info.eigenvalues)
    positive, negative = int((kept > 0).sum()), int((kept < 0).sum())
    expected = np.r_[full[:negative], full[full.size - positive :]]
    return {
        "what": "fit against torch.linalg.eigh",
        "n": n,
        "k": k,
        "seconds": ours,
        "eigh_seconds": theirs,
        "ratio": theirs / ours,
        "largest_relative_error": float(
            np.max(np.abs(kept - expected)) / np.max(np.abs(expected))
        ),
    }


def measure_refined(
    n: int, k: int = 50, iterations: int = 50
) -> dict[str, Any]:
    """Time a refinement of a fixed number of iterations, fit included."""
    D = ball(n, torch.float64)
    settings = {"max_iter": iterations, "tol": 0.0}
    fit(D, k, "refined", max_iter=2)
    seconds, embedding = timed(lambda: fit(D, k, "refined", **settings))
    history = np.asarray(embedding.info.history)
    return {
        "what": "refined, fit included",
        "n": n,
        "k": k,
        "iterations": history.size - 1,
        "seconds": seconds,
        "monotone": bool(np.all(np.diff(history) <= 0)),
        "first_and_last_stress": [history[0], history[-1]],
    }


def measure_estimator(n: int) -> dict[str, Any]:
    """Check that the estimator answers in the library and on the device of its input."""
    D = ball(n, torch.float32)
    estimator = NeucMDS(20, squared=True).fit(D)
    placed = estimator.transform(D[:5])
    found = {
        "what": "estimator",
        "n": n,
        "device": str(estimator.embedding_.device),
    }
    found["placed_on"] = str(placed.device)
    try:
        import cupy

        ours = NeucMDS(20, squared=True, method="neuc+").fit(cupy.asarray(D))
        torchs = NeucMDS(20, squared=True, method="neuc+").fit(D)
        found["cupy"] = type(ours.embedding_).__module__
        found["cupy_against_torch"] = abs(ours.stress_ / torchs.stress_ - 1)
    except ImportError:
        found["cupy"] = "not installed"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", type=Path)
    parser.add_argument(
        "--quick", action="store_true", help="small sizes only"
    )
    arguments = parser.parse_args()
    jobs = [
        lambda: measure_estimator(3000),
        lambda: measure_fit(4000, torch.float64),
    ]
    if not arguments.quick:
        jobs += [
            lambda: measure_fit(20_000, torch.float64),
            lambda: measure_fit(50_000, torch.float64),
            lambda: measure_fit(100_000, torch.float32),
            lambda: measure_refined(20_000),
            lambda: measure_against_eigh(20_000),
        ]
    record: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "rows": [],
    }
    for job in jobs:
        row = job()
        record["rows"].append(row)
        print(json.dumps(row), flush=True)
        torch.cuda.empty_cache()
        if arguments.record is not None:
            arguments.record.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
