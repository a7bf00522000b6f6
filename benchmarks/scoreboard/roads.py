"""Road distances: signed coordinates beside learned indexes, landmarks and exact indexes.

    NEUCMDS_DATA=… python benchmarks/scoreboard/roads.py                        all groups
    NEUCMDS_DATA=… python benchmarks/scoreboard/roads.py all-pairs --device cuda
    NEUCMDS_DATA=… python benchmarks/scoreboard/roads.py sampled --k 64 --kappa 0
    NEUCMDS_DATA=… python benchmarks/scoreboard/roads.py --merge FILE  rows of another record

Roads of Jinan, 8,908 nodes and 14,070 edges, with the 100,000 test queries of Choudhary et al., "An
empirical survey and benchmark of learned distance indexes for road networks" (arXiv 2602.04068),
from data/W_Jinan of github.com/purduedb/shortest-distance-survey. `PUBLISHED` is what its logs
print for these queries, in results/v39-real_workload_perturb_500k and non_ml_index. Queries count
edges of length 0 as 1 m, and so does the graph here.

What differs: the published models learn from 400,000 queries in five minutes, all but CatBoost on a
GPU, and some from the graph too (its edges, its parts, walks along it, distances to landmarks); all
others see the graph and no query. Ours store k numbers per node in single precision.
Buckets are five equal parts of the range of distances, as in the survey. Exact indexes need
`pandana` and `routingkit-cch`; their memory is what the process grows by, in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import losses
import measure
from neucmds import Embedding, LandmarkNeucMDS, neuc_mds
from neucmds.backend.arrays import to_numpy

RECORD = measure.RECORDS / "roads.json"
BUCKETS = 5
REPEATS = 5
# Mean relative error and the five buckets in %, mean error in m, model in MB, µs per query.
PUBLISHED: dict[str, tuple[float, tuple[float, ...], float, float, float]] = {
    "CatBoost": (2.32, (3.22, 0.83, 0.80, 1.26, 1.19), 57.60, 26.94, 2.321),
    "ANEDA": (2.90, (3.83, 1.34, 1.40, 2.95, 6.09), 78.02, 2.18, 0.012),
    "ANEDA, random start": (
        2.90,
        (3.87, 1.28, 1.34, 2.34, 6.43),
        75.21,
        2.18,
        0.012,
    ),
    "Path2vec": (3.80, (5.02, 1.78, 1.63, 2.64, 7.22), 101.91, 2.18, 0.013),
    "RNE": (3.82, (5.60, 0.85, 1.01, 4.11, 16.79), 64.69, 2.18, 0.011),
    "vdist2vec": (4.30, (5.85, 1.64, 2.30, 7.64, 18.20), 109.47, 2.24, 0.022),
    "CatBoost-NN": (5.36, (7.82, 1.32, 0.84, 0.65, 0.49), 94.01, 4.65, 0.143),
    "Ndist2vec": (
        7.62,
        (11.01, 1.87, 3.13, 10.83, 30.99),
        135.31,
        2.41,
        0.056,
    ),
    "GeoDNN": (7.63, (10.25, 3.34, 2.51, 2.78, 5.09), 204.60, 0.09, 0.026),
    "GAT": (7.83, (10.52, 3.44, 2.58, 2.38, 4.13), 213.36, 0.64, 0.009),
    "GraphSAGE": (11.33, (16.23, 3.28, 2.34, 2.40, 3.51), 209.68, 0.76, 0.009),
    "EmbeddingNN, mean": (
        20.95,
        (30.44, 5.22, 5.27, 11.07, 20.13),
        340.66,
        2.30,
        0.032,
    ),
    "EmbeddingNN, difference": (
        22.09,
        (29.64, 9.50, 10.32, 14.84, 19.63),
        530.87,
        2.30,
        0.032,
    ),
    "GCN": (24.46, (34.84, 7.19, 7.63, 12.63, 16.62), 465.72, 0.63, 0.010),
    "EmbeddingNN": (
        25.58,
        (37.55, 5.70, 6.34, 9.97, 8.65),
        374.74,
        2.43,
        0.034,
    ),
    "DistanceNN, difference": (
        41.44,
        (56.55, 15.30, 27.22, 50.93, 68.16),
        897.25,
        2.20,
        0.020,
    ),
    "DistanceNN": (
        46.54,
        (62.90, 18.73, 26.06, 46.13, 64.27),
        958.96,
        2.21,
        0.021,
    ),
    "DistanceNN, mean": (
        88.69,
        (125.33, 26.71, 41.34, 59.95, 75.35),
        1410.73,
        2.20,
        0.020,
    ),
    "Hierarchical cut labelling (exact)": (
        0.0,
        (0.0,) * BUCKETS,
        0.0,
        3.0,
        4.6087,
    ),
}
TRAINING_SECONDS = 300.0  # the survey's limit, which all models reached
Row = dict[str, Any]


def roads() -> dict[str, np.ndarray]:
    content = dict(np.load(losses._file("networks", "jinan.npz")))
    return content | {"length": np.maximum(content["length"], 1).astype(float)}


def as_graph(data: dict[str, np.ndarray]) -> csr_array:
    i, j = data["edges"].T
    n = len(data["xy"])
    return csr_array((data["length"], (i, j)), shape=(n, n))


def bucket_edges(d: np.ndarray) -> np.ndarray:
    return np.linspace(d.min(), d.max(), BUCKETS + 1)


def errors(d_hat: np.ndarray, d: np.ndarray) -> Row:
    """Return the survey's measures of the answers to its queries."""
    relative = np.abs(d_hat / d - 1)
    edges = bucket_edges(d)
    own = np.clip(np.searchsorted(edges, d, side="right") - 1, 0, BUCKETS - 1)
    return {
        "mean_error": float(relative.mean()),
        "buckets": [float(relative[own == i].mean()) for i in range(BUCKETS)],
        "median_error": float(np.median(relative)),
        "p99_error": float(np.quantile(relative, 0.99)),
        "metres": float(np.abs(d_hat - d).mean()),
    }


