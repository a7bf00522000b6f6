"""A loss of pairs, as tiles of D and as listed pairs: brute force, differences, where it ends."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from unittest.mock import patch

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from neucmds import InputError
from neucmds.backend.arrays import asarray_like
from neucmds.form import Form
from neucmds.problem.pairs import make_pairs
from neucmds.refine import listed_pairs, pairwise, tiles
from neucmds.refine.descent import (
    EXACT,
    Configuration,
    descend,
    shortened,
)
from neucmds.refine.listed_pairs import ListedPairs, pair_floor, refine_pairs
from neucmds.refine.losses import (
    CORNER,
    LOSSES,
    RELATIVE_CORNER,
    PairLoss,
    floor_of,
)
from neucmds.refine.pairwise import finish, lowered, minimize
from neucmds.refine.tiles import Tiles

SIGNS = np.array([1.0, 1.0, 1.0, -1.0])
FLOOR = 0.9  # of d, some of which are below


def d_hat_of(x, signs=SIGNS):
    return np.sum(signs * (x[:, None] - x[None]) ** 2, axis=-1)


def bumpy(n=40, seed=0):
    """D of points with a signature, disturbed and positive, and coordinates that do not fit it."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 4)) * [3, 2, 1, 0.3]
    d = np.abs(d_hat_of(x)) * rng.uniform(0.8, 1.25, (n, n)) + 0.1
    d = np.triu(d, 1) + np.triu(d, 1).T
    start = (
        rng.standard_normal((n, 4)) * np.sqrt(d.mean() / 4) * [1, 1, 1, 0.3]
    )
    return d, start - start.mean(axis=0)


def random_weights(n, gaps=0.0, seed=3):
    rng = np.random.default_rng(seed)
    w = np.triu(rng.uniform(0.2, 2, (n, n)) * (rng.random((n, n)) >= gaps), 1)
    return w + w.T


def listed(d, w):
    i, j = np.nonzero(np.triu(w, 1))
    pairs = make_pairs(len(d), i, j, d[i, j], squared=True)
    return replace(pairs, weight=w[i, j])


def residual(loss, d, d_hat, floor=FLOOR, smoothing=0.0, corner=None):
    """Return q and its slope, as printed in the docs; no corner: that of the value."""
    if loss == "squared":
        return d_hat - d, np.ones_like(d)
    if loss == "linear":
        slope = 1 / np.maximum(d, floor**2)
        return slope * (d_hat - d), slope
    if corner is None:
        corner = CORNER if loss == "distance" else np.sqrt(RELATIVE_CORNER)
    d, d_hat = d + smoothing, d_hat + smoothing
    lowest = corner**2 * np.maximum(d, floor**2)
    root = np.sqrt(np.maximum(np.maximum(d_hat, lowest), 1e-300))
    tangent = (d_hat - lowest) / (2 * root) if corner else 0.0
    fitted = np.where(d_hat < lowest, np.sqrt(lowest) + tangent, root)
    error, slope = fitted - np.sqrt(d), 1 / (2 * root)
    if loss == "distance":
        return error, slope
    share = 1 / np.maximum(np.sqrt(d), floor)
    r, slope = error * share, slope * share
    if loss == "relative":
        return r, slope
    if not corner:
        return np.sqrt(np.abs(r)), None
    s = np.sqrt(1 + r**2)  # of width one
    return r / np.sqrt(1 + s), slope * np.sqrt(1 + s) / (2 * s)


def value_of(loss, d, w, x, **settings):
    q, _ = residual(loss, d, d_hat_of(x), **settings)
    return float(np.sum(w * q**2))


KINDS = {
    "one tile": {"TILE": 128},
    "tiles": {"TILE": 6},
    "listed": {"CACHED_ELEMENTS": 300},
    "listed, elsewhere": {"CACHED_ELEMENTS": 300},
}


