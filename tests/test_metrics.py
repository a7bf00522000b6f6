"""The measures equal their definitions, written out pair by pair."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import gmean

import neucmds.metrics
from neucmds._backend.arrays import row_blocks
from neucmds._operator import DenseGram
from neucmds.metrics import evaluate


def case(seed, n=25, k=4):
    rng = np.random.default_rng(seed)
    entries = rng.normal(1.0, 1.0, size=(n, n))
    D = entries + entries.T
    np.fill_diagonal(D, 0)
    return D, rng.normal(size=(n, k)), np.array([1.0, 1.0, -1.0, 1.0])


def brute(D, x, signs):
    d_hat = np.sum(signs * (x[:, None] - x[None]) ** 2, axis=-1)
    upper = np.triu_indices(D.shape[0], 1)
    d, h = D[upper], d_hat[upper]
    alpha = np.sum(D * d_hat) / np.sum(d_hat**2)
    defined = (d > 0) & (h > 0)
    ratio = np.sqrt(d[defined]) / np.sqrt(h[defined])
    ratio = ratio / np.median(ratio)
    return {
        "stress": np.sum((d_hat - D) ** 2),
        "normalized_stress": np.sum((d_hat - D) ** 2) / np.sum(D**2),
        "scaled_additive_error": np.linalg.norm(D - alpha * d_hat),
        "distortion": gmean(np.maximum(ratio, 1 / ratio)),
        "undefined_pairs": np.sum(~defined),
        "negative_dissimilarities": np.sum(h < 0),
        "negative_eigenvalues": np.sum(signs < 0),
    }


@given(st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_every_measure_equals_its_definition(seed):
    D, x, signs = case(seed)
    ours, expected = evaluate(DenseGram(D), x, signs).as_dict(), brute(D, x, signs)
    for name, value in expected.items():
        assert ours[name] == pytest.approx(value, rel=1e-9), name


def test_small_blocks_and_forgotten_ratios_change_nothing(monkeypatch):
    D, x, signs = case(1, n=60)
    whole = evaluate(DenseGram(D), x, signs)
    monkeypatch.setattr(neucmds.metrics, "REMEMBERED_PAIRS", 0)
    monkeypatch.setattr(DenseGram, "row_slices", lambda self: list(row_blocks(60, 1, elements=7)))
    parts = evaluate(DenseGram(D), x, signs)
    for name, value in whole.as_dict().items():
        assert parts.as_dict()[name] == pytest.approx(value, rel=1e-12), name


def test_a_pair_that_is_zero_up_to_rounding_is_undefined_not_distorted():
    """Errata E14: twins of the embedding enter with no factor near 1e15."""
    D, x, signs = case(2)
    x[1] = x[0] + 1e-16
    quality = evaluate(DenseGram(np.abs(D)), x, signs)
    assert quality.distortion < 100
    assert quality.undefined_pairs >= 1


def test_a_perfect_embedding_has_no_error():
    _, x, _ = case(3)
    signs = np.ones(4)
    D = np.sum((x[:, None] - x[None]) ** 2, axis=-1)
    quality = evaluate(DenseGram(D), x, signs)
    assert quality.normalized_stress < 1e-28
    assert quality.distortion == pytest.approx(1)
    assert quality.undefined_pairs == 0


def test_nothing_defined_gives_no_distortion():
    D = -(np.ones((4, 4)) - np.eye(4))
    quality = evaluate(DenseGram(D), np.zeros((4, 1)), np.ones(1))
    assert np.isnan(quality.distortion)
    assert quality.undefined_pairs == 6
