"""The number of coordinates as a share of R², and chosen by what predicts held-out objects."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from neucmds import LandmarkNeucMDS, NeucMDS, compare, neuc_mds
from neucmds.errors import InputError
from neucmds.form import Form


def planted(n=60, signature=(3, 2), noise=0.1, seed=0):
    """Squared dissimilarities of a known signature, with additive noise."""
    rng = np.random.default_rng(seed)
    p, q = signature
    x = rng.normal(size=(n, p + q)) * np.r_[np.ones(p), 0.7 * np.ones(q)]
    d = Form(np.r_[np.ones(p), -np.ones(q)]).sq(x, x)
    e = np.triu(rng.normal(size=(n, n)), 1)
    d = d + noise * d.std() * (e + e.T)
    np.fill_diagonal(d, 0)
    return d


@pytest.mark.slow
@pytest.mark.parametrize("method", ["neuc", "neuc+"])
def test_a_share_takes_the_fewest_coordinates_that_reach_it(method):
    d = planted()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        r2 = np.array(
            [neuc_mds(d, k, method, squared=True).r2 for k in range(1, 40)]
        )
    for share in (0.3, 0.6, 0.9, 0.995):
        found = neuc_mds(d, share, method, squared=True)
        assert found.requested == 1 + int(np.argmax(r2 >= share))
        assert found.r2 >= share


@pytest.mark.parametrize("method", ["exact", "refined"])
def test_one_coordinate_fewer_would_miss_the_share(method):
    d = planted()
    found = neuc_mds(d, 0.9, method, squared=True)
    assert found.r2 >= 0.9
    assert neuc_mds(d, found.requested - 1, method, squared=True).r2 < 0.9
    assert found.requested <= neuc_mds(d, 0.9, "neuc+", squared=True).requested


def test_what_cannot_be_reached_is_said_with_what_can():
    with pytest.raises(
        InputError, match=r"'classical' reaches 0\.\d+ at most"
    ):
        neuc_mds(planted(), 0.99, "classical", squared=True)
    with pytest.raises(InputError, match="all dissimilarities are equal"):
        neuc_mds(1.0 - np.eye(8), 0.9)


@pytest.mark.slow
def test_auto_is_the_same_every_time_and_refuses_what_it_cannot_hold_out():
    d = planted(8)
    assert (
        len({neuc_mds(d, "auto", squared=True).requested for _ in range(2)})
        == 1
    )
    with pytest.raises(InputError, match="needs 6 objects"):
        neuc_mds(d[:5, :5], "auto", squared=True)
    with pytest.raises(InputError, match="without weights; pass a number"):
        neuc_mds(np.sqrt(np.abs(d)), "auto", weights=np.ones_like(d))


@pytest.mark.slow
@pytest.mark.parametrize("wanted", ["auto", 0.9])
def test_both_estimators_choose_as_the_function_does(wanted):
    d = planted(9)
    expected = neuc_mds(d, wanted, squared=True).requested
    for estimator in (NeucMDS, LandmarkNeucMDS):
        est = estimator(
            wanted, metric="precomputed", squared=True, random_state=0
        )
        est.fit_transform(d)
        assert est.result_.requested == expected


@pytest.mark.slow
def test_compare_takes_one_number_for_all_methods():
    assert (
        compare(planted(), "auto", ["neuc", "neuc+"], squared=True).requested
        == 5
    )
    chosen = neuc_mds(planted(), 0.9, "neuc+", squared=True).requested
    assert (
        compare(planted(), 0.9, ["neuc", "neuc+"], squared=True).requested
        == chosen
    )
