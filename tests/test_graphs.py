"""Graphs as people hold them: networkx, tables of edges, files; one-way edges, and later nodes."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.sparse.csgraph import dijkstra
from sklearn.base import clone

from neucmds import InputError, LandmarkNeucMDS, NeucMDS, neuc_mds
from neucmds.errors import NeucmdsWarning
from neucmds.tools.cli import main

SIDE = 8
GRAPH = {"metric": "shortest_path"}


def crossing(x, y):
    return f"{x}/{y}"


def streets(side=SIDE):
    """A table of edges between named crossings, the length of each in a column of its own name."""
    steps = [(x, y, x + 1, y) for x in range(side - 1) for y in range(side)]
    steps += [(x, y, x, y + 1) for x in range(side) for y in range(side - 1)]
    rows = [
        (crossing(a, b), crossing(c, d), 1.0 + (a + 2 * b) % 3)
        for a, b, c, d in steps
    ]
    return pd.DataFrame(rows, columns=["from", "to", "length"])


def one_way():
    """A ring of twenty nodes, every edge longer back, and its shortest paths."""
    n = 20
    at = np.arange(n)
    lengths = np.concatenate([np.ones(n), np.full(n, 3.0)])
    ends = (
        np.concatenate([at, (at + 1) % n]),
        np.concatenate([(at + 1) % n, at]),
    )
    graph = sparse.csr_array((lengths, ends), shape=(n, n))
    return graph, dijkstra(graph)


@pytest.mark.parametrize(
    "est",
    [
        NeucMDS(3),
        NeucMDS(3, n_pairs=40),
        LandmarkNeucMDS(3, 30),
        LandmarkNeucMDS(1, 30, n_near=3),
    ],
    ids=["all", "sampled", "landmarks", "two levels"],
)
def test_estimators_take_tables_and_networkx_and_later_nodes(est):
    networkx = pytest.importorskip("networkx")
    table = streets()
    graph = networkx.from_pandas_edgelist(table, "from", "to", "length")
    est.set_params(random_state=0, **GRAPH)
    est.fit(graph)
    x = est.fit_transform(table)
    assert est.result_.labels[:2] == ("0/0", "0/1")
    length = networkx.shortest_path_length(graph, "0/0", "7/7", "length")
    assert est.result_.distance("0/0", "7/7") == pytest.approx(length, rel=0.1)
    edges = sparse.csr_array(
        ([0.0, 0.0], ([0, 1], [5, 40])), shape=(2, SIDE**2)
    )
    placed = est.transform(edges)
    assert np.abs(placed - x[[5, 40]]).max() < 0.6 * x.std()
    with pytest.raises(InputError, match="new node 1 has no edge"):
        est.transform(
            sparse.csr_array(([1.0], ([0], [3])), shape=(2, SIDE**2))
        )


@pytest.mark.parametrize("how", [{}, {"landmarks": 15}, {"n_pairs": 30}])
def test_direction_decides_between_the_ways_there_and_back(how):
    graph, out = one_way()
    with pytest.raises(
        InputError, match=r"20 of 20 edges .*params=\{'direction': 'mean'\}"
    ):
        neuc_mds(graph, 2, **GRAPH, **how)
    by_hand = {"mean": (out + out.T) / 2, "min": np.minimum(out, out.T)}
    by_hand["max"] = np.maximum(out, out.T)
    if not how:
        by_hand["out"] = np.triu(out) + np.triu(out).T
    for direction, D in by_hand.items():
        emb = neuc_mds(
            graph, 3, metric_params={"direction": direction}, **GRAPH, **how
        )
        if not how:
            assert emb.stress == pytest.approx(neuc_mds(D, 3).stress)
        assert (
            np.corrcoef(
                emb.dissimilarities(squared=True).ravel(), D.ravel() ** 2
            )[0, 1]
            > 0.8
        )


def test_one_way_edges_are_told_and_parts_are_named():
    table = streets()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        neuc_mds(table, 2, **GRAPH)
    back = table.rename(columns={"from": "to", "to": "from"})[
        ["from", "to", "length"]
    ]
    with pytest.warns(
        NeucmdsWarning, match="12 of 112 edges .* metric_params={'direction'"
    ):
        neuc_mds(pd.concat([table, back.iloc[12:]]), 2, **GRAPH)
    island = pd.concat(
        [table, pd.DataFrame([("here", "there", 1.0)], columns=table.columns)]
    )
    with pytest.raises(
        InputError, match=r"2 parts .* of 64, 2 objects; .* 'here', 'there'"
    ):
        neuc_mds(island, 2, **GRAPH)
    with pytest.warns(NeucmdsWarning, match="112 edges count as 1"):
        hops = neuc_mds(table[["from", "to"]], 2, **GRAPH)
    assert hops.distance("0/0", "7/7") == pytest.approx(14, abs=2)
    params = {"direction": "mean", "part": "big"}
    with pytest.raises(
        InputError, match=r"as 'direction' one of mean.*not {'part': 'big'}"
    ):
        neuc_mds(table, 2, metric_params=params, **GRAPH)


def test_lengths_are_those_of_the_named_weight():
    nx, at = (
        pytest.importorskip("networkx"),
        {"a": list("abcd"), "b": list("bcda")},
    )
    edges = pd.DataFrame(at | {"time": [1.0, 2.0, 3.0, 4.0], "length": 9.0})
    for data in (edges, nx.from_pandas_edgelist(edges, "a", "b", ["time"])):
        for weight, expected in (
            ("time", 2120),
            (None, 72),
        ):  # Σd⁴ over both orders
            emb = neuc_mds(data, 2, metric_params={"weight": weight}, **GRAPH)
            assert emb.info.sq_norm == pytest.approx(expected)


def test_tables_and_arrays_of_edges_are_not_taken_for_matrices():
    table = streets()
    for given in (table, table.assign(**{"from": 0, "to": 1})):
        with pytest.raises(
            InputError,
            match="not square",
        ):
            neuc_mds(given, 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["diagnose", "g.csv"],
        ["report", "g.csv", "-k", "3"],
        ["embed", "g.csv", "-k", "3", "--landmarks", "12", "--plots", "none"],
    ],
)
def test_commands_take_graphs(command, tmp_path, monkeypatch, capsys):
    pytest.importorskip("typer")

    def said(*more):
        monkeypatch.setattr("sys.argv", ["neucmds", *command, *more])
        code = main()
        return code, capsys.readouterr().err

    monkeypatch.chdir(tmp_path)
    table = streets(4)
    table.to_csv("g.csv", index=False)
    assert "of edges --metric shortest_path" in said()[1]
    assert "--metric path is unknown" in said("--metric", "path")[1]
    graph, force = (
        ["--metric", "shortest_path"],
        ["--force"] * (command[0] != "diagnose"),
    )
    assert said(*graph)[0] == 0
    assert "--squared" in said(*graph, "--squared", *force)[1]
    back = table.rename(columns={"from": "to", "to": "from"})[
        ["from", "to", "length"]
    ]
    pd.concat([table, back.assign(length=5.0)]).to_csv("g.csv", index=False)
    graph += force
    assert "pass --metric shortest_path,direction=mean" in said(*graph)[1]
    graph[1] += ",direction=mean"
    assert said(*graph)[0] == 0


@pytest.mark.parametrize(
    "est", [NeucMDS(2), LandmarkNeucMDS(2, 4)], ids=["all", "landmarks"]
)
def test_edges_of_new_nodes_are_checked_and_the_shortest_counts(est):
    edges = pd.DataFrame(
        {"a": list("abcdef"), "b": list("bcdefa"), "length": range(1, 7)}
    )
    est = clone(est).set_params(metric="shortest_path").fit(edges)
    several = sparse.coo_array(([0.7, 0.5], ([0, 0], [1, 1])), shape=(1, 6))
    shortest = sparse.coo_array(([0.5], ([0], [1])), shape=(1, 6))
    np.testing.assert_allclose(est.transform(several), est.transform(shortest))
    for bad in (-1.0, np.nan, np.inf):
        with pytest.raises(
            InputError, match="1 edges have lengths that are negative or not"
        ):
            est.transform(sparse.coo_array(([bad], ([0], [1])), shape=(1, 6)))


def test_edges_of_nodes_to_themselves_are_ignored():
    nx = pytest.importorskip("networkx")
    path = nx.path_graph(5)
    nx.set_edge_attributes(path, 1.0, "weight")
    loops = nx.Graph(path)
    loops.add_edge(0, 0, weight=3.0)
    loops.add_edge(4, 4, weight=-2.0)
    fits = [
        neuc_mds(graph, 1, metric="shortest_path") for graph in (path, loops)
    ]
    np.testing.assert_array_equal(*(fit.coordinates for fit in fits))
    loops.add_edge(1, 2, weight=-2.0)
    with pytest.raises(InputError, match=r"^1 edges .* -2 at \(1, 2\)"):
        neuc_mds(loops, 1, metric="shortest_path")


def test_a_graph_without_nodes_is_refused():
    nx = pytest.importorskip("networkx")
    for empty in (nx.Graph(), sparse.csr_array((0, 0))):
        with pytest.raises(InputError, match="the graph has no nodes"):
            neuc_mds(empty, 2, metric="shortest_path")
