"""Signatures that were asked for: never above what they contain, and flat where they end."""

import itertools
import math
import warnings
from unittest.mock import patch

import numpy as np
import pytest

from neucmds import (
    ConvergenceWarning,
    FewerComponentsWarning,
    InputError,
    neuc_mds,
)
from neucmds.form import Form
from neucmds.problem.components import total_of
from neucmds.refine import starts
from neucmds.refine.descent import Configuration, descend
from neucmds.refine.losses import PairLoss
from neucmds.refine.starts import (
    lowest_end,
    with_steepest_column,
    without_null_columns,
)
from neucmds.spectrum.exact import exact_selection, exact_weights
from neucmds.spectrum.geometry import stress_terms
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.spectrum.selection import neuc, neuc_plus
from neucmds.spectrum.spectrum import full_spectrum

SIGNATURES = [(p, q) for p in range(4) for q in range(4) if 1 <= p + q <= 3]


def non_euclidean(n=25, seed=0):
    """Three coordinates, hardly any negative eigenvalue, and noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3)) * [3.0, 2.0, 1.0]
    noise = rng.normal(size=(n, n)) * 0.7
    D = np.sum((x[:, None] - x[None]) ** 2, axis=-1) + noise + noise.T
    np.fill_diagonal(D, 0)
    return D


def strongly_negative(n=20, seed=1):
    x = np.random.default_rng(seed).normal(size=(n, 6))
    D = np.sum(
        np.array([1, 1, -1, -1, -1, 1]) * (x[:, None] - x[None]) ** 2, axis=-1
    )
    return (D + D.T) / 2


CASES = {
    "euclidean with noise": non_euclidean(16),
    "strongly negative": strongly_negative(16),
}


def fitted(D, signature, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewerComponentsWarning)
        return neuc_mds(D, signature, squared=True, **settings)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("weighted", [False, True])
def test_no_signature_ends_above_one_that_it_contains(case, weighted):
    D = CASES[case]
    settings = {}
    if weighted:
        w = np.random.default_rng(2).gamma(1.0, size=D.shape)
        settings["weights"] = w + w.T
    reached = {s: fitted(D, s, **settings).stress for s in SIGNATURES}
    for small, large in itertools.permutations(SIGNATURES, 2):
        if small[0] <= large[0] and small[1] <= large[1]:
            assert reached[large] <= reached[small] * (1 + 1e-9), (
                small,
                large,
            )


@pytest.mark.parametrize(
    ("signature", "tol"), [((2, 2), 1e-1), ((1, 2), 1e-6)]
)
def test_no_object_runs_away_along_a_direction_of_no_length(signature, tol):
    """New objects were thrown thousands of spreads away before."""
    D = non_euclidean(40)
    old, new = np.arange(30), np.arange(30, 40)
    embedding = fitted(D[np.ix_(old, old)], signature, tol=tol, max_iter=500)
    spread = np.sqrt(np.mean(embedding.coordinates**2, axis=0))
    assert np.all(np.abs(embedding.coordinates) < 6 * spread)
    assert np.all(
        np.abs(embedding.transform(D[np.ix_(new, old)])) < 10 * spread
    )


def test_signs_that_help_are_all_there_and_others_are_left_out_with_a_word():
    D = strongly_negative()
    assert neuc_mds(D, (3, 3), squared=True).signature == (3, 3)
    x = np.random.default_rng(3).normal(size=(20, 2))
    euclidean = np.sum((x[:, None] - x[None]) ** 2, axis=-1)
    with pytest.warns(FewerComponentsWarning, match="does not lower the loss"):
        found = neuc_mds(euclidean, (2, 2), squared=True)
    assert found.signature == (2, 0)
    with pytest.warns(FewerComponentsWarning):
        assert neuc_mds(euclidean, (0, 2), squared=True).k == 0


def end_at(x, signs, value=0.0):
    form = Form(np.asarray(signs, float))
    return Configuration(x, form, PairLoss("squared"), value, (), True, 0.0)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_an_added_column_has_the_length_that_lowers_the_stress_most(
    weighted, sign
):
    D, x = (
        strongly_negative(12),
        0.3 * np.random.default_rng(1).normal(size=(12, 1)),
    )
    w = np.random.default_rng(2).gamma(1.0, size=D.shape) * (1 - np.eye(12))
    w, end = (
        (w + w.T) if weighted else np.ones_like(w),
        end_at(x - x.mean(), [1]),
    )
    start = with_steepest_column(D, end, sign, w if weighted else None)
    np.testing.assert_array_equal(start.signs, [1, sign])

    def stress(times):
        y = start.coordinates * [1, times]
        return np.sum(
            w * (np.sum(start.signs * (y[:, None] - y) ** 2, axis=-1) - D) ** 2
        )

    assert stress(1) < min(stress(0), stress(0.98), stress(1.02))


@pytest.mark.filterwarnings("ignore::neucmds.ConvergenceWarning")
def test_heavy_tails_have_a_signature_too():
    sizes = np.exp(3 * np.random.default_rng(0).normal(size=60))
    d = np.outer(sizes, sizes)
    np.fill_diagonal(d, 0)
    fits = [neuc_mds(d, signature) for signature in ((1, 0), (1, 1), (2, 1))]
    values = [fit.loss_value for fit in fits]
    assert values == sorted(values, reverse=True)
    assert values[2] < 0.5 * values[0]


def test_columns_are_null_beside_others_and_not_by_their_unit():
    x = np.random.default_rng(0).normal(size=(9, 2))
    x, _ = np.linalg.qr(x - x.mean(axis=0))
    for lengths, left in (((1e6, 1e-3), 1), ((1e-6, 1e-7), 2)):
        assert without_null_columns(
            end_at(x * lengths, [1, 1])
        ).form.signature == (left, 0)


def reached(signature, value_of):
    """Return the signature that is reached, and those tried, where values are made up."""
    tried = []

    def start_of(components):
        signs = np.repeat([1.0, -1.0], components)
        return Configuration(np.ones((12, total_of(components))), Form(signs))

    def extended(end, sign):
        return Configuration(
            np.ones((12, end.signs.size + 1)), Form(np.append(end.signs, sign))
        )

    def descend(start):
        tried.append(start.form.signature)
        value = value_of(*start.form.signature)
        return end_at(np.eye(12)[:, : start.signs.size], start.signs, value)

    return lowest_end(
        signature, start_of, extended, descend
    ).form.signature, tried


def test_a_signature_is_reached_from_all_that_it_contains_if_it_is_worth_it():
    found, tried = reached((2, 1), lambda p, q: 10.0 - p - q)
    assert found == (2, 1)
    # Nothing, then from eigenvectors and in one way or two from those contained.
    ways = {(0, 0): 1, (0, 1): 2, (1, 0): 2, (1, 1): 3, (2, 0): 2, (2, 1): 3}
    assert tried == [one for one, count in ways.items() for _ in range(count)]
    assert len(set(reached((4, 4), lambda p, q: 10.0 - p - q)[1])) == 25
    found, tried = reached(
        (4, 5), lambda p, q: 10.0 - p - q
    )  # thirty are too many
    assert found == (4, 5)
    assert tried == [
        (0, 0),
        (3, 5),
        (4, 4),
        *3 * [(4, 5)],
    ]
    assert reached((2, 2), lambda p, q: 1 - 0.5 * (p > 0) - 1e-5 * (p + q))[
        0
    ] == (1, 0)
    assert reached((2, 2), lambda p, q: 1 + p + q)[0] == (0, 0)
    for unit in (1.0, 1e30):  # a gain within rounding
        assert reached(
            (1, 1), lambda p, q, u=unit: 1e-16 * u / (1 + q) if p else u
        )[0] == (1, 0)


def test_eigenvectors_start_with_their_signs_and_a_length():
    D = np.triu(np.random.default_rng(0).random((16, 16)), 1)
    gram = DenseGram(D + D.T)
    spectrum, clamped = full_spectrum(gram), 0
    for components in (
        4,
        (3, 2),
        (3, 3),
    ):
        start = starts.eigenvector_start(spectrum, gram.diagonal(), components)
        if isinstance(components, tuple):
            assert components == start.form.signature
        lengths = np.sum(start.coordinates**2, axis=0)
        chosen = (neuc if isinstance(components, tuple) else neuc_plus)(
            spectrum, components
        )
        weights = exact_weights(spectrum, gram.diagonal(), chosen.kept).core
        least = 1e-3 * np.median(np.abs(weights))
        clamped += np.sum(chosen.core * weights < 0)
        np.testing.assert_allclose(
            lengths, np.maximum(np.sign(chosen.core) * weights, least)
        )
        u = start.coordinates / np.sqrt(lengths)
        np.testing.assert_allclose(
            np.sign(np.sum(u * gram.matmat(u), axis=0)), start.signs
        )
    assert clamped


@pytest.mark.parametrize(
    ("first", "positive", "chosen", "count"),
    [
        (1 + 1e-6, 2.0, "closed form", 2),
        (1 + 1e-16, 2.0, "first", 1),
        (0.9, 0.9 * (1 - 2e-4), "positive", 1),
        (0.9, 0.9 * (1 - 5e-5), "first", 1),
    ],
)
def test_closed_forms_and_positive_coordinates_are_starts_too(
    first, positive, chosen, count
):
    """All values are made up, relative to the STRESS of the closed form."""
    gram = DenseGram(1e-3 * strongly_negative(30))
    spectrum, tried, k = full_spectrum(gram), [], 3
    closed = exact_selection(spectrum, gram.diagonal(), k)
    unit = sum(stress_terms(spectrum, gram.diagonal(), closed))
    ends = {
        "first": first * unit,
        "closed form": 0.5 * unit,
        "positive": positive * unit,
    }

    def refine(gram, start, descent):
        tried.append(start)
        return end_at(
            start.coordinates, start.signs, ends[list(ends)[len(tried) - 1]]
        )

    def lowest(signature, *_):
        return end_at(np.eye(30)[:, :3], np.ones(3), ends["positive"])

    with patch.multiple(starts, refine=refine, lowest_end=lowest):
        found = starts.best_refined(gram, spectrum, k, descend)
    assert (found.value, len(tried[:2])) == (ends[chosen], count)


def test_a_start_is_an_embedding_or_coordinates_and_signs():
    x, signs = np.arange(6.0).reshape(3, 2), np.array([1, -1])
    for given in ((x, signs), [x, [1, -1]], end_at(x, signs)):
        start = starts.as_start(given)
        np.testing.assert_array_equal(start.coordinates, x)
        np.testing.assert_array_equal(start.signs, signs)
    for given, said in (
        (x, "init is ndarray; pass an Embedding"),
        ((x, signs, signs), "init is tuple"),
        ((x[0], signs), r"coordinates of shape \(2,\)"),
        ((x, signs[:1]), r"signs of shape \(1,\)"),
        ((x, 2 * signs), "k signs of ±1"),
        ((x * np.nan, signs), "not finite"),
        ((x * 0 + [1, 2], signs), "all 3 objects in one place"),
    ):
        with pytest.raises(InputError, match=said):
            starts.as_start(given)


# What "converged" means


def promised_share(D, embedding):
    """gᵀM⁻¹g / 2f by finite differences and plain linear algebra."""
    x, a = embedding.coordinates, embedding.signs
    n, k = x.shape

    def stress(y):
        return np.sum(
            (np.sum(a * (y[:, None] - y[None]) ** 2, axis=-1) - D) ** 2
        )

    g = np.zeros((n, k))
    for i, j in np.ndindex(n, k):
        step = np.zeros((n, k))
        step[i, j] = 1e-5
        g[i, j] = (stress(x + step) - stress(x - step)) / 2e-5
    g -= g.mean(axis=0)
    inner = (x * a).T @ (x * a)
    solved = np.stack(
        [
            np.linalg.solve(
                16 * inner + 16 * n * np.outer(a * row, a * row), part
            )
            for row, part in zip(x, g, strict=True)
        ]
    )
    solved -= solved.mean(axis=0)
    return np.sum(g * solved) / (2 * stress(x))


@pytest.mark.parametrize("n_components", [3, (2, 1)])
def test_the_relative_gradient_is_what_it_says(n_components):
    D = non_euclidean(15)
    embedding = fitted(D, n_components)
    assert embedding.info.relative_gradient**2 == pytest.approx(
        promised_share(D, embedding), rel=1e-3
    )


@pytest.mark.parametrize("tol", [1e-2, 1e-8, 0.0])
def test_converged_is_said_at_a_stationary_point_only(tol):
    D = non_euclidean()
    embedding = neuc_mds(D, 3, squared=True, tol=tol, max_iter=1000)
    assert embedding.info.converged
    assert embedding.info.relative_gradient**2 <= max(tol, 1e-9)
    with pytest.warns(ConvergenceWarning, match="relative gradient"):
        early = neuc_mds(D, 3, squared=True, tol=0.0, max_iter=2)
    assert not early.info.converged
    assert early.info.relative_gradient > embedding.info.relative_gradient
    assert math.isnan(
        neuc_mds(D, 3, "exact", squared=True).info.relative_gradient
    )


@pytest.mark.parametrize("signature", [(5, 6), (30, 5)])
def test_more_coordinates_than_the_data_have_end_where_the_data_do(signature):
    """Ended at (1, 0), and called that converged."""
    x = np.random.default_rng(0).normal(size=(40, 3))
    D = np.sum((x[:, None] - x[None]) ** 2, axis=-1)
    with pytest.warns(FewerComponentsWarning):
        found = neuc_mds(D, signature, squared=True)
    assert found.signature == (3, 0)
    assert found.normalized_stress < 1e-14


def test_a_large_signature_is_never_above_the_closed_form():
    D = np.triu(np.random.default_rng(0).random((36, 36)), 1)
    D = D + D.T
    exact = neuc_mds(D, (3, 22), "exact", squared=True).stress
    with pytest.warns(FewerComponentsWarning):
        assert neuc_mds(D, (3, 22), squared=True).stress <= exact
