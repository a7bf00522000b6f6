"""What this library and its peers do with the same hostile inputs: an error, a warning, or numbers.

``python benchmarks/hostile_inputs.py`` writes benchmarks/records/hostile_inputs.json; R with vegan
is used where it is installed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

RECORD = Path(__file__).parent / "records" / "hostile_inputs.json"
N, K = 30, 10


def inputs() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 5))
    cities = np.abs(X[:, None] - X).sum(axis=2) ** 1.5  # far from Euclidean
    found = {"non-Euclidean": cities}
    found["missing entry"] = cities.copy()
    found["missing entry"][2, 7] = found["missing entry"][7, 2] = np.nan
    found["infinite entry"] = cities.copy()
    found["infinite entry"][2, 7] = found["infinite entry"][7, 2] = np.inf
    found["asymmetric"] = cities.copy()
    found["asymmetric"][2, 7] *= 3
    found["sentinel 99999"] = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    found["sentinel 99999"][2, 7] = found["sentinel 99999"][7, 2] = 99999.0
    found["all zero"] = np.zeros((N, N))
    found["values of 1e-170"] = cities * 1e-170
    found["values of 1e160"] = cities * 1e160
    return found


def stress(coordinates: np.ndarray, signs: np.ndarray, D: np.ndarray) -> float | None:
    """‖D̂ − D²‖² / ‖D²‖², as every system's coordinates are to be read."""
    gap = coordinates[:, None] - coordinates
    with np.errstate(all="ignore"):
        value = np.sum(((gap**2) @ signs - D**2) ** 2) / np.sum(D**4)
    return float(value) if np.isfinite(value) else None


def by_neucmds(D: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    from neucmds import neuc_mds

    found = neuc_mds(D, K, "neuc+")
    return found.coordinates, found.signs


def by_skbio(D: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    from skbio import DistanceMatrix
    from skbio.stats.ordination import pcoa

    x = pcoa(DistanceMatrix(D), number_of_dimensions=K).samples.to_numpy()
    return x, np.ones(x.shape[1])


def by_sklearn(D: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.manifold import MDS

    x = MDS(K, dissimilarity="precomputed", n_init=1, random_state=0).fit_transform(D)
    return x, np.ones(K)


def by_vegan(D: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    with tempfile.TemporaryDirectory() as folder:
        np.savetxt(f"{folder}/d.csv", D, delimiter=",")
        code = (
            "suppressPackageStartupMessages(library(vegan));"
            f"D <- as.matrix(read.csv('{folder}/d.csv', header=FALSE));"
            f"w <- wcmdscale(as.dist(D), k={K}, eig=TRUE);"
            f"write.table(w$points, '{folder}/x.csv', sep=',', row.names=F, col.names=F)"
        )
        done = subprocess.run(["Rscript", "-e", code], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(" ".join(done.stderr.split())[:120])
        if done.stderr.strip():
            warnings.warn(" ".join(done.stderr.split())[:120], stacklevel=1)
        x = np.genfromtxt(f"{folder}/x.csv", delimiter=",", ndmin=2)
    return x, np.ones(x.shape[1])


SYSTEMS: dict[str, Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]] = {
    "neucmds": by_neucmds,
    "scikit-bio pcoa": by_skbio,
    "scikit-learn MDS": by_sklearn,
    "R vegan wcmdscale": by_vegan,
}


def outcome(system: str, D: np.ndarray) -> dict[str, Any]:
    """Return what a system does: the error, or columns, NaN among them, warnings and STRESS."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            x, signs = SYSTEMS[system](D.copy())
        except Exception as error:
            return {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"}
    x = np.asarray(x, dtype=np.float64)
    # Of the data, not of parameters that will be renamed, nor of reading R's empty table.
    said = [w for w in said if w.category is not FutureWarning]
    said = [w for w in said if "genfromtxt" not in str(w.message)]
    heard = sorted(
        {f"{w.category.__name__}: {' '.join(str(w.message).split())[:120]}" for w in said}
    )
    if x.shape[0] != N:
        return {"columns": 0, "warnings": heard}
    return {
        "columns": int(x.shape[1]),
        "nan_columns": int(np.isnan(x).any(axis=0).sum()),
        "negative_columns": int((np.asarray(signs) < 0).sum()),
        "normalized_stress": stress(x, np.asarray(signs, dtype=np.float64), D),
        "warnings": heard,
    }


def main() -> None:
    systems = [name for name in SYSTEMS if "vegan" not in name or shutil.which("Rscript")]
    record = {
        "command": "python benchmarks/hostile_inputs.py",
        "objects": N,
        "coordinates": K,
        "outcomes": {
            name: {system: outcome(system, D) for system in systems} for name, D in inputs().items()
        },
    }
    RECORD.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    for name, by_system in record["outcomes"].items():
        print(name)
        for system, found in by_system.items():
            print(f"  {system:18} {found}")


if __name__ == "__main__":
    main()
