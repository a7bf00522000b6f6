from __future__ import annotations

import numpy as np
import pytest

from neucmds._methods.selection import Selection
from neucmds._methods.solution import from_selection
from neucmds._operator import DenseGram
from neucmds._spectrum import full_spectrum


@pytest.fixture
def solved():
    e = np.random.default_rng(0).standard_normal((40, 40))
    D = e + e.T
    np.fill_diagonal(D, 0.0)
    gram = DenseGram(D)
    return gram, full_spectrum(gram)


def test_coordinates_have_the_gram_matrix_of_the_core(solved):
    gram, spectrum = solved
    kept = np.array([0, 1, 37, 38])
    core = np.diag(spectrum.values[kept])
    core[0, 3] = core[3, 0] = 5.0
    found = from_selection(gram, spectrum, Selection(kept, core))
    u = spectrum.vectors[:, kept]
    x, signs = found.coordinates, np.sign(found.weights)
    np.testing.assert_allclose((x * signs) @ x.T, u @ core @ u.T, atol=1e-12)
    np.testing.assert_allclose(np.sum(x**2, axis=0), np.abs(found.weights))
    assert np.all(np.diff(np.abs(found.weights)) <= 0)


def test_the_projector_maps_centered_rows_to_coordinates(solved):
    gram, spectrum = solved
    kept = np.array([0, 1, 38])
    found = from_selection(gram, spectrum, Selection(kept, spectrum.ends.values[kept]))
    b = gram.matmat(np.eye(40))
    np.testing.assert_allclose(b @ found.projector, found.coordinates, atol=1e-12)
    np.testing.assert_array_equal(np.sign(found.eigenvalues), np.sign(found.weights))
