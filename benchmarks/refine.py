"""STRESS against products with B and seconds: `refined`, L-BFGS and SMACOF from one start.

    python benchmarks/refine.py            prints the table, writes benchmarks/records/refine.json
    python benchmarks/refine.py --plot     also benchmarks/records/refine.png

`refined` and L-BFGS start from the same coordinates with the same signature, SMACOF from its own
random one; L-BFGS (SciPy's, 10 pairs) gets value and gradient from one product an evaluation.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

import numpy as np
from scipy.optimize import minimize
from sklearn.manifold import smacof

from neucmds import datasets
from neucmds._input.components import Components
from neucmds._methods.refined.objective import _FreeCoordinates, refine
from neucmds._methods.refined.starts import eigenvector_start
from neucmds._operator import DenseGram
from neucmds._spectrum import full_spectrum

RECORD = Path(__file__).parent / "records" / "refine.json"
Trace = list[tuple[int, float, float]]


def data() -> dict[str, tuple[np.ndarray, int]]:
    sets = {
        "euclidean-ball": (datasets.euclidean_ball(1000, random_state=0), 100),
        "random-simplex": (datasets.random_simplex(1000, random_state=0), 100),
        "bray-curtis": (datasets.bray_curtis_gamma(1000, random_state=0), 100),
    }
    try:
        pixels = datasets.load_images("cifar10", n=1000, download=False).images
    except datasets.DataNotFoundError as absent:
        print(f"left out: {absent}")
        return sets
    sets["cifar10 2-NN"] = (datasets.hop_distances(pixels, 2, wraparound=True) ** 2.0, 100)
    return sets


def by_refine(gram: DenseGram, x: np.ndarray, signs: np.ndarray) -> Trace:
    trace: Trace = []
    started = time.perf_counter()
    refine(
        gram,
        x,
        signs,
        max_iter=60,
        tol=0.0,
        callback=lambda i, value: trace.append((i + 1, time.perf_counter() - started, value)),
    )
    return trace


def by_lbfgs(gram: DenseGram, x: np.ndarray, signs: np.ndarray) -> Trace:
    trace: Trace = []
    started = time.perf_counter()

    def value_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        here = gram.center(flat.reshape(x.shape))
        state = _FreeCoordinates.at(gram, here, gram.matmat(here), signs, gram.matmat)
        trace.append((len(trace) + 1, time.perf_counter() - started, state.value))
        return state.value, state.gradient().ravel()

    minimize(
        value_and_gradient,
        x.ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxcor": 10, "maxfun": 300, "maxiter": 300, "ftol": 0, "gtol": 0},
    )
    best = np.minimum.accumulate([value for _, _, value in trace])
    return [(i, t, float(v)) for (i, t, _), v in zip(trace, best, strict=True)]


def by_smacof(D: np.ndarray, k: int) -> Trace:
    trace: Trace = []
    for iterations in (30, 100, 300):
        started = time.perf_counter()
        x, _ = smacof(
            np.sqrt(D),
            n_components=k,
            n_init=1,
            max_iter=iterations,
            eps=0,
            random_state=0,
            init=None,
        )
        spent = time.perf_counter() - started
        norms = np.sum(x**2, axis=1)
        d_hat = norms[:, None] + norms[None, :] - 2 * x @ x.T
        trace.append((iterations, spent, float(np.sum((d_hat - D) ** 2))))
    return trace


def products_to(trace: Trace, target: float) -> int | None:
    return next((i for i, _, value in trace if value <= target), None)


def plot(record: dict) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3 * len(record)), layout="constrained")
    axes = figure.subplots(len(record), 2, squeeze=False)
    for row, (name, traces) in zip(axes, record.items(), strict=True):
        for axis, column, label in ((row[0], 0, "products with B"), (row[1], 1, "seconds")):
            for method in ("refined", "L-BFGS", "SMACOF"):
                points = traces[method]
                axis.plot(
                    [p[column] for p in points], [p[2] for p in points], "o-", ms=2, label=method
                )
            axis.set(yscale="log", xscale="log", xlabel=label, ylabel="STRESS", title=name)
            axis.legend()
    figure.savefig(RECORD.with_suffix(".png"), dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", action="store_true")
    arguments = parser.parse_args()
    record = {}
    for name, (D, k) in data().items():
        gram = DenseGram(D)
        start = eigenvector_start(full_spectrum(gram), gram.diagonal(), Components(k))
        x, signs = start.coordinates, start.signs
        traces = {
            "refined": by_refine(gram, x, signs),
            "L-BFGS": by_lbfgs(gram, x, signs),
            "SMACOF": by_smacof(D, k),
        }
        record[name] = traces
        end = min(value for _, _, value in traces["refined"])
        summary = {
            method: {
                "products to within 1 %": products_to(traces[method], 1.01 * end),
                "end": f"{traces[method][-1][2]:.4g}",
                "seconds": round(traces[method][-1][1], 2),
            }
            for method in traces
        }
        print(name, json.dumps(summary), flush=True)
    RECORD.write_text(json.dumps(record) + "\n")
    if arguments.plot:
        plot(record)


if __name__ == "__main__":
    main()
