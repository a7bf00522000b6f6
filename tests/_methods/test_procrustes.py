import numpy as np
import pytest
from scipy.linalg import expm
from scipy.spatial import procrustes as scipy_procrustes

from neucmds import InputError, neuc_mds, procrustes


def centered(n, k, rng):
    x = rng.normal(size=(n, k)) * np.linspace(2, 0.5, k)
    return x - x.mean(axis=0)


def embedding_of(x, signs, rng):
    """An Embedding with these coordinates: only they matter here."""
    from dataclasses import replace

    d = rng.random((len(x), len(x)))
    emb = neuc_mds(d + d.T - np.diag(np.diag(d + d.T)), x.shape[1], "neuc")
    return replace(emb, coordinates=x, signs=np.asarray(signs, dtype=float))


@pytest.mark.parametrize("seed", range(5))
def test_a_positive_signature_gives_scipys_disparity(seed):
    rng = np.random.default_rng(seed)
    x, y = centered(40, 3, rng), centered(40, 3, rng)
    y = y + 0.5 * x
    ours = procrustes(embedding_of(x, [1, 1, 1], rng), embedding_of(y, [1, 1, 1], rng))
    assert ours.disparity == pytest.approx(scipy_procrustes(x, y)[2], rel=1e-10)


@pytest.mark.parametrize("seed", range(10))
def test_an_isometry_of_the_form_is_undone(seed):
    rng = np.random.default_rng(seed)
    signs = np.array([1.0, 1, 1, -1, -1])
    x = centered(60, 5, rng)
    k = rng.normal(size=(5, 5))
    boost = expm(0.5 * (k - k.T) * signs)
    moved = 3.0 * x @ boost
    found = procrustes(embedding_of(x, signs, rng), embedding_of(moved, signs, rng))
    assert found.disparity < 1e-18
    np.testing.assert_allclose(found.coordinates, x, atol=1e-8)
    t = found.isometry
    np.testing.assert_allclose(t @ np.diag(signs) @ t.T, np.diag(signs), atol=1e-8)
    assert found.scale == pytest.approx(1 / 3)


def test_an_isometry_changes_no_dissimilarity():
    rng = np.random.default_rng(1)
    signs = np.array([1.0, 1, -1])
    x, y = centered(30, 3, rng), centered(30, 3, rng)
    a, b = embedding_of(x, signs, rng), embedding_of(y, signs, rng)
    found = procrustes(a, b, scaling=False)
    np.testing.assert_allclose(
        b.between(found.coordinates, found.coordinates), b.between(y, y), atol=1e-9
    )


def test_other_signatures_and_sizes_are_refused():
    rng = np.random.default_rng(0)
    x = centered(30, 3, rng)
    a = embedding_of(x, [1, 1, 1], rng)
    with pytest.raises(InputError, match=r"\(3, 0\) and \(2, 1\)"):
        procrustes(a, embedding_of(x, [1, 1, -1], rng))
    with pytest.raises(InputError, match="30 and 20 objects"):
        procrustes(a, embedding_of(x[:20], [1, 1, 1], rng))
