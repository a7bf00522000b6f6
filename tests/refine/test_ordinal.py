"""Non-metric scaling, beside vegan's and an isotonic regression of another library."""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.spatial.distance import pdist, squareform
from scipy.stats import spearmanr
from sklearn.isotonic import IsotonicRegression

from neucmds import Embedding, NeucMDS, neuc_mds, procrustes
from neucmds.errors import FewerComponentsWarning, InputError, NeucmdsWarning
from neucmds.refine.ordinal import RankedPairs

FIXTURES = Path(__file__).parents[1] / "fixtures"
VEGAN = json.loads((FIXTURES / "vegan_nmds.json").read_text())
CELLS = [name for name in VEGAN if name != "provenance"]


def table(name):
    """Return Bray–Curtis dissimilarities of a table of vegan."""
    if name == "mite":
        species = pd.read_csv(FIXTURES / "mite_species.csv", index_col=0)
        return squareform(pdist(species.to_numpy(), "braycurtis"))
    stored = json.loads((FIXTURES / "vegan_wcmdscale.json").read_text())
    return squareform(stored[name]["condensed"])


@pytest.fixture(scope="module")
def dune():
    return table("dune")


@pytest.fixture(scope="module")
def fitted(dune):
    return neuc_mds(dune, 2, loss="ordinal")


def random_weights(n, share=1.0, seed=0):
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.5, 2.0, (n, n)) * (rng.random((n, n)) < share)
    weights = np.triu(weights, 1)
    return weights + weights.T


def secondary_stress1(d, d_hat, weights=None):
    """Return stress-1 by scikit-learn's isotonic regression, which averages ties."""
    fit = IsotonicRegression().fit(d, d_hat, sample_weight=weights)
    errors = (d_hat - fit.predict(d)) ** 2
    return np.sqrt(
        np.average(errors, weights=weights)
        / np.average(d_hat**2, weights=weights)
    )


@pytest.mark.parametrize("ties", ["primary", "secondary"])
@pytest.mark.parametrize("cell", CELLS)
def test_stress_at_given_coordinates_is_that_of_monomds(cell, ties):
    name, k = cell.split()
    D = table(name)
    x = neuc_mds(D, int(k), "classical").coordinates
    pairs = RankedPairs.of(D**2, None, ties)
    (value,), _ = pairs.stress(x[None])
    assert np.sqrt(value) == pytest.approx(VEGAN[cell][ties], abs=1e-8)


@pytest.mark.parametrize("ties", ["primary", "secondary"])
def test_the_gradient_is_the_slope_of_the_stress(ties):
    rng = np.random.default_rng(1)
    # Few values, so that most pairs are tied.
    D = np.round(squareform(pdist(rng.normal(size=(9, 4)))), 0)
    pairs = RankedPairs.of(D**2, random_weights(9, 0.8), ties)
    x = rng.normal(size=(9, 2))
    direction = rng.normal(size=x.shape)
    _, (gradient,) = pairs.stress(x[None])
    step = 1e-6
    ends = np.stack([x + step * direction, x - step * direction])
    (above, below), _ = pairs.stress(ends)
    slope = (above - below) / (2 * step)
    assert np.sum(gradient * direction) == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("cell", CELLS)
def test_stress_is_not_above_the_best_of_100_starts_of_metamds(cell):
    name, k = cell.split()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NeucmdsWarning)
        ours = neuc_mds(table(name), int(k), loss="ordinal").stress1
    assert ours < VEGAN[cell]["best"] + 1e-6


@pytest.mark.parametrize("rise", [np.sqrt, np.square, np.expm1])
def test_only_the_order_of_the_dissimilarities_counts(dune, fitted, rise):
    other = neuc_mds(rise(dune), 2, loss="ordinal")
    assert other.stress1 == pytest.approx(fitted.stress1, abs=1e-6)
    assert procrustes(fitted, other).disparity < 1e-4


def test_figures_are_those_of_another_isotonic_regression():
    D = table("varespec")
    weights = random_weights(len(D))
    emb = neuc_mds(D, 2, loss="ordinal", ties="secondary", weights=weights)
    upper = np.triu_indices(len(D), 1)
    d = D[upper]
    d_hat = emb.dissimilarities()[upper]
    u = weights[upper]
    stress1 = secondary_stress1(d, d_hat, u)
    assert emb.stress1 == pytest.approx(stress1, rel=1e-9)
    assert np.sum(u * d_hat**2) == pytest.approx(np.sum(u * d**2))
    raw_stress = stress1**2 * np.sum(u * d_hat**2)
    assert emb.loss_value == pytest.approx(raw_stress, rel=1e-9)
    assert emb.info.history[-1] == pytest.approx(emb.loss_value, rel=1e-12)


