"""D as a list of pairs, and graphs, through the public functions."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra
from scipy.spatial.distance import pdist, squareform

from neucmds import InputError, NeucMDS, evaluate, neuc_mds
from neucmds.errors import OverfitWarning


@pytest.fixture(scope="module")
def D():
    return squareform(
        pdist(np.random.default_rng(0).normal(size=(60, 3)), "cityblock")
    )


def some_pairs(D, share, seed=0):
    """A sparse array with a random share of the pairs, in both orders."""
    rng = np.random.default_rng(seed)
    seen = np.triu(rng.random(D.shape) < share, 1)
    return sp.csr_array(np.where(seen | seen.T, D, 0))


@pytest.mark.parametrize("loss", ["squared", "relative"])
def test_half_of_the_pairs_predict_the_others(D, loss):
    known = some_pairs(D, 0.5)
    emb = neuc_mds(known, (3, 1), loss=loss, random_state=0)
    hidden = (known.toarray() == 0) & ~np.eye(60, dtype=bool)
    d_hat = emb.dissimilarities()
    error = np.median(np.abs(d_hat[hidden] / D[hidden] - 1))
    plain = neuc_mds(D, (3, 1), loss=loss, random_state=0)
    full = plain.dissimilarities()
    assert error < 1.5 * np.median(np.abs(full[hidden] / D[hidden] - 1))
    assert emb.info.solver == "pairs"


def lattice(side):
    path = sp.diags_array(
        [np.ones(side - 1), np.ones(side - 1)], offsets=[-1, 1]
    )
    return (
        sp.kron(path, sp.eye_array(side)) + sp.kron(sp.eye_array(side), path)
    ).tocsr()


def test_a_large_graph_is_embedded_from_sampled_pairs():
    graph = lattice(10)
    est = NeucMDS(
        6, metric="shortest_path", loss="relative", n_pairs=60, random_state=0
    )
    est.fit(graph)
    d = dijkstra(graph, directed=False)
    off = ~np.eye(100, dtype=bool)

    def error(emb):
        d_hat = emb.dissimilarities()
        return np.median(np.abs(d_hat[off] / d[off] - 1))

    assert error(est.result_) < 1.25 * error(
        neuc_mds(d, 6, loss="relative", n_init=1)
    )
    assert est.result_.info.solver == "sampled pairs"


@pytest.mark.parametrize("loss", ["squared", "relative"])
def test_a_sampled_fit_reports_what_all_pairs_say(loss):
    x = np.random.default_rng(0).normal(size=(600, 8))
    with pytest.warns(
        OverfitWarning,
        match="loss of held-out pairs .* estimated R² of all pairs",
    ):
        emb = neuc_mds(
            x, 3, metric="cityblock", loss=loss, n_pairs=40, random_state=0
        )
    true = evaluate(emb, squareform(pdist(x, "cityblock")))
    assert (
        abs(emb.stress - true.stress)
        < 3 * emb.info.stress_standard_error
        < 0.3 * true.stress
    )
    assert abs(emb.r2 - true.r2) < 3 * emb.info.r2_standard_error
    assert (
        f"from {emb.info.held_out_pairs} pairs that were not fitted"
        in repr(emb)
    )


@pytest.mark.filterwarnings("ignore::neucmds.errors.OverfitWarning")
@pytest.mark.parametrize("loss", ["distance", "ordinal"])
def test_the_stress1_of_a_sample_has_no_standard_error_of_stress(loss):
    x = np.random.default_rng(0).normal(size=(300, 8))
    emb = neuc_mds(x, 2, metric="cityblock", loss=loss, n_pairs=40)
    assert f", stress-1 {emb.stress1:.4g}; R² {emb.r2:.3f} ± " in repr(emb)


def test_a_sample_of_every_pair_is_reported_exactly(D):
    emb = neuc_mds(D, 3, metric="euclidean", n_pairs=400, random_state=0)
    true = evaluate(emb, squareform(pdist(D)))
    assert emb.stress == pytest.approx(true.stress, rel=1e-6)
    assert (emb.info.r2_standard_error, emb.info.held_out_pairs) == (0.0, 0)


def test_all_paths_are_taken_while_they_fit(monkeypatch):
    paths = {"metric": "shortest_path", "random_state": 0}
    graph = lattice(8)
    assert neuc_mds(graph, 2, **paths).info.solver != "sampled pairs"
    monkeypatch.setattr(
        "neucmds.options.available_memory", lambda: 24 * 64**2 - 1
    )
    assert neuc_mds(graph, 2, **paths).info.solver == "sampled pairs"


def test_all_paths_of_up_to_10_000_nodes_are_taken(monkeypatch):
    monkeypatch.setattr("neucmds.options.available_memory", lambda: 10**12)
    start = np.random.default_rng(0).normal(size=(10201, 2)), np.ones(2)
    with pytest.raises(
        InputError,
        match=r"init needs all shortest paths, .* up to 10,000 nodes",
    ):
        neuc_mds(lattice(101), 2, metric="shortest_path", init=start)


def test_all_pairs_of_what_is_no_metric_end_where_the_matrix_does():
    """Shortest paths made a metric of it, and the negative coordinates were lost."""
    x = np.random.default_rng(1).normal(size=(40, 3))
    D = np.sqrt(((x[:, None] - x[None]) ** 2).sum(-1)) ** 2.5
    whole, listed = neuc_mds(D, 8), neuc_mds(sp.coo_array(D), 8)
    assert listed.signature == whole.signature
    assert listed.stress == pytest.approx(whole.stress, rel=1e-2)


def test_no_coordinate_of_the_signs_asked_for_is_no_coordinate():
    D = np.abs(np.subtract.outer(np.arange(20.0), np.arange(20.0)))
    with pytest.warns(UserWarning, match="0 of 2 coordinates"):
        assert neuc_mds(sp.coo_array(D), (0, 2)).signature == (0, 0)
