"""One registry: a metric is fitted once, and both estimators measure new objects by it."""

import array_api_strict
import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone

from neucmds import InputError, LandmarkNeucMDS, NeucMDS

RNG = np.random.default_rng(0)
X = np.abs(RNG.normal(size=(150, 5))) * np.geomspace(5, 1, 5) + 0.1
# Not by folds, which choose how to place: what is placed is the claim here.
PLAIN = {"placement": "least_squares", "random_state": 0}
ALL = {"landmarks": np.arange(40), **PLAIN}


@pytest.mark.filterwarnings("error::sklearn.exceptions.DataConversionWarning")
@pytest.mark.parametrize(
    "metric", ["angular", "euclidean", "braycurtis", "canberra", "jaccard"]
)
def test_landmarks_know_every_metric_that_all_of_D_knows(metric):
    """The memory error of one estimator advises the other, with the same metric."""
    features = (X > 1.5).astype(float) if metric == "jaccard" else X
    features = features[features.any(axis=1)]
    landmarks = LandmarkNeucMDS(3, metric=metric, **ALL).fit(features)
    whole = NeucMDS(3, metric=metric).fit(features[:40])
    np.testing.assert_allclose(
        landmarks.landmark_result_.coordinates, whole.embedding_, atol=1e-7
    )
    if metric == "angular":
        unit = features / np.linalg.norm(features, axis=1, keepdims=True)
        d = np.arccos(np.clip(unit @ unit[:40].T, -1, 1))
    else:
        d = cdist(features, features[:40], metric)
    by_hand = LandmarkNeucMDS(3, **ALL).fit(d)
    new = slice(40, 50)
    np.testing.assert_allclose(
        landmarks.transform(features[new]),
        by_hand.transform(d[new]),
        atol=1e-6,
    )


@pytest.mark.parametrize("metric", ["seuclidean", "mahalanobis"])
@pytest.mark.parametrize("estimator", [NeucMDS, LandmarkNeucMDS])
def test_new_objects_do_not_depend_on_who_comes_with_them(estimator, metric):
    settings = (
        {"n_landmarks": 30, **PLAIN} if estimator is LandmarkNeucMDS else {}
    )
    est = estimator(3, metric=metric, **settings)
    est.fit(X)
    together = est.transform(X[:6] * 1.1)
    alone = np.concatenate(
        [est.transform(X[i : i + 1] * 1.1) for i in range(6)]
    )
    np.testing.assert_allclose(together, alone, atol=1e-9)


def test_the_spread_of_features_is_that_of_all_objects_not_of_landmarks():
    da = pytest.importorskip("dask.array")
    V = np.var(X, axis=0, ddof=1)
    d = cdist(X, X[:40], "seuclidean", V=V)
    by_hand = LandmarkNeucMDS(3, **ALL).fit(d).transform(d)
    for metric in ("seuclidean", "mahalanobis"):
        known = LandmarkNeucMDS(3, metric=metric, **ALL).fit(X).transform(X)
        lazy = LandmarkNeucMDS(3, metric=metric, **ALL).fit(
            da.from_array(X, chunks=(60, 5))
        )
        np.testing.assert_allclose(lazy.transform(X), known, atol=1e-7)
        if metric == "seuclidean":
            np.testing.assert_allclose(known, by_hand, atol=1e-7)


def test_named_metrics_that_cannot_be_computed_are_refused_in_one_line():
    twice = np.hstack([X, np.zeros((150, 1))])
    with pytest.raises(
        InputError,
        match=r"metric='mahalanobis' needs features whose covariance",
    ):
        LandmarkNeucMDS(3, metric="mahalanobis", n_landmarks=30).fit(twice)
    with pytest.raises(
        InputError, match=r"metric='haversine' cannot be used here"
    ):
        NeucMDS(2, metric="haversine").fit(X)
    with pytest.raises(
        InputError,
        match=r"metric='minkowski' cannot be used here: it does not take",
    ):
        LandmarkNeucMDS(
            2, metric="minkowski", metric_params={"q": 3}, n_landmarks=30
        ).fit(X)


