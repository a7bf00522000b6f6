"""scikit-learn's own checks, on one configuration of each estimator."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from neucmds import LandmarkNeucMDS, NeucIsomap, NeucMDS


@pytest.mark.filterwarnings(
    "ignore:the graph of:neucmds.errors.NeucmdsWarning"
)
@parametrize_with_checks(
    [
        NeucMDS(),
        LandmarkNeucMDS(metric="cityblock", placement="least_squares"),
        NeucIsomap(),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "estimator",
    [
        NeucMDS(3, metric="cityblock"),
        NeucMDS(
            3, metric="cityblock", loss="relative", curvature=-0.5, n_init=1
        ),
        LandmarkNeucMDS(3, 20, metric="cityblock"),
        NeucIsomap(3, 8),
    ],
    ids=str,
)
def test_after_a_fit_all_attributes_tell_of_one_embedding(estimator):
    X = np.random.default_rng(0).normal(size=(60, 4))
    placed = clone(estimator).fit_transform(X)
    fitted = clone(estimator).fit(X)
    np.testing.assert_array_equal(fitted.embedding_, placed)
    np.testing.assert_array_equal(fitted.result_.coordinates, placed)
    np.testing.assert_array_equal(fitted.signs_, fitted.result_.signs)
    assert fitted.signature_ == (
        (fitted.signs_ > 0).sum(),
        (fitted.signs_ < 0).sum(),
    )
    distances, ids = fitted.kneighbors(n_neighbors=3)
    rows = np.arange(60)[:, None]
    np.testing.assert_allclose(
        distances, fitted.result_.distance(rows, ids), atol=1e-6
    )
    again, unsquared = fitted.result_.neighbors(3)
    np.testing.assert_array_equal(again, ids)
    np.testing.assert_array_equal(unsquared, distances)
    d_hat = fitted.result_.neighbors(3, squared=True)[1]
    np.testing.assert_allclose(
        d_hat, fitted.result_.distance(rows, ids, squared=True), atol=1e-9
    )
    np.testing.assert_array_equal(
        fitted.dissimilarities(), fitted.result_.dissimilarities()
    )
