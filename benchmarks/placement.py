"""Objects placed later: one fifth of each data set is held back, then placed by `transform`.

    NEUCMDS_DATA=… python benchmarks/placement.py    prints the table, writes records/placement.json

Errors are ‖D̂ − D‖ / ‖D‖ between the new objects and the fitted ones, beside the same among the
fitted ones; `moved` is how far `transform` puts fitted objects from where they were fitted.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

import numpy as np

from neucmds import datasets, neuc_mds
from neucmds._methods.geometry import sq_dissimilarities

RECORD = Path(__file__).parent / "records" / "placement.json"
METHODS = ("classical", "neuc", "neuc+", "exact", "refined")


def data() -> dict[str, tuple[np.ndarray, int]]:
    pixels = datasets.load_images("cifar10", n=1000).images
    stored = {
        name: (datasets.load_dissimilarity(name).dissimilarity ** 2, k)
        for name, k in (
            ("enterotype280_braycurtis", 20),
            ("protein213", 20),
            ("dune20_braycurtis", 2),
            ("eurodist21", 3),
        )
    }
    return {
        "euclidean-ball": (datasets.euclidean_ball(1000, random_state=0), 20),
        "random-simplex": (datasets.random_simplex(1000, random_state=0), 100),
        "cifar10 2-NN": (datasets.hop_distances(pixels, 2, wraparound=True) ** 2.0, 100),
        **stored,
    }


def measure(D: np.ndarray, k: int) -> dict[str, dict[str, float]]:
    order = np.random.default_rng(0).permutation(D.shape[0])
    new, old = np.split(order, [D.shape[0] // 5])
    among, between = D[np.ix_(old, old)], D[np.ix_(new, old)]
    rows = {}
    for method in METHODS:
        embedding = neuc_mds(among, k, method, squared=True, random_state=0)
        placed = embedding.transform(between)
        d_hat = sq_dissimilarities(placed, embedding.coordinates, embedding.signs)
        moved = np.linalg.norm(embedding.transform(among) - embedding.coordinates)
        rows[method] = {
            "fitted": float(np.sqrt(embedding.normalized_stress)),
            "new": float(np.linalg.norm(d_hat - between) / np.linalg.norm(between)),
            "moved": float(moved / np.linalg.norm(embedding.coordinates)),
        }
    return rows


def main() -> None:
    record = {}
    for name, (D, k) in data().items():
        record[name] = {"n": D.shape[0], "k": k, "methods": measure(D, k)}
        for method, row in record[name]["methods"].items():
            print(name, method, {a: f"{b:.3g}" for a, b in row.items()}, flush=True)
        best = min(METHODS, key=lambda m: record[name]["methods"][m]["new"])
        print(f"{name}: lowest error on new objects: {best}", flush=True)
    RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
