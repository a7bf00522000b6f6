"""Against the real packages."""

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import pdist, squareform

from neucmds import InputError, neuc_mds
from neucmds.errors import NeucmdsWarning

NAMES = [f"site{i}" for i in range(30)]


@pytest.fixture(scope="module")
def D():
    return squareform(
        pdist(np.random.default_rng(0).normal(size=(30, 6)), "cityblock")
    )


@pytest.fixture(scope="module")
def emb(D):
    return neuc_mds(pd.DataFrame(D, NAMES, NAMES), (4, 2), "neuc")


def test_a_frame_has_names_and_signs(emb):
    frame = emb.to_frame()
    assert list(frame.index) == NAMES
    signs = ["_neg" if sign < 0 else "" for sign in emb.signs]
    assert list(frame.columns) == [
        f"axis{a}{sign}" for a, sign in enumerate(signs, 1)
    ]
    np.testing.assert_array_equal(frame.to_numpy(), emb.coordinates)


def test_scikit_bio_takes_the_ordination_and_is_told_of_negative_axes(
    emb, tmp_path
):
    skbio = pytest.importorskip("skbio")
    with pytest.warns(UserWarning, match="2 of 6 axes are negative"):
        results = emb.to_skbio()
    assert isinstance(results, skbio.OrdinationResults)
    results.write(str(tmp_path / "ordination.txt"))
    again = skbio.OrdinationResults.read(str(tmp_path / "ordination.txt"))
    np.testing.assert_allclose(again.samples.to_numpy(), emb.coordinates)
    assert list(again.samples.index) == NAMES


@pytest.mark.filterwarnings("ignore:.*negative eigenvalues", "ignore:EIGH")
def test_shares_of_classical_scaling_are_scikit_bios_and_other_methods_have_none(
    D,
):
    skbio = pytest.importorskip("skbio")
    emb, dm = neuc_mds(D, 4, "classical"), skbio.DistanceMatrix(D)
    for name, dimensions in (("trace", 4), ("positive", 0)):
        theirs = skbio.stats.ordination.pcoa(
            dm, dimensions=dimensions
        ).proportion_explained
        np.testing.assert_allclose(
            emb.shares[name], theirs.to_numpy()[:4], rtol=1e-9
        )
    np.testing.assert_array_equal(
        emb.to_skbio().proportion_explained, emb.shares["trace"]
    )
    assert sum(neuc_mds(D, 29, "neuc").shares["trace"]) == pytest.approx(1.0)
    for method in ("lower", "exact", "refined"):
        free = neuc_mds(D, (4, 0), method)
        assert not free.shares
        assert free.to_skbio().proportion_explained is None


def paths_of(graph, k, **params):
    """Lengths of the paths from the first node, of a graph that k coordinates hold."""
    emb = neuc_mds(
        graph, k, "classical", metric="shortest_path", metric_params=params
    )
    return emb.dissimilarities()[0].tolist()


def test_networkx_graphs_have_distances_of_named_nodes():
    networkx = pytest.importorskip("networkx")
    graph = networkx.grid_2d_graph(4, 5)
    lengths = dict(networkx.all_pairs_shortest_path_length(graph))
    nodes = list(graph.nodes)
    d = np.array([[lengths[a][b] for b in nodes] for a in nodes], dtype=float)
    found = neuc_mds(graph, 2, metric="shortest_path")
    assert found.stress == pytest.approx(neuc_mds(d, 2).stress)
    assert found.labels[0] == str(nodes[0])
    graph.add_node("island")
    with pytest.raises(InputError, match="2 parts"):
        neuc_mds(graph, 2, metric="shortest_path")
    one_way = networkx.DiGraph([(0, 1), (1, 2), (2, 0)])
    with pytest.warns(
        NeucmdsWarning, match="^3 of 3 edges are stored in one order alone"
    ):
        assert paths_of(one_way, 2) == pytest.approx([0, 1, 1], abs=1e-7)
    mean = paths_of(one_way, 2, direction="mean")
    assert mean == pytest.approx([0, 1.5, 1.5], abs=1e-7)


def test_lengths_of_networkx_edges_are_weights_else_lengths_else_one():
    networkx = pytest.importorskip("networkx")
    graph = networkx.MultiGraph([(0, 1, {"weight": 5}), (0, 1, {"weight": 7})])
    assert paths_of(graph, 1) == pytest.approx([0, 5])
    graph.add_edges_from([(1, 2, {"length": 3.0}), (2, 3, {})])
    with pytest.warns(
        NeucmdsWarning,
        match="2 of 4 edges have no 'weight', and count as 1;",
    ):
        assert paths_of(graph, 1) == pytest.approx([0, 5, 6, 7], abs=1e-6)
    unit = paths_of(graph, 1, weight=None)
    assert unit == pytest.approx([0, 1, 2, 3], abs=1e-6)
    graph = networkx.Graph([(0, 1, {"cost": 5})])
    with pytest.warns(
        NeucmdsWarning,
        match="1 of 1 edges .* count as 1; 'weight' .* must be one of 'cost'",
    ):
        paths_of(graph, 1)
    assert paths_of(graph, 1, weight="cost") == pytest.approx([0, 5])
    for how, said in (
        ("time", "'time'.*must be one of 'cost', or None"),
        ("cost", ".*'far'"),
    ):
        with pytest.raises(InputError, match=said):
            paths_of(networkx.Graph([(0, 1, {"cost": "far"})]), 1, weight=how)
