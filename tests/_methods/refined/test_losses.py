"""Losses beside the squared one: what they are, and that their descent ends where it should."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from neucmds import InputError, neuc_mds
from neucmds._input.components import Components
from neucmds._methods.refined import loss_starts, tiles
from neucmds._methods.refined.descent import Limits, Start
from neucmds._methods.refined.losses import LOSSES, PairLoss, floor_of
from neucmds._methods.refined.tiles import Tiles, minimize
from neucmds.api import solve_for
from reproduction.data import entropic_affinities

NEW = ("distance", "relative")


def minimize_loss(d, x, signs, loss, *, max_iter=200, tol=2e-3, **settings):
    return minimize(Tiles.of(d, loss, **settings), Start(x, signs), Limits(max_iter, tol))


def refine_for_loss(d, components, loss, **settings):
    solve, limits = partial(solve_for, tol=1e-3, random_state=0), Limits.of(loss, d.shape[0])
    return loss_starts.refine_for_loss(d, components, loss, limits, solve=solve, **settings)


def d_hat_of(x, signs):
    differences = x[:, None, :] - x[None, :, :]
    return (differences**2 * signs).sum(axis=-1)


def bumpy(n=40, seed=0):
    """D of points in five dimensions, one of them negative, disturbed; positive for i ≠ j."""
    rng = np.random.RandomState(seed)
    x = rng.standard_normal((n, 5)) * [3, 2, 1, 1, 0.3]
    d = np.abs(d_hat_of(x, np.array([1, 1, 1, 1, -1.0]))) * rng.uniform(0.8, 1.25, (n, n))
    d = (d + d.T) / 2 + 0.05
    np.fill_diagonal(d, 0)
    return d


def start_of(d, signature=(3, 1), seed=1):
    rng = np.random.RandomState(seed)
    signs = np.array([1.0] * signature[0] + [-1.0] * signature[1])
    x = rng.standard_normal((d.shape[0], signs.size)) * np.sqrt(d.mean() / 4)
    x[:, signs < 0] *= 0.3
    return x - x.mean(axis=0), signs


def brute_force(loss, d, x, signs, floor, weights=None):
    """The formula in print, pair by pair."""
    d_hat, u = d_hat_of(x, signs), np.ones_like(d) if weights is None else weights
    off = ~np.eye(d.shape[0], dtype=bool)
    if loss == "squared":
        q = d_hat - d
    elif loss == "relative":
        q = (d_hat - d) / np.maximum(d, floor)
    else:
        q = np.sqrt(np.maximum(d_hat, 0)) - np.sqrt(d)
    return float((u * q**2)[off].sum())


def symmetric_weights(n, seed=3, gaps=0.0):
    rng = np.random.RandomState(seed)
    w = rng.uniform(0.2, 2, (n, n)) * (rng.uniform(size=(n, n)) >= gaps)
    return np.triu(w, 1) + np.triu(w, 1).T


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_value_is_the_formula_summed_over_all_pairs(loss, weighted):
    d = bumpy()
    x, signs = start_of(d)
    w = symmetric_weights(d.shape[0]) if weighted else None
    floor = floor_of(d)
    found = Tiles(d, PairLoss(loss, floor), signs, w).true_value(x)
    assert found == pytest.approx(brute_force(loss, d, x, signs, floor, w), rel=1e-12)


@pytest.mark.parametrize("n", [40, 300])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_gradient_is_that_of_the_value(loss, weighted, n):
    d = bumpy(n)
    x, signs = start_of(d)
    problem = Tiles(
        d, PairLoss(loss, floor_of(d)), signs, symmetric_weights(n) if weighted else None
    )
    rng = np.random.RandomState(2)
    for _ in range(3):
        p = rng.standard_normal(x.shape)
        p -= p.mean(axis=0)
        slope = np.sum(problem.at(x).gradient * p)
        step = 1e-5
        difference = (problem.at(x + step * p).value - problem.at(x - step * p).value) / (2 * step)
        assert slope == pytest.approx(difference, rel=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_quartic_has_the_slope_and_the_curvature_of_the_line(loss, weighted):
    d = bumpy()
    x, signs = start_of(d)
    w = symmetric_weights(d.shape[0]) if weighted else None
    problem = Tiles(d, PairLoss(loss, floor_of(d)), signs, w)
    p = np.random.RandomState(2).standard_normal(x.shape)
    here = problem.at(x)
    c = problem.line(x, p - p.mean(axis=0), here).quartic
    p -= p.mean(axis=0)
    h = 1e-4
    up, down = problem.at(x + h * p).value, problem.at(x - h * p).value
    assert c[1] == pytest.approx((up - down) / (2 * h), rel=1e-4)
    assert 2 * c[2] == pytest.approx((up - 2 * here.value + down) / h**2, rel=1e-3)
    if loss != "distance":
        for t in (0.3, 1.0, 2.0):
            line = np.polynomial.polynomial.polyval(t, c)
            assert line == pytest.approx(problem.at(x + t * p).value, rel=1e-10)


@pytest.mark.parametrize("loss", NEW)
def test_a_smoothed_loss_has_its_own_gradient_and_goes_over_into_the_squared_one(loss):
    d = bumpy()
    x, signs = start_of(d)
    p = np.random.RandomState(2).standard_normal(x.shape)
    p -= p.mean(axis=0)
    smooth = Tiles(d, PairLoss(loss, floor_of(d)).smoothed(float(d.mean())), signs)
    here, h = smooth.at(x), 1e-4
    up, down = smooth.at(x + h * p).value, smooth.at(x - h * p).value
    assert np.sum(here.gradient * p) == pytest.approx((up - down) / (2 * h), rel=1e-6)
    bend = (up - 2 * here.value + down) / h**2
    assert 2 * smooth.line(x, p, here).quartic[2] == pytest.approx(bend, rel=1e-3)
    least = 1e6 * float(d.max())
    far = Tiles(d, PairLoss(loss, floor_of(d)).smoothed(least), signs).at(x).value
    squared = Tiles(d, PairLoss("squared", 0.0), signs).at(x).value
    unit = least**2 if loss == "relative" else 4 * least
    assert far * unit == pytest.approx(squared, rel=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_tiles_agree_with_one_tile(loss, monkeypatch):
    d = bumpy(150)
    x, signs = start_of(d)
    w = symmetric_weights(150)
    whole = Tiles(d, PairLoss(loss, floor_of(d)), signs, w)
    value, (blocks, pull) = whole.at(x), whole.blocks(x, None)
    monkeypatch.setattr(tiles, "_ONE_TILE", 0)
    monkeypatch.setattr(tiles, "_TILE_ROWS", 32)
    monkeypatch.setattr(tiles, "_TILE_COLUMNS", 64)
    cut = Tiles(d, PairLoss(loss, floor_of(d)), signs, w)
    assert cut.at(x).value == pytest.approx(value.value, rel=1e-12)
    np.testing.assert_allclose(
        cut.at(x).gradient, value.gradient, atol=1e-9 * np.abs(value.gradient).max()
    )
    some, other = cut.blocks(x, None)
    np.testing.assert_allclose(some, blocks, atol=1e-10 * np.abs(blocks).max())
    np.testing.assert_allclose(other, pull, rtol=1e-12)
    assert cut.true_value(x) == pytest.approx(whole.true_value(x), rel=1e-12)


def test_blocks_are_sums_of_outer_products_of_differences():
    d = bumpy(25)
    x, signs = start_of(d)
    w = symmetric_weights(25)
    floor = floor_of(d)
    blocks, _ = Tiles(d, PairLoss("relative", floor), signs, w).blocks(x, None)
    differences = x[:, None, :] - x[None, :, :]
    weight = w / np.maximum(d, floor) ** 2
    plain = np.einsum("ij,ija,ijb->iab", weight, differences, differences)
    np.testing.assert_allclose(blocks, plain, atol=1e-10 * np.abs(plain).max())


def test_relative_is_the_weighted_squared_loss_with_weights_1_over_d_to_the_4():
    d = bumpy()
    x, signs = start_of(d)
    w = 1 / np.maximum(d, floor_of(d)) ** 2
    np.fill_diagonal(w, 0)
    relative = Tiles(d, PairLoss("relative", floor_of(d)), signs)
    squared = Tiles(d, PairLoss("squared", 0.0), signs, w)
    assert relative.true_value(x) == pytest.approx(squared.true_value(x), rel=1e-12)
    np.testing.assert_allclose(relative.at(x).gradient, squared.at(x).gradient, atol=1e-9)
    by_weights = minimize_loss(d, x, signs, "squared", weights=w, tol=1e-9)
    alone = minimize_loss(d, x, signs, "relative", tol=1e-9)
    assert alone.value == pytest.approx(by_weights.value, rel=1e-6)


def test_squared_ends_where_refined_does():
    d = bumpy(60)
    reference = neuc_mds(d, (3, 1), squared=True, tol=1e-9, max_iter=500)
    found = minimize_loss(d, reference.coordinates, reference.signs, "squared", tol=1e-9)
    assert found.value == pytest.approx(reference.stress, rel=1e-5)


@pytest.mark.parametrize("loss", NEW)
@pytest.mark.parametrize("n", [50, 700])
def test_history_never_rises_and_the_end_is_at_rest(loss, n):
    d = bumpy(n)
    found = minimize_loss(d, *start_of(d), loss, max_iter=500, tol=2.5e-5)
    assert np.all(np.diff(found.history) <= 0)
    assert found.converged
    assert found.relative_gradient <= 5e-3
    assert found.value == pytest.approx(
        brute_force(loss, d, found.coordinates, found.signs, found.loss.floor), rel=1e-5
    )


def test_it_is_not_converged_when_iterations_run_out():
    d = bumpy()
    found = minimize_loss(d, *start_of(d), "relative", max_iter=2)
    assert not found.converged
    assert len(found.history) == 3


@pytest.mark.parametrize("loss", NEW)
def test_threads_change_no_digit(loss):
    d = bumpy(700)
    ends = []
    for threads in (1, 2, 4):
        with threadpool_limits(threads, user_api="blas"):
            ends.append(minimize_loss(d, *start_of(d), loss, max_iter=6).coordinates)
    np.testing.assert_array_equal(ends[0], ends[1])
    np.testing.assert_array_equal(ends[0], ends[2])


@pytest.mark.slow
@pytest.mark.parametrize("n", [40, 700])
@pytest.mark.parametrize("power", [-30, -10, 10, 30])
@pytest.mark.parametrize("loss", NEW)
def test_the_unit_of_d_does_not_matter(loss, power, n):
    d = bumpy(n)
    x, signs = start_of(d)
    unit = 4.0**power
    here = minimize_loss(d, x, signs, loss, max_iter=5)
    there = minimize_loss(d * unit, x * 2.0**power, signs, loss, max_iter=5)
    np.testing.assert_array_equal(there.coordinates, here.coordinates * 2.0**power)
    assert there.loss.floor == here.loss.floor * unit
    if n > 40:
        return  # in float32, a rounding error may send the line search another way
    ten = minimize_loss(d * 10.0**power, x * 10.0 ** (power / 2), signs, loss, max_iter=3)
    three = minimize_loss(d, x, signs, loss, max_iter=3)
    scale = 10.0 ** (power * {"distance": 1, "relative": 0}[loss])
    assert ten.value == pytest.approx(three.value * scale, rel=1e-5)


@pytest.mark.parametrize("loss", NEW)
def test_order_of_the_objects_does_not_matter(loss):
    d = bumpy(90)
    x, signs = start_of(d)
    order = np.random.RandomState(5).permutation(90)
    here = minimize_loss(d, x, signs, loss, max_iter=8)
    there = minimize_loss(d[np.ix_(order, order)], x[order], signs, loss, max_iter=8)
    np.testing.assert_allclose(there.coordinates, here.coordinates[order], atol=1e-7)


@pytest.mark.parametrize("loss", NEW)
def test_single_precision_d_ends_at_the_same_value(loss):
    d = bumpy(80)
    x, signs = start_of(d)
    wide = minimize_loss(d, x, signs, loss, tol=1e-5)
    narrow = minimize_loss(d.astype(np.float32), x, signs, loss, tol=1e-5)
    assert narrow.value == pytest.approx(wide.value, rel=1e-4)


def test_float32_tiles_end_where_float64_ones_do(monkeypatch):
    d = bumpy(300)
    x, signs = start_of(d)
    wide = minimize_loss(d, x, signs, "relative", tol=1e-4)
    monkeypatch.setattr(tiles, "SMALL", 10)
    narrow = minimize_loss(d, x, signs, "relative", tol=1e-4)
    assert narrow.value == pytest.approx(wide.value, rel=1e-3)


@pytest.mark.parametrize("loss", NEW)
def test_what_stands_in_a_gap_does_not_matter(loss):
    d = bumpy(60)
    x, signs = start_of(d)
    w = symmetric_weights(60, gaps=0.3)
    other = np.where(w > 0, d, 1.0)
    here = minimize_loss(d, x, signs, loss, weights=w, max_iter=10)
    there = minimize_loss(other, x, signs, loss, weights=w, max_iter=10)
    assert there.value == pytest.approx(here.value, rel=1e-9)
    floor = here.loss.floor
    assert here.value == pytest.approx(
        brute_force(loss, d, here.coordinates, signs, floor, w), rel=1e-9
    )


@pytest.mark.parametrize("loss", NEW)
def test_negative_d_is_refused_with_its_count_and_lowest_value(loss):
    d = bumpy()
    d[3, 5] = d[5, 3] = -0.7
    d[1, 2] = d[2, 1] = -0.2
    with pytest.raises(InputError, match=r"2 pairs have D < 0, the lowest -0\.7"):
        minimize_loss(d, *start_of(d), loss)
    w = np.where(d < 0, 0.0, 1.0)
    assert np.isfinite(minimize_loss(d, *start_of(d), loss, weights=w, max_iter=2).value)


def test_an_unknown_loss_is_refused():
    with pytest.raises(InputError, match="loss='quartic' is unknown; choose one of squared, dist"):
        Limits.of("quartic", 10)


def test_floor_is_half_of_the_lowest_percent_on_the_unsquared_scale():
    d = bumpy(120)
    positive = np.sort(d[d > 0].astype(np.float32))
    assert floor_of(d) == pytest.approx(positive[int(0.01 * (positive.size - 1))] / 4, rel=1e-6)
    w = np.where(d > np.median(d), 1.0, 0.0)
    assert floor_of(d, w) >= np.median(d) / 4


@pytest.mark.parametrize("loss", NEW)
def test_duplicates_weigh_what_the_floor_does(loss):
    d = bumpy(40)
    twins = np.r_[np.arange(40), 0, 0]
    d = d[np.ix_(twins, twins)]
    found = minimize_loss(d, *start_of(d), loss, tol=1e-6, max_iter=500)
    assert np.isfinite(found.value)
    assert np.all(np.isfinite(found.coordinates))
    d_hat = d_hat_of(found.coordinates, found.signs)
    assert abs(d_hat[0, 40]) < 0.05 * d[0, 1:40].min()


@pytest.mark.parametrize("loss", NEW)
def test_an_exact_fit_is_found_and_called_converged(loss):
    rng = np.random.RandomState(0)
    x = rng.standard_normal((30, 2))
    d = d_hat_of(x, np.ones(2))
    found = refine_for_loss(d, Components(2), loss, random_state=0)
    assert found.converged
    assert found.value <= 1e-10 * (d.sum() if loss == "distance" else d.size)


@pytest.mark.parametrize("loss", ["distance", "relative"])
def test_d_of_many_decades_is_fitted_better_than_by_a_single_point(loss):
    spread = np.random.default_rng(0).normal(size=(60, 10)) * np.linspace(1, 2.5, 60)[:, None]
    d = entropic_affinities(spread, 10)
    np.fill_diagonal(d, 0)
    point = 60 * 59 if loss == "relative" else np.sum(d**2)
    found = refine_for_loss(d**2, Components(6), loss, n_init=1)
    # From the squared solution itself: 3e12 and 1.0 times a single point.
    assert found.value < 0.85 * point
    assert found.relative_gradient < 0.03


@pytest.mark.slow
@pytest.mark.parametrize("loss", NEW)
def test_no_object_runs_away(loss):
    rng = np.random.RandomState(0)
    counts = rng.gamma(0.4, 10, (40, 15))
    d = np.abs(counts[:, None] - counts[None]).sum(-1) / (counts[:, None] + counts[None]).sum(-1)
    found = refine_for_loss(d**2, Components(4, (2, 2)), loss, random_state=0)
    sizes = np.linalg.norm(found.coordinates, axis=1)
    assert sizes.max() < 20 * np.median(sizes)


@pytest.mark.parametrize("loss", NEW)
def test_more_starts_and_other_signatures_never_end_higher(loss):
    d = bumpy(40)
    one = refine_for_loss(d, Components(3), loss, n_init=1, random_state=0)
    more = refine_for_loss(d, Components(3), loss, n_init=6, random_state=0)
    assert more.value <= one.value * (1 + 2e-3)
    assert sum(more.signature) == 3


def test_a_signature_that_the_spectrum_lacks_is_padded():
    x = np.random.RandomState(0).standard_normal((30, 3))
    found = refine_for_loss(d_hat_of(x, np.ones(3)), Components(4, (2, 2)), "distance")
    assert found.signature == (2, 2)
    assert np.all(np.isfinite(found.coordinates))


@pytest.mark.slow
@pytest.mark.parametrize("loss", NEW)
def test_gaps_are_left_out_from_start_to_end(loss):
    d = bumpy(60)
    w = (symmetric_weights(60, gaps=0.2) > 0).astype(float)
    hidden = np.where(w > 0, d, 0.0)
    found = refine_for_loss(hidden, Components(3), loss, weights=w, random_state=0)
    floor = found.loss.floor
    assert found.value == pytest.approx(
        brute_force(loss, d, found.coordinates, found.signs, floor, w), rel=1e-9
    )


@pytest.mark.parametrize("loss", NEW)
def test_any_array_library_gives_the_same_value(loss):
    xp = pytest.importorskip("array_api_strict")
    d = bumpy(40)
    x, signs = start_of(d)
    here = minimize_loss(d, x, signs, loss, max_iter=5)
    there = minimize_loss(xp.asarray(d), xp.asarray(x), signs, loss, max_iter=5)
    assert there.value == pytest.approx(here.value, rel=1e-9)
