"""alg:ev-selection and alg:ev-selection-plus as printed, against the k + 1 splits."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neucmds import FewerComponentsWarning, neuc_mds

# Whole numbers make ties and zeros common, also H(S) = 0; floats make everything else.
spectra = st.one_of(
    st.lists(st.integers(-4, 4).map(float), min_size=2, max_size=30),
    st.lists(st.floats(-100, 100, width=32), min_size=2, max_size=30),
)
cases = st.tuples(spectra, st.integers(1, 30)).filter(
    lambda case: case[1] <= len(case[0])
)


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
        positive, negative = (
            [x for x in left if x > 0],
            [x for x in left if x < 0],
        )
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


def with_spectrum(values):
    """B with these eigenvalues, beside that of the constant vector, and its dissimilarities."""
    n = len(values) + 1
    basis = np.linalg.qr(
        np.c_[np.ones(n), np.random.default_rng(0).normal(size=(n, n - 1))]
    )[0]
    b = (basis[:, 1:] * values) @ basis[:, 1:].T
    d = np.diag(b)[:, None] + np.diag(b) - 2 * b
    return b, (d + d.T) * (1 - np.eye(n)) / 2


@given(cases)
@settings(max_examples=100, deadline=None)
def test_the_best_split_is_as_good_as_the_greedy_algorithm(case):
    values, k = case
    # Below, rounding decides which are zero.
    values = [value for value in values if abs(value) > 1e-3 or value == 0]
    if not any(values) or k > len(values):
        return
    b, D = with_spectrum(values)
    slack = 1e-12 * (1 + sum(x * x for x in values) + sum(values) ** 2)
    for method, algorithm, divisor in (
        ("neuc", greedy, 1.0),
        ("neuc+", greedy_plus, 1.0 + k),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FewerComponentsWarning)
            embedding = neuc_mds(D, k, method, squared=True)
        error = (
            b
            - (embedding.coordinates * embedding.signs)
            @ embedding.coordinates.T
        )
        bound = np.sum(error**2) + np.trace(error) ** 2
        _, left = algorithm(values, k)
        assert bound == pytest.approx(
            bound_of(left, divisor), rel=1e-9, abs=slack
        )


def test_read_literally_the_second_algorithm_is_not_optimal():
    # errata E2: the argmax of the negatives is the one nearest to zero.
    values, k = [5.0, -1.0, -6.0], 2
    _, literal = greedy_plus(values, k, most_negative=False)
    _, meant = greedy_plus(values, k)
    assert bound_of(meant, 1.0 + k) < bound_of(literal, 1.0 + k)
