"""Scorers tell how well new objects find their neighbours, and how far distances are off."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist, pdist, squareform
from sklearn.model_selection import GridSearchCV

from neucmds import LandmarkNeucMDS, NeucIsomap, NeucMDS
from neucmds.estimators import neg_relative_error, recall_at_10


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).lognormal(size=(120, 6))


def _absolute_differences(a, b):
    return float(np.abs(a - b).sum())


@pytest.mark.parametrize("metric", ["cityblock", _absolute_differences])
@pytest.mark.parametrize("kind", [NeucMDS, LandmarkNeucMDS])
def test_scores_are_those_of_brute_force(rows, metric, kind):
    est = kind(3, metric=metric).fit(rows[:90])
    fitted = rows[:90]
    if kind is LandmarkNeucMDS:
        fitted = fitted[est.landmarks_]
    new = rows[90:]
    d = cdist(new, fitted, "cityblock")
    model = est.landmark_result_ if kind is LandmarkNeucMDS else est.result_
    placed = est.transform(new)
    sq = ((placed[:, None] - model.coordinates) ** 2) @ model.signs
    d_hat = np.sqrt(np.maximum(sq, 0))
    shares = [
        np.isin(np.argsort(b)[:10], np.argsort(a)[:10]).mean()
        for a, b in zip(d, d_hat, strict=True)
    ]
    assert recall_at_10(est, new) == pytest.approx(np.mean(shares))
    error = np.abs(d_hat / d - 1).mean()
    assert neg_relative_error(est, new) == pytest.approx(-error)


def test_a_search_over_losses_picks_what_the_scorer_asks_for(rows):
    losses = [
        {"loss": ["squared"]},
        {"loss": ["distance", "relative"], "n_init": [2]},
    ]
    d = squareform(pdist(rows, "cityblock"))

    def chosen(scoring):
        search = GridSearchCV(NeucMDS(2), losses, cv=3, scoring=scoring)
        return search.fit(d).best_params_["loss"]

    assert chosen(None) == "squared"
    assert chosen(neg_relative_error) != "squared"


def test_nodes_of_a_graph_and_neighbours_have_scores(rows):
    est = NeucIsomap(3).fit(rows[:90])
    assert 0.3 < recall_at_10(est, rows[90:]) <= 1
    path = np.diag(np.ones(59), 1)
    graph = path + path.T
    nodes = LandmarkNeucMDS(2, 40, n_near=6, metric="shortest_path")
    nodes.fit(csr_array(graph))
    assert recall_at_10(nodes, np.arange(60)) > 0.8
    assert -0.05 < neg_relative_error(nodes, np.arange(60)) <= 0
