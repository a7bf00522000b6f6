"""Lists of observed pairs: what they are read from, merged to, and refused for."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.neighbors import kneighbors_graph

from neucmds import neuc_mds
from neucmds.errors import InputError, NeucmdsWarning, OverfitWarning
from neucmds.problem.files import read_edge_table
from neucmds.problem.pairs import (
    as_pairs,
    check_pairs,
    edges_of,
    make_pairs,
)


def read_edges(file):
    return edges_of(read_edge_table(file), "weight")


def listed(pairs):
    return list(
        zip(
            pairs.i.tolist(),
            pairs.j.tolist(),
            pairs.sq_dissimilarity.tolist(),
            strict=True,
        )
    )


def test_edges_are_read_from_files(tmp_path):
    stored = sparse.csr_array(
        ([1.0, 2.0, 2.5], ([0, 2, 0], [1, 1, 2])), shape=(3, 3)
    )
    texts = {
        "p.csv": "# measured in May\na,b,1\n\nc,b,2.0\na,c,2.5\n",
        "p.tsv": "from\tto\td\na\tb\t1\nc\tb\t2\na\tc\t2.5\n",
        "p.txt": '"a";"b";1\n"c";"b";2.0\n"a";"c";2.5\n',
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        edges, names = read_edges(tmp_path / name)
        np.testing.assert_array_equal(edges.toarray(), stored.toarray())
        assert names == ("a", "b", "c")


def test_explicit_zeros_are_zeros_and_both_orders_of_a_pair_are_one_pair():
    stored = sparse.csr_array(([0.0, 3.0], ([0, 1], [1, 2])), shape=(3, 3))
    assert listed(as_pairs(stored)) == [(0, 1, 0.0), (1, 2, 9.0)]
    for kind in (sparse.csr_array, sparse.csc_matrix, sparse.coo_array):
        full = kind(
            np.array([[0.0, 2.0, 0.0], [2.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
        )
        assert listed(as_pairs(full)) == [(0, 1, 4.0), (1, 2, 1.0)]


def test_numbers_name_nodes_in_their_order_and_only_those_that_occur(tmp_path):
    file = tmp_path / "p.tsv"
    file.write_text("9\t10\t1.0\n10\t11\t2\n")
    assert read_edges(file)[1] == ("9", "10", "11")
    file.write_text("0\t1\t1.0\n1\t2\t2\n")
    edges, names = read_edges(file)
    assert (edges.shape, names) == ((3, 3), None)


def test_entries_for_a_pair_agree_to_rounding_or_are_averaged():
    found = make_pairs(
        3, [0, 1, 0], [1, 0, 2], [1.0, 1.5, 3.0], symmetrize=True
    )
    assert listed(found) == [(0, 1, 1.25**2), (0, 2, 9.0)]
    for size in (1e-6, 1.0, 1e6):  # what is rounding goes by the largest entry
        near = make_pairs(
            2, [0, 1, 1], [1, 0, 1], [size, size * (1 + 1e-9), 0.0]
        )
        assert near.size == 1
        assert near.i.dtype == np.int32
        with pytest.raises(InputError, match="entries that differ"):
            make_pairs(2, [0, 1], [1, 0], [size, size * (1 + 1e-7)])


def test_squared_pairs_may_be_negative_and_their_graph_has_the_lengths():
    assert listed(make_pairs(2, [0], [1], [-2.0], squared=True)) == [
        (0, 1, -2.0)
    ]
    graph = make_pairs(3, [0, 1], [1, 2], [2.0, 0.0]).graph()
    assert (graph[0, 1], graph[1, 0], graph.nnz) == (2.0, 2.0, 4)


def coo(i, j, values):
    return sparse.coo_array((values, (i, j)), shape=(3, 3))


REFUSED = {
    "not square": (sparse.csr_array((2, 3)), "not square: 2 × 3"),
    "complex": (sparse.csr_array(1j * np.eye(2)), "complex128 entries"),
    "none": (sparse.csr_array((3, 3)), "no pairs"),
    "infinite": (
        coo([0, 1], [1, 2], [1, np.inf]),
        "1 of 2 values are not finite, the first inf",
    ),
    "missing": (coo([0, 1], [1, 2], [1.0, np.nan]), "nan at (1, 2)"),
    "negative": (
        coo([0], [1], [-2.0]),
        "lowest is -2 at (0, 1); pass squared=True",
    ),
    "to itself": (
        coo([1, 0], [1, 1], [1.0, 2.0]),
        "of an object and itself is 1 at (1, 1)",
    ),
    "differing": (
        coo([0, 1, 0], [1, 0, 2], [1.0, 1.5, 3.0]),
        "1 pairs have entries that differ, the most by 0.5 at (0, 1)",
    ),
    "empty file": ("", "is empty"),
    "columns in a file": ("a,b\n", "has 2 columns"),
    "names alone": ("a,b,d\n", "no edges below it"),
    "ragged file": ("a,b,1\na,c\n", "3 cells where others have 2, in 'a,b,1'"),
    "text in a file": (
        "a,b,1\na,c,far\n",
        "first of the edge a to c, are not numbers (could not convert string "
        "to float: 'far')",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_list_of_pairs_or_edges_is_refused(case, tmp_path):
    data, said = REFUSED[case]
    read = as_pairs
    if isinstance(data, str):
        (tmp_path / "p.csv").write_text(data)
        data = tmp_path / "p.csv"
        read = read_edges
    with pytest.raises(InputError, match=re.escape(said)):
        read(data)


def test_edges_of_a_table_have_the_lengths_of_a_column_or_one():
    edges = pd.DataFrame(
        {
            "a": [*"abcd"],
            "b": [*"bcda"],
            "length": range(4),
            "time": range(4, 8),
        }
    )
    for table, weight, lengths in (
        (edges, "weight", range(4)),
        (edges, "time", range(4, 8)),
        (edges.drop(columns="length"), "weight", range(4, 8)),
        (edges, None, [1] * 4),
    ):
        found, names = edges_of(table, weight)
        assert names == tuple("abcd")
        np.testing.assert_array_equal(found.data, lengths)
        np.testing.assert_array_equal(
            found.coords, [[0, 1, 2, 3], [1, 2, 3, 0]]
        )
    with pytest.warns(NeucmdsWarning, match="4 edges count as 1"):
        assert edges_of(edges[["a", "b"]], "weight")[0].sum() == 4
    for table, weight, said in (
        (
            edges,
            "cost",
            "no column 'cost' .* one of 'length', 'time', or None",
        ),
        (edges, "b", "no column 'b'"),
        (edges[["a"]], "weight", "the table is 4 × 1"),
        (edges[:0], "weight", "the table is 0 × 4"),
        (
            edges.assign(b=["b", "c", None, "a"]),
            "time",
            "1 of 4 edges lack a node, .* in row 2",
        ),
        (
            edges.assign(time=[*"fast"]),
            "time",
            "lengths in column 'time', first of the edge a to b, are not",
        ),
    ):
        with pytest.raises(InputError, match=said):
            edges_of(table, weight)


def test_neighbours_look_like_edges_and_pairs_at_random_do_not():
    x = np.random.default_rng(0).normal(size=(300, 4))
    with pytest.warns(
        OverfitWarning, match="look like edges .* metric='shortest_path'"
    ):
        as_pairs(kneighbors_graph(x, 7, mode="distance"), symmetrize=True)
    d, drawn = (
        np.linalg.norm(x[:, None] - x, axis=2),
        np.random.default_rng(1).random((300, 300)),
    )
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
    with pytest.raises(
        InputError, match=r"1 of 5 objects are in no pair: 'e'"
    ):
        check_pairs(replace(make_pairs(5, i, j, d), labels=tuple("abcde")), 1)
    pairs = make_pairs(8, np.r_[i, i + 4], np.r_[j, j + 4], np.r_[d, d])
    with pytest.raises(
        InputError,
        match=r"2 parts that no pair connects, of 4, 4.*: 4, 5, 6, 7",
    ):
        check_pairs(pairs, 1)
    i, j, d = complete(30)
    pairs = make_pairs(31, np.r_[i, 0], np.r_[j, 30], np.r_[d, 1.0])
    with pytest.warns(
        OverfitWarning,
        match=r"k = 3 coordinates poorly, 1 objects are in fewer than k \(30\)",
    ):
        check_pairs(pairs, 3)


def test_fewer_pairs_than_unknowns_are_refused_and_few_are_warned_about():
    n, k = 30, 3
    i, j, d = complete(n)

    def some(count):
        first = np.argsort((j - i) % 15, kind="stable")[
            :count
        ]  # every object in about as many
        return make_pairs(n, i[first], j[first], d[first])

    unknowns = n * k - k * (k + 1) // 2
    with pytest.raises(
        InputError, match=r"5\.53 per object on average, and more than 6 are"
    ):
        check_pairs(some(unknowns - 1), k)
    for count in (unknowns, 2 * k * n - 1):
        with pytest.warns(
            OverfitWarning, match="per object on average determine k = 3"
        ):
            check_pairs(some(count), k)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_pairs(some(2 * k * n), k)
        check_pairs(make_pairs(6, *complete(6)), 5)


def test_gaps_are_left_out_and_edges_are_roots():
    found = as_pairs(
        coo([0, 0, 1], [1, 2, 2], [0.5, np.nan, 2]), missing="ignore"
    )
    np.testing.assert_array_equal(
        found.graph().toarray()[[0, 1, 0], [1, 2, 2]], [0.5, 2, 0]
    )


def test_a_warning_of_few_pairs_names_no_objects_where_all_have_enough():
    i, j = np.triu_indices(20, 1)
    near = j - i <= 4
    x = np.random.default_rng(0).normal(size=(20, 3))
    d = np.linalg.norm(x[i] - x[j], axis=1)
    known = sparse.coo_array((d[near], (i[near], j[near])), shape=(20, 20))
    with pytest.warns(OverfitWarning, match="3 coordinates poorly; about 10k"):
        neuc_mds(known, 3)
