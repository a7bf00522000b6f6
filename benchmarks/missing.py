"""30 % of the entries hidden at random: the error on them, relative to predicting their mean.

    NEUCMDS_DATA=… python benchmarks/missing.py     prints the table, writes records/missing.json

The error is ‖D̂ − D‖ over the hidden entries, divided by ‖D − mean‖ over them (norms, not squares).
Beside it: the gaps filled with the mean of what was observed, then `exact`.

Then what is warned of. `undetermined`: 300 objects in (3, 1) coordinates with 10 % noise, 90 %
hidden, for k = 4 and k = 20: more numbers than observed pairs. `few`: 12, 24 and 48 objects
in a plane with 2 % noise, a quarter hidden: how often the planted k is warned of (never is right),
and how often half of n coordinates end with twice its error, or are not warned of.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

import numpy as np

import real_data
from neucmds import OverfitWarning, datasets, neuc_mds
from neucmds.form import Form

RECORD = Path(__file__).parent / "records" / "missing.json"
DRAWS = 20
BARS = {"euclidean-ball": 0.10, "enterotype": 0.15, "cifar10 2-NN": 0.35}


def data() -> dict[str, tuple[np.ndarray, int]]:
    pixels = real_data.load_images("cifar10", n=1000).images
    lung = real_data.load_genomics("lung_gordon").values
    return {
        "euclidean-ball": (datasets.euclidean_ball(1000, random_state=0), 20),
        "enterotype": (
            real_data.load_dissimilarity(
                "enterotype280_braycurtis"
            ).dissimilarity
            ** 2,
            20,
        ),
        "protein": (
            real_data.load_dissimilarity("protein213").dissimilarity ** 2,
            20,
        ),
        "lung (entropic affinities)": (
            real_data.entropic_affinities(lung, 30) ** 2,
            20,
        ),
        "cifar10 2-NN": (real_data.wrapped_hops(pixels, 2) ** 2.0, 100),
    }


def measure(D: np.ndarray, k: int, seed: int) -> dict[str, object]:
    n = D.shape[0]
    upper = np.triu(np.random.default_rng(seed).random((n, n)) < 0.3, 1)
    hidden = upper | upper.T
    started, busy = time.perf_counter(), time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        holed = np.where(hidden, np.nan, D)
        ours = neuc_mds(
            holed, k, squared=True, missing="ignore", random_state=seed
        )
    seconds, cpu_seconds = (
        time.perf_counter() - started,
        time.process_time() - busy,
    )
    observed = D[~hidden & ~np.eye(n, dtype=bool)]
    filled = np.where(hidden, observed.mean(), D)
    imputed = neuc_mds(filled, k, "exact", squared=True)
    spread = np.linalg.norm((D - D[hidden].mean())[hidden])

    def error(embedding) -> float:
        return float(
            np.linalg.norm(
                (embedding.dissimilarities(squared=True) - D)[hidden]
            )
            / spread
        )

    return {
        "seed": seed,
        "k": k,
        "error": error(ours),
        "mean_then_exact": error(imputed),
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "warnings": [str(w.message) for w in caught],
    }


def planted(
    n: int, signs: tuple[int, ...], noise: float, seed: int
) -> np.ndarray:
    """Squared dissimilarities of normal coordinates, with noise in units of their spread."""
    random, a = np.random.default_rng(seed), np.array(signs, dtype=float)
    x = random.normal(size=(n, a.size)) * np.where(a > 0, 1.0, 0.5)
    D = Form(a).sq(x, x)
    noise_of_pairs = np.triu(random.normal(size=(n, n)), 1) * noise * D.std()
    D = (D + D.T) / 2 + noise_of_pairs + noise_of_pairs.T
    np.fill_diagonal(D, 0.0)
    return D


def hidden_error(
    D: np.ndarray, share: float, k: int, seed: int
) -> dict[str, object]:
    upper = np.triu(np.random.default_rng(seed).random(D.shape) < share, 1)
    hidden = upper | upper.T
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        holed = np.where(hidden, np.nan, D)
        found = neuc_mds(
            holed, k, squared=True, missing="ignore", random_state=seed
        )
    spread = np.linalg.norm((D - D[hidden].mean())[hidden])
    return {
        "k": k,
        "returned": found.k,
        "error": float(
            np.linalg.norm((found.dissimilarities(squared=True) - D)[hidden])
            / spread
        ),
        "warnings": [
            str(w.message)
            for w in caught
            if issubclass(w.category, OverfitWarning)
        ],
    }


def undetermined() -> list[dict[str, object]]:
    D = planted(300, (1, 1, 1, -1), 0.1, 0)
    rows = [hidden_error(D, 0.9, k, 0) for k in (4, 20)]
    few, many = rows
    print(
        f"n = 300, 90 % hidden: error {few['error']:.3f} with k = 4 (warnings {few['warnings']}), "
        f"{many['error']:.3f} with k = 20 ({many['returned']} returned), which must warn: "
        f"{many['warnings']}",
        flush=True,
    )
    return rows


def few_objects() -> list[dict[str, float]]:
    rows = []
    for n in (12, 24, 48):
        wrong = silent = bad = 0
        for seed in range(DRAWS):
            D = planted(n, (1, 1), 0.02, seed)
            right, many = (hidden_error(D, 0.25, k, seed) for k in (2, n // 2))
            wrong += bool(right["warnings"])
            silent += not many["warnings"]
            bad += many["error"] > 2 * right["error"]
        rows.append(
            {
                "n": n,
                "draws": DRAWS,
                "wrong": wrong,
                "silent": silent,
                "bad": bad,
            }
        )
        print(
            f"n = {n}, a quarter hidden, {DRAWS} draws: the planted k is warned of {wrong} times "
            f"(bar 0); n/2 coordinates are not warned of {silent} times, and end with more than "
            f"twice the error {bad} times",
            flush=True,
        )
    return rows


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
    record["undetermined"], record["few"] = undetermined(), few_objects()
    RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
