"""Fits in threads beside each other give what they give alone, without the global lock too."""

from __future__ import annotations

import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from neucmds import neuc_mds


def manhattan(seed):
    x = np.random.default_rng(seed).normal(size=(24, 3))
    return np.abs(x[:, None] - x).sum(axis=2)


@pytest.mark.parametrize("loss", ["squared", "distance", "relative"])
def test_concurrent_fits_are_those_of_single_ones(loss):
    def fit(d):
        return neuc_mds(d, 3, loss=loss, n_init=starts).coordinates

    starts = None if loss == "squared" else 2
    inputs = [manhattan(seed) for seed in range(6)]
    alone = [fit(d) for d in inputs]
    with ThreadPoolExecutor(6) as pool:
        together = pool.map(fit, inputs)
        for expected, coordinates in zip(alone, together, strict=True):
            np.testing.assert_array_equal(coordinates, expected)


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"),
    reason="this Python has a global lock",
)
def test_importing_the_package_does_not_bring_the_lock_back():
    assert not sys._is_gil_enabled()
