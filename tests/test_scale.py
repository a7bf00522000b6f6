"""Far from 1: powers of two change nothing, and what no float can hold is refused with its size."""

from __future__ import annotations

import io
import warnings

import numpy as np
import pytest

from neucmds import (
    Embedding,
    InputError,
    LandmarkNeucMDS,
    NeucMDS,
    compare,
    curve,
    evaluate,
    inspect,
    neuc_mds,
)
from neucmds.api import ALL_METHODS, COMPARED, prepare

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


# What looks at D beside `neuc_mds`: exact powers of two, so that every number is to agree.

FAR = [-400, 498]  # at 2^-500 a STRESS of 1e-26 is subnormal


def only_scaled(near: dict, far: dict, powers: dict, exponent: int) -> None:
    """Every number of two records agrees, those of `powers` up to that power of the scale."""
    assert near.keys() == far.keys()
    for name, value in near.items():
        if isinstance(value, dict):
            only_scaled(value, far[name], powers, exponent)
        elif name != "seconds" and not isinstance(value, (str, bool)) and value is not None:
            factor = 2.0 ** (powers.get(name, 0) * exponent)
            flat = [np.ravel(np.asarray(one, dtype=float)) for one in (value, far[name])]
            np.testing.assert_allclose(flat[1], flat[0] * factor, rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("exponent", [-500, 470])
def test_inspect_knows_any_scale(exponent):
    D = sq_dissimilarities()
    D[2, 9] = D[9, 2] = 1e6
    near, far = (inspect(one, squared=True) for one in (D, D * 2.0**exponent))
    scaled = ("smallest", "largest", "largest_eigenvalue", "smallest_eigenvalue", "noise_band")
    records = [found.as_dict() for found in (near, far)]
    outliers = [record.pop("outliers") for record in records]
    only_scaled(*records, dict.fromkeys(scaled, 1), exponent)
    assert outliers[1]["typical"] == outliers[0]["typical"] * 2.0**exponent
    ((i, j, entry),) = far.outliers.entries
    assert (i, j, entry) == (2, 9, 1e6 * 2.0**exponent)


@pytest.mark.parametrize("exponent", FAR)
def test_curve_knows_any_scale(exponent):
    D = sq_dissimilarities()
    near, far = (curve(one, squared=True) for one in (D, D * 2.0**exponent))
    powers = dict.fromkeys([*near.stress, "sq_norm", "best_stress", "last_stress"], 2)
    records = [found.as_dict() for found in (near, far)]
    shares = [record.pop("normalized_stress") for record in records]
    only_scaled(*records, powers, exponent)
    only_scaled(*shares, {}, exponent)
    np.testing.assert_allclose(far.eigenvalues, near.eigenvalues * 2.0**exponent, rtol=1e-12)


@pytest.mark.parametrize("factor", [1e-50, 1e-45, 1e40, 1e45, 1e50])
def test_every_figure_of_quality_is_only_scaled_where_its_squares_leave_the_floats(factor):
    D = np.sqrt(np.abs(sq_dissimilarities()))
    near, far = (evaluate(neuc_mds(D * one, 3, "classical"), D * one) for one in (1.0, factor))
    expected = near.scaled_additive_error * factor**2
    assert far.scaled_additive_error == pytest.approx(expected, rel=1e-9)
    assert far.r2 == pytest.approx(near.r2, rel=1e-9)


@pytest.mark.parametrize("exponent", FAR)
def test_compare_and_evaluate_know_any_scale(exponent):
    D = np.abs(sq_dissimilarities())
    near, far = (compare(one, 3, COMPARED, squared=True) for one in (D, D * 2.0**exponent))
    assert [one.method for one in far.methods] == list(COMPARED)
    powers = {"stress": 2, "scaled_additive_error": 1, "raw_stress": 1}
    for one, other in zip(near.methods, far.methods, strict=True):
        if one.method == "smacof":  # which stops by an absolute gain in scikit-learn 1.6
            continue
        only_scaled(one.as_dict(), other.as_dict(), powers, exponent)
        expected = one.embedding.coordinates * 2.0 ** (exponent // 2)
        exact = 0 if one.method in ALL_METHODS else 1e-9
        np.testing.assert_allclose(other.embedding.coordinates, expected, rtol=exact)
        assert other.embedding.squared
        quality = evaluate(other.embedding, D * 2.0**exponent)
        assert quality.stress == pytest.approx(other.quality.stress, rel=1e-12)
    again = prepare(D * 2.0**exponent, squared=True)
    assert compare(again, 3, ["neuc+"])["neuc+"].quality == far["neuc+"].quality


@pytest.mark.parametrize("factor", [1e-25, 1e15])
def test_single_precision_is_compared_inspected_and_drawn(factor):
    D = np.sqrt(np.abs(sq_dissimilarities()))
    near, far = D.astype(np.float32), (D * factor).astype(np.float32)
    a, b = inspect(near), inspect(far)
    assert (a.euclidean, a.suggested_k) == (b.euclidean, b.suggested_k)
    assert b.largest == pytest.approx(a.largest * factor**2, rel=1e-5)
    one, other = (compare(given, 2, ["neuc+"])["neuc+"].quality for given in (near, far))
    assert other.normalized_stress == pytest.approx(one.normalized_stress, rel=1e-3)
    at = [curve(given, [2], ["neuc+"]).normalized("neuc+")[0] for given in (near, far)]
    assert at[1] == pytest.approx(at[0], rel=1e-3)


@pytest.mark.parametrize("size", [1e-160, 7e153])
@pytest.mark.parametrize("look", [inspect, curve, compare])
def test_what_no_float_can_hold_is_refused_with_its_size(look, size):
    D = np.sqrt(np.abs(sq_dissimilarities()))
    D *= size / D.max()
    with pytest.raises(InputError, match=f"the largest entry is {size:.2g}".replace("+", r"\+")):
        look(D)


def test_a_callback_hears_what_is_reported():
    D, heard = sq_dissimilarities() * 2.0**498, []
    found = neuc_mds(D, 3, squared=True, callback=lambda step, value: heard.append(value))
    assert heard[-1] == pytest.approx(found.history[-1], rel=1e-12)


@pytest.mark.parametrize("exponent", FAR)
@pytest.mark.parametrize("gaps", [False, True])
def test_pictures_know_any_scale(exponent, gaps):
    from neucmds.plots import sampled_pairs

    D = sq_dissimilarities()
    D = with_a_gap(D) if gaps else D
    found = []
    for factor in (1.0, 2.0**exponent):
        emb = neuc_mds(D * factor, 3, squared=True, missing="ignore" if gaps else "error")
        pairs = sampled_pairs(D * factor, emb, None, False)
        found.append((pairs.given / factor, pairs.fitted / factor))
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize("factor", [1e-25, 1e-22, 1e15])
def test_landmarks_in_single_precision(factor):
    D = np.sqrt(np.abs(sq_dissimilarities()))
    near, far = (
        LandmarkNeucMDS(2, 8, random_state=0).fit_transform((D * f).astype(np.float32))
        for f in (1.0, factor)
    )
    np.testing.assert_allclose(far.astype(float) / factor, near, rtol=1e-3, atol=1e-4)
