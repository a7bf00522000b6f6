"""Round-trip times between hosts: signed coordinates beside network coordinates.

    NEUCMDS_DATA=… python benchmarks/scoreboard/latency.py [--jobs 6]

490 PlanetLab hosts, all pairs fitted. Errors are |d̂/d − 1|: mean, median, p90. "Vivaldi" is the
algorithm of Dabek et al. (SIGCOMM 2004), written here: hosts move along springs, by steps that
shrink with their own error beside that of the other host; a height is added to every distance of
its host. "Rank 10" is the best approximation of the table of d by a matrix of rank ten, whose
negative entries count as zero.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
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
    emb = neuc_mds(D, K, random_state=0, **options)
    p, q = emb.signature
    form = f"({p}, {q})"
    if emb.heights is not None:
        form += " and heights"
    if emb.curvature:
        form += f", κ = {emb.curvature:.3g}"
    return emb.dissimilarities(), form


def timed(method: str) -> dict[str, Any]:
    """Fit all hosts by a method of this page, and measure errors and CPU time."""
    warnings.simplefilter("ignore")
    D = losses._latency()
    numbers, fit = METHODS[method]
    begin = time.process_time()
    d_hat = fit(D)
    seconds = time.process_time() - begin
    form = None
    if isinstance(d_hat, tuple):
        d_hat, form = d_hat
    upper = np.triu(D, 1) > 0
    errors = np.abs(d_hat[upper] / D[upper] - 1)
    return {
        "method": method,
        "numbers": numbers,
        "form": form,
        "mean": float(errors.mean()),
        "median": float(np.median(errors)),
        "p90": float(np.quantile(errors, 0.9)),
        "seconds": seconds,
    }


METHODS: dict[str, tuple[int, Callable[[np.ndarray], Any]]] = {
    **{
        f"neucmds, {loss}, heights {heights}": (
            K,
            partial(signed, loss=loss, heights=heights),
        )
        for loss in ("relative", "absolute")
        for heights in (False, True, "auto")
    },
    "Vivaldi, 2-D and height": (3, partial(vivaldi, dimensions=2)),
    "Vivaldi, 9-D and height": (K, partial(vivaldi, dimensions=K - 1)),
    "rank 10 of d": (K, factorised),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    rows = []
    facts = {"versions": measure.versions("neucmds")}
    with ProcessPoolExecutor(
        asked.jobs, mp_context=get_context("spawn")
    ) as pool:
        for row in pool.map(timed, METHODS):
            rows.append(row)
            print(row, flush=True)
    measure.write_record(RECORD, {**facts, "rows": rows})


if __name__ == "__main__":
    main()
