"""Fits in threads beside each other give what they give alone, without the global lock too."""

from __future__ import annotations

import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from neucmds import neuc_mds


def manhattan(seed):
    x = np.random.default_rng(seed).normal(size=(40, 3))
    return np.abs(x[:, None] - x).sum(axis=2)


@pytest.mark.parametrize("loss", ["squared", "distance", "relative"])
def test_concurrent_fits_are_those_of_single_ones(loss):
    inputs = [manhattan(seed) for seed in range(6)]
    alone = [neuc_mds(d, 4, loss=loss).coordinates for d in inputs]
    with ThreadPoolExecutor(6) as pool:
        together = pool.map(
            lambda d: neuc_mds(d, 4, loss=loss).coordinates, inputs
        )
        for expected, coordinates in zip(alone, together, strict=True):
            np.testing.assert_array_equal(coordinates, expected)


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"),
    reason="this Python has a global lock",
)
def test_importing_the_package_does_not_bring_the_lock_back():
    assert not sys._is_gil_enabled()
