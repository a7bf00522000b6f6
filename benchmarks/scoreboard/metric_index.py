"""`MetricIndex` beside graph indexes, a tree and pivots: recall@10 against calls of the distance.

    NEUCMDS_DATA=… python benchmarks/scoreboard/metric_index.py [smiles] [amplicons]
        [--fasta FILE] [--cache FOLDER]
        [--only MetricIndex anydist pynndescent vp-tree laesa]

The strings, the split and the edit distance are those of strings.py. Calls are counted by the
distance itself. `anydist` is HNSW on the distance, m = 5, at several ef. PyNNDescent has the edit
distance in numba (Myers 1999), with two sizes of its graph and several epsilon, and calls no
function of Python. The VP-tree visits the nearer side first and stops after a
number of calls, as does LAESA, which visits objects by their lower bounds from pivots; on amplicons
these and anydist answer the first 200 queries. Needs rapidfuzz, anydist and pynndescent.
"""

from __future__ import annotations

import argparse
import heapq
import json
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import strings
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist
from strings import measure

from neucmds import MetricIndex
from neucmds.index.measuring import shares_found
from neucmds.index.metric_index import EFFORTS, RECALLS

RECORD = measure.RECORDS / "metric_index.json"
Row = dict[str, Any]
PACKAGES = ("numpy", "rapidfuzz", "anydist", "pynndescent", "numba")


@dataclass(frozen=True)
class Data:
    """Strings, and the distance of the tenth nearest fitted string to every query."""

    name: str
    fitted: list[str]
    wanted: list[str]
    limits: np.ndarray


def tenth(text: str, fitted: list[str]) -> float:
    """Return the distance of the tenth nearest: far ones need not be known exactly."""
    for cutoff in (8, 32, 128, None):
        d = cdist(
            [text], fitted, scorer=Levenshtein.distance, score_cutoff=cutoff
        )
        limit = float(np.partition(d[0], 9)[9])
        if cutoff is None or limit <= cutoff:
            break
    return limit


def load(name: str, fasta: Path) -> Data:
    fitted, wanted = strings.drawn(name, fasta)
    limits = np.array([tenth(text, fitted) for text in wanted])
    return Data(name, fitted, wanted, limits)


def recall(data: Data, nearest: np.ndarray) -> float:
    """Return recall@10 of distances found, ties counted."""
    return float(np.mean(nearest <= data.limits[:, None]))


def by_level(
    index: MetricIndex, queries: list[Any], limits: np.ndarray
) -> list[Row]:
    """Search once with the most effort: levels of less effort are its beginnings.

    Limits are the true distances of the tenth nearest. Rows tell what held-out objects promised,
    and the words that choose the level.
    """
    chosen = {word: index._level(word) for word in RECALLS}

    def ask(rows: np.ndarray, ids: np.ndarray) -> np.ndarray:
        d = [
            [index.metric(queries[row], index.objects_[at]) for at in near]
            for row, near in zip(rows, ids, strict=True)
        ]
        return np.array(d).reshape(ids.shape)

    m = len(queries)
    n = len(index.objects_)
    _, _, distances, stops = index._placed.search(ask, m, 10, EFFORTS, n)
    found = shares_found(distances, stops, limits + 1e-12, 10)
    return [
        {
            "setting": level,
            "distances_per_query": float(stops[:, level].mean()),
            "recall_10": float(found[:, level].mean()),
            "promised_recall_10": float(recall),
            "promised_standard_error": float(error),
            "chosen_by": [word for word in chosen if chosen[word] == level],
        }
        for level, (_, recall, error) in enumerate(index.tradeoff_)
    ]


def ours(data: Data, cache: Path | None) -> Iterator[Row]:
    index, built = fitted_index(data, strings.Edits(), cache)
    begin = time.process_time()
    rows = by_level(index, data.wanted, data.limits)
    took = time.process_time() - begin
    rows[-1]["seconds_per_query"] = took / len(data.wanted)
    for row in rows:
        yield {"method": "MetricIndex", **built, **row}


