"""The closed form of losses quadratic in D̂, against descents from anywhere."""

import numpy as np
import pytest

from neucmds._methods.geometry import sq_dissimilarities
from neucmds._methods.refined.losses import PairLoss
from neucmds._placement import loss_rule
from neucmds._placement.loss_rule import LossPlacement


@pytest.mark.parametrize("loss", ["squared", "relative"])
def test_no_descent_ends_below_the_closed_form(loss):
    rng = np.random.default_rng(5)
    signs = np.array([1.0, 1.0, 1.0, -1.0])
    y = rng.standard_normal((40, 4)) * [3.0, 2.0, 1.0, 0.5]
    # Far from any position, with gaps, weights, and objects next to a fitted one.
    d = rng.uniform(0.1, 9.0, (60, 40))
    d[:20, 3] = 1e-4
    d[rng.random(d.shape) < 0.1] = np.nan
    weights = rng.uniform(0.0, 1.0, d.shape)
    rule = LossPlacement(y - y.mean(axis=0), signs, PairLoss(loss, 1e-4))

    def value(x):
        d_hat = sq_dissimilarities(x, rule.coordinates, signs)
        scale = 1.0 if loss == "squared" else np.maximum(d, 1e-4)
        return np.nansum(weights * ((d_hat - d) / scale) ** 2, axis=1)

    least = value(rule.place(d, weights=weights))
    known = np.where(np.isnan(d), 0.0, d)
    problem = loss_rule._Problem(
        loss_rule._Fitted.of(rule, d), known, np.where(np.isnan(d), 0.0, weights)
    )
    for _ in range(10):
        start = 4 * rng.standard_normal((60, 4))
        end = loss_rule._descend(problem, start, problem.value(start))
        assert np.all(least <= value(end) * (1 + 1e-9))


@pytest.mark.parametrize("off", [1e-1, 1e-2, 1e-3, 1e-5])
def test_objects_next_to_a_fitted_one_are_placed_there(off):
    rng = np.random.default_rng(6)
    signs, scale = np.array([1.0, 1.0, -1.0]), np.array([1.0, 1.0, 0.1])
    y = rng.standard_normal((30, 3)) * scale
    y -= y.mean(axis=0)
    x = y[4] + off * rng.standard_normal((5, 3)) * scale
    gap = x[:, None] - y[None, :]
    d = (gap * gap) @ signs
    counted = np.where(d > 0, 1.0, 0.0)
    rule = LossPlacement(y, signs, PairLoss("relative", 1e-16))
    found = rule.place(np.abs(d), weights=counted)
    np.testing.assert_allclose(found, x, atol=1e-6)
