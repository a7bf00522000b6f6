"""Round-trip times between hosts: signed coordinates beside network coordinates.

    NEUCMDS_DATA=… python benchmarks/scoreboard/latency.py

490 PlanetLab hosts, all pairs fitted. Errors are |d̂/d − 1|: mean, median, p90. "Vivaldi" is the
algorithm of Dabek et al. (SIGCOMM 2004), written here: hosts move along springs, by steps that
shrink with their own error beside that of the other host; a height is added to every distance of
its host. "Rank 10" is the best approximation of the table of d by a matrix of rank ten, whose
negative entries count as zero.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import losses
import measure
from neucmds import neuc_mds

RECORD = measure.RECORDS / "latency.json"
K = 10
# Vivaldi's two constants, as published, and how often every host meets another one.
STEP = 0.25
MEETINGS = 20_000


def vivaldi(D: np.ndarray, dimensions: int) -> np.ndarray:
    """Return d̂ of Vivaldi with heights; in every round each host meets one other at random."""
    rng = np.random.default_rng(0)
    n = len(D)
    x = rng.normal(size=(n, dimensions))
    height = np.full(n, 1.0)
    error = np.ones(n)
    own = np.arange(n)
    for _ in range(MEETINGS):
        other = rng.permutation(n)
        rtt = D[own, other]
        met = rtt > 0
        gap = x - x[other]
        flat = np.linalg.norm(gap, axis=1)
        d_hat = np.maximum(flat + height + height[other], 1e-9)
        balance = error / (error + error[other])
        miss = np.abs(d_hat - rtt) / np.where(met, rtt, 1.0)
        force = np.where(met, STEP * balance * (rtt - d_hat) / d_hat, 0.0)
        share = np.where(met, STEP * balance, 0.0)
        error = np.maximum(miss * share + error * (1 - share), 1e-6)
        x = x + force[:, None] * gap
        height = np.maximum(height + force * (height + height[other]), 0.0)
    distances = np.linalg.norm(x[:, None] - x, axis=2)
    return distances + height[:, None] + height


def factorised(D: np.ndarray) -> np.ndarray:
    """Return the best approximation of D by a matrix of rank K, its negative entries zero."""
    values, vectors = np.linalg.eigh(D)
    kept = np.argsort(-np.abs(values))[:K]
    product = (vectors[:, kept] * values[kept]) @ vectors[:, kept].T
    return np.maximum(product, 0.0)


def signed(D: np.ndarray, **options: Any) -> tuple[np.ndarray, str]:
    emb = neuc_mds(D, K, **options)
    p, q = emb.signature
    form = f"({p}, {q})"
    if emb.heights is not None:
        form += " and heights"
    if emb.curvature:
        form += f", κ = {emb.curvature:.3g}"
    return emb.dissimilarities(), form


def main() -> None:
    warnings.simplefilter("ignore")
    D = losses._latency()
    upper = np.triu(D, 1) > 0
    rows = []

    def note(method: str, numbers: int, fit: Callable[[], Any]) -> None:
        begin = time.process_time()
        d_hat = fit()
        seconds = time.process_time() - begin
        form = None
        if isinstance(d_hat, tuple):
            d_hat, form = d_hat
        errors = np.abs(d_hat[upper] / D[upper] - 1)
        rows.append(
            {
                "method": method,
                "numbers": numbers,
                "form": form,
                "mean": float(errors.mean()),
                "median": float(np.median(errors)),
                "p90": float(np.quantile(errors, 0.9)),
                "seconds": seconds,
            }
        )
        print(rows[-1], flush=True)
        facts = {"versions": measure.versions("neucmds")}
        measure.write_record(RECORD, {**facts, "rows": rows})

    for loss in ("relative", "absolute"):
        for heights in (False, True, "auto"):
            note(
                f"neucmds, {loss}, heights {heights}",
                K,
                partial(signed, D, loss=loss, heights=heights),
            )
    note("Vivaldi, 2-D and height", 3, lambda: vivaldi(D, 2))
    note("Vivaldi, 9-D and height", K, lambda: vivaldi(D, K - 1))
    note("rank 10 of d", K, lambda: factorised(D))


if __name__ == "__main__":
    main()