def fitted_index(
    data: Data, edits: strings.Edits, cache: Path | None
) -> tuple[MetricIndex, Row]:
    """Fit, or read what an earlier run of the same code fitted."""
    if cache is not None and (cache / f"{data.name}.json").exists():
        built = json.loads((cache / f"{data.name}.json").read_text())
        return MetricIndex.load(cache / f"{data.name}.npz", edits), built
    begin = time.process_time()
    index = MetricIndex(edits).fit(data.fitted)
    seconds = time.process_time() - begin
    built = {
        "distances_per_object": edits.calls / len(data.fitted),
        "fit_seconds": seconds,
    }
    if cache is not None:
        index.save(cache / f"{data.name}.npz")
        (cache / f"{data.name}.json").write_text(json.dumps(built))
    return index, built


def anydist(data: Data, _: Path | None) -> Iterator[Row]:
    from anydist import HNSW

    edits = strings.Edits()
    graph = HNSW(edits, m=5)
    for text in data.fitted:
        graph.add(text)
    built = edits.calls / len(data.fitted)
    for ef in (20, 40, 80, 120, 240, 480):
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


def vp_tree(data: Data, _: Path | None) -> Iterator[Row]:
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


def laesa(data: Data, _: Path | None) -> Iterator[Row]:
    """Bound distances by pivots from below, and ask the least bounds until so many calls."""
    edits = strings.Edits()
    for pivots in (50, 100):
        table = cdist(
            data.fitted, data.fitted[:pivots], scorer=Levenshtein.distance
        )
        found: dict[int, list[Any]] = {250: [], 500: [], 1000: []}
        calls = dict.fromkeys(found, 0)
        for text in data.wanted:
            row = np.array([edits(text, one) for one in data.fitted[:pivots]])
            bounds = abs(table - row).max(axis=1)
            order = np.argsort(bounds, kind="stable")
            order = order[order >= pivots]
            best = np.sort(row)[:10]
            asked = pivots
            left = list(found)
            for at in order:
                # A bound above the tenth nearest so far ends the search.
                if bounds[at] > best[-1] or not left:
                    break
                d = edits(text, data.fitted[at])
                asked += 1
                if d < best[-1]:
                    best = np.sort(np.append(best[:-1], d))
                if asked == left[0]:
                    found[asked].append(best)
                    calls[asked] += asked
                    left.pop(0)
            for most in left:
                found[most].append(best)
                calls[most] += asked
        for most, nearest in found.items():
            yield {
                "method": f"LAESA, {pivots} pivots",
                "setting": most,
                "distances_per_object": float(pivots),
                "distances_per_query": calls[most] / len(data.wanted),
                "recall_10": recall(data, np.array(nearest)),
            }


