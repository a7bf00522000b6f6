"""Nearest objects of held-out queries: as the coordinates have them, and with candidates reranked.

    NEUCMDS_DATA=… python benchmarks/retrieval.py [smiles] [digits] [helsinki]
    python benchmarks/retrieval.py --render       the tables of docs/guide from the record alone

Four fifths of the objects are fitted, the others are queries. Recall is the share of the ten
nearest fitted objects by the true dissimilarity (ties counted) among the ten found; reranked, among
the 50 found. Rows:

- classical MDS, the squared and the relative loss of `refined`, queries placed by the loss of the
  fit from their dissimilarities to all fitted objects, or to 400 of them;
- `LandmarkNeucMDS`, all objects placed from 400 landmarks;
- lower bounds by pivots (ALT on a map, LAESA elsewhere): max |d(q, l) − d(x, l)| over as many
  landmarks as there are coordinates;
- pynndescent with the dissimilarity itself as its metric, where that is a function of two objects;
- indexes of examples/vector_index.py, on the vectors of the relative fit.

`true_dissimilarities` are those that a query needs before it is reranked; `seconds_a_query` is the
time to place and search, without computing them. Needs the extra `bench`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import measure
import real_data
from neucmds import LandmarkNeucMDS, neuc_mds
from neucmds.datasets import hop_distances

sys.path.append(str(Path(__file__).parents[1] / "examples"))

import vector_index

RECORD = measure.RECORDS / "retrieval.json"
PAGE = Path(__file__).parents[1] / "docs" / "guide" / "coordinates.md"
FITS: dict[str, dict[str, Any]] = {
    "classical": {"method": "classical"},
    "squared": {},
    "relative": {"loss": "relative"},
}
SOME = 400
Row = dict[str, Any]


def smiles() -> tuple[np.ndarray, int]:
    """Edit distances of 4,900 SMILES strings, k = 32."""
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist

    return cdist(_strings(), _strings(), scorer=Levenshtein.distance).astype(float), 32


def digits() -> tuple[np.ndarray, int]:
    """Hops between 1,797 digits, k = 20."""
    return hop_distances(load_digits().data, n_neighbors=5, connect=True), 20


def helsinki() -> tuple[np.ndarray, int]:
    """Street distances of Helsinki's 2,296 crossings, k = 16."""
    import scipy.sparse as sp
    from scipy.sparse.csgraph import dijkstra

    data = np.load(_folder("networks") / "helsinki.npz")
    n, (i, j) = len(data["xy"]), data["edges"].T
    graph = sp.csr_array((data["length"], (i, j)), shape=(n, n))
    crossings = data["crossings"]
    d = dijkstra(graph, directed=False, indices=crossings)[:, crossings]
    return (d + d.T) / 2, 16


CASES: dict[str, Callable[[], tuple[np.ndarray, int]]] = {
    "smiles": smiles,
    "digits": digits,
    "helsinki": helsinki,
}


def _folder(kind: str) -> Path:
    return real_data.data_folders(None, kind)[-1]


def _strings() -> list[str]:
    return (_folder("strings") / "nci_smiles.txt").read_text(encoding="utf-8").split()


