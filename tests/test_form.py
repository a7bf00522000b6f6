"""The form: g and its inverse, rows and pairs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neucmds.errors import InputError
from neucmds.form import Form

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


def test_beyond_a_sphere_all_are_antipodes():
    form = Form(np.ones(2), 0.25)
    np.testing.assert_allclose(
        form.to_distance(np.array([16.0, 17.0, 90.0])), 2 * np.pi
    )
    assert form.to_sq(np.array([90.0**2]))[0] == pytest.approx(16.0)


def test_a_curvature_that_the_largest_d_does_not_allow_is_refused():
    assert Form.of(1.0, 0.5, np.pi / 2).curvature == 4.0
    with pytest.raises(InputError, match=r"pass at most 2\.45"):
        Form.of(
            2.47 * 1.002,
            np.sqrt(2.47 * 1.002 / 4),
            np.pi / 2 * 1.001,
        )
    with pytest.raises(InputError, match="pass at least -570"):
        Form.of(-600.0, 1.0, 1.0)


@given(curvatures, st.integers(0, 2**31))
def test_rows_and_pairs_and_what_is_left_of_them_are_of_one_form(
    curvature, seed
):
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(0, 0.5, (2, 5, 3))
    signs, d = np.array([1.0, 1.0, -1.0]), rng.uniform(0, 1, (5, 5))
    form = Form(signs, curvature)
    sq = np.sum(signs * (x[:, None] - y) ** 2, axis=-1)
    np.testing.assert_allclose(form.sq(x, y), sq, atol=1e-12)
    np.testing.assert_allclose(form.paired_sq(x[:, None], y), sq, atol=1e-15)
    np.testing.assert_allclose(form.d(x, y), form.to_distance(sq), atol=1e-6)
    np.testing.assert_allclose(
        form.to_distance(form.paired_sq(x, y)),
        form.to_distance(np.diag(sq)),
        atol=1e-7,
    )
    missed = form.to_sq_distance(sq) - d
    np.testing.assert_allclose(form.residuals(x, y, d), missed, atol=1e-9)
    parts = form.paired_parts(x, y)
    np.testing.assert_allclose(parts.sum(axis=1), np.diag(sq), atol=1e-15)
    for axis in range(3):
        kept = np.arange(3) != axis
        fewer = Form(signs[kept], curvature).paired_sq(x[:, kept], y[:, kept])
        without = parts.sum(axis=1) - parts[:, axis]
        np.testing.assert_allclose(without, fewer, atol=1e-15)
    assert form.signature == (2, 1)
    assert form.scaled(4.0).curvature == 4 * curvature
