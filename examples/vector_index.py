"""Search by your own dissimilarity in a vector index: FAISS, USearch, Qdrant.

    pip install "neucmds[index]"
    python examples/vector_index.py

With signs a dissimilarity is an inner product, so an index that searches by inner product searches
by it. Here: hops between images of digits in the graph of their neighbours, which is no Euclidean
distance; 20 numbers an image. Every function takes the same three arguments and returns the numbers
of the objects found, nearest first.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from neucmds.embedding import InnerProduct

Floats = npt.NDArray[np.float32] | npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def faiss_flat(index: InnerProduct, coordinates: Floats, k: int) -> Ints:
    """FAISS, every vector compared: the same neighbours as `Embedding.neighbors`."""
    import faiss

    vectors = _vectors(index)
    store = faiss.IndexFlatIP(vectors.shape[1])
    store.add(vectors)
    return np.asarray(
        store.search(_queries(index, coordinates), k)[1], dtype=np.int64
    )


def faiss_ivf(index: InnerProduct, coordinates: Floats, k: int) -> Ints:
    """FAISS, inverted lists of vectors of unit length: a quarter of √n lists is searched."""
    import faiss

    vectors = _vectors(index)
    n, dim = vectors.shape
    lists = int(np.sqrt(n))
    store = faiss.IndexIVFFlat(
        faiss.IndexFlatIP(dim), dim, lists, faiss.METRIC_INNER_PRODUCT
    )
    store.cp.min_points_per_centroid = 1
    store.train(vectors)
    store.nprobe = max(1, lists // 4)
    store.add(vectors)
    return np.asarray(
        store.search(_queries(index, coordinates), k)[1], dtype=np.int64
    )


def faiss_hnsw(index: InnerProduct, coordinates: Floats, k: int) -> Ints:
    """FAISS, a graph: among vectors of unit length, for it finds few among others."""
    import faiss

    vectors = _vectors(index)
    store = faiss.IndexHNSWFlat(
        vectors.shape[1], 32, faiss.METRIC_INNER_PRODUCT
    )
    store.hnsw.efConstruction = 200
    store.add(vectors)
    store.hnsw.efSearch = max(200, k)
    return np.asarray(
        store.search(_queries(index, coordinates), k)[1], dtype=np.int64
    )


def usearch_exact(index: InnerProduct, coordinates: Floats, k: int) -> Ints:
    """USearch, every vector compared."""
    from usearch.compiled import MetricKind
    from usearch.index import search

    vectors = _vectors(index)
    found = search(
        vectors, _queries(index, coordinates), k, MetricKind.IP, exact=True
    )
    return np.asarray(found.keys, dtype=np.int64)


def usearch_graph(index: InnerProduct, coordinates: Floats, k: int) -> Ints:
    """USearch, a graph: among vectors of unit length."""
    from usearch.index import Index

    vectors = _vectors(index)
    store = Index(
        ndim=vectors.shape[1], metric="ip", dtype="f32", expansion_search=200
    )
    store.add(np.arange(len(vectors)), vectors)
    return np.asarray(
        store.search(_queries(index, coordinates), k).keys, dtype=np.int64
    )


def qdrant(index: InnerProduct, coordinates: Floats, k: int) -> Ints:
    """Qdrant, a vector database, here in this process; `Distance.DOT` is the inner product."""
    from qdrant_client import QdrantClient, models

    vectors = _vectors(index)
    client = QdrantClient(":memory:")
    size = models.VectorParams(
        size=vectors.shape[1], distance=models.Distance.DOT
    )
    client.create_collection("digits", vectors_config=size)
    client.upload_collection(
        "digits", vectors=vectors, ids=range(len(vectors))
    )
    # A server builds a graph, which fails on vectors of different lengths; `exact` compares all.
    exact = models.SearchParams(exact=True)
    rows = [
        [
            point.id
            for point in client.query_points(
                "digits", query=query, limit=k, search_params=exact
            ).points
        ]
        for query in _queries(index, coordinates)
    ]
    client.close()
    return np.asarray(rows, dtype=np.int64)


def _vectors(index: InnerProduct) -> Floats:
    return np.ascontiguousarray(index.vectors, dtype=np.float32)


def _queries(index: InnerProduct, coordinates: Floats) -> Floats:
    return np.ascontiguousarray(index.queries(coordinates), dtype=np.float32)


# The package, whether the vectors must have unit length, and the search.
SEARCHES: dict[
    str, tuple[str, bool, Callable[[InnerProduct, Floats, int], Ints]]
] = {
    "FAISS flat": ("faiss", False, faiss_flat),
    "FAISS IVF": ("faiss", True, faiss_ivf),
    "FAISS HNSW": ("faiss", True, faiss_hnsw),
    "USearch exact": ("usearch", False, usearch_exact),
    "USearch graph": ("usearch", True, usearch_graph),
    "Qdrant": ("qdrant_client", False, qdrant),
}


def main() -> None:
    """Print how many of the ten nearest each finds, and how many with 50 candidates reranked."""
    from importlib.util import find_spec

    from sklearn.datasets import load_digits

    from neucmds import neuc_mds
    from neucmds.datasets import hop_distances

    hops = hop_distances(load_digits().data, n_neighbors=5, connect=True)
    known, new = hops[:1000, :1000], hops[1000:1100, :1000]
    emb = neuc_mds(
        known, 20, loss="relative", random_state=0
    )  # near pairs matter here
    placed = emb.transform(new)
    exact, _ = emb.neighbors(10, placed)
    farthest = np.sort(new, axis=1)[:, 9:10]  # of the true ten nearest
    print(
        "index           as emb.neighbors   true nearest   true, 50 reranked"
    )
    for name, (package, unit, search) in SEARCHES.items():
        if find_spec(package) is None:
            print(f"{name:<15} not installed")
            continue
        found = search(emb.to_inner_product(unit=unit), placed, 50)
        same = (
            np.mean(
                [
                    len(set(a[:10]) & set(b))
                    for a, b in zip(found, exact, strict=True)
                ]
            )
            / 10
        )
        true = np.take_along_axis(new, found, axis=1)
        right = np.mean(true[:, :10] <= farthest)
        reranked = np.mean(np.sort(true, axis=1)[:, :10] <= farthest)
        print(f"{name:<15} {same:16.3f} {right:14.3f} {reranked:19.3f}")


if __name__ == "__main__":
    main()
