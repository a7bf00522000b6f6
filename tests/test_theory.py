from __future__ import annotations

import numpy as np
import pytest

from neucmds import theory
from neucmds.errors import InputError


def eigenvalues(sq_dissimilarity):
    means = sq_dissimilarity.mean(axis=0)
    return np.linalg.eigvalsh(
        -0.5 * (sq_dissimilarity - means - means[:, None] + means.mean())
    )


def hollow_noise(n, mean, sd, seed):
    upper = np.triu(np.random.default_rng(seed).normal(mean, sd, (n, n)), 1)
    return upper + upper.T


def sums(lam):
    return {"trace": lam.sum(), "frobenius_sq": (lam**2).sum()}


@pytest.mark.parametrize(
    ("mean", "sd"), [(0.0, 1.0), (10.0, 1.0), (-300.0, 0.5)]
)
def test_noise_edge_is_where_noise_ends(mean, sd):
    n = 800
    lam = eigenvalues(hollow_noise(n, mean, sd, 0))
    lower, upper = theory.noise_edge(n, **sums(lam))
    radius = sd * np.sqrt(n)
    assert (lower + upper) / 2 == pytest.approx(mean / 2, abs=5 * sd / n)
    # With a margin for chance of about 1 %.
    assert radius < (upper - lower) / 2 < 1.03 * radius
    noise = np.delete(lam, np.abs(lam).argmin())
    assert 0 < upper - noise[-1] < 0.04 * radius
    assert 0 < noise[0] - lower < 0.04 * radius


# at mean 200 the band is 100 ± 10: the constant vector's 0 lies far outside and must not count
@pytest.mark.parametrize("mean", [0.0, 200.0])
def test_pure_noise_rarely_suggests_a_component(mean):
    splits = [
        theory.suggest_k(eigenvalues(hollow_noise(100, mean, 1.0, s)))
        for s in range(100)
    ]
    assert sum(split.signature != (0, 0) for split in splits) <= 5


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
    assert sum(split.certain) <= p + q


def test_both_ends_of_the_spectrum_suffice():
    points = np.random.default_rng(0).normal(size=(300, 3)) * 5
    lam = eigenvalues(
        bilinear(points, np.array([1.0, 1.0, -1.0]))
        + hollow_noise(300, 0.0, 3.0, 1)
    )
    ends = np.concatenate([lam[:6], lam[-6:]])
    assert theory.suggest_k(ends, n=300, **sums(lam)) == theory.suggest_k(lam)
    short = theory.suggest_k(lam[[0, -1]], n=300, **sums(lam))
    assert sum(short.signature) == 2
    with pytest.raises(InputError, match="12 of 300"):
        theory.suggest_k(ends, n=300)
