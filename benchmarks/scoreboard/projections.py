"""Projections to the plane: four measures and their ranks, on sets of Espadoto et al.

    python benchmarks/scoreboard/projections.py --sets FOLDER [word]

FOLDER is docs/data of github.com/mespadoto/proj-quant-eval, the repository of Espadoto et al.,
"Toward a quantitative survey of dimension reduction techniques" (IEEE TVCG 27, 2021): 18 sets, of
which those of at most 4 MB are stored there. "orl" is left out: of its 400 rows, as stored, only 41
differ. Of a set, at most 500 random objects are projected. The survey's stress depends on the scale
of the projection, so its values are not shown: all projections are run here, with the defaults of
their programs, and measured alike.

"Force scheme" moves every object along its lines to the others until d̂ fits d (Tejada, Minghim and
Nonato, Information Visualization 2, 2003), from the coordinates of PCA; IDMAP of the survey is this
scheme from those of FastMap. There is no program of it in Python, so it is written here.

- stress: Σ(c·d̂ − d)² / Σd² with the scale c of least stress, √ of it as Kruskal's stress-1 has it.
- Shepard: Spearman's correlation of d̂ and d.
- trustworthiness and continuity of 7 neighbours, as in the survey (scikit-learn; the second is the
  first with the two spaces exchanged).

d̂ is the Euclidean distance on the plane, but for "neucmds, signed" the dissimilarity that its
coordinates stand for, in which one may count negatively.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist, squareform
from scipy.stats import rankdata, spearmanr
from sklearn.decomposition import PCA
from sklearn.manifold import MDS, TSNE, Isomap, trustworthiness

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import measure
from neucmds import neuc_mds

with measure.needed("umap-learn"):
    from umap import UMAP

RECORD = measure.RECORDS / "projections.json"
SETS = (
    "bank",
    "cnae9",
    "coil20",
    "epileptic",
    "har",
    "hatespeech",
    "secom",
    "seismic",
    "sentiment",
    "sms",
    "spambase",
    "svhn",
)
# The better direction of each measure.
MEASURES = {
    "stress": 1,
    "shepard": -1,
    "trustworthiness": -1,
    "continuity": -1,
}
MOST, NEIGHBOURS, SEED = 500, 7, 0
# Of the force scheme: sweeps at most, the share of the error that each must gain, the share of the
# way that a force moves an object, and the least length of a line.
SWEEPS, LEAST_GAIN, FRACTION, TINY = 200, 1e-4, 0.125, 1e-9
Floats = np.ndarray
Row = dict[str, Any]


def ours(loss: str, components: Any) -> Callable[[Floats, Floats], Floats]:
    """Return the fit of all d by a loss, as d̂."""

    def fit(_: Floats, d: Floats) -> Floats:
        fitted = neuc_mds(d, components, loss=loss, random_state=SEED)
        return fitted.dissimilarities()

    return fit


def planar(make: Callable[[], Any]) -> Callable[[Floats, Floats], Floats]:
    """Return the fit of features by an estimator, as distances on the plane."""

    def fit(x: Floats, _: Floats) -> Floats:
        return squareform(pdist(make().fit_transform(x)))

    return fit


def force_scheme(x: Floats, d: Floats) -> Floats:
    """Return distances on the plane after sweeps of forces from one object at a time."""
    plane = PCA(2, random_state=SEED).fit_transform(x)
    rng = np.random.default_rng(SEED)
    before = np.inf
    for _ in range(SWEEPS):
        for i in rng.permutation(len(plane)):
            lines = plane - plane[i]
            lengths = np.maximum(np.linalg.norm(lines, axis=1), TINY)
            lines *= ((d[i] - lengths) / lengths)[:, None]
            lines[i] = 0.0
            plane += FRACTION * lines
        error = np.sum((squareform(d) - pdist(plane)) ** 2)
        if error > (1 - LEAST_GAIN) * before:
            break
        before = error
    return squareform(pdist(plane))


METHODS: dict[str, Callable[[Floats, Floats], Floats]] = {
    "neucmds, distance": ours("distance", (2, 0)),
    "neucmds, signed": ours("distance", 2),
    "neucmds, ordinal": ours("ordinal", (2, 0)),
    "MDS": planar(lambda: MDS(2, init="random", n_init=4, random_state=SEED)),
    "force scheme": force_scheme,
    "PCA": planar(lambda: PCA(2, random_state=SEED)),
    "Isomap": planar(lambda: Isomap(n_components=2)),
    "t-SNE": planar(lambda: TSNE(2, random_state=SEED)),
    "UMAP": planar(lambda: UMAP(random_state=SEED)),
}


def load(folder: Path) -> Floats:
    x = np.load(folder / "X.npy").astype(float)
    if len(x) > MOST:
        chosen = np.random.default_rng(SEED).permutation(len(x))[:MOST]
        x = x[chosen]
    return x


def trusted(d: Floats, d_hat: Floats) -> float:
    """Return the trustworthiness of neighbours by d̂, judged by d."""
    order = np.argsort(d_hat, axis=1, kind="stable")
    n = len(d)
    own = np.arange(n)[:, None]
    order = order[order != own].reshape(n, n - 1)[:, :NEIGHBOURS]
    away = d.copy()
    np.fill_diagonal(away, -1.0)
    # 0 is the object itself, 1 its nearest neighbour.
    ranks = np.argsort(np.argsort(away, axis=1, kind="stable"), axis=1)
    excess = np.maximum(ranks[own, order] - NEIGHBOURS, 0).sum()
    worst = n * NEIGHBOURS * (2 * n - 3 * NEIGHBOURS - 1)
    return float(1 - 2 * excess / worst)


def measures(d: Floats, d_hat: Floats) -> Row:
    upper = np.triu_indices(len(d), 1)
    true = d[upper]
    fitted = d_hat[upper]
    scaled = fitted * (np.sum(fitted * true) / np.sum(fitted**2))
    stress = np.sqrt(np.sum((scaled - true) ** 2) / np.sum(true**2))
    return {
        "stress": float(stress),
        "shepard": float(spearmanr(true, fitted).statistic),
        "trustworthiness": trusted(d, d_hat),
        "continuity": trusted(d_hat, d),
    }


def check(d: Floats, x: Floats) -> None:
    """Compare the trustworthiness with scikit-learn's, on a plane of two features."""
    plane = x[:, :2] + np.arange(len(x))[:, None] * 1e-9
    own = trusted(d, squareform(pdist(plane)))
    theirs = trustworthiness(
        d, plane, n_neighbors=NEIGHBOURS, metric="precomputed"
    )
    if abs(own - theirs) > 1e-2:
        raise SystemExit(f"trustworthiness {own}, scikit-learn's {theirs}")