def test_one_disparity_for_equal_dissimilarities_costs_stress(dune, fitted):
    secondary = neuc_mds(dune, 2, loss="ordinal", ties="secondary")
    assert secondary.stress1 > fitted.stress1 + 1e-3
    upper = np.triu_indices(len(dune), 1)
    assert secondary.stress1 == pytest.approx(
        secondary_stress1(dune[upper], secondary.dissimilarities()[upper]),
        rel=1e-9,
    )


def test_a_gap_is_a_pair_without_weight(dune):
    weights = (random_weights(len(dune), 0.7) > 0).astype(float)
    gaps = np.where(weights > 0, dune, np.nan)
    np.fill_diagonal(gaps, 0.0)
    ignored = neuc_mds(gaps, 2, loss="ordinal", missing="ignore")
    weighted = neuc_mds(dune, 2, loss="ordinal", weights=weights)
    assert ignored.stress1 == pytest.approx(weighted.stress1, abs=1e-9)
    unseen = np.triu(weights == 0, 1)
    rank = spearmanr(ignored.dissimilarities()[unseen], dune[unseen])
    assert rank.statistic > 0.8


def test_points_that_have_the_order_are_found_with_no_stress():
    x = np.random.default_rng(2).normal(size=(40, 2))
    emb = neuc_mds(squareform(pdist(x)) ** 3, 2, loss="ordinal")
    assert emb.stress1 < 1e-3
    original = neuc_mds(squareform(pdist(x)), 2, "classical")
    assert procrustes(original, emb).disparity < 1e-3


def test_the_best_is_found_again_and_starts_end_then(fitted):
    assert fitted.info.times_found >= 3
    assert fitted.info.n_starts < 32
    assert fitted.info.converged


def test_a_stress_found_once_is_a_warning(dune):
    noise = squareform(np.random.default_rng(0).random(435))
    with pytest.warns(NeucmdsWarning, match=r"found once in 2 starts.*n_init"):
        emb = neuc_mds(noise, 3, loss="ordinal", n_init=2)
    assert (emb.info.n_starts, emb.info.times_found) == (2, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        neuc_mds(dune, 2, loss="ordinal", n_init=1)


def test_warnings_of_sampled_pairs_advise_what_is_allowed():
    noise = np.random.default_rng(0).gamma(1.0, size=(60, 20))
    with pytest.warns(NeucmdsWarning) as caught:
        emb = neuc_mds(
            noise, 4, loss="ordinal", metric="braycurtis", n_pairs=20
        )
    once, overfit = (str(warning.message) for warning in caught)
    assert emb.info.times_found == 1
    assert once.endswith("try other values of random_state.")
    assert (
        f"the estimated stress-1 of all pairs is {emb.stress1:.2f}" in overfit
    )


def test_a_start_is_descended_from(dune, fitted):
    again = neuc_mds(dune, loss="ordinal", init=fitted)
    assert again.stress1 <= fitted.stress1 + 1e-12
    assert again.info.n_starts == 1


def test_a_second_call_gives_the_same_coordinates(dune, fitted):
    again = NeucMDS(2, loss="ordinal").fit(dune).result_
    np.testing.assert_array_equal(again.coordinates, fitted.coordinates)


def test_axes_are_principal(fitted):
    x = fitted.coordinates
    products = x.T @ x
    assert abs(products[0, 1]) < 1e-9 * products[0, 0]
    assert products[0, 0] > products[1, 1]
    np.testing.assert_allclose(x.mean(axis=0), 0, atol=1e-12)


def test_fitted_objects_are_placed_where_they_are():
    D = table("varespec")
    emb = neuc_mds(D, 2, loss="ordinal", tol=1e-13)
    off = np.linalg.norm(emb.transform(D) - emb.coordinates, axis=1)
    assert off.max() < 1e-3 * emb.coordinates.std()


def test_new_objects_are_placed_by_the_same_disparities():
    D = table("mite")
    rest = np.arange(len(D)) % 5 > 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NeucmdsWarning)
        part = neuc_mds(D[rest][:, rest], 2, loss="ordinal")
    placed = part.transform(D[~rest][:, rest])
    d_hat = part.between(placed, part.coordinates)
    rank = spearmanr(d_hat.ravel(), D[~rest][:, rest].ravel()).statistic
    of_fit = spearmanr(
        part.dissimilarities().ravel(), D[rest][:, rest].ravel()
    ).statistic
    assert rank > of_fit - 0.03


