"""Shortest paths as dissimilarities: rows, nearest nodes and samples of pairs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse import csgraph
from scipy.spatial import cKDTree

from neucmds._operator import graph as graphs
from neucmds._operator.graph import (
    as_graph,
    graph_pairs,
    nearest_nodes,
    shortest_path_rows,
)
from neucmds.errors import InputError, NeucmdsWarning


def geometric(n=400, seed=0, radius=0.12):
    """Random points in the unit square, joined where they are near; upper triangle only."""
    points = np.random.default_rng(seed).random((n, 2))
    ends = cKDTree(points).query_pairs(radius, output_type="ndarray")
    length = np.linalg.norm(points[ends[:, 0]] - points[ends[:, 1]], axis=1)
    return sparse.csr_array((length, ends.T), shape=(n, n))


@pytest.fixture(scope="module")
def graph():
    return as_graph(geometric())


@pytest.fixture(scope="module")
def all_paths(graph):
    return csgraph.floyd_warshall(graph)


def test_an_edge_may_be_stored_in_one_order_or_in_both():
    one = geometric()
    both = sparse.csr_array(one + one.T)
    np.testing.assert_array_equal(as_graph(one).toarray(), as_graph(both).toarray())


def test_one_way_streets_are_counted():
    one = geometric()
    some = sparse.csr_array(one + sparse.triu(one.T + one, 30).T)
    message = f"^{2 * one.nnz - some.nnz} of {one.nnz} edges are stored in one order alone"
    with pytest.warns(NeucmdsWarning, match=message):
        as_graph(some)


def test_edges_of_length_zero_are_edges():
    stored = sparse.csr_array(([0.0, 1.0], ([0, 1], [1, 2])), shape=(3, 3))
    np.testing.assert_array_equal(shortest_path_rows(as_graph(stored), [0]), [[0.0, 0.0, 1.0]])


def test_of_parallel_edges_the_shortest_counts_and_loops_do_not():
    stored = sparse.coo_array(([3.0, 2.0, 5.0], ([0, 0, 1], [1, 1, 1])), shape=(2, 2))
    np.testing.assert_array_equal(shortest_path_rows(as_graph(stored), [0]), [[0.0, 2.0]])


def listed(lengths, i, j, n):
    return sparse.csr_array((lengths, (i, j)), shape=(n, n))


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (listed(np.ones(4), [0, 1, 3, 5], [1, 2, 4, 6], 7), "3 parts .* of 3, 2, 2 objects"),
        (listed([1.0, 1.5], [0, 1], [1, 0], 2), r"directed: 1 edges .*0\.5 at \(0, 1\)"),
        (listed([1.0, -1.0], [0, 1], [1, 2], 3), r"1 edges have lengths.*at \(1, 2\)"),
        (listed([1.0, np.nan], [0, 1], [1, 2], 3), r"1 edges have lengths.*at \(1, 2\)"),
        (listed([1.0, np.inf], [0, 1], [1, 2], 3), r"1 edges have lengths.*at \(1, 2\)"),
        (listed([1.0], [0], [0], 2), "no edges"),
        (np.eye(3), r"scipy\.sparse"),
        (sparse.csr_array((2, 3)), "not square: 2 × 3"),
    ],
)
def test_what_is_no_connected_undirected_graph_is_refused(stored, message):
    with pytest.raises(InputError, match=message):
        as_graph(stored)


def test_rows_are_those_of_all_shortest_paths(graph, all_paths):
    nodes = [5, 0, 399]
    np.testing.assert_allclose(shortest_path_rows(graph, nodes), all_paths[nodes], rtol=1e-12)
    single = shortest_path_rows(graph, nodes, dtype=np.float32)
    assert single.dtype == np.float32


@pytest.mark.slow
def test_rows_are_the_same_from_several_blocks_and_processes(graph, all_paths, monkeypatch):
    monkeypatch.setattr(graphs, "BLOCK_BYTES", 400 * 8 * 50)
    monkeypatch.setattr(graphs, "WORTH_PROCESSES", 1)
    found = shortest_path_rows(graph, np.arange(400), n_jobs=2)
    np.testing.assert_allclose(found, all_paths, rtol=1e-12)


def test_rows_beyond_what_is_free_are_refused(graph, monkeypatch):
    monkeypatch.setattr(graphs, "available_memory", lambda: 1_000_000)
    with pytest.raises(InputError, match=r"take 1\.28 MB, and 1 MB are free"):
        shortest_path_rows(graph, np.arange(400))


@pytest.mark.parametrize("count", [1, 12, 399])
def test_nearest_nodes_are_those_of_the_full_rows(graph, all_paths, count):
    i, _, length = nearest_nodes(graph, count)
    others = np.sort(np.where(np.eye(400, dtype=bool), np.inf, all_paths), axis=1)[:, :count]
    found = np.sort(length[np.argsort(i, kind="stable")].reshape(400, count), axis=1)
    np.testing.assert_allclose(found, others, rtol=1e-12)


def test_nearest_nodes_reach_along_one_long_edge():
    # two clusters whose only connection is far longer than any first guess
    stored = sparse.csr_array(([1.0, 1.0, 1e4], ([0, 2, 1], [1, 3, 2])), shape=(4, 4))
    i, j, length = nearest_nodes(as_graph(stored), 3)
    at = (i == 0) & (j == 3)
    assert length[at] == pytest.approx(10002.0)


def test_sampled_pairs_have_the_lengths_of_shortest_paths(graph, all_paths):
    sample = graph_pairs(graph, n_landmarks=20, n_near=8, n_ring=4, random_state=0)
    pairs = sample.pairs
    np.testing.assert_allclose(
        np.sqrt(pairs.sq_dissimilarity), all_paths[pairs.i, pairs.j], rtol=1e-10
    )
    np.testing.assert_allclose(sample.to_landmarks, all_paths[:, sample.landmarks], rtol=1e-10)
    assert pairs.sampled
    listed = set(zip(pairs.i.tolist(), pairs.j.tolist(), strict=True))
    for node in range(400):
        near = np.argsort(all_paths[node], kind="stable")[1:9]
        assert all((min(node, other), max(node, other)) in listed for other in near)
        marks = sample.landmarks[sample.landmarks != node]
        assert all((min(node, other), max(node, other)) in listed for other in marks)


@pytest.mark.slow
def test_weights_make_the_sample_stand_for_all_pairs(graph, all_paths):
    upper = np.triu_indices(400, 1)
    for measure in (lambda d: np.ones_like(d), lambda d: d, lambda d: np.minimum(d, 0.15)):
        truth = measure(all_paths[upper]).sum()
        estimates = []
        for seed in range(20):
            sizes = {"n_landmarks": 15, "n_near": 6, "n_ring": 5}
            pairs = graph_pairs(graph, **sizes, random_state=seed).pairs
            estimates.append(float(pairs.weight @ measure(np.sqrt(pairs.sq_dissimilarity))))
        # ranks differ between the two ends of a pair, which the weights leave out of account
        assert np.mean(estimates) == pytest.approx(truth, rel=0.03)


def test_maxmin_landmarks_are_spread_out(graph, all_paths):
    marks = graph_pairs(graph, n_landmarks=12, landmarks="maxmin", random_state=0).landmarks
    drawn = graph_pairs(graph, n_landmarks=12, landmarks="random", random_state=0).landmarks
    cover = [all_paths[:, ids].min(axis=1).max() for ids in (marks, drawn)]
    assert np.unique(marks).size == 12
    assert cover[0] < cover[1]


def test_landmarks_can_be_given_and_are_checked(graph):
    assert graph_pairs(graph, landmarks=[7, 3]).landmarks.tolist() == [3, 7]
    with pytest.raises(InputError, match="landmarks='best' must be"):
        graph_pairs(graph, landmarks="best")
    with pytest.raises(InputError, match="from 0 to 399"):
        graph_pairs(graph, landmarks=[400])
    with pytest.raises(InputError, match="n_landmarks=401 of 400 nodes"):
        graph_pairs(graph, n_landmarks=401)