def answered(data: dict[str, np.ndarray], ask: Callable[..., Any]) -> Row:
    """Put all queries in one batch, several times."""
    i, j = data["queries"].T
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        d_hat = ask(i, j)
        times.append(time.perf_counter() - begin)
    return {
        "queries_per_second": len(i) / min(times),
        **errors(d_hat, data["distance"]),
    }


def signed_row(
    data: dict[str, np.ndarray], emb: Embedding, seconds: float
) -> Row:
    """Ask an embedding whose coordinates are kept in single precision, on the CPU."""
    kept = to_numpy(emb.coordinates).astype(np.float32)
    form = replace(emb.form, signs=to_numpy(emb.signs).astype(np.float32))
    emb = replace(emb, coordinates=kept, form=form)
    facts = {
        "numbers": emb.k,
        "signature": list(emb.signature),
        "curvature": emb.curvature,
    }
    facts |= {
        "bytes_per_node": kept.itemsize * emb.k,
        "build_seconds": seconds,
    }
    return facts | answered(data, emb.distance)


@cache
def all_paths() -> tuple[np.ndarray, float]:
    """Return all distances between nodes, and the seconds that they took."""
    begin = time.perf_counter()
    paths = dijkstra(as_graph(roads()), directed=False)
    return np.minimum(paths, paths.T), time.perf_counter() - begin


def all_pairs(
    data: dict[str, np.ndarray], k: int, kappa: Any, device: str
) -> Row:
    paths: Any
    paths, searched = all_paths()
    if device != "cpu":
        import torch

        paths = torch.as_tensor(paths, device=device)
        # The first fit of a process also loads the device's libraries, which takes seconds.
        neuc_mds(paths[::3, ::3], k, loss="relative", curvature=kappa)
        torch.cuda.synchronize()
    begin = time.perf_counter()
    emb = neuc_mds(paths, k, loss="relative", curvature=kappa)
    to_numpy(emb.coordinates)
    seconds = time.perf_counter() - begin
    return signed_row(data, emb, seconds) | {
        "paths_seconds": searched,
        "device": device,
    }


def sampled(
    data: dict[str, np.ndarray], k: int, kappa: Any, device: str
) -> Row:
    begin = time.perf_counter()
    settings = {
        "metric": "shortest_path",
        "loss": "relative",
        "curvature": kappa,
    }
    emb = neuc_mds(as_graph(data), k, n_pairs=16 * k, **settings)
    return signed_row(data, emb, time.perf_counter() - begin) | {
        "device": "cpu"
    }


def landmarks(
    data: dict[str, np.ndarray], k: int, kappa: Any, device: str
) -> Row:
    begin = time.perf_counter()
    settings = {
        "metric": "shortest_path",
        "loss": "relative",
        "curvature": kappa,
    }
    est = LandmarkNeucMDS(k, n_near=None, **settings)
    est.fit_transform(as_graph(data))
    row = signed_row(data, est.result_, time.perf_counter() - begin)
    return row | {"landmarks": int(est.landmarks_.size), "device": "cpu"}


SIGNED = {"all-pairs": all_pairs, "sampled": sampled, "landmarks": landmarks}


def alt_row(data: dict[str, np.ndarray], k: int) -> Row:
    """Bounds by the triangle inequality over k landmarks, each the farthest from the others."""
    begin = time.perf_counter()
    graph = as_graph(data)
    table = dijkstra(graph, directed=False, indices=[0])
    table = dijkstra(graph, directed=False, indices=[int(np.argmax(table[0]))])
    while len(table) < k:
        farthest = int(np.argmax(table.min(axis=0)))
        table = np.vstack(
            [table, dijkstra(graph, directed=False, indices=[farthest])]
        )
    own = np.ascontiguousarray(table.T.astype(np.float32))
    seconds = time.perf_counter() - begin

    def lower(i: Any, j: Any) -> Any:
        return np.abs(own[i] - own[j]).max(axis=1)

    facts = {
        "method": "ALT, lower bound",
        "numbers": k,
        "build_seconds": seconds,
    }
    return facts | {
        "bytes_per_node": own.itemsize * k,
        **answered(data, lower),
    }


