"""The form: g and its inverse, and losses on the scale of g."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neucmds.errors import InputError
from neucmds.form import Form, kappa_of
from neucmds.refine.losses import PairLoss

curvatures = st.sampled_from([-2.0, -0.3, 0.0, 0.2, 0.9])


@given(curvatures, st.integers(0, 2**31))
def test_g_is_d_squared_for_near_pairs_and_has_an_inverse(curvature, seed):
    d = np.random.default_rng(seed).uniform(0, 3, 40)
    form = Form(np.ones(2), curvature)
    link = form.to_sq(d**2)
    if curvature:
        c = np.sqrt(abs(curvature))
        of_angle = np.cosh(c * d) - 1 if curvature < 0 else 1 - np.cos(c * d)
        np.testing.assert_allclose(link, 2 * of_angle / c**2, atol=1e-12)
    np.testing.assert_allclose(form.to_distance(link), d, atol=1e-7)
    np.testing.assert_allclose(form.to_sq_distance(link), d**2, atol=1e-7)
    np.testing.assert_allclose(form.to_sq_distance(-link), -(d**2), atol=1e-7)
    np.testing.assert_allclose(form.to_sq(-(d**2)), -link)
    near = np.array([1e-6, -1e-6])
    np.testing.assert_allclose(form.to_sq(near), near, rtol=1e-5)
    np.testing.assert_allclose(form.to_sq_distance(near), near, rtol=1e-5)
    assert form.to_distance(near)[1] == 0


@given(curvatures, st.sampled_from(["distance", "relative"]), st.integers(0, 2**31))
def test_errors_count_in_d_whatever_the_curvature(curvature, name, seed):
    rng = np.random.default_rng(seed)
    d, floor = rng.uniform(0.1, 2.9, 40), 0.5
    d_hat = d * (1 + rng.uniform(-1e-4, 1e-4, 40))
    form = Form(np.ones(2), curvature)
    loss = PairLoss(name).floored(floor, form)
    link, fitted = form.to_sq(d**2), form.to_sq(d_hat**2)
    residual, slope, bend = loss.terms(form, link, fitted.copy(), bend=True)
    error = d_hat - d
    # q of "relative" is D̂/D − 1 where κ is zero, twice the relative error of d.
    expected = error if name == "distance" else 2 * error * _slope(d, floor, curvature)
    np.testing.assert_allclose(residual, expected, rtol=2e-3, atol=1e-9)
    step = 1e-5 * fitted
    up, down = (loss.terms(form, link, fitted + s)[0] for s in (step, -step))
    np.testing.assert_allclose((up - down) / (2 * step), slope, rtol=1e-4)
    sizes = np.abs(error) / (1 if name == "distance" else np.maximum(d, floor))
    assert loss.in_distances(form, link, fitted) == pytest.approx(sizes.sum(), rel=1e-3)
    counted = rng.integers(0, 2, 40)
    assert loss.in_distances(form, link, fitted, counted) == pytest.approx(
        counted @ sizes, rel=1e-3
    )
    if name == "distance":
        bent = 1 + residual * (up - 2 * residual + down) / (step * slope) ** 2
        np.testing.assert_allclose(bend, bent, atol=1e-2)


def test_beyond_a_sphere_all_are_antipodes_and_errors_stay_finite():
    edge, kappa = 4 * (1 - 0.05**2) / 0.25, 0.25
    form = Form(np.ones(2), kappa)
    np.testing.assert_allclose(form.to_distance(np.array([16.0, 17.0, 90.0])), 2 * np.pi)
    assert form.to_sq(np.array([90.0**2]))[0] == pytest.approx(16.0)
    loss, d = PairLoss("distance", 0.01), np.full(3, 9.0)
    residual, slope, bend = loss.terms(form, d, np.array([edge, edge + 1, edge + 2]), bend=True)
    # From there on the arc is its tangent.
    np.testing.assert_allclose(np.diff(residual), slope[:2])
    assert residual[0] == pytest.approx(4 * np.arcsin(np.sqrt(edge) / 4) - form.to_distance(d)[0])
    np.testing.assert_array_equal(bend[1:], 1)


def _slope(d, floor, curvature):
    """What an error of d counts: 1/d, and below the floor g′(d)/g′(f) of 1/f."""
    c = np.sqrt(abs(curvature))

    def slope(d):
        return 2 * d if not c else 2 * (np.sinh if curvature < 0 else np.sin)(c * d) / c

    low = np.maximum(d, floor)
    return slope(d) / slope(low) / low


def test_a_curvature_that_the_largest_d_does_not_allow_is_refused():
    assert kappa_of(1.0, 0.5, np.pi / 2) == 4.0
    with pytest.raises(InputError, match=r"pass at most 2\.45"):
        kappa_of(2.47 * 1.002, np.sqrt(2.47 * 1.002 / 4), np.pi / 2 * 1.001)
    with pytest.raises(InputError, match="pass at least -570"):
        kappa_of(-600.0, 1.0, 1.0)


@given(curvatures, st.integers(0, 2**31))
def test_rows_and_pairs_and_what_is_left_of_them_are_of_one_form(curvature, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(0, 0.5, (2, 5, 3))
    signs, d = np.array([1.0, 1.0, -1.0]), rng.uniform(0, 1, (5, 5))
    form = Form(signs, curvature)
    sq = np.sum(signs * (x[:, None] - y) ** 2, axis=-1)
    np.testing.assert_allclose(form.sq(x, y), sq, atol=1e-12)
    np.testing.assert_allclose(form.paired_sq(x[:, None], y), sq, atol=1e-15)
    np.testing.assert_allclose(form.d(x, y), form.to_distance(sq), atol=1e-6)
    np.testing.assert_allclose(form.paired_d(x, y), form.to_distance(np.diag(sq)), atol=1e-7)
    missed = form.to_sq_distance(sq) - d
    np.testing.assert_allclose(form.residuals(x, y, d), missed, atol=1e-9)
    paired, without = form.paired_residuals(x, y, np.diag(d))
    np.testing.assert_allclose(paired, np.diag(missed), atol=1e-12)
    for axis in range(3):
        kept = np.arange(3) != axis
        fewer = Form(signs[kept], curvature).residuals(x[:, kept], y[:, kept], d)
        np.testing.assert_allclose(without[:, axis], np.diag(fewer), atol=1e-9)
    assert form.signature == (2, 1)
    assert form.scaled(4.0).curvature == 4 * curvature
