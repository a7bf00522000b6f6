import array_api_strict
import numpy as np
import pytest

from neucmds.errors import InputError
from neucmds.spectrum.operators.dense import DenseGram

LIBRARIES = [np, array_api_strict]


def hollow(n: int = 37, seed: int = 0) -> np.ndarray:
    e = np.random.default_rng(seed).standard_normal((n, n))
    D = e + e.T
    np.fill_diagonal(D, 0.0)
    return D


def centered_gram(D: np.ndarray) -> np.ndarray:
    c = np.eye(len(D)) - 1 / len(D)
    return -0.5 * c @ D @ c


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_products_diagonal_and_norms_are_those_of_the_matrix(library, dtype):
    D = hollow().astype(dtype)
    b, gram = centered_gram(D.astype(np.float64)), DenseGram(library.asarray(D))
    block = np.random.default_rng(1).standard_normal((37, 4))
    np.testing.assert_allclose(
        np.asarray(gram.matmat(library.asarray(block))), b @ block, atol=1e-12
    )
    np.testing.assert_allclose(np.asarray(gram.diagonal()), np.diag(b), atol=1e-13)
    np.testing.assert_array_equal(np.asarray(gram.pick(np.array([7, 2]))), D[[7, 2]])
    assert gram.trace == pytest.approx(np.trace(b))
    assert gram.frobenius_sq == pytest.approx(np.sum(b**2))


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_quadratic_form_is_an_inner_product_with_the_matrix(library):
    D = hollow()
    x = np.random.default_rng(2).standard_normal((37, 3))
    x -= x.mean(axis=0)
    found = DenseGram(library.asarray(D)).quadratic(library.asarray(x))
    np.testing.assert_allclose(np.asarray(found), np.diag(x.T @ centered_gram(D) @ x))


def test_norms_beyond_double_precision_are_refused():
    with pytest.raises(InputError, match="overflow"):
        _ = DenseGram(1e200 * (1 - np.eye(2))).sq_norm
    with pytest.raises(InputError, match="underflow"):
        _ = DenseGram(1e-200 * (1 - np.eye(2))).sq_norm


def test_a_single_precision_copy_is_made_only_if_allowed_and_needed():
    assert DenseGram(hollow()).single_error == 1e-7
    assert DenseGram(hollow(), working_copy=False).single() is None
    assert DenseGram(hollow().astype("float32")).single_error == 1e-6


def test_a_copy_that_is_kept_is_multiplied_again():
    gram = DenseGram(hollow(), keep_copy=True)
    block = np.eye(37)[:, :2]
    with gram.single() as multiply:
        first = multiply(block)
    copy = gram.copy
    with gram.single() as multiply:
        np.testing.assert_array_equal(multiply(block), first)
    assert gram.copy is copy


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("scale", "n"), [(1.0, 1100), (1e-30, 80), (1e30, 80)])
def test_products_are_right_to_the_precision_they_state(library, dtype, scale, n):
    if dtype == "float32" and scale != 1.0:
        scale = np.sqrt(scale)
    e = np.random.default_rng(0).standard_normal((n, n))
    D = ((e + e.T) * scale + 3 * scale).astype(dtype)
    np.fill_diagonal(D, 0.0)
    gram = DenseGram(library.asarray(D))
    block = np.linalg.qr(np.random.default_rng(1).standard_normal((n, 33)))[0]
    exact = DenseGram(D.astype(np.float64)).matmat(block)
    with gram.single() as multiply:
        found = np.asarray(multiply(library.asarray(block)))
    error = np.linalg.norm(found - exact, axis=0)
    # The order in which BLAS adds n terms depends on the processor: 1.5e-7 to 6.4e-7 at n = 1100.
    added = np.finfo(np.float32).eps * np.sqrt(n) / 4
    allowed = 4 * gram.single_error + added
    assert error.max() <= allowed * np.linalg.norm(exact, axis=0).max()
