"""What refinement adds to a Krylov fit: n = 8000, k = 100, alternating, medians.

    python benchmarks/refined_at_scale.py    writes benchmarks/records/refined_at_scale.json

The bar is 2: `refined` in at most twice the time of `neuc+`.
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
N, K, REPEATS = 8000, 100, 3
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
        times: dict[str, list[float]] = {"neuc+": [], "refined": []}
        stress = {}
        for repeat in range(REPEATS + 1):
            for method in times:
                started = time.perf_counter()
                found = neuc_mds(D, K, method, squared=True, tol=1e-6, random_state=0)
                if repeat:
                    times[method].append(time.perf_counter() - started)
                stress[method] = found.normalized_stress
        medians = {method: statistics.median(values) for method, values in times.items()}
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
