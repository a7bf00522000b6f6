"""Landmarks: placement that stays close, and rows by the chunk."""

import tracemalloc

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from neucmds import InputError, LandmarkNeucMDS, neuc_mds
from neucmds.datasets import random_simplex


def sq_dissimilarities(x, y, signs):
    return (
        cdist(x[:, signs > 0], y[:, signs > 0]) ** 2
        - cdist(x[:, signs < 0], y[:, signs < 0]) ** 2
    )


def stress(coordinates, signs, d):
    errors = sq_dissimilarities(coordinates, coordinates, signs) - d
    return float(np.sum(errors**2) - np.sum(np.diag(errors) ** 2))


# How close


@pytest.mark.slow
@pytest.mark.parametrize(
    ("placement", "landmarks"),
    [("auto", "maxmin"), ("least_squares", "random"), ("linear", "random")],
)
def test_what_k_coordinates_express_exactly_is_placed_exactly(
    placement, landmarks
):
    signs = np.array([1.0, 1.0, 1.0, -1.0])
    x = np.random.default_rng(3).normal(size=(90, 4))
    d = sq_dissimilarities(x, x, signs)
    est = LandmarkNeucMDS(
        (3, 1),
        20,
        landmarks=landmarks,
        placement=placement,
        squared=True,
        random_state=0,
    )
    y = est.fit_transform(d)
    np.testing.assert_allclose(
        sq_dissimilarities(y, y, est.signs_), d, atol=1e-6 * d.max()
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("k", "share", "bar"),
    [(10, 0.25, 1.0644), (10, 0.10, 1.0898), (100, 0.25, 1.5)],
)
@pytest.mark.parametrize("method", ["neuc", "neuc+"])
def test_landmarks_come_close_to_embedding_everything(k, share, bar, method):
    """The paper's figures for Random-simplex."""
    d = random_simplex(1000, random_state=0)
    est = LandmarkNeucMDS(
        k, share, method=method, squared=True, random_state=0
    )
    reached = stress(est.fit_transform(d), est.signs_, d)
    assert reached <= bar * neuc_mds(d, k, method, squared=True).stress


def test_plain_triangulation_blows_up_and_the_default_does_not():
    d, reached = random_simplex(1000, random_state=1), {}
    settings = {"method": "neuc+", "squared": True, "random_state": 1}
    for placement in ("auto", "linear"):
        est = LandmarkNeucMDS(100, 0.25, placement=placement, **settings)
        reached[placement] = stress(est.fit_transform(d), est.signs_, d)
    assert reached["linear"] > 4 * reached["auto"]


# Ways in and ways out


@pytest.fixture
def features():
    return np.random.default_rng(0).normal(size=(300, 6))


