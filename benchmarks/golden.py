"""Answers of every public call on small real data, to compare two states of the library.

    python benchmarks/golden.py                    check against records/golden.json
    python benchmarks/golden.py --write            write the record
    python benchmarks/golden.py --only PATTERN     only rows whose name matches (regular expression)
    python benchmarks/golden.py --quick            only the quick rows, a few seconds

A row is a name, a kind and some figures that depend neither on the rotation nor on the order of
coordinates: STRESS, loss, R², the signature, and mean and quantiles of D̂ over pairs, on the squared
scale. The kind says how figures are compared with the record:

closed    All figures agree to 1e-10, or to the tolerance that the row states: 1e-6 above 600
          objects, where eigenpairs of the iterative solver have residuals of 1e-7; 1e-9 where new
          objects are placed, which divides by small eigenvalues. The tolerance is relative to the
          scale of a figure (`scale_of`): a STRESS is a sum with cancellation, and is compared with
          ‖D‖²; mean and quantiles of D̂, which has both signs, with the mean of |D̂|; a share such
          as R² with 1; all others with themselves.
refined   A descent of the squared loss. No figure called "loss…" may be higher by more than 1e-3 of
          itself; one that is lower by as much is noted. All other figures are informative, and
          noted where they are off by more than 2 %.
loss      The same for a descent of another loss.
same      Equal to the last digit: round trips, numbers of neighbours, shapes.

Figures are rounded to 12 significant digits. A row that raises is shown with its error, and the
others go on; a row of a package that is not installed is left out. Run it with
OPENBLAS_NUM_THREADS=1, as the record was written: with more threads BLAS adds in another order. The
fits by two levels of landmarks have two minima, .8 to 2 % apart, and the last digits of their start
decide which they reach. It takes about a minute and a half of one core.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.spatial.distance import pdist, squareform
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.preprocessing import scale

import neucmds
from neucmds import datasets, ecology, interop
from neucmds.estimators import KNeighborsGraph
from neucmds.explore import stress_test

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "benchmarks" / "records" / "golden.json"
FIXTURES = ROOT / "tests" / "fixtures"
SEED = 0
CLOSED_FORMS = ("classical", "lower", "neuc", "neuc+", "exact")
METHODS = (*CLOSED_FORMS, "refined")

# --- The calls whose names or scales are a matter of taste stand here, and nowhere else. ---------


def fit(data: Any, k: Any = 2, method: str = "refined", **options: Any) -> Any:
    return neucmds.neuc_mds(data, k, method, **options)


def estimator(kind: str, k: Any, **options: Any) -> Any:
    return getattr(neucmds, kind)(k, **options)


def diagnose(data: Any, **options: Any) -> dict[str, Any]:
    return neucmds.diagnose(data, **options).as_dict()


def stress_curve(data: Any, ks: Any, methods: Any, **options: Any) -> Any:
    return neucmds.stress_curve(data, ks, methods, **options)


def bootstrap(data: Any, k: Any, n_boot: int, **options: Any) -> Any:
    return neucmds.bootstrap(data, k, n_boot, **options)


def sq_dissimilarities(emb: Any, rows: Any = None, cols: Any = None) -> Any:
    return emb.dissimilarities(rows, cols, squared=True)


def sq_dissimilarities_of_estimator(est: Any) -> Any:
    return est.dissimilarities(squared=True)


def fitted_distances(emb: Any, rows: Any = None, cols: Any = None) -> Any:
    return emb.dissimilarities(rows, cols)


def sq_between(emb: Any, a: Any, b: Any) -> Any:
    return emb.between(a, b, squared=True)


def sq_neighbors(
    emb: Any, k: int, queries: Any = None, **options: Any
) -> tuple[Any, Any]:
    return emb.neighbors(k, queries, squared=True, **options)


def sq_from_scores(index: Any, scores: Any, coordinates: Any) -> Any:
    return index.sq_dissimilarities(scores, coordinates)


def solver_fact(emb: Any, name: str) -> Any:
    return getattr(emb.info, name)


def corrected(name: str, data: Any, **options: Any) -> tuple[Any, float]:
    """Squared dissimilarities and the constant of a correction."""
    found = getattr(ecology, name)(data, **options)
    return found.sq_dissimilarity, found.constant


# --- Data -----------------------------------------------------------------------------------------


class Data(NamedTuple):
    """Dissimilarities, and whether they are squared."""

    values: Any
    squared: bool = False

    @property
    def sq_values(self) -> Any:
        """Dissimilarities on the squared scale."""
        return self.values if self.squared else self.values**2


@cache
def digits(n: int) -> Any:
    return load_digits().data[:n].astype(np.float64)


@cache
def wine(n: int) -> Any:
    # Every second one: the classes come one after the other.
    return scale(load_wine().data)[::2][:n]


def pairs(features: Any, metric: str) -> Any:
    return squareform(pdist(features, metric))


def species(name: str) -> Any:
    return pd.read_csv(FIXTURES / f"{name}_species.csv", index_col=0).rename(
        index=str
    )


def metadata(name: str) -> Any:
    categories = {"dune": ("Moisture", "Manure"), "mite": ()}[name]
    return ecology.read_metadata(
        FIXTURES / f"{name}_env.csv", categories=categories
    )


@cache
def data(name: str) -> Data:
    """One of the sets, by its name and, for some, its number of objects."""
    kind, _, size = name.partition("-")
    n = int(size or 0)
    if kind in ("dune", "mite"):
        return Data(pairs(species(kind).to_numpy(float), "braycurtis"))
    if kind == "digits":
        return Data(pairs(digits(n), "cityblock"))
    if kind == "hops":
        # From dissimilarities: the search among features depends on threads where two are as near.
        return Data(
            datasets.hop_distances(
                data(f"digits-{n}").values, 5, precomputed=True, connect=True
            )
        )
    if kind == "wine":
        return Data(pairs(wine(n), "chebyshev"))
    if kind == "iris":
        return Data(
            pairs(np.unique(load_iris().data, axis=0)[:n], "cityblock")
        )
    if kind == "simplex":
        return Data(
            datasets.random_simplex(n, dim=200, random_state=SEED),
            squared=True,
        )
    if kind == "ball":
        return Data(
            datasets.euclidean_ball(n, dim=3, random_state=SEED), squared=True
        )
    raise KeyError(name)


@cache
def named(name: str) -> Any:
    """Return a set as a table with names."""
    values = data(name).values
    names = [f"object {i}" for i in range(len(values))]
    return pd.DataFrame(values, names, names)


@cache
def gappy(name: str, share: float) -> Any:
    """Return a set with a share of its pairs unknown."""
    values = data(name).values.copy()
    lost = np.triu(
        np.random.default_rng(SEED).uniform(size=values.shape) < share, 1
    )
    values[lost | lost.T] = np.nan
    return values


@cache
def listed(name: str, share: float) -> Any:
    """Known pairs of a set as a sparse array."""
    known = ~np.isnan(gappy(name, share))
    np.fill_diagonal(known, False)
    i, j = np.nonzero(known)
    values = data(name).values
    return sparse.coo_array((values[i, j], (i, j)), shape=values.shape)


@cache
def weights(name: str) -> Any:
    """Weights of the pairs of a set: some are zero."""
    n = len(data(name).values)
    drawn = np.triu(
        np.random.default_rng(SEED + 1)
        .integers(0, 4, size=(n, n))
        .astype(float),
        1,
    )
    return drawn + drawn.T


@cache
def graph(n: int) -> Any:
    """Neighbour graph of digits: edges where one hop is enough, with their lengths."""
    hops = data(f"hops-{n}").values
    lengths = data(f"digits-{n}").values
    return sparse.csr_array(np.where(hops == 1, lengths, 0.0))


def paths(n: int) -> Any:
    return sparse.csgraph.dijkstra(graph(n), directed=False)


def largest_gap(x: Any, y: Any) -> float:
    """Measure two rows by their largest difference."""
    return float(np.abs(x - y).max())


def lopsided(x: Any, y: Any) -> float:
    """Measure two rows in a way that depends on their order."""
    return float(np.abs(x - y).sum() + 0.1 * np.maximum(x - y, 0.0).sum())


def edits(a: str, b: str) -> int:
    """Count the edits between two words."""
    row = list(range(len(b) + 1))
    for i, one in enumerate(a, 1):
        last = row
        row = [i]
        for j, other in enumerate(b, 1):
            row.append(
                min(last[j] + 1, row[-1] + 1, last[j - 1] + (one != other))
            )
    return row[-1]


# --- Figures --------------------------------------------------------------------------------------

Figures = dict[str, Any]


def spread(d_hat: Any) -> Figures:
    """Mean and quantiles of D̂ over pairs, and its size."""
    d_hat = np.asarray(d_hat, dtype=np.float64).ravel()
    low, middle, high = np.quantile(d_hat, [0.1, 0.5, 0.9])
    return {
        "mean": d_hat.mean(),
        "size": np.abs(d_hat).mean(),
        "q10": low,
        "q50": middle,
        "q90": high,
    }


def over_pairs(matrix: Any) -> Any:
    matrix = np.asarray(matrix)
    return matrix[np.triu_indices(len(matrix), 1)]


def both_orders(emb: Any) -> float:
    """Return the loss over both orders of a pair, as it was recorded."""
    if emb.arrivals is not None:
        return float(emb.loss_value)
    return 2 * float(emb.loss_value)


def figures(emb: Any) -> Figures:
    """Return what identifies an embedding up to isometries."""
    positive, negative = emb.signature
    found = {
        "loss": both_orders(emb),
        "stress": emb.stress,
        "sq_norm": emb.info.sq_norm,
        "r2": emb.r2,
        "requested": emb.requested,
        "positive": positive,
        "negative": negative,
        **spread(over_pairs(sq_dissimilarities(emb))),
    }
    if emb.loss != "squared":
        found["floor"] = emb.floor
        found["curvature"] = emb.curvature
    return found


def error(d_hat: Any, sq_d: Any, loss: str) -> float:
    """Sum of a loss over pairs; both arguments on the squared scale."""
    known = np.isfinite(sq_d) & (sq_d > 0 if loss == "relative" else True)
    fitted = np.asarray(d_hat, dtype=np.float64)[known]
    given = np.asarray(sq_d, dtype=np.float64)[known]
    if loss == "distance":
        return float(
            np.sum((np.sqrt(np.maximum(fitted, 0.0)) - np.sqrt(given)) ** 2)
        )
    if loss == "relative":
        ratios = np.sqrt(np.maximum(fitted, 0.0) / given)
        return float(np.sum((ratios - 1) ** 2))
    return float(np.sum((fitted - given) ** 2))


def against(emb: Any, sq_d: Any) -> Figures:
    """Figures of an embedding by all pairs, where its own are of some of them only."""
    fitted = (
        fitted_distances(emb) ** 2
        if emb.curvature
        else sq_dissimilarities(emb)
    )
    positive, negative = emb.signature
    return {
        "loss": error(over_pairs(fitted), over_pairs(sq_d), emb.loss),
        "sq_norm": float(np.sum(sq_d**2)),
        "own loss": both_orders(emb),
        "own r2": emb.r2,
        "positive": positive,
        "negative": negative,
        **spread(over_pairs(sq_dissimilarities(emb))),
    }


def digest(array: Any) -> str:
    """Hash of whole numbers."""
    return hashlib.sha256(
        np.ascontiguousarray(array, dtype=np.int64)
    ).hexdigest()[:16]


def numbers(found: dict[str, Any], prefix: str = "") -> Figures:
    """All numbers of nested dictionaries and sequences, by their path."""
    flat: Figures = {}
    for name, value in found.items():
        path = f"{prefix}{name}"
        if isinstance(value, dict):
            flat |= numbers(value, f"{path}.")
        elif isinstance(value, (tuple, list)):
            flat |= numbers(
                {str(i): one for i, one in enumerate(value)}, f"{path}."
            )
        elif isinstance(value, (bool, int, float, np.number, np.bool_)):
            flat[path] = value
    return flat


# --- Rows -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A call and how its figures are compared."""

    name: str
    kind: str
    compute: Callable[[], Figures]
    quick: bool = False
    tolerance: float = 1e-10


