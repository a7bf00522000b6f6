from __future__ import annotations

import array_api_strict
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from neucmds import blas, threads


@pytest.mark.parametrize("n", [40, 1000, 1531])
@pytest.mark.parametrize("count", [1, 16, 24, 33, 200])
def test_panels_give_the_product(n, count):
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((n, n), dtype=np.float32)
    matrix += matrix.T
    rows = rng.standard_normal((count, n), dtype=np.float32)
    product = blas._by_panels(matrix, rows)
    np.testing.assert_allclose(product, rows @ matrix, rtol=0, atol=1e-5 * n)


def test_panels_do_not_depend_on_the_number_of_threads():
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((1200, 1200), dtype=np.float32)
    rows = rng.standard_normal((24, 1200), dtype=np.float32)
    products = []
    for limit in (1, 3):
        with threadpool_limits(limit):
            products.append(blas._by_panels(matrix, rows))
    np.testing.assert_array_equal(*products)


@pytest.mark.parametrize("library", [np, array_api_strict])
@pytest.mark.parametrize("n", [30, 1100])
def test_any_library_multiplies(library, n):
    matrix = library.asarray(np.ones((n, n), dtype=np.float32))
    with blas.few_rows_times(matrix) as times:
        product = times(library.asarray(np.ones((3, n), dtype=np.float32)))
    np.testing.assert_array_equal(np.asarray(product), np.full((3, n), n))


@pytest.mark.parametrize("n", [37, 2000])
def test_products_with_a_basis_are_the_same_in_a_team(n):
    rng = np.random.default_rng(0)
    basis, block = rng.standard_normal((50, n)), rng.standard_normal((20, n))
    coefficients = rng.standard_normal((20, 50))
    with threads.team():
        inner = blas.inner_products(block, basis)
        combined = blas.combined_rows(coefficients, basis)
    np.testing.assert_allclose(inner, block @ basis.T, rtol=0, atol=1e-12 * n)
    np.testing.assert_allclose(combined, coefficients @ basis, rtol=0, atol=1e-12)
