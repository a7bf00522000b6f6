"""Where new objects go: the least-squares rule against brute force, and what it never does."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from neucmds import Embedding, InputError, NeucMDS, neuc_mds
from neucmds._methods.geometry import sq_dissimilarities
from neucmds._placement.rules import LeastSquaresPlacement, secular_minimum


def objective(z, p, t, m, n):
    c = float(m @ z**2)
    return 4 * z @ z + 4 * p @ z - 2 * t * c + n * c * c


@pytest.mark.slow
@pytest.mark.parametrize("m", [[0.5, 0.1], [-0.5, -0.1], [0.7, -0.3], [0.4, 0.0], [1.0, 1.0]])
@pytest.mark.parametrize("t", [-20.0, -1.0, 0.0, 3.0, 40.0])
def test_the_secular_equation_finds_the_global_minimum(m, t):
    m, rng = np.asarray(m), np.random.default_rng(0)
    p = rng.normal(size=(3, 2)) * 3
    found, _ = secular_minimum(p, np.full(3, t), m[None, :], 7)
    for z, row in zip(found, p, strict=True):
        starts = itertools.product((-5, 0.1, 5), repeat=2)
        best = min(minimize(objective, s, (row, t, m, 7), tol=1e-12).fun for s in starts)
        assert objective(z, row, t, m, 7) <= best + 1e-7 * abs(best)


@pytest.mark.parametrize(("t", "m"), [(30.0, [0.5, 0.1]), (-30.0, [-0.5, 0.1])])
def test_an_object_that_nothing_pulls_is_still_as_far_out_as_its_dissimilarities_say(t, m):
    z = secular_minimum(np.zeros((1, 2)), np.array([t]), np.asarray([m]), 7)[0][0]
    best = minimize(objective, [5.0, 0.5], (np.zeros(2), t, np.asarray(m), 7), tol=1e-12)
    assert best.fun < -1
    np.testing.assert_allclose(objective(z, np.zeros(2), t, np.asarray(m), 7), best.fun)


def test_least_squares_placement_minimises_what_it_says():
    rng = np.random.default_rng(1)
    x, signs = rng.normal(size=(30, 3)), np.array([1.0, 1.0, -1.0])
    x = x - x.mean(axis=0)
    offsets, ridge = rng.normal(size=30), np.array([0.5, 2.0, 1.0])
    delta = rng.uniform(1, 9, size=(4, 30))

    def loss(y, row):
        gaps = row - offsets - sq_dissimilarities(y[None, :], x, signs)[0]
        return gaps @ gaps + 4 * ridge @ y**2

    placed = LeastSquaresPlacement(x, signs, offsets, ridge).place(delta)
    for y, row in zip(placed, delta, strict=True):
        best = min(minimize(loss, s, (row,), tol=1e-10).fun for s in rng.normal(size=(9, 3)) * 2)
        np.testing.assert_allclose(loss(y, row), best, rtol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("weakest", [1e-3, 1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize("noise", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("n", [5, 50, 400])
def test_the_minimum_is_global_however_little_a_column_weighs(weakest, noise, n):
    """Fails with a stop test relative to h(0): the root is next to a pole at 2 · weakest."""
    rng = np.random.default_rng(4)
    signs = np.array([1.0, 1.0, -1.0, 1.0])
    x = rng.normal(size=(n, 4)) * np.sqrt([1.0, 0.5, 0.3, weakest])
    x -= x.mean(axis=0)
    new = rng.normal(size=(3, 4)) * np.sqrt([1.0, 0.5, 0.3, weakest])
    delta = sq_dissimilarities(new, x, signs)
    delta = delta * (1 + noise * rng.normal(size=delta.shape))

    def loss(y, row):
        gaps = row - sq_dissimilarities(y[None, :], x, signs)[0]
        return gaps @ gaps

    def slope(y, row):
        gaps = row - sq_dissimilarities(y[None, :], x, signs)[0]
        return -4 * signs * (gaps @ (y[None, :] - x))

    placed = LeastSquaresPlacement(x, signs).place(delta)
    for y, row in zip(placed, delta, strict=True):
        starts = [y, *(rng.normal(size=(3, 4)) * 2)]
        best = min(minimize(loss, s, (row,), jac=slope, tol=1e-14).fun for s in starts)
        assert loss(y, row) <= best + 1e-7 * best + 1e-14 * (row @ row)


def points_with_noise(seed, n=50, decimals=10):
    """Points in 3-d whose distances are rounded, and new rows with 10 % noise."""
    rng = np.random.default_rng(seed)
    x, new = rng.normal(size=(n, 3)), rng.normal(size=(20, 3))
    rows = cdist(new, x) * np.abs(1 + 0.1 * rng.normal(size=(20, n)))
    return cdist(x, x).round(decimals), rows


@pytest.mark.slow
@pytest.mark.parametrize("decimals", [4, 8, 10, 12])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n", [12, 50, 200])
def test_a_column_without_weight_carries_no_new_object(decimals, seed, n):
    """Rounding leaves a fourth coordinate of weight 1e-4 to 1e-13; it once reached 5,653."""
    D, rows = points_with_noise(seed, n, decimals)
    embedding = neuc_mds(D, 5)
    real = np.abs(embedding.weights) > 1e-4 * np.abs(embedding.weights[0])
    placed = embedding.transform(rows)
    assert np.abs(placed).max() < 3 * np.abs(embedding.coordinates).max()
    spread = np.abs(embedding.coordinates).max(axis=0)
    assert np.all(np.abs(placed[:, ~real]) <= 3 * spread[~real])


@pytest.mark.parametrize("decimals", [3, 8, 12])
@pytest.mark.parametrize("n", [12, 50, 200])
def test_fitted_rows_are_placed_where_they_were_fitted(decimals, n):
    D, _ = points_with_noise(0, n, decimals)
    embedding = neuc_mds(D, 5, tol=1e-9)
    moved = (embedding.transform(D) - embedding.coordinates)[:, :3]
    size = np.abs(embedding.coordinates).max()
    assert np.abs(moved).max() < (0.1**decimals + 1e-8) * size


def test_shrinkage_lets_an_object_go_as_far_as_its_dissimilarities_agree_on():
    rng = np.random.default_rng(6)
    x = rng.normal(size=(40, 3))
    far = np.array([[300.0, -200.0, 100.0]])
    embedding = neuc_mds(cdist(x, x).round(9), 4)
    placed = embedding.transform(cdist(far, x))
    found = sq_dissimilarities(placed, embedding.coordinates, embedding.signs)
    np.testing.assert_allclose(found, cdist(far, x) ** 2, rtol=1e-6)


def test_what_shrinkage_adds_is_the_ridge_of_the_objects_own_noise():
    rng = np.random.default_rng(7)
    signs = np.array([1.0, -1.0, 1.0])
    x, _ = np.linalg.qr(rng.normal(size=(30, 4)) - 0.0)
    x = (x - x.mean(axis=0))[:, :3]
    x, _ = np.linalg.qr(x)
    x *= np.array([3.0, 2.0, 0.5])
    row = rng.uniform(1, 2, size=(1, 30))
    plain = LeastSquaresPlacement(x, signs)
    left = row[0] - sq_dissimilarities(plain.place(row), x, signs)[0]
    noise = left @ left / (30 - 3 - 1)
    ridge = 0.7 * noise / 4 * 30 / np.sum(x * x, axis=0)
    np.testing.assert_allclose(
        replace(plain, shrinkage=0.7).place(row), replace(plain, ridge=ridge).place(row), rtol=1e-8
    )


def test_a_saved_embedding_shrinks_as_before(tmp_path):
    D, rows = points_with_noise(1)
    embedding = neuc_mds(D, 4)
    embedding = replace(embedding, placement=replace(embedding.placement, shrinkage=2.5))
    embedding.save(tmp_path / "e.npz")
    loaded = Embedding.load(tmp_path / "e.npz")
    np.testing.assert_array_equal(loaded.transform(rows), embedding.transform(rows))


# Gaps


def holed(D, share, seed):
    upper = np.triu(np.random.default_rng(seed).random(D.shape) < share, 1)
    return np.where(upper | upper.T, np.nan, D)


@pytest.fixture(scope="module")
def with_gaps():
    """Forty objects with 20 % of the pairs hidden, and ten later ones with 60 % hidden."""
    rng = np.random.default_rng(8)
    x, signs = rng.normal(size=(50, 3)), np.array([1.0, 1.0, -1.0])
    D = sq_dissimilarities(x, x, signs)
    D = (D + D.T) / 2
    embedding = neuc_mds(holed(D[:40, :40], 0.2, 0), 3, squared=True, missing="ignore", tol=1e-9)
    rows = D[40:, :40].copy()
    hidden = rng.random(rows.shape) < 0.6
    return D, embedding, np.where(hidden, np.nan, rows), rows


def test_a_fit_with_gaps_places_objects_with_gaps(with_gaps):
    _, embedding, rows, truth = with_gaps
    placed = embedding.transform(rows)
    found = sq_dissimilarities(placed, embedding.coordinates, embedding.signs)
    np.testing.assert_allclose(found, truth, atol=1e-4 * np.abs(truth).max())
    # one by one, or beside an object without gaps, is the same
    one = embedding.transform(rows[3:4])
    both = embedding.transform(np.stack([truth[0], rows[3]]))
    np.testing.assert_allclose(one[0], placed[3], atol=1e-10)
    np.testing.assert_allclose(both[1], placed[3], atol=1e-10)
    np.testing.assert_allclose(both[0], embedding.transform(truth[:1])[0], atol=1e-10)


def test_an_object_with_gaps_is_where_its_known_dissimilarities_fit_best():
    rng = np.random.default_rng(9)
    signs = np.array([1.0, 1.0, -1.0])
    x = rng.normal(size=(30, 3))
    x -= x.mean(axis=0)
    offsets = rng.normal(size=30)
    delta = np.where(rng.random((4, 30)) < 0.5, np.nan, rng.uniform(1, 9, size=(4, 30)))

    def loss(y, row):
        gaps = (row - offsets - sq_dissimilarities(y[None, :], x, signs)[0])[~np.isnan(row)]
        return gaps @ gaps

    placed = LeastSquaresPlacement(x, signs, offsets).place(delta)
    for y, row in zip(placed, delta, strict=True):
        best = min(minimize(loss, s, (row,), tol=1e-10).fun for s in rng.normal(size=(9, 3)) * 2)
        np.testing.assert_allclose(loss(y, row), best, rtol=1e-7)


def test_gaps_that_were_not_allowed_or_leave_too_little_are_refused(with_gaps):
    D, embedding, rows, _ = with_gaps
    plain = neuc_mds(D[:40, :40], 3, squared=True)
    with pytest.raises(InputError, match="missing='ignore'"):
        plain.transform(rows)
    rows = rows.copy()
    rows[7, 3:] = np.nan
    rows[7, :3] = 1.0
    with pytest.raises(InputError, match=r"row 7 of the new objects has 3 known .* at least 4"):
        embedding.transform(rows)
    rows[7] = np.inf
    with pytest.raises(InputError, match="infinity"):
        embedding.transform(rows)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared", "relative"])
def test_saved_models_and_estimators_place_objects_with_gaps_too(loss, tmp_path):
    x = np.random.default_rng(10).normal(size=(60, 2))
    D = cdist(x, x)
    fitted, rows = (
        holed(D[:45, :45], 0.2, 1),
        np.where(cdist(x[45:], x[:45]) > 2.5, np.nan, D[45:, :45]),
    )
    est = NeucMDS(2, missing="ignore", loss=loss, random_state=0).fit(fitted)
    placed = est.transform(rows)
    found = sq_dissimilarities(placed, est.embedding_, est.signature_)
    np.testing.assert_allclose(found, D[45:, :45] ** 2, atol=1e-2 * D.max() ** 2)
    est.result_.save(tmp_path / "e.npz")
    loaded = Embedding.load(tmp_path / "e.npz")
    np.testing.assert_allclose(loaded.transform(rows), placed, atol=1e-10)
