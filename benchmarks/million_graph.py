"""A graph of a million nodes: landmarks in one and in two levels, by the relative loss, beside ALT.

    python benchmarks/million_graph.py [--side 1090] [--landmarks 256] [--two-levels-only]
        [--iterations 0] [--record FILE]

A grid with obstacles: every cell is passable but those of 3,000 random walls, neighbours are joined
in eight directions, with lengths drawn from 1 to 1.5 times the way. k = 16, one number a coordinate
and node. ALT, the bound of the triangle inequality over landmarks, gets as many numbers: 16
landmarks, far from each other. With --iterations the descent goes on from the coordinates with a
sample of near pairs (its seconds are those beyond). Errors are those of 100,000 pairs from 25
random sources: to random nodes, and to nodes within 40. The searches are timed within the fit, by
the clock: they run in processes, the placement in threads. Peak memory is that of this process, and
in two levels also that of all processes together, each shared page counted once.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from measure import (
    forget_peak,
    machine,
    peak,
    peak_with_children,
    versions,
    write_record,
)
from neucmds import LandmarkNeucMDS
from neucmds.backend.arrays import to_numpy
from neucmds.form import Form
from neucmds.large import landmarks as large_landmarks
from neucmds.large.choice import maxmin
from neucmds.problem.graph import (
    as_graph,
    graph_pairs,
    nearest_landmarks,
    shortest_path_rows,
)
from neucmds.refine.descent import Configuration, descend
from neucmds.refine.listed_pairs import refine_pairs

K, SOURCES = 16, 25


def walled_grid(side: int, walls: int = 3000, seed: int = 0) -> Any:
    """Draw a grid without the cells of random walls; the largest part of it."""
    rng = np.random.default_rng(seed)
    free = np.ones((side, side), dtype=bool)
    for _ in range(walls):
        row, column = rng.integers(side, size=2)
        length = int(rng.integers(5, 60))
        if rng.random() < 0.5:
            free[row, column : column + length] = False
        else:
            free[row : row + length, column] = False
    number = np.cumsum(free.ravel()).reshape(free.shape) - 1
    i, j, far = [], [], []
    for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
        here = (
            slice(0, side - down),
            slice(max(0, -right), side - max(0, right)),
        )
        there = (slice(down, side), slice(max(0, right), side + min(0, right)))
        both = free[here] & free[there]
        i.append(number[here][both])
        j.append(number[there][both])
        far.append(np.full(int(both.sum()), np.hypot(down, right)))
    length = np.concatenate(far) * rng.uniform(1, 1.5, size=sum(map(len, far)))
    n = int(free.sum())
    graph = sparse.csr_array(
        (length, (np.concatenate(i), np.concatenate(j))), shape=(n, n)
    )
    part = csgraph.connected_components(graph, directed=False)[1]
    kept = np.flatnonzero(part == np.argmax(np.bincount(part)))
    return graph[kept][:, kept]


def errors(estimate: Any, pairs: dict[str, Any]) -> dict[str, float]:
    """Median and 95th percentile of the relative error, for every kind of pair."""
    found = {}
    for kind, (i, j, d) in pairs.items():
        relative = np.abs(estimate(i, j) / d - 1)
        found[f"{kind}_median"] = round(float(np.median(relative)), 5)
        found[f"{kind}_p95"] = round(float(np.quantile(relative, 0.95)), 5)
    return found


def true_pairs(graph: Any) -> dict[str, Any]:
    """Draw pairs from some sources, to any node and to near ones, with their shortest paths."""
    n, rng = int(graph.shape[0]), np.random.default_rng(1)
    sources = rng.choice(n, SOURCES, replace=False)
    rows = shortest_path_rows(graph, sources, dtype=np.float32)
    drawn: dict[str, Any] = {"random": [], "near": []}
    for source, row in zip(sources, rows, strict=True):
        close = np.flatnonzero((row > 0) & (row < 40))
        for kind, among in (("random", np.arange(n)), ("near", close)):
            j = rng.choice(among, 100_000 // SOURCES)
            j = j[j != source]
            drawn[kind].append((np.full(j.size, source), j, row[j]))
    return {
        kind: tuple(map(np.concatenate, zip(*v, strict=True)))
        for kind, v in drawn.items()
    }


class Study:
    """Rows of the record, and how long the searches took within a fit."""

    def __init__(self, graph: Any) -> None:
        self.graph, self.pairs = graph, true_pairs(graph)
        self.rows: list[dict[str, Any]] = []
        self.searches = 0.0

    def timed_paths(self, *given: Any, **settings: Any) -> Any:
        """Search as the estimator does, and add up the time."""
        start = time.perf_counter()
        found = shortest_path_rows(*given, **settings)
        self.searches += time.perf_counter() - start
        return found

    def timed_nearest(self, *given: Any, **settings: Any) -> Any:
        """Search near landmarks as the estimator does, and add up the time."""
        start = time.perf_counter()
        found = nearest_landmarks(*given, **settings)
        self.searches += time.perf_counter() - start
        return found

    def add(
        self, what: str, x: Any, signs: Any, seconds: float, **more: Any
    ) -> None:
        """Measure coordinates."""

        def estimate(i: Any, j: Any) -> Any:
            return np.sqrt(np.maximum(Form(signs).paired_sq(x[i], x[j]), 0))

        row = {
            "what": what,
            "signature": [int((signs > 0).sum()), int((signs < 0).sum())],
            "seconds": round(seconds, 1),
            "over_searches": round(seconds / self.searches, 2),
            "peak_gb": round(peak() / 1e9, 2),
            **more,
            **errors(estimate, self.pairs),
        }
        self.rows.append(row)
        print(row, flush=True)

    def two_levels(self, graph: Any) -> None:
        """Fit many landmarks and place every node from those near it, where the graph lies."""
        large_landmarks.shortest_path_rows = self.timed_paths
        large_landmarks.nearest_landmarks = self.timed_nearest
        self.searches, start = 0.0, time.perf_counter()
        est = LandmarkNeucMDS(
            K,
            n_near=None,
            metric="shortest_path",
            loss="relative",
            random_state=0,
        )
        with peak_with_children() as most:
            x = to_numpy(est.fit_transform(graph))
        taken, more = (
            time.perf_counter() - start,
            {"searches_seconds": round(self.searches, 1)},
        )
        more["fit_and_place_seconds"] = round(taken - self.searches, 1)
        more["landmarks"] = int(est.landmarks_.size)
        more["peak_with_processes_gb"] = round(most[0] / 1e9, 2)
        self.add("two levels, relative", x, est.signs_, taken, **more)

    def landmarks(self, count: int) -> tuple[Any, Any]:
        """Fit landmarks and place all nodes, by both losses from the same searches."""
        large_landmarks.shortest_path_rows = self.timed_paths
        self.searches, start = 0.0, time.perf_counter()
        fitted = LandmarkNeucMDS(
            K, count, metric="shortest_path", loss="relative", random_state=0
        )
        x = fitted.fit_transform(self.graph).astype(np.float64)
        taken = time.perf_counter() - start
        self.add(
            "landmarks, relative", x, fitted.signs_, taken, landmarks=count
        )
        start = time.perf_counter()
        other = LandmarkNeucMDS(
            K, landmarks=fitted.landmarks_, symmetrize=True, random_state=0
        )
        squared = other.fit_transform(
            fitted._landmark_fit.nodes.from_sources.T
        ).astype(np.float64)
        taken = time.perf_counter() - start + self.searches
        self.add(
            "landmarks, squared", squared, other.signs_, taken, landmarks=count
        )
        return x, fitted.signs_

    def refined(self, x: Any, signs: Any, iterations: int) -> None:
        """Go on from coordinates with near pairs, rings and 32 far pairs per node."""
        start = time.perf_counter()
        sample = graph_pairs(
            self.graph, 107, "relative", n_landmarks=0, random_state=0
        )
        drawn = time.perf_counter() - start
        # Counted by the inverse of their share, near pairs are nothing beside all others.
        drawn_pairs = replace(sample.pairs, weight=sample.pairs.weight**0.5)
        end = refine_pairs(
            drawn_pairs,
            Configuration(x, Form(np.asarray(signs))),
            partial(descend, max_iter=iterations, tol=2e-3),
        )
        self.add(
            "then pairs, relative",
            end.coordinates,
            signs,
            time.perf_counter() - start,
            drawing_seconds=round(drawn, 1),
            iterations=len(end.history) - 1,
            pairs_a_node=round(2 * sample.pairs.size / sample.pairs.n, 1),
        )

    def alt(self) -> None:
        """Bound paths by the triangle inequality over as many landmarks as coordinates."""
        rng = np.random.RandomState(0)

        def paths_to(node: int) -> Any:
            return shortest_path_rows(self.graph, [node])[0]

        chosen = maxmin(int(self.graph.shape[0]), K, paths_to, rng)
        rows = shortest_path_rows(self.graph, chosen, dtype=np.float32)
        to = np.ascontiguousarray(rows.T)
        row: dict[str, Any] = {"what": "ALT", "landmarks": K}
        row |= errors(
            lambda i, j: np.abs(to[i] - to[j]).max(axis=1), self.pairs
        )
        self.rows.append(row)
        print(row, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", type=int, default=1090)
    parser.add_argument("--landmarks", type=int, default=256)
    parser.add_argument("--two-levels-only", action="store_true")
    parser.add_argument(
        "--iterations", type=int, default=0, help="that go on with near pairs"
    )
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    before = machine()
    graph = as_graph(
        walled_grid(arguments.side, walls=arguments.side**2 // 400)
    )
    print(f"{graph.shape[0]} nodes, {graph.nnz // 2} edges", flush=True)
    study = Study(graph)
    forget_peak()
    study.two_levels(graph)
    if not arguments.two_levels_only:
        x, signs = study.landmarks(arguments.landmarks)
        study.alt()
        if arguments.iterations:
            study.refined(x, np.asarray(signs), arguments.iterations)
    record = {
        "machine": before,
        "versions": versions("numpy", "scipy"),
        "nodes": int(graph.shape[0]),
        "edges": int(graph.nnz // 2),
        "k": K,
        "rows": study.rows,
    }
    if arguments.record is not None:
        write_record(arguments.record, record)


if __name__ == "__main__":
    main()
