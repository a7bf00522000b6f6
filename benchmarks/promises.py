"""Promises of every fit, tried on random choices: `python -m benchmarks.promises --seconds 300`.

A draw is a kind of input with a kind of names, a loss, a curvature, weights or gaps, landmarks, and
5 to 60 objects. Checked are:

- names: they survive, and tables in another order are matched by them;
- scale: 2, 1e20 or 1e-20 times D have the same fit, so many times as large;
- order: objects in another order have the same fit;
- agreement: `distance`, `dissimilarities`, `neighbors`, `kneighbors` and `transform`, of the
  embedding and of the estimator, say the same;
- loss: the reported one is that of a plain sum over all pairs.

Each call goes on after the last seed of `benchmarks/records/promises.json` and adds to it. A seed
always gives the same draw, so that `--start SEED` repeats a finding.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist

import neucmds
from neucmds import Embedding, LandmarkNeucMDS, NeucMDS, neuc_mds

RECORD = Path(__file__).parent / "records" / "promises.json"
KINDS = ("array", "table", "file", "graph", "features", "function")
NAMES = ("row numbers", "text", "integer", "shuffled", "float", "date")
CLOSED = ("classical", "neuc", "neuc+", "exact")
# Losses that scale with this power of d.
POWERS = {"squared": 4, "distance": 2, "relative": 0, "absolute": 0}
# A descent of many steps amplifies the rounding of its data, so that two fits that are the same but
# for rounding end this far apart, as a share of the loss, or of the loss of D̂ = 0.
SAME_LOSS = 1e-3
ROUNDING = 1e-7


@dataclass(frozen=True)
class Draw:
    """Objects with names and dissimilarities, and how they are passed and fitted."""

    kind: str
    index: Any
    points: Any
    edges: Any
    D: Any
    weights: Any
    options: dict[str, Any]
    seed: int

    @property
    def n(self) -> int:
        """Number of objects."""
        return len(self.D)

    @property
    def labels(self) -> tuple[str, ...] | None:
        """Names that the embedding must have."""
        names = tuple(str(name) for name in self.index)
        if names == tuple(str(i) for i in range(self.n)):
            return None
        return names

    @property
    def norm(self) -> float:
        """The loss of D̂ = 0, roughly."""
        powers = self.D ** (POWERS[self.options["loss"]] / 2)
        return float(np.nansum(np.where(self.D > 0, powers, 0.0) ** 2))


def city_blocks(a: str, b: str) -> float:
    """Compare two objects that are texts."""
    left = np.array(a.split(), dtype=float)
    right = np.array(b.split(), dtype=float)
    return float(np.abs(left - right).sum())


def draw(seed: int) -> Draw:
    """Draw objects and a way to fit them."""
    rng = np.random.default_rng(seed)
    kind = str(rng.choice(KINDS))
    n = int(rng.integers(5, 61))
    k = int(rng.integers(1, min(4, n - 2)))
    points = rng.normal(size=(n, 3))
    edges = _edges(rng, n)
    D = cdist(points, points, "cityblock")
    if kind == "graph":
        D = _path_lengths(n, edges)
    elif kind in ("array", "table", "file"):
        noise = np.triu(rng.uniform(0.7, 1.3, (n, n)), 1)
        D *= noise + noise.T
    options: dict[str, Any] = {"n_components": k}
    options["loss"] = str(rng.choice(list(POWERS)))
    if options["loss"] == "squared":
        options["method"] = str(rng.choice([*CLOSED, "refined", "refined"]))
    elif rng.random() < 0.4:
        options["curvature"] = float(rng.choice([-2.0, -0.5, 0.3]))
    weights = None
    way = str(rng.choice(["plain", "weights", "gaps", "landmarks"]))
    refined = options.get("method", "refined") == "refined"
    is_matrix = kind in ("array", "table", "file")
    if way == "weights" and refined and is_matrix:
        weights = rng.uniform(0.2, 3.0, (n, n))
        weights += weights.T
    elif way == "gaps" and refined and is_matrix and n > 4 * k + 8:
        gaps = np.triu(rng.random((n, n)) < 0.1, 1)
        D[gaps | gaps.T] = np.nan
        options["missing"] = "ignore"
    elif way == "landmarks" and n >= 4 * k + 8:
        size = int(rng.integers(3 * k + 6, n + 1))
        options["landmarks"] = np.sort(rng.permutation(n)[:size]).tolist()
    index = _index(rng, n)
    if kind == "array":
        index = pd.RangeIndex(n)
    elif kind == "file":  # whose names are text
        index = pd.Index([str(name) for name in index])
    return Draw(kind, index, points, edges, D, weights, options, seed)


def _edges(rng: np.random.Generator, n: int) -> list[tuple[int, int, float]]:
    """Draw a tree and a few more edges."""
    tree = [(i, int(rng.integers(i))) for i in range(1, n)]
    ends = tree + [(i, (i + 2) % n) for i in range(0, n, 4)]
    return [(i, j, float(rng.uniform(0.5, 2.0))) for i, j in ends]


def _path_lengths(n: int, edges: list[tuple[int, int, float]]) -> Any:
    """Compute lengths of shortest paths by Floyd's algorithm."""
    D = np.full((n, n), np.inf)
    np.fill_diagonal(D, 0.0)
    for i, j, length in edges:
        D[i, j] = D[j, i] = length
    for middle in range(n):
        D = np.minimum(D, D[:, middle, None] + D[None, middle, :])
    return D