def kind_of(method: str, loss: str = "squared") -> str:
    if method != "refined":
        return "closed"
    return "refined" if loss == "squared" else "loss"


def embedded(
    name: str, k: Any, method: str = "refined", **options: Any
) -> Figures:
    given = data(name)
    return figures(
        fit(given.values, k, method, squared=given.squared, **options)
    )


def methods() -> Iterator[Row]:
    """Every method on every set, by all ways to say how many coordinates."""
    for name in (
        "dune",
        "mite",
        "digits-150",
        "hops-150",
        "wine-89",
        "simplex-60",
        "ball-60",
    ):
        for k in (2, 7):
            for method in METHODS:
                compute = partial(embedded, name, k, method)
                quick = name in ("dune", "simplex-60")
                yield Row(
                    f"method/{name}/{k}/{method}",
                    kind_of(method),
                    compute,
                    quick,
                )
    for name in ("mite", "digits-150"):
        for pair in ((3, 2), (2, 0)):
            # The other two keep positive eigenvalues only, and refuse the pair.
            for method in (
                METHODS
                if pair == (2, 0)
                else ("neuc", "neuc+", "exact", "refined")
            ):
                compute = partial(embedded, name, pair, method)
                yield Row(
                    f"pair/{name}/{pair}/{method}", kind_of(method), compute
                )
    for goal in (0.9, "auto"):
        for method in METHODS:
            compute = partial(embedded, "mite", goal, method)
            yield Row(f"goal/mite/{goal}/{method}", kind_of(method), compute)
    yield Row(
        "goal/mite/0.97/neuc+",
        "closed",
        partial(embedded, "mite", 0.97, "neuc+"),
    )
    yield Row(
        "goal/dune/19/neuc+", "closed", partial(embedded, "dune", 19, "neuc+")
    )
    yield Row("goal/dune/19/refined", "refined", partial(embedded, "dune", 19))
    yield Row(
        "pair/mite/(0, 2)/exact",
        "closed",
        partial(embedded, "mite", (0, 2), "exact"),
    )
    yield Row(
        "pair/mite/(0, 2)/refined",
        "refined",
        partial(embedded, "mite", (0, 2)),
    )


LOSSES = {
    "distance": {"loss": "distance"},
    "relative": {"loss": "relative"},
}


def losses() -> Iterator[Row]:
    """Every loss, with a floor, with curvature, from one start and from several."""
    for label, options in LOSSES.items():
        for name in ("dune", "mite", "hops-100", "wine-60"):
            for k in (2, (2, 0), 4):
                compute = partial(embedded, name, k, n_init=4, **options)
                yield Row(
                    f"loss/{label}/{name}/{k}", "loss", compute, name == "dune"
                )
        yield Row(
            f"loss/{label}/dune/default starts",
            "loss",
            partial(embedded, "dune", 2, **options),
        )
        yield Row(
            f"loss/{label}/mite/12",
            "loss",
            partial(embedded, "mite", 12, **options),
        )
        yield Row(
            f"loss/{label}/ball-60/3",
            "loss",
            partial(embedded, "ball-60", 3, n_init=2, **options),
        )
        yield Row(
            f"loss/{label}/mite/0.9",
            "loss",
            partial(embedded, "mite", 0.9, n_init=1, **options),
        )
        yield Row(
            f"loss/{label}/dune/auto",
            "loss",
            partial(embedded, "dune", "auto", n_init=1, **options),
        )
        for curvature in (-1.0, 0.5):
            for name in ("mite", "hops-100"):
                compute = partial(
                    embedded, name, 3, curvature=curvature, n_init=1, **options
                )
                yield Row(
                    f"curvature/{curvature}/{label}/{name}",
                    "loss",
                    compute,
                    name == "mite",
                )
        for name in ("mite", "hops-100"):
            compute = partial(
                embedded, name, 3, curvature="auto", n_init=1, **options
            )
            yield Row(f"curvature/auto/{label}/{name}", "loss", compute)
    for name, floor in (("dune", 0.4), ("mite", 0.3), ("hops-100", 2.0)):
        compute = partial(
            embedded, name, 3, loss="relative", floor=floor, n_init=2
        )
        yield Row(f"floor/{floor}/{name}", "loss", compute, name == "dune")
    compute = partial(
        embedded,
        "mite",
        3,
        loss="relative",
        floor=0.3,
        curvature=-1.0,
        n_init=1,
    )
    yield Row("floor/0.3/mite/curved", "loss", compute)


def directed_figures(emb: Any) -> Figures:
    """Return what identifies a fit of both directions."""
    positive, negative = emb.signature
    sq = np.asarray(emb.dissimilarities(squared=True))
    there = sq
    if emb.arrival_labels is None:
        there = sq[~np.eye(len(sq), dtype=bool)]
    return {
        "loss": float(emb.loss_value),
        "positive": positive,
        "negative": negative,
        "heights": emb.heights is not None,
        **spread(there),
    }


def both_ways(name: str) -> Any:
    """Dissimilarities of a set that differ by direction: half of the pairs are a third longer."""
    values = data(name).values.copy()
    drawn = np.random.default_rng(SEED).random(values.shape)
    return values * np.where(drawn < 0.5, 1.3, 1.0)


def of_both_ways(
    name: str, k: Any, table: str = "square", **options: Any
) -> Figures:
    D = both_ways(name)
    if table == "rows to columns":
        third = len(D) // 3
        D = D[:third, third:]
    elif table == "gaps":
        hidden = np.random.default_rng(SEED + 1).random(D.shape) < 0.1
        D = np.where(hidden & (D > 0), np.nan, D)
        options["missing"] = "ignore"
    elif table == "weights":
        options["weights"] = weights(name)
    return directed_figures(fit(D, k, directed=True, n_init=1, **options))


