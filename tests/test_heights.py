"""Heights as users see them: planted ones, what follows a fit, new objects, and refusals."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from neucmds import (
    Embedding,
    InputError,
    NeucMDS,
    bootstrap,
    evaluate,
    neuc_mds,
    procrustes,
)


def planted(n=60, curvature=0.0, seed=0):
    """Dissimilarities of points with signs (+, +, −) and heights, of which D̂ is exact."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3)) * [3.0, 2.0, 0.3]
    h = rng.exponential(2.0, size=n)
    gap = x[:, None] - x[None]
    sq = gap**2 @ [1.0, 1.0, -1.0] + h[:, None] + h
    d = np.sqrt(np.maximum(sq, 0.01))
    if curvature:
        c = np.sqrt(-curvature)
        d = 2 / c * np.arcsinh(c * d / 2)
    return d * (1 - np.eye(n)), h


def error(emb, D):
    off = D > 0
    return np.abs(emb.dissimilarities()[off] / D[off] - 1).mean()


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    """Take 40 steps at each curvature that is tried, not 150."""
    monkeypatch.setattr("neucmds.refine.scouting.SCOUT_ITERATIONS", 40)


@pytest.fixture(scope="module")
def fitted():
    D, _ = planted()
    return D, neuc_mds(D, (2, 1), loss="relative", heights=True, n_init=2)


def test_planted_heights_are_found(fitted):
    D, emb = fitted
    assert error(emb, D) < 1e-5
    _, h = planted()
    np.testing.assert_allclose(emb.heights, h, atol=1e-2)
    assert emb.signature == (2, 1)
    assert emb.axis_names[-1] == "height"
    assert neuc_mds(D, (2, 1), loss="relative", n_init=2).heights is None


@pytest.mark.parametrize("loss", ["distance", "relative", "absolute"])
def test_they_are_one_of_k_coordinates_of_every_loss(fitted, loss):
    D, _ = fitted
    with_heights, without = (
        neuc_mds(D, 4, loss=loss, heights=heights, n_init=2)
        for heights in (True, False)
    )
    assert with_heights.coordinates.shape == without.coordinates.shape
    assert sum(with_heights.signature) == 3
    assert with_heights.loss_value < 0.1 * without.loss_value


def test_listed_pairs_and_curved_forms_have_them(fitted):
    D, _ = fitted
    raised, plain = (
        neuc_mds(csr_array(D), (2, 0), loss="relative", heights=heights)
        for heights in (True, False)
    )
    assert error(raised, D) < 0.01
    assert error(plain, D) > 0.1
    curved, _ = planted(curvature=-0.3)
    unit = (curved.sum() / (60 * 59)) ** 2
    options = {"loss": "relative", "curvature": -0.3 * unit, "n_init": 2}
    assert (
        error(
            neuc_mds(curved, (2, 1), heights=True, **options), D * 0 + curved
        )
        < 1e-4
    )


def test_auto_keeps_them_where_they_help(fitted):
    D, _ = fitted
    options = {"loss": "relative", "heights": "auto", "n_init": 2}
    assert neuc_mds(D, 4, **options).heights is not None
    x = np.random.default_rng(0).normal(size=(40, 3))
    plain = np.linalg.norm(x[:, None] - x, axis=2)
    assert neuc_mds(plain, 3, **options).heights is None


def test_auto_leaves_them_out_where_the_mean_error_rises():
    D, _ = planted(40)
    # Two objects in one place: the floor hides from the loss that heights hold them apart.
    D[1] = D[0]
    D[:, 1] = D[:, 0]
    D[0, 1] = D[1, 0] = 1e-6
    auto, raised = (
        neuc_mds(D, 4, loss="relative", heights=heights, n_init=2)
        for heights in ("auto", True)
    )
    assert auto.heights is None
    assert raised.loss_value < 0.9 * auto.loss_value
    assert error(raised, D) > 10 * error(auto, D)


def test_the_words_for_the_space_name_them(fitted):
    _, emb = fitted
    assert emb.form_words == "flat, with a height per object"
    assert emb.form_words in repr(emb)
    D, _ = planted(curvature=-0.3)
    options = {"loss": "relative", "curvature": -1, "n_init": 1}
    curved = neuc_mds(D, (2, 1), heights=True, **options)
    assert curved.form_words.endswith("² and a height per object")


def test_auto_finds_curvature_signature_and_heights_together():
    D, _ = planted(24, curvature=-0.3)
    options = {"loss": "relative", "curvature": "auto", "n_init": 1}
    emb = neuc_mds(D, 4, heights="auto", **options)
    assert emb.heights is not None
    assert emb.curvature < 0
    assert error(emb, D) < 0.2 * error(neuc_mds(D, 4, **options), D)


