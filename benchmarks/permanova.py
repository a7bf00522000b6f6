"""PERMANOVA and PERMDISP on D and on the √D̂ of few coordinates: why tests belong on D.

    NEUCMDS_DATA=… python benchmarks/permanova.py     prints it, writes records/permanova.json

Groups are those of the source: body sites (moving pictures), kinds of sample (Global Patterns),
protein families, vegan's Moisture (dune). Needs scikit-bio, and R with vegan: `adonis2` stands
beside scikit-bio's PERMANOVA, `betadisper` (centroid and spatial median) beside its PERMDISP with
ten axes, the default, and with all.
"""

from __future__ import annotations

import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from skbio.stats.distance import DistanceMatrix, permanova, permdisp

import measure
import real_data
from neucmds import neuc_mds

RECORD = measure.RECORDS / "permanova.json"
FIXTURES = Path(__file__).parents[1] / "tests" / "fixtures"
KS = (2, 6, 12)
# The kind of a sample of Global Patterns, by how its name begins or ends.
SAMPLE_TYPES = {
    "Fcsw": "feces", "TS": "feces", "Plmr": "skin", "Tong": "tongue", "AQC": "creek",
    "LMEpi": "lake", "SLEpi": "lake", "NP": "ocean", "TRR": "sediment", "Even": "mock",
}  # fmt: skip


def cases() -> dict[str, tuple[np.ndarray, list[str]]]:
    found = {}
    for name in ("moving_pictures_unifrac", "protein213"):
        stored = real_data.load_dissimilarity(name)
        found[name] = (
            _symmetric(stored.dissimilarity),
            [str(a) for a in stored.labels],
        )
    stored = real_data.load_dissimilarity("GlobalPatterns26_braycurtis")
    kinds = [
        next(
            (kind for part, kind in SAMPLE_TYPES.items() if part in str(name)),
            "soil",
        )
        for name in stored.names
    ]
    found["GlobalPatterns26_braycurtis"] = (
        _symmetric(stored.dissimilarity),
        kinds,
    )
    dune = pd.read_csv(
        FIXTURES / "dune_braycurtis.csv", index_col=0
    ).to_numpy()
    moisture = pd.read_csv(FIXTURES / "dune_env.csv", index_col=0)[
        "Moisture"
    ].astype(str)
    found["dune, Moisture"] = (_symmetric(dune), list(moisture))
    return found


def _symmetric(d: np.ndarray) -> np.ndarray:
    d = (d + d.T) / 2
    np.fill_diagonal(d, 0)
    return d


VEGAN = """
suppressMessages(library(vegan))
d <- as.dist(as.matrix(read.csv("d.csv", header = FALSE)))
groups <- factor(readLines("groups.txt"))
spread <- function(type) anova(betadisper(d, groups, type = type))[["F value"]][1]
f <- adonis2(d ~ groups, permutations = 0)[["F"]][1]
cat(as.character(packageVersion("vegan")), "\n")
cat(format(c(f, spread("centroid"), spread("median")), digits = 15), sep = "\n")
"""


def vegan(d: np.ndarray, groups: list[str]) -> dict[str, Any]:
    """Return the F of adonis2 and of betadisper about centroids and spatial medians."""
    with tempfile.TemporaryDirectory() as folder:
        np.savetxt(f"{folder}/d.csv", d, delimiter=",", fmt="%.17g")
        Path(f"{folder}/groups.txt").write_text("\n".join(groups) + "\n")
        call = ["Rscript", "-e", VEGAN]
        done = subprocess.run(
            call, cwd=folder, check=True, capture_output=True, text=True
        )
    version, f, centroid, median = done.stdout.split()
    return {
        "vegan": version,
        "vegan_pseudo_f": float(f),
        "betadisper_centroid_f": float(centroid),
        "betadisper_median_f": float(median),
    }


def statistics(d: np.ndarray, groups: list[str]) -> dict[str, Any]:
    matrix = DistanceMatrix(d)
    f = float(permanova(matrix, groups, permutations=0)["test statistic"])
    between, within = len(set(groups)) - 1, len(groups) - len(set(groups))

    def spread(axes: int) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = permdisp(matrix, groups, permutations=0, dimensions=axes)
        return float(found["test statistic"])

    return {
        "pseudo_f": f,
        "r2": f * between / (f * between + within),
        "permdisp_f_ten_axes": spread(10),
        "permdisp_f_all_axes": spread(len(d)),
    } | vegan(d, groups)


def main() -> None:
    rows: list[dict[str, Any]] = []
    for name, (d, groups) in cases().items():
        rows.append(
            {"data": name, "n": len(d), "groups": len(set(groups)), "on": "D"}
        )
        rows[-1] |= statistics(d, groups)
        for k, method in (*((k, "refined") for k in KS), (6, "classical")):
            emb = neuc_mds(d, k, method)
            d_hat = emb.dissimilarities()
            on = f"√D̂, k = {k}" + (
                ", classical" if method == "classical" else ""
            )
            row = {
                "data": name,
                "n": len(d),
                "groups": len(set(groups)),
                "on": on,
            }
            rows.append(
                row
                | statistics(_symmetric(d_hat), groups)
                | {"fit_r2": emb.r2}
            )
    for row in rows:
        print(
            {
                key: round(v, 3) if isinstance(v, float) else v
                for key, v in row.items()
            }
        )
    record = {
        "versions": measure.versions("numpy", "scikit-bio"),
        "rows": rows,
    }
    measure.write_record(RECORD, record)


if __name__ == "__main__":
    main()
