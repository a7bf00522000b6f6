"""The one way in: whatever the input is, the same answer as from its D."""

from __future__ import annotations

import numpy as np
import pytest

import neucmds
from neucmds import neuc_mds


def hops(n=60, seed=0):
    """Squares of distances: symmetric and hollow, but no metric."""
    x = np.random.default_rng(seed).uniform(size=(n, 3))
    return ((x[:, None] - x[None, :]) ** 2).sum(-1)


def test_warnings_point_at_the_caller():
    with pytest.warns(neucmds.FewerComponentsWarning) as caught:
        neuc_mds(hops(), 59, "classical")
    assert caught[0].filename == __file__
