"""`evaluate` measures the pairs of D, on the scale of the fit."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array

from neucmds import Embedding, evaluate, neuc_mds
from neucmds.errors import InputError


def test_r2_of_an_embedding_is_that_of_the_pairs(no_metric, tmp_path):
    D = no_metric()
    embedding = neuc_mds(D, 5, "neuc")
    assert embedding.r2 == pytest.approx(evaluate(embedding, D).r2, rel=1e-12)
    embedding.save(tmp_path / "e.npz")
    assert Embedding.load(tmp_path / "e.npz").r2 == embedding.r2
    weighted = neuc_mds(D, 5, weights=np.ones_like(D))
    assert weighted.r2 == pytest.approx(evaluate(weighted, D).r2, rel=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.isnan(neuc_mds(1.0 - np.eye(5), 2).r2)


def test_evaluate_leaves_out_what_was_not_observed(no_metric):
    D = no_metric()
    embedding = neuc_mds(D, 4)
    gaps = D.copy()
    gaps[3, 7] = gaps[7, 3] = np.nan
    with pytest.raises(InputError, match="missing"):
        evaluate(embedding, gaps)
    left_out = (
        2 * (embedding.dissimilarities(squared=True)[3, 7] - D[3, 7] ** 2) ** 2
    )
    found = evaluate(embedding, gaps, missing="ignore").stress
    assert found == pytest.approx(embedding.stress - left_out)
    ignored = evaluate(embedding, D, weights=np.where(np.isnan(gaps), 0, 1))
    assert ignored == evaluate(embedding, gaps, missing="ignore")


@pytest.mark.parametrize("scale", [1.0, 1e-60])
def test_evaluate_weighs_what_a_fit_with_weights_reports(no_metric, scale):
    D, rng = no_metric(), np.random.default_rng(0)
    weights = scale * rng.gamma(0.5, size=D.shape)
    weights += weights.T
    embedding = neuc_mds(D, 3, weights=weights)
    quality = evaluate(embedding, D, weights=weights)
    assert quality.stress == pytest.approx(embedding.stress)
    assert quality.normalized_stress == pytest.approx(
        embedding.normalized_stress
    )
    assert quality.r2 == pytest.approx(embedding.r2)
    d, h = (
        side[np.triu_indices(60, 1)]
        for side in (D, embedding.distance(*np.indices(D.shape)))
    )
    w = weights[np.triu_indices(60, 1)]
    assert quality.raw_stress == pytest.approx(np.sum(w * (h - d) ** 2))
    assert quality.unscaled_stress1 == pytest.approx(
        np.sqrt(np.sum(w * (h - d) ** 2) / np.sum(w * h**2))
    )
    alike = np.sum(w * d * h) ** 2 / np.sum(w * d * d) / np.sum(w * h * h)
    assert quality.stress1 == pytest.approx(np.sqrt(1 - alike))
    fitted = embedding.dissimilarities(squared=True)
    alpha = np.sum(weights * fitted * D**2) / np.sum(weights * fitted**2)
    left = np.sqrt(np.sum(weights * (D**2 - alpha * fitted) ** 2))
    assert quality.scaled_additive_error == pytest.approx(left)
    alike = evaluate(embedding, D)
    for name in (
        "relative_error_mean",
        "distortion",
        "neighbors_kept",
        "undefined_pairs",
    ):
        assert getattr(quality, name) == getattr(alike, name)


def test_evaluate_knows_the_scale_of_the_fit_and_the_number_of_objects(
    no_metric,
):
    D = no_metric()
    embedding = neuc_mds(D**2, 4, squared=True)
    assert evaluate(embedding, D**2).stress == pytest.approx(embedding.stress)
    assert evaluate(embedding, D, squared=False).stress == pytest.approx(
        embedding.stress
    )
    with pytest.raises(
        InputError, match="59 objects, but the embedding has 60"
    ):
        evaluate(embedding, D[:59, :59])


def city(a, b):
    return float(np.abs(np.subtract(a, b)).sum())


@pytest.mark.parametrize("metric", ["cityblock", city])
def test_features_and_functions_are_measured_by_their_metric(metric):
    x = np.random.default_rng(0).normal(size=(40, 4))
    D = np.abs(x[:, None] - x).sum(axis=2)
    embedding = neuc_mds(x, 3, metric=metric)
    quality = evaluate(embedding, x, metric=metric)
    expected = evaluate(embedding, D)
    for name, value in quality.as_dict().items():
        assert value == pytest.approx(getattr(expected, name), rel=1e-6), name
    with pytest.raises(InputError, match="39 objects, but the embedding has"):
        evaluate(embedding, x[:39], metric=metric)


def test_graphs_are_measured_by_their_paths():
    path = np.diag(np.ones(29), 1)
    graph = csr_array(path + path.T)
    embedding = neuc_mds(graph, 2, metric="shortest_path")
    quality = evaluate(embedding, graph, metric="shortest_path")
    lengths = np.abs(np.subtract.outer(np.arange(30.0), np.arange(30)))
    assert (
        quality.neighbors_kept == evaluate(embedding, lengths).neighbors_kept
    )
    assert quality.relative_error_mean < 0.01


def test_of_many_objects_some_are_measured():
    x = np.random.default_rng(0).normal(size=(2300, 2))
    embedding = neuc_mds(x, 2, metric="euclidean", landmarks=50)
    quality = evaluate(embedding, x, metric="euclidean")
    assert quality.neighbors_kept > 0.99
    assert quality.relative_error_mean < 1e-6


def test_what_is_no_embedding_and_a_negative_number_are_refused(no_metric):
    D = no_metric(12)
    with pytest.raises(InputError, match="the embedding is ndarray; pass"):
        evaluate(D, D)
    with pytest.raises(InputError, match=r"held_out=-1 .* 0 for no second"):
        evaluate(neuc_mds(D, 2), D, held_out=-1)
