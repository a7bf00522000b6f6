"""How a curvature is looked for: on a cost that is made up, by the steps that are tried."""

from unittest.mock import patch

import numpy as np
import pytest

from neucmds._input import Components
from neucmds._methods.refined.scouting import Scout, mean_distance
from neucmds._spectrum import full_spectrum

D = np.random.default_rng(0).uniform(1, 4, (30, 30))
D = np.triu(D, 1) + np.triu(D, 1).T


def searched(cost):
    """Return what a method of a scout finds where κ costs this much, and which roots it tried."""
    seen = []

    def tried(self, curvature):
        root = np.sign(curvature) * np.sqrt(abs(curvature))
        seen.append(float(round(root, 6)))
        return cost(root), (2, 0)

    with patch.object(Scout, "_tried", tried):
        return Scout(D, None, "relative", None).curvature(), set(seen)


@pytest.mark.parametrize("bottom", [-2.9, -6.5])
def test_the_lowest_point_is_found_between_the_steps(bottom):
    found, _ = searched(lambda root: 1 + (root - bottom) ** 2)
    assert found == pytest.approx(-(bottom**2), rel=0.02)


def test_what_gains_little_or_nothing_is_flat():
    for cost in (lambda root: 1 + abs(root), lambda root: 1 - 0.019 * (root == -4), lambda _: 0.0):
        assert searched(cost)[0] == 0
    assert searched(lambda root: 1 - 0.021 * (root == -4))[0] == -16
    assert searched(lambda root: 1e-21 / (1 + abs(root)))[1] == {0.0}  # perfect as it is


def test_no_step_is_beyond_the_sphere_of_the_longest_or_fifteen_of_it():
    unit = mean_distance(D) / np.sqrt(D.max())
    found, seen = searched(lambda root: 1 / (1 + abs(root)))  # the farther the better
    assert found == pytest.approx(-((15 * unit) ** 2))
    assert min(seen) == pytest.approx(-15 * unit, abs=1e-6)
    found, seen = searched(lambda root: 2 + abs(root) if root < 0 else 1 / (1 + root))
    assert found == pytest.approx((np.pi * unit) ** 2)
    assert {float(round(share * np.pi * unit, 6)) for share in (0.5, 0.97, 1)} <= seen


def test_the_cost_is_the_square_of_the_mean_error_beside_that_of_one_place():
    x = np.random.default_rng(2).normal(size=(12, 2))
    exact = np.sum((x[:, None] - x) ** 2, axis=-1)
    for k, least, most in ((2, 0, 1e-9), (1, 1e-3, 0.5)):
        how = {"components": Components(k), "loss": "distance"}
        scout = Scout(exact, solve=lambda gram, *_: full_spectrum(gram), **how)
        cost, signature = scout._tried(0.0)
        assert least <= cost < most
        assert sum(signature) == k
        assert scout.signature() is signature
        assert set(scout.seen) == {0.0}


def test_the_unit_is_the_mean_distance_of_what_counts():
    off = ~np.eye(30, dtype=bool)
    assert mean_distance(D) == pytest.approx(np.sqrt(D[off]).mean())
    w = np.random.default_rng(1).uniform(0, 1, D.shape) * off
    with patch("neucmds._methods.refined.scouting.SCOUTS", 7):  # in blocks
        assert mean_distance(D, w) == pytest.approx(np.sum(w * np.sqrt(D)) / w.sum())
        some = Scout.among(D, w, 3, components=None, loss="relative", solve=None)
    assert some.sq_dissimilarity.shape == some.weights.shape == (7, 7)
    at = np.sort(np.random.default_rng(3).choice(30, 7, replace=False))
    np.testing.assert_array_equal(some.sq_dissimilarity, D[np.ix_(at, at)])
    np.testing.assert_array_equal(some.weights, w[np.ix_(at, at)])
    whole = Scout.among(D, None, 3, components=None, loss="relative", solve=None)
    assert whole.sq_dissimilarity is D
    assert whole.weights is None
