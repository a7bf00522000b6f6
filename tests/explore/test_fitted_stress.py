"""Stress is that of the fitted loss: over pairs, per object, in tests, and of ranks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from neucmds import Embedding, evaluate, neuc_mds
from neucmds.explore import pair_errors, stress_test

FIXTURES = Path(__file__).parents[1] / "fixtures"
VEGAN = json.loads((FIXTURES / "vegan_permanova.json").read_text())["shepard"]


@pytest.fixture(scope="module")
def dune():
    table = pd.read_csv(FIXTURES / "dune_braycurtis.csv", index_col=0)
    return table.to_numpy()


@pytest.fixture(scope="module")
def distance(dune):
    return neuc_mds(dune, (2, 0), loss="distance")


@pytest.mark.parametrize("k", ["2", "3"])
def test_both_r2_of_an_ordinal_fit_are_those_of_stressplot(dune, k):
    classical = neuc_mds(dune, int(k), "classical")
    ordinal = neuc_mds(dune, int(k), loss="ordinal", n_init=1)
    at_start = replace(ordinal, coordinates=classical.coordinates)
    quality = evaluate(at_start, dune)
    stress = VEGAN[k]["stress"]
    assert quality.shepard_r2 == pytest.approx(VEGAN[k]["linear"], rel=1e-8)
    assert quality.stress1 == pytest.approx(stress, rel=1e-8)
    assert quality.unscaled_stress1 == pytest.approx(stress, rel=1e-8)


@pytest.mark.parametrize("ties", ["primary", "secondary"])
def test_an_ordinal_fit_is_evaluated_by_its_own_stress(dune, ties, tmp_path):
    tied = np.ceil(10 * dune)
    fit = neuc_mds(tied, 2, loss="ordinal", ties=ties, n_init=1)
    fit.save(tmp_path / "fit.npz")
    for emb in (fit, Embedding.load(tmp_path / "fit.npz")):
        quality = evaluate(emb, tied)
        assert quality.stress1 == pytest.approx(emb.stress1, rel=1e-9)
        assert quality.raw_stress == pytest.approx(emb.loss_value, rel=1e-9)


def test_every_stress_of_a_fit_by_distance_counts_pairs(dune, distance):
    quality = evaluate(distance, dune)
    upper = np.triu_indices(20, 1)
    d = dune[upper]
    d_hat = distance.dissimilarities()[upper]
    raw = np.sum((d_hat - d) ** 2)
    assert distance.loss_value == pytest.approx(raw)
    assert distance.info.history[-1] == pytest.approx(raw, rel=1e-4)
    assert quality.raw_stress == pytest.approx(raw)
    assert distance.stress1 == pytest.approx(np.sqrt(raw / np.sum(d**2)))
    assert quality.stress1 == pytest.approx(distance.stress1, rel=1e-4)
    squared = neuc_mds(dune, 2)
    assert squared.loss_value == pytest.approx(squared.stress / 2)
    assert quality.shepard_r2 == pytest.approx(
        np.corrcoef(d, d_hat)[0, 1] ** 2
    )


@pytest.mark.parametrize(
    "loss", ["squared", "distance", "relative", "absolute", "ordinal"]
)
def test_stress_per_object_is_that_of_the_fitted_loss(dune, loss):
    how = {"loss": loss, "n_init": 1}
    if loss == "ordinal":
        how["ties"] = "secondary"
    fit = neuc_mds(dune, (2, 0), **how)
    shares = pair_errors(fit, dune).stress_share
    assert shares.sum() == pytest.approx(1)
    # Without the pairs of an object, the loss is less by its part.
    d_hat = fit.dissimilarities()
    if loss == "ordinal":
        rule = fit.placement
        rest = np.interp(dune, rule.dissimilarity, rule.disparity)
        left = np.sum((d_hat - rest)[1:, 1:] ** 2) / 2
    elif loss == "squared":
        left = np.sum((d_hat**2 - dune**2)[1:, 1:] ** 2) / 2
    else:
        errors = (d_hat - dune)[1:, 1:]
        if loss != "distance":
            errors /= np.maximum(dune[1:, 1:], fit.floor)
        if loss == "absolute":
            errors = np.sqrt(np.abs(errors))
        left = np.sum(errors**2) / 2
    expected = (fit.loss_value - left) / (2 * fit.loss_value)
    assert shares[0] == pytest.approx(expected, rel=1e-6)


def test_stress_per_point_of_a_meadow_is_smacof_s(dune, distance):
    # smacof 2.1-7: mds(d, ndim = 2)$spp[1] is 6.6 %.
    assert round(100 * pair_errors(distance, dune).stress_share[0], 1) == 6.6


def test_a_stress_test_has_the_statistic_of_the_fitted_loss(dune, distance):
    test = stress_test(dune, embedding=distance, permutations=1)
    assert test.statistic == distance.stress1
    assert round(test.statistic, 3) == 0.185
    ordinal = neuc_mds(dune, 2, loss="ordinal", n_init=1)
    test = stress_test(dune, embedding=ordinal, permutations=3, max_iter=20)
    assert test.statistic == ordinal.stress1
    assert test.permuted.min() > test.statistic
    relative = neuc_mds(dune, 2, loss="relative", n_init=1)
    test = stress_test(dune, embedding=relative, permutations=0)
    assert test.statistic == relative.loss_value
    closed = neuc_mds(dune, 2, "neuc")
    test = stress_test(dune, embedding=closed, permutations=0)
    assert test.statistic == closed.normalized_stress


def test_both_directions_of_a_directed_fit_count(dune):
    D = dune + 0.3 * np.triu(dune)
    fit = neuc_mds(D, (2, 0), loss="distance", directed=True, n_init=1)
    raw = np.sum((fit.dissimilarities() - D) ** 2)
    assert fit.loss_value == pytest.approx(raw)
    assert fit.stress1 == pytest.approx(np.sqrt(raw / np.sum(D**2)))
