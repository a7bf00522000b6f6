"""The descent itself: on quadratics it is the conjugate gradient method, and it stops as told."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neucmds.form import Form
from neucmds.refine.descent import (
    descend,
    lowest_point,
    search_by_slopes,
    usual_tol,
)
from neucmds.refine.losses import PairLoss


@dataclass(frozen=True)
class Quadratic:
    """½xᵀHx + 1, with a preconditioner M."""

    h: np.ndarray
    m: np.ndarray
    coordinates: np.ndarray
    rounding: float = 1e-14
    unit: float = 2.0
    form: Form = field(default_factory=lambda: Form(np.ones(1)))
    loss: PairLoss = field(default_factory=lambda: PairLoss("squared"))

    @property
    def value(self):
        x = self.coordinates[:, 0]
        return 0.5 * float(x @ self.h @ x) + 1.0

    @cached_property
    def gradient(self):
        return self.h @ self.coordinates

    @property
    def step(self):
        return np.linalg.solve(self.m, self.gradient)

    def minimize_along(self, direction):
        t = -np.vdot(self.gradient, direction) / np.vdot(
            direction, self.h @ direction
        )
        moved = Quadratic(self.h, self.m, self.coordinates + t * direction)
        return moved if moved.value < self.value else None

    def sharper(self):
        return None

    def measured(self):
        return self


def quadratic(seed, n):
    rng = np.random.default_rng(seed)
    h, m = (a @ a.T + np.eye(n) for a in rng.standard_normal((2, n, n)))
    return Quadratic(h, m, rng.standard_normal((n, 1)))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 8))
def test_a_quadratic_of_n_variables_takes_n_steps(seed, n):
    start = quadratic(seed, n)
    heard = []
    end = descend(
        start,
        max_iter=n,
        tol=0.0,
        callback=lambda *a: heard.append(a),
    )
    assert end.value == pytest.approx(2.0, abs=1e-6)
    assert np.all(np.diff(end.history) < 0)
    values = end.history[1:]
    assert heard == [(step, n, value) for step, value in enumerate(values, 1)]
    fewer = descend(start, max_iter=n - 1, tol=0.0)
    assert fewer.history == end.history[:n]
    last = replace(start, coordinates=fewer.coordinates)
    rest = np.vdot(last.gradient, last.step) / (2 * last.value)
    assert fewer.relative_gradient == pytest.approx(np.sqrt(rest))


@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-6])
def test_it_stops_where_three_steps_gain_little_and_one_more_promises_little(
    tol,
):
    end = descend(quadratic(0, 30), max_iter=200, tol=tol)
    values, flat = np.array(end.history), min(tol, 6e-4)
    assert end.converged
    assert end.relative_gradient**2 <= flat + 1e-14
    assert values[-4] - values[-1] <= tol * values[-4]
    before = descend(quadratic(0, 30), max_iter=len(values) - 2, tol=tol)
    assert not before.converged
    little = values[-5] - values[-2] <= tol * values[-5]
    assert not little or before.relative_gradient**2 > flat
    at_once = descend(quadratic(0, 30), max_iter=0, tol=tol)
    assert (at_once.history, at_once.converged) == ((values[0],), False)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(-9, 9), min_size=3, max_size=3),
    st.floats(-9, -0.1),
    st.floats(0.1, 9),
)
def test_the_lowest_point_of_a_quartic_is_found(middle, slope, last):
    c = np.array([middle[0], slope, middle[1], middle[2], last])
    t = lowest_point(c)
    grid = np.linspace(0, 2 + max(1, np.abs(c).max() / last), 20_001)
    assert t > 0
    assert (
        np.polyval(c[::-1], t)
        <= np.polyval(c[::-1], grid).min() + 1e-9 * np.abs(c).max()
    )


def test_a_line_that_does_not_fall_has_no_lowest_point():
    for c in (
        [1, 0, 1, 0, 1],
        [1, 2, 1, 0, 1],
        [1, np.nan, 1, 0, 1],
        [1, -1, 0, 0, 0],
    ):
        assert lowest_point(np.array(c, dtype=float)) is None
        assert c[1] == -1 or searched(c, lambda t: (1.0 + t, 1.0)) is None
    assert searched([1.0, -1, 1, 0, 0], lambda t: (1.0 + t, 1.0)) is None
    assert searched([1.0, 0.5, 1, 0, 0], lambda t: (0.5, 0.0)) is None


def searched(quartic, at):
    """Return where a search along a line ends, of which `at` tells value and slope."""

    def move(t):
        value, slope = at(t)
        return SimpleNamespace(t=t, value=value, gradient=np.array([slope]))

    end = search_by_slopes(
        np.array(quartic, dtype=float), move, np.ones(1), 0.3
    )
    return None if end is None else end.t


@settings(max_examples=60, deadline=None)
@given(st.floats(0.05, 20), st.floats(-2, 2))
def test_a_search_ends_lower_and_where_the_slope_is_a_third(stretch, tilt):
    """On √(1 + (t/s − 1)²) with a bump, whose quartic at 0 is a bad guess."""

    def at(t):
        u = t / stretch - 1
        root = np.sqrt(1 + u * u)
        bump = 0.1 * tilt * np.tanh(u)
        return root + bump, (
            u / root + 0.1 * tilt * (1 - np.tanh(u) ** 2)
        ) / stretch

    value, slope = at(0.0)
    for curvature in (1.0, 1e-3, 1e3):
        seen = []
        quartic = [value, slope, curvature, 0.0, 0.0]
        t = searched(quartic, lambda t, seen=seen: seen.append(t) or at(t))
        assert at(t)[0] < value
        assert t in seen
        assert len(seen) <= 20
        if len(seen) < 10:
            assert abs(at(t)[1]) <= 0.3 * abs(slope)


def test_a_search_ends_at_once_where_rounding_hides_the_gain():
    """At the lowest point of the quartic the slope is zero, and the value is higher by rounding."""
    rounded_up = 1.0 + 1e-7
    seen = []

    def at(t):
        seen.append(t)
        return rounded_up, 0.0

    assert searched([1.0, -1e-8, 1.0, 0.0, 0.0], at) is None
    assert len(seen) == 1


@pytest.mark.parametrize("tol", [1e-2, 1e-6])
def test_it_rests_where_no_point_is_lower_and_a_step_promises_little(tol):
    """It does not look for sharper numbers there."""

    class Blurred(Quadratic):
        def minimize_along(self, direction):
            return None

        def sharper(self):
            raise AssertionError("asked for a sharper point")

    lowest = quadratic(0, 5)
    near = replace(lowest, coordinates=1e-4 * lowest.coordinates)
    blurred = Blurred(near.h, near.m, near.coordinates)
    end = descend(blurred, max_iter=9, tol=tol)
    assert end.converged
    assert end.history == (near.value * near.unit,)


def test_few_objects_have_a_lower_tolerance():
    assert usual_tol("distance", 600) < usual_tol("distance", 601)
    assert usual_tol("distance", 601) < usual_tol("relative", 601)
    assert Form(np.array([1.0, -1.0, 1.0])).signature == (2, 1)
