"""Wrapped bytes, noise, missing pixels and affinities are what the paper says they are."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from neucmds.datasets import hop_distances
from neucmds.errors import InputError
from reproduction.data import (
    add_noise,
    entropic_affinities,
    missing_pixels,
    perturb,
    wrapped_distances,
    wrapped_hops,
)


def brute_force_wrapped(x):
    flat = x.reshape(len(x), -1).astype(int)
    gap = (flat[:, None] - flat[None]) % 256
    return np.sqrt((gap**2).sum(axis=2))


def random_bytes(n, shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, *shape), dtype=np.uint8)


def test_wrapped_hops_rank_each_row_by_its_own_wrapped_differences():
    x = random_bytes(80, (30, 20))  # 600 bytes: more than one exact partial sum
    wrapped = brute_force_wrapped(x)
    assert (wrapped != wrapped.T).any()
    np.testing.assert_array_equal(wrapped_distances(x), wrapped)
    expected = hop_distances(wrapped, 5, precomputed=True)
    np.testing.assert_array_equal(wrapped_hops(x, 5), expected)


def test_wraparound_is_for_bytes():
    with pytest.raises(InputError, match="uint8"):
        wrapped_hops(np.zeros((10, 2)), 2)


@pytest.mark.parametrize("wraparound", [False, True])
def test_noise_has_the_published_scale_and_the_distances_as_mean(wraparound):
    x = random_bytes(120, (28, 28))
    noisy = add_noise(x, wraparound=wraparound, random_state=0)
    np.testing.assert_array_equal(noisy, noisy.T)
    assert not np.diag(noisy).any()
    clean = brute_force_wrapped(x) if wraparound else squareform(pdist(x.reshape(120, -1) * 1.0))
    noise = (noisy - clean)[np.triu_indices(120, 1)]
    assert noise.std() == pytest.approx(255 * 28 / 500, rel=0.03)
    assert abs(noise.mean()) < 4 * noise.std() / np.sqrt(noise.size)


def test_missing_pixels_are_left_out_of_both_images():
    x = np.random.default_rng(0).normal(size=(30, 40))
    present = np.random.default_rng(1).uniform(size=x.shape) > 0.3
    holes = np.where(present, x, np.nan)
    expected = np.sqrt(np.nansum((holes[:, None] - holes[None]) ** 2, axis=2))
    np.testing.assert_allclose(perturb._distances_over_shared(x, present), expected, atol=1e-6)


def test_share_of_missing_pixels_shrinks_squared_distances_by_the_share_both_keep():
    x = np.random.default_rng(0).normal(size=(60, 500))
    full = pdist(x, "sqeuclidean")
    kept = squareform(missing_pixels(x, fraction=0.2, random_state=0), checks=False) ** 2
    assert (kept / full).mean() == pytest.approx(0.8**2, rel=0.01)
    np.testing.assert_allclose(squareform(missing_pixels(x, fraction=0.0)) ** 2, full)
    with pytest.raises(InputError, match="fraction"):
        missing_pixels(x, fraction=1.0)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("perplexity", [2.0, 30.0, 70.0])
def test_affinity_rows_have_the_entropy_asked_for(scale, perplexity):
    x = scale * np.random.default_rng(0).normal(size=(80, 5))
    sq = squareform(pdist(x, "sqeuclidean"))
    np.fill_diagonal(sq, np.inf)
    rows = perturb._conditional_affinities(sq, np.log(perplexity), 1e-10)
    logs = np.log(rows, where=rows > 0, out=np.zeros_like(rows))
    np.testing.assert_allclose(np.exp(-(rows * logs).sum(axis=1)), perplexity, rtol=1e-8)
    affinity = entropic_affinities(x, perplexity)
    np.testing.assert_allclose(affinity, (rows + rows.T) / 2)
    assert affinity.sum() == pytest.approx(80)
    assert not np.diag(affinity).any()


def test_affinities_match_sklearns_up_to_its_tolerance():
    from sklearn.manifold._t_sne import _joint_probabilities

    x = np.random.default_rng(0).normal(size=(60, 4))
    theirs = _joint_probabilities(squareform(pdist(x, "sqeuclidean")).astype(np.float32), 15.0, 0)
    np.testing.assert_allclose(squareform(theirs) * 60, entropic_affinities(x, 15.0), atol=1e-5)


def test_more_twins_than_the_perplexity_share_a_row_equally():
    x = np.repeat(np.random.default_rng(0).normal(size=(3, 4)), [20, 5, 5], axis=0)
    affinity = entropic_affinities(x, 4.5)
    twins = affinity[:20, :20][~np.eye(20, dtype=bool)]
    np.testing.assert_allclose(twins, 1 / 19)


@pytest.mark.parametrize("perplexity", [1.0, 9.0])
def test_perplexity_out_of_reach_is_refused(perplexity):
    with pytest.raises(InputError, match="perplexity"):
        entropic_affinities(np.eye(10), perplexity)
