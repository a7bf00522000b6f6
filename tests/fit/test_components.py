"""`n_components` as users write it."""

import numpy as np
import pytest

from neucmds import InputError, neuc_mds

POINTS = np.random.default_rng(0).normal(size=(12, 11))
D = np.abs(POINTS[:, None] - POINTS).sum(axis=-1)


@pytest.mark.parametrize("k", [1, 5, np.int32(11)])
def test_a_number_is_the_number_of_coordinates(k):
    assert neuc_mds(D, k, "neuc").requested == k


@pytest.mark.parametrize("pair", [(3, 2), [np.int64(3), 2]])
def test_a_pair_is_the_signature(pair):
    assert neuc_mds(D, pair, "neuc").signature == (3, 2)


def test_a_share_is_the_least_r2():
    share = np.float32(0.5)
    embedding = neuc_mds(D, share, "neuc")
    assert embedding.r2 >= share > neuc_mds(D, embedding.k - 1, "neuc").r2


@pytest.mark.parametrize(
    "value",
    [
        True,
        -1,
        1.0,
        0.0,
        np.nan,
        "3",
        "many",
        (),
        (1,),
        (1, 1, 1),
        (-1, 3),
        0,
        5,
        (0, 0),
        (3, 2),
        np.int64(7),
        (0.5, 1),
    ],
)
def test_what_is_no_number_pair_or_goal_is_refused(value):
    with pytest.raises(
        InputError,
        match=r"must be a whole number k from 1 to n − 1 = 4, a pair",
    ):
        neuc_mds(D[:5, :5], value)


def test_the_bound_of_a_directed_fit_is_called_by_its_name():
    with pytest.raises(
        InputError, match=r"to min\(rows, columns\) = 3, a pair"
    ):
        neuc_mds(D[:3, :5], 4, directed=True)
