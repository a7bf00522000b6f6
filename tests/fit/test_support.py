"""The table of what goes with what: every cell is tried, and the guide prints it."""

from __future__ import annotations

import warnings
from unittest.mock import Mock

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from neucmds import (
    InputError,
    LandmarkNeucMDS,
    NeucIsomap,
    NeucMDS,
    neuc_mds,
)
from neucmds.errors import rendered
from neucmds.options import INPUTS, OPTIONS, TABLE
from neucmds.spectrum.operators.features import FeatureGram

SIDE, N = 6, 36
X = np.random.default_rng(0).normal(size=(N, 3))
D = np.abs(X[:, None] - X).sum(axis=2)
PATH = sp.diags_array([np.ones(SIDE - 1), np.ones(SIDE - 1)], offsets=[-1, 1])
GRID = (
    sp.kron(PATH, sp.eye_array(SIDE)) + sp.kron(sp.eye_array(SIDE), PATH)
).tocsr()
WEIGHTS = 1 + (np.add.outer(np.arange(N), np.arange(N)) % 2)
# Whether an option has an effect does not take a good fit.
QUICK = {"n_components": 1, "tol": 0.1, "n_init": 1}
# Results without an option: several options share one.
WITHOUT = {}
RING = np.arange(N)
# Options that need dissimilarities with another value in the other order.
ONE_WAY = ("symmetrize", "directed")
# A D of 36 objects takes 15,552 bytes.
LITTLE_MEMORY = 9_500


def given(kind, folder, monkeypatch):
    """Return an input of a kind, and the parameters that make it one."""
    np.save(folder / "d.npy", D)
    if kind == "file":
        monkeypatch.setattr(
            "neucmds.backend.memory.available_memory", lambda: LITTLE_MEMORY
        )
        return folder / "d.npy", {}
    if kind == "large graph":
        monkeypatch.setattr(
            "neucmds.options.available_memory", lambda: LITTLE_MEMORY
        )
    if kind == "dask":
        return pytest.importorskip("dask.array").from_array(D, chunks=N), {}
    return {
        "matrix": (D, {}),
        "operator": (FeatureGram(X, "cityblock"), {}),
        "pairs": (sp.csr_array(D), {}),
        "features": (X, {"metric": "cityblock"}),
        "sampled": (X, {"metric": "cityblock", "n_pairs": 24}),
        "graph": (GRID, {"metric": "shortest_path"}),
        "large graph": (GRID, {"metric": "shortest_path"}),
        "landmarks": (D, {"landmarks": 20}),
    }[kind]


def asked_for(name):
    return {
        "method": {"method": "neuc+"},
        "loss": {"loss": "relative"},
        "ordinal": {"loss": "ordinal"},
        "curvature": {"curvature": -1.0, "loss": "relative"},
        "n_components": {"n_components": 0.9},
        "weights": {"weights": WEIGHTS},
        "missing": {"missing": "ignore"},
        "init": {"init": (X[:, :2], np.ones(2))},
        "floor": {"floor": 1.0, "loss": "relative"},
        "n_init": {"n_init": 4, "loss": "distance"},
        "squared": {"squared": True},
        "symmetrize": {"symmetrize": True},
        "directed": {"directed": True},
        "heights": {
            "heights": True,
            "loss": "relative",
            "n_components": 2,
        },
        "n_pairs": {"n_pairs": 24},
    }[name]


def faulty_metric(name):
    """Return a function that can be fitted with the option `name` alone."""

    def metric(x, y):
        length = np.abs(x - y).sum()
        if name in ONE_WAY:
            return length * (1 + (x[0] < y[0]))
        if {x[0], y[0]} == {X[0, 0], X[1, 0]}:
            return np.nan
        return length

    return metric


def with_fault(data, parameters, name):
    """Return an input that can be fitted with the option `name` alone, if it is of that kind."""
    if name not in ("missing", *ONE_WAY):
        return data, parameters
    if parameters.get("metric") == "shortest_path":
        # Of one-way edges a ring keeps all nodes within reach.
        ring = sp.csr_array((np.ones(N), (RING, (RING + 1) % N)), (N, N))
        return ring, parameters
    if "metric" in parameters:
        return data, parameters | {"metric": faulty_metric(name)}
    dense = data.toarray() if sp.issparse(data) else data.copy()
    if name in ONE_WAY:
        dense += np.triu(dense)
    else:
        dense[0, 1] = dense[1, 0] = np.nan
    if sp.issparse(data):
        return sp.csr_array(dense), parameters
    return dense, parameters


def by_function(data, options):
    return neuc_mds(data, **options)


def by_estimator(data, options):
    rest = dict(options)
    weights = rest.pop("weights", None)
    if "landmarks" not in rest:
        return NeucMDS(**rest).fit(data, weights=weights).result_
    rest["n_landmarks"] = rest.pop("landmarks")
    return LandmarkNeucMDS(**rest).fit(data).result_


def is_of_estimator(options):
    if "landmarks" in options:
        return options.keys() <= {
            *LandmarkNeucMDS().get_params(),
            "landmarks",
        }
    return options.keys() <= {*NeucMDS().get_params(), "weights"}


