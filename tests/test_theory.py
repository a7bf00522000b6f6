from __future__ import annotations

import numpy as np
import pytest

from neucmds import theory
from neucmds.errors import InputError

# tab:randommatrixerrors1: c, constant and linear part of e_C, e_N
TABLE_1 = [
    (0.05, 0.8432, 0.0078, 0.8278),
    (0.10, 0.7322, 0.0265, 0.6864),
    (0.15, 0.6513, 0.0512, 0.5666),
    (0.20, 0.5933, 0.0785, 0.4644),
    (0.25, 0.5531, 0.1055, 0.3771),
    (0.30, 0.5269, 0.1304, 0.3027),
    (0.35, 0.5112, 0.1512, 0.2397),
    (0.40, 0.5033, 0.1670, 0.1866),
    (0.45, 0.5004, 0.1768, 0.1425),
]
# tab:randommatrixerrors2: c, e_N
TABLE_2 = [
    (0.50, 0.1063),
    (0.55, 0.0770),
    (0.60, 0.0537),
    (0.65, 0.0358),
    (0.70, 0.0225),
    (0.75, 0.0130),
    (0.80, 0.0066),
    (0.85, 0.0028),
    (0.90, 0.0008),
    (0.95, 0.0001),
]
PRINTED = 0.5001e-4  # half of the last printed digit


@pytest.mark.parametrize(("c", "constant", "linear", "neuc"), TABLE_1)
def test_first_table_to_the_printed_digit(c, constant, linear, neuc):
    error = theory.classical_error(c)
    assert error.constant == pytest.approx(constant, abs=PRINTED)
    assert error.linear == pytest.approx(linear, abs=PRINTED)
    assert theory.neuc_error(c) == pytest.approx(neuc, abs=PRINTED)


@pytest.mark.parametrize(("c", "neuc"), TABLE_2)
def test_second_table_to_the_printed_digit(c, neuc):
    assert theory.neuc_error(c) == pytest.approx(neuc, abs=PRINTED)
    error = theory.classical_error(c)
    assert (error.constant, error.linear) == pytest.approx((0.5, 0.1801), abs=PRINTED)


def test_cuts_keep_the_share_asked_for():
    x = np.linspace(-2, 2, 400_001)
    density = np.sqrt(np.maximum(4 - x**2, 0)) / (2 * np.pi) * (x[1] - x[0])
    for c in (0.01, 0.2, 0.49):
        assert density[x > 2 - theory.classical_cut(c)].sum() == pytest.approx(c, abs=1e-4)
    for c in (0.01, 0.5, 0.99):
        assert density[np.abs(x) > 2 - theory.neuc_cut(c)].sum() == pytest.approx(c, abs=1e-4)


def test_small_k_asymptotics_meet_the_exact_errors():
    n, k = 10**8, 100
    exact = theory.neuc_error(k / n)
    assert 1 - exact == pytest.approx(1 - theory.neuc_error_small(k, n), rel=1e-3)
    exact = theory.classical_error(k / n).at(n)
    assert exact == pytest.approx(theory.classical_error_small(k, n), rel=1e-3)


def test_error_near_full_rank_vanishes_with_the_cube():
    for dropped in (1e-1, 1e-2):
        ratio = theory.neuc_error(1 - dropped) / theory.neuc_error_large(1 - dropped)
        assert ratio == pytest.approx(1, abs=dropped**2)


@pytest.mark.parametrize("c", [-0.1, 1.1])
def test_share_outside_zero_to_one_is_refused(c):
    for function in (theory.classical_error, theory.neuc_error, theory.neuc_error_large):
        with pytest.raises(InputError, match="share"):
            function(c)


@pytest.mark.slow
@pytest.mark.parametrize("c", [0.05, 0.3, 0.7])
def test_simulation_meets_theory_within_two_percent(c):
    n = 2000
    measured = theory.simulate_errors(n, round(c * n), random_state=0)
    assert measured.classical == pytest.approx(theory.classical_error(c).at(n), rel=0.02)
    assert measured.neuc == pytest.approx(theory.neuc_error(c), rel=0.02)
    with pytest.raises(InputError, match="k is 11"):
        theory.simulate_errors(10, 11)


def eigenvalues(sq_dissimilarity):
    means = sq_dissimilarity.mean(axis=0)
    return np.linalg.eigvalsh(-0.5 * (sq_dissimilarity - means - means[:, None] + means.mean()))


def hollow_noise(n, mean, sd, seed):
    upper = np.triu(np.random.default_rng(seed).normal(mean, sd, (n, n)), 1)
    return upper + upper.T


def sums(lam):
    return {"trace": lam.sum(), "frobenius_sq": (lam**2).sum()}


@pytest.mark.parametrize(("mean", "sd"), [(0.0, 1.0), (10.0, 1.0), (-300.0, 0.5)])
def test_noise_edge_is_where_noise_ends(mean, sd):
    n = 800
    lam = eigenvalues(hollow_noise(n, mean, sd, 0))
    band = theory.noise_edge(n, **sums(lam))
    assert band.centre == pytest.approx(mean / 2, abs=5 * sd / n)
    assert band.radius == pytest.approx(sd * np.sqrt(n), rel=0.01)
    noise = np.delete(lam, np.abs(lam).argmin())
    assert noise[-1] == pytest.approx(band.centre + band.radius, abs=0.02 * band.radius)
    assert noise[0] == pytest.approx(band.centre - band.radius, abs=0.02 * band.radius)


# at mean 200 the band is 100 ± 10: the constant vector's 0 lies far outside and must not count
@pytest.mark.parametrize("mean", [0.0, 200.0])
def test_pure_noise_rarely_suggests_a_component(mean):
    splits = [theory.suggest_k(eigenvalues(hollow_noise(100, mean, 1.0, s))) for s in range(100)]
    assert sum(split.k > 0 for split in splits) <= 5


def bilinear(points, signs):
    gram = (points * signs) @ points.T
    diagonal = np.diag(gram)
    return diagonal + diagonal[:, None] - 2 * gram


@pytest.mark.parametrize("signature", [(3, 2), (4, 0), (0, 2)])
@pytest.mark.parametrize("sd", [0.0, 3.0])
def test_hidden_signature_is_found_under_noise(signature, sd):
    p, q = signature
    # strengths spread over a decade: the strong ones hide the weak until they are taken out
    scales = np.geomspace(8.0, 2.0, p + q)
    points = np.random.default_rng(0).normal(size=(300, p + q)) * scales
    signs = np.array([1.0] * p + [-1.0] * q)
    d = bilinear(points, signs) + hollow_noise(300, 0.0, sd, 1)
    lam = eigenvalues(d)
    split = theory.suggest_k(lam)
    assert split.signature == signature
    assert split.k == p + q
    assert split.complete
    assert sum(split.certain) <= split.k


def test_both_ends_of_the_spectrum_suffice():
    points = np.random.default_rng(0).normal(size=(300, 3)) * 5
    lam = eigenvalues(bilinear(points, np.array([1.0, 1.0, -1.0])) + hollow_noise(300, 0.0, 3.0, 1))
    ends = np.concatenate([lam[:6], lam[-6:]])
    assert theory.suggest_k(ends, n=300, **sums(lam)) == theory.suggest_k(lam)
    short = theory.suggest_k(lam[[0, -1]], n=300, **sums(lam))
    assert short.k == 2
    assert not short.complete
    with pytest.raises(InputError, match="12 of 300"):
        theory.suggest_k(ends, n=300)
