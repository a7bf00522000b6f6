"""Against the real packages."""

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import pdist, squareform

from neucmds import InputError, neuc_mds
from neucmds.errors import NeucmdsWarning
from neucmds.interop import from_anndata, from_networkx, to_anndata

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


@pytest.mark.slow
def test_anndata_in_and_out(D, emb):
    anndata = pytest.importorskip("anndata")
    adata = anndata.AnnData(np.zeros((30, 2)))
    adata.obs_names = NAMES[::-1]
    adata.obsp["distances"] = D[::-1, ::-1]
    table = from_anndata(adata)
    assert list(table.index) == NAMES[::-1]
    np.testing.assert_allclose(
        neuc_mds(table, (4, 2), "neuc").stress, emb.stress
    )
    to_anndata(emb, adata)
    np.testing.assert_array_equal(
        adata.obsm["X_neucmds"], emb.coordinates[::-1]
    )
    np.testing.assert_array_equal(adata.uns["X_neucmds"]["signs"], emb.signs)


def test_networkx_graphs_become_named_distances():
    networkx = pytest.importorskip("networkx")
    graph = networkx.grid_2d_graph(4, 5)
    table = from_networkx(graph)
    lengths = dict(networkx.all_pairs_shortest_path_length(graph))
    nodes = list(graph.nodes)
    assert all(
        table.iloc[i, j] == lengths[a][b]
        for i, a in enumerate(nodes)
        for j, b in enumerate(nodes)
    )
    paths = neuc_mds(graph, 2, metric="shortest_path")
    assert paths.stress == pytest.approx(neuc_mds(table, 2).stress)
    graph.add_node("island")
    with pytest.raises(InputError, match="2 parts"):
        from_networkx(graph)
    one_way = networkx.DiGraph([(0, 1), (1, 2), (2, 0)])
    with pytest.warns(
        NeucmdsWarning, match="^3 of 3 edges are stored in one order alone"
    ):
        assert from_networkx(one_way).to_numpy().max() == 1
    assert from_networkx(one_way, direction="mean").to_numpy().max() == 1.5


def test_lengths_of_networkx_edges_are_weights_else_lengths_else_one():
    networkx = pytest.importorskip("networkx")
    graph = networkx.MultiGraph([(0, 1, {"weight": 5}), (0, 1, {"weight": 7})])
    assert from_networkx(graph).loc["0", "1"] == 5
    graph.add_edges_from([(1, 2, {"length": 3.0}), (2, 3, {})])
    with pytest.warns(
        NeucmdsWarning,
        match="2 of 4 edges .* count by their 'length', else as 1;",
    ):
        assert from_networkx(graph).loc["0"].tolist() == [0, 5, 8, 9]
    assert from_networkx(graph, None).loc["0"].tolist() == [0, 1, 2, 3]
    graph = networkx.Graph([(0, 1, {"cost": 5})])
    with pytest.warns(
        NeucmdsWarning,
        match="1 of 1 edges .* else as 1; weight .* must be one of 'cost'",
    ):
        from_networkx(graph)
    assert from_networkx(graph, "cost").loc["0", "1"] == 5
    for how, said in (
        ("time", "'time'.*must be one of 'cost', or None"),
        ("cost", ".*'far'"),
    ):
        with pytest.raises(InputError, match=said):
            from_networkx(networkx.Graph([(0, 1, {"cost": "far"})]), how)