def one_way_paths(**options: Any) -> Figures:
    """Paths along the edges of a graph, a third of which lead one way."""
    edges = graph(100).tocoo()
    one_way = (edges.row + 2 * edges.col) % 3 == 0
    kept = ~(one_way & (edges.row < edges.col))
    ends = (edges.row[kept], edges.col[kept])
    ways = sparse.csr_array((edges.data[kept], ends), shape=edges.shape)
    return directed_figures(
        fit(
            ways,
            4,
            metric="shortest_path",
            metric_params={"part": "largest"},
            loss="relative",
            directed=True,
            n_init=1,
            **options,
        )
    )


def directions() -> Iterator[Row]:
    """Departures and arrivals: every loss and kind of table, curvature, heights, paths."""
    for label, options in LOSSES.items():
        for name in ("dune", "mite"):
            for k in (2, (2, 1)):
                compute = partial(of_both_ways, name, k, **options)
                yield Row(
                    f"directed/{label}/{name}/{k}",
                    "loss",
                    compute,
                    name == "dune",
                )
        for table in ("rows to columns", "gaps", "weights"):
            compute = partial(of_both_ways, "mite", (2, 1), table, **options)
            yield Row(f"directed/{label}/{table}", "loss", compute)
        compute = partial(
            of_both_ways, "mite", (2, 1), curvature=-1.0, **options
        )
        yield Row(f"directed/{label}/curved", "loss", compute)
    yield Row("directed/paths", "loss", one_way_paths)


def of_heights(name: str, k: Any, **options: Any) -> Figures:
    emb = fit(
        data(name).values, k, squared=data(name).squared, n_init=1, **options
    )
    return figures(emb) | {"heights": emb.heights is not None}


def heights() -> Iterator[Row]:
    """Heights: asked for, chosen, with curvature, directed."""
    for loss in ("distance", "relative", "absolute"):
        for name in ("dune", "hops-100"):
            for asked in (True, "auto"):
                compute = partial(
                    of_heights, name, 4, loss=loss, heights=asked
                )
                yield Row(
                    f"heights/{asked}/{loss}/{name}",
                    "loss",
                    compute,
                    name == "dune" and asked is True,
                )
    options = {"loss": "relative", "heights": True}
    compute = partial(
        of_heights, "hops-100", (2, 1), curvature=-1.0, **options
    )
    yield Row("heights/True/relative/curved", "loss", compute)
    compute = partial(of_both_ways, "mite", (2, 1), **options)
    yield Row("heights/True/relative/directed", "loss", compute)


def of_ranks(name: str, k: Any, **options: Any) -> Figures:
    emb = fit(
        data(name).values,
        k,
        squared=data(name).squared,
        loss="ordinal",
        **options,
    )
    positive, negative = emb.signature
    return {
        "loss stress1": emb.stress1,
        "positive": positive,
        "negative": negative,
    }


def ordinal() -> Iterator[Row]:
    """Ranks of dissimilarities: both treatments of ties, and weights."""
    for name in ("dune", "mite"):
        for k in (2, 3):
            for ties in ("primary", "secondary"):
                compute = partial(of_ranks, name, k, ties=ties)
                yield Row(
                    f"ordinal/{name}/{k}/{ties}",
                    "loss",
                    compute,
                    name == "dune",
                )
    weights = 1 / (0.1 + data("mite").values)
    np.fill_diagonal(weights, 0)
    compute = partial(of_ranks, "mite", 2, weights=weights)
    yield Row("ordinal/mite/weights", "loss", compute)


def asymmetric(**options: Any) -> Figures:
    values = data("mite").values.copy()
    values[np.triu_indices(len(values), 1)] *= 1.1
    return figures(fit(values, 4, symmetrize=True, **options))


def from_file(suffix: str, **options: Any) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"D.{suffix}"
        if suffix == "npy":
            np.save(path, data("mite").values)
        else:
            named("mite").to_csv(path, sep="\t" if suffix == "tsv" else ",")
        emb = fit(path, 4, **options)
    return figures(emb) | {
        "names": 0 if emb.labels is None else len(set(emb.labels))
    }


def from_table(**options: Any) -> Figures:
    emb = fit(named("mite"), 4, **options)
    return figures(emb) | {
        "pair": sq_dissimilarities(emb, "object 3", "object 5")[0, 0]
    }


def from_dask(**options: Any) -> Figures:
    import dask
    import dask.array

    with dask.config.set(scheduler="synchronous"):
        return figures(
            fit(
                dask.array.from_array(data("digits-150").values, 50),
                4,
                **options,
            )
        )


def of_dask_features(**options: Any) -> Figures:
    import dask
    import dask.array

    with dask.config.set(scheduler="synchronous"):
        rows = dask.array.from_array(digits(150), (50, 64))
        return figures(fit(rows, 4, metric="cityblock", **options))


def of_pairs(share: float, **options: Any) -> Figures:
    emb = fit(listed("mite", share), 3, **options)
    return against(emb, data("mite").sq_values) | {"loss": both_orders(emb)}


def of_features(n: int, metric: Any, **options: Any) -> Figures:
    return figures(fit(digits(n), 4, metric=metric, **options))


def of_sampled_features(n: int, n_pairs: int, **options: Any) -> Figures:
    emb = fit(
        digits(n),
        3,
        metric="cityblock",
        n_pairs=n_pairs,
        random_state=SEED,
        **options,
    )
    return against(emb, data(f"digits-{n}").sq_values)


def of_graph(n: int, **options: Any) -> Figures:
    return figures(fit(graph(n), 4, metric="shortest_path", **options))


def of_sampled_graph(n: int, n_pairs: int, **options: Any) -> Figures:
    emb = fit(
        graph(n),
        3,
        metric="shortest_path",
        n_pairs=n_pairs,
        random_state=SEED,
        **options,
    )
    return against(emb, paths(n) ** 2)


def of_edges(**options: Any) -> Figures:
    edges = graph(100).tocoo()
    upper = edges.row < edges.col
    table = pd.DataFrame(
        {
            "from": [f"node {i}" for i in edges.row[upper]],
            "to": [f"node {i}" for i in edges.col[upper]],
            "length": edges.data[upper],
        }
    )
    return figures(fit(table, 4, metric="shortest_path", **options))


def of_directed_graph(direction: str, **options: Any) -> Figures:
    edges = graph(100).tocoo()
    longer = edges.data * np.where(edges.row < edges.col, 1.2, 1.0)
    directed = sparse.coo_array(
        (longer, (edges.row, edges.col)), shape=edges.shape
    ).tocsr()
    params = {"direction": direction}
    return figures(
        fit(
            directed,
            4,
            metric="shortest_path",
            metric_params=params,
            **options,
        )
    )


def of_words(**options: Any) -> Figures:
    return figures(
        fit(list(species("dune").columns), 4, metric=edits, **options)
    )


def inputs() -> Iterator[Row]:
    """Every kind of input, by a closed form and by a descent."""
    for method in ("neuc+", "refined"):
        kind = kind_of(method)
        calls = {
            "float32": lambda **o: figures(
                fit(data("mite").values.astype(np.float32), 4, **o)
            ),
            "nested list": lambda **o: figures(
                fit(data("dune").values.tolist(), 4, **o)
            ),
            "condensed": lambda **o: figures(
                fit(squareform(data("mite").values), 4, **o)
            ),
            "squared": lambda **o: figures(
                fit(data("mite").sq_values, 4, squared=True, **o)
            ),
            "symmetrize": asymmetric,
            "table": from_table,
            "csv": partial(from_file, "csv"),
            "tsv": partial(from_file, "tsv"),
            "npy": partial(from_file, "npy"),
            "dask": from_dask,
            "function": partial(of_features, 40, largest_gap),
            "function, symmetrize": partial(
                of_features, 30, lopsided, symmetrize=True
            ),
            "words": of_words,
            "graph": partial(of_graph, 150),
            "edges": of_edges,
        }
        for metric in (
            "cityblock",
            "chebyshev",
            "cosine",
            "angular",
            "euclidean",
            "rbf",
        ):
            calls[f"features, {metric}"] = partial(of_features, 120, metric)
        params = {"metric_params": {"p": 1.5}}
        calls["features, minkowski"] = partial(
            of_features, 60, "minkowski", **params
        )
        for direction in ("mean", "min", "max"):
            calls[f"graph, {direction}"] = partial(
                of_directed_graph, direction
            )
        quick = (
            "float32",
            "squared",
            "symmetrize",
            "table",
            "csv",
            "npy",
            "words",
        )
        # float32 rounds at 6e-8, and dask adds up in the order of its chunks.
        loose = {"float32": 1e-5, "dask": 1e-6}
        for name, call in calls.items():
            compute = partial(call, method=method)
            tolerance = loose.get(name, 1e-10)
            yield Row(
                f"input/{name}/{method}",
                kind,
                compute,
                name in quick,
                tolerance,
            )
    for loss in ("squared", "distance", "relative"):
        kind = kind_of("refined", loss)
        for share in (0.3, 0.6):
            compute = partial(of_pairs, share, loss=loss)
            yield Row(
                f"input/listed pairs, {share} unknown/{loss}",
                kind,
                compute,
                share == 0.3,
            )
        compute = partial(of_sampled_features, 300, 60, loss=loss)
        yield Row(f"input/features, n_pairs/{loss}", kind, compute)
        compute = partial(of_sampled_graph, 300, 60, loss=loss)
        yield Row(f"input/graph, n_pairs/{loss}", kind, compute)
    relative = {"loss": "relative", "n_init": 1}
    yield Row("input/float32/relative", "loss", lambda: float32_loss(), True)
    yield Row("input/table/relative", "loss", partial(from_table, **relative))
    yield Row(
        "input/features, cityblock/relative",
        "loss",
        partial(of_features, 120, "cityblock", **relative),
    )
    yield Row("input/words/relative", "loss", partial(of_words, **relative))
    yield Row(
        "input/graph/relative", "loss", partial(of_graph, 150, **relative)
    )
    compute = partial(
        of_sampled_graph, 300, 60, loss="relative", curvature=-1.0
    )
    yield Row("input/graph, n_pairs/relative, curved", "loss", compute)
    compute = partial(of_sampled_function, 60)
    yield Row("input/function, n_pairs/refined", "refined", compute)
    yield Row(
        "input/dask features/neuc+",
        "closed",
        partial(of_dask_features, method="neuc+"),
        tolerance=1e-6,
    )
    yield Row(
        "input/dask features, n_pairs/refined",
        "refined",
        partial(of_dask_features, n_pairs=60, random_state=SEED),
    )


