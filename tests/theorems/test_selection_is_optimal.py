"""thm:selection and prop:second_algo: no subset of size k beats the selection."""

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from neucmds._input.components import Components
from neucmds._methods.selection import classical, lower, neuc, neuc_plus
from neucmds._spectrum import Ends

# Small whole numbers make ties and exact zeros common; floats make everything else.
whole = st.integers(-4, 4).map(float)
real = st.floats(-100, 100, allow_nan=False, width=32)
one_signed = st.lists(st.floats(0, 50, width=32), min_size=2, max_size=9)
spectra = st.one_of(
    st.lists(whole, min_size=2, max_size=9),
    st.lists(real, min_size=2, max_size=9),
    one_signed,
    one_signed.map(lambda lam: [-x for x in lam]),
)


def bound(lam, kept, divisor):
    dropped = np.delete(lam, list(kept))
    return np.sum(dropped**2) + np.sum(dropped) ** 2 / divisor


def brute_force(lam, k, divisor):
    return min(bound(lam, kept, divisor) for kept in combinations(range(lam.size), k))


def cases():
    return st.tuples(spectra, st.integers(1, 9)).filter(lambda case: case[1] <= len(case[0]))


@given(cases())
@settings(max_examples=100, deadline=None)
def test_no_subset_beats_the_selection_nor_other_weights(case):
    values, k = case
    ends = Ends.of(values)
    slack = 1e-10 * (1 + ends.frobenius_sq + ends.trace**2)
    kept = neuc(ends, Components(k)).kept
    assert bound(ends.values, kept, 1.0) <= brute_force(ends.values, k, 1.0) + slack
    selection = neuc_plus(ends, Components(k))
    error = ends.values.copy()
    error[selection.kept] -= selection.core
    reached = np.sum(error**2) + error.sum() ** 2
    assert reached <= brute_force(ends.values, k, 1.0 + k) + slack


@given(cases())
@settings(max_examples=100, deadline=None)
def test_lower_is_the_best_nonnegative_weighting_of_the_largest_positives(case):
    values, k = case
    ends = Ends.of(values)
    selection = lower(ends, Components(k))
    assert np.all(selection.core > 0)
    # KKT conditions of min ‖λ − λ̃‖² + (Σλ − Σλ̃)², λ̃ ≥ 0 on the k largest positive eigenvalues.
    weights = np.zeros(ends.size)
    weights[selection.kept] = selection.core
    gradient = -2 * (ends.values - weights) - 2 * (ends.trace - weights.sum())
    allowed = classical(ends, Components(k)).kept
    scale = 1e-9 * (1 + np.abs(ends.values).sum())
    assert np.all(np.abs(gradient[selection.kept]) <= scale)
    assert np.all(gradient[np.setdiff1d(allowed, selection.kept)] >= -scale)
