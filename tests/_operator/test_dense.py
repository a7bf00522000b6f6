from __future__ import annotations

import numpy as np

from neucmds._operator import DenseGram
from neucmds._operator.single_precision import RoundedGram, SingleGram


def hollow(n: int = 50, dtype: str = "float64") -> np.ndarray:
    e = np.random.default_rng(0).standard_normal((n, n))
    D = (e + e.T).astype(dtype)
    np.fill_diagonal(D, 0.0)
    return D


def test_rows_are_views_and_picked_rows_are_in_order():
    D = hollow()
    gram = DenseGram(D)
    assert np.shares_memory(gram.rows(slice(3, 9)), D)
    np.testing.assert_array_equal(gram.pick(np.array([7, 2])), D[[7, 2]])
    walked = np.concatenate([part for _, part in gram.walk()])
    np.testing.assert_array_equal(walked, D)


def test_a_single_precision_copy_is_made_only_if_allowed_and_needed():
    assert isinstance(DenseGram(hollow()).rounded(), RoundedGram)
    assert DenseGram(hollow(), working_copy=False).rounded() is None
    assert isinstance(DenseGram(hollow(dtype="float32")).rounded(), SingleGram)
    kept = DenseGram(hollow(), keep_copy=True)
    assert kept.rounded() is kept.rounded()
