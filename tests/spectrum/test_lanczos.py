import array_api_strict
import numpy as np
import pytest

from neucmds.spectrum import lanczos
from neucmds.spectrum.lanczos import KrylovBasis, orthonormal_rows
from neucmds.spectrum.operators.dense import DenseGram


@pytest.fixture(params=[True, False])
def on_cpu(request, monkeypatch):
    """Blocks are computed with care, or as on a GPU, which is not waited for."""
    monkeypatch.setattr(lanczos, "on_cpu", lambda array: request.param)
    return request.param


@pytest.fixture
def grown(with_spectrum, on_cpu):
    """A basis of 5 blocks of 4, with some eigenvalues repeated more often than a block is wide."""
    lam = np.r_[np.full(6, 3.0), np.linspace(2, -4, 40)]
    gram = DenseGram(with_spectrum(lam, 120))
    basis = KrylovBasis(np.empty((60, 120)), gram.matmat, np.random.default_rng(0), 1e-14)
    basis.inject(4)
    for _ in range(5):
        basis.expand()
    return gram, basis


@pytest.mark.parametrize(("shape", "most"), [((10, 40), 10), ((60, 12), 11), ((5, 10), 5)])
def test_as_many_random_rows_are_injected_as_there_is_room_for(shape, most):
    basis = KrylovBasis(np.empty(shape), None, np.random.default_rng(0), 1e-14)
    for count, width in ((3, 3), (0, 3), (99, most), (1, most)):
        basis.inject(count)
        assert basis.width == width
    rows = basis.rows[:most]
    np.testing.assert_allclose(rows @ rows.T, np.eye(most), atol=1e-13)
    np.testing.assert_allclose(rows.sum(axis=1), 0, atol=1e-12)


def check_pairs(gram, basis, size=1.0):
    basis.solve()
    rows = basis.rows[: basis.size + basis.width]
    np.testing.assert_allclose(rows @ rows.T, np.eye(len(rows)), atol=1e-13)
    np.testing.assert_allclose(rows.sum(axis=1), 0, atol=1e-12)
    u = basis.vectors(np.arange(basis.values.size)).T
    left = np.linalg.norm(gram.matmat(u) - u * basis.values, axis=0)
    np.testing.assert_allclose(basis.residuals, left, atol=1e-12 * size)


def test_the_recurrence_knows_the_residuals(grown):
    check_pairs(*grown)


def test_a_restart_forgets_no_residual(grown):
    gram, basis = grown
    basis.solve()
    basis.restart(np.r_[np.arange(5), np.arange(15, 20)])
    kept = np.r_[basis.values[:5], basis.values[15:]]
    np.testing.assert_allclose(np.diag(basis.projected)[:10], kept, atol=1e-12)
    for _ in range(2):
        basis.expand()
        check_pairs(gram, basis)


@pytest.mark.parametrize("rest", [0.0, 1e-6])
def test_a_block_that_breaks_down_is_filled_up(with_spectrum, rest, on_cpu):
    """Three blocks of 4 hold ten eigenvectors: the third image has two strong directions left."""
    lam = 1e8 * np.r_[np.linspace(3, -2, 10), rest * np.linspace(1, 2, 60 if rest else 0)]
    gram = DenseGram(with_spectrum(lam, 90))
    basis = KrylovBasis(np.empty((50, 90)), gram.matmat, np.random.default_rng(0), 1e-14)
    basis.inject(4)
    with np.errstate(all="ignore"):  # what comes after the block is not a number
        for _ in range(5):
            basis.expand()
        check_pairs(gram, basis, 1e8)
    # On a GPU the third block and those after it are repeated.
    assert basis.n_products == (20 if on_cpu else 20 + 3 * 4)
    ends = basis.values
    np.testing.assert_allclose(np.r_[ends[:6], ends[-4:]], lam[:10], atol=1e-3)


@pytest.mark.parametrize("library", [np, array_api_strict])
@pytest.mark.parametrize("condition", [1.0, 1e4, 1e6])
def test_rows_become_orthonormal_and_the_factor_gives_them_back(library, condition):
    rng = np.random.default_rng(0)
    block = rng.standard_normal((6, 80)) + condition * np.ones((6, 1)) * rng.standard_normal(80)
    rows, factor, weakest = orthonormal_rows(library.asarray(block.copy()), 0.0)
    rows = np.asarray(rows)
    np.testing.assert_allclose(rows @ rows.T, np.eye(6), atol=1e-13)
    np.testing.assert_allclose(factor @ rows, block, atol=1e-12 * condition)
    least = np.linalg.svd(factor, compute_uv=False).min()
    assert 0.2 * least < weakest <= 1.001 * least


def test_dependent_and_negligible_rows_are_left_out():
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 50))
    rows, factor, _ = orthonormal_rows(
        np.stack([a, b, a - b, 1e-9 * rng.standard_normal(50)]), 1e-7
    )
    assert rows.shape == (2, 50)
    assert factor.shape == (4, 2)
