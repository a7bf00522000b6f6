"""How close each way of placing objects among landmarks comes to embedding all of them.

For every data set, k, share of landmarks and method: STRESS over all n² pairs when all objects are
placed from landmarks, divided by the STRESS of the same method on the whole matrix; mean over
seeds. "block refined" alternates least squares between landmarks and others on the n×L block, and
is here to show that it fits the block and loses the rest.

    PYTHONPATH=src OPENBLAS_NUM_THREADS=1 python benchmarks/landmarks.py [--seeds 10]

Writes benchmarks/records/landmarks.json. The bars: Random-simplex, neuc, k = 10: 1.0644 with 25 %
and 1.0898 with 10 % (the paper's figures); k = 100 with 25 %: 1.5.
"""

from __future__ import annotations

import argparse
import json
import platform
import warnings
from pathlib import Path

import numpy as np
import scipy

from neucmds import LandmarkNeucMDS, __version__, neuc_mds
from neucmds._methods.geometry import sq_dissimilarities
from neucmds._placement.least_squares import LeastSquaresPlacement
from neucmds.datasets.synthetic import euclidean_ball, random_simplex
from neucmds.errors import FewerComponentsWarning

DATA = {"random_simplex": random_simplex, "euclidean_ball": euclidean_ball}
CASES = ((10, 0.25), (10, 0.10), (100, 0.25), (50, 0.10))
METHODS = ("neuc", "neuc+", "exact", "refined")
BARS = {(10, 0.25): 1.0644, (10, 0.10): 1.0898, (100, 0.25): 1.5}
RECORD = Path(__file__).parent / "records" / "landmarks.json"


def stress(coordinates, signs, d):
    errors = sq_dissimilarities(coordinates, coordinates, signs) - d
    np.fill_diagonal(errors, 0.0)
    return float(np.sum(errors**2))


def refined_on_block(est, d, passes=3):
    """Alternate: landmarks from everybody, everybody from landmarks."""
    block, signs = d[:, est.landmarks_], est.signature_
    x = LeastSquaresPlacement(est.result_.coordinates, signs).place(block)
    for _ in range(passes):
        center = x.mean(axis=0)
        y = LeastSquaresPlacement(x - center, signs).place(np.ascontiguousarray(block.T)) + center
        center = y.mean(axis=0)
        x = LeastSquaresPlacement(y - center, signs).place(block) + center
    return x


def one_run(make, k, share, method, seed):
    d = make(1000, random_state=seed)
    full = neuc_mds(d, k, method, squared=True)
    values = {}
    for placement in ("linear", "least_squares", "auto"):
        est = LandmarkNeucMDS(
            k, share, method=method, placement=placement, squared=True, random_state=seed
        ).fit(d)
        values[placement] = stress(est.transform(d), est.signature_, d) / full.stress
        if placement == "least_squares":
            x = refined_on_block(est, d)
            values["block refined"] = stress(x, est.signature_, d) / full.stress
    return full.stress, values


def collect(seeds):
    rows = []
    for name, make in DATA.items():
        for k, share in CASES:
            for method in METHODS:
                runs = [one_run(make, k, share, method, seed) for seed in range(seeds)]
                ratios = {key: [values[key] for _, values in runs] for key in runs[0][1]}
                rows.append(
                    {
                        "data": name,
                        "k": k,
                        "landmarks": share,
                        "method": method,
                        "full_stress": float(np.mean([full for full, _ in runs])),
                        "mean_ratio": {key: float(np.mean(v)) for key, v in ratios.items()},
                        "worst_ratio": {key: float(np.max(v)) for key, v in ratios.items()},
                    }
                )
                print(line(rows[-1]), flush=True)
    return rows


def line(row):
    bar = BARS.get((row["k"], row["landmarks"])) if row["data"] == "random_simplex" else None
    cells = "".join(
        f"{row['mean_ratio'][key]:>14.4g}"
        for key in ("linear", "block refined", "least_squares", "auto")
    )
    return (
        f"{row['data']:<15}{row['k']:>4}{row['landmarks']:>6.0%}  {row['method']:<8}"
        f"{row['full_stress']:>11.4g}{cells}{row['worst_ratio']['auto']:>9.4g}"
        f"{'' if bar is None else f'{bar:>9.4f}'}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--record", type=Path, default=RECORD)
    args = parser.parse_args()
    warnings.simplefilter("ignore", FewerComponentsWarning)
    print(
        f"{'data':<15}{'k':>4}{'L':>6}  {'method':<8}{'full':>11}{'linear':>14}"
        f"{'block refined':>14}{'least squares':>14}{'auto':>14}{'worst':>9}{'bar':>9}"
    )
    record = {
        "what": "STRESS with all objects placed from landmarks / STRESS of the same method on all",
        "n": 1000,
        "seeds": args.seeds,
        "versions": {
            "neucmds": __version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "python": platform.python_version(),
        },
        "rows": collect(args.seeds),
    }
    args.record.parent.mkdir(exist_ok=True)
    args.record.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
