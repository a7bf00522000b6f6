import dask.array as da
import numpy as np
import pytest
from scipy.spatial.distance import squareform
from sklearn.utils import check_random_state

from neucmds import InputError, neuc_mds
from neucmds.errors import NeucmdsWarning
from neucmds.form import Form
from neucmds.place.dimension import (
    DimensionScan,
    entries_among,
    fewest,
    scan_dimensions,
)
from neucmds.spectrum.operators.chunked import DaskGram
from neucmds.spectrum.operators.dense import DenseGram


def planted(n, signature, noise, kind, seed):
    """Squared dissimilarities of a known signature, with noise that adds or multiplies."""
    rng = np.random.default_rng(seed)
    p, q = signature
    x = rng.normal(size=(n, p + q)) * np.r_[np.ones(p), 0.7 * np.ones(q)]
    d = Form(np.r_[np.ones(p), -np.ones(q)]).sq(x, x)
    e = np.triu(rng.normal(size=(n, n)), 1)
    e = e + e.T
    d = d + noise * d.std() * e if kind == "additive" else d * (1 + noise * e)
    np.fill_diagonal(d, 0)
    return d


def scanned(gram, seed):
    return scan_dimensions(gram, check_random_state(seed))


def test_a_planted_signature_is_found_within_one():
    d = planted(60, (6, 2), 0.1, "multiplicative", 0)
    assert abs(neuc_mds(d, "auto", squared=True).requested - 8) <= 1
    grid = {*range(1, 20), *np.rint(np.geomspace(20, 52, 12))}
    assert set(scanned(DenseGram(d), 0).ks) == grid


def test_the_choice_is_the_fewest_within_one_standard_error():
    gram = DenseGram(planted(80, (3, 1), 0.2, "additive", 0))
    scan = scanned(gram, 0)
    at = scan.ks.index(scan.best)
    limit = scan.errors[at] + scan.standard_errors[at]
    assert scan.errors[scan.ks.index(scan.k)] <= limit
    assert all(
        e > limit
        for k, e in zip(scan.ks, scan.errors, strict=True)
        if k < scan.k
    )
    assert set(range(1, 21)) <= set(scan.ks)
    # Eight are held out at a time, of which two more than coordinates are fitted.
    assert (scan.ks[-1], scan.open_ended, scan.n_objects) == (70, False, 80)
    assert scan.error == scan.errors[scan.k - 1]
    assert scanned(DenseGram(1 - np.eye(6)), 0).ks == (1, 2)
    with pytest.raises(InputError, match="needs 6 objects"):
        scanned(DenseGram(1 - np.eye(5)), 0)


def test_the_error_is_that_of_pairs_of_placed_objects_in_units_of_their_variance():
    d = planted(200, (3, 1), 0.2, "additive", 0)
    scan, new = scanned(DenseGram(d), 0), np.arange(0, 200, 10)
    fitted = np.setdiff1d(np.arange(200), new)
    for k in (4, 5):
        fit = neuc_mds(d[np.ix_(fitted, fitted)], k, squared=True)
        y = fit.transform(d[np.ix_(new, fitted)])
        left = (fit.form.sq(y, y) - d[np.ix_(new, new)])[
            np.triu_indices(20, 1)
        ]
        error = np.mean(left**2) / d[np.triu_indices(200, 1)].var()
        assert scan.errors[scan.ks.index(k)] == pytest.approx(error, rel=0.4)
    assert scan.errors[0] > 2 * scan.errors[3]
    ids = np.array([0, 7, 11, 19])
    in_chunks = DaskGram(da.from_array(d, chunks=7))
    for gram, some in (
        (DenseGram(d), ids),
        (in_chunks, ids),
        (in_chunks, np.arange(200)),
    ):
        np.testing.assert_array_equal(
            entries_among(gram, some), d[np.ix_(some, some)]
        )


def test_a_choice_is_open_ended_where_it_is_the_last_that_was_tried():
    for errors, open_ended in (
        ((3, 2, 1), True),
        ((3, 1, 2), False),
        ((1, 2, 3), False),
    ):
        assert (
            DimensionScan((1, 2, 5), errors, (0, 0, 0), 9).open_ended
            == open_ended
        )
    assert not DimensionScan((1,), (0.5,), (0,), 9).open_ended


def test_objects_that_have_nothing_in_common_are_predicted_by_no_number_of_coordinates():
    rng = np.random.default_rng(0)
    d = 1 + 0.05 * squareform(rng.normal(size=16 * 15 // 2))
    np.fill_diagonal(d, 0)
    with pytest.warns(
        NeucmdsWarning, match="no number of coordinates predicts"
    ):
        neuc_mds(d, "auto", squared=True)


@pytest.mark.parametrize("goal", range(1, 20))
def test_the_fewest_that_reach_a_goal_are_found(goal):
    expected = goal if goal <= 16 else None
    assert fewest(lambda k: k >= goal, 16) == expected
