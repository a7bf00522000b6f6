"""What the refinement carries along instead of computing it anew, held to what it is."""

from functools import partial
from unittest.mock import patch

import numpy as np
import pytest

from neucmds import datasets
from neucmds.form import Form
from neucmds.refine import products
from neucmds.refine.descent import Configuration, descend
from neucmds.refine.products import FreeCoordinates, refine
from neucmds.spectrum.operators.dense import DenseGram

SIGNS = np.array([1.0, 1.0, -1.0, 1.0, -1.0])
FORM = Form(SIGNS)


def coordinates(n, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, SIGNS.size))
    return x - x.mean(axis=0)


def test_what_follows_a_line_is_what_would_be_computed_there():
    n = 60
    gram = DenseGram(datasets.euclidean_ball(n, random_state=0))
    x = coordinates(n)
    start = at(gram, x)
    with patch.object(
        products, "lowest_point", wraps=products.lowest_point
    ) as searched:
        moved = start.minimize_along(-start.step)
    (quartic,) = searched.call_args.args
    for t in (0.0, 0.5, 2.0):
        value = at(gram, x - t * start.step).value
        assert np.polyval(quartic[::-1], t) == pytest.approx(value, rel=1e-9)
    anew = at(gram, moved.coordinates)
    for name in ("bx", "inner", "diagonal_error"):
        carried, computed = getattr(moved, name), getattr(anew, name)
        size = np.abs(computed).max()
        np.testing.assert_allclose(
            carried, computed, rtol=0, atol=1e-9 * size, err_msg=name
        )
    assert moved.value == pytest.approx(anew.value, rel=1e-9)
    assert moved.value < start.value


def at(gram, x):
    return FreeCoordinates.at(gram, x, gram.matmat(x), FORM, gram.matmat)


def form(x):
    return np.sum(SIGNS * (x[:, None] - x[None]) ** 2, axis=-1)


@pytest.mark.parametrize(
    "small", [1500, 10]
)  # the second: in single precision
@pytest.mark.parametrize("exact", [False, True])
def test_the_stress_is_that_of_the_coordinates_in_double_precision(
    small, exact
):
    unit = 1e-5 if exact else 1.0
    x = unit * coordinates(50)
    D = form(x) if exact else datasets.euclidean_ball(50, random_state=0)
    start = x + 0.1 * unit * coordinates(50, 1)
    heard = []
    descent = partial(
        descend,
        max_iter=60,
        tol=1e-6,
        callback=lambda *step: heard.append(step),
    )
    gram = DenseGram(D)
    with patch.object(products, "MAX_DENSE", small):
        found = refine(gram, Configuration(start, FORM), descent)
    d_hat = found.form.sq(found.coordinates, found.coordinates)
    stress, size = np.sum((d_hat - D) ** 2), np.sum(D**2)
    terms, rounding = products.exact_terms(
        gram, found.coordinates, found.form, found.quadratic
    )
    assert sum(terms) == found.value
    assert abs(found.value - stress) <= 4 * rounding
    assert np.all(np.diff(found.history) <= 0)
    assert found.history[0] == pytest.approx(
        np.sum((form(start) - D) ** 2), rel=0.01
    )
    assert len(heard) == len(found.history) - 1
    if exact:
        assert stress < 1e-12 * size
        return
    assert found.history[-1] == pytest.approx(
        stress, rel=1e-3 if small == 10 else 1e-9
    )
    y = found.coordinates - found.coordinates.mean(axis=0)
    b = gram.matmat(np.eye(50))
    error = b - (y * found.signs) @ y.T
    c1, c2 = 4 * np.sum(error**2), 4 * np.trace(error) ** 2
    assert terms == pytest.approx((c1, c2, stress - c1 - c2), rel=1e-6)
