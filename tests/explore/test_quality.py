"""The measures equal their definitions, written out pair by pair."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import gmean

from neucmds import InputError, evaluate, neuc_mds
from neucmds.explore import pair_errors


def case(seed, n=25, k=4):
    rng = np.random.default_rng(seed)
    entries = rng.normal(1.0, 1.0, size=(n, n))
    D = entries + entries.T
    np.fill_diagonal(D, 0)
    return D, rng.normal(size=(n, k)), np.array([1.0, 1.0, -1.0, 1.0])


def embedding_of(x, signs):
    """An embedding with these coordinates, of squared dissimilarities."""
    other = neuc_mds(1 - np.eye(5), 2, "neuc", squared=True)
    return replace(other, coordinates=x, form=replace(other.form, signs=signs))


def measure(D, x, signs, **options):
    return evaluate(embedding_of(x, signs), D, **options)


def brute(D, x, signs):
    d_hat = np.sum(signs * (x[:, None] - x[None]) ** 2, axis=-1)
    upper = np.triu_indices(D.shape[0], 1)
    d, h = D[upper], d_hat[upper]
    alpha = np.sum(D * d_hat) / np.sum(d_hat**2)
    defined = (d > 0) & (h > 0)
    ratio = np.sqrt(d[defined]) / np.sqrt(h[defined])
    ratio = ratio / np.median(ratio)
    positive = d > 0
    error = np.abs(np.sqrt(np.maximum(h[positive], 0) / d[positive]) - 1)
    p50, p95, p99 = np.quantile(
        error, [0.5, 0.95, 0.99], method="inverted_cdf"
    )
    metric = (d >= 0).all()
    d1, h1 = np.sqrt(np.maximum(d, 0)), np.sqrt(np.maximum(h, 0))
    raw = np.sum((h1 - d1) ** 2) if metric else np.nan
    return {
        "shepard_r2": np.corrcoef(d1, h1)[0, 1] ** 2 if metric else np.nan,
        "r2": 1 - np.sum((h - d) ** 2) / np.sum((d - d.mean()) ** 2),
        "raw_stress": raw,
        "stress1": np.sqrt(1 - (d1 @ h1) ** 2 / (d1 @ d1) / (h1 @ h1))
        if metric
        else np.nan,
        "unscaled_stress1": np.sqrt(raw / np.sum(h1**2)),
        "relative_error_mean": error.mean(),
        "relative_error_median": p50,
        "relative_error_p95": p95,
        "relative_error_p99": p99,
        "neighbors_kept": recall(D, d_hat),
        "stress": np.sum((d_hat - D) ** 2),
        "normalized_stress": np.sum((d_hat - D) ** 2) / np.sum(D**2),
        "scaled_additive_error": np.linalg.norm(D - alpha * d_hat),
        "distortion": gmean(np.maximum(ratio, 1 / ratio)),
        "undefined_pairs": np.sum(~defined),
        "negative_dissimilarities": np.sum(h < 0),
        "negative_coordinates": np.sum(signs < 0),
    }


def recall(D, d_hat, m=10):
    """Share of the m nearest by D̂ that are no farther by D than the m-th nearest, per object."""
    shares = []
    for i in range(len(D)):
        d, h = np.delete(D[i], i), np.delete(d_hat[i], i)
        shares.append(np.mean(d[np.argsort(h)[:m]] <= np.sort(d)[m - 1]))
    return np.mean(shares)


@given(st.integers(0, 10**6), st.sampled_from(["any", "positive", "ties"]))
@settings(max_examples=60, deadline=None)
def test_every_measure_equals_its_definition(seed, kind):
    D, x, signs = case(seed)
    D = {"any": D, "positive": np.abs(D), "ties": np.ceil(np.abs(D))}[kind]
    ours, expected = measure(D, x, signs).as_dict(), brute(D, x, signs)
    assert set(ours) == set(expected)
    for name, value in expected.items():
        assert ours[name] == pytest.approx(value, rel=1e-9, nan_ok=True), name


def test_pairs_nobody_observed_are_left_out_of_every_measure():
    D, x, signs = case(4)
    D = np.abs(D)
    hidden = np.triu(np.random.default_rng(0).random(D.shape) < 0.3, 1)
    hidden |= hidden.T
    weights, nonsense = np.where(hidden, 0.0, 1.0), np.where(hidden, 1e6, D)
    ours = measure(nonsense, x, signs, weights=weights)
    d_hat = np.sum(signs * (x[:, None] - x[None]) ** 2, axis=-1)
    seen = np.triu(~hidden, 1)
    d, h = D[seen], d_hat[seen]
    assert ours.stress == pytest.approx(2 * np.sum((h - d) ** 2))
    assert ours.r2 == pytest.approx(
        1 - np.sum((h - d) ** 2) / np.sum((d - d.mean()) ** 2)
    )
    assert ours.relative_error_p99 < 1e3
    far = np.where(hidden, np.inf, D)
    assert ours.neighbors_kept == pytest.approx(
        recall(far, np.where(hidden, np.inf, d_hat))
    )


def test_neighbours_are_those_of_a_sample_of_many_objects():
    D, x, signs = case(6, n=2100)
    D = np.abs(D)
    sampled = measure(D, x, signs)
    d_hat = np.sum(signs * (x[:, None] - x[None]) ** 2, axis=-1)
    assert sampled.neighbors_kept == pytest.approx(recall(D, d_hat), abs=0.002)


@pytest.mark.slow
def test_quantiles_are_those_of_a_sample_of_many_pairs():
    D, x, signs = case(6, n=4200)
    D = np.abs(D)
    sampled = measure(D, x, signs)
    upper = np.triu_indices(len(D), 1)
    d, d_hat = D[upper], np.zeros(upper[0].size)
    for sign, column in zip(signs, x.T, strict=True):
        d_hat += sign * (column[upper[0]] - column[upper[1]]) ** 2
    error = np.abs(np.sqrt(np.maximum(d_hat, 0) / d) - 1)
    ratio = np.log(d[d_hat > 0] / d_hat[d_hat > 0]) / 2
    assert sampled.relative_error_mean == pytest.approx(error.mean())
    assert sampled.undefined_pairs == np.sum(d_hat <= 0)
    assert sampled.relative_error_median == pytest.approx(
        np.median(error), rel=1e-3
    )
    assert sampled.relative_error_p99 == pytest.approx(
        np.quantile(error, 0.99), rel=1e-2
    )
    deviation = np.abs(ratio - np.median(ratio)).mean()
    assert sampled.distortion == pytest.approx(np.exp(deviation), rel=1e-3)


def test_a_pair_that_is_zero_up_to_rounding_is_undefined_not_distorted():
    """Errata E14: twins of the embedding enter with no factor near 1e15."""
    D, x, signs = case(2)
    x[1] = x[0] + 1e-16
    quality = measure(np.abs(D), x, signs)
    assert quality.distortion < 100
    assert quality.undefined_pairs >= 1


def test_nothing_defined_gives_no_distortion():
    D = -(np.ones((4, 4)) - np.eye(4))
    quality = measure(D, np.zeros((4, 1)), np.ones(1))
    for name in (
        "distortion",
        "shepard_r2",
        "r2",
        "raw_stress",
        "stress1",
        "unscaled_stress1",
        "relative_error_mean",
    ):
        assert np.isnan(getattr(quality, name)), name
    assert quality.undefined_pairs == 6


def test_each_object_has_its_share_of_stress_and_its_r2():
    rng = np.random.default_rng(0)
    d = rng.uniform(1, 2, size=(9, 9))
    d = np.triu(d, 1) + np.triu(d, 1).T
    x = rng.normal(size=(9, 2))
    gap = (((x[:, None] - x) ** 2).sum(axis=2) - d) ** 2
    found = pair_errors(embedding_of(x, np.ones(2)), d)
    np.testing.assert_allclose(found.stress_share, gap.sum(axis=1) / gap.sum())
    for i in range(9):
        rest = np.delete(d[i], i)
        expected = 1 - gap[i].sum() / np.sum((rest - rest.mean()) ** 2)
        assert found.r2_of_object[i] == pytest.approx(expected)


@pytest.mark.parametrize(
    "options",
    [
        {"method": "neuc+"},
        {"loss": "relative", "curvature": -1.0},
        {"loss": "relative", "heights": True},
    ],
)
def test_held_out_objects_are_measured_as_a_fit_without_them_places_them(
    options,
):
    x = np.random.default_rng(0).normal(size=(24, 4))
    D = np.abs(x[:, None] - x).sum(axis=2)
    whole = neuc_mds(x, 3, metric="cityblock", **options)
    quality = evaluate(whole, x, metric="cityblock", held_out=6)
    order = np.random.default_rng(0).permutation(24)
    new = np.sort(order[:6])
    kept = np.sort(order[6:])
    if "loss" in options:
        options = options | {"floor": whole.floor}
    model = neuc_mds(D[np.ix_(kept, kept)], whole.signature, **options)
    d = D[np.ix_(new, kept)]
    placed = model.transform(d)
    fitted = model.form.d(placed, model.coordinates)
    assert quality.relative_error_mean == pytest.approx(
        np.mean(np.abs(fitted / d - 1)), rel=1e-6
    )
    tenth = np.sort(d, axis=1)[:, [9]]
    nearest = np.argsort(fitted, axis=1)[:, :10]
    kept_share = np.mean(np.take_along_axis(d, nearest, axis=1) <= tenth)
    assert quality.neighbors_kept == pytest.approx(kept_share)
    assert quality == evaluate(whole, D, held_out=6)


def test_gaps_among_held_out_pairs_are_left_out():
    x = np.random.default_rng(1).normal(size=(20, 2))
    D = np.abs(x[:, None] - x).sum(axis=2)
    D[0, 1:9] = D[1:9, 0] = np.nan
    fitted = neuc_mds(D, 2, missing="ignore")
    quality = evaluate(fitted, D, missing="ignore", held_out=12)
    assert 0 < quality.relative_error_mean < 1


def test_held_out_objects_must_leave_a_fit():
    D = np.abs(np.subtract.outer(np.arange(9.0), np.arange(9.0)))
    for count, words in (
        (7, "at most 6"),
        (-1, "whole number"),
        (1.5, "whole"),
    ):
        with pytest.raises(InputError, match=words):
            evaluate(neuc_mds(D, 1), D, held_out=count)
    with pytest.raises(InputError, match="landmarks"):
        evaluate(neuc_mds(D, 1, landmarks=6), D, held_out=2)
    with pytest.raises(InputError, match="symmetric"):
        evaluate(neuc_mds(D, 1, loss="ordinal"), D, held_out=2)
