from __future__ import annotations

import array_api_strict
import numpy as np
import pytest

from neucmds import blas


@pytest.mark.parametrize("n", [40, 1000, 1531])
@pytest.mark.parametrize("count", [1, 16, 24, 33, 200])
def test_panels_give_the_product(n, count):
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((n, n), dtype=np.float32)
    matrix += matrix.T
    rows = rng.standard_normal((count, n), dtype=np.float32)
    with blas.ThreadPoolExecutor(2) as pool:
        product = blas._by_panels(matrix, rows, pool)
    np.testing.assert_allclose(product, rows @ matrix, rtol=0, atol=1e-5 * n)


def test_panels_do_not_depend_on_the_number_of_threads():
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((1200, 1200), dtype=np.float32)
    rows = rng.standard_normal((24, 1200), dtype=np.float32)
    products = []
    for threads in (1, 3):
        with blas.ThreadPoolExecutor(threads) as pool:
            products.append(blas._by_panels(matrix, rows, pool))
    np.testing.assert_array_equal(*products)


@pytest.mark.parametrize("library", [np, array_api_strict])
@pytest.mark.parametrize("n", [30, 1100])
def test_any_library_multiplies(library, n):
    matrix = library.asarray(np.ones((n, n), dtype=np.float32))
    with blas.few_rows_times(matrix) as times:
        product = times(library.asarray(np.ones((3, n), dtype=np.float32)))
    np.testing.assert_array_equal(np.asarray(product), np.full((3, n), n))


def test_threads_are_given_back():
    matrix = np.ones((1100, 1100), dtype=np.float32)
    before = [library["num_threads"] for library in blas.ThreadpoolController().info()]
    with blas.few_rows_times(matrix):
        pass
    assert [library["num_threads"] for library in blas.ThreadpoolController().info()] == before
