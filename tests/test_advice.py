"""What is refused is refused in one line whose advice works; what is rounding passes."""

import threading
import time
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from neucmds import InputError, LandmarkNeucMDS, NeucMDS, neuc_mds

X = np.random.default_rng(0).normal(size=(20, 3))
D = np.abs(X[:, None] - X).sum(axis=2)
WORDS = [str(i) for i in range(len(X))]
GRAPH = nx.to_scipy_sparse_array(
    nx.random_geometric_graph(30, 0.5, seed=1), dtype=float
)


def cityblock(a, b):
    return float(np.abs(X[int(a)] - X[int(b)]).sum())


def edges(**columns):
    return pd.DataFrame({"from": [*"abcd"], "to": [*"bcda"]} | columns)


def locked():
    """Return a slow function that no other process can get."""
    lock = threading.Lock()

    def gap(a, b):
        with lock:
            time.sleep(0.05)
        return float(abs(a - b))

    return gap


def unequal_lengths():
    graph = nx.path_graph(6)
    nx.set_edge_attributes(graph, 1.0, "weight")
    graph[0][1]["weight"] = [1, 2]
    return graph


@pytest.mark.parametrize(
    ("data", "parameters", "words"),
    [
        (D, {"metric_params": "mean"}, "metric_params='mean' must be a dict"),
        (X, {"metric": ["cityblock"]}, "must be the name of a metric"),
        (
            D,
            {"loss": "relative", "curvature": 10**400},
            "must be a number or 'auto'",
        ),
        (D, {"loss": "relative", "floor": 10**400}, "a positive number"),
        (D, {"loss": "relative", "n_init": 10**400}, "whole number"),
        (X, {"metric": "cityblock", "n_pairs": 10**400}, "whole number"),
        (X, {"metric": "cityblock", "symmetrize": True}, "is symmetric"),
        (
            unequal_lengths(),
            {"metric": "shortest_path"},
            "lengths of edges must be numbers",
        ),
        (
            edges(weight=[[1], [2], [3], [4]]),
            {"metric": "shortest_path"},
            "'weight' are not numbers",
        ),
        (
            edges(day=pd.date_range("2020-01-01", periods=4)),
            {"metric": "shortest_path"},
            "first of the edge a to b, are not numbers",
        ),
        (
            pd.DataFrame({"a": [1, "1", 2], "b": [2, 2, 3], "c": [1.0] * 3}),
            {"metric": "shortest_path"},
            "differ in type alone",
        ),
        (
            GRAPH,
            {"metric": "shortest_path", "metric_params": {"weight": "time"}},
            "a sparse array stores itself; leave it out",
        ),
        ([{"a": 1}] * 4, {}, "a function of two objects as metric"),
        (
            [{"a": 1}] * 4,
            {"metric": "cityblock"},
            "a function of two objects as metric",
        ),
        (1e300 * D, {}, "too large"),
        (1e100 * X, {"metric": "euclidean"}, r"divide by \de\+100"),
        (
            1e300 * X,
            {"metric": "cityblock"},
            "squares are infinite, first for objects 0 and 1; .* divide by",
        ),
        (D, {"landmarks": 10, "weights": D}, "weights count pairs"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_one_line_says_what_is_wrong(data, parameters, words):
    with pytest.raises(InputError, match=words) as caught:
        neuc_mds(data, 2, **parameters)
    assert "\n" not in str(caught.value)


def test_a_list_of_dicts_is_refused_in_one_line_by_estimators():
    with pytest.raises(TypeError, match="function of two objects as metric"):
        NeucMDS(2).fit([{"a": 1}] * 4)


def test_a_function_that_other_processes_cannot_get_is_refused():
    with pytest.raises(InputError, match="n_jobs=1"):
        NeucMDS(1, metric=locked(), n_jobs=2).fit(list(range(12)))


@pytest.mark.parametrize("parameters", [{}, {"n_pairs": 15}])
def test_a_list_of_equally_long_lists_holds_features(parameters):
    parameters["metric"] = "cityblock"
    by_list = neuc_mds(X.tolist(), 2, **parameters)
    by_array = neuc_mds(X, 2, **parameters)
    np.testing.assert_array_equal(by_list.coordinates, by_array.coordinates)
    est = NeucMDS(2, **parameters).fit(X.tolist())
    np.testing.assert_array_equal(est.embedding_, by_array.coordinates)
    if "n_pairs" not in parameters:
        placed = LandmarkNeucMDS(2, 10, **parameters).fit(X.tolist())
        assert placed.embedding_.shape == (20, 2)


def test_edges_of_new_nodes_are_a_sparse_array_as_wide_as_the_graph():
    est = NeucMDS(2, metric="shortest_path").fit(GRAPH)
    new = GRAPH[:3]
    with pytest.raises(InputError, match=r"29 nodes.*array \(m, 30\)") as said:
        est.transform(new[:, :29])
    assert "toarray" not in str(said.value)
    with pytest.raises(InputError, match=r"length 0 from \d+ nodes.*sparse"):
        est.transform(new.toarray())
    with pytest.warns(UserWarning, match="pass lengths of paths, not edges"):
        est.result_.transform(new.toarray())
    assert est.transform(new).shape == (3, 2)


def test_a_new_node_may_lie_on_a_fitted_one():
    est = NeucMDS(2, metric="shortest_path").fit(GRAPH)
    lengths = sparse.csgraph.dijkstra(GRAPH)
    placed = est.transform(lengths[:4])
    np.testing.assert_allclose(placed, est.embedding_[:4], atol=0.3)


@pytest.mark.parametrize("suffix", ["npy", "npz", "csv"])
def test_no_message_advises_to_load_a_pickle(suffix, tmp_path):
    file = tmp_path / f"d.{suffix}"
    file.write_bytes(b"PK\x03\x04 is how a zip archive begins")
    with pytest.raises(InputError) as caught:
        neuc_mds(file, 2)
    assert "pickle" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "0.5\n1.5,1.0\n2.5,2.0,3.0\n3.5,1.0,2.0,2.5\n",
        "1.0\n2.0,3.0\n1.0,2.0,2.5\n",
    ],
)
def test_a_triangle_of_which_numbers_may_be_names_is_refused(text, tmp_path):
    file = tmp_path / "d.csv"
    file.write_text(text)
    with pytest.raises(InputError, match="diagonal of zeros at the ends"):
        neuc_mds(file, 1)
    lines = enumerate(text.splitlines())
    named = [f"n{i}-{line}" for i, line in lines]
    file.write_text("\n".join(named))
    assert neuc_mds(file, 1).n == len(named)


@pytest.mark.parametrize(
    ("n_pairs", "loss", "curvature"),
    [
        (12, "relative", "auto"),
        (12, "squared", 0.0),
        (16, "distance", 0.0),
        (20, "squared", 0.0),
    ],
)
def test_calls_for_few_pairs_stay_within_the_promise(n_pairs, loss, curvature):
    points = np.random.default_rng(1).normal(size=(60, 4))
    calls = []

    def counted(a, b):
        calls.append((a, b))
        return float(np.abs(points[int(a)] - points[int(b)]).sum())

    names = [str(i) for i in range(60)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        neuc_mds(
            names,
            2,
            metric=counted,
            n_pairs=n_pairs,
            loss=loss,
            curvature=curvature,
            max_iter=1,
        )
    assert len(calls) <= 1.15 * 60 * n_pairs / 2


def test_a_curvature_that_is_chosen_is_never_refused():
    # Eight of its objects are scouts, which may be nearer to each other than the farthest two.
    tree = nx.random_labeled_tree(60, seed=1)
    hops = nx.floyd_warshall_numpy(tree)
    names = [str(i) for i in range(60)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        embedding = neuc_mds(
            names,
            1,
            metric=lambda a, b: hops[int(a), int(b)],
            n_pairs=30,
            loss="relative",
            curvature="auto",
            max_iter=3,
        )
    assert embedding.curvature < 0


def test_the_rounding_of_float32_between_an_object_and_itself_passes():
    def rounded(a, b):
        return 2.4e-7 if a == b else 0.9 + cityblock(a, b)

    assert neuc_mds(WORDS, 2, metric=rounded).n == 20
    with pytest.raises(InputError, match=r"itself 0\.01, not 0"):
        neuc_mds(WORDS, 2, metric=lambda a, b: 0.01 + cityblock(a, b))


def test_lengths_by_the_documented_default_come_without_a_warning():
    graph = nx.cycle_graph(8)
    nx.set_edge_attributes(graph, 2.0, "length")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        embedding = neuc_mds(graph, 2, metric="shortest_path")
    assert embedding.n == 8
    graph[0][1].pop("length")
    with pytest.warns(UserWarning, match="1 of 8 edges have no 'length'"):
        neuc_mds(graph, 2, metric="shortest_path")


def test_the_callback_hears_what_the_choice_of_a_curvature_costs():
    texts = []
    neuc_mds(
        D,
        2,
        loss="relative",
        curvature="auto",
        n_init=1,
        callback=lambda step, total, what: texts.append(str(what)),
    )
    assert any("as long as two fits" in text for text in texts)
