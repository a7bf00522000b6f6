"""The table of what goes with what: every cell is tried, and the guide prints it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from neucmds import InputError, neuc_mds
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
# Accepted, and without effect.
IGNORED = {
    ("operator", "squared"),
    ("graph", "missing"),
    ("graph", "symmetrize"),
    ("large graph", "missing"),
    ("large graph", "symmetrize"),
}
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
        return pytest.importorskip("dask.array").from_array(D, chunks=18), {}
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
        "loss": {"loss": "relative", "n_init": 1},
        "curvature": {"curvature": -1.0, "loss": "relative", "n_init": 1},
        "n_components": {"n_components": 0.5},
        "weights": {"weights": WEIGHTS},
        "missing": {"missing": "ignore"},
        "init": {"init": (X[:, :2], np.ones(2))},
        "floor": {"floor": 0.1, "loss": "relative", "n_init": 1},
        "n_init": {"n_init": 2, "loss": "distance"},
        "squared": {"squared": True},
        "symmetrize": {"symmetrize": True},
        "n_pairs": {"n_pairs": 24},
    }[name]


@pytest.mark.parametrize("kind", [*INPUTS, "file"])
@pytest.mark.parametrize("name", OPTIONS)
def test_every_cell_says_what_happens(kind, name, tmp_path, monkeypatch):
    data, parameters = given(kind, tmp_path, monkeypatch)
    kind = "dask" if kind == "file" else kind
    plain = {"n_components": 2, "random_state": 0} | parameters
    options = plain | asked_for(name)
    # A floor and several starts are of losses other than the squared one.
    reasons = [TABLE[kind].get(name)]
    if name in ("floor", "n_init"):
        reasons.append(TABLE[kind].get("loss"))
    reasons = [why for why in reasons if why is not None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if reasons:
            with pytest.raises(InputError) as caught:
                neuc_mds(data, **options)
            assert any(rendered(why) in str(caught.value) for why in reasons)
        else:
            result = neuc_mds(data, **options)
            assert result.n == N
        if (kind, name) in IGNORED:
            expected = neuc_mds(data, **plain)
            np.testing.assert_array_equal(
                result.coordinates, expected.coordinates
            )


@pytest.mark.parametrize("name", TABLE["closed form"])
def test_closed_forms_refuse_what_needs_a_descent(name, tmp_path):
    gaps = np.where(WEIGHTS - 1 + np.eye(N) > 0, D, np.nan)
    with pytest.raises(InputError, match=r"method='refined'|loss='relative'"):
        neuc_mds(
            gaps if name == "missing" else D,
            2,
            "neuc+",
            **asked_for(name),
        )
