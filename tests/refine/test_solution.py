from unittest.mock import patch

import dask.array as da
import numpy as np
import pytest

from neucmds import InputError
from neucmds.form import Form
from neucmds.problem.pairs import make_pairs
from neucmds.refine.descent import Refined
from neucmds.refine.losses import PairLoss
from neucmds.refine.solution import (
    from_pairs,
    from_refinement,
    from_selection,
    held_out,
    smacof_solution,
)
from neucmds.spectrum.operators.chunked import DaskGram
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.spectrum.selection import Selection
from neucmds.spectrum.spectrum import full_spectrum


@pytest.fixture
def solved():
    e = np.random.default_rng(0).standard_normal((40, 40))
    D = e + e.T
    np.fill_diagonal(D, 0.0)
    gram = DenseGram(D)
    return gram, full_spectrum(gram)


def test_coordinates_have_the_gram_matrix_of_the_core(solved):
    gram, spectrum = solved
    kept = np.array([0, 1, 37, 38])
    core = np.diag(spectrum.values[kept])
    core[0, 3] = core[3, 0] = 5.0
    found = from_selection(gram, spectrum, Selection(kept, core))
    u = spectrum.vectors[:, kept]
    x, signs = found.coordinates, np.sign(found.weights)
    np.testing.assert_allclose((x * signs) @ x.T, u @ core @ u.T, atol=1e-12)
    np.testing.assert_allclose(np.sum(x**2, axis=0), np.abs(found.weights))
    assert np.all(np.diff(np.abs(found.weights)) <= 0)
    np.testing.assert_allclose(found.stress_rises, without_each(gram.sq_dissimilarity, 1, found))


def without_each(d, w, solution):
    """By how much the weighted STRESS rises without each coordinate."""
    x, signs = solution.coordinates, np.sign(solution.weights)
    each = [np.arange(signs.size) != a for a in range(signs.size)]
    rises = [np.sum(w * (form(x[:, one], signs[one]) - d) ** 2) for one in each]
    return np.array(rises) - np.sum(w * (form(x, signs) - d) ** 2)


def form(x, signs):
    return np.sum(signs * (x[:, None] - x[None]) ** 2, axis=-1)


def test_listed_and_weighted_pairs_have_the_sums_of_both_orders():
    rng = np.random.default_rng(1)
    d, w, x = rng.uniform(1, 2, (9, 9)), rng.uniform(0, 1, (9, 9)), rng.normal(size=(9, 2))
    d, w = (np.triu(a, 1) + np.triu(a, 1).T for a in (d, w))
    x, signs = x - x.mean(axis=0), np.array([1.0, -1.0])
    found = Refined(x, Form(signs), PairLoss("squared"), 0.0, (), True, 0.0)
    i, j = np.triu_indices(9, 1)
    pairs = from_pairs(found, make_pairs(9, i, j, d[i, j], w[i, j], squared=True))
    dense, plain = (from_refinement(DenseGram(d), found, weights=u) for u in (w, None))
    d_hat = form(x, signs)
    for one, u in ((pairs, w), (dense, w), (plain, 1 - np.eye(9))):
        mean = np.sum(u * d) / np.sum(u)
        assert sum(one.stress_terms) == pytest.approx(np.sum(u * (d_hat - d) ** 2))
        assert one.sq_norm == pytest.approx(np.sum(u * d**2))
        assert one.total_sum_of_squares == pytest.approx(np.sum(u * (d - mean) ** 2))
        assert one.trace == pytest.approx(4 * mean)
        np.testing.assert_allclose(one.stress_rises, without_each(d, u, one))
        np.testing.assert_allclose(form(one.coordinates, np.sign(one.weights)), d_hat)
        assert 0 < one.stress_error < 1e-10
    assert pairs.stress_terms[1:] == dense.stress_terms[1:] == (0, 0)
    assert pairs.eigenvalues.size == pairs.residuals.size == dense.eigenvalues.size == 0


@pytest.mark.parametrize("weighted", [False, True])
def test_an_error_of_the_stress_is_within_its_bound_and_the_bound_is_small(solved, weighted):
    """Far from the origin of D, whose entries cancel, or near a fit; against extended precision."""
    noise = solved[0].sq_dissimilarity
    x, corners = np.random.default_rng(2).standard_normal((5, 1, 3)), np.indices((2, 2, 2)) - 0.5
    x = (x / np.linalg.norm(x, axis=2, keepdims=True) * corners.reshape(3, 8).T).reshape(40, 3)
    x, signs, w = 2e3 * x, np.array([1.0, 1.0, -1.0]), 1 - np.eye(40)  # all as far from the center
    found = Refined(x, Form(signs), PairLoss("squared"), 0.0, (), True, 0.0)
    for d, small in ((1e6 * w + noise, 1e-12), (form(x, signs) + 1e-3 * noise, 1e-4)):
        one = from_refinement(DenseGram(d), found, weights=w if weighted else None)
        y, form_of = (a.astype(np.longdouble) for a in (one.coordinates, np.sign(one.weights)))
        stress = np.sum((form(y, form_of) - d) ** 2)
        assert abs(sum(one.stress_terms) - stress) <= one.stress_error < small * stress


