"""Figures of a sample of pairs are those of all pairs, or say that they are not known."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial.distance import pdist, squareform

from neucmds import evaluate, neuc_mds


def r2_of_both_orders(emb, lengths):
    off = ~np.eye(emb.n, dtype=bool)
    fitted = emb.dissimilarities(squared=True)[off]
    given = lengths[off] ** 2
    return 1 - np.mean((fitted - given) ** 2) / np.var(given)


@pytest.mark.filterwarnings("ignore::neucmds.errors.NeucmdsWarning")
def test_the_r2_of_outward_paths_is_that_of_both_orders():
    n = 300
    rng = np.random.default_rng(0)
    node = np.arange(n)
    # A ring of one-way streets, with shortcuts.
    i = np.concatenate([node, rng.integers(n, size=n)])
    j = np.concatenate([(node + 1) % n, rng.integers(n, size=n)])
    graph = csr_array((rng.uniform(1, 3, 2 * n), (i, j)), shape=(n, n))
    emb = neuc_mds(
        graph,
        4,
        metric="shortest_path",
        metric_params={"direction": "out"},
        n_pairs=100,
    )
    true = r2_of_both_orders(emb, dijkstra(graph))
    error = emb.info.r2_standard_error
    assert abs(emb.r2 - true) < 2.5 * error < 0.2


@pytest.mark.filterwarnings("ignore::neucmds.errors.OverfitWarning")
def test_heavy_tails_have_no_standard_error():
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = rng.standard_cauchy(size=(600, 5))
        emb = neuc_mds(x, 2, metric="cityblock", n_pairs=40, random_state=seed)
        true = evaluate(emb, squareform(pdist(x, "cityblock")))
        error = emb.info.r2_standard_error
        is_known = np.isfinite(error)
        assert not is_known or abs(emb.r2 - true.r2) < 4 * error
        assert is_known or "no standard error is known" in repr(emb)