def _index(rng: np.random.Generator, n: int) -> Any:
    """Draw names of one kind."""
    order = rng.permutation(n)
    name = str(rng.choice(NAMES))
    if name == "text":
        return pd.Index([f"object {i}" for i in order])
    if name == "integer":
        return pd.Index(order + 17)
    if name == "shuffled":
        return pd.Index(order)
    if name == "float":
        return pd.Index(order / 8)
    if name == "date":
        return pd.date_range("2024-02-27", periods=n)[order]
    return pd.RangeIndex(n)


def data_of(case: Draw, order: Any, scale: float, folder: Path) -> Any:
    """Return what is passed to a fit: objects in an order, dissimilarities times a scale."""
    index = case.index[order]
    if case.kind == "graph":
        graph = networkx.Graph()
        graph.add_nodes_from(index)
        for i, j, length in case.edges:
            ends = (case.index[i], case.index[j])
            graph.add_edge(*ends, weight=scale * length)
        return graph
    if case.kind == "features":
        return pd.DataFrame(scale * case.points[order], index, list("xyz"))
    if case.kind == "function":
        texts = [
            " ".join(map(repr, row))
            for row in (scale * case.points[order]).tolist()
        ]
        return pd.Series(texts, index)
    D = scale * case.D[np.ix_(order, order)]
    if case.kind == "array":
        return D
    table = pd.DataFrame(D, index, index)
    if case.kind == "table":
        return table
    path = folder / "table.csv"
    table.to_csv(path)
    return path


def options_of(case: Draw, order: Any, **others: Any) -> dict[str, Any]:
    """Return the options of a fit of objects in an order."""
    options = case.options | {"max_iter": 40, "n_init": 1}
    if options["loss"] == "squared":
        del options["n_init"]
    if options.get("method", "refined") != "refined":
        del options["max_iter"]
    if case.kind == "graph":
        options["metric"] = "shortest_path"
    elif case.kind == "features":
        options["metric"] = "cityblock"
    elif case.kind == "function":
        options["metric"] = city_blocks
    if "landmarks" in options:
        place = np.argsort(order)
        options["landmarks"] = place[options["landmarks"]].tolist()
    if case.weights is not None:
        # In the order of the draw: they are matched by name, if there are names.
        options["weights"] = case.weights[np.ix_(order, order)]
        if case.labels is not None and case.kind == "table":
            options["weights"] = pd.DataFrame(
                case.weights, case.index, case.index
            )
    return options | others


def fit(
    case: Draw, order: Any, scale: float, folder: Path, **others: Any
) -> Embedding:
    """Fit objects in an order, and dissimilarities times a scale."""
    data = data_of(case, order, scale, folder)
    return neuc_mds(data, **options_of(case, order, **others))


def plain_loss(case: Draw, emb: Embedding) -> float:
    """Sum the loss over all pairs, among landmarks if there are some."""
    ids = np.arange(case.n)
    if emb.landmarks is not None:
        ids = emb.landmarks
    part = np.ix_(ids, ids)
    d = case.D[part]
    emb = emb.unnamed
    d_hat = emb.dissimilarities(ids, ids)
    sq_hat = emb.dissimilarities(ids, ids, squared=True)
    loss = case.options["loss"]
    if loss == "squared":
        q = sq_hat - d**2
    elif loss == "distance":
        q = d_hat - d
    else:
        q = (d_hat - d) / np.maximum(d, emb.floor)
        if loss == "absolute":
            q = np.sqrt(np.abs(q))
    np.fill_diagonal(q, 0.0)
    weights = np.ones_like(d)
    if case.weights is not None:
        weights = case.weights[part]
    return float(np.nansum(weights * q**2)) / 2


