"""Far from 1: powers of two change nothing, and what no float can hold is refused with its size."""

from __future__ import annotations

import io
import warnings

import numpy as np
import pytest

from neucmds import Embedding, InputError, NeucMDS, neuc_mds
from neucmds.api import ALL_METHODS

N = 14


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
    **{method: {"method": method} for method in ALL_METHODS},
    "weights": {"weights": weights()},
    "gaps": {"missing": "ignore"},
    "distance": {"loss": "distance", "n_init": 1, "random_state": 0},
    "relative": {"loss": "relative", "n_init": 1, "random_state": 0},
}


@pytest.mark.parametrize("exponent", [-500, 498])
@pytest.mark.parametrize("way", WAYS)
def test_a_power_of_two_changes_nothing_but_the_scale(way, exponent):
    D = sq_dissimilarities()
    if "loss" in WAYS[way]:
        D = np.abs(D)
    D = with_a_gap(D) if way == "gaps" else D
    plain = neuc_mds(D, 3, squared=True, **WAYS[way])
    far = neuc_mds(D * 2.0**exponent, 3, squared=True, **WAYS[way])
    root = 2.0 ** (exponent // 2)
    np.testing.assert_array_equal(far.coordinates, plain.coordinates * root)
    np.testing.assert_array_equal(far.weights, plain.weights * 2.0**exponent)
    np.testing.assert_array_equal(far.eigenvalues, plain.eigenvalues * 2.0**exponent)
    assert far.normalized_stress == pytest.approx(plain.normalized_stress, rel=1e-12)
    assert far.r2 == pytest.approx(plain.r2, rel=1e-12)
    assert far.signature == plain.signature
    new = np.abs(sq_dissimilarities()[:5]) * 1.1
    again = io.BytesIO()
    far.save(again)
    np.testing.assert_allclose(
        far.transform(new * 2.0**exponent) / root, plain.transform(new), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("factor", [1e-150, 1e150])
def test_ten_to_the_power_of_150(factor, tmp_path):
    D = sq_dissimilarities()
    plain = neuc_mds(D, 3, squared=True)
    far = neuc_mds(D * factor, 3, squared=True)
    np.testing.assert_allclose(far.dissimilarities() / factor, plain.dissimilarities(), atol=1e-12)
    brute = float(np.sum((far.dissimilarities() / factor - D) ** 2))
    assert far.stress / factor**2 == pytest.approx(brute, rel=1e-9)
    far.save(tmp_path / "far.npz")
    loaded = Embedding.load(tmp_path / "far.npz")
    np.testing.assert_array_equal(loaded.transform(D * factor), far.transform(D * factor))
    warm = neuc_mds(D * factor, squared=True, init=far)
    assert warm.normalized_stress <= plain.normalized_stress * (1 + 1e-9)
    assert NeucMDS(3, squared=True).fit(D * factor).stress_ == far.stress


@pytest.mark.parametrize("factor", [1e-76, 1e74])
def test_unsquared_dissimilarities_as_far_as_their_stress_is_a_number(factor):
    D = np.sqrt(np.abs(sq_dissimilarities()))
    plain, far = neuc_mds(D, 3), neuc_mds(D * factor, 3)
    assert far.normalized_stress == pytest.approx(plain.normalized_stress, rel=1e-9)
    np.testing.assert_allclose(far.coordinates / factor, plain.coordinates, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("dtype", "factor"),
    [(np.float32, 1e-25), (np.float32, 1e-22), (np.float32, 1e-15), (np.float32, 1e15)],
)
def test_single_precision(dtype, factor):
    D = np.sqrt(np.abs(sq_dissimilarities()))
    plain, far = neuc_mds(D.astype(dtype), 3), neuc_mds((D * factor).astype(dtype), 3)
    assert far.signature == plain.signature
    assert far.normalized_stress == pytest.approx(plain.normalized_stress, rel=1e-4)
    found = np.asarray(far.dissimilarities(), dtype=np.float64) / factor**2
    np.testing.assert_allclose(found, plain.dissimilarities(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("size", [1e-150, 1e100, 1e150, 7e153, 1e300])
def test_what_overflows_is_refused_with_its_size(size):
    D = np.sqrt(np.abs(sq_dissimilarities()))
    D *= size / D.max()
    with pytest.raises(InputError, match=f"the largest entry is {size:.2g}".replace("+", r"\+")):
        neuc_mds(D, 3)


@pytest.mark.parametrize("factor", [2.0**-900, 2.0**900])
@pytest.mark.parametrize("loss", ["squared", "relative"])
def test_weights_count_by_their_ratios(factor, loss):
    D, options = np.abs(sq_dissimilarities()), {"loss": loss, "random_state": 0}
    plain = neuc_mds(D, 3, squared=True, weights=weights(), **options)
    far = neuc_mds(D, 3, squared=True, weights=weights() * factor, **options)
    np.testing.assert_array_equal(far.coordinates, plain.coordinates)
    assert far.stress == pytest.approx(plain.stress * factor, rel=1e-12)


def test_weights_of_1e305():
    D = sq_dissimilarities() * 1e-3
    plain = neuc_mds(D, 3, squared=True, weights=np.ones((N, N)))
    far = neuc_mds(D, 3, squared=True, weights=np.full((N, N), 1e305))
    assert far.stress / 1e305 == pytest.approx(plain.stress, rel=1e-9)


def test_subnormal_weights_of_a_large_D():
    D = sq_dissimilarities() * 2.0**100
    found = neuc_mds(D, 3, squared=True, weights=np.full((N, N), 2.0**-1060))
    plain = neuc_mds(D, 3, squared=True, weights=np.ones((N, N)))
    assert found.normalized_stress == pytest.approx(plain.normalized_stress, rel=1e-9)


def test_new_objects_too_far_for_any_float_are_refused():
    D = np.sqrt(np.abs(sq_dissimilarities()))
    with pytest.raises(InputError, match="too large to be placed: the largest is"):
        neuc_mds(D, 3).transform(D * 1e200)


def test_ordinary_data_are_not_rescaled():
    from neucmds._input import as_dissimilarity

    for factor in (1e-45, 1.0, 1e45):
        assert as_dissimilarity(sq_dissimilarities() ** 2 * factor, rescale=True).exponent == 0