def test_neither_the_matrix_nor_the_block_ever_exists():
    rows = np.random.default_rng(0).normal(size=(40_000, 5))
    est = LandmarkNeucMDS(
        2, 200, metric="cityblock", random_state=0, n_jobs=2
    ).fit(rows)
    tracemalloc.start()
    est.transform(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (
        peak < 60e6
    )  # the 40,000 × 200 block is 64 MB and squared once more; D is 12.8 GB


@pytest.mark.parametrize("n_near", [0, 10])
@pytest.mark.parametrize("n_landmarks", [50, 1.0])
def test_fit_places_all_objects(features, n_landmarks, n_near, tmp_path):
    features = features[:100]
    settings = {
        "metric": "cityblock",
        "n_near": n_near,
        "loss": "relative",
        "random_state": 0,
        "n_init": 1,
    }
    est = LandmarkNeucMDS(3, n_landmarks, **settings).fit(features)
    x = est.embedding_
    assert x.shape == (100, 3)
    np.testing.assert_array_equal(est.result_.coordinates, x)
    np.testing.assert_array_equal(est.result_.landmarks, est.landmarks_)
    np.testing.assert_array_equal(
        x[est.landmarks_], est.landmark_result_.coordinates
    )
    others = np.setdiff1d(np.arange(100), est.landmarks_)
    np.testing.assert_allclose(
        x[others], est.transform(features)[others], atol=1e-9
    )
    again = LandmarkNeucMDS(3, n_landmarks, **settings)
    np.testing.assert_array_equal(again.fit_transform(features), x)
    np.testing.assert_array_equal(
        again.fit_transform(features, out=tmp_path / "x.npy"), x
    )
    np.testing.assert_array_equal(again.embedding_, x)
    assert est.kneighbors(n_neighbors=2)[1].shape == (100, 2)
    assert f"of the {est.landmarks_.size} landmarks alone" in repr(est.result_)


# Which landmarks


def test_maxmin_spreads_features_matrices_and_dask_arrays_alike(features):
    da = pytest.importorskip("dask.array")
    d = cdist(features, features, "cityblock")
    settings = {
        "n_components": 2,
        "n_landmarks": 40,
        "landmarks": "maxmin",
        "random_state": 0,
    }
    settings["placement"] = (
        "least_squares"  # not by folds: where the landmarks are is the claim
    )
    by_metric = LandmarkNeucMDS(metric="cityblock", **settings).fit(features)
    by_matrix = LandmarkNeucMDS(**settings).fit(d)
    by_dask = LandmarkNeucMDS(**settings).fit(da.from_array(d, chunks=100))
    spread = by_dask.landmarks_
    assert spread.size == 40 == np.unique(spread).size
    np.testing.assert_allclose(
        by_dask.transform(da.from_array(d, chunks=100)).compute(),
        by_dask.transform(d),
        atol=1e-10,
    )
    settings["landmarks"] = "random"
    drawn = LandmarkNeucMDS(**settings).fit(d).landmarks_
    for chosen in (by_metric.landmarks_, by_matrix.landmarks_, spread):
        assert d[:, chosen].min(axis=1).max() < d[:, drawn].min(axis=1).max()


def test_a_metric_that_gives_nan_is_named_with_the_pair(features):
    features = np.abs(features)
    features[200:202] = 0  # Bray-Curtis of two empty samples is 0/0
    message = (
        "metric='braycurtis' gives NaN or infinity, first for objects 200 and 201; drop "
        "those objects .rows of zeros alone have no Bray"
    )
    with (
        pytest.raises(InputError, match=message),
        np.errstate(invalid="ignore"),
    ):
        LandmarkNeucMDS(
            2, landmarks=[*range(20), 200, 201], metric="braycurtis"
        ).fit(features)


def undefined_far_out(x, y):
    return (
        np.nan
        if max(x[0], y[0]) > 50 and min(x[0], y[0]) < 0
        else np.abs(x - y).sum()
    )


def test_later_arrivals_with_nan_are_named_by_their_own_row(features):
    est = LandmarkNeucMDS(
        2, landmarks=range(10), metric=undefined_far_out
    ).fit(features)
    features[[123, 250], 0] = 99
    below = np.flatnonzero(features[:10, 0] < 0)
    message = f"NaN or infinity, first for objects 123 and {below[0]};"
    with pytest.raises(InputError, match=message):
        est.transform(features)


def test_a_block_without_its_landmarks_is_refused(features, tmp_path):
    block = cdist(features, features[:30])
    with pytest.raises(InputError, match="pass the landmarks' rows"):
        LandmarkNeucMDS(2).fit(block)
    with pytest.raises(
        InputError, match="30 columns, but 10 landmarks are named"
    ):
        LandmarkNeucMDS(2, landmarks=range(10)).fit(block)
    est = LandmarkNeucMDS(2, landmarks=range(30)).fit(block)
    block[40, 3] = -1
    with pytest.raises(InputError, match="negative entry"):
        est.transform(block, out=tmp_path / "coordinates.npy")
    assert list(tmp_path.iterdir()) == []


# Dask


def test_dask_features_come_back_as_a_lazy_dask_array(features):
    da = pytest.importorskip("dask.array")
    lazy = da.from_array(features, chunks=(70, 4))
    settings = {
        "n_components": 3,
        "n_landmarks": 30,
        "metric": "cityblock",
        "method": "neuc+",
    }
    est = LandmarkNeucMDS(**settings).fit(lazy)
    placed = est.transform(lazy)
    assert isinstance(placed, da.Array)
    assert placed.chunks == ((70, 70, 70, 70, 20), (3,))
    expected = LandmarkNeucMDS(**settings).fit(features)
    np.testing.assert_array_equal(est.landmarks_, expected.landmarks_)
    np.testing.assert_allclose(
        placed.compute(), expected.transform(features), atol=1e-10
    )
    with pytest.raises(InputError, match="out= is for arrays in memory"):
        est.transform(lazy, out="coordinates.npy")
    with pytest.raises(InputError, match="unknown chunk sizes"):
        LandmarkNeucMDS(metric="cityblock").fit(lazy[lazy[:, 0] > 0])


def test_a_dask_chunk_is_placed_in_pieces_and_errors_name_rows_of_the_whole(
    features,
):
    da = pytest.importorskip("dask.array")
    many = np.tile(
        features, (40, 1)
    )  # 12,000 rows to 300 landmarks: two pieces
    est = LandmarkNeucMDS(
        2, landmarks=range(300), metric="cityblock", method="neuc"
    ).fit(features)
    found = est.transform(da.from_array(many, chunks=(-1, -1))).compute()
    np.testing.assert_allclose(found, est.transform(many), atol=1e-10)
    many[9000, 0] = np.nan
    with pytest.raises(InputError, match="objects 9000 and 0"):
        est.transform(da.from_array(many, chunks=(5000, -1))).compute()


def test_shrinkage_keeps_near_objects_near_by_the_relative_loss():
    """Few landmarks per coordinate: noise in negative coordinates makes far objects near."""
    rng = np.random.default_rng(0)
    kinds = np.repeat(rng.random((30, 200)) < 0.15, 20, axis=0)
    objects = rng.permutation(kinds ^ (rng.random(kinds.shape) < 0.02))
    D = 200 * cdist(objects, objects, "hamming")
    new = np.arange(100, 600)

    def kept(placement):
        est = LandmarkNeucMDS(
            32,
            landmarks=np.arange(100),
            loss="relative",
            placement=placement,
            random_state=0,
        ).fit(D[:, :100])
        assert est.result_.signature[1] > 0
        fitted = est.result_.dissimilarities()[np.ix_(new, new)]
        given = D[np.ix_(new, new)]
        np.fill_diagonal(fitted, np.inf)
        np.fill_diagonal(given, np.inf)
        tenth = np.partition(given, 9, axis=1)[:, 9:10]
        nearest = np.argsort(fitted, axis=1)[:, :10]
        return np.mean(np.take_along_axis(given, nearest, axis=1) <= tenth)

    assert kept("auto") > kept("least_squares") + 0.08
