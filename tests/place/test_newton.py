"""New objects by a loss of pairs: at a minimum of their own loss, in few steps."""

from unittest.mock import patch

import numpy as np
import pytest
from scipy.optimize import minimize

from neucmds.form import Form
from neucmds.place import newton
from neucmds.place.least_squares import Fitted
from neucmds.place.newton import LossPlacement
from neucmds.refine.losses import PairLoss

LOSSES = ("distance", "relative")


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
    d_hat = Form(rule.form.signs).sq(y[None, :], rule.coordinates)[0]
    return float(np.nansum(weights * rule.loss.terms(rule.form, delta, d_hat)[0] ** 2))


@pytest.mark.parametrize("hidden", [0.0, 0.5])
@pytest.mark.parametrize("loss", LOSSES)
def test_no_descent_from_where_an_object_is_placed_gets_lower(loss, hidden):
    rule, delta = case(loss, m=6, hidden=hidden)
    rng = np.random.default_rng(1)
    weights = rng.uniform(size=delta.shape) if hidden else np.ones_like(delta)
    placed = rule.place(delta, weights if hidden else None)
    for row, u, y in zip(delta, weights, placed, strict=True):
        # The relative loss has one minimum, found in closed form.
        far = [2 * rng.standard_normal(5) for _ in range(loss == "relative")]
        for start in (y, *far):
            end = minimize(value, start, (rule, row, u), method="BFGS", tol=1e-9)
            assert value(y, rule, row, u) <= end.fun * (1 + 1e-7)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_model_has_the_gradient_and_the_curvature_of_the_loss(loss):
    rule, delta = case(loss, m=4)
    fitted = Fitted.of(rule.coordinates, rule.form.signs, delta)
    problem = newton._Problem(fitted, rule.loss, delta, np.arange(1.0, 61) * np.ones((4, 1)))
    x, way, h = 3 + rule.place(delta), np.random.default_rng(2).normal(size=(4, 5)), 1e-4
    with patch.object(newton, "_upwards", lambda hessian: hessian):
        (gradient, hessian), (there, _) = problem.model(x), problem.model(x + h * way)
    low, high = (problem.value(x + t * way) for t in (-h, h))
    np.testing.assert_allclose(np.sum(gradient * way, axis=1), (high - low) / (2 * h), 1e-5)
    bent = np.einsum("ma,mab,mb->m", way, hessian, way)
    change = np.sum((there - gradient) * way, axis=1) / h
    np.testing.assert_allclose(bent, change, rtol=1e-2)
    if loss == "relative":
        with patch.object(newton, "_descended", None):  # it has a closed form, on any scale
            small = LossPlacement(1e-4 * rule.coordinates, rule.form, PairLoss(loss, 5e-10))
            np.testing.assert_allclose(small.place(1e-8 * delta), 1e-4 * rule.place(delta))


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
    np.testing.assert_allclose(rule.place(np.abs(d), np.where(d > 0, 1.0, 0.0)), x, atol=1e-6)


def test_an_object_takes_few_steps(monkeypatch):
    """Gauss–Newton took 46 on average, and 60 at most."""
    rule, delta = case("distance", n=300, m=50, least=0.5)
    steps = []
    model = newton._Problem.model

    def counted(self, x):
        steps.append(x.shape[0])
        return model(self, x)

    monkeypatch.setattr(newton._Problem, "model", counted)
    rule.place(delta)
    assert steps
    assert sum(steps) <= 16 * 50
    assert len(steps) <= 50


@pytest.mark.parametrize("loss", ["distance", "relative", "squared"])
def test_objects_with_landmarks_of_their_own_are_placed_as_if_others_were_not_known(loss):
    rule, delta = case(loss, m=8)
    own = np.array([np.random.default_rng(i).permutation(60)[:30] for i in range(8)])
    rows = np.full(delta.shape, np.nan)
    few = np.take_along_axis(delta, own, axis=1)
    np.put_along_axis(rows, own, few, axis=1)
    np.testing.assert_allclose(rule.place(few, own=own), rule.place(rows), atol=1e-6)
