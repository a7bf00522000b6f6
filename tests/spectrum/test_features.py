"""D from features is the D of a distance matrix, in every array library, and is never stored."""

import re

import array_api_strict
import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise_distances

from neucmds import InputError, NeucMDS, neuc_mds

N = 150
RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(N, 6)) * np.linspace(2, 1, 6) + 3
BALL = 0.9 * RNG.normal(size=(N, 6)) / 4
BALL /= np.maximum(1, np.linalg.norm(BALL, axis=1, keepdims=True) / 0.95)
STRICT = array_api_strict.asarray(POINTS)
ROUND = np.c_[10 * RNG.normal(size=(N, 4)), RNG.uniform(0, 3, N)]


def torch_array(values):
    return pytest.importorskip("torch").asarray(np.array(values))


LIBRARIES = {
    "numpy": np.asarray,
    "strict": array_api_strict.asarray,
    "torch": torch_array,
}
library = pytest.mark.parametrize("make", LIBRARIES.values(), ids=LIBRARIES)


def sq_angular(x, y):
    unit = [a / np.linalg.norm(a, axis=1, keepdims=True) for a in (x, y)]
    return np.arccos(np.clip(unit[0] @ unit[1].T, -1, 1)) ** 2


def sq_poincare(x, y):
    gap = cdist(x, y, "sqeuclidean")
    inside = [1 - np.sum(a**2, axis=1) for a in (x, y)]
    return np.arccosh(1 + 2 * gap / (inside[0][:, None] * inside[1])) ** 2


def sq_balls(x, y):
    return (
        np.maximum(0, cdist(x[:, :-1], y[:, :-1]) - x[:, -1:] - y[:, -1]) ** 2
    )


CASES = {
    "angular": (POINTS, "angular", {}, sq_angular),
    "cosine": (POINTS, "cosine", {}, lambda x, y: cdist(x, y, "cosine") ** 2),
    "euclidean": (
        POINTS,
        "euclidean",
        {},
        lambda x, y: cdist(x, y, "sqeuclidean"),
    ),
    "root": (POINTS, "euclidean", {"power": 0.5}, cdist),
    "cube": (POINTS, "euclidean", {"power": 3}, lambda x, y: cdist(x, y) ** 6),
    "rbf": (
        POINTS,
        "rbf",
        {"gamma": 0.05},
        lambda x, y: 2 - 2 * np.exp(-0.05 * cdist(x, y, "sqeuclidean")),
    ),
    "balls": (ROUND, "balls", {}, sq_balls),
    "poincare": (BALL, "hyperbolic", {}, sq_poincare),
}
pytestmark = pytest.mark.filterwarnings(
    "ignore::neucmds.FewerComponentsWarning"
)
case = pytest.mark.parametrize(
    ("features", "metric", "params", "expected"), CASES.values(), ids=CASES
)


def hollow(D):
    D = (D + D.T) / 2
    np.fill_diagonal(D, 0)
    return D


def recovered(features, metric, **settings):
    """Return D as all coordinates give it back, and the embedding."""
    embedding = neuc_mds(features, N - 1, "neuc", metric=metric, **settings)
    return np.asarray(embedding.dissimilarities(squared=True)), embedding


@library
@case
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_every_metric_agrees_with_its_definition(
    make, dtype, features, metric, params, expected
):
    D = hollow(expected(features, features))
    given = make(features.astype(dtype))
    found, embedding = recovered(given, metric, metric_params=params)
    assert embedding.coordinates.dtype == given.dtype
    tolerance = (1e-11 if dtype == "float64" else 2e-5) * D.max()
    np.testing.assert_allclose(found, D, atol=tolerance)
    assert embedding.info.sq_norm == pytest.approx(
        np.sum(D**2), rel=1e-10 if dtype == "float64" else 1e-4
    )


@pytest.mark.parametrize(
    "metric", ["canberra", "mahalanobis", "sqeuclidean", "l1"]
)
def test_every_metric_of_scikit_learn_is_known_to_numpy(metric):
    found, _ = recovered(POINTS, metric)
    expected = pairwise_distances(POINTS, metric=metric) ** 2
    np.testing.assert_allclose(
        found, hollow(expected), atol=1e-9 * expected.max()
    )


