"""The loss of listed pairs: against brute force, finite differences and the dense objective."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from neucmds._backend import checkpoint
from neucmds._input.pairs import Pairs, make_pairs
from neucmds._methods.geometry import sq_dissimilarities
from neucmds._methods.refined import listed_pairs
from neucmds._methods.refined.descent import Limits, Start
from neucmds._methods.refined.listed_pairs import ListedPairs, pair_floor
from neucmds._methods.refined.losses import LOSSES, PairLoss
from neucmds._methods.refined.tiles import Tiles
from neucmds.errors import InputError

SIGNS = np.array([1.0, 1.0, 1.0, -1.0])


def refine_pairs(pairs, x, signs, loss="relative", *, max_iter=200, tol=2e-3, **settings):
    limits = Limits(max_iter, tol, settings.pop("callback", None))
    return listed_pairs.refine_pairs(
        pairs, Start(x, np.asarray(signs, dtype=float)), limits, loss, **settings
    )


def system_of(pairs, loss, floor=0.1**0.5):
    return ListedPairs.of(pairs, loss, like=np.zeros(0), floor=floor).signed(SIGNS)


def some_pairs(n=40, share=0.4, seed=0, weighted=True) -> tuple[Pairs, np.ndarray]:
    """Random D on a random part of all pairs, two hubs, and coordinates that do not fit it."""
    rng = np.random.default_rng(seed)
    i, j = np.triu_indices(n, 1)
    listed = (rng.random(i.size) < share) | np.isin(i, (3, 30)) | np.isin(j, (3, 30))
    i, j = i[listed], j[listed]
    d = rng.uniform(0.2, 1.9, i.size)  # D / scale is D
    weight = rng.uniform(0.1, 3.0, i.size) if weighted else None
    x = rng.standard_normal((n, SIGNS.size))
    return make_pairs(n, i, j, d, weight, squared=True), x - x.mean(axis=0)


def brute_force(pairs: Pairs, x: np.ndarray, signs: np.ndarray, loss: str, floor: float) -> float:
    total = 0.0
    for at in range(pairs.size):
        d = pairs.sq_dissimilarity[at]
        difference = x[pairs.i[at]] - x[pairs.j[at]]
        d_hat = float(np.sum(signs * difference**2))
        if loss == "squared":
            q = d_hat - d
        elif loss == "relative":
            q = (d_hat - d) / max(d, floor**2)
        else:
            q = np.sqrt(max(d_hat, 0.0)) - np.sqrt(d)
        total += 2 * q**2 * (1.0 if pairs.weight is None else pairs.weight[at])
    return total


def planted(n=300, k=4, seed=0, per_object=60) -> tuple[Pairs, np.ndarray]:
    """Pairs of coordinates with a signature, D ≥ 0 everywhere, and those coordinates."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, k))
    x[:, SIGNS < 0] *= 0.3
    i = np.repeat(np.arange(n), per_object)
    j = rng.integers(n, size=i.size)
    d = np.sum(SIGNS * (x[i] - x[j]) ** 2, axis=1)
    kept = (d > 0) & (i != j)
    return make_pairs(n, i[kept], j[kept], d[kept], squared=True), x


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_value_is_the_sum_over_both_orders_of_every_pair(loss, weighted):
    pairs, x = some_pairs(weighted=weighted)
    end = refine_pairs(pairs, x, SIGNS, loss, max_iter=0, floor=0.7)
    assert end.value == pytest.approx(brute_force(pairs, x, SIGNS, loss, 0.7), rel=1e-10)


@pytest.mark.parametrize("loss", LOSSES)
def test_gradient_agrees_with_finite_differences(loss):
    pairs, x = some_pairs()
    system = system_of(pairs, loss)
    direction = np.random.default_rng(1).standard_normal(x.shape)
    direction -= direction.mean(axis=0)
    h = 1e-6
    rise, fall = (system.at(x + step * direction).value for step in (h, -h))
    slope = float(np.vdot(system.at(x).gradient, direction))
    assert slope == pytest.approx((rise - fall) / (2 * h), rel=1e-6)


def test_with_all_pairs_it_is_the_dense_weighted_objective():
    pairs, x = some_pairs(share=1.0)
    n = pairs.n
    d, w = np.zeros((n, n)), np.zeros((n, n))
    d[pairs.i, pairs.j] = d[pairs.j, pairs.i] = pairs.sq_dissimilarity
    w[pairs.i, pairs.j] = w[pairs.j, pairs.i] = pairs.weight
    dense = Tiles(d, PairLoss("squared", 0.0), SIGNS, w).at(x)
    system = system_of(pairs, "squared")
    here = system.at(x)
    assert here.value * system.unit == pytest.approx(dense.value, rel=1e-12)
    gradient = here.gradient * system.unit
    np.testing.assert_allclose(gradient, dense.gradient, atol=1e-9 * np.abs(gradient).max())


