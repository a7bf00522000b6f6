"""Neighbours by D̂ are those of brute force, whatever rounding and ties there are."""

from dataclasses import replace

import numpy as np
import pytest

from neucmds import neuc_mds
from neucmds.form import Form


def brute_force(queries, points, signs, k, own=None):
    ids, values = [], []
    for i, q in enumerate(queries):
        d_hat = ((q - points) ** 2) @ signs
        if own is not None:
            d_hat[own[i]] = np.inf
        order = np.lexsort((np.arange(len(points)), d_hat))[:k]
        ids.append(order)
        values.append(d_hat[order])
    return np.array(ids), np.array(values)


def embedding_of(points, signs):
    """An embedding with these coordinates."""
    embedding = neuc_mds(np.ones((3, 3)) - np.eye(3), 1)
    return replace(embedding, coordinates=points, form=Form(signs))


def signed_points(n, d, seed=0):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, d)) * np.linspace(2, 0.2, d)
    return points, np.where(np.arange(d) % 3 == 2, -1.0, 1.0)


@pytest.mark.parametrize(
    ("n", "d", "k"), [(600, 20, 10), (300, 5, 1), (50, 3, 49), (7, 1, 3)]
)
def test_neighbours_equal_brute_force_with_negative_dissimilarities(n, d, k):
    points, signs = signed_points(n, d)
    own = np.arange(n)
    embedding = embedding_of(points, signs)
    ids, values = embedding.neighbors(k, squared=True)
    expected, sq = brute_force(points, points, signs, k, own)
    np.testing.assert_array_equal(ids, expected)
    np.testing.assert_allclose(values, sq, rtol=1e-12, atol=1e-12)
    assert d < 3 or (values < 0).any()
    ids, values = embedding.neighbors(k, points[:0])
    assert ids.shape == values.shape == (0, k)


def moved(points):
    points[200:260], points[17] = points[200], points[3]
    return points


@pytest.mark.parametrize(
    "change",
    [
        moved,  # ties are broken by the lower index
        lambda points: np.rint(points),  # ties everywhere
        lambda points: (
            points + 1e6
        ),  # the product's rounding is larger than most dissimilarities
    ],
)
@pytest.mark.parametrize("n", [400, 1500])
def test_neither_ties_nor_rounding_nor_blocks_lose_a_neighbour(change, n):
    points, signs = signed_points(n, 4)
    points = change(points)
    ids, _ = embedding_of(points, signs).neighbors(6)
    np.testing.assert_array_equal(
        ids, brute_force(points, points, signs, 6, np.arange(n))[0]
    )


def test_ties_of_small_points_with_heights_are_in_the_order_of_their_index():
    rng = np.random.default_rng(5)
    grid = np.rint(2 * rng.normal(size=(400, 3))) * 1e-5
    heights = (1 + np.rint(2 * rng.random((400, 1)))) * 1e-4
    points = np.hstack([grid, heights])
    embedding = embedding_of(points, np.array([1.0, 1.0, -1.0, 0.0]))
    ids, _ = embedding.neighbors(5)
    every = np.arange(400)
    for i, neighbors in enumerate(ids):
        sq = embedding.form.paired_sq(points[i], points)
        sq[i] = np.inf
        np.testing.assert_array_equal(neighbors, np.lexsort((every, sq))[:5])


@pytest.mark.parametrize("library", ["array_api_strict", "torch"])
def test_other_libraries_give_the_same(library):
    xp = pytest.importorskip(library)
    points, signs = signed_points(200, 6)
    points[50:80] = points[50]
    embedding = embedding_of(xp.asarray(points), xp.asarray(signs))
    ids, values = embedding.neighbors(5, squared=True)
    expected, sq = brute_force(points, points, signs, 5, np.arange(200))
    np.testing.assert_array_equal(np.asarray(ids), expected)
    np.testing.assert_allclose(np.asarray(values), sq, rtol=1e-12, atol=1e-12)
