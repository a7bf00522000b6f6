"""`neuc_mds` leaves D as it was, and its warnings point at the caller."""

from __future__ import annotations

import numpy as np
import pytest

import neucmds
from neucmds import neuc_mds


def hops(n=60, seed=0):
    """Squares of distances: symmetric and hollow, but no metric."""
    x = np.random.default_rng(seed).uniform(size=(n, 3))
    return ((x[:, None] - x[None, :]) ** 2).sum(-1)


@pytest.mark.parametrize(
    "wrong",
    [{"method": "magic"}, {"solver": "magic"}, {"tol": 2}, {"n_components": 60}, {"max_iter": 0},
     {"random_state": "seed"}],
)  # fmt: skip
def test_d_is_untouched_when_an_argument_is_refused(wrong):
    D = hops()
    before = D.copy()
    with pytest.raises(ValueError):  # noqa: PT011
        neuc_mds(D, **{"n_components": 3, "copy": False} | wrong)
    np.testing.assert_array_equal(D, before)


def test_warnings_point_at_the_caller():
    with pytest.warns(neucmds.FewerComponentsWarning) as caught:
        neuc_mds(hops(), 59, "classical")
    assert caught[0].filename == __file__
