from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import pdist, squareform

from neucmds import diagnose, neuc_mds, stress_curve
from neucmds.theory import suggest_k


def random_matrix(n, seed=0):
    d = np.triu(np.random.default_rng(seed).uniform(0.1, 1, size=(n, n)), 1)
    return d + d.T


def brute_force_violations(d):
    return sum(
        max(a, b, c) > a + b + c - max(a, b, c) + 1e-8
        for i, j, k in combinations(range(len(d)), 3)
        for a, b, c in [(d[i, j], d[j, k], d[i, k])]
    )


@given(st.integers(0, 10**6))
@settings(max_examples=4, deadline=None)
def test_all_triples_are_counted_once(seed):
    d = random_matrix(15, seed)
    found = diagnose(d).triangles
    assert found.exact
    assert found.violated == brute_force_violations(d)
    assert found.examined == 15 * 14 * 13 // 6
    assert found.worst_ratio > 1


def test_sample_agrees_with_all_triples():
    d = random_matrix(401)
    sampled = diagnose(d).triangles
    exact = diagnose(d[:150, :150]).triangles
    assert not sampled.exact
    assert sampled.examined == 400 * 399 * 398 // 6
    assert sampled.share == pytest.approx(exact.share, abs=0.01)


@pytest.mark.parametrize("n", [60, 600])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_metric_has_no_violation(n, dtype):
    """On a line every triple is at the limit; in float32 rounding put a fifth of them beyond."""
    x = np.random.default_rng(0).uniform(0, 100, size=(n, 1))
    d = np.abs(x - x.T).astype(dtype)
    assert diagnose(d).triangles.violated == 0
    d[0, 1] = d[1, 0] = np.abs(x - x.T).max() * (2 + 1e-5)
    assert diagnose(d).triangles.violated > 0


@pytest.mark.slow
def test_negative_share_is_of_the_sum_of_sizes():
    d = random_matrix(20) ** 2
    found = diagnose(d, squared=True)
    lam = stress_curve(d, squared=True).eigenvalues
    assert found.negative_share == pytest.approx(
        -lam[lam < 0].sum() / np.abs(lam).sum()
    )
    assert not found.euclidean
    assert 1 <= found.suggested_k < 20


def test_few_objects_get_no_scan():
    found = diagnose(random_matrix(5))
    assert (found.scan, found.suggested_k >= 1) == (None, True)


def squares(n=2100):
    """Squares of distances of city blocks, of more objects than all eigenvalues are computed of."""
    x = np.random.default_rng(0).uniform(size=(n, 3))
    return squareform(pdist(x, "cityblock")) ** 2


@pytest.mark.slow
def test_many_objects_are_described_by_the_largest_eigenvalues():
    d = squares()
    means = d.mean(axis=0)
    lam = np.linalg.eigvalsh(
        -0.5 * (d - means - means[:, None] + means.mean())
    )
    found = diagnose(d, squared=True)
    assert not found.complete
    share = -lam[lam < 0].sum() / np.abs(lam).sum()
    assert found.negative_share == pytest.approx(share, rel=0.1)
    assert found.negative_eigenvalues <= np.sum(lam < 0)
    assert found.largest_eigenvalue == pytest.approx(lam[-1], rel=1e-6)
    assert found.smallest_eigenvalue == pytest.approx(lam[0], rel=1e-6)
    assert found.certain == suggest_k(lam).certain
    assert not found.euclidean


@pytest.mark.slow
@pytest.mark.parametrize("rank", [5, 300])
def test_many_euclidean_objects_are_found_to_be(rank):
    x = np.random.default_rng(0).normal(size=(2100, rank))
    found = diagnose(squareform(pdist(x)))
    assert found.euclidean
    if rank == 5:  # all of it is known then
        assert found.positive_eigenvalues == 5
        assert found.negative_share < 1e-3


@pytest.mark.slow
def test_the_curve_of_many_objects_is_that_of_single_fits():
    d, ks = squares(), [1, 20]
    found = stress_curve(d, ks, squared=True)
    assert found.eigenvalues.size < 300
    for method, stress in found.stress.items():
        # Matching pursuit has other pairs to choose from.
        rel = 0.05 if method == "exact" else 1e-5
        for k, value in zip(ks, stress, strict=True):
            assert value == pytest.approx(
                neuc_mds(d, k, method, squared=True).stress, rel=rel
            )
    assert not found.complete
    assert found.last_stress >= found.best_stress


def test_turning_point_agrees_with_the_embeddings():
    d = random_matrix(25) ** 2
    positive = int((stress_curve(d, squared=True).eigenvalues > 0).sum())
    found = stress_curve(
        d, range(1, positive + 1), ["classical"], squared=True
    )
    stress = found.stress["classical"]
    assert found.best_k == 1 + int(np.argmin(stress))
    assert found.last_stress == pytest.approx(stress[-1])
    assert found.paradox


def test_classical_mds_may_be_best_without_coordinates():
    noise = np.random.default_rng(0).normal(size=(60, 60))
    D = np.triu(noise, 1) + np.triu(noise, 1).T
    curves = stress_curve(D, [1], squared=True)
    assert min(curves.classical) > curves.sq_norm
    assert curves.best_k == 0
    assert curves.best_stress == curves.sq_norm
    assert curves.paradox


def test_a_method_named_twice_has_one_curve():
    D = random_matrix(20)
    curves = stress_curve(D, [1, 2, 3], ["neuc", "classical", "neuc"])
    expected = stress_curve(D, [1, 2, 3], ["neuc", "classical"])
    assert curves.stress == expected.stress


def test_numbers_of_coordinates_may_be_an_array():
    curves = stress_curve(random_matrix(20), np.array([1, 2]), ["neuc"])
    assert json.loads(json.dumps(curves.as_dict()))["k"] == [1, 2]


def test_euclidean_matrix_has_no_paradox():
    x = np.random.default_rng(0).normal(size=(30, 4))
    curves = stress_curve(squareform(pdist(x)))
    assert (curves.best_k, curves.last_k, curves.paradox) == (4, 4, False)


@given(st.integers(3, 200))
@settings(max_examples=10, deadline=None)
def test_grid_ends_at_its_largest_k(n):
    ks = stress_curve(random_matrix(n), methods=["classical"]).ks
    assert ks[0] == 1
    assert ks[-1] == min(100, n - 1)
    assert list(ks) == sorted(set(ks))
