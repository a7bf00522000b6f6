from __future__ import annotations

import array_api_strict
import numpy as np
import pytest

from neucmds._spectrum.orthogonal import (
    Fetched,
    orthonormal_ahead,
    orthonormal_rows,
    project_out,
    random_rows,
)


@pytest.mark.parametrize("library", [np, array_api_strict])
@pytest.mark.parametrize("condition", [1.0, 1e4, 1e6])
def test_rows_become_orthonormal_and_the_factor_gives_them_back(library, condition):
    rng = np.random.default_rng(0)
    block = rng.standard_normal((6, 80)) + condition * np.ones((6, 1)) * rng.standard_normal(80)
    rows, factor = orthonormal_rows(library.asarray(block), 0.0)
    rows = np.asarray(rows)
    np.testing.assert_allclose(rows @ rows.T, np.eye(6), atol=1e-13)
    np.testing.assert_allclose(factor @ rows, block, atol=1e-12 * condition)


def test_what_was_not_waited_for_is_orthonormal_or_says_so():
    rng = np.random.default_rng(4)
    block = rng.standard_normal((5, 60)) * np.logspace(0, 3, 5)[:, None]
    short = np.concatenate([block, 1e-9 * rng.standard_normal((1, 60))])
    ahead = [orthonormal_ahead(one) for one in (block, short, np.concatenate([block, block[:1]]))]
    well, weak, dependent = Fetched.of(ahead)
    assert well.are_orthonormal(1e-3)
    rows = ahead[0].rows
    np.testing.assert_allclose(rows @ rows.T, np.eye(5), atol=1e-14)
    np.testing.assert_allclose(well.factor @ rows, block, atol=1e-11)
    assert well.weakest <= np.linalg.svd(well.factor, compute_uv=False).min()
    assert weak.are_orthonormal(1e-12)
    assert not weak.are_orthonormal(1e-6)
    assert not dependent.are_orthonormal(0.0)


def test_dependent_and_negligible_rows_are_left_out():
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 50))
    rows, factor = orthonormal_rows(np.stack([a, b, a - b, 1e-9 * rng.standard_normal(50)]), 1e-7)
    assert rows.shape == (2, 50)
    assert factor.shape == (4, 2)


def test_projecting_out_leaves_nothing_of_the_basis():
    rng = np.random.default_rng(2)
    basis = np.linalg.qr(rng.standard_normal((40, 5)))[0].T
    block = rng.standard_normal((3, 40))
    left, coefficients = project_out(basis, block.copy())
    np.testing.assert_allclose(left @ basis.T, 0, atol=1e-14)
    np.testing.assert_allclose(coefficients @ basis + left, block, atol=1e-14)


def test_random_rows_are_centered_and_as_many_as_exist():
    basis = np.empty((0, 10))
    rows = random_rows(20, basis, np.random.default_rng(3))
    assert rows.shape == (9, 10)  # the constant vector is not among them
    np.testing.assert_allclose(rows @ rows.T, np.eye(9), atol=1e-13)
    np.testing.assert_allclose(rows.sum(axis=1), 0, atol=1e-13)