def pandana_index(data: dict[str, np.ndarray]) -> Callable[..., Any]:
    with measure.needed("pandana"):
        import pandana
    import pandas as pd

    (i, j), xy = data["edges"].T, data["xy"]
    weights = pd.DataFrame({"length": data["length"]})
    net = pandana.Network(*map(pd.Series, (*xy.T, i, j)), weights, twoway=True)
    return lambda a, b: np.asarray(net.shortest_path_lengths(a, b))


def routingkit_index(data: dict[str, np.ndarray]) -> Callable[..., Any]:
    with measure.needed("routingkit-cch"):
        import routingkit_cch as rk

    i, j = data["edges"].T.tolist()
    x, y = data["xy"].astype(float).T.tolist()
    tail, head = i + j, j + i
    order = rk.compute_order_inertial(len(x), tail, head, y, x)
    graph = rk.CCH(order, tail, head, False)
    metric = rk.CCHMetric(graph, 2 * data["length"].astype(int).tolist())
    query = rk.CCHQuery(metric)

    def ask(
        a: Any, b: Any, _: Any = graph
    ) -> Any:  # the index lives as long as its graph
        pairs = zip(a.tolist(), b.tolist(), strict=True)
        return np.array(
            [query.run(s, t).distance for s, t in pairs], dtype=float
        )

    return ask


def table_index(data: dict[str, np.ndarray]) -> Callable[..., Any]:
    paths = np.nan_to_num(
        dijkstra(as_graph(data), directed=False), posinf=0
    ).astype(np.uint16)
    return lambda a, b: paths[a, b].astype(float)


EXACT = {
    "pandana": pandana_index,
    "routingkit-cch": routingkit_index,
    "table of all distances": table_index,
}


def _exact(name: str, sender: Any) -> None:
    data = roads()
    EXACT[name](
        {**data, "edges": data["edges"][:1], "length": data["length"][:1]}
    )  # imports
    before, begin = measure.resident(), time.perf_counter()
    ask = EXACT[name](data)
    seconds, grown = time.perf_counter() - begin, measure.resident() - before
    facts = {
        "method": name,
        "build_seconds": seconds,
        "bytes_per_node": grown / len(data["xy"]),
    }
    sender.send(facts | answered(data, ask))


def exact_row(name: str) -> Row:
    """Build and ask an exact index in a process of its own."""
    spawn = multiprocessing.get_context("spawn")
    receiver, sender = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_exact, args=(name, sender))
    process.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        raise SystemExit(f"{name}: not measured") from None
    finally:
        process.join()


def rows(
    group: str, ks: list[int], kappas: list[Any], device: str
) -> Iterator[Row]:
    data = roads()
    if group == "others":
        for k in ks:
            yield alt_row(data, k)
        yield from map(exact_row, EXACT)
        return
    for k in ks:
        for kappa in kappas:
            found = SIGNED[group](data, k, kappa, device)
            yield {"method": f"neucmds, {group}", "asked": kappa, **found}


def published() -> list[Row]:
    nodes = len(roads()["xy"])
    return [
        {
            "method": name,
            "mean_error": mean / 100,
            "buckets": [one / 100 for one in buckets],
            "metres": metres,
            "bytes_per_node": megabytes * 2**20 / nodes,
            "build_seconds": 0.160286 if mean == 0 else TRAINING_SECONDS,
            "microseconds": micro,
        }
        for name, (
            mean,
            buckets,
            metres,
            megabytes,
            micro,
        ) in PUBLISHED.items()
    ]


def key(row: Row) -> tuple[Any, ...]:
    return row["method"], row.get("numbers"), row.get("asked")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("groups", nargs="*", default=[*SIGNED, "others"])
    parser.add_argument(
        "--device", default="cpu", help="of the fit of all pairs"
    )
    parser.add_argument("--k", type=int, nargs="*", default=[16, 32, 64])
    parser.add_argument("--kappa", nargs="*", default=["0", "auto"])
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument(
        "--merge", type=Path, help="take the rows of another record"
    )
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    found = (
        json.loads(given.record.read_text())["rows"]
        if given.record.exists()
        else []
    )
    for row in measured(given):
        print(row, flush=True)
        found = [one for one in found if key(one) != key(row)] + [row]
        names = ("numpy", "scipy", "torch", "pandana", "routingkit_cch")
        record = {
            "machine": measure.machine(),
            "versions": measure.versions(*names),
        }
        record |= {"bucket_edges": bucket_edges(roads()["distance"]).tolist()}
        measure.write_record(
            given.record, record | {"published": published(), "rows": found}
        )


def measured(given: argparse.Namespace) -> Iterator[Row]:
    if given.merge is not None:
        yield from json.loads(given.merge.read_text())["rows"]
        return
    kappas = [one if one == "auto" else float(one) for one in given.kappa]
    for group in given.groups:
        for row in rows(group, given.k, kappas, given.device):
            yield row | {
                "load": measure.machine()["load_before"],
                "neucmds": measure.versions()["neucmds"],
            }


if __name__ == "__main__":
    main()
