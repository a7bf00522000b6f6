"""Nearest objects of held-out queries: as the coordinates have them, and with candidates reranked.

    NEUCMDS_DATA=… python benchmarks/retrieval.py [smiles] [digits] [helsinki]

Four fifths of the objects are fitted, the others are queries, placed by the loss of the fit. Recall
is the share of the ten nearest fitted objects by the true dissimilarity (ties counted) among the
ten nearest by D̂; reranked, among the 50 nearest by D̂. Indexes (FAISS, needs faiss-cpu) search the
inner-product vectors of the relative fit. Needs rapidfuzz for the strings.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import measure
from neucmds import neuc_mds
from neucmds.datasets import hop_distances
from neucmds.datasets._home import data_folders

RECORD = measure.RECORDS / "retrieval.json"
FITS: dict[str, dict[str, Any]] = {
    "classical": {"method": "classical"},
    "squared": {},
    "relative": {"loss": "relative"},
}


def smiles() -> tuple[np.ndarray, int]:
    """Edit distances of 4,900 SMILES strings, k = 32."""
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist

    strings = (_folder("strings") / "nci_smiles.txt").read_text(encoding="utf-8").split()
    return cdist(strings, strings, scorer=Levenshtein.distance, workers=-1).astype(float), 32


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
    return data_folders(None, kind)[-1]


def study(name: str) -> list[dict[str, Any]]:
    D, k = CASES[name]()
    order = np.random.default_rng(0).permutation(len(D))
    fitted, queries = order[: len(D) * 4 // 5], order[len(D) * 4 // 5 :]
    known, new = D[np.ix_(fitted, fitted)], D[np.ix_(queries, fitted)]
    rows = []
    for method, settings in FITS.items():
        start = time.perf_counter()
        emb = neuc_mds(known, k, random_state=0, **settings)
        fit_seconds = time.perf_counter() - start
        start = time.perf_counter()
        placed = emb.transform(new)
        place_seconds = time.perf_counter() - start
        ids, _ = emb.neighbors(50, placed)
        rows.append(
            {
                "data": name,
                "n": len(fitted),
                "queries": len(queries),
                "k": k,
                "method": method,
                "signature": list(emb.signature),
                "recall10": recall(new, ids[:, :10]),
                "recall10_reranked50": reranked(new, ids),
                "fit_seconds": fit_seconds,
                "place_seconds_a_query": place_seconds / len(queries),
            }
        )
    return rows + indexes(name, emb, placed, new)


def recall(true: np.ndarray, ids: np.ndarray, count: int = 10) -> float:
    """Share of found objects that are as near as the count-th nearest."""
    limit = np.partition(true, count - 1, axis=1)[:, count - 1 : count]
    return float(np.mean(np.take_along_axis(true, ids, axis=1) <= limit * (1 + 1e-12)))


def reranked(true: np.ndarray, ids: np.ndarray, count: int = 10) -> float:
    """Recall when the candidates' true dissimilarities decide among them."""
    among = np.argsort(np.take_along_axis(true, ids, axis=1), axis=1, kind="stable")[:, :count]
    return recall(true, np.take_along_axis(ids, among, axis=1), count)


def indexes(name: str, emb: Any, placed: np.ndarray, true: np.ndarray) -> list[dict[str, Any]]:
    """Search the inner-product vectors in FAISS: exact, inverted lists, and a graph."""
    import faiss

    inner = emb.to_inner_product()
    vectors = np.ascontiguousarray(inner.vectors, dtype=np.float32)
    wanted = np.ascontiguousarray(inner.queries(placed), dtype=np.float32)
    exact, _ = emb.neighbors(10, placed)
    dim, cells = vectors.shape[1], int(np.sqrt(len(vectors)))
    ip = faiss.METRIC_INNER_PRODUCT
    flat = faiss.IndexFlatIP(dim)
    lists = faiss.IndexIVFFlat(faiss.IndexFlatIP(dim), dim, cells, ip)
    lists.train(vectors)
    lists.nprobe = max(1, cells // 4)
    graph = faiss.IndexHNSWFlat(dim, 32, ip)
    graph.hnsw.efSearch = 128
    rows = []
    for label, index in (("FAISS flat", flat), ("FAISS IVF", lists), ("FAISS HNSW", graph)):
        index.add(vectors)
        _, ids = index.search(wanted, 50)
        same = np.mean([len(set(a[:10]) & set(b)) / 10 for a, b in zip(ids, exact, strict=True)])
        found = np.where(ids < 0, 0, ids)
        rows.append(
            {
                "data": name,
                "method": f"relative in {label}",
                "same_as_exact": float(same),
                "recall10": recall(true, found[:, :10]),
                "recall10_reranked50": reranked(true, found),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(CASES))
    rows = [row for name in parser.parse_args().names for row in study(name)]
    record = {
        "machine": measure.machine(),
        "versions": measure.versions("numpy", "faiss-cpu", "rapidfuzz"),
        "rows": rows,
    }
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    for row in rows:
        print({key: round(v, 4) if isinstance(v, float) else v for key, v in row.items()})


if __name__ == "__main__":
    main()
