"""What one does with an embedding: distances of pairs, neighbours, inner products."""

import math
import pickle
import threading
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.spatial.distance import squareform

from neucmds import InputError, LandmarkNeucMDS, NeucMDS, neuc_mds

SITES = [f"site {i}" for i in range(60)]


@pytest.fixture(scope="module")
def D():
    """Squared dissimilarities of five positive and three negative coordinates, with noise."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 8)) * np.linspace(3, 1, 8)
    d = ((x[:, None] - x) ** 2) @ np.array([1.0, 1, -1, 1, -1, 1, -1, 1])
    return d + squareform(rng.normal(size=60 * 59 // 2))


@pytest.fixture(scope="module")
def emb(D):
    return neuc_mds(
        pd.DataFrame(D, SITES, SITES), (5, 3), "neuc", squared=True
    )


@pytest.mark.slow
def test_distances_of_pairs_are_the_entries_of_the_matrix(emb):
    i, j = np.triu_indices(60, 1)
    d_hat = emb.dissimilarities(squared=True)
    assert np.all(np.diag(d_hat) == 0)
    np.testing.assert_allclose(
        emb.distance(i, j, squared=True), d_hat[i, j], atol=1e-9
    )
    np.testing.assert_allclose(
        emb.distance(i, j), np.sqrt(np.maximum(d_hat[i, j], 0)), atol=1e-6
    )


def test_a_negative_dissimilarity_is_a_distance_of_zero():
    emb = neuc_mds([[0, 1, 1], [1, 0, 4], [1, 4, 0]], (1, 1))
    emb = replace(emb, coordinates=np.array([[0.0, 0], [0, 1], [1, 0]]))
    assert emb.signs.tolist() == [1, -1]
    assert emb.distance(0, 1, squared=True) == -1.0
    assert emb.distance(0, 1) == 0.0


def test_names_numbers_and_shapes_are_understood(emb):
    assert emb.distance("site 3", "site 7") == emb.distance(3, 7)
    assert emb.distance(-1, 0) == emb.distance(59, 0)
    assert isinstance(emb.distance(1, 2), float)
    assert emb.distance(1, 2) == pytest.approx(emb.distance([1], [2])[0])
    assert emb.distance([[1], [2]], [3, 4, 5]).shape == (2, 3)
    assert emb.distance("site 0", ["site 1", "site 2"]).shape == (2,)
    assert emb.distance([], []).shape == (0,)


@pytest.mark.parametrize("unit", [False, True])
def test_an_inner_product_is_the_dissimilarity(emb, D, unit):
    placed = emb.transform(D[:7])
    index = emb.to_inner_product(unit=unit)
    scores = index.queries(placed) @ index.vectors.T
    expected = emb.between(placed, emb.coordinates, squared=True)
    np.testing.assert_allclose(
        index.sq_dissimilarities(scores, placed), expected, atol=1e-8
    )
    far = 3 * emb.coordinates[:5] + 1  # comes later
    scores = index.queries(placed) @ index.vectors_of(far).T
    found = index.sq_dissimilarities(scores, placed)
    np.testing.assert_allclose(
        found, emb.between(placed, far, squared=True), atol=1e-7
    )


def test_vectors_of_unit_length_rank_by_cosine_and_euclidean_distance(emb, D):
    placed = emb.transform(D[:7])
    index = emb.to_inner_product(unit=True)
    vectors, queries = index.vectors, index.queries(placed)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1)
    np.testing.assert_allclose(np.linalg.norm(queries, axis=1), 1)
    gaps = np.linalg.norm(queries[:, None] - vectors, axis=2)
    np.testing.assert_array_equal(
        np.argsort(gaps, axis=1)[:, :10], emb.neighbors(10, placed)[0]
    )


def test_neighbours_of_a_curved_fit_are_as_far_as_distance_says():
    depth = np.floor(np.log2(np.arange(1, 64))).astype(int)
    parents = sparse.coo_array(
        (np.ones(62), (np.arange(1, 63), (np.arange(1, 63) - 1) // 2)),
        (63, 63),
    )
    est = NeucMDS(
        4,
        metric="shortest_path",
        loss="relative",
        curvature=-4.0,
    ).fit(parents)
    distances, ids = est.kneighbors(n_neighbors=62)
    rows = np.arange(63)[:, None]
    np.testing.assert_allclose(distances, est.result_.distance(rows, ids))
    assert distances.max() < 1.5 * 2 * depth.max()
    graph = est.kneighbors_graph(n_neighbors=62, mode="distance").toarray()
    np.testing.assert_allclose(graph, est.dissimilarities(), atol=1e-9)


def test_an_estimator_of_landmarks_has_one_answer():
    x = np.random.default_rng(0).normal(size=(90, 4))
    est = LandmarkNeucMDS(3, 50, metric="cityblock")
    placed = est.fit_transform(x)
    np.testing.assert_array_equal(est.embedding_, placed)
    np.testing.assert_array_equal(est.result_.coordinates, placed)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_a_start_sets_the_number_of_coordinates_whatever_is_asked_for(k):
    x = np.random.default_rng(0).normal(size=(20, 6))
    D = np.abs(x[:, None] - x).sum(axis=2)
    start = neuc_mds(D, 5)
    assert neuc_mds(D, k, init=start).signature == start.signature


def test_an_estimator_that_cannot_be_pickled_says_so_in_one_line():
    compiled = threading.Lock().acquire  # nothing can pickle a lock
    est = NeucMDS(2, metric=compiled)
    with pytest.raises(
        InputError, match=r"metric cannot be pickled .* or save result_"
    ):
        pickle.dumps(est)
    named = NeucMDS(2, metric=math.dist).fit(np.eye(5))
    again = pickle.loads(pickle.dumps(named))
    np.testing.assert_array_equal(again.embedding_, named.embedding_)
