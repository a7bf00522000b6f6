"""Two levels: few dissimilarities per object, near pairs right, one place for one object."""

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.csgraph import dijkstra
from scipy.spatial.distance import cdist, pdist, squareform

from neucmds import (
    Embedding,
    InputError,
    LandmarkNeucMDS,
    NeucMDS,
    evaluate,
)
from neucmds.errors import (
    ConvergenceWarning,
    FewerComponentsWarning,
    OverfitWarning,
)

SETTINGS = {"n_landmarks": 150, "loss": "relative", "random_state": 0}


def sheet(n, seed=0):
    """Draw points of a bent sheet."""
    flat = np.random.default_rng(seed).uniform(-1, 1, size=(n, 2))
    return np.column_stack(
        [flat, np.sin(2 * flat[:, 0]), flat[:, 0] * flat[:, 1]]
    )


class Counted:
    """A distance that counts how often it is computed."""

    calls = 0

    def __call__(self, a, b):
        self.calls += 1
        return float(np.abs(a - b).sum())


def sq_estimates(x, y, signs):
    return (
        cdist(x[:, signs > 0], y[:, signs > 0]) ** 2
        - cdist(x[:, signs < 0], y[:, signs < 0]) ** 2
    )


def near_error(x, signs, d):
    """Median relative error of the ten nearest of every object."""
    near = np.argsort(d, axis=1)[:, 1:11]
    d_hat = np.sqrt(np.maximum(sq_estimates(x, x, signs), 0))
    found, true = (np.take_along_axis(one, near, axis=1) for one in (d_hat, d))
    return float(np.median(np.abs(found / true - 1)))


@pytest.fixture(scope="module")
def points():
    return sheet(600)


@pytest.fixture(scope="module")
def fitted(points):
    est = LandmarkNeucMDS(4, n_near=15, metric="cityblock", **SETTINGS)
    return est, est.fit_transform(points)


def test_objects_are_compared_with_few_landmarks_and_near_pairs_are_right(
    points,
):
    count, d = Counted(), cdist(points, points, "cityblock")
    two = LandmarkNeucMDS(4, n_near=15, metric=count, **SETTINGS)
    x = two.fit_transform(points)
    # 24 global and 15 near landmarks of each, and all pairs of √(20n) global ones
    assert count.calls <= 39 * 600 + 20 * 600 + 64 * 32
    count.calls = 0
    placed = two.transform(sheet(50, seed=1))
    assert count.calls == 39 * 50
    one = LandmarkNeucMDS(
        4, 39, metric="cityblock", loss="relative", random_state=0
    )
    few = near_error(one.fit_transform(points), one.signs_, d)
    assert near_error(x, two.signs_, d) < 0.7 * few
    assert np.isfinite(placed).all()


def test_an_object_is_placed_the_same_wherever_it_stands(fitted):
    est, new = fitted[0], sheet(40, seed=2)
    whole, turned = est.transform(new), est.transform(new[::-1])[::-1]
    np.testing.assert_allclose(turned, whole, atol=1e-12)
    np.testing.assert_allclose(est.transform(new[7:8]), whole[7:8], atol=1e-9)
    np.testing.assert_allclose(
        est.transform(new.astype(np.float32)), whole, atol=1e-4
    )
    new[:, 2] = -0.0
    np.testing.assert_allclose(
        est.transform(new + 0.0), est.transform(new), atol=1e-9
    )


def test_dissimilarities_in_a_matrix_give_what_the_metric_gives(points):
    d = cdist(points, points, "cityblock")
    est = LandmarkNeucMDS(4, n_near=15, **SETTINGS)
    x = est.fit_transform(d)
    assert near_error(x, est.signs_, d) < 0.07
    np.testing.assert_array_equal(
        x[est.landmarks_], est.landmark_result_.coordinates
    )
    np.testing.assert_allclose(est.result_.coordinates, x)


