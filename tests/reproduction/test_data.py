"""Data are found or asked for in one line; perturbations are what the paper says they are."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from neucmds.datasets import hop_distances
from neucmds.errors import InputError
from reproduction.data import (
    entropic_affinities,
    list_dissimilarities,
    load_dissimilarity,
    load_genomics,
    load_images,
    missing_pixels,
    wrapped_hops,
)


@pytest.fixture(autouse=True)
def _no_ambient_data(monkeypatch):
    monkeypatch.delenv("NEUCMDS_DATA", raising=False)


@pytest.mark.parametrize("below", ["", "images"])
def test_npz_is_found_in_the_folder_and_below_it(tmp_path, below, monkeypatch):
    x, y = (
        np.arange(80, dtype=np.uint8).reshape(5, 4, 4),
        np.arange(5, dtype=np.uint8),
    )
    (tmp_path / below).mkdir(exist_ok=True)
    np.savez(tmp_path / below / "mnist.npz", x=x, y=y)
    found = load_images("mnist", data_home=tmp_path, n=3)
    np.testing.assert_array_equal(found.images, x[:3])
    np.testing.assert_array_equal(found.labels, y[:3])
    monkeypatch.setenv("NEUCMDS_DATA", str(tmp_path))
    np.testing.assert_array_equal(load_images("mnist", n=3).images, x[:3])


def test_stored_data_come_on_the_scale_that_is_said(data_home):
    names = list_dissimilarities(data_home)
    assert "wish12" in names
    for name in names:
        stored = load_dissimilarity(name, data_home=data_home)
        d = stored.dissimilarity
        assert np.isfinite(d).all()
        assert (d >= 0).all()
        assert stored.source
        assert stored.names is None or len(stored.names) == len(d)
        if not name.endswith("_asym"):
            np.testing.assert_allclose(d, d.T)
    for path in sorted((data_home / "genomics").glob("*.npz")):
        table = load_genomics(path.stem, data_home=data_home)
        assert len(table.labels) == len(table.values)
        assert (
            0 <= table.values.min() < table.values.max() < 25
        )  # raw ones reach tens of thousands


def wrapped_by_brute_force(x):
    flat = x.reshape(len(x), -1).astype(int)
    return np.sqrt((((flat[:, None] - flat[None]) % 256) ** 2).sum(axis=2))


def test_wrapped_bytes_rank_each_row_by_its_own_differences():
    # 600 bytes: more than one exact partial sum
    x = np.random.default_rng(0).integers(0, 256, (80, 30, 20), dtype=np.uint8)
    wrapped = wrapped_by_brute_force(x)
    assert (wrapped != wrapped.T).any()
    np.testing.assert_array_equal(
        wrapped_hops(x, 5), hop_distances(wrapped, 5, precomputed=True)
    )
    with pytest.raises(InputError, match="uint8"):
        wrapped_hops(np.zeros((10, 2)), 2)


def test_missing_pixels_are_left_out_of_both_images():
    x = np.random.default_rng(0).normal(size=(60, 500))
    full = pdist(x, "sqeuclidean")
    kept = (
        squareform(
            missing_pixels(x, fraction=0.2, random_state=0), checks=False
        )
        ** 2
    )
    assert (kept / full).mean() == pytest.approx(0.8**2, rel=0.01)
    assert (kept < full).all()
    np.testing.assert_allclose(
        squareform(missing_pixels(x, fraction=0.0)) ** 2, full
    )
    # One entry of one image is gone: its pairs alone lose, each its own difference there.
    few = np.array([[0.0, 0, 0], [3, 4, 12], [6, 8, 24]])
    lost = (
        np.sum((few[:, None] - few) ** 2, axis=2)
        - missing_pixels(few, fraction=1 / 9) ** 2
    )
    image = lost.sum(axis=0).argmax()
    pixels = [np.square(few[image] - few)[:, a] for a in range(3)]
    assert any(np.allclose(lost[image], gone) for gone in pixels)
    assert np.allclose(np.delete(np.delete(lost, image, 0), image, 1), 0)
    with pytest.raises(InputError, match="fraction"):
        missing_pixels(x, fraction=1.0)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("perplexity", [2.0, 15.0, 50.0])
def test_affinities_are_those_of_tsne_up_to_its_tolerance(scale, perplexity):
    from sklearn.manifold._t_sne import _joint_probabilities

    x = np.random.default_rng(0).normal(size=(60, 4))
    sq = squareform(pdist(x, "sqeuclidean")).astype(np.float32)
    theirs = squareform(_joint_probabilities(sq, perplexity, 0)) * 60
    affinity = entropic_affinities(scale * x, perplexity)
    np.testing.assert_allclose(affinity, theirs, atol=1e-5)
    assert affinity.sum() == pytest.approx(60)