def test_everything_after_the_fit_knows_them(fitted, tmp_path):
    D, emb = fitted
    n = len(D)
    d_hat = emb.dissimilarities()
    np.testing.assert_allclose(np.diag(d_hat), 0)
    np.testing.assert_allclose(emb.distance(0, range(n)), d_hat[0])
    plain, h = emb.coordinates[:, :-1], emb.heights
    gap = plain[:, None] - plain[None]
    sq = gap**2 @ emb.signs[:-1] + h[:, None] + h
    off = ~np.eye(n, dtype=bool)
    found = emb.dissimilarities(squared=True)
    np.testing.assert_allclose(found[off], sq[off], atol=1e-9)
    ids, distances = emb.neighbors(5)
    expected = np.argsort(np.where(off, d_hat, np.inf), axis=1)[:, :5]
    np.testing.assert_array_equal(ids, expected)
    np.testing.assert_allclose(
        distances, np.take_along_axis(d_hat, ids, axis=1)
    )
    index = emb.to_inner_product()
    scores = index.queries(emb.coordinates) @ index.vectors.T
    back = index.sq_dissimilarities(scores, emb.coordinates)
    np.testing.assert_allclose(back[off], sq[off], atol=1e-9)
    stress = np.sum((found - D**2)[off] ** 2)
    assert emb.stress == pytest.approx(stress, rel=1e-6, abs=1e-6)
    assert evaluate(emb, D).relative_error_mean < 1e-4
    emb.save(tmp_path / "emb.npz")
    again = Embedding.load(tmp_path / "emb.npz")
    np.testing.assert_array_equal(again.dissimilarities(), d_hat)
    np.testing.assert_array_equal(again.heights, h)
    assert list(emb.to_frame().columns)[-1] == "height"


@pytest.mark.parametrize("loss", ["distance", "relative", "absolute"])
def test_new_objects_have_them_too(loss):
    D, h = planted(80)
    old, new = D[:60, :60], D[60:, :60]
    emb = neuc_mds(old, (2, 1), loss=loss, heights=True, n_init=2)
    placed = emb.transform(new)
    assert np.abs(emb.between(placed, emb.coordinates) / new - 1).mean() < 1e-3
    more = emb.append(placed)
    np.testing.assert_allclose(more.heights[60:], h[60:], atol=0.1)
    assert np.abs(more.distance(70, 65) / D[70, 65] - 1) < 1e-2


def test_a_warm_start_goes_on_with_them(fitted):
    D, emb = fitted
    again = neuc_mds(D, loss="relative", init=emb)
    assert again.heights is not None
    assert again.loss_value <= emb.loss_value + 1e-9


def test_directed_objects_have_one_of_departure_and_one_of_arrival():
    D, _ = planted(40)
    late = np.random.default_rng(3).exponential(1.0, size=40)
    directed = np.sqrt(D**2 + late) * (1 - np.eye(40))
    options = {"loss": "relative", "directed": True, "n_init": 2}
    emb = neuc_mds(directed, (2, 1), heights=True, **options)
    without = neuc_mds(directed, (3, 1), **options)
    assert error(emb, directed) < 0.1 * error(without, directed)


def test_where_they_do_not_belong_they_are_refused(fitted):
    D, _ = fitted
    for options in (
        {},
        {"method": "neuc"},
        {"landmarks": 30, "loss": "relative"},
    ):
        with pytest.raises(InputError, match="heights"):
            neuc_mds(D, 3, heights=True, **options)
    with pytest.raises(InputError, match="heights"):
        neuc_mds(D, 3, loss="relative", heights="some")
    with pytest.raises(InputError, match="heights"):
        neuc_mds(D, 1, loss="relative", heights=True)


def test_estimators_take_them(fitted):
    D, _ = fitted
    est = NeucMDS(4, loss="relative", heights=True, n_init=2).fit(D)
    assert est.embedding_.shape == (60, 4)
    assert est.signs_[-1] == 0
    assert est.transform(D[:3]).shape == (3, 4)


def test_procrustes_lays_the_other_coordinates_over_each_other(fitted):
    _, emb = fitted
    assert procrustes(emb, emb).disparity < 1e-12
    assert procrustes(emb, emb[::-1].unnamed).disparity > 0.1


def test_leaving_one_object_out_finds_the_same_heights():
    D, _ = planted(n=20)
    whole = neuc_mds(D, (2, 1), loss="distance", heights=True)
    found = bootstrap(D, embedding=whole, resample="jackknife")
    spread = np.abs(found.clouds - whole.coordinates).max()
    assert spread < 1e-2 * np.ptp(whole.coordinates)
    with pytest.raises(InputError, match="resample='jackknife'"):
        bootstrap(D, embedding=whole, n_boot=2)


@pytest.mark.parametrize("loss", ["distance", "relative", "absolute"])
def test_an_object_passed_again_lands_where_it_was(loss):
    x = np.random.default_rng(0).normal(size=(12, 3))
    D = np.abs(x[:, None] - x).sum(axis=2)
    emb = neuc_mds(D, 3, loss=loss, heights=True)
    off = ~np.eye(12, dtype=bool)

    def mean_error(coordinates):
        d_hat = emb.between(coordinates, emb.coordinates)
        return np.abs(d_hat[off] / D[off] - 1).mean()

    fitted = mean_error(emb.coordinates)
    assert mean_error(emb.transform(D)) < 1.05 * fitted
    nearly = np.where(off, D, 1e-9)
    np.testing.assert_allclose(emb.transform(nearly), emb.transform(D))


def test_true_of_numpy_and_one_are_true(fitted):
    D, emb = fitted
    for value in (np.True_, 1):
        again = neuc_mds(D, (2, 1), loss="relative", heights=value, n_init=2)
        np.testing.assert_array_equal(again.heights, emb.heights)


def test_a_share_is_sought_from_two_coordinates_on(fitted):
    D, _ = fitted
    emb = neuc_mds(D, 0.9, loss="relative", heights=True)
    assert emb.heights is not None
    assert emb.k >= 2
    assert emb.r2 >= 0.9


def test_complex_coordinates_have_no_place_for_them(fitted):
    with pytest.raises(InputError, match="heights are added to D̂"):
        _ = fitted[1].complex_coordinates
