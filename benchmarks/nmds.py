"""Non-metric scaling: stress-1 and CPU time beside vegan's metaMDS and scikit-learn's MDS.

    NEUCMDS_DATA=… OPENBLAS_NUM_THREADS=1 python benchmarks/nmds.py [word]
    OPENBLAS_NUM_THREADS=1 python benchmarks/nmds.py --large

The ten tables of `scoreboard/ordination.py`, on which the number of starts and their noise were
chosen, and the others, on which nothing was. metaMDS makes 100 tries (and, as a second row, as
many as by default, 20), scikit-learn eight. Stress-1 is that of the coordinates, all by one
function, which agrees with what vegan prints. CPU seconds are those of the call, without the start
of R or Python; on one core. Ours is run with five seeds. With --large: a sample of the pairs of
made-up abundances, alone.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
import warnings
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist, squareform
from scipy.stats import spearmanr
from sklearn.manifold import MDS

sys.path.insert(0, str(Path(__file__).resolve().parent / "scoreboard"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import ordination

import measure
from neucmds import neuc_mds
from neucmds.refine.ordinal import RankedPairs

RECORD = measure.RECORDS / "nmds.json"
# Dissimilarities in R. The pyrifos are logarithms of abundances: vegan's example is Euclidean.
HELD_OUT_OF_VEGAN = {
    "sipoo": "vegdist(sipoo)",
    "pyrifos": "dist(pyrifos)",
    "pyrifos-bray": "vegdist(expm1(pyrifos))",
    "mite-presence": 'vegdist(mite, "jaccard", binary = TRUE)',
    "mite-hellinger": 'dist(decostand(mite, "hellinger"))',
    "BCI-presence": 'vegdist(BCI, "jaccard", binary = TRUE)',
    "varespec-wisconsin": "vegdist(wisconsin(sqrt(varespec)))",
    "varechem": "dist(scale(varechem))",
}
HELD_OUT = (
    *HELD_OUT_OF_VEGAN,
    "ekman14",
    "eurodist21",
    "kinship15",
    "trading20",
    "wish12",
    "protein213",
)
SEEDS = range(5)
SKLEARN_STARTS = 8
LARGE = 10_000
LARGE_PAIRS = 100
Floats = np.ndarray


def load(name: str) -> Floats:
    if name in HELD_OUT_OF_VEGAN:
        data = name.split("-")[0]
        table = f"as.matrix({HELD_OUT_OF_VEGAN[name]})"
        text = ordination.in_r(
            f"data({data});" + ordination.WRITE.format(table)
        )
        return ordination.from_csv(text)
    return ordination.load(name)


def measured(D: Floats, x: Floats, seconds: float) -> dict[str, float]:
    pairs = RankedPairs.of(D**2, None, "primary")
    (value,), _ = pairs.stress(x[None])
    upper = np.triu_indices(len(D), 1)
    rank = spearmanr(squareform(pdist(x))[upper], D[upper]).statistic
    return {
        "stress1": sqrt(value),
        "spearman": float(rank),
        "cpu_seconds": seconds,
    }


def meta_mds(D: Floats, k: int, tries: int) -> dict[str, float]:
    program = 'd <- as.dist(as.matrix(read.csv(file("stdin"), header = FALSE))); set.seed(0);'
    program += "t <- system.time(m <- suppressWarnings(metaMDS("
    program += f"d, k = {k}, try = {tries}, trymax = {tries}, trace = 0)));"
    program += r'cat(sprintf("%.17g,%.17g\n", t[1] + t[2], m$stress));'
    program += ordination.WRITE.format("m$points")
    text = ordination.in_r(program, ordination.as_csv(D))
    head, rest = text.split("\n", 1)
    seconds, printed = (float(part) for part in head.split(","))
    found = measured(D, ordination.from_csv(rest), seconds)
    return found | {"printed": printed}


def sklearn_mds(D: Floats, k: int) -> dict[str, float]:
    begin = time.process_time()
    x = MDS(
        k,
        metric="precomputed",
        metric_mds=False,
        n_init=SKLEARN_STARTS,
        init="random",
        random_state=0,
    ).fit_transform(D)
    return measured(D, x, time.process_time() - begin)


def ours(D: Floats, k: int, seed: int) -> dict[str, float]:
    begin = time.process_time()
    emb = neuc_mds(D, k, loss="ordinal", random_state=seed)
    seconds = time.process_time() - begin
    found = measured(D, emb.coordinates, seconds)
    found["n_starts"] = emb.info.n_starts
    found["times_found"] = emb.info.times_found
    return found


def again(row: dict[str, Any], D: Floats) -> dict[str, Any]:
    """Return a recorded row with our fits made anew."""
    return row | {"ours": [ours(D, row["k"], seed) for seed in SEEDS]}


def rows(name: str) -> list[dict[str, Any]]:
    D = load(name)
    group = "held out" if name in HELD_OUT else "scoreboard"
    made = []
    for k in ordination.KS:
        row: dict[str, Any] = {
            "set": name,
            "group": group,
            "n": len(D),
            "k": k,
        }
        row["ours"] = [ours(D, k, seed) for seed in SEEDS]
        row["metaMDS, 100 tries"] = meta_mds(D, k, 100)
        row["metaMDS, 20 tries"] = meta_mds(D, k, 20)
        row["scikit-learn"] = sklearn_mds(D, k)
        best = row["metaMDS, 100 tries"]["stress1"]
        above = [one["stress1"] - best for one in row["ours"]]
        print(
            name,
            k,
            f"{best:.6f}",
            [f"{gap:+.1e}" for gap in above],
            flush=True,
        )
        made.append(row)
    return made


def abundances(n: int) -> Floats:
    """Return counts of 60 species at n sites along three gradients."""
    rng = np.random.default_rng(0)
    sites = rng.uniform(size=(n, 3)) * [3.0, 1.5, 0.5]
    optima = rng.uniform(-0.5, 3.5, (60, 3))
    squares = ((sites[:, None] - optima) ** 2).sum(axis=2)
    noise = rng.lognormal(0, 0.6, (n, 60))
    counts = rng.poisson(50 * np.exp(-1.5 * squares) * noise).astype(float)
    # No site is empty.
    counts[:, 0] += 1
    return counts


def sampled(n: int) -> dict[str, Any]:
    """Fit a sample of the pairs of n sites; stress-1 is that of all pairs of 3,000 of them."""
    x = abundances(n)
    begin = time.process_time()
    emb = neuc_mds(
        x, 2, loss="ordinal", metric="braycurtis", n_pairs=LARGE_PAIRS
    )
    seconds = time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    drawn = np.random.default_rng(1).choice(n, min(n, 3000), replace=False)
    D = squareform(pdist(x[drawn], "braycurtis"))
    true = measured(D, emb.coordinates[drawn], seconds)
    row = {
        "n": n,
        "n_pairs": LARGE_PAIRS,
        "held_out_stress1": emb.stress1,
        "peak_mb": peak,
        **true,
    }
    print(row, flush=True)
    return row


def summary(found: list[dict[str, Any]]) -> None:
    for group in ("scoreboard", "held out"):
        cells = [row for row in found if row["group"] == group]
        if not cells:
            continue
        gaps = np.array(
            [
                [
                    one["stress1"] - row["metaMDS, 100 tries"]["stress1"]
                    for one in row["ours"]
                ]
                for row in cells
            ]
        )
        print(f"{group}: {len(cells)} cells, {len(SEEDS)} seeds")
        print(f"  largest excess over metaMDS, 100 tries: {gaps.max():+.2e}")
        print(
            f"  cells with excess > 1e-4, seed 0: {np.sum(gaps[:, 0] > 1e-4)}"
        )
        print(
            f"  fits with excess > 1e-4: {np.sum(gaps > 1e-4)} of {gaps.size}"
        )
        rank = [
            row["ours"][0]["spearman"] - row["metaMDS, 100 tries"]["spearman"]
            for row in cells
        ]
        print(
            f"  Spearman not below metaMDS's by .001: {np.sum(np.array(rank) > -1e-3)}"
        )
        for other in (
            "metaMDS, 100 tries",
            "metaMDS, 20 tries",
            "scikit-learn",
        ):
            ratios = [
                np.median([one["cpu_seconds"] for one in row["ours"]])
                / row[other]["cpu_seconds"]
                for row in cells
            ]
            print(
                f"  CPU time in units of {other}: median {np.median(ratios):.2f}, "
                f"{min(ratios):.2f} to {max(ratios):.2f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("word", nargs="?", default="")
    parser.add_argument(
        "--ours", action="store_true", help="others as they are recorded"
    )
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--record", type=Path, default=RECORD)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.large:
        large = {
            "versions": measure.versions("scipy"),
            "rows": [sampled(LARGE)],
        }
        measure.write_record(measure.RECORDS / "nmds_large.json", large)
        return
    versions = measure.versions("scikit-learn", "scipy")
    versions["vegan"], versions["R"] = ordination.in_r(
        'cat(as.character(packageVersion("vegan")), as.character(getRversion()))'
    ).split()
    found = []
    if given.record.exists():
        found = json.loads(given.record.read_text())["rows"]
    for name in (*ordination.OF_VEGAN, *ordination.STORED, *HELD_OUT):
        recorded = [row for row in found if row["set"] == name]
        if given.word not in name or (given.ours and not recorded):
            continue
        if given.ours:
            D = load(name)
            rest = [row for row in found if row["set"] != name]
            found = rest + [again(row, D) for row in recorded]
        else:
            found = [row for row in found if row["set"] != name] + rows(name)
        measure.write_record(
            given.record, {"versions": versions, "rows": found}
        )
    summary(found)


if __name__ == "__main__":
    main()