def float32_loss() -> Figures:
    return figures(
        fit(
            data("mite").values.astype(np.float32),
            3,
            loss="relative",
            n_init=1,
        )
    )


def of_sampled_function(n: int) -> Figures:
    emb = fit(digits(n), 2, metric=largest_gap, n_pairs=40, random_state=SEED)
    return against(emb, pairs(digits(n), "chebyshev") ** 2)


def with_gaps(name: str, share: float, **options: Any) -> Figures:
    return figures(fit(gappy(name, share), 3, missing="ignore", **options))


def weighted(name: str, **options: Any) -> Figures:
    return figures(fit(data(name).values, 3, weights=weights(name), **options))


def with_named_weights() -> Figures:
    table = named("mite")
    order = np.random.default_rng(SEED).permutation(len(table))
    given = pd.DataFrame(weights("mite"), table.index, table.columns).iloc[
        order, order
    ]
    return figures(fit(table, 3, weights=given))


def continued(start: str, **options: Any) -> Figures:
    values = data("mite").values
    first = fit(values, 4, "exact")
    init = first if start == "embedding" else (first.coordinates, first.signs)
    return figures(fit(values, None, init=init, **options))


def of_few_iterations(**options: Any) -> Figures:
    emb = fit(data("mite").values, 4, max_iter=3, **options)
    return figures(emb) | {"iterations": len(solver_fact(emb, "history"))}


def fits() -> Iterator[Row]:
    """Gaps, weights, starts and limits of descents."""
    for loss in ("squared", "distance", "relative"):
        kind = kind_of("refined", loss)
        options = (
            {"loss": loss}
            if loss == "squared"
            else {"loss": loss, "n_init": 1}
        )
        for share in (0.1, 0.4):
            compute = partial(with_gaps, "mite", share, **options)
            yield Row(f"gaps/mite/{share}/{loss}", kind, compute, share == 0.1)
        yield Row(
            f"gaps/digits-100/0.2/{loss}",
            kind,
            partial(with_gaps, "digits-100", 0.2, **options),
        )
        for name in ("dune", "mite"):
            yield Row(
                f"weights/{name}/{loss}",
                kind,
                partial(weighted, name, **options),
                name == "dune",
            )
        for start in ("embedding", "coordinates"):
            yield Row(
                f"init/{start}/{loss}",
                kind,
                partial(continued, start, loss=loss),
                start == "embedding",
            )
        compute = partial(of_few_iterations, **options)
        yield Row(f"max_iter/{loss}", kind, compute)
        compute = partial(embedded, "mite", 4, tol=1e-8, **options)
        yield Row(f"tol/{loss}", kind, compute)
    for loss in ("distance", "relative"):
        for n_init in (1, 3, 8):
            compute = partial(
                embedded,
                "mite",
                2,
                loss=loss,
                n_init=n_init,
                random_state=SEED,
            )
            yield Row(f"starts/{n_init}/{loss}", "loss", compute)
    yield Row("weights/mite/by name", "refined", with_named_weights)


N_FITTED = {"mite": 55, "digits-150": 120, "simplex-60": 45, "hops-100": 80}


def fitted_part(name: str, **options: Any) -> tuple[Any, Any, Any]:
    """Embedding of the first objects, dissimilarities of the others to them, and their squares."""
    given = data(name)
    n = N_FITTED[name]
    emb = fit(given.values[:n, :n], squared=given.squared, **options)
    return emb, given.values[n:, :n], given.sq_values[n:, :n]


def placed(
    name: str,
    method: str = "refined",
    k: Any = 4,
    gaps: bool = False,
    **options: Any,
) -> Figures:
    if gaps:
        options["missing"] = "ignore"
    if method == "refined":
        # Close to a minimum, so that a fit which ends a step earlier places alike.
        options.setdefault("tol", 1e-8)
    place_weights = options.pop("place_weights", None)
    emb, new, sq_d = fitted_part(name, k=k, method=method, **options)
    if gaps:
        new = np.where(
            np.random.default_rng(SEED).uniform(size=new.shape) < 0.2,
            np.nan,
            new,
        )
    given = {}
    if place_weights is not None:
        given["weights"] = np.random.default_rng(SEED).uniform(
            0.1, 2.0, size=new.shape
        )
    x = emb.transform(new, **given)
    d_hat = sq_between(emb, x, emb.coordinates)
    more = emb.append(x)
    fitted = d_hat
    if emb.curvature:
        fitted = (
            fitted_distances(more, slice(emb.n, None), slice(0, emb.n)) ** 2
        )
    known = np.where(np.isnan(new), np.nan, sq_d)
    return {
        "loss": error(fitted, known, emb.loss),
        "sq_norm": float(np.sum(sq_d**2)),
        "n": more.n,
        **spread(d_hat),
        "among new": spread(
            over_pairs(
                sq_dissimilarities(
                    more, slice(emb.n, None), slice(emb.n, None)
                )
            )
        )["mean"],
    }


def placements() -> Iterator[Row]:
    """Place new objects among fitted ones, by every method and every loss."""
    for name in ("mite", "digits-150", "simplex-60"):
        for method in METHODS:
            # Triangulation divides by small eigenvalues.
            compute = partial(placed, name, method)
            quick = name == "simplex-60"
            yield Row(
                f"place/{name}/{method}",
                kind_of(method),
                compute,
                quick,
                tolerance=1e-9,
            )
    for name in ("mite", "hops-100"):
        for loss in ("distance", "relative"):
            options = {"loss": loss, "n_init": 1}
            yield Row(
                f"place/{name}/{loss}",
                "loss",
                partial(placed, name, **options),
                name == "mite",
            )
            for curvature in (-1.0, 0.5):
                compute = partial(placed, name, curvature=curvature, **options)
                yield Row(
                    f"place/{name}/{loss}/curvature {curvature}",
                    "loss",
                    compute,
                )
    compute = partial(placed, "mite", loss="relative", floor=0.3, n_init=1)
    yield Row("place/mite/relative/floor", "loss", compute)
    for loss in ("squared", "distance", "relative"):
        kind = kind_of("refined", loss)
        options = (
            {"loss": loss}
            if loss == "squared"
            else {"loss": loss, "n_init": 1}
        )
        yield Row(
            f"place/mite/gaps/{loss}",
            kind,
            partial(placed, "mite", gaps=True, **options),
        )
        compute = partial(placed, "mite", place_weights=True, **options)
        yield Row(f"place/mite/weights/{loss}", kind, compute)


def nearest_numbers(name: str, method: str, k: int) -> Figures:
    emb = fit(data(name).values, k, method)
    indices, sq = sq_neighbors(emb, 5)
    order = sq_dissimilarities(emb)
    np.fill_diagonal(order, np.inf)
    return {
        "indices": digest(indices),
        "as sorted": bool(
            np.allclose(
                np.sort(order, axis=1)[:, :5], sq, rtol=1e-9, atol=1e-9
            )
        ),
    }


