"""Many vectors in few coordinates: stress of bigmds, SQuaD-MDS, PCA and ours, without all pairs.

    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 NEUCMDS_DATA=… \
        python benchmarks/scoreboard/large_tables.py [--squad FOLDER]

10,000 patches of a photograph (scikit-learn) and 2,000 images of Fashion-MNIST, by Euclidean
distance. The value is the stress Σ(c·d̂ − d)² / Σd² of two million random pairs, with the scale c of
least stress, as SQuaD-MDS fits ratios of distances and its coordinates have no scale.

bigmds (Delicado and Pachón-García 2024, on CRAN) has six ways to divide classical MDS, which of
Euclidean distances is PCA. They get as many objects at a time as we get landmarks, 1,000 and 500,
and 5·k of them in common. SQuaD-MDS (Lambert et al. 2022) runs with the settings of its main.py,
from PCA, on the plane, its only space; FOLDER holds its optimisers.py. A program that is not here
is left out. Times are CPU seconds on one thread, from the vectors to the coordinates.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_sample_image
from sklearn.decomposition import PCA
from sklearn.feature_extraction.image import extract_patches_2d

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import losses
import measure
from neucmds import neuc_mds

RECORD = measure.RECORDS / "large_tables.json"
SEED, PATCHES, PAIRS = 0, 10_000, 2_000_000
LANDMARKS = {"patches": 1000, "fashion-mnist": 500}
CELLS = (("patches", 2), ("patches", 10), ("fashion-mnist", 2))
CELLS += (("fashion-mnist", 10),)
# The calls of bigmds, of vectors x, k coordinates and at most l objects at a time.
BIGMDS = {
    "landmark": "landmark_mds(x, l, k)",
    "pivot": "pivot_mds(x, l, k)",
    "reduced": "reduced_mds(x, l, k, 1)",
    "interpolation": "interpolation_mds(x, l, k, 1)",
    "divide and conquer": "divide_conquer_mds(x, l, 5 * k, k, 1)",
    "fast": "fast_mds(x, l, 5 * k, k, 1)",
}
IN_R = """
given <- commandArgs(TRUE)
n <- as.integer(given[2]); k <- as.integer(given[3]); l <- as.integer(given[4])
values <- readBin(given[1], "double", file.size(given[1]) / 8)
x <- matrix(values, nrow = n, byrow = TRUE)
suppressMessages(library(bigmds))
set.seed(0)
used <- system.time(found <- {call})
writeBin(as.vector(t(found$points)), given[5])
cat(sum(used[c("user.self", "sys.self")]))
"""
Run = Callable[[], tuple[np.ndarray, float]]
Row = dict[str, Any]


def features(name: str) -> np.ndarray:
    if name == "fashion-mnist":
        images = np.load(losses._file("images", "fashion_mnist.npz"))["x"]
        return images.reshape(len(images), -1).astype(float)
    patches = extract_patches_2d(
        load_sample_image("china.jpg"),
        (8, 8),
        max_patches=PATCHES,
        random_state=SEED,
    )
    return patches.reshape(PATCHES, -1).astype(float)


def timed(fit: Callable[[], np.ndarray]) -> tuple[np.ndarray, float]:
    begin = time.process_time()
    x = fit()
    return x, time.process_time() - begin


def by_bigmds(
    x: np.ndarray, k: int, landmarks: int, call: str
) -> tuple[np.ndarray, float]:
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "given", Path(folder) / "found"
        x.tofile(given)
        program = IN_R.replace("{call}", call)
        sizes = [str(one) for one in (len(x), k, landmarks)]
        done = subprocess.run(
            ["Rscript", "-e", program, str(given), *sizes, str(found)],
            check=True,
            capture_output=True,
            text=True,
        )
        points = np.fromfile(found).reshape(len(x), k)
        return points, float(done.stdout)


def by_squad(x: np.ndarray, folder: Path) -> Run:
    """Return a run of SQuaD-MDS, compiled before it is timed."""
    sys.path.insert(0, str(folder))
    with measure.needed("numba"):
        import optimisers
    settings = {
        "metric": "euclidean",
        "n iter": 1000,
        "LR": 550,
        "exaggerate D": True,
        "stop exaggeration": 0.6,
    }

    def run() -> np.ndarray:
        np.random.seed(SEED)  # noqa: NPY002 - SQuaD-MDS draws from it
        start = PCA(2, whiten=True, random_state=SEED).fit_transform(x)
        start *= 10 / np.std(start)
        optimisers.SQuaD_MDS(settings, x, start)
        return start

    optimisers.precompile()
    return lambda: timed(run)


def runs(
    x: np.ndarray, k: int, landmarks: int, squad: Path | None
) -> dict[str, Run]:
    fit = partial(neuc_mds, x, (k, 0), metric="euclidean", random_state=SEED)
    settings: dict[str, Row] = {
        "neucmds, distance, landmarks": {"loss": "distance"},
        "neucmds, squared, landmarks": {"loss": "squared"},
    }
    found: dict[str, Run] = {
        name: lambda given=given: timed(
            lambda: fit(landmarks=landmarks, **given).coordinates
        )
        for name, given in settings.items()
    }
    found["neucmds, distance, n_pairs=100"] = lambda: timed(
        lambda: fit(n_pairs=100, loss="distance").coordinates
    )
    found["PCA"] = lambda: timed(
        lambda: PCA(k, random_state=SEED).fit_transform(x)
    )
    if shutil.which("Rscript") and has_bigmds():
        for name, call in BIGMDS.items():
            found[f"bigmds, {name}"] = partial(
                by_bigmds, x, k, landmarks, call
            )
    if squad is not None and k == 2:
        found["SQuaD-MDS"] = by_squad(x, squad)
    return found


def has_bigmds() -> bool:
    test = 'quit(status = !requireNamespace("bigmds", quietly = TRUE))'
    return subprocess.run(["Rscript", "-e", test], check=False).returncode == 0


def version_in_r() -> str:
    asked = 'cat(as.character(packageVersion("bigmds")))'
    return subprocess.run(
        ["Rscript", "-e", asked], check=True, capture_output=True, text=True
    ).stdout


def stress_of(x: np.ndarray) -> Callable[[np.ndarray], float]:
    edges = np.random.default_rng(SEED).integers(0, len(x), (2, PAIRS))
    edges = edges[:, edges[0] != edges[1]]

    def apart(of: np.ndarray) -> np.ndarray:
        squares = np.zeros(edges.shape[1])
        for column in of.T:
            squares += (column[edges[0]] - column[edges[1]]) ** 2
        return np.sqrt(squares)

    d = apart(x)

    def stress(coordinates: np.ndarray) -> float:
        d_hat = apart(coordinates)
        scale = np.sum(d_hat * d) / np.sum(d_hat**2)
        return float(np.sum((scale * d_hat - d) ** 2) / np.sum(d**2))

    return stress


def measured(squad: Path | None) -> Iterator[Row]:
    for name, k in CELLS:
        x = features(name)
        stress = stress_of(x)
        for system, run in runs(x, k, LANDMARKS[name], squad).items():
            coordinates, seconds = run()
            yield {
                "set": name,
                "n": len(x),
                "k": k,
                "system": system,
                "cpu_seconds": seconds,
                "stress": stress(coordinates),
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--squad", type=Path, help="folder of SQuaD-MDS")
    parser.add_argument("--record", type=Path, default=RECORD)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for row in measured(given.squad):
        print(row, flush=True)
        rows.append(row)
    versions = measure.versions("numpy", "scipy", "scikit-learn", "numba")
    if any("bigmds" in row["system"] for row in rows):
        versions["bigmds"] = version_in_r()
    record = {"machine": measure.machine(), "versions": versions}
    measure.write_record(given.record, record | {"rows": rows})


if __name__ == "__main__":
    main()
