"""Quality of every method on every data set: the record behind docs/quality.md.

    NEUCMDS_DATA=… python benchmarks/quality.py            all data sets, about half an hour
    NEUCMDS_DATA=… python benchmarks/quality.py ball dune  those whose name contains a word
    python benchmarks/quality.py --render                  docs/quality.md from the record alone

Rows are added to benchmarks/records/quality.json as they are finished.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

import numpy as np
import scipy
import sklearn
from sklearn.manifold import smacof

import neucmds
import real_data
from neucmds import corrections, datasets, metrics
from neucmds._operator import DenseGram
from neucmds.api import ALL_METHODS, neuc_mds

RECORD = Path(__file__).parent / "records" / "quality.json"
PAGE = Path(__file__).parents[1] / "docs" / "quality.md"
SEED = 0
PEERS = ("smacof", "lingoes", "cailliez")


def synthetic() -> Iterator[tuple[str, Callable[[], np.ndarray], int]]:
    yield "random-simplex", lambda: datasets.random_simplex(1000, random_state=SEED), 100
    yield "euclidean-ball", lambda: datasets.euclidean_ball(1000, random_state=SEED), 100
    yield "euclidean-ball k=20", lambda: datasets.euclidean_ball(1000, random_state=SEED), 20


def images() -> Iterator[tuple[str, Callable[[], np.ndarray], int]]:
    def hops(name: str, neighbors: int) -> np.ndarray:
        pixels = real_data.load_images(name, n=1000).images
        return real_data.wrapped_hops(pixels, neighbors).astype(float) ** 2

    for name in ("mnist", "fashion_mnist", "cifar10"):
        for neighbors in (2, 10):
            yield f"{name} {neighbors}-NN", lambda a=name, b=neighbors: hops(a, b), 100


def genomics() -> Iterator[tuple[str, Callable[[], np.ndarray], int]]:
    def affinities(name: str) -> np.ndarray:
        return real_data.entropic_affinities(real_data.load_genomics(name).values, 30) ** 2

    for name in (
        "breast_colon_chowdary",
        "leukemia_chiaretti",
        "lung_gordon",
        "sarcoma_nakayama",
        "tox_171",
    ):
        yield name, lambda a=name: affinities(a), 20


def stored() -> Iterator[tuple[str, Callable[[], np.ndarray], int]]:
    def load(name: str) -> np.ndarray:
        D = real_data.load_dissimilarity(name).dissimilarity
        return ((D + D.T) / 2) ** 2

    for name in real_data.list_dissimilarities():
        n = load(name).shape[0]
        yield name, lambda a=name: load(a), max(2, n // 10)


def smacof_coordinates(D: np.ndarray, k: int) -> np.ndarray:
    return smacof(
        np.sqrt(D),
        n_components=k,
        init=None,
        n_init=4,
        max_iter=300,
        random_state=SEED,
        normalized_stress=False,
    )[0]


def measure(D: np.ndarray, k: int) -> dict[str, dict[str, float | int | None]]:
    """Every method on one D; seconds are of this run and this machine."""
    gram, results = DenseGram(D), {}
    for method in (*ALL_METHODS, *PEERS):
        started = time.perf_counter()
        extra: dict[str, int] = {}
        if method in ALL_METHODS:
            embedding = neuc_mds(DenseGram(D), k, method, squared=True, random_state=SEED)
            x, signs = embedding.coordinates, embedding.signs
            extra["products"] = len(embedding.history)
        elif method == "smacof":
            x, signs = smacof_coordinates(D, k), np.ones(k)
        else:
            corrected = getattr(corrections, method)(D, squared=True).sq_dissimilarity
            x = neuc_mds(DenseGram(corrected), k, "classical", squared=True).coordinates
            signs = np.ones(x.shape[1])
        seconds = time.perf_counter() - started
        quality = metrics.measure(gram, x, signs).as_dict()
        quality = {name: None if value != value else value for name, value in quality.items()}
        results[method] = quality | extra | {"columns": int(x.shape[1]), "seconds": seconds}
    return results


def environment() -> dict[str, str]:
    return {
        "neucmds": neucmds.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "threads": os.environ["OPENBLAS_NUM_THREADS"],
    }


def load_record() -> dict:
    return json.loads(RECORD.read_text()) if RECORD.exists() else {"rows": {}}


def run(words: list[str]) -> None:
    record = load_record()
    record["environment"], record["seed"] = environment(), SEED
    for family in (synthetic, stored, genomics, images):
        for name, make, k in family():
            if words and not any(word in name for word in words):
                continue
            D = make()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results = measure(D, k)
            row = {"family": family.__name__, "n": D.shape[0], "k": k, "methods": results}
            record["rows"][name] = row
            RECORD.write_text(json.dumps(record, indent=1) + "\n")
            print(name, {m: f"{r['stress']:.4g}" for m, r in results.items()}, flush=True)


def verdicts(record: dict) -> list[str]:
    """Say of each promise that every row keeps it, or name the rows that do not."""
    slack = 1 + 1e-9
    worse_exact, worse_refined, many = [], [], []
    for name, row in record["rows"].items():
        stress = {method: result["stress"] for method, result in row["methods"].items()}
        published = [stress[m] for m in ("classical", "lower", "neuc", "neuc+")]
        closed = [*published, stress["lingoes"], stress["cailliez"]]
        floor = 1e-12 * stress["classical"]
        if stress["exact"] > min(closed) * slack + floor:
            worse_exact.append(name)
        if stress["refined"] > min(stress.values()) * slack + floor:
            worse_refined.append(name)
        if row["methods"]["refined"]["products"] > 25:
            many.append(f"{name} ({row['methods']['refined']['products']})")
    return [
        f"`exact` ≤ every other closed form: {_rows(worse_exact)}.",
        f"`refined` ≤ everything, SMACOF included: {_rows(worse_refined)}.",
        f"`refined` needs at most 25 products with B: {_rows(many)}.",
    ]


def _rows(bad: list[str]) -> str:
    return "in every row" if not bad else "not in " + ", ".join(bad)


def render() -> None:
    record = load_record()
    methods = [*ALL_METHODS, *PEERS]
    lines = [
        "# Quality",
        "",
        "Made by `python benchmarks/quality.py` from `benchmarks/records/quality.json`; no number",
        "is typed in by hand. STRESS is ‖D̂ − D‖²_F on the squared scale. `smacof` is",
        "scikit-learn's, metric, best of 4 starts of at most 300 iterations, on √D; `lingoes` and",
        "`cailliez` are classical scaling after the correction, measured against the original D.",
        "Image rows are the paper's wrapped k-NN hop distances (errata E12); the genomics rows are",
        "stand-ins for the paper's CuMiDa sets (entropic affinities, perplexity 30). Seconds,",
        "additive errors, distortions and numbers of negative pairs are in the record.",
        "",
        *(f"- {verdict}" for verdict in verdicts(record)),
        "",
        ", ".join(f"{a} {b}" for a, b in record["environment"].items()) + ".",
    ]
    lines += ["", "| data | n | k | " + " | ".join(methods) + " |"]
    lines += ["|---|---|---|" + "---|" * len(methods)]
    for name, row in sorted(record["rows"].items(), key=lambda item: item[1]["family"]):
        values = [row["methods"][m]["stress"] for m in methods]
        cells = (f"**{v:.4g}**" if v == min(values) else f"{v:.4g}" for v in values)
        lines.append(f"| {name} | {row['n']} | {row['k']} | " + " | ".join(cells) + " |")
    PAGE.write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="only data sets whose name contains one of these")
    parser.add_argument("--render", action="store_true", help="only write docs/quality.md")
    arguments = parser.parse_args()
    if not arguments.render:
        run(arguments.words)
    render()


if __name__ == "__main__":
    main()
