"""The reported STRESS is that of the returned coordinates, within the bound that is stated."""

import warnings

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from neucmds import neuc_mds
from neucmds.errors import FewerComponentsWarning

METHODS = ["classical", "lower", "neuc", "neuc+", "exact", "refined"]


def points(n):
    x = np.random.default_rng(0).random((n, 3))
    return np.sqrt(((x[:, None] - x[None]) ** 2).sum(axis=-1)) / 2


def noisy(n):
    e = np.abs(np.random.default_rng(0).standard_normal((n, n)))
    D = points(n) + 0.05 * (e + e.T)
    np.fill_diagonal(D, 0.0)
    return D


def with_sentinel(n, value=1e5):
    D = noisy(n)
    D[3, 7] = D[7, 3] = value
    return D


HOSTILE = {
    "ordinary": noisy(48),
    "two_sentinels": np.maximum(
        with_sentinel(48), with_sentinel(48, 3e6)[::-1, ::-1]
    ),
    "duplicates": np.repeat(np.repeat(noisy(12), 4, axis=0), 4, axis=1),
    "exact": points(48),
    "offset": noisy(48) + 1e6 * (1 - np.eye(48)),
    "tiny": 1e-30 * noisy(48),
    "far_object": noisy(48)
    + 1e4 * np.abs(np.eye(48)[0][:, None] - np.eye(48)[0]),
    "float32_sentinel": with_sentinel(48).astype(np.float32),
}


def fit(D, k, method, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewerComponentsWarning)
        return neuc_mds(D, k, method, **settings)


def brute_force(D, embedding) -> float:
    """STRESS from every pair, in extended precision."""
    x, signs = (
        np.asarray(a, np.longdouble)
        for a in (embedding.coordinates, embedding.signs)
    )
    # The squares are those of the input's precision: they are the D that is embedded.
    sq = np.square(D).astype(np.longdouble)
    total = np.longdouble(0)
    for row, own in zip(sq, x, strict=True):
        total += np.sum(((own - x) ** 2 @ signs - row) ** 2)
    return float(total)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", HOSTILE)
def test_reported_stress_is_brute_force_within_the_bound(name, method):
    D = HOSTILE[name]
    for k in (2, 11):
        embedding = fit(D, k, method)
        assert (
            abs(embedding.stress - brute_force(D, embedding))
            <= embedding.info.stress_error
        )
        if name in ("ordinary", "tiny"):  # nothing cancels
            units = embedding.info.stress_error / (
                embedding.stress * np.finfo(np.float64).eps
            )
            assert 100 < units < 4000


def test_what_rounding_hides_is_said():
    D = with_sentinel(100, 1e10)
    with pytest.warns(FewerComponentsWarning, match="lost in rounding"):
        embedding = neuc_mds(D, 10, "neuc")
    assert embedding.k < 10


@pytest.mark.parametrize("loss", ["squared", "distance"])
@pytest.mark.parametrize("times", [1e4, 1e6])
def test_one_huge_dissimilarity_does_not_drown_the_stress_of_the_others(
    loss, times
):
    x = np.random.default_rng(0).random((60, 4))
    d = squareform(pdist(x, "cityblock"))
    d[3, 7] = d[7, 3] = times * d.max()
    emb = neuc_mds(d, 4, loss=loss)
    residuals = emb.dissimilarities(squared=True) - d**2
    assert emb.stress == pytest.approx(np.sum(residuals**2), rel=1e-9)
    if loss == "squared":
        assert emb.loss_value == pytest.approx(emb.stress / 2)
