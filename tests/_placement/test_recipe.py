"""What a placement rule learns from the landmarks, and that it is the one asked for."""

import numpy as np
import pytest

from neucmds import LandmarkNeucMDS, neuc_mds
from neucmds._placement.least_squares import LinearPlacement
from neucmds._placement.recipe import Recipe, least_squares_rule, misfit
from neucmds.datasets import random_simplex


def test_the_misfit_is_the_least_squares_fit_of_one_number_an_object():
    rng = np.random.default_rng(2)
    errors = rng.normal(size=(7, 7))
    errors = errors + errors.T
    np.fill_diagonal(errors, 0)
    i, j = np.triu_indices(7, 1)
    design = np.zeros((i.size, 7))
    design[np.arange(i.size), i] = design[np.arange(i.size), j] = 1
    expected = np.linalg.lstsq(design, errors[i, j], rcond=None)[0]
    np.testing.assert_allclose(misfit(errors), expected, atol=1e-12)


@pytest.mark.parametrize("method", ["neuc+", "exact", "refined"])
def test_linear_placement_is_linear_whatever_the_method(method):
    D = random_simplex(120, random_state=0)
    est = LandmarkNeucMDS(5, 60, method=method, placement="linear", squared=True, random_state=0)
    rule = est.fit(D).landmark_result_.placement
    assert isinstance(rule, LinearPlacement)
    rows = D[60:63][:, est.landmarks_]
    middle = est.transform(0.25 * rows[:1] + 0.75 * rows[1:2])
    expected = 0.25 * est.transform(rows[:1]) + 0.75 * est.transform(rows[1:2])
    np.testing.assert_allclose(middle, expected, atol=1e-12)


def test_linear_placement_of_free_coordinates_is_the_least_squares_triangulation():
    D = random_simplex(80, random_state=1)
    est = LandmarkNeucMDS(4, landmarks=range(50), placement="linear", squared=True).fit(D[:, :50])
    free = neuc_mds(D[:50, :50], 4, squared=True)
    centered = -0.5 * (D[50:, :50] - D[:50, :50].mean(axis=0))
    centered -= centered.mean(axis=1, keepdims=True)
    expected = np.linalg.lstsq(free.coordinates * free.signs, centered.T, rcond=None)[0].T
    np.testing.assert_allclose(est.transform(D[50:, :50]), expected, atol=1e-10)


@pytest.mark.parametrize("take_off", [False, True])
def test_the_ridge_is_the_noise_about_the_offsets_over_the_length_of_a_column(take_off):
    D = random_simplex(50, random_state=1)
    fit = neuc_mds(D, 4, "neuc", squared=True)
    rule = least_squares_rule(D, fit, Recipe(0.5, take_off, 4))
    errors = D - fit.dissimilarities()
    offsets = misfit(errors) if take_off else np.zeros(50)
    noise = np.sum((errors - offsets) ** 2) / (50 * 50 - 2 * 50 * 4)
    np.testing.assert_allclose(rule.offsets, offsets)
    np.testing.assert_allclose(
        rule.ridge, 0.5 * noise / 4 * 50 / np.sum(fit.coordinates**2, axis=0)
    )
