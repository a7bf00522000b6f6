"""Which objects are landmarks: as many as asked for, spread out, and each once."""

import numpy as np
import pytest

from neucmds import InputError, LandmarkNeucMDS

X = np.random.default_rng(0).normal(size=(50, 2))
D = np.linalg.norm(X[:, None] - X[None], axis=-1)


def chosen(data, n_components=2, **settings) -> np.ndarray:
    """Return the landmarks of a fit, which is a cheap one."""
    metric = "precomputed" if data.shape[0] == data.shape[1] else "euclidean"
    est = LandmarkNeucMDS(
        n_components,
        metric=metric,
        method="neuc+",
        placement="linear",
        **settings,
    )
    return est.fit(data).landmarks_


def test_the_number_of_landmarks_is_what_was_asked_for_or_a_thousand():
    many = np.random.default_rng(0).normal(size=(1300, 2))
    assert chosen(many).size == 1000
    assert chosen(many, n_components=300).size == 1200
    assert chosen(D).size == 50
    assert chosen(D, n_landmarks=0.25).size == 12
    assert chosen(D, n_landmarks=1.0).size == 50
    assert chosen(D, n_components=10, n_landmarks=np.int64(11)).size == 11
    for wanted, message in (
        (
            10,
            "10 landmarks are too few for 10 coordinates; at least k . 1 = 11",
        ),
        (51, "n_landmarks=51 of 50 objects"),
        (0.0, "a share in"),
        (1.5, "a share in"),
        (True, "must be a whole number"),
        ("all", "must be a whole number"),
    ):
        with pytest.raises(InputError, match=message):
            chosen(D, n_components=10, n_landmarks=wanted)


def test_named_landmarks_are_taken_as_they_are():
    found = chosen(D[:8, :8], landmarks=[6, -1, 0, -8 + 1])
    np.testing.assert_array_equal(found, [6, 7, 0, 1])
    for ids, message in (
        ([0, 1], "2 landmarks are too few for 2"),
        ([0, 1, 8], "hold row 8, but there are 8 objects"),
        ([0, 1, -9], "hold row -9"),
        ([0, 1, -8, 3], "hold row 0 twice"),
        ([0.0, 1.0, 2.0], "or row numbers"),
        ([[0, 1, 2]], "or row numbers"),
    ):
        with pytest.raises(InputError, match=message):
            chosen(D[:8, :8], landmarks=ids)


def test_each_spread_landmark_is_the_farthest_from_those_before_it():
    found = chosen(D, landmarks="maxmin", n_landmarks=12, random_state=1)
    spread = [np.random.RandomState(1).randint(50)]
    while len(spread) < 12:
        spread.append(np.argmax(D[:, spread].min(axis=1)))
    np.testing.assert_array_equal(found, np.sort(spread))
    copies = np.repeat(D[:1, :1], 25).reshape(5, 5)
    found = chosen(copies, n_components=1, landmarks="maxmin", n_landmarks=5)
    np.testing.assert_array_equal(found, np.arange(5))


@pytest.mark.parametrize(
    ("n", "count"), [(20, 20), (100, 5), (1000, 49), (1000, 50)]
)
def test_a_sample_has_each_object_once_in_order(n, count):
    x = np.random.default_rng(0).normal(size=(n, 3))
    ids = chosen(x, n_landmarks=count, random_state=0)
    assert ids.size == count
    assert np.all(np.diff(ids) > 0)
    assert 0 <= ids[0] <= ids[-1] < n
    if (n, count) != (1000, 49):  # so few are drawn one by one
        np.testing.assert_array_equal(
            ids, np.sort(np.random.RandomState(0).permutation(n)[:count])
        )
    other = chosen(x, n_landmarks=count, random_state=1)
    assert not np.array_equal(ids, other) or n == count
