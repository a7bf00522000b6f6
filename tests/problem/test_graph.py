"""Shortest paths as dissimilarities: rows, nearest nodes and samples of pairs."""

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse import csgraph
from scipy.spatial import cKDTree

from neucmds.errors import InputError, NeucmdsWarning
from neucmds.problem.graph import (
    as_graph,
    graph_pairs,
    nearest_landmarks,
    nearest_nodes,
    shortest_path_rows,
)


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


def test_an_edge_may_be_stored_once_or_more_and_have_length_zero():
    one = geometric()
    both = sparse.csr_array(one + one.T)
    np.testing.assert_array_equal(
        as_graph(one).toarray(), as_graph(both).toarray()
    )
    lengths, ends = [0.0, 3.0, 2.0, 5.0], ([0, 1, 1, 2], [1, 2, 2, 2])
    several = as_graph(sparse.coo_array((lengths, ends), shape=(3, 3)))
    np.testing.assert_array_equal(
        shortest_path_rows(several, [0]), [[0.0, 0.0, 2.0]]
    )


def test_one_way_streets_are_counted():
    one = geometric()
    some = sparse.csr_array(one + sparse.triu(one.T + one, 30).T)
    message = f"^{2 * one.nnz - some.nnz} of {one.nnz} edges are stored in one order alone"
    with pytest.warns(NeucmdsWarning, match=message):
        as_graph(some)


def listed(lengths, i, j, n):
    return sparse.csr_array((lengths, (i, j)), shape=(n, n))


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (
            listed(np.ones(4), [0, 1, 3, 5], [1, 2, 4, 6], 7),
            "3 parts .* of 3, 2, 2 objects",
        ),
        (
            listed([1.0, 1.5], [0, 1], [1, 0], 2),
            r"directed: 1 of 1 edges .*0\.5 at \(0, 1\)",
        ),
        (
            listed([1.0, -1.0], [0, 1], [1, 2], 3),
            r"1 edges have lengths.*at \(1, 2\)",
        ),
        (
            listed([1.0, np.nan], [0, 1], [1, 2], 3),
            r"1 edges have lengths.*at \(1, 2\)",
        ),
        (
            listed([1.0, np.inf], [0, 1], [1, 2], 3),
            r"1 edges have lengths.*at \(1, 2\)",
        ),
        (listed([1.0], [0], [0], 2), "2 parts"),
        (listed([], [], [], 2), "2 parts"),
        (np.eye(3), r"scipy\.sparse"),
        (sparse.csr_array((2, 3)), "not square: 2 × 3"),
    ],
)
def test_what_is_no_connected_undirected_graph_is_refused(stored, message):
    with pytest.raises(InputError, match=message):
        as_graph(stored)


def test_rows_are_those_of_all_shortest_paths(graph, all_paths):
    nodes = [5, 0, 399]
    np.testing.assert_allclose(
        shortest_path_rows(graph, nodes), all_paths[nodes], rtol=1e-12
    )
    single = shortest_path_rows(graph, nodes, dtype=np.float32)
    assert single.dtype == np.float32


@pytest.mark.slow
def test_rows_are_the_same_from_several_blocks_and_processes(graph, all_paths):
    # 2 million lengths are searched for at a time.
    nodes = np.tile(np.arange(400), 14)
    found = shortest_path_rows(graph, nodes, n_jobs=2)
    np.testing.assert_allclose(found, all_paths[nodes], rtol=1e-12)


def test_rows_beyond_what_is_free_are_refused(graph, monkeypatch):
    monkeypatch.setattr(
        "neucmds.backend.memory.available_memory", lambda: 1_000_000
    )
    with pytest.raises(
        InputError, match=r"40000 nodes to 400 needs 128 MB, but 1 MB are free"
    ):
        shortest_path_rows(graph, np.tile(np.arange(400), 100))