def system_of(kind, d, w, loss):
    """The loss of D, of weights w, and whether it stands for tiles or for a list of pairs."""
    if kind in ("one tile", "tiles"):
        return Tiles.of(d, loss, weights=w, floor=FLOOR).signed(SIGNS)
    pairs = listed(d, np.ones_like(d) - np.eye(len(d)) if w is None else w)
    pairs = replace(pairs, weight=None) if w is None else pairs
    like = array_api_strict.zeros(0) if "elsewhere" in kind else np.zeros(0)
    return ListedPairs.of(pairs, loss, Form(SIGNS), like=like, floor=FLOOR)


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(list(KINDS)),
    loss=st.sampled_from([*LOSSES, "linear"]),
    weighted=st.sampled_from([None, 0.0, 0.3]),
    seed=st.integers(0, 10**6),
)
def test_all_that_a_descent_asks_for_is_that_of_the_formula(
    kind, loss, weighted, seed
):
    module, n = tiles if "tile" in kind else listed_pairs, 23
    d, x = bumpy(n, seed)
    w = None if weighted is None else random_weights(n, weighted, seed)
    counted = np.ones((n, n)) if w is None else w
    counted = counted * (1 - np.eye(n))
    p = np.random.default_rng(seed + 1).standard_normal(x.shape)
    p -= p.mean(axis=0)
    with patch.multiple(module, **KINDS[kind]):
        system = system_of(kind, d, w, loss)
        unit, y, way = (
            system.unit,
            x / np.sqrt(system.scale),
            p / np.sqrt(system.scale),
        )
        at, along = (asarray_like(one, system.d) for one in (y, way))
        here = system.at(at)
        quartic, move = system.line(here, along)
        there, end, anew = (
            system.at(at + 0.3 * along),
            move(0.3),
            system.true_value(at),
        )
        made = (*system.blocks(here), here.step)
        blocks, pulls, step = map(np.asarray, made)
        here, there, end = (
            SimpleNamespace(value=one.value, gradient=np.asarray(one.gradient))
            for one in (here, there, end)
        )
    none = value_of(loss, d, counted, 0 * x, corner=0.0)
    assert system.rounding * unit == pytest.approx(
        EXACT * none, rel=1e-9, abs=0
    )
    own = np.trace(blocks, axis1=1, axis2=2) / 4
    ridge = 0.25 * pulls + pairwise.RIDGE * (own + own.mean())
    held = (blocks + ridge[:, None, None] * np.eye(4)) * 16
    solved = (
        np.linalg.solve(held, (SIGNS * here.gradient)[:, :, None])[:, :, 0]
        * SIGNS
    )
    solved -= solved.mean(axis=0)
    np.testing.assert_allclose(step, solved, atol=1e-9 * np.abs(solved).max())
    assert anew * unit == pytest.approx(
        value_of(loss, d, counted, x, corner=0.0), rel=1e-10
    )

    def f(t):
        return value_of(loss, d, counted, x + t * p)

    h = 1e-6  # near D̂ = 0 "distance" bends so much that 1e-4 is off by 1.1e-4
    assert here.value * unit == pytest.approx(f(0), rel=1e-10)
    size = np.linalg.norm(here.gradient) * np.linalg.norm(way) * unit
    first = float(np.vdot(here.gradient, way)) * unit
    assert first == pytest.approx(
        (f(h) - f(-h)) / (2 * h), rel=1e-4, abs=1e-5 * size
    )
    np.testing.assert_allclose(
        here.gradient.mean(axis=0), 0, atol=1e-12 * size
    )
    np.testing.assert_allclose(quartic[:2] * unit, [f(0), first], rtol=1e-9)
    if loss in ("squared", "linear"):
        assert np.polyval(quartic[::-1], 0.3) * unit == pytest.approx(
            f(0.3), rel=1e-9
        )
    assert end.value == pytest.approx(there.value, rel=1e-9)
    np.testing.assert_allclose(
        end.gradient, there.gradient, atol=1e-8 * np.abs(end.gradient).max()
    )
    q, bend = residual(loss, d, d_hat_of(x))
    own = (
        counted if kind in ("one tile", "tiles") else counted * (1 - np.eye(n))
    )
    differences = x[:, None] - x[None]
    expected = np.einsum(
        "ij,ija,ijb->iab", own * bend**2, differences, differences
    )
    # Their unit is that of the loss over that of D².
    scale = unit / system.scale
    np.testing.assert_allclose(
        blocks * scale, expected, atol=1e-9 * np.abs(expected).max()
    )
    np.testing.assert_allclose(
        pulls * scale, np.sum(own * np.abs(q) * bend, axis=1), rtol=1e-8
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", ["distance", "relative", "linear"])
def test_heights_have_the_gradient_and_the_quartic_of_the_formula(kind, loss):
    d, x = bumpy()
    n, signs = len(d), np.array([1.0, 1.0, -1.0, 0.0])
    p = np.random.default_rng(2).standard_normal(x.shape)
    p[:, :3] -= p[:, :3].mean(axis=0)
    system = system_of(kind, d, random_weights(n), loss).signed(signs)
    units = np.array([np.sqrt(system.scale)] * 3 + [system.scale])
    at, along = (asarray_like(one / units, system.d) for one in (x, p))
    here = system.at(at)
    quartic, move = system.line(here, along)
    blocks = np.asarray(system.blocks(here)[0])

    def f(t):
        y = x + t * p
        d_hat = d_hat_of(y, signs) + y[:, 3:] + y[:, 3]
        q, _ = residual(loss, d, d_hat)
        return float(np.sum(random_weights(n) * q**2))

    h = 1e-6
    assert here.value * system.unit == pytest.approx(f(0), rel=1e-10)
    slope = float(np.vdot(np.asarray(here.gradient), np.asarray(along)))
    assert slope * system.unit == pytest.approx(
        (f(h) - f(-h)) / (2 * h), rel=1e-4
    )
    assert move(0.3).value * system.unit == pytest.approx(f(0.3), rel=1e-9)
    if loss == "linear":
        assert np.polyval(quartic[::-1], 0.3) * system.unit == pytest.approx(
            f(0.3), rel=1e-9
        )
    d_hat = d_hat_of(x, signs) + x[:, 3:] + x[:, 3]
    _, bend = residual(loss, d, d_hat)
    difference = x[:, None] - x[None]
    difference[:, :, 3] = 0.5
    weights = random_weights(n) * bend**2
    expected = np.einsum("ij,ija,ijb->iab", weights, difference, difference)
    shape = expected / expected[:, :1, :1]
    found = blocks / blocks[:, :1, :1]
    scaled = np.append(np.full(3, np.sqrt(system.scale)), 1.0)
    np.testing.assert_allclose(
        found * np.outer(scaled, scaled) / system.scale,
        shape,
        atol=1e-6 * np.abs(shape).max(),
    )


@pytest.mark.parametrize("loss", ["distance", "linear"])
def test_a_smoothed_loss_has_its_own_formula_and_goes_over_into_the_squared_one(
    loss,
):
    d, x = bumpy()
    w, least = np.ones_like(d), float(d.mean())
    plain = Tiles.of(d, loss, floor=FLOOR).signed(SIGNS)
    scale, y = plain.scale, x / np.sqrt(plain.scale)
    smooth = replace(plain, loss=plain.loss.smoothed(least / scale))
    given = (
        {"smoothing": least} if loss == "distance" else {"floor": least**0.5}
    )
    value = smooth.at(y).value * plain.unit
    assert value == pytest.approx(value_of(loss, d, w, x, **given), rel=1e-10)
    far = (
        replace(plain, loss=plain.loss.smoothed(1e6 * d.max() / scale))
        .at(y)
        .value
        * plain.unit
    )
    unit = (1e6 * d.max()) ** 2 if loss == "linear" else 4e6 * d.max()
    assert far * unit == pytest.approx(value_of("squared", d, w, x), rel=1e-5)


@pytest.mark.parametrize("kind", ["tiles", "listed"])
@pytest.mark.parametrize("loss", ["distance", "relative", "absolute"])
def test_a_loss_bends_along_a_line_as_its_quartic_says(kind, loss):
    d, x = bumpy()
    p, h = np.random.default_rng(2).standard_normal(x.shape), 1e-4
    system = system_of(kind, d, random_weights(40), loss)
    x, p = (
        x / np.sqrt(system.scale),
        (p - p.mean(axis=0)) / np.sqrt(system.scale),
    )
    up, here, down = (system.at(x + t * p) for t in (h, 0.0, -h))
    bend = (up.value - 2 * here.value + down.value) / h**2
    assert 2 * system.line(here, p)[0][2] == pytest.approx(bend, rel=1e-3)


# Descents


def minimized(kind, d, x, loss, w=None, **given):
    descent = partial(
        descend,
        max_iter=given.pop("max_iter", 200),
        tol=given.pop("tol", 2e-3),
        callback=given.pop("callback", None),
    )
    start = Configuration(x, Form(SIGNS, given.pop("curvature", 0.0)))
    if kind == "tiles":
        link = start.form.to_sq(d)
        of_tiles = Tiles.of(link, loss, form=start.form, weights=w, **given)
        # Searched as exactly as listed pairs are, so that both take the same way.
        of_tiles = replace(of_tiles, slope_left=ListedPairs.slope_left)
        first = replace(of_tiles, loss=of_tiles.loss.beginning)
        start = lowered(first, start, shortened(descent))
        if first.loss != of_tiles.loss:
            start = minimize(first, start, shortened(descent))
        return finish(of_tiles, start, descent)
    pairs = listed(d, np.ones_like(d) - np.eye(len(d)) if w is None else w)
    return refine_pairs(pairs, start, descent, loss, **given)


@pytest.mark.parametrize("kind", ["tiles", "listed"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("small", [600, 10])  # the second: all in float32
@pytest.mark.slow
def test_it_never_rises_and_ends_at_rest_and_says_its_value(kind, loss, small):
    d, x = bumpy(60)
    w, heard = random_weights(60, 0.2), []
    most = 2360 if small == 600 else 200
    with (
        patch.object(tiles, "FEW_OBJECTS", small),
        patch.object(listed_pairs, "CACHED_ELEMENTS", most),
    ):
        end = minimized(
            kind,
            d,
            x,
            loss,
            w,
            max_iter=500,
            tol=1e-5,
            callback=lambda *a: heard.append(a),
        )
        # Gaps say nothing, whatever stands there.
        again = minimized(
            kind, np.where(w > 0, d, 77.0), x, loss, w, max_iter=500, tol=1e-5
        )
    assert end.converged
    assert end.relative_gradient**2 <= 1e-5
    assert np.all(np.diff(end.history) <= 0)
    steps, totals, values = zip(*heard, strict=True)
    assert totals[-1] == 500
    staged = loss in ("relative", "absolute")
    assert set(totals) == ({40, 500} if staged else {500})
    last = len(end.history)
    assert list(steps[1 - last :]) == list(range(1, last))
    most = {"squared": 42, "distance": 90, "relative": 180, "absolute": 400}
    assert len(steps) <= most[loss]
    assert values[1 - len(end.history) :] == end.history[1:]
    assert staged or len(steps) == len(end.history) - 1
    floor = np.sqrt(end.loss.sq_floor)
    assert loss == "squared" or floor == pytest.approx(
        floor_of(Form(SIGNS), d, w), rel=1e-6
    )
    found = value_of(loss, d, w, end.coordinates, floor=floor, corner=0.0)
    assert end.value == pytest.approx(
        found, rel=1e-5 if small < 600 else 1e-10
    )
    assert end.value < 0.5 * value_of(loss, d, w, x, floor=floor, corner=0.0)
    assert again.value == pytest.approx(end.value, rel=1e-3)
    stopped = minimized(kind, d, x, loss, w, max_iter=2)
    assert not stopped.converged
    assert len(stopped.history) == 3


@pytest.mark.parametrize("loss", LOSSES)
def test_tiles_and_listed_pairs_and_any_library_take_the_same_way(loss):
    d, x = bumpy()
    w = 1 - np.eye(40)
    ends = [
        minimized(kind, d, x, loss, w, max_iter=8)
        for kind in ("tiles", "listed")
    ]
    there = array_api_strict.asarray
    ends.append(
        minimized("tiles", there(d), there(x), loss, there(w), max_iter=8)
    )
    order = np.random.default_rng(5).permutation(40)
    turned = minimized(
        "tiles", d[np.ix_(order, order)], x[order], loss, w, max_iter=8
    )
    ends.append(
        replace(turned, coordinates=turned.coordinates[np.argsort(order)])
    )
    for end in ends[1:]:
        np.testing.assert_allclose(
            np.asarray(end.coordinates), ends[0].coordinates, atol=1e-5
        )
        assert end.value == pytest.approx(ends[0].value, rel=1e-8)


@pytest.mark.parametrize("kind", ["tiles", "listed"])
@pytest.mark.parametrize(
    ("loss", "curvature"),
    [*((loss, 0.0) for loss in LOSSES), ("distance", -0.1), ("relative", 0.1)],
)
def test_the_units_of_d_and_of_weights_do_not_matter(loss, kind, curvature):
    (d, x), w = bumpy(), random_weights(40)
    here = minimized(kind, d, x, loss, w, max_iter=5, curvature=curvature)
    for power in (-30, 10):
        scaled = {"curvature": curvature / 4.0**power, "max_iter": 5}
        far = (d * 4.0**power, x * 2.0**power, loss, w * 4.0 ** (power // 2))
        there = minimized(kind, *far, **scaled)
        assert there.form.curvature == scaled["curvature"]
        np.testing.assert_array_equal(
            there.coordinates, here.coordinates * 2.0**power
        )
        assert there.loss.sq_floor == here.loss.sq_floor * 4.0**power
        assert there.value == here.value * 4.0 ** (
            power * here.loss.degree + power // 2
        )


def test_rows_are_cut_into_parts_of_as_many_entries():
    starts = np.cumsum([0, 5, 1, 1, 1, 4, 4, 2, 2, 12, 0])
    rows = [(one.start, one.stop) for one in listed_pairs._cut(starts, 4)]
    assert rows == [(0, 4), (4, 6), (6, 9), (9, 10)]


def test_many_objects_or_pairs_are_held_in_single_precision():
    with (
        patch.object(tiles, "FEW_OBJECTS", 5),
        patch.object(listed_pairs, "CACHED_ELEMENTS", 10),
    ):
        for n, dtype in ((5, np.float64), (6, np.float32)):
            d = np.ones((n, n))
            assert Tiles.of(d, "squared").precision == dtype
            assert (
                ListedPairs.of(
                    listed(d, d), "squared", Form(SIGNS), like=d
                ).d.dtype
                == dtype
            )


@pytest.mark.parametrize("loss", ["distance", "relative"])
def test_threads_change_no_digit(loss):
    d, x = bumpy(700)
    ends = []
    for threads in (1, 3):
        with threadpool_limits(threads, user_api="blas"):
            ends.append(minimized("tiles", d, x, loss, max_iter=4).coordinates)
    np.testing.assert_array_equal(*ends)


@pytest.mark.parametrize("kind", ["tiles", "listed"])
@pytest.mark.parametrize("loss", LOSSES)
def test_planted_coordinates_are_found_and_left_alone(kind, loss):
    x = bumpy(60)[1] * [1, 1, 1, 0.2]
    d = d_hat_of(x)
    w = random_weights(60, 0.4) * (d > 0)
    d = np.maximum(d, 0.0)
    noise = 0.1 * np.random.default_rng(1).standard_normal(x.shape)
    end = minimized(kind, d, x + noise, loss, w, max_iter=300, tol=1e-12)
    assert (
        np.abs(d_hat_of(end.coordinates) - d_hat_of(x)).max() < 1e-4 * d.max()
    )
    there = minimized(kind, d, x, loss, w)
    assert there.converged
    assert len(there.history) == 1


@pytest.mark.parametrize("curvature", [0.0, -0.3])
def test_the_floor_is_half_of_the_lowest_percent_or_the_usual_nearest(
    curvature,
):
    bumps, _ = bumpy(120)
    form, flat = Form(SIGNS, curvature), Form(SIGNS)
    seen = set()
    twins = np.kron(np.eye(60), np.ones((2, 2))) * (1 - np.eye(120)) > 0
    for d, some in (
        (bumps, bumps >= 0),
        (bumps, bumps > np.median(bumps)),
        (np.where(twins, 1e-4, bumps), bumps >= 0),
    ):
        w = 1.0 * some
        counted = np.sort(d[(d > 0) & (w > 0)].astype(np.float32))
        half = np.sqrt(counted[int(0.01 * (counted.size - 1))]) / 2
        nearest = np.where((d > 0) & (w > 0), d, np.inf).min(axis=1)
        nearest = np.sqrt(np.median(nearest[np.isfinite(nearest)]))
        seen.add(half < nearest)
        link = form.to_sq(d)
        for asarray in (np.asarray, array_api_strict.asarray):
            found = floor_of(form, asarray(link), asarray(w))
            assert found == pytest.approx(min(half, nearest), rel=1e-6)
    assert seen == {True, False}
    assert floor_of(flat, 0 * bumps) == 1.0
    pairs = make_pairs(4, [0, 0, 1, 0], [1, 2, 2, 3], [0.0, 2.0, 2.0, 3.0])
    assert pair_floor(flat, pairs) == pytest.approx(1.0)
    many = make_pairs(
        102, [0] * 101, range(1, 102), np.sqrt(np.arange(1.0, 102))
    )
    # The second of a hundred and one.
    assert pair_floor(flat, many) == pytest.approx(np.sqrt(2) / 2)
    assert (
        pair_floor(flat, replace(pairs, sq_dissimilarity=np.zeros(4))) == 1.0
    )


@pytest.mark.parametrize("kind", ["tiles", "listed"])
def test_what_a_loss_is_not_defined_for_is_refused(kind):
    d, x = bumpy()
    d[3, 5] = d[5, 3] = -0.7
    d[1, 2] = d[2, 1] = -0.2
    d[8, 9] = d[9, 8] = 0.0
    for loss in ("distance", "relative", "absolute"):
        with pytest.raises(
            InputError, match=r"pairs with D < 0: 2, the lowest -0\.7"
        ):
            minimized(kind, d, x, loss)
        w = np.where(d > 0, 1.0, 0.0)
        assert np.isfinite(minimized(kind, d, x, loss, w, max_iter=2).value)
    assert np.isfinite(minimized(kind, d, x, "squared", max_iter=2).value)


@given(
    st.sampled_from([-2.0, -0.3, 0.0, 0.2, 0.9]),
    st.sampled_from(["distance", "relative", "absolute", "linear"]),
    st.integers(0, 2**31),
)
def test_errors_count_in_d_whatever_the_curvature(curvature, name, seed):
    rng = np.random.default_rng(seed)
    d, floor = rng.uniform(0.2, 2.9, 40), 0.5
    d_hat = d * (1 + rng.uniform(-1e-4, 1e-4, 40))
    form = Form(np.ones(2), curvature)
    width = 3e-4
    loss = PairLoss(name, width=width).floored(floor, form)
    link, fitted = form.to_sq(d**2), form.to_sq(d_hat**2)
    residual, slope, bend = loss.terms(form, link, fitted.copy(), bend=True)
    error = d_hat - d
    share = error / np.maximum(d, floor)
    smooth = np.sqrt(width) * np.sqrt(np.hypot(1, share / width) - 1)
    expected = {
        "distance": error,
        "relative": share,
        "absolute": np.sign(share) * smooth,
        # D̂/D − 1 where κ is zero, twice the relative error of d.
        "linear": 2 * error * _slope(d, floor, curvature),
    }[name]
    np.testing.assert_allclose(residual, expected, rtol=2e-3, atol=1e-9)
    step = 1e-6 * fitted
    up, down = (loss.terms(form, link, fitted + s)[0] for s in (step, -step))
    np.testing.assert_allclose((up - down) / (2 * step), slope, rtol=1e-4)
    if name != "linear":
        bent = 1 + residual * (up - 2 * residual + down) / (step * slope) ** 2
        np.testing.assert_allclose(bend, bent, atol=1e-2)


def test_errors_beyond_a_sphere_stay_finite():
    edge, kappa = 4 * (1 - 0.05**2) / 0.25, 0.25
    form = Form(np.ones(2), kappa)
    loss, d = PairLoss("distance", 0.01), np.full(3, 9.0)
    residual, slope, bend = loss.terms(
        form, d, np.array([edge, edge + 1, edge + 2]), bend=True
    )
    # From there on the arc is its tangent.
    np.testing.assert_allclose(np.diff(residual), slope[:2])
    assert residual[0] == pytest.approx(
        4 * np.arcsin(np.sqrt(edge) / 4) - form.to_distance(d)[0]
    )
    np.testing.assert_array_equal(bend[1:], 1)


def _slope(d, floor, curvature):
    """What an error of d counts: 1/d, and below the floor g′(d)/g′(f) of 1/f."""
    c = np.sqrt(abs(curvature))

    def slope(d):
        return (
            2 * d
            if not c
            else 2 * (np.sinh if curvature < 0 else np.sin)(c * d) / c
        )

    low = np.maximum(d, floor)
    return slope(d) / slope(low) / low


@pytest.mark.parametrize("loss", ["relative", "absolute"])
def test_a_good_start_is_kept_where_d_spans_decades(loss):
    rng = np.random.default_rng(0)
    x = np.exp(rng.uniform(0, 14, (60, 1))) * rng.standard_normal((60, 3))
    noise = rng.standard_normal((60, 60))
    d = np.linalg.norm(x[:, None] - x, axis=2) * np.exp(
        0.2 * (noise + noise.T)
    )
    start = Configuration(x, Form(np.array([1.0, 1.0, -1.0])))
    end = minimize(Tiles.of(d**2, "relative"), start)
    summed = Tiles.of(d**2, loss)
    # High floors alone end 20 % higher.
    assert finish(summed, end).value <= summed.value_of(end)
