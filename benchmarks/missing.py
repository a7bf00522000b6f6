"""30 % of the entries hidden at random: the error on them, relative to predicting their mean.

    NEUCMDS_DATA=… python benchmarks/missing.py     prints the table, writes records/missing.json

The error is ‖D̂ − D‖ over the hidden entries, divided by ‖D − mean‖ over them (norms, not squares).
Beside it: the gaps filled with the mean of what was observed, then `exact`.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

import numpy as np

from neucmds import datasets, neuc_mds

RECORD = Path(__file__).parent / "records" / "missing.json"
BARS = {"euclidean-ball": 0.10, "enterotype": 0.15, "cifar10 2-NN": 0.35}


def data() -> dict[str, tuple[np.ndarray, int]]:
    pixels = datasets.load_images("cifar10", n=1000).images
    lung = datasets.load_genomics("lung_gordon").values
    return {
        "euclidean-ball": (datasets.euclidean_ball(1000, random_state=0), 20),
        "enterotype": (
            datasets.load_dissimilarity("enterotype280_braycurtis").dissimilarity ** 2,
            20,
        ),
        "protein": (datasets.load_dissimilarity("protein213").dissimilarity ** 2, 20),
        "lung (entropic affinities)": (datasets.entropic_affinities(lung, 30) ** 2, 20),
        "cifar10 2-NN": (datasets.hop_distances(pixels, 2, wraparound=True) ** 2.0, 100),
    }


def measure(D: np.ndarray, k: int, seed: int) -> dict[str, object]:
    n = D.shape[0]
    upper = np.triu(np.random.default_rng(seed).random((n, n)) < 0.3, 1)
    hidden = upper | upper.T
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        holed = np.where(hidden, np.nan, D)
        ours = neuc_mds(holed, k, squared=True, missing="ignore", random_state=seed)
    seconds = time.perf_counter() - started
    observed = D[~hidden & ~np.eye(n, dtype=bool)]
    filled = np.where(hidden, observed.mean(), D)
    imputed = neuc_mds(filled, k, "exact", squared=True)
    spread = np.linalg.norm((D - D[hidden].mean())[hidden])

    def error(embedding) -> float:
        return float(np.linalg.norm((embedding.dissimilarities() - D)[hidden]) / spread)

    return {
        "seed": seed,
        "k": k,
        "error": error(ours),
        "mean_then_exact": error(imputed),
        "seconds": seconds,
        "warnings": [str(w.message) for w in caught],
    }


def main() -> None:
    record = {}
    for name, (D, k) in data().items():
        record[name] = [measure(D, k, seed) for seed in range(3)]
        worst = max(row["error"] for row in record[name])
        print(
            f"{name}: error {worst:.3f} (bar {BARS.get(name, '–')}), mean imputation then exact "
            f"{record[name][0]['mean_then_exact']:.3f}; {record[name][0]['warnings']}",
            flush=True,
        )
    RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