def test_a_caller_may_compare_objects_alone(points, fitted):
    est, new = fitted[0], sheet(30, seed=3)
    d = cdist(new, points[est.landmarks_], "cityblock")
    rows, known = np.full(d.shape, np.nan), est.landmarks_to_ask(30)
    np.put_along_axis(
        rows, known, np.take_along_axis(d, known, axis=1), axis=1
    )
    coarse = est.landmark_result_.transform(rows)
    asked = est.landmarks_to_ask(coarse)
    assert asked.shape == (30, 15)
    np.put_along_axis(
        rows, asked, np.take_along_axis(d, asked, axis=1), axis=1
    )
    hubs = est.landmark_result_
    d_hat = hubs.between(hubs.transform(rows), hubs.coordinates, squared=True)
    found = np.sqrt(np.maximum(d_hat, 0)) / d - 1
    near = np.argsort(d, axis=1)[:, :10]
    assert np.median(np.abs(np.take_along_axis(found, near, axis=1))) < 0.07


@pytest.mark.parametrize("name", ["result_", "landmark_result_"])
def test_a_loaded_embedding_says_which_landmarks_to_ask(
    points, fitted, name, tmp_path
):
    est, new = fitted[0], sheet(30, seed=3)
    getattr(est, name).save(tmp_path / "two_levels.npz")
    loaded = Embedding.load(tmp_path / "two_levels.npz")
    known = loaded.landmarks_to_ask(30)
    np.testing.assert_array_equal(known, est.landmarks_to_ask(30))
    d = cdist(new, points[est.landmarks_], "cityblock")
    rows = np.full(d.shape, np.nan)
    lengths = np.take_along_axis(d, known, axis=1)
    np.put_along_axis(rows, known, lengths, axis=1)
    coarse = loaded.transform(rows)
    np.testing.assert_array_equal(
        loaded.landmarks_to_ask(coarse), est.landmarks_to_ask(coarse)
    )
    one_level = LandmarkNeucMDS(2, 50, metric="cityblock").fit(points)
    with pytest.raises(InputError, match="no two levels"):
        one_level.result_.landmarks_to_ask(3)
    with pytest.raises(InputError, match="-1 new objects"):
        loaded.landmarks_to_ask(-1)


def test_chunks_of_dask_are_placed_where_they_lie(points, fitted):
    da = pytest.importorskip("dask.array")
    est = LandmarkNeucMDS(4, n_near=15, metric="cityblock", **SETTINGS)
    lazy = da.from_array(points, chunks=(170, -1))
    placed = est.fit_transform(lazy).compute()
    # A placement ends where a step promises less than 1e-9 of the loss. That fixes coordinates to
    # the square root of it, and after one more step to about 1e-8; sums of other chunks round
    # otherwise.
    np.testing.assert_allclose(placed, fitted[1], atol=1e-7)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_near": -1}, "n_near=-1 must be a whole number"),
        (
            {"n_near": 5, "n_landmarks": 50},
            "need at least 53 landmarks, not 50",
        ),
        (
            {"n_near": None, "n_components": 50},
            "need at least 750 landmarks, not 600",
        ),
        ({"n_near": 5, "placement": "linear"}, "place objects by the loss"),
        (
            {"n_near": 5, "init": (np.eye(48, 4), np.ones(4))},
            "pass those of all 600, or of the 600",
        ),
        ({"n_near": 5, "method": "neuc"}, "need method='refined'"),
        ({"n_near": 5, "n_components": 0.9}, "and a number of coordinates"),
    ],
)
def test_what_two_levels_do_not_take_is_refused(points, settings, message):
    with pytest.raises(InputError, match=message):
        LandmarkNeucMDS(
            **{"n_components": 4, "metric": "cityblock", **settings}
        ).fit(points)


def test_questions_without_two_levels_are_refused(points):
    est = LandmarkNeucMDS(4, 20, metric="cityblock").fit(points)
    with pytest.raises(InputError, match="n_near=0"):
        est.landmarks_to_ask(3)
    d = cdist(points, points[:100], "cityblock")
    with pytest.raises(InputError, match="X is 600 × 100, but two levels"):
        LandmarkNeucMDS(4, n_near=5, landmarks=np.arange(100)).fit(d)


