"""Graph distances in curved spaces: signed coordinates beside products of curved spaces.

    NEUCMDS_DATA=… python benchmarks/scoreboard/curved_spaces.py [--device cuda] [word]

Every row has the same number of numbers per node and the same distances. Products of Euclidean (E),
hyperbolic (H) and spherical (S) spaces learn coordinates and curvatures as in Gu et al., "Learning
mixed-curvature representations in product spaces" (ICLR 2019): the loss |(d̂/d)² − 1| over all
pairs, by Adam with a falling step in single precision, from two first steps; they are written here,
in torch. "hydra" is hyperbolic scaling from the eigenvectors of cosh(√−κ d), the best of several κ
(Keller-Ressel and Nargang 2020). Mean and p99 are of |d̂/d − 1|; mAP asks how well the neighbours of
a node in the graph come first. A sphere of m dimensions stores m + 1 numbers, and is counted as m.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import curvature
import losses
import measure
from neucmds import neuc_mds
from neucmds.backend.arrays import to_numpy

with measure.needed("torch"):
    import torch

RECORD = measure.RECORDS / "curved_spaces.json"
FIRST_STEPS = (0.05, 0.15)
PAIRS_A_SET = 1e10  # iterations times n², within 600 and 2,000 iterations
Space = tuple[tuple[str, int], ...]
CASES: dict[str, tuple[Callable[[], np.ndarray], int, float]] = {
    "CS PhDs": (lambda: curvature.hops("csphd"), 10, 1.0),
    "power grid": (lambda: curvature.hops("power"), 10, 1.0),
    "digits 5-NN hops": (losses._digits, 20, 1.0),
    "Helsinki crossings": (losses._streets, 16, 0.0),
}


def spaces(k: int) -> dict[str, Space]:
    half = k // 2
    return {
        f"E{k}": (("E", k),),
        f"H{k}": (("H", k),),
        f"H{half} × H{half}": (("H", half), ("H", half)),
        f"S{half} × H{half}": (("S", half), ("H", half)),
        f"H{half} × E{half}": (("H", half), ("E", half)),
    }


def sq_distances(kind: str, x: torch.Tensor) -> torch.Tensor:
    """Squared distances in a space of curvature −1, 0 or 1; x are free numbers."""
    if kind == "S":
        x = x / x.norm(dim=1, keepdim=True)
    gram = x @ x.T
    own = gram.diagonal()
    chord = (own[:, None] + own[None, :] - 2 * gram).clamp_min(0)
    if kind == "E":
        return chord
    if kind == "S":
        return (2 * torch.asin((chord / 4).clamp(1e-12, 1 - 1e-6).sqrt())) ** 2
    height = (1 + own).sqrt()
    rise = (height[:, None] - height[None, :]) ** 2
    return (2 * torch.asinh(((chord - rise) / 4).clamp_min(1e-12).sqrt())) ** 2


def learned(
    D: torch.Tensor, space: Space, first: float, steps: int
) -> torch.Tensor:
    """Fit coordinates and scales of the factors by Adam, and return d̂."""
    generator = torch.Generator(device=D.device).manual_seed(0)
    n, mean = len(D), D.sum() / (len(D) * (len(D) - 1))
    parts = [
        torch.randn(
            n,
            size + (kind == "S"),
            generator=generator,
            device=D.device,
            dtype=D.dtype,
        )
        * (1.0 if kind == "S" else 0.3)
        for kind, size in space
    ]
    scales = torch.zeros(len(space), device=D.device, dtype=D.dtype)
    unknown = [one.requires_grad_() for one in (*parts, scales)]
    optimiser = torch.optim.Adam(unknown, lr=first)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    inverse = torch.where(D > 0, (mean / D) ** 2, 0.0)
    counted = (D > 0).to(D.dtype)

    def predicted() -> torch.Tensor:
        kinds = (kind for kind, _ in space)
        return sum(
            scale.exp() * sq_distances(kind, part)
            for scale, kind, part in zip(scales, kinds, parts, strict=True)
        )

    for _ in range(steps):
        optimiser.zero_grad(set_to_none=True)
        (predicted() * inverse - counted).abs().mean().backward()
        optimiser.step()
        falling.step()
    with torch.no_grad():
        return predicted().sqrt() * mean


def hydra(D: torch.Tensor, k: int) -> torch.Tensor:
    """Hyperbolic scaling: one timelike and k spacelike eigenvectors of cosh(c d); the best c."""
    mean, best, least = D.sum() / (len(D) * (len(D) - 1)), D, torch.inf
    for c in (0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0):
        if c * float(D.max() / mean) > 300:
            continue
        values, vectors = torch.linalg.eigh(torch.cosh(c * D / mean))
        space = vectors[:, :k] * (-values[:k]).clamp_min(0).sqrt()
        height = (1 + (space**2).sum(dim=1)).sqrt()
        d_hat = (
            torch.acosh(
                (height[:, None] * height - space @ space.T).clamp_min(1)
            )
            * mean
            / c
        )
        error = float((d_hat / D - 1).abs()[D > 0].mean())
        best, least = (d_hat, error) if error < least else (best, least)
    return best


def measures(D: np.ndarray, d_hat: np.ndarray, edge: float) -> dict[str, Any]:
    upper = np.triu(D, 1) > 0
    errors = np.abs(d_hat[upper] / D[upper] - 1)
    found = {
        "mean": float(errors.mean()),
        "p99": float(np.quantile(errors, 0.99)),
    }
    return {
        **found,
        "mAP": mean_average_precision(edge == D, d_hat) if edge else None,
    }


def mean_average_precision(neighbours: np.ndarray, d_hat: np.ndarray) -> float:
    total = 0.0
    for i, row in enumerate(d_hat):
        order = np.argsort(
            np.where(np.arange(len(row)) == i, np.inf, row), kind="stable"
        )
        hits = np.flatnonzero(neighbours[i, order])
        total += float(np.mean(np.arange(1, hits.size + 1) / (hits + 1)))
    return total / len(d_hat)


def rows(name: str, device: str) -> list[dict[str, Any]]:
    load, k, edge = CASES[name]
    distances = load()
    D = torch.as_tensor(distances, device=device, dtype=torch.float64)
    steps = int(min(2000, max(600, PAIRS_A_SET / len(D) ** 2)))
    made: list[dict[str, Any]] = []

    def note(method: str, fit: Callable[[], Any]) -> None:
        begin = time.perf_counter()
        d_hat = np.asarray(to_numpy(fit()))
        seconds = time.perf_counter() - begin
        facts = {
            "set": name,
            "n": len(distances),
            "numbers": k,
            "method": method,
        }
        made.append(
            {**facts, "seconds": seconds, **measures(distances, d_hat, edge)}
        )
        print(made[-1], flush=True)

    def signed(kappa: float | str) -> Any:
        found = neuc_mds(D, k, loss="relative", curvature=kappa)
        return found.dissimilarities()

    note("neucmds, κ chosen", lambda: signed("auto"))
    note("neucmds, κ = 0", lambda: signed(0))
    note("hydra", lambda: hydra(D, k))
    for method, space in spaces(k).items():
        for first in FIRST_STEPS:
            fit = partial(learned, D.float(), space, first, steps)
            note(f"{method}, step {first}", fit)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("word", nargs="?", default="")
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    found = (
        json.loads(RECORD.read_text(encoding="utf-8"))["rows"]
        if RECORD.exists()
        else []
    )
    for name in CASES:
        if given.word in name:
            found = [row for row in found if row["set"] != name] + rows(
                name, given.device
            )
            facts = {
                "device": given.device,
                "versions": measure.versions("neucmds", "torch"),
            }
            measure.write_record(RECORD, {**facts, "rows": found})


if __name__ == "__main__":
    main()
