"""What ``n_components="auto"`` chooses: on planted signatures, and on real sets.

    NEUCMDS_DATA=… python benchmarks/auto_components.py     prints both, writes the record
    python benchmarks/auto_components.py --render           fills docs/guide from the record alone

Planted: 100 draws of n from 60 to 200, and 10 of n from 300 to 1000; (p, q) from (1, 0) to (8, 4),
axes of scale 1 (positive) and 0.7 (negative), noise of 5 to 20 % that adds to D or multiplies it.
The choice should be right within one on 95 % of them. Real: the chosen k beside the one of least
held-out error, and R² on pairs of held-out objects with either.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import measure
import real_data
import retrieval
from neucmds._methods.geometry import sq_dissimilarities
from neucmds._operator import DenseGram
from neucmds.api import inspect
from neucmds.api.goals import held_out_scan

RECORD = measure.RECORDS / "auto_components.json"
DRAWS, LARGE_DRAWS = 100, 10
BAR = 0.95
# Miles in the air between Atlanta, Chicago, Denver, Houston, Los Angeles, Miami, New York, San
# Francisco, Seattle and Washington.
US_CITIES = """587 1212 701 1936 604 748 2139 2182 543 920 940 1745 1188 713 1858 1737 597 879 831
1726 1631 949 1021 1494 1374 968 1420 1645 1891 1220 2339 2451 347 959 2300 1092 2594 2734 923 2571
2408 205 678 2442 2329"""


def draw(seed: int, least: int = 60, most: int = 200) -> tuple[np.ndarray, dict[str, Any]]:
    """Draw squared dissimilarities of a planted signature, and say how."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(least, most + 1))
    p, q = int(rng.integers(1, 9)), int(rng.integers(0, 5))
    noise, kind = float(rng.uniform(0.05, 0.2)), ("additive", "multiplicative")[seed % 2]
    x = rng.normal(size=(n, p + q)) * np.r_[np.ones(p), 0.7 * np.ones(q)]
    d = sq_dissimilarities(x, x, np.r_[np.ones(p), -np.ones(q)])
    e = np.triu(rng.normal(size=(n, n)), 1)
    e = e + e.T
    d = d + noise * d.std() * e if kind == "additive" else d * (1 + noise * e)
    np.fill_diagonal(d, 0)
    return d, {"seed": seed, "n": n, "p": p, "q": q, "noise": noise, "kind": kind}


def planted() -> list[dict[str, Any]]:
    rows = []
    large = (draw(seed, 300, 1000) for seed in range(DRAWS, DRAWS + LARGE_DRAWS))
    for d, facts in [*(draw(seed) for seed in range(DRAWS)), *large]:
        start = time.process_time()
        found = held_out_scan(DenseGram(d), "auto", None).k
        off = found - facts["p"] - facts["q"]
        rows.append(facts | {"found": found, "off": off})
        rows[-1]["cpu_seconds"] = round(time.process_time() - start, 3)
        if abs(off) > 1:
            print(rows[-1], flush=True)
    return rows


def real_sets() -> dict[str, np.ndarray]:
    """Twenty-two dissimilarities, unsquared."""
    found = {}
    for name in real_data.list_dissimilarities():
        d = real_data.load_dissimilarity(name).dissimilarity
        found[name] = (d + d.T) / 2
        np.fill_diagonal(found[name], 0)
    cities = np.zeros((10, 10))
    cities[np.triu_indices(10, 1)] = [float(miles) for miles in US_CITIES.split()]
    found["US cities"] = cities + cities.T
    found["planetlab490"] = np.load(
        real_data.data_folders(None, "latency")[-1] / "planetlab490.npz"
    )["D"]
    found["digits, hops"] = retrieval.digits()[0]
    found["Helsinki"] = retrieval.helsinki()[0]
    return found


def real() -> list[dict[str, Any]]:
    rows = []
    for name, d in real_sets().items():
        start = time.process_time()
        found = inspect(d)
        scan = found.scan
        assert scan is not None
        row = {"data": name, "n": len(d), "n_objects": scan.n_objects, "chosen": scan.k}
        row |= {"r2": 1 - scan.error, "best": scan.best, "best_r2": 1 - min(scan.errors)}
        row |= {"open_ended": scan.open_ended, "r2_of_2": 1 - scan.errors[1]}
        row["cpu_seconds"] = round(time.process_time() - start, 3)
        rows.append(row)
        print({key: round(v, 3) if isinstance(v, float) else v for key, v in row.items()})
    return rows


def render() -> None:
    """Write the figures and the table of the guide from the record."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    total = len(record["draws"]) - LARGE_DRAWS
    text = (
        f"Planted signatures with noise come out within one in {record['right_within_one']} of "
        f"{total} draws\n(60 to 200 objects) and in {record['right_within_one_large']} of "
        f"{LARGE_DRAWS} (300 to 1000). On real data, with R² on pairs held out\n"
        "(`python benchmarks/auto_components.py`):"
    )
    lines = ["| data | n | chosen k | R² | k of the least error | R² | R² of two |"]
    lines.append("|---|---|---|---|---|---|---|")
    for row in record["real"]:
        shares = [_share(row[name]) for name in ("r2", "best_r2", "r2_of_2")]
        more = " or more" if row["open_ended"] else ""
        lines.append(
            f"| {row['data']} | {row['n']} | {row['chosen']}{more} | {shares[0]} | {row['best']} | "
            f"{shares[1]} | {shares[2]} |"
        )
    tables = {"auto: planted": text, "auto: real": "\n".join(lines)}
    measure.fill_page(retrieval.PAGE, tables)


def _share(r2: float) -> str:
    """Three decimals, and more where that would be one."""
    text = f"{r2:.3f}" if r2 < 0.9995 else f"{r2:.6f}"
    return text.replace("-", "−")


def main() -> None:
    if "--render" in sys.argv:
        return render()
    on_planted = planted()
    for part in (on_planted[:DRAWS], on_planted[DRAWS:]):
        right = sum(abs(row["off"]) <= 1 for row in part)
        print(f"right within one on {right} of {len(part)} draws (bar {BAR:.0%})", flush=True)
    record = {
        "machine": measure.machine(),
        "versions": measure.versions("numpy"),
        "right_within_one": sum(abs(row["off"]) <= 1 for row in on_planted[:DRAWS]),
        "right_within_one_large": sum(abs(row["off"]) <= 1 for row in on_planted[DRAWS:]),
        "draws": on_planted,
        "real": real(),
    }
    measure.write_record(RECORD, record)
    return render()


if __name__ == "__main__":
    main()
