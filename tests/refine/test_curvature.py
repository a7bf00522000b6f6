"""g and its inverse, losses on the scale of g, and the two spaces that have no error on it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neucmds.errors import InputError
from neucmds.form import curved, distances, flat, kappa_of
from neucmds.refine.losses import PairLoss

curvatures = st.sampled_from([-2.0, -0.3, 0.0, 0.2, 0.9])


@given(curvatures, st.integers(0, 2**31))
def test_g_is_d_squared_for_near_pairs_and_has_an_inverse(curvature, seed):
    d = np.random.default_rng(seed).uniform(0, 3, 40)
    link = curved(d**2, curvature)
    if curvature:
        c = np.sqrt(abs(curvature))
        of_angle = np.cosh(c * d) - 1 if curvature < 0 else 1 - np.cos(c * d)
        np.testing.assert_allclose(link, 2 * of_angle / c**2, atol=1e-12)
    np.testing.assert_allclose(distances(link, curvature), d, atol=1e-7)
    np.testing.assert_allclose(flat(link, curvature), d**2, atol=1e-7)
    np.testing.assert_allclose(flat(-link, curvature), -(d**2), atol=1e-7)
    np.testing.assert_allclose(curved(-(d**2), curvature), -link)
    near = np.array([1e-6, -1e-6])
    np.testing.assert_allclose(curved(near, curvature), near, rtol=1e-5)
    np.testing.assert_allclose(flat(near, curvature), near, rtol=1e-5)
    assert distances(near, curvature)[1] == 0


@given(curvatures, st.sampled_from(["distance", "relative"]), st.integers(0, 2**31))
def test_errors_count_in_d_whatever_the_curvature(curvature, name, seed):
    rng = np.random.default_rng(seed)
    d, floor = rng.uniform(0.1, 2.9, 40), 0.5
    d_hat = d * (1 + rng.uniform(-1e-4, 1e-4, 40))
    loss = PairLoss(name, 0.0, curvature=curvature).floored(floor)
    link, fitted = curved(d**2, curvature), curved(d_hat**2, curvature)
    found = loss.terms(link, fitted.copy(), bend=True)
    error = d_hat - d
    # q of "relative" is D̂/D − 1 where κ is zero, twice the relative error of d.
    expected = error if name == "distance" else 2 * error * _slope(d, floor, curvature)
    np.testing.assert_allclose(found.residual, expected, rtol=2e-3, atol=1e-9)
    step = 1e-5 * fitted
    up, down = (loss.terms(link, fitted + s).residual for s in (step, -step))
    np.testing.assert_allclose((up - down) / (2 * step), found.slope, rtol=1e-4)
    sizes = np.abs(error) / (1 if name == "distance" else np.maximum(d, floor))
    assert loss.in_distances(link, fitted) == pytest.approx(sizes.sum(), rel=1e-3)
    counted = rng.integers(0, 2, 40)
    assert loss.in_distances(link, fitted, counted) == pytest.approx(counted @ sizes, rel=1e-3)
    if name == "distance":
        bent = 1 + found.residual * (up - 2 * found.residual + down) / (step * found.slope) ** 2
        np.testing.assert_allclose(found.curvature, bent, atol=1e-2)


def test_beyond_a_sphere_all_are_antipodes_and_errors_stay_finite():
    edge, kappa = 4 * (1 - 0.05**2) / 0.25, 0.25
    np.testing.assert_allclose(distances(np.array([16.0, 17.0, 90.0]), kappa), 2 * np.pi)
    assert curved(np.array([90.0**2]), kappa)[0] == pytest.approx(16.0)
    loss, d = PairLoss("distance", 0.01, curvature=kappa), np.full(3, 9.0)
    terms = loss.terms(d, np.array([edge, edge + 1, edge + 2]), bend=True)
    # From there on the arc is its tangent.
    np.testing.assert_allclose(np.diff(terms.residual), terms.slope[:2])
    assert terms.residual[0] == pytest.approx(
        4 * np.arcsin(np.sqrt(edge) / 4) - distances(d, kappa)[0]
    )
    np.testing.assert_array_equal(terms.curvature[1:], 1)


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