def findings(case: Draw, folder: Path) -> Iterator[str]:
    """Yield every promise that does not hold."""
    order = np.arange(case.n)
    emb = fit(case, order, 1.0, folder)
    yield from _wrong_names(case, emb)
    loss = plain_loss(case, emb)
    if abs(loss - emb.loss_value) > 1e-6 * loss + ROUNDING**2 * case.norm:
        yield f"loss: {emb.loss_value:.6g} is reported, and is {loss:.6g}"
    yield from _wrong_scales(case, emb, folder)
    yield from _wrong_orders(case, emb, folder)
    yield from _disagreements(case, emb, folder)


def _wrong_names(case: Draw, emb: Embedding) -> Iterator[str]:
    if emb.labels != case.labels:
        yield f"names: {emb.labels} instead of {case.labels}"
        return
    rng = np.random.default_rng(case.seed)
    order = rng.permutation(case.n)
    part = emb[case.index[order]]
    if not np.array_equal(part.coordinates, emb.coordinates[order]):
        yield "names: a part in another order has other coordinates"
    mask = pd.Series(order < case.n / 2, case.index[order])
    if not np.array_equal(
        emb[mask].coordinates,
        emb.coordinates[np.arange(case.n) < case.n / 2],
    ):
        yield "names: a mask in another order chooses other objects"
    columns = case.index
    rows = case.D[:3]
    if emb.landmarks is not None:
        columns = columns[emb.landmarks]
        rows = rows[:, emb.landmarks]
    if case.labels is None and emb.landmarks is not None:
        return
    table = pd.DataFrame(rows, columns=columns)
    shuffled = table.iloc[:, rng.permutation(len(columns))]
    expected = emb.transform(rows)
    if not np.allclose(
        emb.transform(shuffled), expected, atol=ROUNDING, rtol=0
    ):
        yield "names: columns in another order place objects elsewhere"


def _wrong_scales(case: Draw, emb: Embedding, folder: Path) -> Iterator[str]:
    order = np.arange(case.n)
    for scale in (2.0, 1e20, 1e-20):
        scaled = fit(case, order, scale, folder)
        power = POWERS[case.options["loss"]]
        loss = scaled.loss_value / scale**power
        if not _same_loss(case, loss, emb.loss_value):
            yield (
                f"scale: D times {scale:g} has a loss of {loss:.6g}, D one of "
                f"{emb.loss_value:.6g}"
            )
        d_hat = scaled.dissimilarities() / scale
        if scale == 2 and not _same(case, d_hat, emb.dissimilarities()):
            yield "scale: D times 2 has other distances than twice those of D"


def _wrong_orders(case: Draw, emb: Embedding, folder: Path) -> Iterator[str]:
    rng = np.random.default_rng(case.seed)
    order = rng.permutation(case.n)
    others: dict[str, Any] = {}
    start: dict[str, Any] = {}
    refined = case.options.get("method", "refined") == "refined"
    if refined and "landmarks" not in case.options:
        # Starts are drawn row by row: the same one is passed to both.
        start["init"] = (emb.coordinates, emb.signs)
        others["init"] = (emb.coordinates[order], emb.signs)
        emb = fit(case, np.arange(case.n), 1.0, folder, **start)
    ordered = fit(case, order, 1.0, folder, **others)
    if not _same_loss(case, ordered.loss_value, emb.loss_value):
        yield (
            f"order: another one has a loss of {ordered.loss_value:.6g}, not "
            f"{emb.loss_value:.6g}"
        )
    expected = emb.dissimilarities()[np.ix_(order, order)]
    if not refined and not _same(case, ordered.dissimilarities(), expected):
        yield "order: objects in another one have other distances"


