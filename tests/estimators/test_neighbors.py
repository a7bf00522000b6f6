"""scikit-learn's neighbours, scores, names and pipelines on both estimators."""

import numpy as np
import pytest
from sklearn.cluster import DBSCAN, HDBSCAN
from sklearn.datasets import load_digits
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import GridSearchCV

from neucmds import InputError, LandmarkNeucMDS, NeucMDS
from neucmds.estimators import KNeighborsGraph


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600], y[:600]


@pytest.mark.parametrize(
    "estimator",
    [
        NeucMDS(8, metric="cityblock"),
        LandmarkNeucMDS(
            8, n_landmarks=150, metric="cityblock", random_state=0
        ),
    ],
)
def test_neighbours_are_those_of_the_fitted_dissimilarities(estimator, digits):
    X, _ = digits
    coordinates = estimator.fit_transform(X[:300])
    d_hat = estimator.dissimilarities(squared=True)
    np.testing.assert_allclose(estimator.embedding_, coordinates)
    np.fill_diagonal(d_hat, np.inf)
    distances, ids = estimator.kneighbors(n_neighbors=4)
    expected = np.sqrt(np.maximum(np.sort(d_hat, axis=1)[:, :4], 0))
    np.testing.assert_allclose(distances, expected, atol=1e-5)
    assert not (ids == np.arange(300)[:, None]).any()
    graph = estimator.kneighbors_graph(X[300:310], 4, mode="distance")
    assert graph.shape == (10, 300)
    assert (np.diff(graph.indptr) == 4).all()


def test_neighbours_with_pandas_output(digits):
    X, _ = digits
    est = NeucMDS((2, 1), metric="cityblock", method="neuc")
    est.set_output(transform="pandas").fit(X[:100])
    assert est.kneighbors(X[100:105], 2)[1].shape == (5, 2)
    names = list(est.transform(X[:3]).columns)
    signs = ["_neg" if sign < 0 else "" for sign in est.signs_]
    assert names == [f"axis{a}{sign}" for a, sign in enumerate(signs, 1)]
    with pytest.raises(InputError, match="mode='angle' is unknown"):
        est.kneighbors_graph(mode="angle")


@pytest.mark.slow
def test_a_grid_search_needs_no_y(digits):
    X, _ = digits
    D = pairwise_distances(X[:40], metric="cityblock")
    grid = {"n_components": [1, 6], "loss": ["squared", "relative"]}
    search = GridSearchCV(NeucMDS(metric="precomputed"), grid, cv=2).fit(D)
    # R² on the squared scale is what the squared loss minimises.
    assert search.best_params_ == {"n_components": 6, "loss": "squared"}


@pytest.mark.slow
def test_others_take_the_symmetric_graph(digits):
    X, _ = digits
    est = NeucMDS(10, method="neuc+", metric="cityblock").fit(X)
    graph = est.kneighbors_graph(
        n_neighbors=30, mode="distance", symmetric=True
    )
    plain = est.kneighbors_graph(n_neighbors=30, mode="distance")
    assert abs(graph - graph.T).max() < 1e-9
    assert (graph < plain).nnz == 0
    nearest = np.sort(plain.data.reshape(-1, 30)[:, 4])
    labels = DBSCAN(
        eps=float(np.median(nearest)), metric="precomputed"
    ).fit_predict(graph)
    assert len(set(labels)) > 3
    assert len(set(HDBSCAN(metric="precomputed").fit_predict(graph))) > 2
    with pytest.raises(
        InputError, match="symmetric=True needs fitted objects"
    ):
        est.kneighbors_graph(X, symmetric=True)


@pytest.mark.parametrize("shape", [(9, 6), (6, 9)])
def test_a_graph_of_departures_and_other_arrivals_is_refused(shape):
    d = np.random.default_rng(0).uniform(1, 2, size=shape)
    step = KNeighborsGraph(NeucMDS(2, directed=True), n_neighbors=3)
    with pytest.raises(
        InputError, match="rows and columns of D are different"
    ):
        step.fit_transform(d)