def nearest_sorted(loss: str) -> Figures:
    """Whether neighbours are those of sorted D̂; which they are depends on the descent."""
    emb = fit(data("mite").values, 4, loss=loss)
    indices, sq = sq_neighbors(emb, 5)
    order = sq_dissimilarities(emb)
    np.fill_diagonal(order, np.inf)
    return {
        "shape": list(indices.shape),
        "sorted": bool(
            np.allclose(
                np.sort(order, axis=1)[:, :5], sq, rtol=1e-9, atol=1e-9
            )
        ),
        "own": bool(
            np.allclose(
                np.take_along_axis(order, indices, axis=1), sq, atol=1e-9
            )
        ),
    }


def nearest_of_new(among: bool) -> Figures:
    emb, new, _ = fitted_part("mite", k=4, method="classical")
    options = {"among": slice(0, 30)} if among else {}
    indices, sq = sq_neighbors(emb, 4, emb.transform(new), **options)
    return {"indices": digest(indices), "sq": round(float(sq.sum()), 8)}


def kneighbors(new: bool) -> Figures:
    given = data("mite").values
    n = N_FITTED["mite"]
    est = estimator("NeucMDS", 4, method="classical").fit(given[:n, :n])
    distances, indices = est.kneighbors(
        given[n:, :n] if new else None, n_neighbors=4
    )
    return {
        "indices": digest(indices),
        "distances": round(float(distances.sum()), 8),
    }


def kneighbors_graph(mode: str, symmetric: bool) -> Figures:
    est = estimator("NeucMDS", 4, method="classical").fit(data("mite").values)
    found = est.kneighbors_graph(None, 4, mode, symmetric=symmetric)
    return {"stored": found.nnz, "sum": found.sum()}


def graph_step() -> Figures:
    step = KNeighborsGraph(
        estimator("NeucMDS", 4, method="classical", metric="cityblock"), 4
    )
    fitted = step.fit_transform(digits(100))
    new = step.transform(digits(150)[100:])
    return {
        "stored": fitted.nnz,
        "sum": fitted.sum(),
        "new stored": new.nnz,
        "new sum": new.sum(),
    }


def round_trip(**options: Any) -> Figures:
    """Whether a saved embedding is the same in all that can be asked of it."""
    emb = fit(named("mite"), 3, **options)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mite.npz"
        emb.save(path)
        held = neucmds.Embedding.load(path)
    new = data("mite").values[:5]
    return {
        "coordinates": bool(np.array_equal(emb.coordinates, held.coordinates)),
        "signs": bool(np.array_equal(emb.signs, held.signs)),
        "labels": emb.labels == held.labels,
        "stress": emb.stress == held.stress,
        "loss": emb.loss_value == held.loss_value,
        "r2": emb.r2 == held.r2,
        "curvature": emb.curvature == held.curvature,
        "eigenvalues": bool(
            np.array_equal(emb.info.eigenvalues, held.info.eigenvalues)
        ),
        "transform": bool(
            np.array_equal(emb.transform(new), held.transform(new))
        ),
    }


def inner_product(unit: bool) -> Figures:
    emb = fit(data("mite").values, 5, "neuc+")
    index = emb.to_inner_product(unit=unit)
    scores = index.queries(emb.coordinates) @ index.vectors.T
    lengths = np.linalg.norm(index.vectors, axis=1)
    found = spread(over_pairs(sq_from_scores(index, scores, emb.coordinates)))
    return {
        **found,
        "columns": index.vectors.shape[1],
        "longest": lengths.max(),
    }


def distances_of_pairs(**options: Any) -> Figures:
    emb = fit(named("mite"), 4, **options)
    i = np.arange(30)
    j = np.arange(30, 60)
    return {
        "loss": both_orders(emb),
        "sq_norm": emb.info.sq_norm,
        "by number": emb.distance(0, 1),
        "by name": emb.distance("object 0", "object 1"),
        "squared": emb.distance(0, 1, squared=True),
        "sum": float(np.sum(emb.distance(i, j))),
        "sum of squared": float(np.sum(emb.distance(i, j, squared=True))),
        "matrix": float(np.sum(fitted_distances(emb))),
        "part": float(
            np.sum(
                fitted_distances(emb, ["object 2", "object 7"], slice(0, 9))
            )
        ),
    }


def explained(method: str) -> Figures:
    emb = fit(data("mite").values, 4, method)
    found = {f"explained {a}": value for a, value in enumerate(emb.explained)}
    for convention, shares in emb.shares.items():
        found |= {f"{convention} {a}": value for a, value in enumerate(shares)}
    found |= {f"weight {a}": value for a, value in enumerate(emb.weights)}
    found |= {f"term {a}": value for a, value in enumerate(emb.stress_terms)}
    return found | {"trace": emb.info.trace, "sq_norm": emb.info.sq_norm}


def parts() -> Figures:
    emb = fit(named("mite"), 4, "classical")
    part = emb[["object 1", "object 4", "object 9"]]
    table = interop.to_frame(emb)
    complex_x = emb.complex_coordinates
    dots = np.sum((complex_x[0] - complex_x[1]) ** 2).real
    return {
        "part": sq_dissimilarities(part).sum(),
        "columns": list(table.columns),
        "rows": digest(
            np.array([int(name.split()[1]) for name in table.index])
        ),
        "complex": bool(np.isclose(dots, emb.distance(0, 1, squared=True))),
        "axes": list(emb.axis_names),
    }


def embeddings() -> Iterator[Row]:
    """Ask an embedding all that it can tell."""
    for method in CLOSED_FORMS:
        yield Row(
            f"neighbors/mite/{method}",
            "same",
            partial(nearest_numbers, "mite", method, 4),
            True,
        )
    yield Row(
        "neighbors/digits-150/neuc+",
        "same",
        partial(nearest_numbers, "digits-150", "neuc+", 8),
    )
    for loss in ("squared", "relative"):
        yield Row(
            f"neighbors/mite/refined/{loss}",
            "same",
            partial(nearest_sorted, loss),
        )
    for among in (False, True):
        label = "among some" if among else "all"
        yield Row(
            f"neighbors/new/{label}",
            "same",
            partial(nearest_of_new, among),
            True,
        )
    yield Row("kneighbors/fitted", "same", partial(kneighbors, False), True)
    yield Row("kneighbors/new", "same", partial(kneighbors, True), True)
    for mode in ("connectivity", "distance"):
        for symmetric in (False, True):
            compute = partial(kneighbors_graph, mode, symmetric)
            label = "symmetric" if symmetric else "directed"
            yield Row(f"kneighbors graph/{mode}/{label}", "closed", compute)
    yield Row("kneighbors graph/step", "closed", graph_step)
    for method in METHODS:
        yield Row(
            f"round trip/{method}",
            "same",
            partial(round_trip, method=method),
            method == "exact",
        )
    for loss in ("distance", "relative"):
        options = {"loss": loss, "curvature": -1.0, "n_init": 1}
        yield Row(f"round trip/{loss}", "same", partial(round_trip, **options))
    for unit in (False, True):
        yield Row(
            f"inner product/{'unit' if unit else 'plain'}",
            "closed",
            partial(inner_product, unit),
            True,
        )
    for method in ("classical", "neuc+"):
        yield Row(
            f"distance/{method}",
            "closed",
            partial(distances_of_pairs, method=method),
            True,
        )
    options = {"loss": "relative", "curvature": -1.0, "n_init": 1}
    yield Row(
        "distance/relative, curved",
        "loss",
        partial(distances_of_pairs, **options),
    )
    for method in ("classical", "neuc", "neuc+", "exact"):
        yield Row(f"explained/{method}", "closed", partial(explained, method))
    yield Row("parts/classical", "closed", parts)


def estimated(kind: str, X: Any, new: Any, k: Any, **options: Any) -> Figures:
    """Fit an estimator, place new objects and score them."""
    est = estimator(kind, k, random_state=SEED, **options)
    coordinates = est.fit_transform(X)
    found = figures(est.result_)
    d_hat = sq_dissimilarities_of_estimator(est)
    found["of estimator"] = over_pairs(d_hat).mean()
    found["shape"] = list(coordinates.shape)
    if new is not None:
        x = est.transform(new)
        found["new mean"] = sq_between(
            est.result_, x, est.result_.coordinates
        ).mean()
        found["score"] = est.score(new)
    return found


