from __future__ import annotations

import array_api_strict
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from neucmds._backend import blas, threads


@pytest.mark.parametrize("n", [40, 1000, 1531])
@pytest.mark.parametrize("count", [0, 1, 16, 24, 33, 200])
def test_panels_give_the_product(n, count):
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((n, n), dtype=np.float32)
    matrix += matrix.T
    columns = rng.standard_normal((n, count))
    product = blas._by_panels(matrix, columns, 0.5)
    np.testing.assert_allclose(product, 0.5 * matrix @ columns, rtol=0, atol=1e-5 * n)


def test_panels_do_not_depend_on_the_number_of_threads():
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((1200, 1200), dtype=np.float32)
    columns = rng.standard_normal((1200, 24))
    products = []
    for limit in (1, 3):
        with threadpool_limits(limit):
            products.append(blas._by_panels(matrix, columns, 1.0))
    np.testing.assert_array_equal(*products)


def test_a_scale_beyond_single_precision_is_kept():
    matrix, columns = np.ones((1100, 1100), dtype=np.float32), np.ones((1100, 3))
    np.testing.assert_array_equal(blas._by_panels(matrix, columns, 2.0**300), 1100 * 2.0**300)


@pytest.mark.parametrize("library", [np, array_api_strict])
@pytest.mark.parametrize("n", [30, 1100])
def test_any_library_multiplies(library, n):
    matrix = library.asarray(np.ones((n, n), dtype=np.float32))
    with blas.single_products(matrix, 2.0) as multiply:
        product = multiply(library.asarray(np.ones((n, 3))))
    np.testing.assert_array_equal(np.asarray(product), np.full((n, 3), 2 * n))


@pytest.mark.parametrize("n", [37, 2000])
def test_products_with_a_basis_are_the_same_in_a_pool(n):
    rng = np.random.default_rng(0)
    basis, block = rng.standard_normal((50, n)), rng.standard_normal((20, n))
    coefficients = rng.standard_normal((20, 50))
    with threads.worker_pool():
        inner = blas.inner_products(block, basis)
        left = block.copy()
        blas.subtract_combined_rows(left, coefficients, basis)
        combined = blas.combine_rows(basis.copy(), coefficients)
    np.testing.assert_array_equal(left, block - combined)
    np.testing.assert_allclose(inner, block @ basis.T, rtol=0, atol=1e-12 * n)
    np.testing.assert_allclose(combined, coefficients @ basis, rtol=0, atol=1e-12)


def test_rows_are_combined_in_their_own_memory_in_a_pool():
    """New memory for every block cost the first fit of 8,000 objects 20 % of its time."""
    block = np.random.default_rng(0).standard_normal((30, 2000))
    with threads.worker_pool():
        combined = blas.combine_rows(block, np.eye(20, 30)[:, ::-1])
    assert np.shares_memory(combined, block)
