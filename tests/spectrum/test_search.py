"""What a search allows, keeps for a restart and waits for: closed forms on made-up checks."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neucmds.spectrum.operators.dense import DenseGram
from neucmds.spectrum.search import (
    Check,
    allowed_residuals,
    blocks_to_wait,
    checked,
    null_level,
    split_of,
    worth_keeping,
)

VALUES = np.array([5.0, 3.0, 1.0, 0.0, -4.0])
GRAM = DenseGram(1.0 - np.eye(100))


def made(worst: float, step: int = 1, split: tuple[int, int] = (2, 1), values=VALUES) -> Check:
    kept = np.r_[: split[0], values.size - split[1] : values.size]
    return Check(
        values,
        np.zeros(values.size),
        kept,
        split,
        True,
        step,
        5.0,
        np.ones(values.size),
        worst,
        0.0,
    )


def solved(values, left) -> SimpleNamespace:
    """A basis of which these are the Ritz values and their residuals."""
    return SimpleNamespace(values=values, residuals=left, solve=lambda: None, precision=1e-14)


def test_kept_values_are_counted_from_both_ends():
    assert split_of(np.array([0, 1, 7])) == (2, 1)
    assert split_of(np.array([6, 7])) == (0, 2)
    assert split_of(np.arange(3)) == (3, 0)


@pytest.mark.parametrize(("tol", "share"), [(1e-7, 1e-2), (1e-4, 0.1), (1e-2, 1.0)])
def test_small_pairs_beside_a_huge_one_are_allowed_a_share_of_what_counts(tol, share):
    values = np.array([5e9, 30.0, -1e-3])
    allowed = allowed_residuals(GRAM, values, tol=tol, scale=5e9, dropped_sq=4.0)
    np.testing.assert_allclose(allowed, [tol * 5e9, share * 30, share * 2], rtol=1e-12)
    alike = allowed_residuals(GRAM, VALUES, tol=1e-7, scale=5.0, dropped_sq=1.0)
    np.testing.assert_allclose(alike, 5e-7, rtol=1e-12)


def test_rounding_grows_with_the_values_and_with_the_products():
    eps = np.finfo(np.float64).eps
    assert null_level(GRAM, np.array([1.0, -50.0])) == pytest.approx(eps * 100 * 50)
    # The norm of D: 9900 entries of 1.
    assert null_level(GRAM, np.zeros(0)) == pytest.approx(4 * eps * math.sqrt(100 * 9900))


def test_a_value_that_moved_beyond_its_residual_is_a_copy_that_was_missing():
    earlier = made(1e-4)
    for by, moved in ((0.9e-3, False), (1.1e-3, True), (-1.1e-3, True)):
        for at in (0, 1, 4):
            values = VALUES.copy()
            values[at] += by
            assert made(0.0, values=values).moved_since(earlier) == moved
    values = VALUES + np.array([0, 0, 1, 1, 0])  # those are not kept
    assert not made(0.0, values=values).moved_since(earlier)
    values = VALUES + np.array([0, 1, 0, 0, 0])  # this one was not kept then
    assert not made(0.0, values=values).moved_since(replace(earlier, split=(1, 1)))


def test_a_check_measures_the_worst_of_what_is_kept_by_what_it_is_allowed():
    values, left = np.array([5e9, 30.0, 1.0, -2.0]), np.array([1.0, 0.03, 1e9, 1e-4])
    basis = solved(values, left)
    check = checked(GRAM, basis, lambda ends: SimpleNamespace(kept=np.array([0, 1, 3])), 1e-7, 7)
    assert (check.split, check.settled, check.step, check.scale) == ((2, 1), True, 7, 5e9)
    # A hundredth of 30 is allowed, where the huge one is allowed 500.
    np.testing.assert_allclose(check.allowed, [1, 0.3 / 500, 0.01 / 500, 0.02 / 500])
    assert check.worst == pytest.approx(0.03 / (0.3 / 500) / 5e9)
    assert check.noise == pytest.approx(5e-5)


@pytest.mark.parametrize(("off", "settled"), [(0.05, True), (0.5, False)])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_split_is_settled_if_no_dropped_value_can_be_among_the_kept(sign, off, settled):
    values = np.sort(sign * np.array([5.0, 3.0, 0.1, -2.9]))[::-1]
    left = np.where(values == -2.9 * sign, off, 1e-9)
    basis = solved(values, left)

    def largest(ends):
        return SimpleNamespace(kept=np.argsort(-np.abs(ends.values))[:2])

    check = checked(GRAM, basis, largest, 1e-7, 1)
    assert check.split == ((2, 0) if sign > 0 else (0, 2))
    assert check.settled == settled


@given(st.integers(0, 20), st.integers(0, 20), st.integers(45, 80))
def test_a_restart_keeps_what_is_kept_and_more_of_both_ends(top, bottom, capacity):
    check = made(0.1, split=(top, bottom), values=np.linspace(1, -1, 90))
    which = worth_keeping(check, capacity, 8)
    found = split_of(which)
    assert set(check.kept) <= set(which.tolist())
    assert np.unique(which).size == which.size <= capacity
    few = min(8, (capacity - top - bottom) // 2)
    more = np.subtract(found, (top, bottom)) - few
    space = (capacity - top - bottom - 2 * few) // 3
    assert space - 2 < more.sum() <= space
    if bottom:  # in proportion
        assert abs(more[0] / max(1, more[1]) - top / bottom) <= 1 + top / bottom


@given(st.floats(0.05, 0.8), st.integers(2, 20), st.integers(1, 5), st.floats(1e-10, 1e-3))
def test_geometric_convergence_is_predicted_to_the_block(rate, step, earlier, tol):
    """After `step` blocks the residual is rate**step, and 0.7 tol is wanted."""
    last, now = made(rate**step, step), made(rate ** (step + earlier), step + earlier)
    missing = math.log(0.7 * tol) / math.log(rate) - now.step
    dear, cheap = (SimpleNamespace(size=size, width=16) for size in (90, 10))
    for found, wanted, most in (
        (blocks_to_wait(GRAM, dear, tol, now, None), missing + 0.5, 12),
        (blocks_to_wait(GRAM, dear, tol, now, last), missing + 0.5, 12),
        (blocks_to_wait(GRAM, cheap, tol, now, last), 0.6 * missing, 4),
    ):
        assert 1 <= found <= most
        assert abs(found - min(max(wanted, 1), most)) <= 0.5 + 1e-6


def test_without_convergence_three_blocks_are_waited_for():
    basis = SimpleNamespace(size=90, width=16)
    assert blocks_to_wait(GRAM, basis, 1e-7, made(1.0, 5), None) == 3
    assert blocks_to_wait(GRAM, basis, 1e-7, made(1e-2, 5), made(1e-1, 4, split=(1, 1))) == 3
