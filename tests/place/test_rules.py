"""Rules of placement against brute force, with weights and gaps, and what they never do."""

import itertools
from dataclasses import replace

import array_api_strict
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from neucmds import Embedding, InputError, neuc_mds
from neucmds.form import Form
from neucmds.place import newton
from neucmds.place.least_squares import NewObjects, secular_minimum
from neucmds.place.rules import LinearPlacement, LossPlacement
from neucmds.refine.losses import PairLoss
from neucmds.refine.pairwise import moments


def objective(z, p, t, m):
    c = float(m @ z**2)
    slope = 8 * z + 4 * p + 4 * (c - t) * m * z
    return 4 * z @ z + 4 * p @ z - 2 * t * c + c * c, slope


@settings(max_examples=15, deadline=None)
@example((-0.4, 0.0), 40.0, 0)
@example((0.5, 0.1), 4.3, 0)
@given(
    st.sampled_from(
        [(0.5, 0.1), (-0.5, -0.1), (0.7, -0.3), (0.4, 0.0), (1.0, 1.0)]
    ),
    st.sampled_from([-20.0, -1.0, 0.0, 3.0, 40.0]),
    st.integers(0, 10**6),
)
def test_the_secular_equation_finds_the_global_minimum(m, t, seed):
    m, p = np.asarray(m), np.random.default_rng(seed).normal(size=(2, 2)) * 3
    p[1] = (
        0  # nothing pulls, and yet it is as far out as its dissimilarities say
    )
    found, _ = secular_minimum(p, np.full(2, t), m[None, :])
    for z, row in zip(found, p, strict=True):
        starts = itertools.product((-5, 0.1, 5), repeat=2)
        best = min(
            minimize(objective, s, (row, t, m), jac=True, tol=1e-12).fun
            for s in starts
        )
        assert objective(z, row, t, m)[0] <= best + 1e-7 * abs(best)


def loss_and_slope(y, row, w, rule):
    """Weighted sum of squares with offsets and ridge at y, and its gradient."""
    x, a = rule.coordinates, rule.form.signs
    offsets = 0 if rule.offsets is None else rule.offsets
    ridge = np.zeros(a.size) if rule.ridge is None else rule.ridge
    gaps = np.where(w > 0, row - offsets - Form(a).sq(y[None, :], x)[0], 0.0)
    origin = w @ x / w.sum()
    held = 4 * ridge * (y - origin) * w.sum() / ((w.sum() ** 2) / (w @ w))
    slope = -4 * a * ((w * gaps) @ (y[None, :] - x)) + 2 * held
    return (w * gaps) @ gaps + held @ (y - origin), slope


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(["alike", "weights", "gaps"]),
    weakest=st.sampled_from([1.0, 1e-3, 1e-6, 1e-9]),
    noise=st.sampled_from([0.0, 0.1, 1.0]),
    learnt=st.booleans(),
)
def test_no_descent_ends_below_where_an_object_is_placed(
    seed, kind, weakest, noise, learnt
):
    rng = np.random.default_rng(seed)
    n, signs = 30, np.array([1.0, 1.0, -1.0, 1.0])
    scale = np.sqrt([1.0, 0.5, 0.3, weakest])
    x = rng.normal(size=(n, 4)) * scale
    x -= x.mean(axis=0)
    delta = Form(signs).sq(rng.normal(size=(3, 4)) * scale, x)
    delta = delta * (1 + noise * rng.normal(size=delta.shape))
    rule = LossPlacement(x, Form(signs))
    if learnt:
        rule = replace(
            rule, offsets=0.1 * rng.normal(size=n), ridge=rng.random(4)
        )
    w = (
        rng.uniform(0.1, 1, delta.shape)
        if kind == "weights"
        else np.ones_like(delta)
    )
    if kind == "gaps":
        w = (rng.random(delta.shape) < 0.7).astype(float)
        delta = np.where(w > 0, delta, np.nan)
    placed = rule.place(delta, w if kind == "weights" else None)
    for y, row, u in zip(placed, np.nan_to_num(delta), w, strict=True):
        value = loss_and_slope(y, row, u, rule)[0]
        for start in (y, *(rng.normal(size=(2, 4)) * 2)):
            end = minimize(
                loss_and_slope, start, (row, u, rule), jac=True, tol=1e-14
            ).fun
            assert value <= end + 1e-7 * abs(end) + 1e-13 * (row @ row)


