"""NeucIsomap: its geodesics, and more of them kept than by Isomap."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_swiss_roll
from sklearn.manifold import Isomap
from sklearn.metrics import pairwise_distances

from neucmds import InputError, NeucIsomap
from neucmds.errors import NeucmdsWarning


@pytest.fixture(scope="module")
def roll():
    return make_swiss_roll(350, hole=True, random_state=0)[0]


def test_classical_is_isomap(roll):
    ours = NeucIsomap(3, 8, method="classical").fit(roll)
    theirs = Isomap(n_neighbors=8, n_components=3).fit(roll)
    np.testing.assert_allclose(
        np.abs(ours.embedding_), np.abs(theirs.embedding_), atol=1e-6
    )


def test_new_objects_go_where_their_paths_lead(roll):
    ours = NeucIsomap(3, 8, method="classical").fit(roll[:300])
    theirs = Isomap(n_neighbors=8, n_components=3).fit(roll[:300])
    new = roll[300:]
    _, ids = theirs.nbrs_.kneighbors(new)
    gaps = np.linalg.norm(roll[ids] - new[:, None], axis=2)
    paths = np.min(gaps[:, :, None] + theirs.dist_matrix_[ids], axis=1)
    np.testing.assert_allclose(
        ours._sq_dissimilarities(new), paths**2, rtol=1e-9
    )
    np.testing.assert_allclose(
        ours.transform(new), ours.result_.transform(paths), atol=1e-9
    )


def test_signs_keep_more_of_the_geodesics_than_isomap(roll):
    theirs = Isomap(n_neighbors=8, n_components=8).fit(roll)
    ours = NeucIsomap(8, 8, random_state=0).fit(roll)
    geodesics = theirs.dist_matrix_**2
    classical = pairwise_distances(theirs.embedding_) ** 2
    assert ours.signs_.min() < 0
    error = np.sum((ours.dissimilarities(squared=True) - geodesics) ** 2)
    assert error < 0.1 * np.sum((classical - geodesics) ** 2)


def test_precomputed_dissimilarities_give_the_same(roll):
    d = pairwise_distances(roll)
    by_features = NeucIsomap(2, 8, method="neuc+").fit(roll[:300])
    by_matrix = NeucIsomap(2, 8, method="neuc+", metric="precomputed").fit(
        d[:300, :300]
    )
    np.testing.assert_allclose(
        by_matrix.embedding_, by_features.embedding_, atol=1e-6
    )
    placed = by_matrix.transform(d[300:, :300])
    np.testing.assert_allclose(
        placed, by_features.transform(roll[300:]), atol=1e-6
    )
    assert by_matrix.score(d[300:, :300]) == pytest.approx(
        by_features.score(roll[300:])
    )


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        (
            lambda a, b: a[0] > b[0],
            "the metric is not symmetric: .*; average it over both",
        ),
        (lambda a, b: 1.0, "the metric gives an object and itself 1, not 0"),
        (
            lambda a, b: np.nan,
            "metric gives NaN or infinity, first for objects 0 and 10",
        ),
        (
            lambda a, b: -20.0 * np.any(a != b),
            "edges have lengths that are negative",
        ),
    ],
    ids=["asymmetric", "own", "NaN", "negative"],
)
def test_a_function_that_is_no_dissimilarity_is_refused(roll, extra, said):
    def metric(a, b):
        return np.abs(a - b).sum() + extra(a, b)

    with pytest.raises(InputError, match=said):
        NeucIsomap(2, 4, metric=metric).fit(roll[:20] / 10)


def test_parts_and_duplicates_are_joined():
    rng = np.random.default_rng(0)
    X = np.vstack(
        [
            rng.normal(size=(30, 2)),
            50 + rng.normal(size=(20, 2)),
            [[200.0, 0.0]] * 8,
        ]
    )
    with pytest.warns(NeucmdsWarning, match="has 3 parts"):
        est = NeucIsomap(2, 6).fit(X)
    assert est.graph_.shape == (58, 58)
    assert est.result_.distance(50, 57) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("n", [4, 5])
def test_fewer_objects_than_neighbours_are_refused_in_one_line(n):
    x = np.random.default_rng(0).normal(size=(n, 3))
    with pytest.raises(InputError, match=f"at least 6 objects, and X has {n}"):
        NeucIsomap(2, n_neighbors=5).fit(x)


def test_a_number_of_neighbours_is_whole():
    x = np.random.default_rng(0).normal(size=(9, 3))
    with pytest.raises(InputError, match=r"n_neighbors=1.5 must be a whole"):
        NeucIsomap(2, n_neighbors=1.5).fit(x)