def study(name: str) -> list[Row]:
    D, k = CASES[name]()
    order = np.random.default_rng(0).permutation(len(D))
    fitted, queries = order[: len(D) * 4 // 5], order[len(D) * 4 // 5 :]
    known, new = D[np.ix_(fitted, fitted)], D[np.ix_(queries, fitted)]
    rows = [
        *embeddings(known, new, k),
        landmark_row(known, new, k),
        pivot_row(known, new, k),
        pivot_row(known, new, 4 * k),
    ]
    if name == "smiles":
        strings = _strings()
        fitted_strings, wanted = ([strings[i] for i in ids] for ids in (fitted, queries))
        rows += [brute_force_row(fitted_strings, wanted), descent_row(fitted_strings, wanted, new)]
    return [{"data": name, "n": len(fitted), "queries": len(queries)} | row for row in rows]


def embeddings(known: np.ndarray, new: np.ndarray, k: int) -> list[Row]:
    """Fit by each loss; search exactly, and with the last, the relative one, in indexes."""
    rows = []
    for method, settings in FITS.items():
        start = time.perf_counter()
        emb = neuc_mds(known, k, random_state=0, **settings)
        fit_seconds = time.perf_counter() - start
        start = time.perf_counter()
        placed = emb.transform(new)
        ids, _ = emb.neighbors(50, placed)
        seconds = (time.perf_counter() - start) / len(new)
        facts = {"numbers": k, "signature": list(emb.signature), "fit_seconds": fit_seconds}
        rows.append(found_row(method, new, ids, known.shape[0], seconds) | facts)
    return [*rows, placed_from_some(emb, new), *indexes(emb, placed, new)]


def placed_from_some(emb: Any, new: np.ndarray) -> Row:
    """Place queries of a fit of all objects from their dissimilarities to some."""
    some = np.sort(np.random.default_rng(1).permutation(emb.n)[:SOME])
    centre = emb.coordinates[some].mean(axis=0)
    start = time.perf_counter()
    rule = replace(emb.placement, coordinates=emb.coordinates[some] - centre)
    ids, _ = emb.neighbors(50, rule.place(np.ascontiguousarray(new[:, some]) ** 2) + centre)
    seconds = (time.perf_counter() - start) / len(new)
    return found_row(f"relative, placed from {SOME}", new, ids, SOME, seconds) | {"numbers": emb.k}


def landmark_row(known: np.ndarray, new: np.ndarray, k: int) -> Row:
    """Embed landmarks by the relative loss, and place all others among them."""
    est = LandmarkNeucMDS(k, SOME, loss="relative", random_state=0)
    start = time.perf_counter()
    est.fit_transform(known)
    fit_seconds = time.perf_counter() - start
    start = time.perf_counter()
    ids = est.kneighbors(new, 50, return_distance=False)
    seconds = (time.perf_counter() - start) / len(new)
    facts = {"numbers": k, "signature": list(est.result_.signature), "fit_seconds": fit_seconds}
    return found_row(f"relative, {SOME} landmarks", new, ids, SOME, seconds) | facts


def pivot_row(known: np.ndarray, new: np.ndarray, count: int) -> Row:
    """Order objects by the triangle inequality's lower bound over landmarks far from each other."""
    pivots = [int(np.argmax(known[0]))]
    while len(pivots) < count:
        pivots.append(int(np.argmax(known[:, pivots].min(axis=1))))
    start = time.perf_counter()
    ids = np.empty((len(new), 50), dtype=np.int64)
    for i, row in enumerate(new[:, pivots]):
        bound = np.abs(known[:, pivots] - row).max(axis=1)
        ids[i] = np.argsort(bound, kind="stable")[:50]
    seconds = (time.perf_counter() - start) / len(new)
    return found_row("pivots (ALT)", new, ids, count, seconds) | {"numbers": count}


def brute_force_row(strings: list[str], wanted: list[str]) -> Row:
    """All edit distances of a query, on one core."""
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist

    start = time.perf_counter()
    for query in wanted:
        found = cdist([query], strings, scorer=Levenshtein.distance, workers=1)
        np.argpartition(found[0], 10)
    seconds = (time.perf_counter() - start) / len(wanted)
    facts = {"recall10": 1.0, "recall10_reranked50": 1.0, "seconds_a_query": seconds}
    return {"method": "brute force (rapidfuzz)", "true_dissimilarities": len(strings)} | facts


def descent_row(strings: list[str], wanted: list[str], new: np.ndarray) -> Row:
    """Search by pynndescent with the edit distance, of strings written as numbers."""
    from pynndescent import NNDescent

    longest = max(len(text) for text in strings + wanted)
    start = time.perf_counter()
    index = NNDescent(_as_numbers(strings, longest), metric=_edit_distance(), random_state=0)
    index.prepare()
    fit_seconds = time.perf_counter() - start
    queries = _as_numbers(wanted, longest)
    index.query(queries[:2], k=50)  # compiles
    start = time.perf_counter()
    ids, _ = index.query(queries, k=50)
    seconds = (time.perf_counter() - start) / len(wanted)
    row = found_row("pynndescent, edit distance", new, ids.astype(np.int64), None, seconds)
    return row | {"fit_seconds": fit_seconds}


def _as_numbers(strings: list[str], longest: int) -> np.ndarray:
    """Rows of a length and the letters, as the float32 that pynndescent works in."""
    out = np.zeros((len(strings), longest + 1), dtype=np.float32)
    for i, text in enumerate(strings):
        out[i, 0] = len(text)
        out[i, 1 : len(text) + 1] = [ord(letter) for letter in text]
    return out


def _edit_distance() -> Any:
    import numba

    @numba.njit(fastmath=True)
    def distance(a: Any, b: Any) -> Any:
        n, m = int(a[0]), int(b[0])
        row = np.arange(m + 1)
        for i in range(1, n + 1):
            above, row[0] = row[0], i
            for j in range(1, m + 1):
                best = above + (a[i] != b[j])
                above = row[j]
                row[j] = min(best, above + 1, row[j - 1] + 1)
        return np.float32(row[m])

    return distance


def indexes(emb: Any, placed: np.ndarray, true: np.ndarray) -> list[Row]:
    """Search the vectors of an embedding in every index of the example."""
    searches = vector_index.SEARCHES | {
        "FAISS IVF, lengths as they are": ("faiss", False, vector_index.faiss_ivf),
        "FAISS HNSW, lengths as they are": ("faiss", False, vector_index.faiss_hnsw),
    }
    exact, _ = emb.neighbors(10, placed)
    rows = []
    for label, (_, unit, search) in searches.items():
        start = time.perf_counter()
        ids = search(emb.to_inner_product(unit=unit), placed, 50)
        seconds = (time.perf_counter() - start) / len(true)
        same = np.mean([len(set(a[:10]) & set(b)) / 10 for a, b in zip(ids, exact, strict=True)])
        row = found_row(f"relative in {label}", true, np.where(ids < 0, 0, ids), None, seconds)
        rows.append(row | {"same_as_exact": float(same)})
    return rows


def found_row(
    method: str, true: np.ndarray, ids: np.ndarray, needed: int | None, seconds: float
) -> Row:
    return {
        "method": method,
        "recall10": recall(true, ids[:, :10]),
        "recall10_reranked50": reranked(true, ids),
        "true_dissimilarities": needed,
        "seconds_a_query": seconds,
    }


def recall(true: np.ndarray, ids: np.ndarray, count: int = 10) -> float:
    """Share of found objects that are as near as the count-th nearest."""
    limit = np.partition(true, count - 1, axis=1)[:, count - 1 : count]
    return float(np.mean(np.take_along_axis(true, ids, axis=1) <= limit * (1 + 1e-12)))


def reranked(true: np.ndarray, ids: np.ndarray, count: int = 10) -> float:
    """Recall when the candidates' true dissimilarities decide among them."""
    among = np.argsort(np.take_along_axis(true, ids, axis=1), axis=1, kind="stable")[:, :count]
    return recall(true, np.take_along_axis(ids, among, axis=1), count)


def render() -> None:
    """Write the tables of the guide from the record."""
    rows = json.loads(RECORD.read_text(encoding="utf-8"))["rows"]
    cells = {(row["method"], row.get("numbers"), row["data"]): row for row in rows}
    titles = {
        "smiles": "SMILES, edit distance, k = 32",
        "digits": "digits, hops, k = 20",
        "helsinki": "Helsinki, streets, k = 16",
    }

    def table(lines: dict[str, tuple[str, Any]], cell: Callable[[Row], str]) -> str:
        found = ["| | " + " | ".join(titles.values()) + " |", "|---|---|---|---|"]
        for title, (method, numbers) in lines.items():
            known = [cells.get((method, _numbers(numbers, data), data)) for data in titles]
            found.append(f"| {title} | " + " | ".join(cell(row) if row else "–" for row in known))
            found[-1] += " |"
        return "\n".join(found)

    in_index = {
        label: (f"relative in {label}", None)
        for label in (
            *vector_index.SEARCHES,
            "FAISS IVF, lengths as they are",
            "FAISS HNSW, lengths as they are",
        )
    }
    measured = {row["method"] for row in rows}
    in_index = {label: line for label, line in in_index.items() if line[0] in measured}
    ways = {
        "classical MDS": ("classical", 1),
        "`refined`": ("squared", 1),
        '`refined`, `loss="relative"`': ("relative", 1),
        f"the same, placed from {SOME}": (f"relative, placed from {SOME}", 1),
        f"`LandmarkNeucMDS`, {SOME} landmarks, relative": (f"relative, {SOME} landmarks", 1),
        "pivots (ALT), as many numbers": ("pivots (ALT)", 1),
        "pivots (ALT), four times as many": ("pivots (ALT)", 4),
        "pynndescent, the dissimilarity as its metric": ("pynndescent, edit distance", None),
        "brute force": ("brute force (rapidfuzz)", None),
    }
    tables = {
        "retrieval: indexes": table(in_index, lambda row: f"{row['same_as_exact']:.3f}"),
        "retrieval: ways": table(
            ways,
            lambda row: (
                f"{row['recall10']:.3f} / {row['recall10_reranked50']:.4f}, "
                f"{1000 * row['seconds_a_query']:.1f} ms"
            ),
        ),
    }
    measure.fill_page(PAGE, tables)


def _numbers(times: int | None, data: str) -> int | None:
    return None if times is None else times * {"smiles": 32, "digits": 20, "helsinki": 16}[data]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(CASES))
    parser.add_argument("--render", action="store_true", help="only fill the page")
    arguments = parser.parse_args()
    names = arguments.names
    if arguments.render:
        return render()
    before = json.loads(RECORD.read_text(encoding="utf-8"))["rows"] if RECORD.exists() else []
    rows = [row for row in before if row["data"] not in names]
    for name in names:
        rows += study(name)
        packages = ("numpy", "faiss-cpu", "usearch", "qdrant-client", "pynndescent", "rapidfuzz")
        record = {"machine": measure.machine(), "versions": measure.versions(*packages)}
        measure.write_record(RECORD, record | {"rows": rows})
    render()
    for row in rows:
        print({key: round(v, 4) if isinstance(v, float) else v for key, v in row.items()})
    return None


if __name__ == "__main__":
    main()