def estimators() -> Iterator[Row]:
    """`NeucMDS` and `NeucIsomap`."""
    X = digits(120)
    new = digits(150)[120:]
    for method in METHODS:
        compute = partial(
            estimated, "NeucMDS", X, new, 4, method=method, metric="cityblock"
        )
        yield Row(
            f"NeucMDS/features/{method}",
            kind_of(method),
            compute,
            tolerance=1e-9,
        )
    for loss in ("distance", "relative"):
        options = {"loss": loss, "metric": "cityblock", "n_init": 1}
        yield Row(
            f"NeucMDS/features/{loss}",
            "loss",
            partial(estimated, "NeucMDS", X, new, 4, **options),
        )
    given = data("mite").values
    n = N_FITTED["mite"]
    for method in ("neuc+", "refined"):
        compute = partial(
            estimated,
            "NeucMDS",
            given[:n, :n],
            given[n:, :n],
            (3, 1),
            method=method,
        )
        yield Row(
            f"NeucMDS/precomputed/{method}",
            kind_of(method),
            compute,
            True,
            tolerance=1e-9,
        )
    compute = partial(
        estimated, "NeucMDS", X, new, 3, metric="cityblock", n_pairs=60
    )
    yield Row("NeucMDS/features, n_pairs", "refined", compute)
    compute = partial(
        estimated,
        "NeucMDS",
        digits(40),
        digits(50)[40:],
        3,
        metric=largest_gap,
    )
    yield Row("NeucMDS/function", "refined", compute)
    for method in ("classical", "neuc", "refined"):
        compute = partial(
            estimated, "NeucIsomap", wine(80), wine(89)[80:], 3, method=method
        )
        yield Row(
            f"NeucIsomap/{method}", kind_of(method), compute, tolerance=1e-9
        )
    for loss in ("distance", "relative"):
        compute = partial(
            estimated, "NeucIsomap", wine(80), wine(89)[80:], 3, loss=loss
        )
        yield Row(f"NeucIsomap/{loss}", "loss", compute)
    compute = partial(
        estimated,
        "NeucIsomap",
        wine(80),
        wine(89)[80:],
        3,
        loss="relative",
        curvature=-1.0,
    )
    yield Row("NeucIsomap/relative, curved", "loss", compute)


def by_landmarks(landmarks: Any, **options: Any) -> Figures:
    emb = fit(
        data("digits-300").values,
        4,
        landmarks=landmarks,
        random_state=SEED,
        **options,
    )
    found = against(emb, data("digits-300").sq_values)
    return found | {"landmarks": digest(np.sort(emb.landmarks))}


def by_landmark_columns(**options: Any) -> Figures:
    chosen = list(range(0, 300, 4))
    values = data("digits-300").values[:, chosen]
    emb = fit(values, 4, landmarks=chosen, **options)
    return against(emb, data("digits-300").sq_values)


def by_estimator(
    n: int, n_landmarks: Any, k: Any = 4, **options: Any
) -> Figures:
    est = estimator(
        "LandmarkNeucMDS",
        k,
        n_landmarks=n_landmarks,
        random_state=SEED,
        **options,
    )
    est.fit_transform(
        digits(n) if "metric" in options else data(f"digits-{n}").values
    )
    found = against(est.result_, data(f"digits-{n}").sq_values)
    found["landmarks"] = digest(np.sort(est.landmarks_))
    if "metric" in options:
        new = digits(n + 30)[n:]
        x = est.transform(new)
        found["new mean"] = sq_between(
            est.result_, x, est.result_.coordinates
        ).mean()
        found["score"] = est.score(new) if not options.get("n_near") else 0.0
        indices, sq = sq_neighbors(est.result_, 5, x)
        found["neighbours"] = float(sq.mean())
        found["found"] = len(np.unique(indices))
    return found


def by_weighted_landmarks() -> Figures:
    options = {
        "n_landmarks": 80,
        "random_state": SEED,
        "placement": "least_squares",
    }
    est = estimator("LandmarkNeucMDS", 4, method="neuc", **options)
    given = data("digits-300").values
    est.fit(given)
    counted = np.random.default_rng(SEED).uniform(0.1, 2.0, size=(300, 80))
    fitted = est.landmark_result_
    x = fitted.transform(given[:, est.landmarks_], weights=counted)
    return spread(sq_between(fitted, x, fitted.coordinates))


def by_graph_estimator(**options: Any) -> Figures:
    est = estimator(
        "LandmarkNeucMDS",
        3,
        metric="shortest_path",
        random_state=SEED,
        **options,
    )
    est.fit_transform(graph(300))
    return against(est.result_, paths(300) ** 2)


def landmark_fits() -> Iterator[Row]:
    """Landmarks: `neuc_mds` with some, `LandmarkNeucMDS`, one level and two."""
    for method in METHODS:
        compute = partial(by_landmarks, 80, method=method)
        yield Row(
            f"landmarks/80/{method}", kind_of(method), compute, tolerance=1e-9
        )
        compute = partial(
            by_estimator, 300, 80, method=method, metric="cityblock"
        )
        yield Row(
            f"LandmarkNeucMDS/80/{method}",
            kind_of(method),
            compute,
            tolerance=1e-9,
        )
    for loss in ("distance", "relative"):
        options = {"loss": loss, "n_init": 1}
        yield Row(
            f"landmarks/80/{loss}",
            "loss",
            partial(by_landmarks, 80, **options),
        )
        compute = partial(by_estimator, 300, 80, metric="cityblock", **options)
        yield Row(f"LandmarkNeucMDS/80/{loss}", "loss", compute)
    for chosen in (0.3, "maxmin", list(range(0, 300, 4))):
        label = chosen if not isinstance(chosen, list) else "listed"
        compute = partial(by_landmarks, chosen, method="neuc+")
        yield Row(
            f"landmarks/{label}/neuc+", "closed", compute, tolerance=1e-9
        )
    for method in ("neuc+", "refined"):
        compute = partial(by_landmark_columns, method=method)
        yield Row(
            f"landmarks/columns/{method}",
            kind_of(method),
            compute,
            tolerance=1e-9,
        )
    for placement in ("least_squares", "linear"):
        compute = partial(
            by_estimator, 300, 80, method="neuc", placement=placement
        )
        yield Row(
            f"LandmarkNeucMDS/{placement}", "closed", compute, tolerance=1e-9
        )
    yield Row(
        "LandmarkNeucMDS/weights",
        "closed",
        by_weighted_landmarks,
        tolerance=1e-9,
    )
    compute = partial(
        by_estimator, 300, 80, method="neuc+", landmarks="maxmin"
    )
    yield Row("LandmarkNeucMDS/maxmin", "closed", compute, tolerance=1e-9)
    compute = partial(
        by_estimator, 300, 80, loss="relative", curvature=-1.0, n_init=1
    )
    yield Row("LandmarkNeucMDS/relative, curved", "loss", compute)
    for loss in ("squared", "distance", "relative"):
        compute = partial(
            by_estimator,
            500,
            150,
            k=3,
            loss=loss,
            n_near=12,
            metric="cityblock",
        )
        yield Row(
            f"LandmarkNeucMDS/two levels/{loss}",
            kind_of("refined", loss),
            compute,
        )
    for loss in ("squared", "relative"):
        kind = kind_of("refined", loss)
        yield Row(
            f"LandmarkNeucMDS/graph/{loss}",
            kind,
            partial(by_graph_estimator, n_landmarks=80, loss=loss),
        )
        compute = partial(
            by_graph_estimator, n_landmarks=120, n_near=12, loss=loss
        )
        yield Row(f"LandmarkNeucMDS/graph, two levels/{loss}", kind, compute)


def large() -> Iterator[Row]:
    """More than 600 objects, where the iterative eigensolver takes over."""
    for method in CLOSED_FORMS:
        for n in (700, 1200):
            compute = partial(embedded, f"digits-{n}", 10, method)
            yield Row(
                f"large/digits-{n}/{method}", "closed", compute, tolerance=1e-6
            )
    yield Row(
        "large/hops-700/neuc+",
        "closed",
        partial(embedded, "hops-700", 10, "neuc+"),
        tolerance=1e-6,
    )
    for name in ("digits-700", "digits-1200", "hops-700"):
        yield Row(
            f"large/{name}/refined", "refined", partial(embedded, name, 10)
        )
    for loss in ("distance", "relative"):
        yield Row(
            f"large/digits-700/{loss}",
            "loss",
            partial(embedded, "digits-700", 10, loss=loss, n_init=1),
        )
    yield Row(
        "large/digits-700/relative, 3",
        "loss",
        partial(embedded, "digits-700", 3, loss="relative"),
    )
    options = {"loss": "relative", "curvature": -1.0, "n_init": 1}
    yield Row(
        "large/hops-700/relative, curved",
        "loss",
        partial(embedded, "hops-700", 5, **options),
    )


def compared(name: str, k: Any, names: Any, **options: Any) -> Figures:
    found = neucmds.compare(
        data(name).values, k, names, squared=data(name).squared, **options
    )
    flat: Figures = {"sq_norm": float(np.sum(data(name).sq_values ** 2))}
    for one in found.methods:
        key = "loss" if one.method.startswith("refined") else "stress"
        flat[f"{key} {one.method}"] = (
            both_orders(one.embedding) if key == "loss" else one.quality.stress
        )
        flat[f"r2 {one.method}"] = one.quality.r2
        flat[f"error {one.method}"] = one.quality.relative_error_mean
        flat[f"kept {one.method}"] = one.quality.neighbors_kept
    return flat


def measured(name: str, method: str, k: Any = 4, **options: Any) -> Figures:
    given = data(name)
    emb = fit(given.values, k, method, squared=given.squared)
    return neucmds.evaluate(emb, given.values, **options).as_dict() | {
        "sq_norm": emb.info.sq_norm
    }


