from unittest.mock import patch

import array_api_strict
import numpy as np
import pytest

from neucmds import InputError
from neucmds.backend import memory
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.spectrum.spectrum import Spectrum, full_spectrum


def test_what_is_dropped_is_the_sum_of_the_other_squares():
    lam = np.array([5.0, 2.0, -1.0, -3.0])
    kept = np.array([0, 3])
    partial = Spectrum(lam[kept], lam.sum(), lam @ lam, 1, 1)
    assert Spectrum.of(lam).dropped_sq(kept) == 5.0
    assert partial.dropped_sq(np.arange(2)) == 5.0


def test_a_measured_sum_is_used_where_the_difference_has_no_digits():
    lam = np.array([5e9, 1.0, -1.0, -5e9])
    total = float(lam @ lam)
    assert total == 2 * 5e9**2  # the ones are lost
    ends = Spectrum(lam[[0, 1, 3]], 0.0, total, 2, 1, unknown_sq=1.0)
    assert ends.dropped_sq(np.array([0, 2])) == 2.0


@pytest.mark.parametrize("size", [10, 100])
def test_null_level_grows_with_the_rounding_of_the_entries(size):
    lam, eps = np.linspace(2, -3, size), np.finfo(np.float64).eps
    double, single = (Spectrum(lam, 0.0, 1.0, size, size, precision) for precision in (eps, 1.2e-7))
    assert double.null_level == pytest.approx(3 * max(64, size) * eps)
    assert single.null_level == pytest.approx(3 * 2 * 1.2e-7 * np.sqrt(size))


def test_some_vectors_are_taken_in_the_order_asked_for(with_spectrum):
    gram = DenseGram(with_spectrum(np.linspace(-3, 4, 19), 20))
    with (
        patch.multiple(memory, _ALWAYS_THERE=0, available_memory=lambda: 100),
        pytest.raises(InputError, match="spectrum of 20 objects needs 16 kB"),
    ):
        full_spectrum(gram)
    spectrum = full_spectrum(gram)
    some = np.array([4, 0])
    np.testing.assert_array_equal(spectrum.take(some), spectrum.vectors[:, some])
    assert spectrum.complete
    assert spectrum.dropped_sq(np.arange(19)) == 0.0
    assert spectrum.trace == pytest.approx(spectrum.values.sum())


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
