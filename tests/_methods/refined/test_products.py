"""What the refinement carries along instead of computing it anew, held to what it is."""

import numpy as np
import pytest

from neucmds import api, neuc_mds
from neucmds._backend.threads import worker_pool
from neucmds._methods.refined.descent import Limits, Start, dot
from neucmds._methods.refined.products import FreeCoordinates, refine
from neucmds._operator import DenseGram, Moments
from neucmds.datasets import synthetic

SIGNS = np.array([1.0, 1.0, -1.0, 1.0, -1.0])


class Counting(DenseGram):
    """Counts its products."""

    products = 0

    def matmat(self, block):
        self.products += 1
        return super().matmat(block)


def coordinates(n, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, SIGNS.size))
    return x - x.mean(axis=0)


def test_what_follows_a_line_is_what_would_be_computed_there():
    n = 60
    gram = DenseGram(synthetic.euclidean_ball(n, random_state=0))
    x = coordinates(n)
    start = FreeCoordinates.at(gram, x, gram.matmat(x), SIGNS, gram.matmat)
    moved = start.minimize_along(-start.step)
    anew = FreeCoordinates.at(gram, moved.x, gram.matmat(moved.x), SIGNS, gram.matmat)
    for name in ("bx", "inner", "diagonal_error"):
        carried, computed = getattr(moved, name), getattr(anew, name)
        size = np.abs(computed).max()
        np.testing.assert_allclose(carried, computed, rtol=0, atol=1e-9 * size, err_msg=name)
    assert moved.value == pytest.approx(anew.value, rel=1e-9)
    assert moved.value < start.value


def test_slices_of_a_pool_add_up_to_the_whole():
    n = 40_000
    gram = DenseGram(np.zeros((1, 1)))
    gram.n, gram.moments = n, Moments(np.full(n, 2.0), 4e12 + 4 * n**2)  # ‖B‖² = 1e12
    x, way = coordinates(n), coordinates(n, 1)

    def everything():
        here = FreeCoordinates.at(gram, x, 2.0 * x, SIGNS, lambda block: 2.0 * block)
        moved = here.minimize_along(np.sign(dot(way, here.gradient)) * -way)
        carried = moved.x, moved.bx, moved.value, dot(x, way)
        return here.inner, here.diagonal_error, here.overlap, here.gradient, here.step, *carried

    whole = everything()
    with worker_pool():
        parts = everything()
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(one).max())


def test_known_images_change_nothing_but_a_product():
    gram = Counting(synthetic.euclidean_ball(400, random_state=0))
    x = coordinates(400)
    images = gram.matmat(x)
    limits = Limits(5, 2e-3)
    plain = refine(gram, Start(x, SIGNS), limits)
    gram.products, once = 0, gram.products - 1
    helped = refine(gram, Start(x, SIGNS, images), limits)
    assert gram.products == once - 1
    np.testing.assert_allclose(helped.history, plain.history, rtol=1e-10)
    np.testing.assert_allclose(helped.coordinates, plain.coordinates, atol=1e-8)


def test_an_exact_form_is_reached_from_images_in_single_precision():
    # At STRESS 0 what float32 makes of B X would decide every step.
    x = coordinates(700)
    form = (x * SIGNS) @ x.T
    D = np.diag(form)[:, None] + np.diag(form)[None, :] - 2 * form
    np.fill_diagonal(D, 0.0)
    prepared = api.prepare((D + D.T) / 2, squared=True)
    found = api.fit(prepared, api.Options(SIGNS.size, solver="krylov")).embedding
    assert found.signature == (3, 2)
    assert found.normalized_stress < 1e-14


def test_single_precision_search_and_descent_report_a_stress_in_double():
    D = synthetic.random_simplex(1200, random_state=0)
    found = neuc_mds(D, 20, squared=True)
    x = found.coordinates
    sq = np.sum(found.signs * x**2, axis=1)
    residual = D - (sq[:, None] + sq[None, :] - 2 * (x * found.signs) @ x.T)
    assert found.stress == pytest.approx(np.sum(residual**2), rel=1e-8)
    assert all(np.diff(found.history) <= 0)
    # what the descent saw in single precision is close to what is reported
    assert found.history[-1] == pytest.approx(found.stress, rel=1e-4)