def test_distances_have_no_unit_but_neighbours_have_an_order(dune, fitted):
    with pytest.raises(InputError, match="have no unit; use neighbors"):
        fitted.distance(0, 1)
    ids, _ = fitted.neighbors(1)
    nearest = np.argsort(dune + np.eye(len(dune)) * 9, axis=1)[:, :3]
    kept = (ids == nearest).any(axis=1)
    assert kept.mean() > 0.7


def test_a_saved_fit_places_as_before(dune, fitted, tmp_path):
    fitted.save(tmp_path / "dune.npz")
    loaded = Embedding.load(tmp_path / "dune.npz")
    assert loaded.stress1 == fitted.stress1
    assert loaded.info.times_found == fitted.info.times_found
    np.testing.assert_array_equal(
        loaded.transform(dune[:3]), fitted.transform(dune[:3])
    )


def test_the_shepard_plot_has_the_steps_of_the_disparities(dune, fitted):
    pytest.importorskip("matplotlib")
    ax = fitted.plot_shepard(dune)
    (steps,) = [line for line in ax.lines if line.get_label() == "disparities"]
    heights = steps.get_ydata()
    assert steps.get_drawstyle() == "steps-post"
    assert np.all(np.diff(heights) >= 0)
    # Of 154 values of d, few have a step of their own.
    assert 5 < np.unique(heights).size < 80


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_components": (1, 1)}, "positive coordinates alone"),
        ({"n_components": 0.9}, "pass a number"),
        ({"n_components": "auto"}, "pass a number"),
        ({"floor": 0.1}, "needs loss='relative'"),
        ({"curvature": -1.0}, "losses with a unit"),
        ({"landmarks": 10}, "use neuc_mds with n_pairs"),
        ({"directed": True}, "without a direction"),
        ({"method": "neuc+"}, "needs method='refined'"),
        ({"ties": "all"}, "choose one of primary, secondary"),
        ({"loss": "distance", "ties": "secondary"}, "needs loss='ordinal'"),
    ],
)
def test_what_does_not_go_with_an_order_is_refused(dune, options, words):
    with pytest.raises(InputError, match=words):
        neuc_mds(dune, **{"loss": "ordinal"} | options)


@pytest.fixture(scope="module")
def gradient():
    """Abundances of 30 species along two gradients, in 400 sites."""
    rng = np.random.default_rng(0)
    sites = rng.uniform(size=(400, 2)) * [3.0, 1.5]
    optima = rng.uniform(-0.5, 3.5, (30, 2))
    squares = ((sites[:, None] - optima) ** 2).sum(axis=2)
    return 1 + 50 * np.exp(-squares) * rng.lognormal(0, 0.3, (400, 30))


def stress1_of_all(embedding, x):
    """Return stress-1 of all pairs of rows."""
    D = squareform(pdist(x, "braycurtis"))
    pairs = RankedPairs.of(D**2, None, "primary")
    (value,), _ = pairs.stress(embedding.coordinates[None])
    return np.sqrt(value)


def test_a_sample_of_pairs_costs_at_most_a_tenth_of_the_stress(gradient):
    D = squareform(pdist(gradient, "braycurtis"))
    of_all = neuc_mds(D, 2, loss="ordinal", n_init=2).stress1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NeucmdsWarning)
        sampled = neuc_mds(
            gradient, 2, loss="ordinal", metric="braycurtis", n_pairs=100
        )
    truth = stress1_of_all(sampled, gradient)
    assert truth < 1.1 * of_all
    # From pairs that were not fitted.
    assert sampled.info.held_out_pairs
    assert sampled.stress1 == pytest.approx(truth, rel=0.1)


def test_listed_pairs_have_the_fit_of_weights_that_leave_out_the_others(dune):
    known = np.triu(np.random.default_rng(0).random(dune.shape) < 0.8, 1)
    listed = sparse.coo_array(np.where(known, dune, 0.0))
    sparse_fit = neuc_mds(listed, 2, loss="ordinal")
    weighted = neuc_mds(
        dune, 2, loss="ordinal", weights=1.0 * (known | known.T)
    )
    assert sparse_fit.stress1 == pytest.approx(weighted.stress1, abs=1e-6)


def test_negative_squares_are_refused(dune):
    squares = dune**2
    squares[0, 1] = squares[1, 0] = -0.1
    with pytest.raises(InputError, match="pairs with D < 0: 1"):
        neuc_mds(squares, 2, loss="ordinal", squared=True)


@pytest.mark.parametrize("d", [0.0, 1.0])
def test_where_all_pairs_are_alike_stress_is_zero_and_nothing_is_lower(d):
    alike = d * (1 - np.eye(8))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", FewerComponentsWarning)
        emb = neuc_mds(alike, 2, loss="ordinal")
    assert emb.stress1 == pytest.approx(0, abs=1e-6)
