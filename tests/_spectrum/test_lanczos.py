from __future__ import annotations

import numpy as np
import pytest

from neucmds._operator import DenseGram
from neucmds._spectrum.lanczos import KrylovBasis, QueuedBasis


@pytest.fixture(params=[KrylovBasis, QueuedBasis])
def grown(with_spectrum, request):
    """A basis of 5 blocks of 4, with some eigenvalues repeated more often than a block is wide."""
    lam = np.r_[np.full(6, 3.0), np.linspace(2, -4, 40)]
    gram = DenseGram(with_spectrum(lam, 120))
    basis = request.param(np.empty((60, 120)), gram.matmat, np.random.default_rng(0), 1e-14)
    basis.inject(4)
    for _ in range(5):
        basis.expand()
    return gram, basis


def check_pairs(gram, basis):
    ritz = basis.ritz()
    rows = basis.rows[: basis.size + basis.width]
    np.testing.assert_allclose(rows @ rows.T, np.eye(len(rows)), atol=1e-13)
    np.testing.assert_allclose(rows.sum(axis=1), 0, atol=1e-12)
    u = basis.vectors(ritz, np.arange(ritz.values.size)).T
    left = np.linalg.norm(gram.matmat(u) - u * ritz.values, axis=0)
    np.testing.assert_allclose(ritz.residuals, left, atol=1e-12)


def test_the_recurrence_knows_the_residuals(grown):
    check_pairs(*grown)


def test_a_restart_forgets_no_residual(grown):
    gram, basis = grown
    ritz = basis.ritz()
    basis.restart(ritz, np.r_[np.arange(5), np.arange(15, 20)])
    kept = np.r_[ritz.values[:5], ritz.values[15:]]
    np.testing.assert_allclose(np.diag(basis.projected)[:10], kept, atol=1e-12)
    for _ in range(2):
        basis.expand()
        check_pairs(gram, basis)


def test_what_the_remainder_leaves_is_the_product(grown):
    gram, basis = grown
    ritz, some = basis.ritz(), np.array([0, 7, 19])
    coefficients, block = basis.remainder(ritz, some)
    u = basis.vectors(ritz, some)
    images = ritz.values[some, None] * u + coefficients @ block
    np.testing.assert_allclose(images, gram.matmat(u.T).T, atol=1e-12)


def test_a_queue_is_repeated_with_care_from_where_a_block_breaks_down(with_spectrum, monkeypatch):
    """Three blocks of 4 hold all of ten eigenvectors: the third image has two directions left."""
    lam = np.linspace(3, -2, 10)
    gram = DenseGram(with_spectrum(lam, 90))
    basis = QueuedBasis(np.empty((50, 90)), gram.matmat, np.random.default_rng(0), 1e-14)
    careful = []
    follow = KrylovBasis._follow
    monkeypatch.setattr(
        KrylovBasis, "_follow", lambda self, *some: (careful.append(self.size), follow(self, *some))
    )
    basis.inject(4)
    with np.errstate(all="ignore"):  # what comes after the block is not a number
        for _ in range(5):
            basis.expand()
        assert careful == [4]  # the first block always is
        check_pairs(gram, basis)
    assert careful == [4, 12, 16, 20]
    ends = basis.ritz().values
    np.testing.assert_allclose(np.r_[ends[:6], ends[-4:]], lam, atol=1e-12)
