"""A fit of some pairs, measured on all of them from objects drawn with others each."""

import numpy as np
import pytest

from neucmds._input.pairs import make_pairs
from neucmds._methods.held_out import held_out
from neucmds._methods.refined.descent import Refined
from neucmds._methods.refined.losses import PairLoss
from neucmds._methods.solution import from_pairs

N = 30


@pytest.fixture
def fitted():
    """D, coordinates that do not fit it, and a solution of a third of the pairs."""
    rng = np.random.default_rng(0)
    x, sizes = rng.normal(size=(N, 3)), rng.uniform(1, 5, N)
    d = np.triu(np.outer(sizes, sizes) * rng.uniform(0.5, 1, (N, N)), 1)
    d = d + d.T
    i, j = np.nonzero(np.triu(rng.random((N, N)) < 0.3, 1))
    pairs = make_pairs(N, i, j, d[i, j], squared=True)
    signs = np.array([1.0, 1.0, -1.0])
    found = Refined(x, signs, PairLoss("relative", 4.0), 0.0, (), True, 0.0)
    return d, pairs, from_pairs(found, pairs)


def brute_force(d, x, signs):
    return np.sum((np.sum(signs * (x[:, None] - x[None]) ** 2, axis=-1) - d) ** 2)


def checks_of(d, drawn):
    for one in drawn:
        others = np.delete(np.arange(N), one)
        yield one, others, np.sqrt(d[one, others])


def test_where_all_pairs_are_checked_the_figures_are_those_of_all_pairs(fitted):
    d, pairs, solution = fitted
    found = held_out(solution, pairs, checks_of(d, range(N)))
    x, signs = found.coordinates, np.sign(found.weights)
    off, d_hat = ~np.eye(N, dtype=bool), np.sum(signs * (x[:, None] - x[None]) ** 2, axis=-1)
    stress = brute_force(d, x, signs)
    assert found.stress_terms == pytest.approx((stress, 0, 0))
    assert found.loss_value == pytest.approx(np.sum(((d_hat - d) / np.maximum(d, 4))[off] ** 2))
    assert found.sq_norm == pytest.approx(np.sum(d**2))
    assert found.total_sum_of_squares == pytest.approx(d[off].var() * off.sum())
    assert found.trace == pytest.approx(0.5 * (N - 1) * d[off].mean())
    assert found.held_out_pairs == off.sum() - 2 * pairs.size
    for a, rise in enumerate(found.stress_rises):
        without = brute_force(d, np.delete(x, a, axis=1), np.delete(signs, a))
        assert rise == pytest.approx(without - stress)


def test_standard_errors_are_those_of_leaving_out_one_object(fitted):
    d, pairs, solution = fitted
    drawn = np.arange(0, N, 2)

    def measured(some):
        one = held_out(solution, pairs, checks_of(d, some))
        return one, (one.stress_terms[0], 1 - one.stress_terms[0] / one.total_sum_of_squares)

    found, _ = measured(drawn)
    each = np.array([measured(np.delete(drawn, i))[1] for i in range(drawn.size)])
    jackknife = np.sqrt((drawn.size - 1) ** 2 / drawn.size) * each.std(axis=0, ddof=1)
    given = found.stress_standard_error, found.r2_standard_error
    np.testing.assert_allclose(given[0], jackknife[0], rtol=0.005)
    np.testing.assert_allclose(given[1], jackknife[1], rtol=0.05)
