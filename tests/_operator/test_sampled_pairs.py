"""Samples of pairs of features: what they hold and what they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits

from neucmds import LandmarkNeucMDS, NeucMDS
from neucmds._input.pairs import make_pairs
from neucmds._methods.geometry import sq_dissimilarities
from neucmds._methods.refined.descent import Limits, Start
from neucmds._methods.refined.listed_pairs import refine_pairs
from neucmds._operator import neighbor_search
from neucmds._operator.metric_registry import FittedMetric
from neucmds._operator.sampled_pairs import Sizes, feature_pairs
from neucmds.errors import InputError


@pytest.fixture(scope="module")
def features():
    return np.random.default_rng(0).standard_normal((600, 5))


def test_sampled_pairs_have_the_dissimilarities_of_the_metric(features):
    sample = feature_pairs(features, "cityblock", n_pairs=60, random_state=0)
    d, pairs = cdist(features, features, "cityblock"), sample.pairs
    np.testing.assert_allclose(np.sqrt(pairs.sq_dissimilarity), d[pairs.i, pairs.j], rtol=1e-9)
    np.testing.assert_allclose(sample.to_landmarks, d[:, sample.landmarks], rtol=1e-9)
    assert pairs.sampled


@pytest.mark.parametrize("metric", ["angular", "balls", "hyperbolic", "rbf"])
def test_metrics_that_scikit_learn_does_not_know_compare_all_rows(features, metric):
    x = np.abs(features) / 20
    pairs = feature_pairs(x, metric, n_pairs=60, random_state=0).pairs
    d = FittedMetric.of(metric, x).among()
    np.testing.assert_allclose(np.sqrt(pairs.sq_dissimilarity), d[pairs.i, pairs.j], atol=1e-7)
    listed = set(zip(pairs.i.tolist(), pairs.j.tolist(), strict=True))
    for i, row in enumerate(np.sort(d, axis=1)[:, 1:4]):
        near = np.flatnonzero(d[i] <= row[-1] - 1e-7)
        assert all((min(i, j), max(i, j)) in listed for j in near.tolist() if j != i)


@pytest.mark.parametrize("n_pairs", [40, 80, 160])
def test_an_object_is_in_about_as_many_pairs_as_asked_for(features, n_pairs):
    pairs = feature_pairs(features, n_pairs=n_pairs, random_state=0).pairs
    assert 2 * pairs.size / pairs.n == pytest.approx(n_pairs, rel=0.25)


@pytest.mark.slow
def test_weights_make_the_sample_stand_for_all_pairs(features):
    upper = np.triu_indices(len(features), 1)
    d = cdist(features, features)[upper]
    for measure in (np.ones_like, np.copy, lambda d: np.minimum(d, 1.0)):
        estimates = []
        for seed in range(12):
            pairs = feature_pairs(features, n_pairs=60, random_state=seed).pairs
            estimates.append(float(pairs.weight @ measure(np.sqrt(pairs.sq_dissimilarity))))
        assert np.mean(estimates) == pytest.approx(measure(d).sum(), rel=0.04)


def test_every_pair_of_nearest_objects_is_listed_with_weight_one(features):
    sizes = Sizes.of(60, len(features))
    pairs = feature_pairs(features, n_pairs=60, random_state=0).pairs
    weight = {
        (i, j): w
        for i, j, w in zip(*map(np.ndarray.tolist, (pairs.i, pairs.j, pairs.weight)), strict=True)
    }
    near = np.argsort(cdist(features, features), axis=1)[:, 1 : sizes.n_near + 1]
    for i, row in enumerate(near.tolist()):
        assert all(weight[min(i, j), max(i, j)] == 1.0 for j in row)


def test_unknown_metrics_and_too_few_pairs_are_refused(features):
    with pytest.raises(InputError, match="metric='nonsense' has no nearest neighbours"):
        feature_pairs(features, "nonsense", n_pairs=50)
    for few in (5, 0, 60.5, "60", True):
        with pytest.raises(InputError, match=r"n_pairs=.* must be a whole number of at least 10"):
            feature_pairs(features, n_pairs=few)


def kept(coordinates, signs, d):
    """Share of the ten nearest that are among the ten nearest by D̂."""
    own = np.diag(np.full(len(d), np.inf))
    d_hat, d = sq_dissimilarities(coordinates, coordinates, signs) + own, d + own
    tenth = np.sort(d, axis=1)[:, 9]
    found = np.argsort(d_hat, axis=1)[:, :10]
    return float(np.mean(np.take_along_axis(d, found, axis=1) <= tenth[:, None]))


@pytest.mark.slow
def test_a_quarter_of_the_pairs_keeps_the_neighbours_that_all_pairs_keep():
    x = load_digits().data[:800]
    d = cdist(x, x, "cityblock")
    sample = feature_pairs(x, "cityblock", n_pairs=200, random_state=0)
    placed = LandmarkNeucMDS(16, metric="precomputed", landmarks=sample.landmarks, random_state=0)
    start, signs = placed.fit_transform(sample.to_landmarks), placed.signature_
    upper = np.triu_indices(800, 1)
    all_pairs = make_pairs(800, *upper, d[upper])
    ends = [
        refine_pairs(pairs, Start(start, signs), Limits(60, 2e-3)).coordinates
        for pairs in (sample.pairs, all_pairs)
    ]
    sampled, full = (kept(end, signs, d) for end in ends)
    assert sampled >= full - 0.02
    assert sampled > kept(start, signs, d)


def test_cityblock_is_a_metric_of_pynndescent():
    pytest.importorskip("pynndescent")
    # By its own name it is not, and 100,000 rows were all compared with all.
    assert neighbor_search._descent("cityblock") is not None
    assert neighbor_search._descent("no such metric") is None


def test_rows_that_the_metric_is_not_defined_for_are_named():
    x = np.abs(np.random.default_rng(0).normal(size=(62, 6)))
    x[60:] = 0.0
    with pytest.raises(InputError, match=r"NaN or infinity, first for objects 6[01] and 6[01]"):
        NeucMDS(2, metric="braycurtis", n_pairs=200, random_state=0).fit(x)


def test_too_few_pairs_for_the_coordinates_are_refused_as_such():
    x = np.abs(np.random.default_rng(0).normal(size=(62, 6)))
    with pytest.raises(InputError, match="n_pairs=20 are too few for 8 coordinates; pass 128"):
        NeucMDS(8, metric="cityblock", n_pairs=20).fit(x)