@pytest.mark.parametrize("est", [NeucMDS(2), LandmarkNeucMDS(2, 40, **PLAIN)])
@pytest.mark.parametrize("make", [np.asarray, array_api_strict.asarray])
def test_negative_abundances_are_refused(est, make):
    shifted = X.copy()
    shifted[3, 1] = -2.0
    braycurtis = clone(est).set_params(metric="braycurtis")
    message = "metric='braycurtis' takes abundances, but the lowest is -2;"
    with pytest.raises(InputError, match=message):
        braycurtis.fit(make(shifted))
    fitted = braycurtis.fit(make(X))
    with pytest.raises(InputError, match=message):
        fitted.transform(make(shifted))


def uphill(x, y):
    return np.abs(x - y).sum() + max(0.0, y[0] - x[0])


WAYS = {
    "all": NeucMDS(2),
    "sampled": NeucMDS(2, n_pairs=60),
    "gaps": NeucMDS(2, missing="ignore"),
    "landmarks": LandmarkNeucMDS(2, 40),
    "two levels": LandmarkNeucMDS(2, n_near=6),
}


@pytest.mark.parametrize("est", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (
            uphill,
            "the metric is not symmetric: .*; pass symmetrize=True to average",
        ),
        (
            lambda x, y: -np.abs(x - y).sum(),
            "negative d.*pass squared=True|Negative values",
        ),
        (
            lambda x, y: 2 + np.abs(x - y).sum(),
            r"and itself 4?2?(\.0)?, not 0|diagonal .* not zero",
        ),
    ],
    ids=["asymmetric", "negative", "not hollow"],
)
def test_functions_that_are_no_dissimilarity_are_refused(metric, message, est):
    with pytest.raises(InputError, match=message):
        clone(est).set_params(metric=metric, random_state=0).fit(X)


@pytest.mark.parametrize("est", WAYS.values(), ids=WAYS)
def test_an_asymmetric_function_is_averaged_over_both_orders(est):
    def averaged(x, y):
        return (uphill(x, y) + uphill(y, x)) / 2

    def fit(metric, **how):
        fitted = (
            clone(est).set_params(metric=metric, random_state=0, **how).fit(X)
        )
        return fitted.transform(X[:5])

    np.testing.assert_allclose(
        fit(uphill, symmetrize=True), fit(averaged), atol=1e-9
    )


def strict(values):
    return array_api_strict.asarray(values)


def tensor(values):
    return pytest.importorskip(
        "torch", reason="torch is not installed"
    ).asarray(values)


SUMS = (
    "braycurtis",
    "chebyshev",
    "cityblock",
    "hamming",
    "jaccard",
    "l1",
    "manhattan",
)


@pytest.mark.parametrize("make", [strict, tensor])
@pytest.mark.parametrize("metric", SUMS)
@pytest.mark.filterwarnings("ignore::neucmds.FewerComponentsWarning")
def test_sums_over_features_agree_with_scipy_in_any_library(metric, make):
    values = (X > 1.5).astype(float) if metric in ("jaccard", "hamming") else X
    name = "cityblock" if metric in ("l1", "manhattan") else metric
    expected = cdist(values, values, name)
    # All coordinates give D back.
    est = NeucMDS(149, method="neuc", metric=metric).fit(make(values))
    assert type(est.embedding_) is type(make(values))
    found = np.asarray(est.result_.dissimilarities(squared=True))
    np.testing.assert_allclose(
        found, expected**2, atol=1e-10 * np.max(expected**2)
    )
    placed = est.transform(make(values[:20]))
    np.testing.assert_allclose(
        np.asarray(placed), np.asarray(est.embedding_)[:20], atol=1e-6
    )


@pytest.mark.parametrize("metric", ["euclidean", "angular", "cityblock"])
@pytest.mark.parametrize(
    "est", [NeucMDS(2), LandmarkNeucMDS(2, 40, **PLAIN)], ids=["all", "some"]
)
def test_objects_among_themselves_are_at_zero_from_themselves(metric, est):
    """Otherwise D is refused: ‖x‖² + ‖x‖² − 2x·x rounds to more than its entries here."""
    far = 1e-3 * X + 1e6
    fitted = clone(est).set_params(metric=metric).fit(far)
    assert np.isfinite(fitted.embedding_).all()
