import numpy as np
import pytest

from neucmds._operator import DenseGram
from neucmds._spectrum import full_spectrum
from neucmds._spectrum.krylov import sampled_residuals
from neucmds._spectrum.polish import RitzPairs, polish, unexplained_sq


class Counting(DenseGram):
    """Counts the rows that are read."""

    rows_read = 0

    def pick(self, ids):
        self.rows_read += len(ids)
        return super().pick(ids)


def test_a_residual_in_one_row_is_seen_by_the_sample(noise):
    # One object far from all others: its row holds nearly all of B, and of the rounding.
    D = noise(1500)
    D[700, :] = D[:, 700] = 1e4
    D[700, 700] = 0.0
    gram = Counting(D)
    u = np.zeros((1, 1500))
    u[0, 3], u[0, 1200] = 1.0, -1.0
    left = gram.matmat(u.T)[:, 0]
    left[700] = 0.0
    assert sampled_residuals(gram, np.zeros(1), u)[0] == pytest.approx(
        np.linalg.norm(left), rel=0.1
    )
    assert gram.rows_read == 32 + 256
    u[0, 3], u[0, 700] = 0.0, 1.0
    true = np.linalg.norm(gram.matmat(u.T))
    assert sampled_residuals(gram, np.zeros(1), u)[0] == pytest.approx(true, rel=0.1)


@pytest.mark.parametrize("n", [5, 32, 33, 200])
def test_a_sample_of_all_rows_is_exact(n, noise):
    gram = DenseGram(noise(n))
    u = np.random.default_rng(1).standard_normal((2, n))
    u -= u.mean(axis=1, keepdims=True)
    lam = np.array([0.7, -2.0])
    true = np.linalg.norm(gram.matmat(u.T) - u.T * lam, axis=0)
    np.testing.assert_allclose(sampled_residuals(gram, lam, u), true, rtol=1e-12)


def test_noise_of_single_precision_is_taken_out(with_spectrum):
    lam = np.r_[np.linspace(9, 5, 5), np.linspace(1, 0.1, 40), np.linspace(-4, -8, 4)]
    gram = DenseGram(with_spectrum(lam, 200))
    full = full_spectrum(gram)
    outer = np.r_[np.arange(5), np.arange(195, 199)]
    rng = np.random.default_rng(0)
    rough = full.vectors[:, outer] + 1e-7 * rng.standard_normal((200, 9))
    rows = np.linalg.qr(rough - rough.mean(axis=0))[0].T
    pairs, noise_found = polish(gram, rows, 5, lambda values: np.full(values.size, 1e-8))
    assert noise_found > 1e-7
    left = np.linalg.norm(gram.matmat(pairs.rows.T) - pairs.rows.T * pairs.values, axis=0)
    assert left.max() <= 1e-8
    np.testing.assert_allclose(pairs.residuals, left, atol=1e-13)
    np.testing.assert_allclose(pairs.values, full.values[outer], atol=1e-12)


def test_what_pairs_leave_unexplained_is_the_norm_of_the_difference(noise):
    gram = DenseGram(noise(150))
    full = full_spectrum(gram)
    values, rows = full.values[:40], full.vectors[:, :40].T
    expected = float(np.sum(full.values[40:] ** 2))
    assert unexplained_sq(gram, values, rows) == pytest.approx(expected, rel=1e-12)


def test_a_pair_is_real_beyond_its_residual_and_known_within_what_is_allowed(noise):
    gram, none = DenseGram(noise(20)), np.zeros((4, 0))
    pairs = RitzPairs(np.array([1, 1e-3, -2, 1e-20]), none, none, none, np.array([0.5, 1e-2, 2, 0]))
    assert pairs.real(gram).tolist() == [True, False, False, False]
    assert pairs.known(gram, np.full(4, 2.0)).tolist() == [True, False, True, True]
    assert pairs.known(gram, np.full(4, 0.4)).tolist() == [False, False, False, True]
