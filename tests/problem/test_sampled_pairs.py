"""Samples of pairs of features: what they hold and what they stand for."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone

from neucmds import NeucMDS
from neucmds.backend import memory
from neucmds.errors import InputError
from neucmds.problem import neighbor_search
from neucmds.problem.metrics import Metric
from neucmds.problem.sampled_pairs import called_pairs, feature_pairs


def sampled(features, metric="euclidean", n_pairs=60, seed=0, loss="relative"):
    return feature_pairs(
        features, metric, n_pairs, loss, n_landmarks=10, random_state=seed
    )


@pytest.fixture(scope="module")
def features():
    return np.random.default_rng(0).standard_normal((400, 5))


def test_sampled_pairs_have_the_dissimilarities_of_the_metric(features):
    sample = sampled(features, "cityblock")
    d, pairs = cdist(features, features, "cityblock"), sample.pairs
    np.testing.assert_allclose(
        np.sqrt(pairs.sq_dissimilarity), d[pairs.i, pairs.j], rtol=1e-9
    )
    np.testing.assert_allclose(
        sample.to_landmarks, d[:, sample.landmarks], rtol=1e-9
    )
    assert pairs.sampled


@pytest.mark.parametrize("metric", ["angular", "balls", "hyperbolic", "rbf"])
def test_metrics_that_scikit_learn_does_not_know_compare_all_rows(
    features, metric
):
    x = np.abs(features) / 20
    pairs = sampled(x, metric).pairs
    d = Metric.of(metric).fitted_to(x).among()
    np.testing.assert_allclose(
        np.sqrt(pairs.sq_dissimilarity), d[pairs.i, pairs.j], atol=1e-7
    )
    listed = set(zip(pairs.i.tolist(), pairs.j.tolist(), strict=True))
    for i, row in enumerate(np.sort(d, axis=1)[:, 1:4]):
        near = np.flatnonzero(d[i] <= row[-1] - 1e-7)
        assert all(
            (min(i, j), max(i, j)) in listed for j in near.tolist() if j != i
        )


@pytest.mark.slow
def test_weights_make_the_sample_stand_for_all_pairs(features):
    upper = np.triu_indices(len(features), 1)
    d = cdist(features, features)[upper]
    for measure in (np.ones_like, np.copy, lambda d: np.minimum(d, 1.0)):
        estimates = []
        for seed in range(12):
            pairs = sampled(features, seed=seed).pairs
            estimates.append(
                float(pairs.weight @ measure(np.sqrt(pairs.sq_dissimilarity)))
            )
        assert np.mean(estimates) == pytest.approx(measure(d).sum(), rel=0.04)


def test_every_pair_of_nearest_objects_is_listed_with_weight_one(features):
    pairs = sampled(features).pairs
    weight = {
        (i, j): w
        for i, j, w in zip(
            *map(np.ndarray.tolist, (pairs.i, pairs.j, pairs.weight)),
            strict=True,
        )
    }
    # 12 % of 60.
    near = np.argsort(cdist(features, features), axis=1)[:, 1:8]
    for i, row in enumerate(near.tolist()):
        assert all(weight[min(i, j), max(i, j)] == 1.0 for j in row)


def test_every_object_has_far_partners_of_its_own(features):
    pairs = sampled(features, n_pairs=60, loss="squared").pairs
    assert pairs.degrees.min() >= 30
    assert pairs.degrees.max() < 120  # a landmark of all would have 599


def test_cityblock_is_a_metric_of_pynndescent():
    pytest.importorskip("pynndescent")
    # By its own name it is not, and 100,000 rows were all compared with all.
    assert neighbor_search.descent_on("cityblock") is not None
    assert neighbor_search.descent_on("no such metric") is None


def test_what_cannot_be_sampled_is_refused(features):
    with pytest.raises(
        InputError, match="metric='nonsense' is unknown; known are angular"
    ):
        sampled(features, "nonsense", 50)
    for few in (0, 60.5, "60", True):
        with pytest.raises(
            InputError,
            match=r"n_pairs=.* must be a whole number of at least 1",
        ):
            NeucMDS(2, metric="cityblock", n_pairs=few).fit(features)
    x = np.abs(features[:62])
    with pytest.raises(
        InputError, match="n_pairs=20 are too few for 8 coordinates; pass 256"
    ):
        NeucMDS(8, metric="cityblock", n_pairs=20).fit(x)
    x[60:] = 0.0
    with pytest.raises(
        InputError, match=r"NaN or infinity, first for objects 6[01] and 6[01]"
    ):
        NeucMDS(2, metric="braycurtis", n_pairs=200, random_state=0).fit(x)


def test_undefined_dissimilarities_among_near_pairs_are_refused(features):
    def undefined_near(x, y):
        d = np.abs(x - y).sum()
        return np.nan if 0 < d < 2 else d

    est = NeucMDS(2, metric=undefined_near, n_pairs=60, loss="relative")
    with pytest.raises(InputError, match="gives NaN or infinity, first for"):
        est.fit(features)


def test_features_of_dask_are_fitted_as_those_in_memory(features):
    da = pytest.importorskip("dask.array")
    est = NeucMDS(2, metric="cityblock", n_pairs=60, loss="relative")
    lazy = da.from_array(features, chunks=(150, 2))
    np.testing.assert_array_equal(
        clone(est).fit(lazy).embedding_, est.fit(features).embedding_
    )
    np.testing.assert_array_equal(
        est.transform(lazy[:5]), est.transform(features[:5])
    )


def test_pairs_beyond_the_limit_of_memory_are_refused(features, monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 1_000_000)
    monkeypatch.setattr(memory, "_ALWAYS_THERE", 0)
    with pytest.raises(
        InputError, match=r"8000 pairs of 400 objects .* lower n_pairs=40"
    ):
        NeucMDS(3, metric="cityblock", n_pairs=40).fit(features)


def test_a_function_is_called_for_every_pair_if_calls_suffice(features):
    space = Metric.of(lambda x, y: np.abs(x - y).sum()).fitted_to(
        features[:30]
    )
    sample = called_pairs(space, 60, "squared", n_landmarks=10)
    listed = sorted(zip(sample.pairs.i, sample.pairs.j, strict=True))
    assert listed == list(zip(*np.triu_indices(30, 1), strict=True))


@pytest.mark.slow
def test_a_sample_of_pairs_fits_features_nearly_as_well_as_all(features):
    settings = {"metric": "cityblock", "loss": "relative", "random_state": 0}
    every = NeucMDS(4, n_init=1, **settings).fit(features)
    some = NeucMDS(4, n_pairs=120, **settings).fit(features)
    i, j = np.triu_indices(len(features), 1)
    d = cdist(features, features, "cityblock")[i, j] ** 2
    error = [
        np.mean((est.dissimilarities(squared=True)[i, j] / d - 1) ** 2)
        for est in (every, some)
    ]
    assert error[1] < 2 * error[0]