@pytest.mark.parametrize(
    "make", [LIBRARIES["strict"], LIBRARIES["torch"]], ids=["strict", "torch"]
)
def test_a_function_of_two_blocks_may_return_squared_and_negative_dissimilarities(
    make,
):
    signs = make(np.array([-1.0, 1, 1, 1, 1, 1]))

    def lorentz(x, y):
        return (x[:, None, :] - y[None, :, :]) ** 2 @ signs

    found, embedding = recovered(make(POINTS), lorentz, squared=True)
    assert found.min() < 0
    assert embedding.signature == (5, 1)
    assert embedding.squared
    assert embedding.normalized_stress < 1e-20


@library
def test_the_answer_is_the_same_where_the_matrix_does_not_fit(
    make, monkeypatch
):
    settings = {"metric": "angular", "method": "neuc+"}
    stored = NeucMDS(4, **settings).fit(make(POINTS))
    # 600 kB hold the vectors of the solver but not the matrix.
    monkeypatch.setattr(
        "neucmds.backend.memory.available_memory", lambda: 600_000
    )
    never = NeucMDS(4, **settings).fit(make(POINTS))
    np.testing.assert_allclose(
        np.asarray(never.eigenvalues_),
        np.asarray(stored.eigenvalues_),
        rtol=1e-9,
    )
    np.testing.assert_allclose(
        np.asarray(never.transform(make(POINTS[:5]))),
        np.asarray(stored.embedding_)[:5],
        atol=1e-7,
    )


def test_unknown_metrics_are_refused_with_the_known_ones():
    known = (
        "angular",
        "balls",
        "cosine",
        "euclidean",
        "hyperbolic",
        "rbf",
        "manhattan",
        "jaccard",
    )
    with pytest.raises(InputError, match="'manhatan' is unknown") as caught:
        neuc_mds(POINTS, 2, metric="manhatan")
    assert all(name in str(caught.value) for name in known)
    with pytest.raises(
        InputError,
        match="'canberra' is unknown; known are angular, balls, braycurtis",
    ):
        neuc_mds(STRICT, 2, metric="canberra")


@pytest.mark.parametrize(
    ("features", "metric", "params", "message"),
    [
        (
            np.vstack([POINTS, np.zeros(6)]),
            "angular",
            {},
            f"row {N} of the features is zero",
        ),
        (
            POINTS,
            "hyperbolic",
            {},
            "points of the Poincaré ball have norm below 1",
        ),
        (-np.abs(POINTS), "balls", {}, "is negative"),
        (POINTS[:, :1], "balls", {}, "radii"),
        (
            POINTS,
            "rbf",
            {"gamma": -1.0},
            "gamma=-1.0 must be a positive number",
        ),
        (
            POINTS,
            "euclidean",
            {"power": 0},
            "power=0 must be a positive number",
        ),
        (POINTS, "angular", {"power": 2}, "does not take 'power'"),
        (
            np.where(POINTS > 8, np.nan, POINTS),
            "euclidean",
            {},
            "NaN or infinity, first in row",
        ),
        (POINTS[0], "euclidean", {}, "features have shape (6,)"),
        (
            POINTS * 1e200,
            "euclidean",
            {},
            "the metric gives NaN or infinity, first for objects",
        ),
        (STRICT, lambda x, y: x[:3, 0], {}, "returned shape (3,)"),
        (
            STRICT,
            lambda x, y: abs(x[:, :1] - 2 * y[:, 0]),
            {},
            "the metric is not symmetric",
        ),
        (STRICT, "cityblock", {"w": 1}, "does not take 'w'"),
    ],
)
def test_what_cannot_be_measured_is_refused(features, metric, params, message):
    with (
        np.errstate(all="ignore"),
        pytest.raises(InputError, match=re.escape(message)),
    ):
        neuc_mds(features, 2, metric=metric, metric_params=params)