def pynndescent(data: Data, _: Path | None) -> Iterator[Row]:
    """Search its graph with the edit distance in numba, which counts in memory of ours."""
    import numba
    from numba.core import types
    from numba.extending import intrinsic
    from pynndescent import NNDescent

    calls = np.zeros(1, np.int64)
    address = calls.ctypes.data

    @intrinsic
    def pointer(typing: Any, source: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            of = context.get_value_type(signature.return_type)
            return builder.inttoptr(args[0], of)

        return types.CPointer(types.int64)(source), code

    letters = sorted(set("".join(data.fitted + data.wanted)))
    n_letters = len(letters)
    one = np.uint64(1)
    last = np.uint64(63)
    every = ~np.uint64(0)

    @numba.njit
    def edits(a: Any, b: Any) -> float:
        """Return the edit distance by Myers' bit vectors, 64 letters of `a` at a time."""
        counter = numba.carray(pointer(address), 1)
        counter[0] += 1
        # The first number is the length of the text.
        m = int(a[0])
        n = int(b[0])
        n_words = (m + 63) // 64
        where = np.zeros((n_letters, n_words), np.uint64)
        for i in range(m):
            where[int(a[i + 1]), i // 64] |= one << np.uint64(i % 64)
        top = np.uint64((m - 1) % 64)
        rises = np.full(n_words, every)
        falls = np.zeros(n_words, np.uint64)
        score = m
        for j in range(n):
            # The first row rises by one per letter of `b`.
            rise = one
            fall = np.uint64(0)
            for word in range(n_words):
                same = where[int(b[j + 1]), word]
                up = rises[word]
                down = falls[word]
                across = same | down
                same |= fall
                along = (((same & up) + up) ^ up) | same
                right_up = down | ~(along | up)
                right_down = up & along
                if word == n_words - 1:
                    score += int((right_up >> top) & one)
                    score -= int((right_down >> top) & one)
                next_rise = right_up >> last
                next_fall = right_down >> last
                right_up = (right_up << one) | rise
                right_down = (right_down << one) | fall
                rises[word] = right_down | ~(across | right_up)
                falls[word] = right_up & across
                rise = next_rise
                fall = next_fall
        return float(score)

    width = 1 + max(map(len, data.fitted + data.wanted))
    codes = {letter: code for code, letter in enumerate(letters)}

    def coded(texts: list[str]) -> np.ndarray:
        table = np.zeros((len(texts), width), np.float32)
        for row, text in zip(table, texts, strict=True):
            row[0] = len(text)
            row[1 : len(text) + 1] = [codes[letter] for letter in text]
        return table

    fitted = coded(data.fitted)
    for text, row in zip(data.fitted[1:100], fitted[1:100], strict=True):
        d = Levenshtein.distance(data.fitted[0], text)
        assert edits(fitted[0], row) == d
    wanted = coded(data.wanted)
    for neighbours in (15, 30):
        calls[:] = 0
        begin = time.process_time()
        graph = NNDescent(
            fitted,
            metric=edits,
            n_neighbors=neighbours,
            random_state=0,
            n_jobs=1,
        )
        graph.prepare()
        seconds = time.process_time() - begin
        built = float(calls[0] / len(fitted))
        for epsilon in (0.0, 0.05, 0.1, 0.2, 0.3):
            calls[:] = 0
            begin = time.process_time()
            _, nearest = graph.query(wanted, k=10, epsilon=epsilon)
            took = time.process_time() - begin
            yield {
                "method": f"PyNNDescent, {neighbours} neighbours",
                "setting": epsilon,
                "distances_per_object": built,
                "fit_seconds": seconds,
                "distances_per_query": float(calls[0] / len(wanted)),
                "recall_10": recall(data, nearest),
                "seconds_per_query": took / len(wanted),
            }


METHODS = {
    "MetricIndex": ours,
    "anydist": anydist,
    "vp-tree": vp_tree,
    "laesa": laesa,
    "pynndescent": pynndescent,
}

# They take Python's time for every object that they visit.
SLOW = ("anydist", "vp-tree", "laesa")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=list(strings.CASES))
    parser.add_argument("--fasta", type=Path, default=strings.FASTA)
    parser.add_argument("--cache", type=Path, help="folder of fitted indexes")
    parser.add_argument("--only", nargs="*", default=METHODS, choices=METHODS)
    parser.add_argument("--record", type=Path, default=RECORD)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in given.cases:
        whole = load(name, given.fasta)
        for method in given.only:
            data = whole
            if method in SLOW and name == "amplicons":
                data = replace(
                    data, wanted=data.wanted[:200], limits=data.limits[:200]
                )
            facts = {
                "data": name,
                "n": len(data.fitted),
                "queries": len(data.wanted),
            }
            for row in METHODS[method](data, given.cache):
                print(facts | row, flush=True)
                measure.keep_row(given.record, facts | row, PACKAGES)


if __name__ == "__main__":
    main()