def _disagreements(case: Draw, emb: Embedding, folder: Path) -> Iterator[str]:
    order = np.arange(case.n)
    d_hat = emb.dissimilarities()
    first = case.index[: case.n // 2]
    second = case.index[-len(first) :]
    paired = emb.distance(first, second)
    rows = emb.unnamed
    if not _same(
        case, paired, d_hat[order[: len(first)], order[-len(first) :]]
    ):
        yield "agreement: distance and dissimilarities differ"
    ids, near = emb.neighbors(3)
    if not _same(case, rows.distance(order[:, None], ids), near):
        yield "agreement: neighbors and distance differ"
    np.fill_diagonal(d_hat, np.inf)
    if not _same(case, near, np.maximum(np.sort(d_hat, axis=1)[:, :3], 0)):
        yield "agreement: neighbors are not the nearest"
    options = options_of(case, order)
    weights = options.pop("weights", None)
    data = data_of(case, order, 1.0, folder)
    kind = NeucMDS
    if "landmarks" in options:
        kind = LandmarkNeucMDS
        options.pop("max_iter", None)
        if case.kind == "file":
            data = pd.DataFrame(case.D, case.index, case.index)
    estimator = kind(**options)
    if weights is None:
        estimator.fit(data)
    else:
        estimator.fit(data, weights=weights)
    result = estimator.result_
    if result.labels != case.labels:
        yield f"agreement: the estimator has the names {result.labels}"
    closed = case.options.get("method") in CLOSED
    same_options = closed or "max_iter" in options
    d_hat = emb.dissimilarities()
    if same_options and not _same(case, result.dissimilarities(), d_hat):
        yield "agreement: neuc_mds and the estimator differ"
    distances, ids = estimator.kneighbors(n_neighbors=2)
    if not _same(
        case, result.unnamed.distance(order[:, None], ids), distances
    ):
        yield "agreement: kneighbors and distance differ"
    if case.kind == "graph":
        return
    new = pd.DataFrame(case.D[:3], columns=case.index)
    if case.kind in ("features", "function"):
        new = data.iloc[:3]
    elif case.kind == "array":
        new = data[:3]
    places = estimator.transform(new)
    given = case.D[:3]
    if result.landmarks is not None:
        given = given[:, result.landmarks]
    if not _same(case, result.transform(given), places):
        yield "agreement: transform of the estimator and its result differ"
    distances, ids = estimator.kneighbors(new, 2)
    between = result.between(places, result.coordinates)
    if not _same(case, np.take_along_axis(between, ids, axis=1), distances):
        yield "agreement: kneighbors and transform differ"
    stays = closed and result.landmarks is None
    if stays and not _same(case, places, result.coordinates[:3]):
        yield "agreement: transform moves fitted objects"


def _same(case: Draw, a: Any, b: Any) -> bool:
    """Tell whether lengths are the same but for rounding."""
    return bool(np.allclose(a, b, rtol=0, atol=1e-5 * np.nanmean(case.D)))


def _same_loss(case: Draw, a: float, b: float) -> bool:
    """Tell whether two losses are the same but for what rounding makes of a descent."""
    return abs(a - b) <= SAME_LOSS * max(a, b) + ROUNDING * case.norm


def trial(seed: int, folder: Path) -> list[str]:
    """Return the promises that one draw breaks."""
    case = draw(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            broken = list(findings(case, folder))
        except Exception as problem:
            broken = [f"{type(problem).__name__}: {problem}"]
    what = {
        key: value for key, value in case.options.items() if key != "landmarks"
    }
    label = f"seed {seed} {case.kind} of {case.n} {what}"
    return [f"{label}: {text}" for text in broken]


def main() -> None:
    """Try draws for some time, and add them to the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--draws", type=int, default=10**9)
    parser.add_argument("--start", type=int, help="first seed")
    parser.add_argument("--record", type=Path, default=RECORD)
    args = parser.parse_args()
    record: dict[str, Any] = {"next_seed": 0, "seconds": 0.0, "draws": 0}
    record["findings"] = []
    if args.record.exists():
        record = json.loads(args.record.read_text())
    start = record["next_seed"] if args.start is None else args.start
    seed = start
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        while (
            time.monotonic() - begun < args.seconds
            and seed < start + args.draws
        ):
            broken = trial(seed, Path(folder))
            for text in broken:
                print(text, flush=True)
            record["findings"] += broken
            seed += 1
    record["next_seed"] = max(seed, record["next_seed"])
    record["draws"] += seed - start
    seconds = record["seconds"] + time.monotonic() - begun
    record["seconds"] = round(seconds, 1)
    record |= {"neucmds": neucmds.__version__, "numpy": np.__version__}
    record |= {"date": str(date.today()), "python": platform.python_version()}
    args.record.write_text(json.dumps(record, indent=1) + "\n")
    print(f"seeds {start} to {seed - 1}; in all {record['draws']} draws")


if __name__ == "__main__":
    main()
