"""The operator B = −½CDC, of a D in memory, in chunks and of features, and its whole spectrum."""

import array_api_strict
import numpy as np
import pytest
from scipy.spatial.distance import cdist

from neucmds.errors import InputError
from neucmds.spectrum.krylov import SINGLE_ERROR
from neucmds.spectrum.operators.chunked import DaskGram
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.spectrum.operators.features import FeatureGram
from neucmds.spectrum.spectrum import Spectrum, full_spectrum

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
    b, gram = (
        centered_gram(D.astype(np.float64)),
        DenseGram(library.asarray(D)),
    )
    block = np.random.default_rng(1).standard_normal((37, 4))
    np.testing.assert_allclose(
        np.asarray(gram.matmat(library.asarray(block))), b @ block, atol=1e-12
    )
    np.testing.assert_allclose(
        np.asarray(gram.diagonal()), np.diag(b), atol=1e-13
    )
    assert gram.trace == pytest.approx(np.trace(b))
    assert gram.frobenius_sq == pytest.approx(np.sum(b**2))


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_quadratic_form_is_an_inner_product_with_the_matrix(library):
    D = hollow()
    x = np.random.default_rng(2).standard_normal((37, 3))
    x -= x.mean(axis=0)
    found = DenseGram(library.asarray(D)).quadratic(library.asarray(x))
    np.testing.assert_allclose(
        np.asarray(found), np.diag(x.T @ centered_gram(D) @ x)
    )


def test_norms_beyond_double_precision_are_refused():
    with pytest.raises(InputError, match="too large"):
        _ = DenseGram(1e200 * (1 - np.eye(2))).sq_norm
    with pytest.raises(InputError, match="too small"):
        _ = DenseGram(1e-200 * (1 - np.eye(2))).sq_norm


def test_a_single_precision_copy_is_made_only_if_allowed_and_needed():
    assert DenseGram(hollow()).uses_float32_copy
    assert DenseGram(hollow(), working_copy=False).single() is None
    assert not DenseGram(hollow().astype("float32")).uses_float32_copy


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("scale", "n"), [(1.0, 1100), (1e-30, 80), (1e30, 80)]
)
def test_products_are_right_to_the_precision_they_state(
    library, dtype, scale, n
):
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
    allowed = SINGLE_ERROR + added
    assert error.max() <= allowed * np.linalg.norm(exact, axis=0).max()


@pytest.fixture(scope="module")
def features():
    return np.random.default_rng(0).normal(size=(300, 6)) * np.geomspace(
        3, 1, 6
    )


@pytest.mark.parametrize("chunks", [300, ((180, 60, 60), (220, 80))])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_of_chunks_are_those_of_the_matrix(features, chunks, dtype):
    da = pytest.importorskip("dask.array")
    sq = (cdist(features, features, "cityblock") ** 2).astype(dtype)
    lazy = DaskGram(da.from_array(sq, chunks=chunks))
    dense = DenseGram(sq)
    block = np.random.default_rng(1).normal(size=(300, 5)).astype(dtype)
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    scale = np.abs(dense.matmat(block)).max()
    np.testing.assert_allclose(
        lazy.matmat(block), dense.matmat(block), atol=tolerance * scale
    )
    assert lazy.matmat(block).dtype == dtype
    np.testing.assert_allclose(lazy.row_means, dense.row_means, rtol=tolerance)
    np.testing.assert_allclose(
        lazy.frobenius_sq, dense.frobenius_sq, rtol=tolerance
    )
    i = np.array([3, 299, 3])
    j = np.array([5, 0, 3])
    np.testing.assert_array_equal(lazy.entries(i, j), dense.entries(i, j))
    np.testing.assert_array_equal(
        np.concatenate(lazy.on_each(lambda rows, part: part)), sq
    )
    with lazy.single() as multiply:
        np.testing.assert_allclose(
            multiply(block), dense.matmat(block), atol=1e-5 * scale
        )


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine", "cityblock"])
def test_products_of_tiles_of_features_are_those_of_the_matrix(
    features, metric, library, dtype
):
    sq = cdist(features, features, metric) ** 2
    np.fill_diagonal(sq, 0)
    gram = FeatureGram(
        library.asarray(features.astype(dtype)), metric, tile=37
    )
    dense = DenseGram(sq)
    tolerance = (1e-11 if dtype == "float64" else 2e-5) * sq.max()
    stored = np.asarray(gram.dense())
    assert stored.dtype == dtype
    np.testing.assert_allclose(stored, sq, atol=tolerance)
    np.testing.assert_array_equal(stored, stored.T)
    np.testing.assert_array_equal(np.diag(stored), 0)
    np.testing.assert_allclose(
        np.asarray(gram.rows(slice(30, 80))), sq[30:80], atol=tolerance
    )
    block = np.random.default_rng(1).normal(size=(300, 4))
    found = np.asarray(gram.product(library.asarray(block.astype(dtype))))
    np.testing.assert_allclose(
        found, dense.product(block), atol=300 * tolerance
    )
    means = np.asarray(gram.row_means)
    np.testing.assert_allclose(means, dense.row_means, atol=tolerance)
    precision = 1e-10 if dtype == "float64" else 1e-4
    assert gram.sq_norm == pytest.approx(dense.sq_norm, rel=precision)


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
    double, single = (
        Spectrum(lam, 0.0, 1.0, size, size, precision)
        for precision in (eps, 1.2e-7)
    )
    assert double.null_level == pytest.approx(3 * max(64, size) * eps)
    assert single.null_level == pytest.approx(3 * 2 * 1.2e-7 * np.sqrt(size))


def test_some_vectors_are_taken_in_the_order_asked_for(with_spectrum):
    gram = DenseGram(with_spectrum(np.linspace(-3, 4, 19), 20))
    spectrum = full_spectrum(gram)
    some = np.array([4, 0])
    np.testing.assert_array_equal(
        spectrum.take(some), spectrum.vectors[:, some]
    )
    assert spectrum.complete
    assert spectrum.dropped_sq(np.arange(19)) == 0.0
    assert spectrum.trace == pytest.approx(spectrum.values.sum())


@pytest.mark.parametrize("library", [np, array_api_strict])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_all_pairs_but_the_constant_vector_are_found(
    with_spectrum, library, dtype
):
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
    left = np.linalg.norm(
        DenseGram(D.astype(np.float64)).matmat(u) - u * found, axis=0
    )
    assert left.max() <= np.asarray(spectrum.residuals).max()
    assert (
        spectrum.n_top == spectrum.n_bottom == spectrum.value_errors.size == 39
    )
    scale = 5 * np.finfo(np.float64).eps
    np.testing.assert_allclose(
        np.asarray(spectrum.residuals), 40 * scale, rtol=1e-4
    )
    np.testing.assert_allclose(
        spectrum.value_errors, 8 * np.sqrt(40) * scale, rtol=1e-4
    )
    assert spectrum.trace == pytest.approx(lam.sum(), rel=100 * exact)
    assert spectrum.frobenius_sq == pytest.approx(lam @ lam, rel=100 * exact)