def rows(name: str, folder: Path) -> list[Row]:
    x = load(folder / name)
    d = squareform(pdist(x))
    check(d, x)
    made = []
    for method, fit in METHODS.items():
        begin = time.process_time()
        d_hat = fit(x, d)
        seconds = time.process_time() - begin
        row = {
            "set": name,
            "n": len(x),
            "features": x.shape[1],
            "method": method,
            "cpu_seconds": seconds,
        }
        made.append(row | measures(d, d_hat))
        print(made[-1], flush=True)
    return made


def ranks(rows: list[Row]) -> dict[str, dict[str, float]]:
    """Return the mean rank of every method by each measure, 1 the best."""
    made: dict[str, dict[str, list[float]]] = {
        method: {name: [] for name in MEASURES} for method in METHODS
    }
    for name in dict.fromkeys(row["set"] for row in rows):
        own = [row for row in rows if row["set"] == name]
        for key, sign in MEASURES.items():
            values = [sign * round(row[key], 4) for row in own]
            for row, rank in zip(own, rankdata(values), strict=True):
                made[row["method"]][key].append(float(rank))
    return {
        method: {key: float(np.mean(own)) for key, own in by_key.items()}
        for method, by_key in made.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("word", nargs="?", default="")
    parser.add_argument("--sets", type=Path, required=True)
    parser.add_argument("--record", type=Path, default=RECORD)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    kept: list[Row] = []
    if given.record.exists():
        kept = json.loads(given.record.read_text())["rows"]
    for name in SETS:
        if given.word not in name:
            continue
        kept = [row for row in kept if row["set"] != name]
        kept += rows(name, given.sets)
        record = {
            "machine": measure.machine(),
            "versions": measure.versions(
                "scikit-learn", "umap-learn", "numpy", "scipy"
            ),
            "ranks": ranks(kept),
            "rows": kept,
        }
        measure.write_record(given.record, record)


if __name__ == "__main__":
    main()
