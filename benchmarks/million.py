"""1,000,000 × 50 features, cityblock, 1000 landmarks, k = 20: seconds and peak memory.

    PYTHONPATH=src OPENBLAS_NUM_THREADS=1 python benchmarks/million.py [--n N] [--method M]

Features are uniform float64 around 20 centres; the coordinates go to a ``.npy`` memory map. Also
printed: what the distances alone cost a pair in this process, one thread and all threads, which is
the floor. Writes benchmarks/records/million.json. The bar: 120 s and 4 GB on 2 cores.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy
from scipy.spatial.distance import cdist

from neucmds import LandmarkNeucMDS, __version__
from neucmds.backend.threads import fill_rows, thread_count
from neucmds.form import Form

RECORD = Path(__file__).parent / "records" / "million.json"


def make(n, n_features=50, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(20, n_features)) * 2
    features = rng.uniform(-1, 1, size=(n, n_features))
    for rows in np.array_split(np.arange(n), max(1, n // 100_000)):
        features[rows] += centres[rng.integers(20, size=rows.size)]
    return features


def ns_per_pair(features, n_threads, n=20_000, n_landmarks=1000):
    """CPU time of the distances alone."""
    rows, landmarks = features[:n], features[n : n + n_landmarks]
    target = np.empty((n, 1))
    start = time.process_time()
    fill_rows(
        target,
        lambda at: cdist(rows[at], landmarks, "cityblock")[:, :1],
        n_landmarks,
        n_threads,
    )
    return (time.process_time() - start) / (n * n_landmarks) * 1e9


def sampled_stress(features, coordinates, signs, size=2000, seed=1):
    """Normalised STRESS among objects drawn anew."""
    ids = np.sort(
        np.random.default_rng(seed).choice(len(features), size, replace=False)
    )
    d = cdist(features[ids], features[ids], "cityblock") ** 2
    x = np.asarray(coordinates[ids])
    d_hat = Form(signs).sq(x, x)
    return float(np.sum((d_hat - d) ** 2) / np.sum(d**2))


def peak_gb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--method", default="refined")
    parser.add_argument("--record", type=Path, default=RECORD)
    args = parser.parse_args()
    features = make(args.n)
    threads = thread_count(None)
    est = LandmarkNeucMDS(
        20,
        1000,
        metric="cityblock",
        method=args.method,
        random_state=0,
        verbose=1,
    )
    with tempfile.TemporaryDirectory() as folder:
        start, cpu = time.perf_counter(), time.process_time()
        coordinates = est.fit_transform(
            features, out=Path(folder) / "coordinates.npy"
        )
        end = time.perf_counter()
        cpu = time.process_time() - cpu
        peak = peak_gb()
        quality = sampled_stress(features, coordinates, est.signs_)
    record = {
        "what": "LandmarkNeucMDS on features; peak is of the whole process, features included",
        "n": args.n,
        "n_features": 50,
        "metric": "cityblock",
        "n_landmarks": 1000,
        "k": 20,
        "method": args.method,
        "cores": threads,
        "load_average_1min": os.getloadavg()[0],
        "total_s": end - start,
        "cpu_s": cpu,
        "peak_gb": peak,
        "distance_ns_per_pair": {
            "one thread": ns_per_pair(features, 1),
            f"{threads} threads": ns_per_pair(features, threads),
        },
        "normalized_stress_of_2000_sampled": quality,
        "recipe": repr(est.recipe_),
        "versions": {
            "neucmds": __version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "python": platform.python_version(),
        },
    }
    print(json.dumps(record, indent=1))
    if args.n == 1_000_000:
        args.record.parent.mkdir(exist_ok=True)
        args.record.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