def test_many_landmarks_are_searched_about_the_nearest_global_one():
    est = LandmarkNeucMDS(
        2, 400, n_near=4, metric="cityblock", loss="relative", random_state=0
    )
    hubs = est.fit(sheet(600)).landmark_result_
    places = est.transform(sheet(100, seed=1))
    asked = est.landmarks_to_ask(places)
    nearest = np.argsort(
        sq_estimates(places, hubs.coordinates, hubs.signs), axis=1
    )[:, :4]
    assert (
        np.mean(
            [np.isin(a, b).mean() for a, b in zip(asked, nearest, strict=True)]
        )
        > 0.9
    )


@pytest.mark.slow
def test_sampled_pairs_of_many_rows_start_from_two_levels():
    points, heard = sheet(10_000), []
    settings = {
        "metric": "cityblock",
        "loss": "relative",
        "n_pairs": 20,
        "max_iter": 5,
    }
    est = NeucMDS(2, callback=lambda *told: heard.append(told[2]), **settings)
    with pytest.warns(ConvergenceWarning):
        x = est.fit_transform(points)
    assert "placing 10000 objects" in heard
    few = np.arange(0, 10_000, 10)
    d = cdist(points[few], points[few], "cityblock")
    assert near_error(x[few], est.signs_, d) < 0.2


# Graphs


