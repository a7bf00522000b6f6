from dataclasses import replace

import numpy as np
import pytest

from neucmds.form import Form, rounding_level
from neucmds.spectrum.geometry import (
    canonical,
    column_signs,
    diagonalize,
    gram_rounding,
    signed_lengths,
    stress_rounding,
)
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.spectrum.selection import Selection
from neucmds.spectrum.spectrum import Spectrum


def brute(x, y, signs):
    return np.sum(signs * (x[:, None] - y[None]) ** 2, axis=-1)


@pytest.fixture
def points():
    rng = np.random.default_rng(0)
    return (
        rng.standard_normal((30, 4)),
        rng.standard_normal((7, 4)),
        np.array([1, -1, 1, -1.0]),
    )


def test_dissimilarities_are_the_form_of_differences(points):
    x, y, signs = points
    error = np.abs(Form(signs).sq(x, y) - brute(x, y, signs))
    assert np.all(error <= rounding_level(x, y))
    sizes = np.sum(x**2, axis=1)[:, None] + np.sum(y**2, axis=1)
    np.testing.assert_allclose(
        rounding_level(x, y), 64 * np.finfo(float).eps * sizes
    )
    assert np.min(Form(signs).sq(x, y)) < 0


@pytest.mark.parametrize(
    "scale", [1.0, 1e-5]
)  # the second is too ill-conditioned for Cholesky
def test_canonical_coordinates_have_the_same_dissimilarities(points, scale):
    x, _, signs = points
    x = (x - x.mean(axis=0)) * np.array([1.0, 1.0, 1.0, scale])
    turned, form = canonical(x, Form(signs))
    weights = signed_lengths(turned, form)
    np.testing.assert_allclose(
        brute(turned, turned, np.sign(weights)), brute(x, x, signs), atol=1e-12
    )
    inner = turned.T @ turned
    lengths = np.sqrt(np.abs(weights))
    np.testing.assert_allclose(
        inner / np.outer(lengths, lengths), np.eye(4), atol=1e-9
    )
    assert np.all(np.diff(np.abs(weights)) <= 0)
    assert np.sum(weights < 0) == 2
    turned, form = canonical(np.zeros((7, 0)), Form(np.zeros(0)))
    assert (turned.shape, form.signs.shape) == ((7, 0), (0,))


def test_a_core_is_diagonalized_without_its_null_space():
    rng = np.random.default_rng(1)
    q = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    core = (q * [3.0, -7.0, 0.0, 1.0, 0.0]) @ q.T
    mu, v = diagonalize(core)
    np.testing.assert_allclose(mu, [-7.0, 3.0, 1.0])
    np.testing.assert_allclose((v * mu) @ v.T, core, atol=1e-12)


def test_the_first_largest_entry_decides_the_sign_whatever_rounding_does():
    column = np.array([0.9, -2.0, 2.0 * (1 + 1e-9), 0.0])
    np.testing.assert_array_equal(
        column_signs(np.stack([column, -column], axis=1)), [-1.0, 1.0]
    )
    assert column_signs(np.zeros((4, 0))).shape == (0,)


def test_values_that_are_off_by_a_share_move_the_norm_by_the_bound():
    lam, share = np.array([9.0, 4.0, -6.0]), 1e-6
    values = lam * (1 + share)
    pairs = {
        "vectors": np.eye(9)[:, :3],
        "residuals": 0 * lam,
        "value_errors": share * values,
    }
    part = Spectrum(values, 7.0, 200.0, 2, 1, **pairs)
    # ‖B − G‖² = ‖B‖² − 2⟨B, G⟩ + ‖G‖², with ⟨B, G⟩ from values that are off.
    moved = 2 * values @ (values - lam)
    found = gram_rounding(part, Selection(np.arange(3), values))
    assert moved <= found <= (1 + 10 * share) * moved
    known, eps = replace(part, value_errors=0 * lam), np.finfo(np.float64).eps
    found = gram_rounding(known, Selection(np.arange(3), values))
    assert found == pytest.approx(
        16 * eps * (200 + values @ values), rel=1e-6, abs=0
    )
    # Where all of B is known, what a weight changes is known to rounding.
    whole = replace(known, unknown_sq=0.0)
    moved = 16 * eps * values[0]  # of a root of 3
    found = gram_rounding(whole, Selection(np.arange(3), values + 1))
    assert found == pytest.approx(
        moved * (2 * np.sqrt(3) + moved), rel=1e-6, abs=0
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rounding_moves_every_pair_by_the_sizes_of_its_objects(points, dtype):
    x, eps, single = points[0], np.finfo(np.float64).eps, np.finfo(dtype).eps
    gram = DenseGram(brute(x, x, np.ones(4)).astype(dtype))
    level = 16 * eps * np.abs(gram.diagonal()) + (
        16 * eps + 4 * single
    ) * np.sum(x**2, axis=1)
    moved = np.linalg.norm(level[:, None] + level) + single * np.linalg.norm(
        gram.sq_dissimilarity
    )
    found = stress_rounding(gram, x, (3.0, 2.0, 4.0), moved)
    assert found == pytest.approx(
        4 * moved + moved * (2 * 3 + moved), rel=1e-6, abs=0
    )
