"""NeucMDS translates without changing a number."""

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import pdist, squareform

from neucmds import InputError, LandmarkNeucMDS, NeucMDS, neuc_mds


@pytest.fixture
def features():
    return np.random.default_rng(0).normal(size=(40, 6))


@pytest.fixture
def dissimilarity(features):
    return squareform(pdist(features, "cityblock"))


def test_the_estimator_gives_what_the_function_gives(dissimilarity):
    est = NeucMDS(n_components=5, method="neuc").fit(dissimilarity)
    emb = neuc_mds(dissimilarity, 5, "neuc")
    for ours, theirs in (
        (est.embedding_, emb.coordinates),
        (est.signs_, emb.signs),
        (est.eigenvalues_, emb.info.eigenvalues),
        (est.weights_, emb.weights),
    ):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_allclose(
        np.sum((est.dissimilarities(squared=True) - dissimilarity**2) ** 2),
        est.stress_,
    )
    assert (
        NeucMDS().fit_transform(dissimilarity.astype(np.float32)).dtype
        == np.float32
    )


def test_features_in_a_dask_array_are_features(features):
    da = pytest.importorskip("dask.array")
    lazy = da.from_array(features, chunks=(16, 6))
    ours = NeucMDS(3, metric="angular").fit(lazy)
    expected = NeucMDS(3, metric="angular").fit(features)
    np.testing.assert_allclose(
        ours.embedding_, expected.embedding_, atol=1e-10
    )
    np.testing.assert_allclose(
        ours.transform(lazy[:4]), expected.transform(features[:4])
    )


def test_the_score_is_on_the_scale_of_the_fit(features):
    """Lengths of paths are squared by the fit, and so `squared` is refused."""
    ring = sparse.csr_array(
        np.roll(np.eye(40), 1, axis=1) + np.roll(np.eye(40), -1, axis=1)
    )
    steps = np.abs(np.subtract.outer(np.arange(40), np.arange(40)))
    paths = np.minimum(steps, 40 - steps).astype(float)
    assert NeucMDS(4, metric="shortest_path").fit(ring).score(paths) > 0.9
    for estimator in (NeucMDS, LandmarkNeucMDS):
        with pytest.raises(
            InputError, match="squared=True is for dissimilarities"
        ):
            estimator(2, metric="shortest_path", squared=True).fit(ring)

    def city_blocks(x, y):
        return (
            np.abs(x[:, None] - y).sum(axis=2)
            if x.ndim == 2
            else np.abs(x - y).sum()
        )

    est = NeucMDS(6, metric=city_blocks, squared=True).fit(features)
    d = est.result_.between(
        est.transform(features), est.embedding_, squared=True
    )
    given = squareform(pdist(features, "cityblock"))
    r2 = 1 - np.sum((d - given) ** 2) / np.sum((given - given.mean()) ** 2)
    assert est.score(features) == pytest.approx(r2)