@pytest.mark.parametrize(
    "loss", ["squared", "distance", "relative", "absolute"]
)
def test_equal_weights_are_no_weights(loss):
    D, rows = points_with_noise(3, n=20)
    embedding = neuc_mds(
        D, 3, loss=loss, n_init=None if loss == "squared" else 1
    )
    found = embedding.transform(rows, weights=np.full(rows.shape, 7.0))
    np.testing.assert_allclose(
        found, embedding.transform(rows), rtol=1e-6, atol=1e-9
    )


def test_a_weight_of_three_is_three_objects_in_one_place():
    rng = np.random.default_rng(1)
    signs, x = np.array([1.0, 1.0, -1.0]), rng.normal(size=(20, 3))
    weights, delta = rng.integers(1, 5, 20), rng.uniform(1, 9, size=(4, 20))
    center = np.average(x, axis=0, weights=weights)
    often = np.repeat(np.arange(20), weights)
    expected = (
        LossPlacement(x[often] - center, Form(signs)).place(delta[:, often])
        + center
    )
    mean = x.mean(axis=0)
    found = (
        LossPlacement(x - mean, Form(signs)).place(
            delta, np.tile(weights, (4, 1))
        )
        + mean
    )
    np.testing.assert_allclose(found, expected, atol=1e-9)


def points_with_noise(seed, n=50, decimals=10):
    """Points in 3-d whose distances are rounded, and new rows with 10 % noise."""
    rng = np.random.default_rng(seed)
    x, new = rng.normal(size=(n, 3)), rng.normal(size=(20, 3))
    rows = cdist(new, x) * np.abs(1 + 0.1 * rng.normal(size=(20, n)))
    return cdist(x, x).round(decimals), rows


@pytest.mark.parametrize(
    ("decimals", "n"), [(4, 12), (12, 12), (4, 50), (8, 50)]
)
def test_a_column_without_weight_carries_no_new_object(decimals, n):
    """Rounding leaves a fourth coordinate of weight 1e-4 to 1e-13; it once reached 5,653."""
    D, rows = points_with_noise(0, n, decimals)
    embedding = neuc_mds(D, 5)
    real = np.abs(embedding.weights) > 1e-4 * np.abs(embedding.weights[0])
    for weights in (None, np.ones_like(rows)):
        placed = embedding.transform(rows, weights=weights)
        assert np.abs(placed).max() < 3 * np.abs(embedding.coordinates).max()
        spread = np.abs(embedding.coordinates).max(axis=0)
        assert np.all(np.abs(placed[:, ~real]) <= 3 * spread[~real])


@pytest.mark.parametrize(("n", "decimals"), [(12, 3), (50, 8)])
def test_fitted_rows_are_placed_where_they_were_fitted(n, decimals):
    D, _ = points_with_noise(0, n, decimals)
    embedding = neuc_mds(D, 4, tol=1e-9, max_iter=1000)
    moved = (embedding.transform(D) - embedding.coordinates)[:, :3]
    size = np.abs(embedding.coordinates).max()
    assert np.abs(moved).max() < (0.1**decimals + 1e-8) * size


def test_what_shrinkage_adds_is_the_ridge_of_the_objects_own_noise():
    rng = np.random.default_rng(7)
    signs = np.array([1.0, -1.0, 1.0])
    x = rng.normal(size=(30, 3))
    x, _ = np.linalg.qr(x - x.mean(axis=0))
    x *= np.array([3.0, 2.0, 0.5])
    row = rng.uniform(1, 2, size=(1, 30))
    plain = LossPlacement(x, Form(signs))
    left = row[0] - Form(signs).sq(plain.place(row), x)[0]
    noise = left @ left / (30 - 3 - 1)
    ridge = 0.7 * noise / 4 * 30 / np.sum(x * x, axis=0)
    np.testing.assert_allclose(
        replace(plain, shrinkage=0.7).place(row),
        replace(plain, ridge=ridge).place(row),
        rtol=1e-8,
    )
    # A loss of pairs holds negative coordinates alone.
    by_loss = LossPlacement(x, Form(np.ones(3)), PairLoss("relative", 0.05))
    np.testing.assert_allclose(
        replace(by_loss, shrinkage=9.0).place(row), by_loss.place(row)
    )


