"""Weights and gaps: the weighted STRESS is what is minimised, and hidden entries come back."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.spatial.distance import pdist, squareform

from neucmds import InputError, neuc_mds
from neucmds.datasets import euclidean_ball
from neucmds.errors import ConvergenceWarning, OverfitWarning
from neucmds.refine import gaps as completion


def low_rank(seed=0, n=60, signs=(1, 1, 1, -1)):
    x = np.random.default_rng(seed).normal(size=(n, len(signs)))
    return np.sum(np.asarray(signs) * (x[:, None] - x[None]) ** 2, axis=-1)


def hide(n, share, seed=0):
    upper = np.triu(np.random.default_rng(seed).random((n, n)) < share, 1)
    return upper | upper.T


def random_weights(n, seed=0):
    w = np.random.default_rng(seed).gamma(0.5, size=(n, n))
    return w + w.T


def weighted_stress(embedding, D, w):
    off = ~np.eye(D.shape[0], dtype=bool)
    return np.sum(
        (w * (embedding.dissimilarities(squared=True) - D) ** 2)[off]
    )


def test_weights_lower_the_error_where_they_are_large():
    D = euclidean_ball(80, random_state=0)
    w = random_weights(80)
    plain = neuc_mds(D, 5, squared=True)
    weighted = neuc_mds(D, 5, squared=True, weights=w)
    assert weighted.stress == pytest.approx(
        weighted_stress(weighted, D, w), rel=1e-9
    )
    assert weighted.stress < 0.9 * weighted_stress(plain, D, w)
    assert np.all(np.diff(weighted.info.history) <= 0)


def test_row_effects_are_the_least_squares_fit_of_what_was_observed():
    d, w = low_rank(n=9), np.where(hide(9, 0.3), 0.0, 1 - np.eye(9))
    i, j = np.nonzero(np.triu(w))
    design = np.zeros((i.size, 9))
    design[np.arange(i.size), i] = design[np.arange(i.size), j] = 1
    effects = np.linalg.lstsq(design, d[i, j], rcond=None)[0]
    found = completion._row_effects(d, w)
    np.testing.assert_allclose(found, effects[:, None] + effects, rtol=1e-6)
    assert completion.has_gaps(w)
    assert not completion.has_gaps(1 - np.eye(9))


@pytest.mark.parametrize(
    ("n", "folds", "share"), [(16, 10, 0.1), (60, 3, 0.1), (150, 1, 0.1)]
)
def test_held_out_pairs_are_disjoint_and_leave_every_object_two_thirds(
    n, folds, share
):
    w = 1 - np.eye(n)
    w[2, 5] = w[5, 2] = 0
    held = list(completion._hold_outs(w, np.random.default_rng(0)))
    assert len(held) == folds
    assert np.sum(held, axis=0).max() == 1
    for one in held:
        np.testing.assert_array_equal(one, one.T)
        assert np.all(w[one] > 0)
        assert np.all(one.sum(axis=1) <= w.sum(axis=1) // 3)
        assert 0.7 * share * w.sum() <= one.sum() <= 1.02 * share * w.sum() + 1
    sparse = np.eye(n, k=1) + np.eye(n, k=-1)  # no object has a pair to spare
    assert not np.any(
        list(completion._hold_outs(sparse, np.random.default_rng(0)))
    )


def test_the_sizes_double():
    for k, sizes in (
        (1, [1]),
        (2, [1, 2]),
        (5, [1, 2, 4, 5]),
        (8, [1, 2, 4, 8]),
    ):
        assert completion._sizes(k) == list(sizes)
    assert completion._sizes((2, 1)) == [(2, 1)]


def test_less_is_clear_by_a_tenth_and_two_standard_errors():
    rng = np.random.default_rng(0)
    errors = rng.uniform(0, 1, 50)
    for others, clear in (
        (errors + 0.02, False),  # less than a tenth
        (errors + 0.2, True),
        (errors + 0.2 * rng.standard_normal(50), False),  # an accident
        (
            np.where(np.arange(50) == 7, 25.0, errors),
            False,
        ),  # one object decides
        (errors - 0.2, False),
    ):
        assert completion._clearly_less(errors, others) == clear
    assert not completion._clearly_less(errors[:9], errors[:9] + 9)
    assert completion._clearly_less(errors[:10], errors[:10] + 9)


@pytest.mark.parametrize(
    ("n", "k", "share"), [(60, 4, 0.5), (24, 2, 0.25), (6, 1, 0.1)]
)
def test_hidden_entries_of_an_exact_embedding_come_back(n, k, share):
    D, gaps = (
        low_rank(n=n, signs=(1, 1, 1, -1)[-k:] if k > 1 else (1,)),
        hide(n, share),
    )
    holed, w = np.where(gaps, np.nan, D), (~gaps).astype(float)
    for given, more in (
        (holed, {"missing": "ignore"}),
        (np.where(gaps, 1e3, D), {"weights": w}),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            embedding = neuc_mds(
                given, k, squared=True, random_state=0, **more
            )
        error = np.linalg.norm(
            (embedding.dissimilarities(squared=True) - D)[gaps]
        )
        assert error < 0.02 * np.linalg.norm((D - D[gaps].mean())[gaps]) + 1e-3


@pytest.mark.parametrize(
    ("n", "metric"), [(30, "cityblock"), (60, "euclidean")]
)
@pytest.mark.parametrize("seed", range(2))
def test_listed_pairs_end_no_higher_than_weights_of_zero_for_the_others(
    n, seed, metric
):
    """They start where those end; from their own start they ended at up to 2.2 times as much."""
    rng = np.random.default_rng(seed)
    D = pdist(rng.normal(size=(n, 3)), metric)
    i, j = np.triu_indices(n, 1)
    known = rng.random(D.size) < 0.5
    listed = sparse.coo_array((D[known], (i[known], j[known])), shape=(n, n))
    with warnings.catch_warnings():
        warnings.simplefilter("error", OverfitWarning)
        whole = neuc_mds(
            squareform(D), 2, weights=squareform(known.astype(float))
        )
    ends = [
        np.sum(
            (one.distance(i[known], j[known], squared=True) - D[known] ** 2)
            ** 2
        )
        for one in (whole, neuc_mds(listed, 2, random_state=0))
    ]
    assert ends[1] <= 1.01 * ends[0]


def test_overfitting_is_noticed_and_said():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(24, 24)) ** 2
    D = noise + noise.T
    np.fill_diagonal(D, 0)
    holed = np.where(hide(24, 0.3), np.nan, D)
    weights = random_weights(24)
    with pytest.warns(
        OverfitWarning, match="8 coordinates predict unobserved entries badly"
    ):
        embedding = neuc_mds(
            holed, 8, squared=True, missing="ignore", weights=weights
        )
    counted = np.where(np.isnan(holed), 0.0, weights)
    assert embedding.stress == pytest.approx(
        weighted_stress(embedding, D, counted), rel=1e-9
    )
    with (
        pytest.warns(OverfitWarning, match="badly"),
        pytest.warns(ConvergenceWarning, match="raise"),
    ):
        stopped = neuc_mds(
            holed, 8, squared=True, missing="ignore", max_iter=1, tol=0.0
        )
    assert not stopped.info.converged
    assert np.all(np.isfinite(stopped.coordinates))


def test_few_pairs_end_in_the_lowest_valley():
    """At 1.22 before."""
    upper = np.array(
        [np.nan, 2.44, np.nan, 5.56, 1.63, 0.87, 4.57, 2.36, np.nan, 3.70]
    )
    for unit in (1e-5, 100):
        assert (
            neuc_mds(unit * upper, (1, 1), missing="ignore").stress
            < 0.33 * unit**4
        )


@pytest.mark.filterwarnings("error:Mean of empty slice:RuntimeWarning")
def test_where_no_pair_can_be_spared_none_is_held_out():
    path = np.full((6, 6), np.nan)
    path[range(5), range(1, 6)] = path[range(1, 6), range(5)] = np.arange(
        1.0, 6.0
    )
    np.fill_diagonal(path, 0)
    with pytest.warns(OverfitWarning, match="2 coordinates of 6 objects"):
        assert neuc_mds(path, 2, missing="ignore").stress < 1e-6


def noisy(n, noise, signs=(1, 1, 1, -1)):
    D = low_rank(0, n, signs)
    e = (
        np.triu(np.random.default_rng(1).normal(size=(n, n)), 1)
        * noise
        * D.std()
    )
    return D + e + e.T


def warned(D, gaps, k, **settings):
    """Return the error on hidden entries, and what was said of overfitting."""
    holed = np.where(gaps, np.nan, D)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = neuc_mds(
            holed,
            k,
            squared=True,
            missing="ignore",
            random_state=0,
            **settings,
        )
    said = [
        str(w.message)
        for w in caught
        if issubclass(w.category, OverfitWarning)
    ]
    return np.linalg.norm(
        (found.dissimilarities(squared=True) - D)[gaps]
    ), said


def test_many_coordinates_of_a_tenth_of_the_pairs_are_not_worse_than_four():
    """Five times the error, and no warning, before."""
    D, gaps = noisy(160, 0.1), hide(160, 0.85)
    error, (said,) = warned(D, gaps, 16)
    assert "16 coordinates predict unobserved entries badly" in said
    assert "filled by 4 coordinates" in said
    least, said = warned(D, gaps, 4)
    assert error < 1.5 * least
    assert not said


def test_a_search_for_a_share_warns_at_most_once():
    """Of the number that is returned: every number tried used to warn."""
    D = np.abs(noisy(21, 0.3, signs=(1, 1)))
    assert len(warned(D, hide(21, 0.5), 0.5)[1]) <= 1


@pytest.mark.filterwarnings("ignore::neucmds.errors.FewerComponentsWarning")
@pytest.mark.parametrize(
    ("condensed", "n_components"),
    [
        ([0, 0, 1.0], (0, 2)),
        ([0, 0, 1.0], (0, 1)),
        ([0, 0, -1.0], (2, 0)),
        ([-1.0, 2, 2], (0, 2)),
    ],
)
def test_signs_that_the_data_do_not_have_leave_fewer_columns(
    condensed, n_components
):
    """`LinAlgError: Singular matrix` before."""
    D = squareform(condensed)
    embedding = neuc_mds(
        D, n_components, squared=True, weights=np.ones((3, 3))
    )
    found = embedding.dissimilarities(squared=True)
    assert embedding.stress == pytest.approx(
        np.sum((found - D) ** 2), abs=1e-12
    )
    assert embedding.stress <= np.sum(D**2)


@pytest.mark.parametrize("loss", ["squared", "distance"])
def test_gaps_that_leave_two_parts_unrelated_are_refused_by_name(loss):
    D, names = (
        np.sqrt(low_rank(n=24, signs=(1, 1))),
        [f"site {i}" for i in range(24)],
    )
    part = np.arange(24) < 4
    apart = part[:, None] != part
    holed = pd.DataFrame(np.where(apart, np.nan, D), names, names)
    with pytest.raises(
        InputError, match=r"2 parts .* of 20, 4 objects.* 'site 0', 'site 1'"
    ):
        neuc_mds(holed, 2, missing="ignore", loss=loss)
    with pytest.raises(InputError, match=r"missing=.ignore"):
        neuc_mds(holed, 2, loss=loss)
    with pytest.raises(InputError, match="2 parts"):
        neuc_mds(D, 2, weights=np.where(apart, 0.0, 1.0), loss=loss)
    apart[0, 5] = apart[5, 0] = False
    starts = None if loss == "squared" else 1
    held = neuc_mds(
        D, 2, weights=np.where(apart, 0.0, 1.0), loss=loss, n_init=starts
    )
    assert np.isfinite(held.coordinates).all()