@pytest.mark.parametrize("count", [1, 12, 399])
def test_nearest_nodes_are_those_of_the_full_rows(graph, all_paths, count):
    i, _, length = nearest_nodes(graph, count)
    others = np.sort(
        np.where(np.eye(400, dtype=bool), np.inf, all_paths), axis=1
    )[:, :count]
    found = np.sort(
        length[np.argsort(i, kind="stable")].reshape(400, count), axis=1
    )
    np.testing.assert_allclose(found, others, rtol=1e-12)
    # Two clusters whose only connection is far longer than any first guess.
    stored = sparse.csr_array(
        ([1.0, 1.0, 1e4], ([0, 2, 1], [1, 3, 2])), shape=(4, 4)
    )
    i, j, length = nearest_nodes(as_graph(stored), 3)
    assert length[(i == 0) & (j == 3)] == pytest.approx(10002.0)


def test_nodes_with_a_long_way_back_are_near_by_the_mean():
    lengths = [0.1, 1.5, 0.95, 0.95, 1.2, 1.2]
    ends = ([0, 1, 0, 2, 2, 3], [1, 0, 2, 0, 3, 2])
    graph = as_graph(listed(lengths, *ends, 4), direction="mean")
    _, nearest, length = nearest_nodes(graph, 1, np.array([0]))
    assert (nearest.tolist(), length.tolist()) == ([1], [0.8])


def test_sampled_pairs_have_the_lengths_of_shortest_paths(graph, all_paths):
    sample = graph_pairs(graph, 67, "relative", n_landmarks=20, random_state=0)
    pairs = sample.pairs
    np.testing.assert_allclose(
        np.sqrt(pairs.sq_dissimilarity),
        all_paths[pairs.i, pairs.j],
        rtol=1e-10,
    )
    np.testing.assert_allclose(
        sample.to_landmarks, all_paths[:, sample.landmarks], rtol=1e-10
    )
    assert pairs.sampled
    listed = set(zip(pairs.i.tolist(), pairs.j.tolist(), strict=True))
    for node in range(400):
        near = np.argsort(all_paths[node], kind="stable")[1:9]
        assert all(
            (min(node, other), max(node, other)) in listed for other in near
        )
    for node, others, sq_length in sample.checks:
        np.testing.assert_allclose(
            sq_length, all_paths[node, others] ** 2, rtol=1e-10
        )
        assert others.size == 399


def walled(side):
    """Draw a grid of streets of different lengths, with a wall that ends before the border."""
    rng, number = (
        np.random.default_rng(0),
        np.arange(side * side).reshape(side, side),
    )
    i = np.concatenate([number[:, :-1].ravel(), number[:-1].ravel()])
    j = np.concatenate([number[:, 1:].ravel(), number[1:].ravel()])
    wall = (j == i + side) & (i // side == side // 2) & (i % side < side - 6)
    i, j = i[~wall], j[~wall]
    return sparse.coo_array(
        (rng.uniform(1, 1.5, size=i.size), (i, j)), shape=(side**2,) * 2
    )


def test_nodes_of_a_graph_know_their_nearest_landmarks():
    graph = as_graph(walled(20))
    # Dense in one corner: nodes of the other must be searched for farther.
    landmarks = np.unique(np.concatenate([np.arange(0, 60), [150, 399]]))
    ids, lengths = nearest_landmarks(graph, landmarks, 9, n_jobs=1)
    true = shortest_path_rows(graph, landmarks).T
    order = np.argsort(lengths, axis=1)
    ids, lengths = (
        np.take_along_axis(one, order, axis=1) for one in (ids, lengths)
    )
    enough = np.isfinite(lengths)
    assert enough[:, :5].all()
    np.testing.assert_allclose(
        lengths[enough], np.sort(true, axis=1)[:, :9][enough], rtol=1e-5
    )
    np.testing.assert_allclose(
        lengths[enough], true[np.nonzero(enough)[0], ids[enough]], rtol=1e-5
    )
