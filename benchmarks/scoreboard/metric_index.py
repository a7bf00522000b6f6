"""`MetricIndex` beside a graph index and a tree: recall@10 against calls of the distance.

    NEUCMDS_DATA=… python benchmarks/scoreboard/metric_index.py [smiles] [amplicons]
        [--cache FOLDER] [--fasta FILE] [--without anydist vp-tree]

The strings, the split and the edit distance are those of strings.py. Calls are counted by the
distance itself, and by LAESA as it reads them from a matrix. `anydist` is HNSW on the distance,
m = 5, at several ef; the VP-tree visits the nearer side first and stops after a number of calls, as
does LAESA, which visits objects by their lower bounds from pivots. Needs rapidfuzz, faiss and
anydist.
"""

from __future__ import annotations

import argparse
import heapq
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import strings
from strings import measure

from neucmds import MetricIndex

RECORD = measure.RECORDS / "metric_index.json"
Row = dict[str, Any]
PACKAGES = ("numpy", "rapidfuzz", "anydist")


def recall(data: strings.Data, nearest: np.ndarray) -> float:
    """Return recall@10 of distances found, ties counted."""
    limit = np.partition(data.truth, 9, axis=1)[:, 9:10]
    return float(np.mean(nearest <= limit))


def ours(data: strings.Data) -> Iterator[Row]:
    edits = strings.Edits()
    begin = time.process_time()
    index = MetricIndex(edits).fit(data.fitted)
    seconds = time.process_time() - begin
    built = edits.calls / len(data.fitted)
    for level, (_, promised) in enumerate(index.tradeoff_[:9]):
        # The effort of each level, whatever recall held-out objects had.
        index._level = lambda _, level=level: level
        edits.calls = 0
        begin = time.process_time()
        _, nearest, _ = index.query(data.wanted)
        took = time.process_time() - begin
        yield {
            "method": "MetricIndex",
            "setting": level,
            "distances_per_object": built,
            "fit_seconds": seconds,
            "distances_per_query": edits.calls / len(data.wanted),
            "recall_10": recall(data, nearest),
            "held_out_recall_10": float(promised),
            "seconds_per_query": took / len(data.wanted),
        }


def anydist(data: strings.Data) -> Iterator[Row]:
    from anydist import HNSW

    edits = strings.Edits()
    graph = HNSW(edits, m=5)
    for text in data.fitted:
        graph.add(text)
    built = edits.calls / len(data.fitted)
    for ef in (20, 40, 80, 120):
        edits.calls = 0
        nearest = [
            [pair[1] for pair in graph.search(text, 10, ef=ef)]
            for text in data.wanted
        ]
        yield {
            "method": "anydist, m = 5",
            "setting": ef,
            "distances_per_object": built,
            "distances_per_query": edits.calls / len(data.wanted),
            "recall_10": recall(data, np.array(nearest)),
        }


def vp_tree(data: strings.Data) -> Iterator[Row]:
    edits = strings.Edits()
    rng = np.random.default_rng(0)

    def built(ids: list[int]) -> Any:
        if not ids:
            return None
        at = ids.pop(int(rng.integers(len(ids))))
        if not ids:
            return at, 0.0, None, None
        d = np.array([edits(data.fitted[at], data.fitted[i]) for i in ids])
        radius = float(np.median(d))
        inner = [i for i, near in zip(ids, d <= radius, strict=True) if near]
        outer = [i for i, near in zip(ids, d > radius, strict=True) if near]
        if not outer:
            half = len(inner) // 2
            inner, outer = inner[:half], inner[half:]
        return at, radius, built(inner), built(outer)

    def search(tree: Any, text: str, most: int) -> list[float]:
        """Visit nodes by their lower bounds; stop after `most` calls."""
        best: list[float] = []
        queue = [(0.0, 0, tree)]
        calls = 0
        while queue and calls < most:
            bound, _, (at, radius, inner, outer) = heapq.heappop(queue)
            if len(best) == 10 and bound > best[-1]:
                break
            d = edits(text, data.fitted[at])
            calls += 1
            best = sorted([*best, d])[:10]
            for side, least in ((inner, d - radius), (outer, radius - d)):
                if side is not None:
                    order = -(2 * calls + (side is inner))
                    heapq.heappush(queue, (max(bound, least), order, side))
        return best + [np.inf] * (10 - len(best))

    tree = built(list(range(len(data.fitted))))
    per_object = edits.calls / len(data.fitted)
    for most in (250, 500, 1000):
        edits.calls = 0
        nearest = [search(tree, text, most) for text in data.wanted]
        yield {
            "method": "VP-tree",
            "setting": most,
            "distances_per_object": per_object,
            "distances_per_query": edits.calls / len(data.wanted),
            "recall_10": recall(data, np.array(nearest)),
        }


def laesa(data: strings.Data) -> Iterator[Row]:
    """Bound distances by pivots from below, and ask the least bounds until so many calls."""
    for pivots in (24, 50, 100):
        table = data.table[:pivots].T.astype(float)
        known = data.truth[:, :pivots].astype(float)
        for most in (250, 500, 1000):
            nearest = []
            calls = 0
            for row, truth in zip(known, data.truth, strict=True):
                bounds = np.abs(table - row).max(axis=1)
                order = np.argsort(bounds, kind="stable")
                order = order[order >= pivots][: most - pivots]
                d = np.append(row, truth[order])
                # A bound above the tenth nearest so far ends the search.
                best = np.sort(row)[:10]
                asked = pivots
                for at, value in zip(order, truth[order], strict=True):
                    if bounds[at] > best[-1]:
                        break
                    asked += 1
                    if value < best[-1]:
                        best = np.sort(np.append(best[:-1], value))
                d = d[:asked]
                calls += asked
                nearest.append(np.sort(d)[:10])
            yield {
                "method": f"LAESA, {pivots} pivots",
                "setting": most,
                "distances_per_object": float(pivots),
                "distances_per_query": calls / len(data.wanted),
                "recall_10": recall(data, np.array(nearest)),
            }


METHODS = {
    "MetricIndex": ours,
    "anydist": anydist,
    "vp-tree": vp_tree,
    "laesa": laesa,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=list(strings.CASES))
    parser.add_argument("--fasta", type=Path, default=strings.FASTA)
    parser.add_argument("--cache", type=Path, help="folder of edit distances")
    parser.add_argument("--without", nargs="*", default=[], choices=METHODS)
    parser.add_argument("--record", type=Path, default=RECORD)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in given.cases:
        data = strings.load(name, given.fasta, given.cache)
        facts = {
            "data": name,
            "n": len(data.fitted),
            "queries": len(data.wanted),
        }
        for method in METHODS:
            if method in given.without:
                continue
            for row in METHODS[method](data):
                print(facts | row, flush=True)
                measure.keep_row(given.record, facts | row, PACKAGES)


if __name__ == "__main__":
    main()
