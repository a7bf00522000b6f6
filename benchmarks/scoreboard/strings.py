"""Your own distance in a vector index: strings found by edit distance, and by k numbers per string.

    NEUCMDS_DATA=… python benchmarks/scoreboard/strings.py [smiles] [amplicons] [--cache FOLDER]
        [--method squared relative others …]

SMILES: 4,000 of the 4,900 strings of nci_smiles.txt are fitted, 900 are queries. Amplicons: of the
different 18S sequences of at least 50 letters in BioMarKs50k.fsa.gz (Debian's vsearch-examples),
20,000 are fitted and 1,000 are queries. The first L of the fitted strings are the landmarks of all
methods. Recall@10 is the share of the ten nearest fitted strings found, ties counted: as the
numbers rank them, and with the best 50 and 100 ranked by edit distance. With the edit distances in
a cache one run takes more than half an hour; without, 4·10⁷ distances take a quarter of one more.

- neucmds: landmarks by each loss; "neuc+" in positive coordinates alone with linear placement,
  which any Euclidean index takes; in two levels, which choose their own landmarks and near ones.
- landmark MDS: de Silva and Tenenbaum 2004, classical MDS of the landmarks and triangulation.
- LAESA: max |d(q, l) − d(x, l)| over landmarks; over k of them, and over all L (L numbers stored).
- ANNCUR: d ≈ d(q, A) pinv(D(L, A)) D(L, x) with k anchors A among the landmarks (Yadav et al.,
  EMNLP 2022): a query needs k distances only.
- Nyström: the k largest |λ| of D among the landmarks, with their signs.

ANNCUR and Nyström work on d or on d², whichever finds more. No published figure is on these data.
Needs rapidfuzz, faiss and usearch.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
# Last: examples share names with scripts here.
sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))
import losses
import measure
import vector_index
from neucmds import Embedding, LandmarkNeucMDS

with measure.needed("rapidfuzz"):
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist

RECORD = measure.RECORDS / "strings.json"
FASTA = Path("/usr/share/doc/vsearch-examples/BioMarKs50k.fsa.gz")
SHORTEST = 50
LANDMARKS = (200, 400, 1000)
NUMBERS = (32, 64)
LOSSES = ("squared", "distance", "relative")
METHODS = (*LOSSES, "linear", "others", "two-levels")
NEIGHBOURS, RANKED = 10, (50, 100)
Row = dict[str, Any]
# Scores of all queries against all objects: less is nearer.
Ranking = Callable[[], np.ndarray]


@dataclass(frozen=True)
class Data:
    """Strings, and edit distances of queries and of landmarks to all fitted strings."""

    name: str
    fitted: list[str]
    wanted: list[str]
    truth: np.ndarray
    table: np.ndarray


def smiles(_: Path) -> tuple[list[str], int, int]:
    path = losses._file("strings", "nci_smiles.txt")
    return path.read_text(encoding="utf-8").split(), 4000, 900


def amplicons(fasta: Path) -> tuple[list[str], int, int]:
    with gzip.open(fasta, "rt") as lines:
        parts = "".join(
            "\n" if line[0] == ">" else line.strip() for line in lines
        ).split()
    return (
        sorted(one for one in set(parts) if len(one) >= SHORTEST),
        20000,
        1000,
    )


CASES = {"smiles": smiles, "amplicons": amplicons}


def drawn(name: str, fasta: Path) -> tuple[list[str], list[str]]:
    """Return the fitted strings and the queries."""
    strings, n, queries = CASES[name](fasta)
    order = np.random.default_rng(0).permutation(len(strings))[: n + queries]
    strings = [strings[i] for i in order]
    return strings[:n], strings[n:]


def load(name: str, fasta: Path, cache: Path | None) -> Data:
    fitted, wanted = drawn(name, fasta)

    def distances(what: str, rows: list[str]) -> np.ndarray:
        path = None if cache is None else cache / f"{name}_{what}.npy"
        if path is not None and path.exists():
            return np.load(path)
        made = cdist(rows, fitted, scorer=Levenshtein.distance, dtype=np.int16)
        if path is not None:
            np.save(path, made)
        return made

    table = distances("landmarks", fitted[: max(LANDMARKS)])
    return Data(name, fitted, wanted, distances("queries", wanted), table)


def landmark_mds(data: Data, n_landmarks: int, k: int) -> Ranking:
    sq = data.table[:n_landmarks].astype(float) ** 2
    own = sq[:, :n_landmarks]
    mean = own.mean(axis=0)
    values, vectors = np.linalg.eigh(
        -0.5 * (own - mean - mean[:, None] + mean.mean())
    )
    kept = np.argsort(-values)[:k]
    projector = -0.5 * (vectors[:, kept] / np.sqrt(values[kept])).T
    x = (projector @ (sq - mean[:, None])).T

    def rank() -> np.ndarray:
        placed = (
            data.truth[:, :n_landmarks].astype(float) ** 2 - mean
        ) @ projector.T
        return (x**2).sum(axis=1) - 2 * placed @ x.T

    return rank


def laesa(data: Data, n_landmarks: int, k: int) -> Ranking:
    table = np.ascontiguousarray(data.table[:k].T)

    def rank() -> np.ndarray:
        found = (np.abs(table - row).max(axis=1) for row in data.truth[:, :k])
        return np.stack(list(found))

    return rank


def anncur(data: Data, n_landmarks: int, k: int, power: int) -> Ranking:
    rows = data.table[:n_landmarks].astype(float) ** power
    items = np.linalg.pinv(rows[:, :k]) @ rows
    return lambda: (data.truth[:, :k].astype(float) ** power) @ items


def nystrom(data: Data, n_landmarks: int, k: int, power: int) -> Ranking:
    rows = data.table[:n_landmarks].astype(float) ** power
    values, vectors = np.linalg.eigh(rows[:, :n_landmarks])
    kept = np.argsort(-np.abs(values))[:k]
    items = (vectors[:, kept] / values[kept]).T @ rows

    def rank() -> np.ndarray:
        placed = (
            data.truth[:, :n_landmarks].astype(float) ** power
        ) @ vectors[:, kept]
        return placed @ items

    return rank


def found(data: Data, scores: np.ndarray) -> Row:
    """Recall of the nearest by scores: as they rank, and the best of them by edit distance."""
    order = np.argpartition(scores, RANKED[-1], axis=1)[:, : RANKED[-1]]
    near = np.take_along_axis(scores, order, axis=1)
    order = np.take_along_axis(
        order, np.argsort(near, axis=1, kind="stable"), axis=1
    )
    return recalls(data, order)


def recalls(data: Data, order: np.ndarray) -> Row:
    limit = np.partition(data.truth, NEIGHBOURS - 1, axis=1)[
        :, NEIGHBOURS - 1 : NEIGHBOURS
    ]
    good = (np.take_along_axis(data.truth, order, axis=1) <= limit) & (
        order >= 0
    )

    def shares(candidates: int) -> np.ndarray:
        return (
            np.minimum(good[:, :candidates].sum(axis=1), NEIGHBOURS)
            / NEIGHBOURS
        )

    def standard_error(each: np.ndarray) -> float:
        return float(each.std() / np.sqrt(each.size))

    counts = [one for one in (NEIGHBOURS, *RANKED) if one <= order.shape[1]]
    found = {f"recall_{one}": shares(one) for one in counts}
    errors = {
        f"error_{one[7:]}": standard_error(each) for one, each in found.items()
    }
    return {one: float(each.mean()) for one, each in found.items()} | errors


def others(data: Data, n_landmarks: int, k: int) -> Iterator[Row]:
    made: dict[str, tuple[int, int, list[Any]]] = {
        "landmark MDS": (
            n_landmarks,
            k,
            [partial(landmark_mds, data, n_landmarks, k)],
        ),
        "LAESA, k numbers": (k, k, [partial(laesa, data, n_landmarks, k)]),
        "LAESA, L numbers": (
            n_landmarks,
            n_landmarks,
            [partial(laesa, data, 0, n_landmarks)],
        ),
        "ANNCUR": (
            k,
            k,
            [partial(anncur, data, n_landmarks, k, power) for power in (1, 2)],
        ),
        "Nyström": (
            n_landmarks,
            k,
            [partial(nystrom, data, n_landmarks, k, p) for p in (1, 2)],
        ),
    }
    for method, (asked, numbers, fits) in made.items():
        best: Row = {}
        for fit in fits:
            rank = fit()
            begin = time.process_time()
            scores = rank()
            seconds = (time.process_time() - begin) / len(scores)
            row = found(data, scores) | {"seconds_per_query": seconds}
            best = max(best, row, key=lambda one: one.get("recall_50", -1))
        facts = {
            "method": method,
            "distances_per_query": asked,
            "numbers": numbers,
        }
        yield (
            facts
            | {
                "distances_per_object": asked
                if "LAESA" in method
                else n_landmarks
            }
            | best
        )


def placed_row(
    data: Data, emb: Embedding, place: Callable[[], np.ndarray]
) -> Row:
    begin = time.process_time()
    coordinates = place()
    order, _ = emb.neighbors(RANKED[-1], coordinates)
    seconds = (time.process_time() - begin) / len(data.truth)
    facts = {
        "numbers": emb.k,
        "signature": list(emb.signature),
        "seconds_per_query": seconds,
    }
    return facts | recalls(data, np.asarray(order))


def ours(
    data: Data, n_landmarks: int, k: int, words: list[str]
) -> Iterator[Row]:
    """Landmarks by each loss and in closed form, and the relative ones in vector indexes."""
    known = data.table[:n_landmarks].T.astype(float)
    wanted = data.truth[:, :n_landmarks].astype(float)
    asked = {
        "distances_per_object": n_landmarks,
        "distances_per_query": n_landmarks,
    }
    options: dict[str, Row] = {
        loss: {"n_components": k, "loss": loss} for loss in LOSSES
    }
    options["linear"] = {
        "n_components": (k, 0),
        "method": "neuc+",
        "placement": "linear",
    }
    for word in (one for one in words if one in options):
        est = LandmarkNeucMDS(
            landmarks=np.arange(n_landmarks), random_state=0, **options[word]
        )
        begin = time.process_time()
        est.fit_transform(known)
        seconds = time.process_time() - begin
        emb = est.result_
        row = placed_row(data, emb, lambda est=est: est.transform(wanted))
        yield (
            {"method": f"neucmds, {word}", "fit_seconds": seconds}
            | asked
            | row
        )
        if word == "relative" and n_landmarks == max(LANDMARKS):
            yield from indexes(data, emb, est.transform(wanted), asked)


def indexes(
    data: Data, emb: Embedding, placed: np.ndarray, asked: Row
) -> Iterator[Row]:
    plain = {
        "FAISS IVF, lengths as they are": (
            "faiss",
            False,
            vector_index.faiss_ivf,
        ),
        "FAISS HNSW, lengths as they are": (
            "faiss",
            False,
            vector_index.faiss_hnsw,
        ),
    }
    exact, _ = emb.neighbors(NEIGHBOURS, placed)
    for name, (package, unit, search) in (
        vector_index.SEARCHES | plain
    ).items():
        if package == "qdrant_client":
            continue
        begin = time.process_time()
        order = search(emb.to_inner_product(unit=unit), placed, RANKED[-1])
        seconds = (time.process_time() - begin) / len(placed)
        pairs = zip(order[:, :NEIGHBOURS], exact, strict=True)
        same = (
            float(np.mean([len(set(a) & set(b)) for a, b in pairs]))
            / NEIGHBOURS
        )
        facts = {
            "method": f"in {name}",
            "numbers": emb.k + 1 + unit,
            "same_as_exact": same,
        }
        yield (
            facts
            | asked
            | {"seconds_with_building": seconds}
            | recalls(data, order)
        )


class Edits:
    """Edit distance that counts how often it is asked for."""

    calls = 0

    def __call__(self, a: str, b: str) -> float:
        """Compare two strings."""
        self.calls += 1
        return float(Levenshtein.distance(a, b))


def two_levels(data: Data, k: int) -> Row:
    edits = Edits()
    est = LandmarkNeucMDS(
        k, metric=edits, loss="relative", n_near=None, random_state=0
    )
    begin = time.process_time()
    est.fit_transform(data.fitted)
    seconds, calls = time.process_time() - begin, edits.calls
    row = placed_row(data, est.result_, lambda: est.transform(data.wanted))
    asked = (edits.calls - calls) / len(data.wanted)
    return {
        "method": "neucmds, two levels",
        "landmarks": int(est.landmarks_.size),
        "fit_seconds": seconds,
        "distances_per_object": calls / len(data.fitted),
        "distances_per_query": asked,
        **row,
        "seconds_include_distances": True,
    }


def distance_seconds(data: Data, count: int = 10000) -> float:
    """Return what one edit distance takes."""
    begin = time.process_time()
    for one in data.wanted[: count // 1000]:
        cdist([one], data.fitted[:1000], scorer=Levenshtein.distance)
    return (time.process_time() - begin) / count


def rows(data: Data, words: list[str], numbers: list[int]) -> Iterator[Row]:
    for k in numbers:
        if "two-levels" in words:
            yield {"k": k, "L": None} | two_levels(data, k)
        for n_landmarks in LANDMARKS:
            cell = {"k": k, "L": n_landmarks}
            if "others" in words:
                yield from (cell | row for row in others(data, n_landmarks, k))
            yield from (
                cell | row for row in ours(data, n_landmarks, k, words)
            )


def key(row: Row) -> tuple[Any, ...]:
    return row["data"], row["k"], row["L"], row["method"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--fasta", type=Path, default=FASTA)
    parser.add_argument("--cache", type=Path, help="folder of edit distances")
    parser.add_argument(
        "--method", nargs="+", choices=METHODS, default=METHODS
    )
    parser.add_argument("--k", type=int, nargs="+", default=NUMBERS)
    parser.add_argument("--record", type=Path, default=RECORD)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    known = (
        json.loads(given.record.read_text())
        if given.record.exists()
        else {"rows": []}
    )
    kept, costs = known["rows"], known.get("distance_seconds", {})
    for name in given.cases:
        data = load(name, given.fasta, given.cache)
        costs[name] = distance_seconds(data)
        for row in rows(data, given.method, given.k):
            made = {
                "data": name,
                "n": len(data.fitted),
                "queries": len(data.wanted),
            } | row
            print(made, flush=True)
            kept = [one for one in kept if key(one) != key(made)] + [made]
            facts = {"machine": measure.machine(), "distance_seconds": costs}
            facts["versions"] = measure.versions(
                "numpy", "rapidfuzz", "faiss-cpu", "usearch"
            )
            measure.write_record(given.record, facts | {"rows": kept})


if __name__ == "__main__":
    main()
