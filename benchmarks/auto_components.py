"""How often ``n_components="auto"`` finds a planted number of coordinates, within one.

    python benchmarks/auto_components.py     prints the share, writes records/auto_components.json

100 draws: n from 60 to 200, (p, q) from (1, 0) to (8, 4), axes of scale 1 (positive) and 0.7
(negative), noise of 5 to 20 % that adds to D or multiplies it.
"""

from __future__ import annotations

import json
import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from measure import RECORDS, machine
from neucmds import api
from neucmds._methods.geometry import sq_dissimilarities

RECORD = RECORDS / "auto_components.json"
DRAWS = 100
BAR = 0.95


def draw(seed: int) -> tuple[np.ndarray, dict[str, object]]:
    """Draw squared dissimilarities of a planted signature, and say how."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(60, 201))
    p, q = int(rng.integers(1, 9)), int(rng.integers(0, 5))
    noise, kind = float(rng.uniform(0.05, 0.2)), ("additive", "multiplicative")[seed % 2]
    x = rng.normal(size=(n, p + q)) * np.r_[np.ones(p), 0.7 * np.ones(q)]
    d = sq_dissimilarities(x, x, np.r_[np.ones(p), -np.ones(q)])
    e = np.triu(rng.normal(size=(n, n)), 1)
    e = e + e.T
    d = d + noise * d.std() * e if kind == "additive" else d * (1 + noise * e)
    np.fill_diagonal(d, 0)
    return d, {"seed": seed, "n": n, "p": p, "q": q, "noise": noise, "kind": kind}


def main() -> None:
    rows = []
    for seed in range(DRAWS):
        d, facts = draw(seed)
        start = time.perf_counter()
        found = api.neuc_mds(d, "auto", "neuc+", squared=True).requested
        rows.append(facts | {"found": found, "seconds": round(time.perf_counter() - start, 3)})
        off = found - int(facts["p"]) - int(facts["q"])  # type: ignore[call-overload]
        if abs(off) > 1:
            print(facts, "found", found, flush=True)
    right = sum(abs(row["found"] - row["p"] - row["q"]) <= 1 for row in rows)
    print(f"right within one on {right} of {DRAWS} draws (bar {BAR:.0%})")
    record = {"machine": machine(), "right_within_one": right, "draws": rows}
    RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
