"""Tables that go along with the objects are put in their order by name."""

import numpy as np
import pandas as pd
import pytest

from neucmds.errors import InputError, NeucmdsWarning
from neucmds.problem.names import (
    common_objects,
    order_of,
    ordered_by_name,
    pairs_ordered_as,
    rows_ordered_as,
)

ABC = ["a", "b", "c"]
TABLE = pd.DataFrame(np.arange(9).reshape(3, 3), ["c", "a", "b"], ["b", "c", "a"])


def same(found, expected):
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


def test_each_side_is_ordered_where_it_is_asked_for():
    for rows, cols in ((True, True), (True, False), (False, True)):
        wanted = TABLE.loc[ABC] if rows else TABLE
        same(
            ordered_by_name(TABLE, ABC, "w", rows=rows, cols=cols), wanted[ABC] if cols else wanted
        )
    assert ordered_by_name(TABLE, None, "w") is TABLE
    array = TABLE.to_numpy()
    assert ordered_by_name(array, ABC, "w") is array


def test_names_that_only_count_are_none_unless_the_objects_count_too():
    counted = TABLE.set_axis([0, 1, 2]).set_axis([0, 1, 2], axis=1)
    same(ordered_by_name(counted, ABC, "w", rows=True), counted)
    same(ordered_by_name(counted, [2, 0, 1], "w", rows=True), counted.loc[[2, 0, 1], [2, 0, 1]])


def test_rows_go_by_those_of_another_table():
    other = pd.DataFrame({"x": [1, 2, 3]}, ABC)
    same(rows_ordered_as(TABLE, other, "y"), TABLE.loc[ABC])
    for unnamed in (other.reset_index(drop=True), other.iloc[:2], other.to_numpy()):
        assert rows_ordered_as(TABLE, unnamed, "y") is TABLE
    shuffled = TABLE.set_axis([2, 0, 1])
    same(rows_ordered_as(shuffled, other.reset_index(drop=True), "y"), shuffled.loc[[0, 1, 2]])


def test_pairs_go_by_the_side_that_has_names():
    named = pd.DataFrame(np.zeros((3, 3)), ABC, ABC)
    wanted = TABLE.loc[ABC, ABC]
    same(pairs_ordered_as(TABLE, named, "w", square=True), wanted)
    same(pairs_ordered_as(TABLE, named.set_axis([0, 1, 2]), "w", square=True), wanted)
    features = named.set_axis(["x", "y", "z"], axis=1)
    same(pairs_ordered_as(TABLE, features, "w", square=False), wanted)
    with pytest.raises(InputError, match="index that differs from its columns, and w have names"):
        pairs_ordered_as(TABLE, features, "w", square=True)
    unnamed = named.set_axis([0, 1, 2]).set_axis([0, 1, 2], axis=1)
    assert pairs_ordered_as(TABLE, unnamed, "w", square=True) is TABLE
    assert pairs_ordered_as(TABLE, named.to_numpy(), "w", square=True) is TABLE


def test_names_are_matched_or_the_difference_is_said():
    assert order_of(["b", "c", "a"], ABC, "rows") == [2, 0, 1]
    assert order_of(["x", "c", "b", "x", "a"], ABC, "rows", others=True) == [4, 2, 1]
    for names, said in (
        (["a", "b", "a"], r"rows have the name 'a' twice \(rows 1 and 3\)"),
        (["a", "b"], r"1 of 3 objects are not among them \('c'\); name them alike"),
        (["a", "b", "c", "d"], r"different names: 1 of them name no object \('d'\);"),
        (
            list("defghi"),
            r"\('a', 'b', 'c'\), and 6 of them name no object \('d', 'e', 'f', 'g', …\)",
        ),
    ):
        with pytest.raises(InputError, match=said):
            order_of(names, ABC, "rows")


def test_objects_in_common_go_by_name_or_else_by_number():
    for a, b in ((None, ABC), (ABC, None), (None, None)):
        same(common_objects(a, 3, b, 3), [[0, 1, 2], [0, 1, 2]])
        with pytest.raises(InputError, match="there are 3 and 4 objects"):
            common_objects(a, 3, b, 4)
    same(common_objects(ABC, 3, ["c", "a", "b"], 3), [[0, 1, 2], [1, 2, 0]])
    with pytest.warns(NeucmdsWarning, match="of 3 and 4 objects, 2 are in both"):
        same(common_objects(ABC, 3, ["x", "c", "a", "y"], 4), [[0, 2], [2, 1]])
    with pytest.raises(InputError, match="1 of 3 and 1 objects have the same name"):
        common_objects(ABC, 3, ["c"], 1)
