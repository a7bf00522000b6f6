from __future__ import annotations

import array_api_strict
import numpy as np
import pytest

from neucmds._operator import DenseGram


@pytest.mark.parametrize("library", [np, array_api_strict])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e30])
def test_products_are_right_to_the_precision_they_state(library, dtype, scale):
    if dtype == "float32" and scale != 1.0:
        scale = np.sqrt(scale)
    e = np.random.default_rng(0).standard_normal((80, 80))
    D = ((e + e.T) * scale + 3 * scale).astype(dtype)
    np.fill_diagonal(D, 0.0)
    gram = DenseGram(library.asarray(D))
    rounded = gram.rounded()
    block = np.linalg.qr(np.random.default_rng(1).standard_normal((80, 16)))[0]
    exact = DenseGram(D.astype(np.float64)).matmat(block)
    with rounded.products() as multiply:
        found = np.asarray(multiply(library.asarray(block)))
    largest = np.max(np.abs(np.linalg.eigvalsh(DenseGram(D.astype(float)).matmat(np.eye(80)))))
    error = np.linalg.norm(found - exact, axis=0)
    assert error.max() <= 4 * rounded.precision * largest
