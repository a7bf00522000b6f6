from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from neucmds._operator import DenseGram
from neucmds._spectrum import full_spectrum
from neucmds.api import curve, inspect
from neucmds.diagnostics import classical_turning_point, spaced_ks, triangle_violations


def random_matrix(n, seed=0):
    d = np.triu(np.random.default_rng(seed).uniform(0.1, 1, size=(n, n)), 1)
    return d + d.T


def brute_force_violations(d):
    return sum(
        max(a, b, c) > a + b + c - max(a, b, c) + 1e-8
        for i, j, k in combinations(range(len(d)), 3)
        for a, b, c in [(d[i, j], d[j, k], d[i, k])]
    )


@pytest.mark.parametrize("seed", range(3))
def test_all_triples_are_counted_once(seed):
    d = random_matrix(15, seed)
    found = triangle_violations(DenseGram(d**2))
    assert found.exact
    assert found.violated == brute_force_violations(d)
    assert found.examined == 15 * 14 * 13 // 6
    assert found.worst_ratio > 1


def test_sample_agrees_with_all_triples():
    d = random_matrix(401)
    sampled = triangle_violations(DenseGram(d**2), samples=200_000)
    exact = triangle_violations(DenseGram(d[:150, :150] ** 2))
    assert not sampled.exact
    assert sampled.examined == 200_000
    assert sampled.share == pytest.approx(exact.share, abs=0.01)


def test_metric_has_no_violation():
    x = np.random.default_rng(0).normal(size=(30, 1))
    assert triangle_violations(DenseGram((x - x.T) ** 2)).violated == 0


def test_negative_share_is_of_the_sum_of_sizes():
    d = random_matrix(20) ** 2
    spectrum = full_spectrum(DenseGram(d))
    found = inspect(d, squared=True)
    lam = spectrum.values
    assert found.negative_share == pytest.approx(-lam[lam < 0].sum() / np.abs(lam).sum())
    assert not found.euclidean
    assert 1 <= found.suggested_k < 20


def test_planted_structure_is_suggested():
    rng = np.random.default_rng(0)
    x = np.linalg.qr(rng.normal(size=(200, 3)))[0] * [30, 20, 15]
    d = ((x[:, None] - x[None, :]) ** 2).sum(-1)
    noise = np.triu(rng.normal(scale=0.5, size=d.shape), 1)
    d = d + noise + noise.T
    found = inspect(d, squared=True)
    assert found.clear_edge
    assert found.suggested_k == 3


def test_turning_point_agrees_with_the_embeddings():
    d = random_matrix(25) ** 2
    positive = int((full_spectrum(DenseGram(d)).values > 0).sum())
    found = curve(d, range(1, positive + 1), ["classical"], squared=True)
    turning, stress = found.turning_point, found.stress["classical"]
    assert turning.k == 1 + int(np.argmin(stress))
    assert turning.last_stress == pytest.approx(stress[-1])
    assert turning.paradox


def test_euclidean_matrix_has_no_paradox():
    x = np.random.default_rng(0).normal(size=(30, 4))
    gram = DenseGram(((x[:, None] - x[None, :]) ** 2).sum(-1))
    turning = classical_turning_point(gram, full_spectrum(gram))
    assert (turning.k, turning.last_k, turning.paradox) == (4, 4, False)


@pytest.mark.parametrize("k_max", [1, 5, 20, 21, 100, 3000])
def test_grid_ends_at_its_largest_k(k_max):
    ks = spaced_ks(k_max)
    assert ks[0] == 1
    assert ks[-1] == k_max
    assert list(ks) == sorted(set(ks))
