"""Lists of observed pairs: what they are read from, merged to, and refused for."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.neighbors import kneighbors_graph

from neucmds.errors import InputError, NeucmdsWarning, OverfitWarning
from neucmds.problem.pairs import as_pairs, check_pairs, edges_of, make_pairs, read_edges


def listed(pairs):
    return list(
        zip(pairs.i.tolist(), pairs.j.tolist(), pairs.sq_dissimilarity.tolist(), strict=True)
    )


def test_every_container_gives_the_same_pairs(tmp_path):
    rows = [("a", "b", 1.0), ("c", "b", 2.0), ("a", "c", 2.5)]
    expected = [(0, 1, 1.0), (0, 2, 6.25), (1, 2, 4.0)]
    frame = pd.DataFrame(rows, columns=["from", "to", "d"])
    stored = sparse.csr_array(([1.0, 2.0, 2.5], ([0, 2, 0], [1, 1, 2])), shape=(3, 3))
    plain, tabbed, quoted = (tmp_path / name for name in ("p.csv", "p.tsv", "p.txt"))
    plain.write_text("# measured in May\na,b,1\n\nc,b,2.0\na,c,2.5\n")
    tabbed.write_text("from\tto\td\na\tb\t1\nc\tb\t2\na\tc\t2.5\n")
    quoted.write_text('"a";"b";1\n"c";"b";2.0\n"a";"c";2.5\n')
    for data in (tuple(zip(*rows, strict=True)), frame, plain, str(tabbed), quoted):
        pairs = as_pairs(data)
        assert listed(pairs) == expected
        assert pairs.labels == ("a", "b", "c")
    assert listed(as_pairs(stored)) == expected
    edges, names = read_edges(plain)
    np.testing.assert_array_equal(edges.toarray(), stored.toarray())
    assert names == ("a", "b", "c")
    assert listed(as_pairs(np.array([[0, 1, 1.0], [2, 1, 2.0], [0, 2, 2.5]]))) == expected


def test_explicit_zeros_are_zeros_and_both_orders_of_a_pair_are_one_pair():
    stored = sparse.csr_array(([0.0, 3.0], ([0, 1], [1, 2])), shape=(3, 3))
    assert listed(as_pairs(stored)) == [(0, 1, 0.0), (1, 2, 9.0)]
    for kind in (sparse.csr_array, sparse.csc_matrix, sparse.coo_array):
        full = kind(np.array([[0.0, 2.0, 0.0], [2.0, 0.0, 1.0], [0.0, 1.0, 0.0]]))
        assert listed(as_pairs(full)) == [(0, 1, 4.0), (1, 2, 1.0)]


def test_a_fourth_column_is_the_weight_and_zero_leaves_the_pair_out(tmp_path):
    file = tmp_path / "p.csv"
    file.write_text("i,j,d,w\n0,1,1,0.2\n1,2,1,0\n0,2,1,5\n")
    pairs = as_pairs(file)
    assert listed(pairs) == [(0, 1, 1.0), (0, 2, 1.0)]
    assert pairs.weight.tolist() == [0.2, 5.0]


def test_numbers_name_objects_in_their_order_and_only_those_that_occur(tmp_path):
    pairs = as_pairs((np.array([10, 30]), np.array([20, 10]), np.array([1.0, 2.0])))
    assert pairs.labels == ("10", "20", "30")
    counted = as_pairs((np.array([0, 1]), np.array([1, 2]), np.array([1.0, 2.0])))
    assert counted.labels is None
    assert counted.n == 3
    file = tmp_path / "p.tsv"
    file.write_text("9\t10\t1.0\n10\t11\t2\n")
    assert as_pairs(file).labels == ("9", "10", "11")


def test_entries_for_a_pair_agree_to_rounding_or_are_averaged():
    data = (["a", "b", "a"], ["b", "a", "c"], [1.0, 1.5, 3.0])
    assert listed(as_pairs(data, symmetrize=True)) == [(0, 1, 1.25**2), (0, 2, 9.0)]
    for size in (1e-6, 1.0, 1e6):  # what is rounding goes by the largest entry
        near = make_pairs(2, [0, 1, 1], [1, 0, 1], [size, size * (1 + 1e-9), 0.0])
        assert near.size == 1
        assert near.i.dtype == np.int32
        with pytest.raises(InputError, match="entries that differ"):
            make_pairs(2, [0, 1], [1, 0], [size, size * (1 + 1e-7)])


def test_squared_pairs_may_be_negative_and_their_graph_has_the_lengths():
    assert listed(make_pairs(2, [0], [1], [-2.0], squared=True)) == [(0, 1, -2.0)]
    graph = make_pairs(3, [0, 1], [1, 2], [2.0, 0.0]).graph()
    assert (graph[0, 1], graph[1, 0], graph.nnz) == (2.0, 2.0, 4)


REFUSED = {
    "two columns": (([0], [1]), "list has 2 columns"),
    "lengths": (([0], [1], [1.0, 2.0]), "equally long, not 1, 1, 2"),
    "heavy": (([0], [1], [1.0], [1e70]), "weights are too large"),
    "light": (([0], [1], [1.0], [1e-70]), "weights are too small"),
    "heavy and far": (([0], [1], [1e42], [1e20]), "weights are too large"),
    "text": (([0], [1], ["far"]), "third column of pairs must hold numbers"),
    "not square": (sparse.csr_array((2, 3)), "not square: 2 × 3"),
    "complex": (sparse.csr_array(1j * np.eye(2)), "complex128 entries"),
    "none": (sparse.csr_array((3, 3)), "no pairs"),
    "no rows": (([], [], []), "no pairs"),
    "infinite": (([0, 1], [1, 2], [1.0, np.inf]), "1 of 2 values are not finite, the first inf at"),
    "missing": (([0, 1], [1, 2], [1.0, np.nan]), "nan at (1, 2)"),
    "negative": (([0], [1], [-2.0]), "lowest is -2 at (0, 1); pass squared=True"),
    "to itself": (([1, 0], [1, 1], [1.0, 2.0]), "of an object and itself is 1 at (1, 1)"),
    "weight": (([0], [1], [1.0], [-1.0]), "not negative: -1.0 at (0, 1)"),
    "differing": (
        (["a", "b", "a"], ["b", "a", "c"], [1.0, 1.5, 3.0]),
        "1 pairs have entries that differ, the most by 0.5 at (0, 1), 'a'",
    ),
    "empty file": ("", "is empty"),
    "columns in a file": ("a,b\n", "has 2 columns"),
    "names alone": ("a,b,d\n", "no pairs below it"),
    "ragged file": ("a,b,1\na,c\n", "2 cells where others have 3, in 'a,c'"),
    "text in a file": ("a,b,1\na,c,far\n", "'far' is not a number, in 'a,c,far'"),
    "gap in a file": ("9,10,1.0\n10,11,NA\n", "not finite"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_list_of_pairs_is_refused(case, tmp_path):
    data, said = REFUSED[case]
    if isinstance(data, str):
        (tmp_path / "p.csv").write_text(data)
        data = tmp_path / "p.csv"
    with pytest.raises(InputError, match=re.escape(said)):
        as_pairs(data)


def test_edges_of_a_table_have_the_lengths_of_a_column_or_one():
    edges = pd.DataFrame({"a": [*"abcd"], "b": [*"bcda"], "length": range(4), "time": range(4, 8)})
    for table, weight, lengths in (
        (edges, "weight", range(4)),
        (edges, "time", range(4, 8)),
        (edges.drop(columns="length"), "weight", range(4, 8)),
        (edges, None, [1] * 4),
    ):
        found, names = edges_of(table, weight)
        assert names == tuple("abcd")
        np.testing.assert_array_equal(found.data, lengths)
        np.testing.assert_array_equal(found.coords, [[0, 1, 2, 3], [1, 2, 3, 0]])
    with pytest.warns(NeucmdsWarning, match="4 edges count as 1"):
        assert edges_of(edges[["a", "b"]], "weight")[0].sum() == 4
    for table, weight, said in (
        (edges, "cost", "no column 'cost' .* one of 'length', 'time', or None"),
        (edges, "b", "no column 'b'"),
        (edges[["a"]], "weight", "the table is 4 × 1"),
        (edges[:0], "weight", "the table is 0 × 4"),
        (edges.assign(b=["b", "c", None, "a"]), "time", "1 of 4 edges lack a node, .* in row 2"),
        (edges.assign(time=[*"fast"]), "time", "column 'time' must hold lengths"),
    ):
        with pytest.raises(InputError, match=said):
            edges_of(table, weight)


def test_neighbours_look_like_edges_and_pairs_at_random_do_not():
    x = np.random.default_rng(0).normal(size=(300, 4))
    with pytest.warns(OverfitWarning, match="look like edges .* metric='shortest_path'"):
        as_pairs(kneighbors_graph(x, 7, mode="distance"), symmetrize=True)
    d, drawn = np.linalg.norm(x[:, None] - x, axis=2), np.random.default_rng(1).random((300, 300))
    near = kneighbors_graph(x, 7, mode="distance").toarray()
    near[0, 1:] = d[0, 1:]  # one object is compared with all
    few = kneighbors_graph(x[:49], 1, mode="distance")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for known in (np.triu(np.where(drawn < 0.04, d, 0)), near, few):
            as_pairs(sparse.csr_array(known), symmetrize=True)


def complete(n):
    i, j = np.triu_indices(n, 1)
    return i, j, np.ones(i.size)


def test_objects_without_pairs_or_with_few_and_parts_are_named():
    i, j, d = complete(4)
    with pytest.raises(InputError, match=r"1 object is in no pair: 'e' \(of 5\)"):
        check_pairs(make_pairs(5, i, j, d, labels=tuple("abcde")), 1)
    pairs = make_pairs(8, np.r_[i, i + 4], np.r_[j, j + 4], np.r_[d, d])
    with pytest.raises(InputError, match=r"2 parts that no pair connects, of 4, 4.*: 4, 5, 6, 7"):
        check_pairs(pairs, 1)
    i, j, d = complete(30)
    pairs = make_pairs(31, np.r_[i, 0], np.r_[j, 30], np.r_[d, 1.0])
    with pytest.warns(OverfitWarning, match=r"1 object is in fewer than k = 3 pairs.*: 30;"):
        check_pairs(pairs, 3)


def test_fewer_pairs_than_unknowns_are_refused_and_few_are_warned_about():
    n, k = 30, 3
    i, j, d = complete(n)

    def some(count):
        first = np.argsort((j - i) % 15, kind="stable")[:count]  # every object in about as many
        return make_pairs(n, i[first], j[first], d[first])

    unknowns = n * k - k * (k + 1) // 2
    with pytest.raises(InputError, match=r"5\.53 per object on average, and more than 6 are"):
        check_pairs(some(unknowns - 1), k)
    for count in (unknowns, 2 * k * n - 1):
        with pytest.warns(OverfitWarning, match="per object on average determine k = 3"):
            check_pairs(some(count), k)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_pairs(some(2 * k * n), k)
        check_pairs(make_pairs(6, *complete(6)), 5)


def test_gaps_take_their_weights_along_and_edges_are_roots():
    found = make_pairs(3, [0, 0, 1], [1, 2, 2], [0.5, np.nan, 2], [7, 8, 9], allow_missing=True)
    np.testing.assert_array_equal(found.weight, [7, 9])
    np.testing.assert_array_equal(found.graph().toarray()[[0, 1, 0], [1, 2, 2]], [0.5, 2, 0])
