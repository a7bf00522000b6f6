"""D never stored: dissimilarities computed from features inside every product, on one GPU.

    python benchmarks/gpu/features.py --n 300000 1000000 --record FILE
    python benchmarks/gpu/features.py --n 20000 --library cupy --metric hyperbolic
    python benchmarks/gpu/features.py --n 100000 --tile 2048 4096 8192 --passes

Features are drawn on the device: directions with spread from 1 down to 0.1 over the d axes (for
`hyperbolic`, inside the ball; for `balls`, with radii). One JSON line a fit: seconds of the first
fit and of one after it, passes over D and seconds a pass, peak device memory, convergence, true
residual; and a cross-check: rows of D against a plain float64 formula, and the kept eigenvalues of
a fit on 4000 of the objects against a stored D in float64. `--passes` only times single passes.
Needs torch, or CuPy and torch.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from neucmds import neuc_mds
from neucmds.backend.arrays import to_numpy
from neucmds.spectrum.operators.features import FeatureGram

METRICS = ("angular", "cosine", "euclidean", "rbf", "hyperbolic", "balls")


def draw(
    n: int, d: int, metric: str, dtype: str, device: str, seed: int = 0
) -> torch.Tensor:
    """Draw features that the metric can take."""
    generator = torch.Generator(device=device).manual_seed(seed)
    X = torch.randn(
        (n, d), generator=generator, device=device, dtype=getattr(torch, dtype)
    )
    X *= torch.linspace(1.0, 0.1, d, device=device, dtype=X.dtype)
    if metric == "hyperbolic":
        X *= 0.9 / (1 + torch.linalg.vector_norm(X, dim=1, keepdim=True))
    if metric == "balls":
        X[:, -1] = X[:, -1].abs()
    return X


def of_library(X: torch.Tensor, library: str) -> Any:
    """Hand the features to another library without a copy."""
    if library == "torch":
        return X
    import cupy

    return cupy.from_dlpack(X)


def synchronize(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def timed(device: str, work: Any) -> tuple[float, Any]:
    synchronize(device)
    started = time.perf_counter()
    result = work()
    synchronize(device)
    return time.perf_counter() - started, result


def used_memory(device: str, library: str, reset: bool = False) -> float:
    """Peak device memory of the library in GB since the last reset (CuPy: held by its pool)."""
    if not device.startswith("cuda"):
        return float("nan")
    if library == "cupy":
        import cupy

        pool = cupy.get_default_memory_pool()
        if reset:
            pool.free_all_blocks()
        return pool.total_bytes() / 1e9
    if reset:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    return torch.cuda.max_memory_allocated() / 1e9


def fit(gram: FeatureGram, k: int, tol: float) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return neuc_mds(gram, k, "neuc+", tol=tol, random_state=0)


def measure_fit(
    n: int, arguments: argparse.Namespace, tile: int | None
) -> dict[str, Any]:
    """Fit twice, each from the features on."""
    device, library = arguments.device, arguments.library
    X = draw(n, arguments.d, arguments.metric, arguments.dtype, device)
    features = of_library(X, library)
    used_memory(device, library, reset=True)
    all_seconds = []
    for _ in range(1 + arguments.repeats):

        def whole() -> tuple[FeatureGram, Any]:
            gram = FeatureGram(features, arguments.metric, tile=tile)
            return gram, fit(gram, arguments.k, arguments.tol)

        seconds, (gram, embedding) = timed(device, whole)
        all_seconds.append(seconds)
    residuals = to_numpy(embedding.info.residuals)
    largest = float(np.max(np.abs(to_numpy(embedding.info.eigenvalues))))
    return describe(n, arguments, gram) | {
        "seconds": min(all_seconds),
        "all_seconds": all_seconds,
        "passes": gram.n_passes,
        "seconds_a_pass": all_seconds[-1] / gram.n_passes,
        "peak_gb": used_memory(device, library),
        "converged": embedding.info.converged,
        "worst_residual": float(residuals.max()) / largest,
        "signature": embedding.signature,
        "normalized_stress": embedding.normalized_stress,
        "rows_against_float64": rows_error(gram, X, arguments.metric),
        "subsample_against_stored": subsample_error(X, arguments),
    }


def measure_passes(
    n: int, arguments: argparse.Namespace, tile: int | None
) -> dict[str, Any]:
    """Time products alone: 16 columns in the precision of the features, and 20 in float64."""
    device = arguments.device
    X = of_library(
        draw(n, arguments.d, arguments.metric, arguments.dtype, device),
        arguments.library,
    )
    gram = FeatureGram(X, arguments.metric, tile=tile)
    xp = gram.xp
    single = xp.ones((n, 16), dtype=gram.dtype, device=gram.device)
    double = xp.ones((n, 20), dtype=xp.float64, device=gram.device)
    gram.product(single)
    found = describe(n, arguments, gram)
    found["product"] = min(
        timed(device, lambda: gram.product(single))[0] for _ in range(3)
    )
    found["product_float64"] = timed(device, lambda: gram.product(double))[0]
    found["moments"] = timed(device, lambda: gram.row_means)[0]
    return found


def describe(
    n: int, arguments: argparse.Namespace, gram: FeatureGram
) -> dict[str, Any]:
    names = ("d", "k", "metric", "dtype", "tol", "library")
    return {
        "n": n,
        **{name: getattr(arguments, name) for name in names},
        "tile": gram.tile,
    }


def rows_error(
    gram: FeatureGram, X: torch.Tensor, metric: str
) -> float | None:
    """Compare five rows of D with the plain float64 formula, relative to the largest entry."""
    x, y = X[:5].double(), X.double()
    if metric == "angular":
        unit = torch.nn.functional.normalize
        expected = torch.arccos((unit(x) @ unit(y).T).clamp(-1, 1)) ** 2
    elif metric == "euclidean":
        expected = torch.cdist(x, y) ** 2
    else:
        return None
    expected[torch.arange(5), torch.arange(5)] = 0
    found = np.asarray(to_numpy(gram.rows(slice(0, 5))), dtype=np.float64)
    reference = expected.cpu().numpy()
    return float(np.max(np.abs(found - reference)) / reference.max())


def subsample_error(
    X: torch.Tensor, arguments: argparse.Namespace, n: int = 4000
) -> float:
    """Compare kept eigenvalues of some of the objects with those of a stored float64 D."""
    some = X[: min(n, len(X))]
    features = of_library(some.contiguous(), arguments.library)
    found = fit(
        FeatureGram(features, arguments.metric), arguments.k, arguments.tol
    )
    exact = FeatureGram(some.double().cpu().numpy(), arguments.metric).dense()
    stored = neuc_mds(
        exact, arguments.k, "neuc+", squared=True, random_state=0
    )
    if found.signature != stored.signature:
        return float("nan")
    ratio = to_numpy(found.info.eigenvalues) / stored.info.eigenvalues
    return float(np.max(np.abs(ratio - 1)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, nargs="+", default=[300_000])
    parser.add_argument("--d", type=int, default=64)
    parser.add_argument("--k", type=int, default=20)
    parser.add_argument(
        "--dtype", choices=("float32", "float64"), default="float32"
    )
    parser.add_argument("--tol", type=float, default=1e-5)
    parser.add_argument("--metric", choices=METRICS, default="angular")
    parser.add_argument(
        "--library", choices=("torch", "cupy"), default="torch"
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tile", type=int, nargs="+", default=[None])
    parser.add_argument(
        "--repeats", type=int, default=1, help="fits after the first"
    )
    parser.add_argument(
        "--passes", action="store_true", help="time single passes, no fit"
    )
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    name = (
        torch.cuda.get_device_name()
        if arguments.device.startswith("cuda")
        else "cpu"
    )
    record: dict[str, Any] = {
        "device": name,
        "torch": torch.__version__,
        "rows": [],
    }
    for n in arguments.n:
        for tile in arguments.tile:
            measure = measure_passes if arguments.passes else measure_fit
            record["rows"].append(measure(n, arguments, tile))
            print(json.dumps(record["rows"][-1]), flush=True)
            if arguments.record is not None:
                arguments.record.write_text(
                    json.dumps(record, indent=1) + "\n"
                )


if __name__ == "__main__":
    main()