def test_blocks_are_the_diagonal_blocks_of_gauss_newton():
    pairs, x = some_pairs()
    system = system_of(pairs, "relative")
    blocks, _ = system.blocks(x, system.at(x))
    expected = np.zeros_like(blocks)
    for at in range(pairs.size):
        i, j = pairs.i[at], pairs.j[at]
        w = pairs.weight[at] / system.unit / max(pairs.sq_dissimilarity[at], 0.1) ** 2
        for own in (i, j):
            expected[own] += w * np.outer(x[i] - x[j], x[i] - x[j])
    np.testing.assert_allclose(blocks, expected, rtol=1e-10, atol=1e-12 * expected.max())


@pytest.mark.parametrize("loss", LOSSES)
def test_along_a_line_the_loss_is_that_of_the_moved_coordinates(loss):
    pairs, x = some_pairs()
    system = system_of(pairs, loss)
    p = np.random.default_rng(1).standard_normal(x.shape)
    p -= p.mean(axis=0)
    line, there = system.line(x, p, system.at(x)), system.at(x + 0.3 * p)
    value, slope = line.at(0.3)
    assert value == pytest.approx(there.value, rel=1e-10)
    assert slope == pytest.approx(float(np.vdot(there.gradient, p)), rel=1e-8)
    if loss != "distance":
        assert np.polyval(line.quartic[::-1], 0.3) == pytest.approx(there.value, rel=1e-10)
    end = line.end(0.3)
    np.testing.assert_allclose(end.residual, there.residual, atol=1e-12)
    assert end.value == pytest.approx(there.value, rel=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_hubs_change_no_value_gradient_or_block(loss, weighted, monkeypatch):
    pairs, x = some_pairs(weighted=weighted)
    monkeypatch.setattr(listed_pairs, "HUB_BLOCK", 8)  # several blocks of rows
    p = np.random.default_rng(1).standard_normal(x.shape)
    seen = []
    for most, count in ((0.8, 2), (0.0, pairs.n), (1.1, 0)):
        monkeypatch.setattr(listed_pairs, "HUB_SHARE", most)
        system = system_of(pairs, loss)
        assert system.hubs.ids.size == count
        here = system.at(x)
        quartic = system.line(x, p, here).quartic
        blocks, pulled = system.blocks(x, here)
        seen.append((here.value, system.true_value(x), quartic, here.gradient, blocks, pulled))
    monkeypatch.setattr(listed_pairs, "HUB_SHARE", 0.0)
    monkeypatch.setattr(listed_pairs, "MOST_HUBS", 2)
    fewest = system_of(pairs, loss).hubs
    np.testing.assert_array_equal(fewest.ids, [3, 30])  # those of the most pairs
    for some, all_, none in zip(*seen, strict=True):
        atol = 1e-12 * float(np.abs(none).max())
        np.testing.assert_allclose(some, none, rtol=1e-12, atol=atol)
        np.testing.assert_allclose(all_, none, rtol=1e-12, atol=atol)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_loss_never_rises_and_the_end_is_stationary(loss):
    pairs, x = some_pairs(share=0.6)
    end = refine_pairs(pairs, x, SIGNS, loss, max_iter=500, tol=1e-6)
    assert end.converged
    assert end.relative_gradient <= 1e-3
    assert all(
        later <= earlier * (1 + 1e-12)
        for earlier, later in zip(end.history, end.history[1:], strict=False)
    )


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_planted_coordinates_are_found_from_a_part_of_the_pairs(loss):
    pairs, x = planted()
    start = x + 0.1 * np.random.default_rng(1).standard_normal(x.shape)
    end = refine_pairs(pairs, start, SIGNS, loss, max_iter=300, tol=1e-12)
    true, found = (sq_dissimilarities(y, y, SIGNS) for y in (x, end.coordinates))
    assert np.abs(true - found).max() < 1e-4 * np.abs(true).max()


@pytest.mark.parametrize("loss", LOSSES)
def test_the_unit_of_d_does_not_matter(loss):
    pairs, x = some_pairs()
    far = make_pairs(
        pairs.n, pairs.i, pairs.j, pairs.sq_dissimilarity * 9e8, pairs.weight, squared=True
    )
    end = refine_pairs(pairs, x, SIGNS, loss, max_iter=10)
    scaled = refine_pairs(far, x * 3e4, SIGNS, loss, max_iter=10)
    np.testing.assert_allclose(scaled.coordinates / 3e4, end.coordinates, atol=1e-6)
    degree = {"squared": 2, "distance": 1, "relative": 0}[loss]
    assert scaled.value == pytest.approx(end.value * 9e8**degree, rel=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_order_of_objects_does_not_matter(loss):
    pairs, x = some_pairs()
    order = np.random.default_rng(2).permutation(pairs.n)
    where = np.argsort(order)
    shuffled = make_pairs(
        pairs.n,
        where[pairs.i],
        where[pairs.j],
        pairs.sq_dissimilarity,
        pairs.weight,
        squared=True,
    )
    end = refine_pairs(pairs, x, SIGNS, loss, max_iter=10)
    other = refine_pairs(shuffled, x[order], SIGNS, loss, max_iter=10)
    np.testing.assert_allclose(other.coordinates, end.coordinates[order], atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_single_precision_ends_where_double_does(loss, monkeypatch):
    pairs, x = planted(n=120)
    rng = np.random.default_rng(1)
    noisy = pairs.sq_dissimilarity * np.exp(0.1 * rng.standard_normal(pairs.size))
    pairs = replace(pairs, sq_dissimilarity=noisy)
    x = x + 0.1 * rng.standard_normal(x.shape)
    double = refine_pairs(pairs, x, SIGNS, loss, max_iter=200, tol=1e-4)
    monkeypatch.setattr(listed_pairs, "SMALL", 0)
    # Several blocks and shares, as large inputs have.
    monkeypatch.setattr(listed_pairs, "BLOCK", 2**10)
    single = refine_pairs(pairs, x, SIGNS, loss, max_iter=200, tol=1e-4)
    assert single.converged
    assert single.value == pytest.approx(double.value, rel=1e-3)


def test_an_exact_fit_is_left_alone():
    pairs, x = planted()
    end = refine_pairs(pairs, x, SIGNS, "relative")
    assert end.converged
    assert end.value < 1e-12


def test_zero_pairs_have_the_weight_of_the_floor():
    pairs = make_pairs(3, [0, 0, 1], [1, 2, 2], [0.0, 2.0, 2.0])
    assert pair_floor(pairs) == pytest.approx(1.0)
    x = np.array([[0.0], [1.0], [2.0]])
    end = refine_pairs(pairs, x, [1.0], "relative", max_iter=0)
    assert end.value == pytest.approx(2 * (1.0 + 0.0 + (3 / 4) ** 2))


def test_callback_hears_of_every_iteration():
    pairs, x = some_pairs()
    heard = []
    end = refine_pairs(
        pairs,
        x,
        SIGNS,
        "relative",
        max_iter=12,
        callback=lambda it, value: heard.append((it, value)),
    )
    assert [it for it, _ in heard] == list(range(1, len(end.history)))
    np.testing.assert_allclose([value for _, value in heard], end.history[1:])


@pytest.mark.parametrize("loss", LOSSES)
def test_an_interrupted_descent_goes_on(loss, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "INTERVAL", 0.0)
    pairs, x = some_pairs(n=60, share=0.6)
    kept, settings = tmp_path / "fit.npz", {"max_iter": 500, "tol": 1e-6}

    def stop(iteration, value):
        seen.append(value)
        if iteration == 10:
            raise KeyboardInterrupt

    whole = refine_pairs(pairs, x, SIGNS, loss, **settings)
    for _ in range(2):
        seen = []
        with pytest.raises(KeyboardInterrupt):
            refine_pairs(pairs, x, SIGNS, loss, callback=stop, checkpoint=kept, **settings)
    assert seen[0] < whole.history[9]
    end = refine_pairs(pairs, x, SIGNS, loss, checkpoint=kept, **settings)
    assert end.history[0] < whole.history[10]
    assert end.value == pytest.approx(whole.value, rel=0.1)
    assert not kept.exists()


def test_bad_arguments_are_refused_by_name():
    pairs, x = some_pairs()
    with pytest.raises(InputError, match=r"start has shape \(40, 3\); expected \(40, 4\)"):
        refine_pairs(pairs, x[:, :3], SIGNS)
    negative = make_pairs(3, [0, 0, 1], [1, 2, 2], [-1.0, 2.0, 2.0], squared=True)
    with pytest.raises(InputError, match="1 pairs have D < 0, the lowest -1"):
        refine_pairs(negative, np.zeros((3, 1)), [1.0], "relative")
    refine_pairs(negative, np.array([[0.0], [1.0], [2.0]]), [1.0], "squared", max_iter=2)
