"""What a placement rule learns from the landmarks, and that it is the one asked for."""

from functools import partial

import numpy as np
import pytest

from neucmds import LandmarkNeucMDS, neuc_mds
from neucmds.datasets import random_simplex
from neucmds.place.recipe import (
    Recipe,
    cross_validated,
    least_squares_rule,
    misfit,
)
from neucmds.place.rules import LinearPlacement


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
    est = LandmarkNeucMDS(
        5, 60, method=method, placement="linear", squared=True, random_state=0
    )
    rule = est.fit(D).landmark_result_.placement
    assert isinstance(rule, LinearPlacement)
    rows = D[60:63][:, est.landmarks_]
    middle = est.transform(0.25 * rows[:1] + 0.75 * rows[1:2])
    expected = 0.25 * est.transform(rows[:1]) + 0.75 * est.transform(rows[1:2])
    np.testing.assert_allclose(middle, expected, atol=1e-12)


def test_linear_placement_of_free_coordinates_is_the_least_squares_triangulation():
    D = random_simplex(80, random_state=1)
    est = LandmarkNeucMDS(
        4, landmarks=range(50), placement="linear", squared=True
    ).fit(D[:, :50])
    free = neuc_mds(D[:50, :50], 4, squared=True)
    centered = -0.5 * (D[50:, :50] - D[:50, :50].mean(axis=0))
    centered -= centered.mean(axis=1, keepdims=True)
    expected = np.linalg.lstsq(
        free.coordinates * free.signs, centered.T, rcond=None
    )[0].T
    np.testing.assert_allclose(
        est.transform(D[50:, :50]), expected, atol=1e-10
    )


@pytest.mark.parametrize("subtract", [False, True])
def test_the_ridge_is_the_noise_about_the_offsets_over_the_length_of_a_column(
    subtract,
):
    D = random_simplex(50, random_state=1)
    fit = neuc_mds(D, 4, "neuc", squared=True)
    rule = least_squares_rule(D, fit, Recipe(0.5, subtract, 4))
    errors = D - fit.dissimilarities(squared=True)
    offsets = misfit(errors) if subtract else np.zeros(50)
    noise = np.sum((errors - offsets) ** 2) / (50 * 50 - 2 * 50 * 4)
    np.testing.assert_allclose(rule.offsets, offsets)
    np.testing.assert_allclose(
        rule.ridge, 0.5 * noise / 4 * 50 / np.sum(fit.coordinates**2, axis=0)
    )


def fit(sq_dissimilarity, n_components, method):
    return neuc_mds(sq_dissimilarity, n_components, method, squared=True)


@pytest.mark.parametrize(
    ("method", "k"), [("neuc", 4), ("neuc+", (3, 0)), ("refined", 6)]
)
def test_the_recipe_is_that_of_least_stress_among_landmarks_held_out(
    method, k
):
    rng = np.random.default_rng(0)
    x, e = rng.normal(size=(32, 3)), np.triu(rng.normal(size=(32, 32)), 1)
    D = np.sum((x[:, None] - x) ** 2, axis=-1) * (1 + 0.1 * (e + e.T))
    fold_fit = partial(fit, method=method)
    found = cross_validated(D, k, method, np.random.RandomState(0), fold_fit)
    order = np.random.RandomState(0).permutation(32)
    d, total = D[np.ix_(order, order)], {}
    for fold in range(5):
        held = np.arange(6 * fold, 6 * fold + 6)
        kept = np.delete(np.arange(32), held)
        embedding = fit(d[np.ix_(kept, kept)], found.n_components, method)
        for off in (True, False):
            for ridge in (0.0, 0.1, 0.3, 1.0, 3.0):
                recipe = Recipe(ridge, off, found.n_components)
                rule = least_squares_rule(
                    d[np.ix_(kept, kept)], embedding, recipe
                )
                y = rule.place(d[np.ix_(held, kept)])
                left = embedding.form.residuals(y, y, d[np.ix_(held, held)])
                total[recipe] = total.get(recipe, 0) + np.sum(
                    np.triu(left, 1) ** 2
                )
    assert found == min(total, key=total.get)
    if method == "refined":
        # Of three coordinates with noise: fewer negatives than those of the landmarks alone.
        assert found.n_components[1] < fit(D, k, method).signature[1]


def test_without_landmarks_to_hold_out_the_first_recipe_is_used():
    for n, method, off in ((19, "neuc+", True), (11, "refined", False)):
        D = random_simplex(n, random_state=0)
        k = n - 8 if method == "refined" else 2
        fold_fit = partial(fit, method=method)
        rng = np.random.RandomState(0)
        recipe = cross_validated(D, k, method, rng, fold_fit)
        assert recipe == Recipe(0.1, off, k)
