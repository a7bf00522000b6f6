"""The parts that several experiments share: curves, counting, SMACOF, the paradox."""

from __future__ import annotations

import numpy as np
import pytest

from neucmds._input.components import Components
from neucmds._methods.selection import METHODS
from neucmds._operator import DenseGram
from neucmds._spectrum.full import full_spectrum
from neucmds.api import embed_spectrum
from neucmds.datasets import euclidean_ball
from neucmds.metrics import measure
from reproduction.counting import count_as_published, is_metric
from reproduction.curves import stress_curve
from reproduction.paradox import steps_that_show_it
from reproduction.smacof import run_smacof


@pytest.fixture(scope="module")
def ball():
    return euclidean_ball(60, random_state=1)


def star_hops(branches, leaves):
    """Squared hop counts of a star of stars: leaves of one branch are twins."""
    parents = [0] * branches + [1 + b for b in range(branches) for _ in range(leaves)]
    n = 1 + len(parents)
    hops = np.zeros((n, n))
    paths = [[0]]
    for child, parent in enumerate(parents, start=1):
        paths.append([*paths[parent], child])
    for i in range(n):
        for j in range(n):
            hops[i, j] = len(set(paths[i]) ^ set(paths[j]))
    return hops**2


@pytest.mark.parametrize("method", METHODS)
def test_the_curve_is_the_stress_of_an_embedding_at_every_k(ball, method):
    gram = DenseGram(ball)
    spectrum = full_spectrum(gram)
    ks = range(1, 60)
    curve = stress_curve(gram, spectrum, method, ks)
    expected = [embed_spectrum(gram, spectrum, Components(k), method).stress for k in ks]
    np.testing.assert_allclose(curve, expected, rtol=1e-9, atol=1e-12 * gram.moments.sq_norm)


def test_counts_without_twins_are_those_beyond_rounding(ball):
    gram = DenseGram(ball)
    spectrum = full_spectrum(gram)
    counts = count_as_published(ball, 20)
    assert counts.twins == 0
    negative = {}
    for method in METHODS:
        embedding = embed_spectrum(gram, spectrum, Components(20), method)
        quality = measure(gram, embedding.coordinates, embedding.signs)
        assert counts.negative_pairs[method] == quality.negative_dissimilarities
        assert counts.distortion[method] == pytest.approx(quality.distortion, rel=1e-9)
        negative[method] = np.triu(embedding.dissimilarities() < 0, 1)
    assert counts.negative_pairs["neuc"] > 0
    # errata E13: print counts for Neuc-MDS⁺ only what is new
    assert counts.new_negative_pairs == (negative["neuc+"] & ~negative["neuc"]).sum()


def test_twins_are_told_from_pairs_that_are_really_negative():
    counts = count_as_published(star_hops(branches=6, leaves=4), 5)
    assert counts.twins >= 6 * 6  # leaves of one branch; D̂ is zero for all of them
    low, high = counts.range_of("neuc")
    assert low <= counts.negative_pairs["neuc"] <= high
    assert high - low == counts.twins


def test_only_what_obeys_the_triangle_inequality_is_a_metric(ball):
    assert is_metric(star_hops(3, 2))
    assert not is_metric(ball)
    assert not is_metric(np.array([[0.0, -1.0], [-1.0, 0.0]]))


def test_smacof_measures_what_it_says():
    x = np.random.default_rng(0).normal(size=(30, 2))
    d = np.square(x[:, None] - x[None]).sum(-1)
    fair = run_smacof(d, 4, on_squared=False, seed=0)
    assert fair.stress < 1e-2 * np.sum(d**2)  # √D is Euclidean, so SMACOF can fit it
    as_published = run_smacof(d, 4, on_squared=True, seed=0)
    assert as_published.own_stress == pytest.approx(as_published.stress / 2, rel=1e-3)


def test_a_step_shows_the_paradox_only_if_neuc_does_not_get_worse():
    curves = {
        "classical": np.array([3.0, 1.0, 2.0, 4.0]),
        "neuc": np.array([9.0, 5.0, 6.0, 5.5]),
        "neuc+": np.array([9.0, 8.0, 7.0, 6.0]),
    }
    # to k = 4: from 2 classical is worst but neuc rises; from 3 and 1 it falls
    assert list(steps_that_show_it(curves, 4)) == [(3, 4), (1, 4)]
    assert list(steps_that_show_it(curves, 2)) == []
