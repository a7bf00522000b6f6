from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neucmds.errors import InputError
from neucmds.spectrum.selection import (
    METHODS,
    classical,
    lower,
    neuc,
    neuc_plus,
    shrink,
    split_bounds,
    union,
)
from neucmds.spectrum.spectrum import Spectrum


@pytest.mark.parametrize("method", METHODS)
def test_the_ends_are_all_that_a_selection_needs(method):
    rng = np.random.default_rng(0)
    lam = np.sort(rng.standard_cauchy(200))[::-1]
    complete, k = Spectrum.of(lam), 10
    outer = np.r_[lam[:k], lam[-k:]]
    partial = Spectrum(outer, complete.trace, complete.frobenius_sq, k, k)
    whole, part = (METHODS[method](ends, k) for ends in (complete, partial))
    np.testing.assert_allclose(lam[whole.kept], outer[part.kept])
    np.testing.assert_allclose(whole.core, part.core, rtol=1e-9)


def test_a_huge_pair_of_eigenvalues_does_not_hide_which_split_is_best():
    # ‖B‖² is 5e19 here: differences of running totals resolve nothing below 4096.
    rng = np.random.default_rng(1)
    small = rng.standard_normal(100) * 5
    with_pair = Spectrum.of(np.r_[5e9, small, -5e9])
    kept = with_pair.values[neuc(with_pair, 22).kept]
    alone = Spectrum.of(small)
    expected = alone.values[neuc(alone, 20).kept]
    np.testing.assert_array_equal(kept[1:-1], expected)


def test_of_equal_splits_the_one_with_most_positive_pairs_is_taken():
    ends = Spectrum.of([2.0, 1.0, 1.0, -1.0, -1.0, -2.0])
    from_top, bounds = split_bounds(ends, 1, 1.0)
    assert bounds[0] == bounds[1]
    np.testing.assert_array_equal(from_top, [0, 1])
    assert neuc(ends, 1).core[0] == 2.0


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.integers(-40, 40).map(lambda x: x / 8), min_size=2, max_size=8
    ),
    st.integers(1, 8),
)
def test_no_subset_has_a_lower_bound_and_the_weights_are_the_best_on_it(
    values, k
):
    ends = Spectrum.of(values)
    lam, k = ends.values, min(k, len(values))
    for method, divisor in ((neuc, 1.0), (neuc_plus, 1.0 + k)):
        found = method(ends, k)
        subsets = (
            np.delete(lam, list(kept))
            for kept in combinations(range(lam.size), k)
        )
        least = min(
            np.sum(rest**2) + rest.sum() ** 2 / divisor for rest in subsets
        )
        if method is neuc:
            rest = np.delete(lam, found.kept)
            assert np.sum(rest**2) + rest.sum() ** 2 == pytest.approx(
                least, abs=1e-9
            )
            np.testing.assert_array_equal(found.core, lam[found.kept])
        error = lam.copy()
        error[found.kept] -= found.core
        if method is neuc_plus:
            assert np.sum(error**2) + error.sum() ** 2 <= least + 1e-9
            np.testing.assert_allclose(
                error[found.kept], -error.sum(), atol=1e-12
            )
        assert np.all(found.core * lam[found.kept] > 0)
    assert {*neuc(ends, k).kept, *found.kept} == set(union(ends, k).kept)
    np.testing.assert_allclose(shrink(lam[:2], 1.5), lam[:2] + 0.5)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(-40, 40).map(lambda x: x / 8), min_size=2),
    st.integers(1, 8),
)
def test_lower_is_the_best_nonnegative_weighting_of_the_largest_positives(
    values, k
):
    ends = Spectrum.of(values)
    found = lower(ends, k)
    assert np.all(found.core > 0)
    # KKT conditions of min ‖λ − λ̃‖² + (Σλ − Σλ̃)², λ̃ ≥ 0 on the k largest positive eigenvalues.
    weights = np.zeros(ends.values.size)
    weights[found.kept] = found.core
    gradient = -2 * (ends.values - weights) - 2 * (ends.trace - weights.sum())
    left = np.setdiff1d(classical(ends, k).kept, found.kept)
    np.testing.assert_allclose(
        gradient[found.kept], 0, atol=1e-9 * (1 + np.abs(values).sum())
    )
    assert np.all(gradient[left] >= -1e-9 * (1 + np.abs(values).sum()))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(-4, 4).map(float), min_size=2, max_size=8),
    st.integers(0, 4),
)
def test_a_signature_and_positive_methods_take_the_outermost_of_a_sign(
    values, p
):
    ends = Spectrum.of(values)
    positive, negative = (
        sorted(x for x in values if s * x > 0) for s in (1, -1)
    )
    kept = neuc(ends, (p, 2)).core
    np.testing.assert_array_equal(
        kept, positive[::-1][:p] + negative[:2][::-1]
    )
    for method in (classical, lower):
        found = method(ends, p + 1)
        assert set(ends.values[found.kept]) <= set(positive[::-1][: p + 1])
        assert method is lower or found.kept.size == min(p + 1, len(positive))


def test_classical_refuses_negative_coordinates():
    with pytest.raises(InputError, match="positive eigenvalues only"):
        classical(Spectrum.of([2.0, -1.0]), (1, 1))
