"""New objects by a loss of pairs: at a minimum of their own loss, in few steps."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from neucmds._methods.geometry import sq_dissimilarities
from neucmds._methods.refined.losses import PairLoss
from neucmds._placement import loss_rule
from neucmds._placement.loss_rule import LossPlacement

LOSSES = ("squared", "distance", "relative")


def case(loss, n=60, m=12, hidden=0.0, least=0.1, seed=0):
    """Noisy dissimilarities of m objects to n others; the coordinates have some below `least`."""
    rng = np.random.default_rng(seed)
    signs = np.array([1.0, 1.0, 1.0, -1.0, -1.0])
    x = rng.normal(size=(n + m, 5)) * np.where(signs > 0, 1.0, 0.3)
    x -= x[:n].mean(axis=0)
    delta = np.clip(sq_dissimilarities(x[n:], x[:n], signs), least, None)
    delta = delta * (1 + 0.2 * rng.normal(size=delta.shape)) ** 2
    delta[rng.random(delta.shape) < hidden] = np.nan
    return LossPlacement(x[:n], signs, PairLoss(loss, 0.05)), delta


def value(rule, delta, y):
    known = ~np.isnan(delta)
    d_hat = sq_dissimilarities(y[None, :], rule.coordinates, rule.signs)[0]
    return float(np.sum(rule.loss.terms(delta[known], d_hat[known]).residual ** 2))


@pytest.mark.parametrize("hidden", [0.0, 0.5])
@pytest.mark.parametrize("loss", LOSSES)
def test_no_descent_from_where_an_object_is_placed_gets_lower(loss, hidden):
    rule, delta = case(loss, hidden=hidden)
    for row, y in zip(delta, rule.place(delta), strict=True):
        end = minimize(lambda z, row=row: value(rule, row, z), y, method="BFGS", tol=1e-9)
        assert value(rule, row, y) <= end.fun * (1 + 1e-7)


@pytest.mark.parametrize("loss", LOSSES)
def test_an_object_takes_few_steps(loss, monkeypatch):
    """Gauss–Newton took 46 on average with "distance", 11 with "relative", and 60 at most."""
    rule, delta = case(loss, n=300, m=50, least=0.5)
    steps = []
    model = loss_rule._Problem.model

    def counted(self, x):
        steps.append(x.shape[0])
        return model(self, x)

    monkeypatch.setattr(loss_rule._Problem, "model", counted)
    rule.place(delta)
    assert sum(steps) <= 16 * 50
    assert len(steps) <= 50