def walled(side):
    """Draw a grid of streets of different lengths, with a wall that ends before the border."""
    rng, number = (
        np.random.default_rng(0),
        np.arange(side * side).reshape(side, side),
    )
    i = np.concatenate([number[:, :-1].ravel(), number[:-1].ravel()])
    j = np.concatenate([number[:, 1:].ravel(), number[1:].ravel()])
    wall = (j == i + side) & (i // side == side // 2) & (i % side < side - 6)
    i, j = i[~wall], j[~wall]
    return sparse.coo_array(
        (rng.uniform(1, 1.5, size=i.size), (i, j)), shape=(side**2,) * 2
    )


def test_near_nodes_of_a_graph_are_told_apart_by_the_landmarks_near_them():
    graph = walled(16)
    d = dijkstra(graph, directed=False)
    settings = {
        "metric": "shortest_path",
        "loss": "relative",
        "random_state": 0,
    }
    two = LandmarkNeucMDS(4, 90, n_near=None, **settings)
    one = LandmarkNeucMDS(4, 36, **settings)
    x = two.fit_transform(graph)
    assert near_error(x, two.signs_, d) < 0.8 * near_error(
        one.fit_transform(graph), one.signs_, d
    )
    np.testing.assert_allclose(two.transform([5, 3]), x[[5, 3]], rtol=1e-9)
    np.testing.assert_array_equal(
        x[two.landmarks_], two.landmark_result_.coordinates
    )
    assert two.score([1, 2, 3, 4]) > 0.95


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
def test_nodes_of_a_sparse_tensor_are_placed_where_it_lies():
    torch = pytest.importorskip("torch")
    graph, settings = (
        walled(10),
        {"n_near": 6, "metric": "shortest_path", "random_state": 0},
    )
    x = LandmarkNeucMDS(2, 60, **settings).fit_transform(graph)
    tensor = torch.sparse_coo_tensor(
        np.stack(graph.coords), graph.data, graph.shape
    )
    est = LandmarkNeucMDS(2, 60, **settings)
    placed = est.fit_transform(tensor)
    assert isinstance(placed, torch.Tensor)
    np.testing.assert_allclose(placed.numpy(), x, atol=1e-6)
    np.testing.assert_allclose(est.transform([7, 3]), x[[7, 3]], atol=1e-6)


@pytest.mark.filterwarnings("ignore:the loss of held-out")
def test_graphs_of_many_edges_of_length_zero_are_searched_to_the_end():
    rng, i = np.random.default_rng(0), np.arange(1, 300)
    lengths = (rng.random(299) > 0.9) * 1.0
    graph = sparse.coo_array(
        (lengths, (i, rng.integers(0, i))), shape=(300, 300)
    )
    settings = {
        "metric": "shortest_path",
        "loss": "relative",
        "random_state": 0,
    }
    for est in (
        LandmarkNeucMDS(2, 60, n_near=6, **settings),
        NeucMDS(2, n_pairs=20, **settings),
    ):
        assert np.isfinite(est.fit_transform(graph)).all()
    with pytest.raises(InputError, match="global landmarks are in one place"):
        LandmarkNeucMDS(2, 60, n_near=6, **settings).fit(graph * 0)


@pytest.mark.parametrize(
    ("loss", "metric", "scale"),
    [
        ("squared", "precomputed", 7.0),
        ("squared", "cityblock", 1e-9),
        ("relative", "precomputed", 1e-9),
        ("relative", "cityblock", 7.0),
    ],
)
def test_scaled_data_have_scaled_coordinates(loss, metric, scale):
    x = np.random.default_rng(0).normal(size=(200, 2))
    data = x
    if metric == "precomputed":
        data = np.abs(x[:, None] - x).sum(axis=2)

    def fitted(data):
        return LandmarkNeucMDS(2, 100, n_near=6, loss=loss, metric=metric).fit(
            data
        )

    expected = scale * fitted(data).embedding_
    np.testing.assert_allclose(
        fitted(scale * data).embedding_,
        expected,
        atol=1e-6 * np.abs(expected).max(),
    )


@pytest.mark.parametrize("loss", ["squared", "relative"])
def test_r2_and_stress_are_those_of_pairs_that_were_not_fitted(loss):
    x = np.random.default_rng(0).normal(size=(600, 100))
    est = LandmarkNeucMDS(8, 400, n_near=None, loss=loss, metric="euclidean")
    with pytest.warns(OverfitWarning, match=r"n_near.*lower n_components"):
        est.fit(x)
    sq_d = squareform(pdist(x[est.landmarks_], "sqeuclidean"))
    landmarks = est.landmark_result_
    quality = evaluate(landmarks, sq_d, squared=True)
    error = 4 * landmarks.info.r2_standard_error
    assert abs(landmarks.r2 - quality.r2) < error < 0.5 * abs(quality.r2)
    assert landmarks.stress == pytest.approx(quality.stress, rel=0.1)
    assert landmarks.info.held_out_pairs > 100


def test_fitted_pairs_are_not_held_out():
    x = np.random.default_rng(0).normal(size=(60, 6))
    est = LandmarkNeucMDS(1, 60, n_near=48, metric="cityblock", random_state=0)
    info = est.fit(x).landmark_result_.info
    assert info.held_out_pairs == 0
    assert info.overfit_ratio == 1


@pytest.mark.parametrize("loss", ["squared", "relative"])
def test_r2_of_a_graph_is_that_of_paths_that_were_not_fitted(loss):
    rng = np.random.default_rng(0)
    n = 600
    ends = rng.integers(n, size=(2, 4 * n))
    edges = sparse.csr_array((np.ones(4 * n), ends), shape=(n, n))
    graph = edges.maximum(edges.T)
    est = LandmarkNeucMDS(
        4, 400, n_near=None, loss=loss, metric="shortest_path"
    )
    with pytest.warns(OverfitWarning, match=r"n_near.*lower n_components"):
        est.fit(graph)
    lengths = dijkstra(graph)[np.ix_(est.landmarks_, est.landmarks_)]
    landmarks = est.landmark_result_
    true = evaluate(landmarks, lengths)
    # Ten landmarks were held out: so few that no standard error is known.
    assert landmarks.r2 == pytest.approx(true.r2, rel=0.1)


def test_data_that_k_holds_are_fitted_without_a_warning(recwarn):
    x = np.random.default_rng(0).normal(size=(600, 2))
    est = LandmarkNeucMDS(4, 300, n_near=None, loss="relative", metric="l1")
    assert est.fit(x).landmark_result_.r2 > 0.9
    assert not [w for w in recwarn if w.category is OverfitWarning]


def test_fewer_coordinates_than_requested_are_told():
    est = LandmarkNeucMDS(3, 150, n_near=15, metric="euclidean")
    with pytest.warns(FewerComponentsWarning, match="^1 of 3 coordinates"):
        est.fit(np.random.default_rng(0).normal(size=(600, 1)))
