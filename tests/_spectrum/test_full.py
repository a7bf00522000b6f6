import array_api_strict
import numpy as np
import pytest

from neucmds._operator import DenseGram
from neucmds._spectrum import full_spectrum


@pytest.mark.parametrize("library", [np, array_api_strict])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_all_pairs_but_the_constant_vector_are_found(with_spectrum, library, dtype):
    # Ten other null vectors, for the constant one to mix with.
    lam = np.r_[np.linspace(5, 1, 15), np.zeros(10), -np.linspace(0.5, 3, 14)]
    D = with_spectrum(lam, 40).astype(dtype)
    spectrum = full_spectrum(DenseGram(library.asarray(D)))
    exact = 1e-13 if dtype == "float64" else 1e-5
    u, found = np.asarray(spectrum.vectors), np.asarray(spectrum.values)
    assert spectrum.complete
    np.testing.assert_allclose(found, np.sort(lam)[::-1], atol=5 * exact)
    np.testing.assert_allclose(u.sum(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(u.T @ u, np.eye(39), atol=1e-12)
    left = np.linalg.norm(DenseGram(D.astype(np.float64)).matmat(u) - u * found, axis=0)
    assert left.max() <= np.asarray(spectrum.residuals).max()
    assert spectrum.n_top == spectrum.n_bottom == spectrum.value_errors.size == 39
    scale = 5 * np.finfo(np.float64).eps
    np.testing.assert_allclose(np.asarray(spectrum.residuals), 40 * scale, rtol=1e-4)
    np.testing.assert_allclose(spectrum.value_errors, 8 * np.sqrt(40) * scale, rtol=1e-4)
    assert spectrum.trace == pytest.approx(lam.sum(), rel=100 * exact)
    assert spectrum.frobenius_sq == pytest.approx(lam @ lam, rel=100 * exact)