def measured_descent(loss: str, curvature: float = 0.0) -> Figures:
    emb = fit(data("mite").values, 3, loss=loss, curvature=curvature, n_init=1)
    return neucmds.evaluate(emb, data("mite").values).as_dict() | {
        "loss": both_orders(emb)
    }


def curved_stress(name: str, names: Any, **options: Any) -> Figures:
    ks = (1, 2, 5, 10)
    found = stress_curve(
        data(name).values, ks, names, squared=data(name).squared, **options
    )
    flat: Figures = {"sq_norm": found.sq_norm}
    for method in names:
        key = "loss" if method.startswith("refined") else "stress"
        flat |= {
            f"{key} {method} {k}": value
            for k, value in zip(ks, found.stress[method], strict=True)
        }
    return flat | numbers(found.as_dict()["classical"], "turn.")


def diagnosed(name: str) -> Figures:
    return numbers(
        diagnose(
            data(name).values, squared=data(name).squared, random_state=SEED
        )
    )


def resampled(name: str, n_boot: int, **options: Any) -> Figures:
    found = bootstrap(
        data(name).values, 3, n_boot, random_state=SEED, **options
    )
    return {
        "loss": both_orders(found.embedding),
        "sq_norm": found.embedding.info.sq_norm,
        "spread": found.spread.mean(),
        "largest": found.spread.max(),
        "variance": np.trace(found.covariances, axis1=1, axis2=2).mean(),
        "replicates": len(found.clouds),
    }


def resampled_by_user() -> Figures:
    counts = species("mite").to_numpy(float)
    rng = np.random.default_rng(SEED)
    drawn = [
        rng.integers(counts.shape[1], size=counts.shape[1]) for _ in range(4)
    ]
    replicates = [
        pairs(counts[:, columns] + 1e-3, "braycurtis") for columns in drawn
    ]
    return resampled("mite", 4, resample=replicates, method="neuc+")


def permuted_stress(method: str) -> Figures:
    found = stress_test(
        data("dune").values, 2, 19, method=method, random_state=SEED
    )
    return {
        "statistic": found.statistic,
        "p": found.p,
        "permuted": found.permuted.mean(),
    }


# Errors of held-out objects, some of them thousandths of the whole, moved by 1e-10 with threads.
INSPECTED = 1e-8


def explorations() -> Iterator[Row]:
    """`compare`, `diagnose`, `stress_curve`, `evaluate`, `bootstrap` and the test of STRESS."""
    for name in ("dune", "mite", "simplex-60"):
        compute = partial(compared, name, 4, CLOSED_FORMS)
        yield Row(f"compare/{name}/closed forms", "closed", compute, True)
        yield Row(
            f"compare/{name}/refined",
            "refined",
            partial(compared, name, 4, ("refined",)),
        )
        yield Row(
            f"curve/{name}",
            "closed",
            partial(curved_stress, name, CLOSED_FORMS),
            True,
        )
        yield Row(
            f"inspect/{name}",
            "closed",
            partial(diagnosed, name),
            name == "dune",
            INSPECTED,
        )
    for name in ("digits-150", "hops-150", "digits-700"):
        yield Row(
            f"inspect/{name}",
            "closed",
            partial(diagnosed, name),
            tolerance=INSPECTED,
        )
        yield Row(
            f"curve/{name}",
            "closed",
            partial(curved_stress, name, CLOSED_FORMS),
        )
    yield Row(
        "compare/mite/corrections",
        "closed",
        partial(compared, "mite", 4, ("cailliez", "lingoes")),
        tolerance=1e-8,
    )
    yield Row(
        "compare/mite/auto",
        "closed",
        partial(compared, "mite", "auto", ("neuc", "neuc+")),
    )
    others = ("refined/distance", "refined/relative")
    yield Row(
        "compare/dune/losses", "loss", partial(compared, "dune", 2, others)
    )
    yield Row(
        "compare/dune/losses, curved",
        "loss",
        partial(compared, "dune", 2, others, curvature=-1.0),
    )
    yield Row(
        "compare/dune/weights",
        "refined",
        partial(
            compared, "dune", 2, ("neuc", "refined"), weights=weights("dune")
        ),
    )
    yield Row("compare/dune/smacof", "loss", smacof_row)
    yield Row(
        "curve/dune/refined",
        "refined",
        partial(curved_stress, "dune", ("refined",)),
    )
    for name in ("mite", "simplex-60", "digits-150"):
        for method in ("classical", "neuc+"):
            compute = partial(measured, name, method)
            yield Row(
                f"evaluate/{name}/{method}", "closed", compute, name == "mite"
            )
    yield Row(
        "evaluate/mite/weights",
        "closed",
        partial(measured, "mite", "neuc+", weights=weights("mite")),
    )
    for loss, curvature in (
        ("squared", 0.0),
        ("distance", 0.0),
        ("relative", 0.0),
        ("relative", -1.0),
    ):
        if loss != "squared":
            label = f"{loss}, curved" if curvature else loss
            yield Row(
                f"evaluate/mite/{label}",
                "loss",
                partial(measured_descent, loss, curvature),
            )
    yield Row(
        "stability/dune/bootstrap/neuc+",
        "closed",
        partial(resampled, "dune", 6, method="neuc+"),
        True,
        tolerance=1e-9,
    )
    yield Row(
        "stability/dune/jackknife/neuc+",
        "closed",
        partial(resampled, "dune", 0, resample="jackknife", method="neuc+"),
        tolerance=1e-9,
    )
    yield Row(
        "stability/mite/replicates/neuc+",
        "closed",
        resampled_by_user,
        tolerance=1e-9,
    )
    yield Row(
        "stability/mite/bootstrap/refined",
        "refined",
        partial(resampled, "mite", 4),
    )
    yield Row(
        "stability/dune/bootstrap/relative",
        "loss",
        partial(resampled, "dune", 4, loss="relative", n_init=2),
    )
    for method in ("classical", "neuc+"):
        yield Row(
            f"stress test/dune/{method}",
            "closed",
            partial(permuted_stress, method),
        )


def smacof_row() -> Figures:
    found = compared("dune", 2, ("smacof",))
    return {"loss": found["stress smacof"], **found}


def fitted_variables(name: str, axes: Any, k: int = 3) -> Figures:
    emb = fit(data(name).values, k, "classical")
    found = ecology.envfit(
        emb, metadata(name), axes=axes, permutations=99, random_state=SEED
    )
    flat: Figures = {}
    for one in found.fits:
        flat[f"r2 {one.name}"] = one.r2
        flat[f"p {one.name}"] = one.p
        flat[f"n {one.name}"] = one.n
    for one in found.vectors:
        # Axes have no orientation.
        flat |= {
            f"direction {one.name} {a}": abs(v)
            for a, v in enumerate(one.direction)
        }
    for one in found.factors:
        flat[f"centroids {one.name}"] = float(np.sum(one.centroids**2))
    return flat


def dispersed(name: str, variable: str, center: str) -> Figures:
    groups = list(metadata(name)[variable])
    found = ecology.dispersion(
        data(name).values,
        groups,
        center=center,
        permutations=99,
        random_state=SEED,
    )
    flat = {
        f"distance {g}": d
        for g, d in zip(found.groups, found.group_distances, strict=True)
    }
    return {"statistic": found.statistic, "p": found.p, **flat}


def agreement(
    name: str, first: str, second: str, k: Any, permutations: int = 99
) -> Figures:
    a = fit(data(name).values, k, first)
    b = fit(data(name).values, k, second)
    test = ecology.protest(a, b, permutations=permutations, random_state=SEED)
    return {
        "statistic": test.statistic,
        "p": test.p,
        "permuted": test.permuted.mean(),
    }


def alignment(name: str, first: Any, second: Any, scaling: bool) -> Figures:
    a = fit(data(name).values, *first)
    b = fit(data(name).values, *second)
    found = neucmds.procrustes(a, b, scaling=scaling)
    return {
        "disparity": found.disparity,
        "scale": found.scale,
        "length": float(np.sum(found.coordinates**2)),
    }


def scores(name: str) -> Figures:
    emb = fit(data(name).values, 3, "classical")
    found = ecology.species_scores(emb, species(name).reset_index(drop=True))
    return {
        f"{axis}": float(np.nansum(found[axis] ** 2)) for axis in found.columns
    }


def correction(name: str, kind: str) -> Figures:
    given = data(name)
    sq_d, constant = corrected(kind, given.values, squared=given.squared)
    emb = fit(sq_d, 4, "classical", squared=True)
    return figures(emb) | {
        "constant": constant,
        "lowest": float(over_pairs(sq_d).min()),
    }


def synthetic(kind: str) -> Figures:
    return spread(over_pairs(data(f"{kind}-60").values))


def hops(connect: bool, precomputed: bool) -> Figures:
    given = data("iris-100").values if precomputed else wine(89)
    found = datasets.hop_distances(
        given, 5, precomputed=precomputed, connect=connect
    )
    return {"digest": digest(found), "sum": int(found.sum())}


