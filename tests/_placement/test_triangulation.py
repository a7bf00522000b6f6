"""What a placement rule learns from the landmarks: their misfit."""

import numpy as np

from neucmds._placement.triangulation import misfit


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
