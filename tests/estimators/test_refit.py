"""A fitted estimator changes by a fit that succeeds, and by nothing else."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from neucmds import InputError, LandmarkNeucMDS, NeucIsomap, NeucMDS

X = np.random.default_rng(0).normal(size=(60, 3))
ESTIMATORS = [
    NeucMDS(2, metric="cityblock"),
    NeucMDS(2, metric="cityblock", n_pairs=30),
    LandmarkNeucMDS(2, 15, metric="cityblock"),
    NeucIsomap(2, 8),
]


def ids_of(est):
    return {name: id(value) for name, value in vars(est).items()}


@pytest.mark.parametrize("refused", [{"n_components": -1}, {"loss": "none"}])
@pytest.mark.parametrize("est", ESTIMATORS, ids=str)
def test_a_refused_fit_leaves_the_last_one_as_it_was(est, refused):
    est, table = clone(est), pd.DataFrame(X, columns=list("abc"))
    expected = est.fit(table).transform(table[:5])
    usual = {name: getattr(est, name) for name in refused}
    est.set_params(**refused)
    before = ids_of(est)
    with pytest.raises(InputError, match=next(iter(refused))):
        est.fit(-table[["c", "b", "a"]])
    assert ids_of(est) == before
    np.testing.assert_array_equal(
        est.set_params(**usual).transform(table[:5]), expected
    )


@pytest.mark.parametrize("kind", [NeucMDS, LandmarkNeucMDS])
def test_an_interrupted_fit_leaves_the_last_one_as_it_was(kind):
    def interrupt(step, total, what):
        raise KeyboardInterrupt

    est = kind(2, metric="cityblock").fit(X).set_params(callback=interrupt)
    before = ids_of(est)
    with pytest.raises(KeyboardInterrupt):
        est.fit(X[:, :2])
    assert ids_of(est) == before


@pytest.mark.parametrize("est", ESTIMATORS, ids=str)
def test_neither_x_nor_parameters_reach_a_fitted_model(est):
    est, given = clone(est), X.copy()
    expected = est.fit(given).transform(X[:5])
    given[:] = 0.0
    others = {
        "metric": "precomputed",
        "squared": True,
        "missing": "ignore",
        "loss": "relative",
    }
    est.set_params(
        **{name: others[name] for name in others if name in est.get_params()}
    )
    np.testing.assert_array_equal(est.transform(X[:5]), expected)


@pytest.mark.parametrize("kind", [NeucMDS, LandmarkNeucMDS, NeucIsomap])
@pytest.mark.parametrize("other", ["precomputed", "shortest_path", max])
def test_a_metric_set_after_fit_waits_for_the_next_fit(kind, other):
    x = np.random.default_rng(0).normal(size=(40, 3))
    est = kind(2, metric="cityblock").fit(x)
    expected = est.transform(x[:5])
    est.set_params(metric=other)
    np.testing.assert_array_equal(est.transform(x[:5]), expected)
    assert est.score(x[:5]) > 0.5
