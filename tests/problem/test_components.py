"""`n_components` as users write it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neucmds.errors import InputError
from neucmds.problem.components import Components


@given(st.integers(2, 200), st.data())
def test_numbers_pairs_and_goals_are_told_apart(n, data):
    k = data.draw(st.integers(1, n - 1))
    p = data.draw(st.integers(0, k))
    assert Components.parse(k, n) == Components.parse(np.int32(k), n) == Components(k)
    assert Components.parse((p, k - p), n) == Components(k, (p, k - p))
    assert Components.parse([np.int64(p), k - p], n) == Components(k, (p, k - p))
    assert Components.parse("auto", n) == Components(min(100, n - 1), goal="auto")
    assert Components.parse(np.float32(0.5), n) == Components(min(100, n - 1), goal=0.5)


@pytest.mark.parametrize("value", [0, 5, (0, 0), (3, 2), np.int64(7)])
def test_too_many_or_none_are_counted(value):
    with pytest.raises(InputError, match=r"of 5 objects; it must be between 1 and n − 1"):
        Components.parse(value, 5)


@pytest.mark.parametrize(
    "value",
    [True, -1, 1.0, 0.0, np.nan, "3", "many", (), (1,), (1, 1, 1), (-1, 3), (True, 1), (0.5, 1)],
)
def test_what_is_no_number_pair_or_goal_is_refused(value):
    with pytest.raises(InputError, match=r"must be a whole number k from 1 to n − 1 = 4, a pair"):
        Components.parse(value, 5)
