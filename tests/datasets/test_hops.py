from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import pdist, squareform

from neucmds.datasets import hop_distances
from neucmds.errors import InputError


def brute_force_hops(distances, k):
    n = len(distances)
    graph = np.zeros((n, n))
    for i in range(n):
        order = [j for j in np.argsort(distances[i], kind="stable") if j != i]
        graph[i, order[:k]] = 1
    return shortest_path(graph, directed=False, unweighted=True)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(4, 90), st.integers(1, 6), st.integers(0, 2**31), st.booleans()
)
def test_hops_are_the_shortest_paths(n, k, seed, asymmetric):
    k = min(k, n - 1)
    rng = np.random.default_rng(seed)
    distances = (
        rng.uniform(size=(n, n))
        if asymmetric
        else squareform(pdist(rng.normal(size=(n, 2))))
    )
    expected = brute_force_hops(distances, k)
    if np.isinf(expected).any():
        with pytest.raises(InputError, match="components"):
            hop_distances(distances, k, precomputed=True)
    else:
        np.testing.assert_array_equal(
            hop_distances(distances, k, precomputed=True), expected
        )


def test_features_and_their_distances_give_the_same_hops():
    x = np.random.default_rng(0).normal(size=(200, 3, 2))
    d = squareform(pdist(x.reshape(200, -1)))
    np.testing.assert_array_equal(
        hop_distances(x, 8), hop_distances(d, 8, precomputed=True)
    )


def test_connect_joins_parts_at_their_closest_objects():
    line = np.array([0.0, 1.0, 2.0, 10.0, 11.0, 30.0, 31.0])[:, None]
    hops = hop_distances(line, 1, connect=True)
    ends = [(2, 3), (4, 5)]
    assert all(hops[i, j] == 1 for i, j in ends)
    assert hops[0, 6] == 6


def test_disconnected_graph_is_named_with_its_parts():
    x = np.concatenate([np.arange(5.0), 100 + np.arange(3.0)])[:, None]
    with pytest.raises(
        InputError, match="2 components, the largest of 5, 3 objects"
    ):
        hop_distances(x, 2)


@pytest.mark.parametrize("k", [0, 10, 2.0, "2"])
def test_impossible_number_of_neighbours_is_refused(k):
    with pytest.raises(InputError, match="pass 1 to 9"):
        hop_distances(np.zeros((10, 2)), k)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([[0.0], [np.nan], [2.0]], "hold NaN or infinity, first in row 1"),
        ([[0.0], [1.0], [np.inf]], "hold NaN or infinity, first in row 2"),
        (["a", "b", "c"], "not a real number"),
        ([[1, 2], [3]], "are not numbers"),
        (5, "at least 2 rows"),
        ([], "at least 2 rows"),
    ],
)
@pytest.mark.parametrize("precomputed", [False, True])
def test_what_are_no_finite_numbers_is_refused(data, message, precomputed):
    what = "dissimilarities" if precomputed else "features"
    with pytest.raises(InputError, match=f"{what} .*{message}"):
        hop_distances(data, 1, precomputed=precomputed, connect=True)


def test_missing_and_infinite_dissimilarities_are_refused():
    for unknown in (np.nan, np.inf):
        d = squareform(pdist(np.arange(4.0)[:, None]))
        d[0, 1] = unknown
        with pytest.raises(InputError, match="first in row 0"):
            hop_distances(d, 2, precomputed=True)


def test_parts_are_joined_by_the_shorter_direction_of_a_pair():
    d = np.full((5, 5), 9.0)
    d[:3, :3] = 1.0
    d[3:, 3:] = 1.0
    d[0, 3] = d[3, 0] = 5.0
    d[1, 4] = 2.0
    hops = hop_distances(d, 1, precomputed=True, connect=True)
    assert hops[1, 4] == 1
    assert hops[0, 3] > 1
