from __future__ import annotations

import numpy as np
import pytest

from neucmds._input.components import Components
from neucmds._methods.selection import (
    METHODS,
    classical,
    neuc,
    neuc_plus,
    shrink,
    split_bounds,
    union,
)
from neucmds._spectrum import Ends
from neucmds.errors import InputError


@pytest.mark.parametrize("method", METHODS)
def test_the_ends_are_all_that_a_selection_needs(method):
    rng = np.random.default_rng(0)
    lam = np.sort(rng.standard_cauchy(200))[::-1]
    complete, k = Ends.of(lam), 10
    outer = np.r_[lam[:k], lam[-k:]]
    partial = Ends(outer, complete.trace, complete.frobenius_sq, k, k)
    whole, part = (METHODS[method](ends, Components(k)) for ends in (complete, partial))
    np.testing.assert_allclose(lam[whole.kept], outer[part.kept])
    np.testing.assert_allclose(whole.core, part.core, rtol=1e-9)


def test_a_huge_pair_of_eigenvalues_does_not_hide_which_split_is_best():
    # ‖B‖² is 5e19 here: differences of running totals resolve nothing below 4096.
    rng = np.random.default_rng(1)
    small = rng.standard_normal(100) * 5
    with_pair = Ends.of(np.r_[5e9, small, -5e9])
    kept = with_pair.values[neuc(with_pair, Components(22)).kept]
    alone = Ends.of(small)
    expected = alone.values[neuc(alone, Components(20)).kept]
    np.testing.assert_array_equal(kept[1:-1], expected)


def test_of_equal_splits_the_one_with_most_positive_pairs_is_taken():
    ends = Ends.of([2.0, 1.0, 1.0, -1.0, -1.0, -2.0])
    from_top, bounds = split_bounds(ends, 1, 1.0)
    assert bounds[0] == bounds[1]
    np.testing.assert_array_equal(from_top, [0, 1])
    assert neuc(ends, Components(1)).core[0] == 2.0


def test_shrinking_spreads_what_was_dropped():
    np.testing.assert_allclose(shrink(np.array([4.0, -2.0]), 1.5), [4.5, -1.5])


def test_the_union_holds_both():
    ends = Ends.of(np.random.default_rng(3).standard_cauchy(40))
    kept = union(ends, Components(8)).kept
    assert set(neuc(ends, Components(8)).kept) <= set(kept)
    assert set(neuc_plus(ends, Components(8)).kept) <= set(kept)


def test_classical_refuses_negative_coordinates():
    with pytest.raises(InputError, match="positive eigenvalues only"):
        classical(Ends.of([2.0, -1.0]), Components(2, (1, 1)))
