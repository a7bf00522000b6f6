"""Weights and gaps say which pairs count, and how much."""

from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest

from neucmds import InputError, neuc_mds

N = 6
D = (np.arange(N)[:, None] * 1.0 + np.arange(N)) * (1 - np.eye(N))
W = 1.0 + D + D.T
NAMED = pd.DataFrame(D, list("abcdef"), list("abcdef"))
pytestmark = pytest.mark.filterwarnings(
    "ignore::neucmds.errors.NeucmdsWarning"
)


def spoiled(i, j, value, other=None):
    changed = W.copy()
    changed[i, j] = value
    changed[j, i] = value if other is None else other
    return changed


@pytest.mark.parametrize("weights", [None, W, W / 999])
def test_gaps_and_the_diagonal_have_no_weight(weights):
    gaps = D.copy()
    gaps[1, 4] = gaps[4, 1] = np.nan
    settings = {"n_components": 2, "missing": "ignore"}
    emb = neuc_mds(gaps, weights=weights, **settings)
    left = emb.dissimilarities(squared=True) - D**2
    counted = ~np.isnan(gaps) * (
        np.ones((N, N)) if weights is None else weights
    )
    assert emb.stress == pytest.approx(np.sum(counted * left**2))
    without = np.where(
        np.isnan(gaps), 0, np.ones((N, N)) if weights is None else weights
    )
    same = neuc_mds(gaps, weights=without + np.eye(N), **settings)
    np.testing.assert_array_equal(same.coordinates, emb.coordinates)


def test_a_pair_of_weight_0_is_a_gap():
    gaps = D.copy()
    gaps[1, 4] = gaps[4, 1] = np.nan
    gap = neuc_mds(gaps, 2, missing="ignore")
    unweighted = neuc_mds(D, 2, weights=(~np.isnan(gaps)).astype(float))
    assert unweighted.stress == pytest.approx(gap.stress)


def test_weights_go_by_name_also_of_a_d_in_single_precision():
    by_name = pd.DataFrame(W, NAMED.index, NAMED.index).loc[::-1, ::-1]
    expected = neuc_mds(D, 2, weights=W).coordinates
    np.testing.assert_array_equal(
        neuc_mds(NAMED, 2, weights=by_name).coordinates, expected
    )
    single = neuc_mds(NAMED.astype(np.float32), 2, weights=by_name).coordinates
    np.testing.assert_allclose(single, expected, atol=1e-4)


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (np.ones((3, 3)), r"shape \(3, 3\); expected \(6, 6\)"),
        (spoiled(1, 2, np.nan), "negative, NaN or infinite; use 0"),
        (spoiled(1, 2, -1.0), "negative, NaN or infinite; use 0"),
        (spoiled(1, 2, 1.0, 1.5), "not symmetric: largest gap 0.5"),
        (
            spoiled(1, 2, 1.0, 1.5) + 1e9 * np.eye(N),
            "not symmetric: largest gap 0.5",
        ),
        (
            spoiled(3, slice(None), 0.0),
            "form 2 parts .*, of 5, 1 objects; outside the largest: 'd'; keep",
        ),
        (1e91 * W, "weights times d² are too large: sums of powers of"),
        (1e-96 * W, "weights times d² are too small"),
    ],
)
def test_what_cannot_weigh_pairs_is_refused(weights, said):
    with pytest.raises(InputError, match=said):
        neuc_mds(NAMED, 2, weights=weights)


@pytest.mark.parametrize("unused", [1e300 * np.eye(N), np.tri(N, k=-N + 1)])
def test_weights_that_do_not_count_are_not_judged(unused):
    gaps = D.copy()
    gaps[0, -1] = gaps[-1, 0] = np.nan
    np.testing.assert_array_equal(
        neuc_mds(gaps, 2, weights=W + unused, missing="ignore").coordinates,
        neuc_mds(gaps, 2, weights=W, missing="ignore").coordinates,
    )


@pytest.mark.parametrize(
    ("weight", "sq_size", "fits"),
    [
        (1e5, 1e84, True),
        (1e7, 1e84, False),
        (1e-3, 1e-86, True),
        (1e-5, 1e-86, False),
        (1e80, 1.0, True),
        (1e-80, 1.0, True),
        (1.0, 0.0, True),
    ],
)
def test_products_of_weights_and_powers_of_d_stay_within_floats(
    weight, sq_size, fits
):
    refused = pytest.raises(InputError, match="leave the range of floats")
    d = np.sqrt(sq_size) * D / D.max()
    with nullcontext() if fits else refused:
        emb = neuc_mds(d, 2, weights=weight * W / W.max())
        assert np.isfinite(emb.stress)
        if sq_size > 0:
            assert emb.r2 == pytest.approx(neuc_mds(D, 2, weights=W).r2)


def test_parts_without_a_pair_between_them_are_named():
    chain = np.eye(N, k=1) + np.eye(N, k=-1)
    assert neuc_mds(NAMED, 2, weights=chain).n == N
    chain[3, 4] = chain[4, 3] = 0
    with pytest.raises(
        InputError, match=r"2 parts .* of 4, 2 objects; .* largest: 'e', 'f'"
    ):
        neuc_mds(NAMED, 2, weights=chain)
