"""Which objects are landmarks, and how many."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from neucmds._placement.landmarks import landmark_count, maxmin, random_sample


def test_maxmin_takes_the_farthest_each_time():
    points = np.random.default_rng(0).normal(size=(100, 2))
    d = cdist(points, points)
    chosen = maxmin(100, 10, lambda i: d[i], np.random.RandomState(0))
    for step in range(1, 10):
        nearest = d[:, chosen[:step]].min(axis=1)
        assert nearest[chosen[step]] == nearest.max()


def test_maxmin_never_takes_an_object_twice_even_among_copies():
    d = np.zeros((12, 12))
    assert np.unique(maxmin(12, 9, lambda i: d[i], np.random.RandomState(0))).size == 9


@pytest.mark.parametrize("count", [3, 900])
def test_a_random_sample_has_no_repeats(count):
    ids = random_sample(1000, count, np.random.RandomState(0))
    assert ids.size == count == np.unique(ids).size
    assert ids.max() < 1000


def test_counts_of_landmarks():
    assert landmark_count(None, 10**6, 20) == 1000
    assert landmark_count(None, 10**6, 500) == 2000
    assert landmark_count(0.25, 1000, 10) == 250
    assert landmark_count(np.int64(50), 1000, 10) == 50
