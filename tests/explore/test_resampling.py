"""Replicates of an embedding: where its objects come to lie, and what chance alone would reach."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import squareform

from neucmds import InputError, bootstrap, neuc_mds, procrustes
from neucmds.explore import stress_test
from neucmds.tools.plots import plot_bootstrap

DUNE = Path(__file__).parents[1] / "fixtures" / "dune_braycurtis.csv"


@pytest.fixture(scope="module")
def plane():
    """Distances in a plane: any three objects or more give the others their places."""
    x = np.random.default_rng(0).normal(size=(24, 2))
    return np.linalg.norm(x[:, None] - x, axis=2)


@pytest.mark.parametrize("method", ["refined", "neuc"])
@pytest.mark.parametrize("resample", ["bootstrap", "jackknife"])
def test_exact_distances_have_stable_coordinates(plane, method, resample):
    found = bootstrap(plane, (2, 0), 5, resample=resample, method=method)
    assert found.clouds.shape == (5 if resample == "bootstrap" else 24, 24, 2)
    assert found.spread.max() < 1e-5 * plane.max()
    np.testing.assert_allclose(found.covariances, 0, atol=1e-8)


def test_replicates_of_one_s_own_are_laid_over_within_the_isometries():
    rng, plants = (
        np.random.default_rng(0),
        pd.read_csv(DUNE, index_col=0).to_numpy(),
    )
    noise = [
        np.triu(rng.normal(scale=0.02, size=plants.shape), 1) for _ in range(3)
    ]
    draws = [np.abs(plants + e + e.T) for e in noise]
    steps = []
    hear = lambda *told: steps.append(told)  # noqa: E731
    found = bootstrap(
        plants, (2, 1), resample=draws, method="neuc", callback=hear
    )
    assert steps == [(i, None, "replicates") for i in range(3)]
    assert found.embedding.signature == (2, 1)
    for d, cloud in zip(draws, found.clouds, strict=True):
        other = neuc_mds(d, (2, 1), "neuc")
        expected = procrustes(
            found.embedding, other, scaling=False
        ).coordinates
        np.testing.assert_allclose(cloud, expected, atol=1e-6)
    moved = np.sum((found.clouds - found.embedding.coordinates) ** 2, axis=2)
    np.testing.assert_allclose(found.spread, np.sqrt(moved.mean(axis=0)))
    np.testing.assert_allclose(
        found.covariances[4], np.cov(found.clouds[:, 4].T)
    )


def test_a_picture_has_an_ellipse_for_each_object():
    found = bootstrap(DUNE, 3, 12)
    assert found.embedding.labels[0] == "1"
    ax = plot_bootstrap(found, axes=(1, 3))
    assert len(ax.patches) == 20
    again = bootstrap(DUNE, 3, 12, embedding=found.embedding)
    np.testing.assert_allclose(again.clouds, found.clouds, atol=1e-6)


def test_structure_has_less_stress_than_chance_and_noise_has_not(plane):
    steps = []
    found = stress_test(
        plane, 2, 19, method="neuc+", callback=lambda *told: steps.append(told)
    )
    assert (found.p, len(found.permuted), steps[3]) == (
        0.05,
        19,
        (3, 19, "permutations"),
    )
    assert found.statistic < found.permuted.min()
    noise = np.random.default_rng(1).uniform(1, 2, size=(24, 24))
    noise = np.triu(noise, 1) + np.triu(noise, 1).T
    assert stress_test(noise, 2, 19, method="neuc+").p > 0.1


def test_replicates_are_matched_by_name():
    names = [f"o{i}" for i in range(8)]
    d = pd.DataFrame(
        np.abs(np.subtract.outer(*2 * [np.arange(8) ** 1.5])), names, names
    )
    assert bootstrap(d, 1, resample=[d.iloc[::-1, ::-1]]).spread.max() < 1e-6


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"D": 1 - np.eye(5), "n_components": 3},
            "5 objects are too few to leave some out of 3",
        ),
        ({"n_boot": 0}, "n_boot"),
        ({"resample": "boot"}, "must be 'bootstrap' or 'jackknife'"),
        (
            {"resample": [np.zeros((3, 3))]},
            "a replicate has 3 objects, but D has 24",
        ),
    ],
)
def test_what_cannot_be_resampled_is_refused(plane, options, said):
    with pytest.raises(InputError, match=said):
        bootstrap(
            **({"D": plane, "n_components": 2, "method": "neuc"} | options)
        )


@pytest.fixture(scope="module")
def hyperbolic():
    """Distances in a hyperbolic plane, κ = −1."""
    x = np.random.default_rng(3).normal(size=(20, 2))
    time = np.sqrt(1 + np.sum(x**2, axis=1))
    inner = np.multiply.outer(time, time) - x @ x.T
    d = np.arccosh(np.maximum(inner, 1))
    np.fill_diagonal(d, 0)
    return d


def test_replicates_of_a_curved_embedding_have_its_curvature(hyperbolic):
    unit = squareform(hyperbolic).mean() ** 2
    whole = neuc_mds(
        hyperbolic,
        (2, 1),
        loss="distance",
        curvature=-unit,
        tol=1e-9,
        max_iter=5000,
    )
    assert whole.stress1 < 1e-4
    options = {"n_boot": 4, "tol": 1e-9, "max_iter": 5000}
    again = bootstrap(hyperbolic, embedding=whole, **options)
    # Replicates with another κ than −1 would be off by .5.
    assert again.spread.max() < 1e-3
    fitted = bootstrap(
        hyperbolic, (2, 1), loss="distance", curvature=-unit, **options
    )
    assert fitted.spread.max() < 1e-2


def test_an_embedding_brings_its_floor_and_its_names(plane):
    names = [f"o{i}" for i in range(len(plane))]
    d = pd.DataFrame(plane, names, names)
    whole = neuc_mds(d, 1, loss="relative", floor=2.0)
    expected = bootstrap(d, 1, 4, loss="relative", floor=2.0)
    np.testing.assert_allclose(
        bootstrap(d, 1, 4, embedding=whole).clouds, expected.clouds, atol=1e-6
    )
    order = np.random.default_rng(1).permutation(len(plane))
    shuffled = d.iloc[order, order]
    np.testing.assert_allclose(
        bootstrap(shuffled, 1, 4, embedding=whole).clouds,
        expected.clouds,
        atol=1e-6,
    )
    usual = bootstrap(d, 1, 4, loss="relative")
    assert np.abs(usual.clouds - expected.clouds).max() > 0.01


def test_a_stress_test_permutes_by_the_floor_of_an_embedding(plane):
    whole = neuc_mds(plane, 1, loss="relative", floor=2.0)
    expected = stress_test(plane, 1, 3, loss="relative", floor=2.0)
    found = stress_test(plane, 1, 3, embedding=whole)
    np.testing.assert_allclose(found.permuted, expected.permuted)
    usual = stress_test(plane, 1, 3, loss="relative")
    assert np.abs(usual.permuted - expected.permuted).max() > 1e-4


@pytest.mark.parametrize("resampling", [bootstrap, stress_test])
def test_an_embedding_of_other_objects_is_refused_in_one_line(
    plane, resampling
):
    whole = neuc_mds(plane, 2)
    with pytest.raises(InputError, match=r"has 20 objects, but .* has 24"):
        resampling(plane[:20, :20], 2, 3, embedding=whole)
    with pytest.raises(InputError, match=r"loss .*brings its own"):
        resampling(plane, 2, 3, embedding=whole, loss="relative")


@pytest.mark.parametrize("resampling", [bootstrap, stress_test])
@pytest.mark.parametrize(
    "options",
    [{"weights": np.ones((24, 24))}, {"missing": "ignore"}, {"landmarks": 10}],
)
def test_what_needs_no_resampling_of_all_pairs_is_refused(
    plane, resampling, options
):
    with pytest.raises(InputError, match=r"every pair known.*leave it out"):
        resampling(plane, 2, 3, **options)


def test_a_number_of_permutations_is_whole(plane):
    with pytest.raises(InputError, match=r"permutations=1.5 must be a whole"):
        stress_test(plane, 2, permutations=1.5)


def test_bootstrap_gives_advice_on_gaps_that_it_takes():
    x = np.random.default_rng(0).normal(size=(12, 3))
    gaps = np.abs(x[:, None] - x).sum(axis=2)
    gaps[0, 1] = gaps[1, 0] = np.nan
    with pytest.raises(InputError, match="bootstrap needs every pair") as told:
        bootstrap(gaps, 2, 3)
    assert "ignore" not in str(told.value)
