"""Weights and gaps as one matrix of weights."""

from contextlib import nullcontext

import array_api_strict
import numpy as np
import pandas as pd
import pytest

from neucmds.backend import memory
from neucmds.errors import InputError
from neucmds.problem.dense import as_squares
from neucmds.problem.validation import refuse_weight_range
from neucmds.problem.weights import as_weighted, refuse_parts_of

N = 6
D = (np.arange(N)[:, None] * 1.0 + np.arange(N)) * (1 - np.eye(N))
W = 1.0 + D + D.T


def spoiled(i, j, value, other=None):
    changed = W.copy()
    changed[i, j], changed[j, i] = value, value if other is None else other
    return changed


def test_gaps_and_the_diagonal_have_no_weight():
    assert as_weighted(D, None) is None
    gaps = D.copy()
    gaps[1, 4] = gaps[4, 1] = np.nan
    counted = ~np.isnan(gaps) & ~np.eye(N, dtype=bool)
    for library in (np, array_api_strict):
        data = library.asarray(gaps)
        for weights, expected in ((None, counted), *((w, counted * w) for w in (W, W / 999))):
            filled, w = as_weighted(data, None, weights)
            np.testing.assert_array_equal(np.asarray(w), expected)
            np.testing.assert_array_equal(np.asarray(filled), np.nan_to_num(gaps))


def test_weights_go_by_name_and_take_the_precision_of_d():
    labels = tuple("abcdef")
    frame = pd.DataFrame(W, labels, labels).loc[::-1, ::-1]
    _, w = as_weighted(D.astype(np.float32), labels, frame)
    assert w.dtype == np.float32
    np.testing.assert_array_equal(w, np.where(np.eye(N), 0, W))


@pytest.mark.parametrize(
    ("call", "needed"),
    [
        (lambda: as_squares(D), "288 bytes"),
        (lambda: as_squares(D.astype(np.float32)), "144 bytes"),
        (lambda: as_squares(np.ones(15), squared=True), "288 bytes"),
        (lambda: as_weighted(D, None, W), "4.03 kB"),
        (lambda: as_weighted(np.where(D == 4, np.nan, D), None), "4.03 kB"),
    ],
)
def test_what_needs_more_memory_than_is_free_is_refused(call, needed, monkeypatch):
    monkeypatch.setattr(memory, "_ALWAYS_THERE", 0)
    monkeypatch.setattr(memory, "available_memory", lambda: 100)
    with pytest.raises(InputError, match=f"of 6 objects.* needs {needed}, but 100 bytes are free"):
        call()


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (np.ones((3, 3)), r"shape \(3, 3\); expected \(6, 6\)"),
        (spoiled(1, 2, np.nan), "NaN or infinity"),
        (spoiled(1, 2, -1.0), "must not be negative: the lowest is -1"),
        (spoiled(1, 2, 1.0, 1.5), "not symmetric: largest gap 0.5"),
        (spoiled(3, slice(None), 0.0), "^1 of 6 objects have no pair .* first object 3, 'd'; drop"),
        (1e61 * W, "weights are too large: the largest is"),
        (1e-62 * W, "weights are too small"),
    ],
)
def test_what_cannot_weigh_pairs_is_refused(weights, said):
    with pytest.raises(InputError, match=said):
        as_weighted(D, tuple("abcdef"), weights)


@pytest.mark.parametrize(
    ("weight", "size", "fits"),
    [
        *((10**13.5, 1e84, True), (10**14.5, 1e84, False), (1e58, 1.0, True), (1e62, 1.0, False)),
        *((10**-10.5, 1e-86, True), (10**-11.5, 1e-86, False), (1e-58, 1.0, True)),
        *((1e-62, 1.0, False), (1.0, 0.0, True), (0.0, 1.0, True)),
    ],
)
def test_products_of_weights_and_powers_of_d_stay_within_floats(weight, size, fits):
    refused = pytest.raises(InputError, match="divide by 1e")
    with nullcontext() if fits else refused:
        refuse_weight_range(weight, size)


def test_parts_without_a_pair_between_them_are_named():
    chain = np.eye(N, k=1) + np.eye(N, k=-1)
    refuse_parts_of(chain, None)
    chain[3, 4] = chain[4, 3] = 0
    with pytest.raises(InputError, match=r"2 parts .* of 4, 2 objects; .* largest: 'e', 'f'"):
        refuse_parts_of(chain, tuple("abcdef"))
