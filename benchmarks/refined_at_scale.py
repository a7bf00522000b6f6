"""What refinement adds to a Krylov fit: n = 8000, k = 100, alternating, medians.

    python benchmarks/refined_at_scale.py    writes benchmarks/records/refined_at_scale.json

Both as they are called by default; the bar is 2: `refined` in at most twice the time of `neuc+`.
The time of `neuc+` with tol=1e-6, which needs no float64 step, stands beside it.
"""

from __future__ import annotations

import json
import os
import statistics
import time
import warnings
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

from neucmds import neuc_mds
from neucmds.datasets import synthetic

RECORD = Path(__file__).parent / "records" / "refined_at_scale.json"
N, K, REPEATS = 8000, 100, 5
FITS = {
    "neuc+": ("neuc+", {}),
    "neuc+, tol=1e-6": ("neuc+", {"tol": 1e-6}),
    "refined": ("refined", {}),
}
FAMILIES = {
    "Euclidean-ball": synthetic.euclidean_ball,
    "Random-simplex": synthetic.random_simplex,
    "8-NN hops": lambda n, random_state: synthetic.random_hops(
        n, n_neighbors=8, random_state=random_state
    ),
    "Bray-Curtis gamma": synthetic.bray_curtis_gamma,
}


def main() -> None:
    warnings.simplefilter("ignore")
    record = {"n": N, "k": K, "threads": os.environ["OPENBLAS_NUM_THREADS"], "families": {}}
    for name, make in FAMILIES.items():
        D = make(N, random_state=0)
        times: dict[str, list[float]] = {name: [] for name in FITS}
        stress = {}
        for repeat in range(REPEATS + 1):
            for fit, (method, options) in FITS.items():
                started = time.perf_counter()
                found = neuc_mds(D, K, method, squared=True, random_state=0, **options)
                if repeat:
                    times[fit].append(time.perf_counter() - started)
                stress[fit] = found.normalized_stress
        medians = {fit: statistics.median(values) for fit, values in times.items()}
        record["families"][name] = {
            "seconds": medians,
            "ratio": medians["refined"] / medians["neuc+"],
            "iterations": len(found.history) - 1,
            "normalized_stress": stress,
        }
        print(name, record["families"][name], flush=True)
    RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