def test_triangulation_answers_in_the_library_of_the_new_objects():
    rng = np.random.default_rng(0)
    rule, delta = (
        LinearPlacement(*map(rng.random, (9, (9, 2)))),
        rng.random((3, 9)),
    )
    found = rule.place(array_api_strict.asarray(delta.astype(np.float32)))
    assert found.dtype == array_api_strict.float64
    np.testing.assert_allclose(np.asarray(found), rule.place(delta), atol=1e-6)
    single = LinearPlacement(rule.mean.astype("f"), rule.projector.astype("f"))
    assert single.place(delta.astype("f")).dtype == np.float32


# Gaps


def holed(D, share, seed):
    upper = np.triu(np.random.default_rng(seed).random(D.shape) < share, 1)
    return np.where(upper | upper.T, np.nan, D)


@pytest.fixture(scope="module")
def with_gaps():
    """Forty objects with 20 % of the pairs hidden, and ten later ones with 60 % hidden."""
    rng = np.random.default_rng(8)
    x, signs = rng.normal(size=(50, 3)), np.array([1.0, 1.0, -1.0])
    D = Form(signs).sq(x, x)
    D = (D + D.T) / 2
    embedding = neuc_mds(
        holed(D[:40, :40], 0.2, 0), 3, squared=True, missing="ignore", tol=1e-9
    )
    rows = D[40:, :40].copy()
    hidden = rng.random(rows.shape) < 0.6
    return D, embedding, np.where(hidden, np.nan, rows), rows


def test_a_fit_with_gaps_places_objects_with_gaps(with_gaps, tmp_path):
    _, embedding, rows, truth = with_gaps
    placed = embedding.transform(rows)
    found = Form(embedding.signs).sq(placed, embedding.coordinates)
    np.testing.assert_allclose(found, truth, atol=1e-4 * np.abs(truth).max())
    # one by one, beside an object without gaps, or with weights of zero is the same
    both = embedding.transform(np.stack([truth[0], rows[3]]))
    np.testing.assert_allclose(both[1], placed[3], atol=1e-10)
    np.testing.assert_allclose(
        both[0], embedding.transform(truth[:1])[0], atol=1e-10
    )
    weighted = embedding.transform(truth, weights=~np.isnan(rows))
    np.testing.assert_allclose(weighted, placed, atol=1e-10)
    replace(
        embedding, placement=replace(embedding.placement, shrinkage=2.5)
    ).save(tmp_path / "e.npz")
    loaded = Embedding.load(tmp_path / "e.npz")
    assert loaded.placement.shrinkage == 2.5
    np.testing.assert_allclose(loaded.transform(rows), placed, atol=1e-8)


def test_gaps_that_were_not_allowed_or_leave_too_little_are_refused(with_gaps):
    D, embedding, rows, _ = with_gaps
    few, infinite = rows.copy(), rows.copy()
    few[7, 3:], few[7, :3], infinite[7] = np.nan, 1.0, np.inf
    closed_form = replace(
        neuc_mds(D[:40, :40], 3, "neuc", squared=True), missing="ignore"
    )
    for one, new, message in (
        (neuc_mds(D[:40, :40], 3, squared=True), rows, "missing='ignore'"),
        (closed_form, rows, "closed forms place objects by all"),
        (
            embedding,
            few,
            r"row 7 of the new objects has 3 known .* at least 4",
        ),
        (embedding, infinite, "infinity"),
    ):
        with pytest.raises(InputError, match=message):
            one.transform(new)


# Losses


LOSSES = ("distance", "relative", "absolute", "linear")


