from __future__ import annotations

import array_api_strict
import numpy as np
import pytest

from neucmds._operator import DenseGram
from neucmds._spectrum import full_spectrum


@pytest.mark.parametrize("library", [np, array_api_strict])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_all_pairs_but_the_constant_vector_are_found(with_spectrum, library, dtype):
    lam = np.r_[np.linspace(5, 1, 20), -np.linspace(0.5, 3, 19)]
    d = library.asarray(with_spectrum(lam, 40).astype(dtype))
    spectrum = full_spectrum(DenseGram(d))
    exact = 1e-13 if dtype == "float64" else 1e-5
    assert spectrum.complete
    np.testing.assert_allclose(np.asarray(spectrum.values), np.sort(lam)[::-1], atol=5 * exact)


def test_pairs_are_pairs_and_centered(with_spectrum):
    gram = DenseGram(with_spectrum(np.linspace(-3, 4, 39), 40))
    spectrum = full_spectrum(gram)
    left = gram.matmat(spectrum.vectors) - spectrum.vectors * spectrum.values
    assert np.linalg.norm(left, axis=0).max() <= spectrum.residuals.max()
    np.testing.assert_allclose(spectrum.vectors.sum(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(spectrum.vectors.T @ spectrum.vectors, np.eye(39), atol=1e-12)


def test_the_constant_vector_is_out_even_among_other_null_vectors(with_spectrum):
    spectrum = full_spectrum(DenseGram(with_spectrum([2.0, -1.0], 30)))
    np.testing.assert_allclose(spectrum.vectors.sum(axis=0), 0, atol=1e-12)


def test_trace_and_norm_are_those_of_the_values(with_spectrum):
    lam = np.linspace(-3, 4, 25)
    spectrum = full_spectrum(DenseGram(with_spectrum(lam, 60)))
    assert spectrum.trace == pytest.approx(lam.sum())
    assert spectrum.frobenius_sq == pytest.approx(lam @ lam)


def test_two_objects_have_one_pair():
    spectrum = full_spectrum(DenseGram(np.array([[0.0, 3.0], [3.0, 0.0]])))
    np.testing.assert_allclose(spectrum.values, [1.5])
