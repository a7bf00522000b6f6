"""Which objects are landmarks: as many as asked for, spread out, and each once."""

import numpy as np
import pytest

from neucmds import InputError
from neucmds.large.choice import landmark_count, maxmin, named, random_sample


def test_the_number_of_landmarks_is_what_was_asked_for_or_a_thousand():
    assert landmark_count(None, 5000, 10) == 1000
    assert landmark_count(None, 5000, 300) == 1200
    assert landmark_count(None, 600, 10) == 600
    assert landmark_count(0.25, 400, 10) == 100
    assert landmark_count(1.0, 40, 10) == 40
    assert landmark_count(np.int64(11), 40, 10) == 11
    for wanted, message in (
        (10, "10 landmarks are too few for 10 coordinates; at least k . 1 = 11"),
        (41, "n_landmarks=41 of 40 objects"),
        (0.0, "a share in"),
        (1.5, "a share in"),
        (True, "must be a whole number"),
        ("all", "must be a whole number"),
    ):
        with pytest.raises(InputError, match=message):
            landmark_count(wanted, 40, 10)


def test_named_landmarks_are_taken_as_they_are():
    np.testing.assert_array_equal(named([6, -1, 0, -8 + 1], 8, 2), [6, 7, 0, 1])
    for ids, message in (
        ([0, 1], "2 landmarks are too few for 2"),
        ([0, 1, 8], "hold row 8, but there are 8 objects"),
        ([0, 1, -9], "hold row -9"),
        ([0, 1, -8, 3], "hold row 0 twice"),
        ([0.0, 1.0, 2.0], "or row numbers"),
        ([[0, 1, 2]], "or row numbers"),
    ):
        with pytest.raises(InputError, match=message):
            named(ids, 8, 2)


def test_each_spread_landmark_is_the_farthest_from_those_before_it():
    x = np.random.default_rng(0).normal(size=(50, 2))
    d = np.linalg.norm(x[:, None] - x[None], axis=-1)
    ids = maxmin(50, 12, d.__getitem__, np.random.RandomState(1))
    assert ids[0] == np.random.RandomState(1).randint(50)
    for i in range(1, 12):
        to_chosen = d[:, ids[:i]].min(axis=1)
        assert to_chosen[ids[i]] == to_chosen.max()
    assert sorted(maxmin(5, 5, lambda _: np.zeros(5), np.random.RandomState(0))) == list(range(5))


@pytest.mark.parametrize(("n", "count"), [(20, 20), (100, 5), (1000, 49), (1000, 50)])
def test_a_sample_has_each_object_once_in_order(n, count):
    ids = random_sample(n, count, np.random.RandomState(0))
    assert ids.size == count
    assert np.all(np.diff(ids) > 0)
    assert 0 <= ids[0] <= ids[-1] < n
    if (n, count) != (1000, 49):  # so few are drawn one by one
        np.testing.assert_array_equal(ids, np.sort(np.random.RandomState(0).permutation(n)[:count]))
    assert not np.array_equal(ids, random_sample(n, count, np.random.RandomState(1))) or n == count