def case(loss, n=60, m=12, hidden=0.0, least=0.1, seed=0):
    """Noisy dissimilarities of m objects to n others; the coordinates have some below `least`."""
    rng = np.random.default_rng(seed)
    signs = np.array([1.0, 1.0, 1.0, -1.0, -1.0])
    x = rng.normal(size=(n + m, 5)) * np.where(signs > 0, 1.0, 0.3)
    x -= x[:n].mean(axis=0)
    delta = np.clip(Form(signs).sq(x[n:], x[:n]), least, None)
    delta = delta * (1 + 0.2 * rng.normal(size=delta.shape)) ** 2
    delta[: m // 2, 3] = 1e-4  # next to a fitted object
    delta[rng.random(delta.shape) < hidden] = np.nan
    return LossPlacement(x[:n], Form(signs), PairLoss(loss, 0.05)), delta


def value(y, rule, delta, weights):
    d_hat = rule.form.sq(y[None, :], rule.coordinates)[0]
    return float(
        np.nansum(weights * rule.loss.terms(rule.form, delta, d_hat)[0] ** 2)
    )


@pytest.mark.parametrize("hidden", [0.0, 0.5])
@pytest.mark.parametrize("loss", LOSSES)
def test_no_descent_from_where_an_object_is_placed_gets_lower(loss, hidden):
    rule, delta = case(loss, m=6, hidden=hidden)
    rng = np.random.default_rng(1)
    weights = rng.uniform(size=delta.shape) if hidden else np.ones_like(delta)
    placed = rule.place(delta, weights if hidden else None)
    for row, u, y in zip(delta, weights, placed, strict=True):
        # Least squares in D̂ have one minimum, found in closed form.
        far = [2 * rng.standard_normal(5) for _ in range(loss == "linear")]
        for start in (y, *far):
            end = minimize(
                value, start, (rule, row, u), method="BFGS", tol=1e-9
            )
            assert value(y, rule, row, u) <= end.fun * (1 + 1e-7)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_model_has_the_gradient_and_the_curvature_of_the_loss(loss):
    rule, delta = case(loss, m=4)
    counts = np.arange(1.0, 61) * np.ones((4, 1))
    new = NewObjects(
        delta, counts, rule.coordinates, rule.form, moments(rule.coordinates)
    )
    x, way, h = (
        3 + rule.place(delta),
        np.random.default_rng(2).normal(size=(4, 5)),
        1e-4,
    )
    gradient, hessian = newton.newton_model(new, rule.loss, x)
    there, _ = newton.newton_model(new, rule.loss, x + h * way)
    low, high = (
        newton.loss_values(new, rule.loss, x + t * way) for t in (-h, h)
    )
    np.testing.assert_allclose(
        np.sum(gradient * way, axis=1), (high - low) / (2 * h), 1e-5
    )
    bent = np.einsum("ma,mab,mb->m", way, hessian, way)
    change = np.sum((there - gradient) * way, axis=1) / h
    np.testing.assert_allclose(bent, change, rtol=1e-2)


def test_the_relative_loss_is_placed_alike_on_any_scale():
    rule, delta = case("relative", m=4)
    small = LossPlacement(
        1e-4 * rule.coordinates, rule.form, PairLoss("relative", 5e-10)
    )
    np.testing.assert_allclose(
        small.place(1e-8 * delta), 1e-4 * rule.place(delta)
    )


@pytest.mark.parametrize("off", [1e-1, 1e-3, 1e-5])
def test_objects_next_to_a_fitted_one_are_placed_there(off):
    rng = np.random.default_rng(6)
    signs, scale = np.array([1.0, 1.0, -1.0]), np.array([1.0, 1.0, 0.1])
    y = rng.standard_normal((30, 3)) * scale
    y -= y.mean(axis=0)
    x = y[4] + off * rng.standard_normal((5, 3)) * scale
    gap = x[:, None] - y[None, :]
    d = (gap * gap) @ signs
    rule = LossPlacement(y, Form(signs), PairLoss("relative", 1e-16))
    np.testing.assert_allclose(
        rule.place(np.abs(d), np.where(d > 0, 1.0, 0.0)), x, atol=1e-6
    )


def test_an_object_takes_few_steps(monkeypatch):
    """Gauss–Newton took 46 on average, and 60 at most."""
    rule, delta = case("distance", n=300, m=50, least=0.5)
    steps, model = [], newton.newton_model

    def counted(new, loss, x):
        steps.append(x.shape[0])
        return model(new, loss, x)

    monkeypatch.setattr(newton, "newton_model", counted)
    rule.place(delta)
    assert steps
    assert sum(steps) <= 16 * 50
    assert len(steps) <= 50


@pytest.mark.parametrize("loss", ["distance", "relative", "squared"])
def test_objects_with_landmarks_of_their_own_are_placed_as_if_others_were_not_known(
    loss,
):
    rule, delta = case(loss, m=8)
    own = np.array(
        [np.random.default_rng(i).permutation(60)[:30] for i in range(8)]
    )
    rows = np.full(delta.shape, np.nan)
    few = np.take_along_axis(delta, own, axis=1)
    np.put_along_axis(rows, own, few, axis=1)
    np.testing.assert_allclose(
        rule.place(few, partners=own), rule.place(rows), atol=1e-6
    )
