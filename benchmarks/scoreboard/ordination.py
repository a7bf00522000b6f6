"""Ordination: distances, their order and neighbours in two and three coordinates.

    NEUCMDS_DATA=… python benchmarks/scoreboard/ordination.py [word] [--method NAME]

Dissimilarities of vegan's tables (dune, varespec, BCI, mite: Bray–Curtis by `vegdist`), a test
matrix of scikit-bio, and stored matrices of microbiomes. Beside the four losses stand programs in
wide use: vegan's metaMDS (non-metric, 20 random starts) in R, scikit-learn's MDS (SMACOF, metric
and non-metric, eight starts) and ClassicalMDS, and both methods of scikit-bio's pcoa. All get the
same matrix and the same k. Non-metric coordinates have no scale, and get that of least raw stress.

Raw stress is Σ(d̂ − d)² / Σd² over pairs; Spearman's rank correlation is of d̂ and d; neighbours kept
are the share of the five nearest by d̂ among the five nearest by d, ties counted.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist, squareform
from scipy.stats import spearmanr
from sklearn.manifold import MDS, ClassicalMDS

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import losses
import measure
import real_data
from neucmds import neuc_mds

with measure.needed("scikit-bio"):
    from skbio import DistanceMatrix
    from skbio.stats.ordination import pcoa

RECORD = measure.RECORDS / "ordination.json"
OF_VEGAN = ("dune", "varespec", "BCI", "mite")
STORED = (
    "frameSeries_dm",
    "GlobalPatterns26_braycurtis",
    "moving_pictures_unifrac",
    "soilrep56_braycurtis",
    "costello_forearm_unifrac",
    "enterotype280_braycurtis",
)
STARTS = {"metaMDS": 20, "MDS": 8}
KS, NEAREST, SEED = (2, 3), 5, 0
Floats = np.ndarray


def in_r(program: str, given: str = "") -> str:
    if shutil.which("Rscript") is None:
        raise SystemExit(
            "Rscript is not here: install R and its package vegan"
        )
    call = ["Rscript", "-e", "suppressMessages(library(vegan));" + program]
    return subprocess.run(
        call, input=given, check=True, capture_output=True, text=True
    ).stdout


def as_csv(D: Floats) -> str:
    text = io.StringIO()
    np.savetxt(text, D, delimiter=",", fmt="%.17g")
    return text.getvalue()


def from_csv(text: str) -> Floats:
    return np.loadtxt(io.StringIO(text), delimiter=",", ndmin=2)


WRITE = 'write.table(format({}, digits = 17), "", sep = ",", quote = FALSE, col.names = FALSE,'
WRITE += "row.names = FALSE)"


def load(name: str) -> Floats:
    if name in OF_VEGAN:
        D = from_csv(
            in_r(
                f"data({name});" + WRITE.format(f"as.matrix(vegdist({name}))")
            )
        )
    else:
        D = real_data.load_dissimilarity(name).dissimilarity
    return losses._hollow((D + D.T) / 2)


def signed(loss: str, D: Floats, k: int) -> Floats:
    return neuc_mds(D, k, loss=loss, random_state=SEED).dissimilarities()


def ordinal(D: Floats, k: int) -> Floats:
    emb = neuc_mds(D, k, loss="ordinal", random_state=SEED)
    return scaled(D, emb.coordinates)


def meta_mds(D: Floats, k: int) -> Floats:
    program = 'd <- as.dist(as.matrix(read.csv(file("stdin"), header = FALSE))); set.seed(0);'
    program += f"m <- metaMDS(d, k = {k}, try = {STARTS['metaMDS']}, "
    program += f"trymax = {STARTS['metaMDS']}, trace = 0);" + WRITE.format(
        "m$points"
    )
    return scaled(D, from_csv(in_r(program, as_csv(D))))


def scaled(D: Floats, x: Floats) -> Floats:
    """Return distances of coordinates on the scale of least raw stress."""
    d_hat = squareform(pdist(x))
    return d_hat * (np.sum(d_hat * D) / np.sum(d_hat**2))


def smacof(metric: bool, D: Floats, k: int) -> Floats:
    settings: dict[str, Any] = {
        "metric_mds": metric,
        "n_init": STARTS["MDS"],
        "init": "random",
    }
    x = MDS(
        k, metric="precomputed", random_state=SEED, **settings
    ).fit_transform(D)
    return squareform(pdist(x)) if metric else scaled(D, x)


def classical(D: Floats, k: int) -> Floats:
    return squareform(
        pdist(ClassicalMDS(k, metric="precomputed").fit_transform(D))
    )


def of_pcoa(method: str, D: Floats, k: int) -> Floats:
    found = pcoa(
        DistanceMatrix(D),
        method=method,
        dimensions=k,
        seed=SEED,
        warn_neg_eigval=False,
    )
    return squareform(pdist(np.asarray(found.samples)))


METHODS: dict[str, Callable[[Floats, int], Floats]] = {
    "neucmds, squared": partial(signed, "squared"),
    "neucmds, distance": partial(signed, "distance"),
    "neucmds, relative": partial(signed, "relative"),
    "neucmds, ordinal": ordinal,
    "metaMDS": meta_mds,
    "MDS": partial(smacof, True),
    "MDS, non-metric": partial(smacof, False),
    "ClassicalMDS": classical,
    "pcoa, eigh": partial(of_pcoa, "eigh"),
    "pcoa, fsvd": partial(of_pcoa, "fsvd"),
}


def rows(name: str, methods: list[str]) -> list[dict[str, Any]]:
    D = load(name)
    upper = np.triu_indices(len(D), 1)
    made = []
    for k in KS:
        for method in methods:
            begin = time.perf_counter()
            d_hat = METHODS[method](D, k)
            seconds = time.perf_counter() - begin
            row = {
                "set": name,
                "n": len(D),
                "k": k,
                "method": method,
                "seconds": seconds,
            }
            row["raw_stress"] = float(np.sum((d_hat - D) ** 2) / np.sum(D**2))
            row["spearman"] = float(
                spearmanr(d_hat[upper], D[upper]).statistic
            )
            row["kept"] = losses.nearest_kept(D, d_hat, NEAREST)
            print(row, flush=True)
            made.append(row)
    return made


def summary(found: list[dict[str, Any]]) -> None:
    """Print in how many cells each method has Spearman's correlation within .001 of the best."""
    cells: dict[tuple[str, int], dict[str, float]] = {}
    for row in found:
        cell = cells.setdefault((row["set"], row["k"]), {})
        cell[row["method"]] = row["spearman"]
    for method in METHODS:
        near = sum(
            cell.get(method, -1.0) >= max(cell.values()) - 1e-3
            for cell in cells.values()
        )
        print(f"{method:20} {near} of {len(cells)} cells")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("word", nargs="?", default="")
    parser.add_argument(
        "--method", choices=METHODS, help="others as they are recorded"
    )
    parser.add_argument("--record", type=Path, default=RECORD)
    given = parser.parse_args()
    methods = [given.method] if given.method else list(METHODS)
    warnings.simplefilter("ignore")
    versions = measure.versions("scikit-learn", "scikit-bio", "scipy")
    versions["vegan"], versions["R"] = in_r(
        'cat(as.character(packageVersion("vegan")), as.character(getRversion()))'
    ).split()
    found = (
        json.loads(given.record.read_text())["rows"]
        if given.record.exists()
        else []
    )
    for name in (*OF_VEGAN, *STORED):
        if given.word in name:
            kept = [
                row
                for row in found
                if row["set"] != name or row["method"] not in methods
            ]
            found = kept + rows(name, methods)
            measure.write_record(
                given.record, {"versions": versions, "rows": found}
            )
    summary(found)


if __name__ == "__main__":
    main()