def test_eigenvalues_of_a_refined_solution_are_those_of_the_signs(solved):
    gram, spectrum = solved
    x = np.random.default_rng(3).standard_normal((40, 3))
    loss = PairLoss("relative", 0.5)
    found = Refined(x - x.mean(axis=0), Form(np.array([1.0, -1, 1])), loss, 7.0, (), True, 0.0)
    one, lam = from_refinement(gram, found, spectrum=spectrum), spectrum.values
    assert one.loss_value == 7.0
    np.testing.assert_array_equal(one.eigenvalues, sorted(lam[[0, 1, -1]], key=abs)[::-1])
    none = from_refinement(gram, found, solver="init")
    assert (none.eigenvalues.size, none.residuals.size, none.hidden_below) == (0, 0, 0)


@pytest.mark.parametrize("most", [1000, 6])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_curved_fit_reports_the_stress_of_d_itself(weighted, most):
    """Of more objects than `most`, every fourth one tells how it rises without a coordinate."""
    rng = np.random.default_rng(4)
    d, w, x = rng.uniform(1, 2, (21, 21)), rng.uniform(0, 1, (21, 21)), rng.normal(size=(21, 2))
    d, w = (np.triu(a, 1) + np.triu(a, 1).T for a in (d, w))
    bent = Form(np.array([1.0, -1.0]), -0.3)
    found = Refined(x - x.mean(axis=0), bent, PairLoss("relative", 0.5), 0.0, (), True, 0.0)
    gram = DaskGram(da.from_array(d, chunks=7))
    assert gram.row_slices()[1].start % 4
    with patch("neucmds.refine.solution.RISE_OBJECTS", most):
        one = from_refinement(gram, found) if not weighted else None
        one = one or from_refinement(DenseGram(d), found, weights=w)
    u, y, signs = w if weighted else 1 - np.eye(21), one.coordinates, np.sign(one.weights)
    some = slice(None, None, 1 if most > 21 else 4)

    def stress(kept, some=some):
        return np.sum((u * (bent.to_sq_distance(form(y[:, kept], signs[kept])) - d) ** 2)[some])

    whole = stress([0, 1], slice(None))
    assert one.stress_terms == pytest.approx((whole, 0, 0))
    rises = np.array([stress([1]), stress([0])]) - stress([0, 1])
    np.testing.assert_allclose(one.stress_rises, rises * whole / stress([0, 1]))


def test_smacof_has_positive_coordinates_and_needs_positive_dissimilarities():
    x = np.random.default_rng(0).normal(size=(12, 2))
    d = form(x, np.ones(2))
    found = smacof_solution(DenseGram(d), 2)
    assert found.solver == "smacof"
    assert np.all(found.weights > 0)
    assert sum(found.stress_terms) < 1e-3 * np.sum(d**2)
    with patch("neucmds.refine.solution.SMACOF_ITERATIONS", 2):
        assert not smacof_solution(DenseGram(d), 2).converged
    for bad in (d - 1, 0 * d):
        with pytest.raises(InputError, match="not negative, and not all zero"):
            smacof_solution(DenseGram(bad), 2)


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
    found = Refined(x, Form(signs), PairLoss("relative", 4.0), 0.0, (), True, 0.0)
    return d, pairs, from_pairs(found, pairs)


def checks_of(d, drawn):
    for one in drawn:
        others = np.delete(np.arange(N), one)
        yield one, others, np.sqrt(d[one, others])


def test_where_all_pairs_are_checked_the_figures_are_those_of_all_pairs(fitted):
    d, pairs, solution = fitted
    found = held_out(solution, pairs, checks_of(d, range(N)))
    x, signs = found.coordinates, np.sign(found.weights)
    off, d_hat = ~np.eye(N, dtype=bool), form(x, signs)
    assert found.stress_terms == pytest.approx((np.sum((d_hat - d) ** 2), 0, 0))
    assert found.loss_value == pytest.approx(np.sum(((d_hat - d) / np.maximum(d, 4))[off] ** 2))
    assert found.sq_norm == pytest.approx(np.sum(d**2))
    assert found.total_sum_of_squares == pytest.approx(d[off].var() * off.sum())
    assert found.trace == pytest.approx(0.5 * (N - 1) * d[off].mean())
    assert found.held_out_pairs == off.sum() - 2 * pairs.size
    np.testing.assert_allclose(found.stress_rises, without_each(d, 1, found))


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
