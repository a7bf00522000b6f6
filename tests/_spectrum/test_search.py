from __future__ import annotations

import numpy as np
import pytest

from neucmds._operator import DenseGram
from neucmds._spectrum.search import allowed_residuals, outermost, split_of


@pytest.fixture(scope="module")
def gram():
    x = np.random.default_rng(0).standard_normal((50, 3))
    return DenseGram(((x[:, None] - x[None]) ** 2).sum(axis=-1))


def allowed(gram, values, tol, dropped_sq=0.0):
    values = np.asarray(values, dtype=float)
    scale = float(np.max(np.abs(values)))
    return allowed_residuals(gram, values, tol=tol, scale=scale, dropped_sq=dropped_sq)


@pytest.mark.parametrize("tol", [1e-9, 1e-7, 1e-3])
def test_pairs_of_comparable_size_share_one_tolerance(gram, tol):
    np.testing.assert_array_equal(allowed(gram, [9.0, 0.1, -3.0], tol), tol * 9.0)


def test_a_pair_that_is_tiny_beside_another_is_held_to_its_own_size(gram):
    limits = allowed(gram, [5e9, 2.0, -1.0], 1e-7)
    np.testing.assert_allclose(limits, [500.0, 0.02, 0.01])


def test_more_is_allowed_where_more_is_dropped(gram):
    limits = allowed(gram, [5e9, 2.0], 1e-7, dropped_sq=1e4)
    np.testing.assert_allclose(limits, [500.0, 1.0])


def test_outermost_and_split_are_inverse():
    for top, bottom in [(0, 0), (3, 0), (0, 2), (3, 2)]:
        assert split_of(outermost(9, top, bottom)) == (top, bottom)