def statistics() -> Iterator[Row]:
    """Statistics of ordination, corrections and data sets."""
    for name in ("dune", "mite"):
        for axes in (None, (1, 3)):
            compute = partial(fitted_variables, name, axes)
            yield Row(
                f"envfit/{name}/{axes}", "closed", compute, name == "dune"
            )
        yield Row(
            f"species scores/{name}", "closed", partial(scores, name), True
        )
    for name, variable in (
        ("dune", "Management"),
        ("mite", "Topo"),
        ("mite", "Shrub"),
    ):
        compute = partial(dispersed, name, variable, "centroid")
        yield Row(
            f"dispersion/{name}/{variable}/centroid",
            "closed",
            compute,
            name == "dune",
        )
        # The median is found by a descent.
        compute = partial(dispersed, name, variable, "median")
        yield Row(
            f"dispersion/{name}/{variable}/median",
            "closed",
            compute,
            tolerance=1e-6,
        )
    for name in ("dune", "mite"):
        compute = partial(agreement, name, "classical", "lower", 2)
        yield Row(
            f"protest/{name}/positive", "closed", compute, tolerance=1e-8
        )
    compute = partial(agreement, "dune", "neuc", "neuc+", (2, 1), 9)
    yield Row("protest/dune/both signs", "closed", compute, tolerance=1e-6)
    for scaling in (True, False):
        label = "scaled" if scaling else "as it is"
        compute = partial(
            alignment, "dune", (3, "classical"), ((3, 0), "exact"), scaling
        )
        yield Row(
            f"procrustes/dune/positive/{label}",
            "closed",
            compute,
            True,
            tolerance=1e-8,
        )
        compute = partial(
            alignment, "mite", ((3, 2), "neuc"), ((3, 2), "exact"), scaling
        )
        yield Row(
            f"procrustes/mite/both signs/{label}",
            "closed",
            compute,
            tolerance=1e-6,
        )
    for kind in ("cailliez", "lingoes"):
        for name in ("dune", "mite", "digits-150", "hops-100", "ball-60"):
            tolerance = 1e-8 if kind == "cailliez" else 1e-10
            compute = partial(correction, name, kind)
            yield Row(
                f"correction/{kind}/{name}",
                "closed",
                compute,
                name == "dune",
                tolerance,
            )
    yield Row(
        "correction/cailliez/digits-300",
        "closed",
        partial(correction, "digits-300", "cailliez"),
        tolerance=1e-8,
    )
    yield Row(
        "correction/lingoes/simplex-60",
        "closed",
        partial(correction, "simplex-60", "lingoes"),
    )
    for kind in ("simplex", "ball"):
        yield Row(f"dataset/{kind}", "closed", partial(synthetic, kind), True)
    yield Row("dataset/hops/features", "same", partial(hops, True, False))
    yield Row("dataset/hops/precomputed", "same", partial(hops, True, True))


GROUPS = (
    methods,
    losses,
    directions,
    heights,
    ordinal,
    inputs,
    fits,
    placements,
    embeddings,
    estimators,
    landmark_fits,
    large,
    explorations,
    statistics,
)


def all_rows() -> list[Row]:
    rows = [row for group in GROUPS for row in group()]
    names = [row.name for row in rows]
    assert len(set(names)) == len(names), "two rows have the same name"
    return rows


# --- Comparison -----------------------------------------------------------------------------------

# Figure → the figure of the same row whose size a difference is measured by.
SCALES = {
    "mean": "size",
    "q10": "size",
    "q50": "size",
    "q90": "size",
    "among new": "size",
}
SHARES = ("r2", "own r2", "normalized_stress", "score")
WORSE = 1e-3
INFORMATIVE = 0.02


def plain(value: Any) -> Any:
    """Return a value as JSON holds it: 12 significant digits, and null for NaN."""
    if isinstance(value, (str, bool, list)) or value is None:
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    value = float(value)
    return float(f"{value:.12g}") if math.isfinite(value) else None


def result_of(row: Row) -> Figures:
    """Figures of a row; its warnings are not of interest."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: plain(value) for name, value in row.compute().items()}


def scale_of(name: str, held: Figures) -> float:
    """Size that differences of a figure are measured by."""
    if name in SHARES or name.startswith(("r2 ", "turn.", "p ")):
        return max(1.0, abs(held[name]))
    known = "size" if name in SCALES else "sq_norm"
    summed = name in SCALES or name.startswith(
        ("stress", "loss", "term", "own loss")
    )
    other = held.get(known) if summed else None
    return max(abs(held[name]), abs(other or 0.0))


def differences(
    row: Row, found: Figures, held: Figures
) -> tuple[list[str], list[str]]:
    """Return what is wrong with the figures of a row, and what is worth a note."""
    wrong = [f"{name} is missing" for name in held if name not in found]
    wrong += [
        f"{name} is not in the record" for name in found if name not in held
    ]
    notes = []
    for name, value in found.items():
        if name not in held or value == held[name]:
            continue
        before = held[name]
        text = f"{name}: {before} → {value}"
        is_number = all(
            isinstance(x, (int, float)) and not isinstance(x, bool)
            for x in (before, value)
        )
        if row.kind == "same" or not is_number:
            (notes if row.kind in ("refined", "loss") else wrong).append(text)
        elif row.kind == "closed":
            gap = abs(value - before) / (scale_of(name, held) or 1.0)
            if gap > row.tolerance:
                wrong.append(f"{text} (off by {gap:.1e})")
        else:
            # Where a fit is perfect, its loss is rounding.
            slack = 1e-12 * abs(held.get("sq_norm", 0.0))
            size = (
                scale_of(name, held)
                if not name.startswith("loss")
                else abs(before)
            )
            gap = (value - before) / (size or 1.0)
            if (
                name.startswith("loss")
                and value - before > WORSE * size + slack
            ):
                wrong.append(f"{text} ({gap:+.2%})")
            elif (
                name.startswith("loss")
                and before - value > WORSE * size + slack
            ):
                notes.append(f"{text} ({gap:+.2%}), lower")
            elif not name.startswith("loss") and abs(gap) > INFORMATIVE:
                notes.append(f"{text} ({gap:+.2%})")
    return wrong, notes


def written(results: dict[str, Figures], kinds: dict[str, str]) -> str:
    """Return the record as text: one row per line, sorted by name."""
    lines = [
        f"{json.dumps(name, ensure_ascii=False)}: "
        + json.dumps(
            {"kind": kinds[name], **results[name]}, ensure_ascii=False
        )
        for name in sorted(results)
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def record() -> dict[str, Figures]:
    held = json.loads(RECORD.read_text(encoding="utf-8"))
    return {
        name: {k: v for k, v in row.items() if k != "kind"}
        for name, row in held.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--write", action="store_true", help="write the record"
    )
    parser.add_argument(
        "--only", metavar="PATTERN", help="rows whose name matches"
    )
    parser.add_argument("--quick", action="store_true", help="quick rows only")
    parser.add_argument(
        "--times", action="store_true", help="print the slowest rows"
    )
    asked = parser.parse_args()
    rows = all_rows()
    chosen = [
        row
        for row in rows
        if not asked.only or re.search(asked.only, row.name)
    ]
    chosen = [row for row in chosen if row.quick or not asked.quick]
    held = record() if RECORD.exists() else {}
    results: dict[str, Figures] = {}
    seconds: dict[str, float] = {}
    failed = 0
    noted = 0
    for row in chosen:
        start = time.perf_counter()
        try:
            found = result_of(row)
        except ImportError as problem:
            print(f"{row.name}: left out, {problem}")
            continue
        except Exception as problem:
            print(f"{row.name}: {type(problem).__name__}: {problem}")
            failed += 1
            continue
        seconds[row.name] = time.perf_counter() - start
        results[row.name] = found
        if asked.write:
            continue
        if row.name not in held:
            print(f"{row.name}: not in the record")
            failed += 1
            continue
        wrong, notes = differences(row, found, held[row.name])
        failed += bool(wrong)
        noted += bool(notes)
        for text in wrong:
            print(f"{row.name}: {text}")
        for text in notes:
            print(f"  note, {row.name}: {text}")
    if not (asked.only or asked.quick or asked.write):
        gone = sorted(held.keys() - {row.name for row in rows})
        for name in gone:
            print(f"{name}: in the record, but no such row")
        failed += len(gone)
    if asked.write:
        kinds = {row.name: row.kind for row in rows}
        kept = (
            {name: held[name] for name in held.keys() & kinds.keys()}
            if asked.only or asked.quick
            else {}
        )
        RECORD.write_text(written(kept | results, kinds), encoding="utf-8")
    if asked.times:
        for name in sorted(seconds, key=seconds.__getitem__)[:-31:-1]:
            print(f"{seconds[name]:8.2f} s  {name}")
    print(
        f"{len(results)} rows in {sum(seconds.values()):.0f} s, {failed} wrong, {noted} with notes"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
