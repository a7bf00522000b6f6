"""alg:ev-selection and alg:ev-selection-plus as printed, against the k + 1 splits."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neucmds.spectrum.selection import split_bounds
from neucmds.spectrum.spectrum import Ends

# Whole numbers make ties and zeros common, also H(S) = 0; floats make everything else.
spectra = st.one_of(
    st.lists(st.integers(-4, 4).map(float), min_size=2, max_size=30),
    st.lists(st.floats(-100, 100, width=32), min_size=2, max_size=30),
)
cases = st.tuples(spectra, st.integers(1, 30)).filter(lambda case: case[1] <= len(case[0]))


def greedy(values, k):
    """alg:ev-selection: the largest magnitude among those with λ·H(S) ≥ 0, k times."""
    left, chosen = sorted(values, reverse=True), []
    while len(chosen) < k:
        h = sum(left)
        best = max((lam for lam in left if lam * h >= 0), key=abs)
        left.remove(best)
        chosen.append(best)
    return chosen, left


def greedy_plus(values, k, most_negative=True):
    """alg:ev-selection-plus: T₊ or T₋, whichever has the smaller bound.

    In print T₋ takes the argmax of the negatives (errata E2); `most_negative` is what is meant.
    What happens when no eigenvalue of a sign is left is not said: the other is taken, then zeros.
    """
    left, chosen = sorted(values, reverse=True), []

    def bound(lam):
        rest = list(left)
        rest.remove(lam)
        return sum(x * x for x in rest) + sum(rest) ** 2 / (len(chosen) + 2)

    while len(chosen) < k:
        positive, negative = [x for x in left if x > 0], [x for x in left if x < 0]
        steps = [max(positive)] if positive else []
        if negative:
            steps.append(min(negative) if most_negative else max(negative))
        if len(steps) == 2:
            best = steps[0] if bound(steps[0]) < bound(steps[1]) else steps[1]
        else:
            best = steps[0] if steps else 0.0
        left.remove(best)
        chosen.append(best)
    return chosen, left


def bound_of(left, divisor):
    return sum(x * x for x in left) + sum(left) ** 2 / divisor


@given(cases)
@settings(max_examples=100, deadline=None)
def test_the_best_split_is_as_good_as_the_greedy_algorithm(case):
    values, k = case
    ends = Ends.of(values)
    slack = 1e-12 * (1 + ends.frobenius_sq + ends.trace**2)
    for algorithm, divisor in ((greedy, 1.0), (greedy_plus, 1.0 + k)):
        _, bounds = split_bounds(ends, k, divisor)
        _, left = algorithm(values, k)
        assert bounds.min() == pytest.approx(bound_of(left, divisor), rel=1e-12, abs=slack)


def test_read_literally_the_second_algorithm_is_not_optimal():
    # errata E2: the argmax of the negatives is the one nearest to zero.
    values, k = [5.0, -1.0, -6.0], 2
    _, literal = greedy_plus(values, k, most_negative=False)
    _, meant = greedy_plus(values, k)
    assert bound_of(meant, 1.0 + k) < bound_of(literal, 1.0 + k)
