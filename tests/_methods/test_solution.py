import numpy as np
import pytest

from neucmds._input.pairs import make_pairs
from neucmds._methods.refined.descent import Refined
from neucmds._methods.refined.losses import PairLoss
from neucmds._methods.selection import Selection
from neucmds._methods.solution import from_pairs, from_refinement, from_selection
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


def test_listed_and_weighted_pairs_have_the_sums_of_both_orders(solved):
    rng = np.random.default_rng(1)
    d, w, x = rng.uniform(1, 2, (9, 9)), rng.uniform(0, 1, (9, 9)), rng.normal(size=(9, 2))
    d, w = (np.triu(a, 1) + np.triu(a, 1).T for a in (d, w))
    x, signs = x - x.mean(axis=0), np.array([1.0, -1.0])
    found = Refined(x, signs, PairLoss("squared", 0.0), 0.0, (), True, 0.0)
    i, j = np.triu_indices(9, 1)
    pairs = from_pairs(found, make_pairs(9, i, j, d[i, j], w[i, j], squared=True))
    dense = from_refinement(DenseGram(d), found, weights=w)
    d_hat = np.sum(signs * (x[:, None] - x[None]) ** 2, axis=-1)
    mean = np.sum(w * d) / np.sum(w)
    for one in (pairs, dense):
        assert one.stress_terms == pytest.approx((np.sum(w * (d_hat - d) ** 2), 0, 0))
        assert one.sq_norm == pytest.approx(np.sum(w * d**2))
        assert one.total_sum_of_squares == pytest.approx(np.sum(w * (d - mean) ** 2))
        assert one.trace == pytest.approx(4 * mean)
        assert 0 < one.stress_error < 1e-10
    plain = from_refinement(DenseGram(d), found)
    assert sum(plain.stress_terms) == pytest.approx(np.sum((d_hat - d) ** 2))
    assert plain.total_sum_of_squares == pytest.approx(2 * d[i, j].var() * i.size)
    y, signs = plain.coordinates, np.sign(plain.weights)
    np.testing.assert_allclose(np.sum(signs * (y[:, None] - y[None]) ** 2, axis=-1), d_hat)