def outcome(fit, data, options):
    """Return coordinates, or the refusal in words."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return np.asarray(fit(data, options).coordinates)
        except InputError as error:
            return str(error)


def has_effect(fit, kind, data, options, name):
    """Tell whether the result differs from the one without the option, or from its refusal."""
    if name == "ordinal":
        name = "loss"
    rest = {key: value for key, value in options.items() if key != name}
    rest = {"n_components": 1, "n_init": 1} | rest
    faulty = name in ("missing", *ONE_WAY)
    case = (fit, kind, faulty and name, repr(sorted(rest.items())))
    if case not in WITHOUT:
        WITHOUT[case] = outcome(fit, data, rest)
    without = WITHOUT[case]
    coordinates = outcome(fit, data, options)
    assert not isinstance(coordinates, str), coordinates
    return isinstance(without, str) or not np.array_equal(without, coordinates)


@pytest.mark.parametrize("fit", [by_function, by_estimator])
@pytest.mark.parametrize("kind", [*INPUTS, "file"])
@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_changes_the_result_or_is_refused(
    kind, name, fit, tmp_path, monkeypatch
):
    data, parameters = given(kind, tmp_path, monkeypatch)
    row = TABLE["dask" if kind == "file" else kind]
    # A floor and several starts are of losses other than the squared one.
    reasons = [row.get(name)]
    if name in ("floor", "n_init", "ordinal", "heights"):
        reasons.append(row.get("loss"))
    reasons = [rendered(why) for why in reasons if why is not None]
    if not reasons:
        data, parameters = with_fault(data, parameters, name)
    options = QUICK | parameters | asked_for(name)
    if fit is by_estimator and not is_of_estimator(options):
        pytest.skip("the estimator has no such parameter")
    if not reasons:
        assert has_effect(fit, kind, data, options, name)
        return
    refusal = outcome(fit, data, options)
    assert isinstance(refusal, str)
    assert any(why in refusal for why in reasons)


IN_MEMORY = [kind for kind in INPUTS if kind not in ("dask", "operator")]
# What a parameter outside the table takes to have an effect.
OTHERS = {
    "landmarks": {"landmarks": 20},
    "metric_params": {"metric_params": {"p": 3}},
    "random_state": {
        "random_state": 1,
        "loss": "distance",
        "tol": None,
        "n_init": 3,
    },
    "tol": {"tol": 1e-9},
    "max_iter": {"max_iter": 1},
}
REFUSING = {
    "metric_params": ("matrix", "pairs", "graph", "large graph", "landmarks"),
    "landmarks": ("pairs", "sampled"),
}


@pytest.mark.parametrize("kind", IN_MEMORY)
@pytest.mark.parametrize("name", OTHERS)
def test_every_other_parameter_changes_the_result_or_is_refused(
    kind, name, tmp_path, monkeypatch
):
    data, parameters = given(kind, tmp_path, monkeypatch)
    options = QUICK | parameters | OTHERS[name]
    if name == "metric_params" and options.get("metric") == "cityblock":
        options["metric"] = "minkowski"
    if "n_init" in options and "n_init" in TABLE[kind]:
        del options["n_init"]
    if kind in REFUSING.get(name, ()):
        refusal = outcome(by_function, data, options)
        assert isinstance(refusal, str)
        assert name in refusal
    else:
        assert has_effect(by_function, kind, data, options, name)


OF_ESTIMATORS = [
    (LandmarkNeucMDS(2, 15), {"n_landmarks": 20}),
    (LandmarkNeucMDS(2, 15), {"landmarks": "maxmin"}),
    (LandmarkNeucMDS(2, 15), {"placement": "linear"}),
    (LandmarkNeucMDS(2, 15), {"random_state": 1}),
    (LandmarkNeucMDS(1, 30, loss="relative"), {"n_near": 12}),
    (NeucIsomap(2), {"n_neighbors": 9}),
    (NeucIsomap(2), {"metric": "cityblock"}),
    (NeucIsomap(2, metric="minkowski"), {"metric_params": {"p": 1}}),
    (NeucIsomap(2), {"method": "classical"}),
    (NeucIsomap(2), {"loss": "distance"}),
    (NeucIsomap(2, loss="relative", n_init=1), {"curvature": -1.0}),
    (NeucIsomap(2, loss="relative", n_init=1), {"heights": True}),
    (NeucIsomap(2, loss="relative", n_init=1), {"floor": 2.0}),
    (NeucMDS(2, loss="ordinal", n_init=2), {"ties": "secondary"}),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("estimator", "parameters"), OF_ESTIMATORS, ids=str)
def test_parameters_of_estimators_change_the_result(estimator, parameters):
    X_rounded = X.round(1)
    if estimator.metric == "precomputed":
        estimator = clone(estimator).set_params(metric="cityblock")
    without = estimator.fit_transform(X_rounded)
    changed = clone(estimator).set_params(**parameters)
    assert not np.array_equal(changed.fit_transform(X_rounded), without)


def test_a_callback_is_called_for_every_kind_of_input(tmp_path, monkeypatch):
    for kind in IN_MEMORY:
        data, parameters = given(kind, tmp_path, monkeypatch)
        callback = Mock(spec=outcome)
        outcome(by_function, data, QUICK | parameters | {"callback": callback})
        assert callback.called, kind


@pytest.mark.parametrize("name", TABLE["closed form"])
def test_closed_forms_refuse_what_needs_a_descent(name, tmp_path):
    gaps = np.where(WEIGHTS - 1 + np.eye(N) > 0, D, np.nan)
    with pytest.raises(InputError, match=r"method='refined'|loss='relative'"):
        neuc_mds(
            gaps if name == "missing" else D,
            method="neuc+",
            **asked_for(name),
        )
