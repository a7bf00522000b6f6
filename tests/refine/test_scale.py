"""Far from 1: the scale of D is the scale of the answer, and too far is refused in one line."""

import re
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from neucmds import (
    InputError,
    LandmarkNeucMDS,
    NeucMDS,
    compare,
    diagnose,
    evaluate,
    neuc_mds,
    stress_curve,
)

N = 11
METHODS = ("classical", "lower", "neuc", "neuc+", "exact", "refined")


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def sq_dissimilarities() -> np.ndarray:
    X = np.random.default_rng(0).normal(size=(N, 4))
    return (X[:, None] - X) ** 2 @ np.array([1.0, 1.0, 1.0, -0.5])


def weights() -> np.ndarray:
    W = np.random.default_rng(1).uniform(0.5, 2, (N, N))
    return W + W.T


def with_a_gap(D: np.ndarray) -> np.ndarray:
    D = D.copy()
    D[3, 4] = D[4, 3] = np.nan
    return D


WAYS = {
    **{method: {"method": method} for method in METHODS},
    "weights": {"weights": weights()},
    "gaps": {"missing": "ignore"},
    "distance": {"loss": "distance", "n_init": 1, "random_state": 0},
    "relative": {"loss": "relative", "n_init": 1, "random_state": 0},
}


# Of the squared scale, within the 1e±90 that are allowed; sums of cubes are then 1e±250.
FAR = [-276, 276]


@pytest.mark.parametrize("exponent", FAR)
@pytest.mark.parametrize("way", WAYS)
def test_a_power_of_two_changes_nothing_but_the_scale(way, exponent):
    D = sq_dissimilarities()
    if "loss" in WAYS[way]:
        D = np.abs(D)
    D = with_a_gap(D) if way == "gaps" else D
    factor, root = 2.0**exponent, 2.0 ** (exponent // 2)
    plain = neuc_mds(D, 3, squared=True, **WAYS[way])
    far = neuc_mds(D * factor, 3, squared=True, **WAYS[way])
    np.testing.assert_allclose(
        far.coordinates / root, plain.coordinates, rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(far.weights / factor, plain.weights, rtol=1e-9)
    assert far.r2 == pytest.approx(plain.r2, rel=1e-12)
    assert far.signature == plain.signature
    new = np.abs(sq_dissimilarities()[:5]) * 1.1
    np.testing.assert_allclose(
        far.transform(new * factor) / root,
        plain.transform(new),
        rtol=1e-9,
        atol=1e-12,
    )
    if way != "gaps":
        one, other = evaluate(plain, D), evaluate(far, D * factor)
        assert other.scaled_additive_error == pytest.approx(
            one.scaled_additive_error * factor
        )
        assert other.distortion == pytest.approx(one.distortion)


# Squares of these lengths are beyond float32.
@pytest.mark.parametrize("exponent", [-100, 100])
@pytest.mark.parametrize(
    "way",
    [
        {"metric": "shortest_path", "loss": "relative", "n_init": 1},
        {"metric": "cityblock", "loss": "relative", "n_near": 20},
    ],
)
def test_landmarks_know_the_scale(way, exponent):
    X = np.random.default_rng(0).normal(size=(600, 4))
    data = X
    if way["metric"] == "shortest_path":
        near = NearestNeighbors(n_neighbors=8).fit(X)
        edges = near.kneighbors_graph(mode="distance")
        data = edges.maximum(edges.T)
    plain, far = (
        LandmarkNeucMDS(2, 200, **way).fit(scale * data)
        for scale in (1.0, 2.0**exponent)
    )
    np.testing.assert_array_equal(
        far.embedding_ / 2.0**exponent, plain.embedding_
    )
    assert far.result_.loss_value == plain.result_.loss_value


@pytest.mark.parametrize("exponent", FAR)
def test_inspect_curve_and_compare_know_the_scale(exponent):
    D, factor = sq_dissimilarities(), 2.0**exponent
    near, far = (diagnose(one, squared=True) for one in (D, D * factor))
    assert far.largest == near.largest * factor
    assert (far.euclidean, far.suggested_k) == (
        near.euclidean,
        near.suggested_k,
    )
    one, other = (
        stress_curve(given, squared=True) for given in (D, D * factor)
    )
    assert other.best_k == one.best_k
    np.testing.assert_allclose(
        other.normalized("neuc+"), one.normalized("neuc+"), atol=1e-15
    )
    methods = ["neuc+", "cailliez"]
    a, b = (
        compare(given, 3, methods, squared=True)
        for given in (abs(D), abs(D) * factor)
    )
    for method in methods:
        assert b[method].quality.r2 == pytest.approx(a[method].quality.r2)


LOOKS = {
    "neuc_mds": lambda D: neuc_mds(D, 3),
    "diagnose": diagnose,
    "stress_curve": stress_curve,
    "compare": compare,
    "pairs": lambda D: neuc_mds(sparse.csr_array(D), 3),
    "features": lambda D: NeucMDS(3, metric="cityblock").fit(D),
}


@pytest.mark.parametrize("look", LOOKS)
def test_what_leaves_the_range_is_refused_with_the_factor_to_divide_by(look):
    D = np.sqrt(np.abs(sq_dissimilarities()))
    D /= D.max()
    said = (
        r"D is too .*; divide by ([\de+-]+)\.|metric gives (NaN or )?infinity"
    )
    for size in (1e-150, 1e-60, 1e60, 1e300):
        with pytest.raises(InputError, match=said) as refusal:
            LOOKS[look](1.5 * size * D)
        advised = re.search(said, str(refusal.value))[1]
        if advised is not None:
            LOOKS[look](1.5 * size * D / float(advised))
    for size in (1e-44, 1e44):
        LOOKS[look](size * D)
