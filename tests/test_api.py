"""One way for every kind of D: the functions agree with each other, whatever holds D."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.spatial.distance import squareform

import neucmds
from neucmds import Embedding, api, compare, curve, evaluate, inspect, neuc_mds
from neucmds.api import comparison
from neucmds.corrections import lingoes
from neucmds.errors import InputError


def hops(n=60, seed=0):
    """Squares of distances: symmetric and hollow, but no metric."""
    x = np.random.default_rng(seed).uniform(size=(n, 3))
    return ((x[:, None] - x[None, :]) ** 2).sum(-1)


def as_path(D, folder):
    np.save(folder / "d.npy", D)
    return folder / "d.npy"


def as_frame(D, folder):
    pandas = pytest.importorskip("pandas")
    names = [f"o{i}" for i in range(len(D))]
    return pandas.DataFrame(D, index=names, columns=names)


def as_dask(D, folder):
    return pytest.importorskip("dask.array").from_array(D, chunks=(17, 17))


def as_zarr(D, folder):
    return pytest.importorskip("zarr").array(D, chunks=(16, 16))


KINDS = {
    "array": lambda D, folder: D,
    "condensed": lambda D, folder: squareform(D, checks=False),
    "list": lambda D, folder: D.tolist(),
    "path": as_path,
    "frame": as_frame,
    "dask": as_dask,
    "zarr": as_zarr,
    "blocked": lambda D, folder: neucmds.operators.BlockedGram(as_path(D, folder)),
    "prepared": lambda D, folder: api.prepare(D),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_function_takes_what_neuc_mds_takes(kind, tmp_path):
    D = hops()
    held = KINDS[kind](D, tmp_path)
    embedding = neuc_mds(held, 5, "neuc+")
    assert embedding.stress == pytest.approx(neuc_mds(D, 5, "neuc+").stress)
    assert evaluate(embedding, held).stress == pytest.approx(embedding.stress)
    table = compare(held, 5, methods=["classical", "neuc+"])
    assert table["neuc+"].quality.stress == pytest.approx(embedding.stress)
    seen, expected = inspect(held), inspect(D)
    assert seen.negative_share == pytest.approx(expected.negative_share)
    assert seen.triangles.violated == expected.triangles.violated
    assert seen.suggested_k == expected.suggested_k
    found = curve(held, ks=[2, 5], methods=["neuc+"])
    assert found.stress["neuc+"][1] == pytest.approx(embedding.stress)


@pytest.mark.slow
def test_compare_from_both_ends_equals_each_method_by_itself():
    D = hops(700)
    table = compare(D, 10, solver="krylov")
    for one in table.methods:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            alone = neuc_mds(D, 10, one.method, solver="full")
        rel = 1e-3 if one.method == "refined" else 1e-6
        assert one.quality.stress == pytest.approx(alone.stress, rel=rel), one.method
    assert table.best.method == "refined"
    assert table.as_dict()["methods"][0]["method"] == "classical"


@pytest.mark.slow
def test_compare_puts_corrections_losses_and_smacof_beside_the_methods():
    D = hops()
    table = compare(D, 3, methods=api.COMPARED)
    assert not table.left_out
    d2 = lingoes(D).sq_dissimilarity
    by_hand = evaluate(neuc_mds(d2, 3, "classical", squared=True), D**2, squared=True)
    assert table["lingoes"].quality.stress == pytest.approx(by_hand.stress, rel=1e-9)
    least = {
        "stress": ("refined", "refined"),
        "raw_stress": ("refined/distance", "smacof"),
        "relative_error_mean": ("refined/relative", "classical"),
    }
    for measure, (best, other) in least.items():
        values = {one.method: getattr(one.quality, measure) for one in table.methods}
        assert values[best] <= values[other] * (1 + 1e-9), measure
    assert table["smacof"].embedding.signature == (3, 0)
    assert table["smacof"].embedding.stress == pytest.approx(table["smacof"].quality.stress)


def test_compare_leaves_out_what_takes_too_long(monkeypatch):
    monkeypatch.setitem(comparison.COMPARED_UP_TO, "smacof", 10)
    table = compare(hops(), 3, methods=["neuc+", "smacof"])
    assert [one.method for one in table.methods] == ["neuc+"]
    assert "more than 10" in table.left_out["smacof"]
    with pytest.raises(InputError, match="magic"):
        compare(hops(), 3, methods=["magic"])


def test_r2_of_an_embedding_is_that_of_the_pairs(tmp_path):
    D = hops()
    embedding = neuc_mds(D, 5, "neuc")
    assert embedding.r2 == pytest.approx(evaluate(embedding, D).r2, rel=1e-12)
    embedding.save(tmp_path / "e.npz")
    assert Embedding.load(tmp_path / "e.npz").r2 == embedding.r2
    weighted = neuc_mds(D, 5, weights=np.ones_like(D))
    assert weighted.r2 == pytest.approx(evaluate(weighted, D).r2, rel=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.isnan(neuc_mds(1.0 - np.eye(5), 2).r2)


def test_a_constant_explains_nothing():
    D = 1 + 0.1 * hops()
    np.fill_diagonal(D, 0)
    quality = evaluate(neuc_mds(D, 1, "classical"), D)
    assert quality.normalized_stress < 1
    assert quality.r2 < 0


def test_evaluate_leaves_out_what_was_not_observed():
    D = hops()
    embedding = neuc_mds(D, 4)
    gaps = D.copy()
    gaps[3, 7] = gaps[7, 3] = np.nan
    with pytest.raises(InputError, match="missing"):
        evaluate(embedding, gaps)
    left_out = 2 * (embedding.dissimilarities()[3, 7] - D[3, 7] ** 2) ** 2
    found = evaluate(embedding, gaps, missing="ignore").stress
    assert found == pytest.approx(embedding.stress - left_out)


def test_evaluate_knows_the_scale_of_the_fit_and_the_number_of_objects():
    D = hops()
    embedding = neuc_mds(D**2, 4, squared=True)
    assert evaluate(embedding, D**2).stress == pytest.approx(embedding.stress)
    assert evaluate(embedding, D, squared=False).stress == pytest.approx(embedding.stress)
    with pytest.raises(InputError, match="59 objects, but the embedding has 60"):
        evaluate(embedding, D[:59, :59])


@pytest.mark.parametrize(
    "wrong",
    [{"method": "magic"}, {"solver": "magic"}, {"tol": 2}, {"n_components": 60}, {"max_iter": 0},
     {"random_state": "seed"}],
)  # fmt: skip
def test_d_is_untouched_when_an_argument_is_refused(wrong):
    D = hops()
    before = D.copy()
    with pytest.raises(ValueError):  # noqa: PT011
        neuc_mds(D, **{"n_components": 3, "copy": False} | wrong)
    np.testing.assert_array_equal(D, before)


def test_warnings_point_at_the_caller():
    with pytest.warns(neucmds.FewerComponentsWarning) as caught:
        neuc_mds(hops(), 59, "classical")
    assert caught[0].filename == __file__


def test_public_names_are_listed_and_can_be_had():
    for name in neucmds.__all__:
        assert getattr(neucmds, name) is not None
        assert name in dir(neucmds)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = neucmds.nonsense
