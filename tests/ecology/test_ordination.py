from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import pdist, squareform

from neucmds import neuc_mds, procrustes
from neucmds.ecology import (
    dispersion,
    envfit,
    protest,
    read_metadata,
    species_scores,
)
from neucmds.errors import InputError, NeucmdsWarning

FIXTURES = Path(__file__).parents[1] / "fixtures"
VEGAN = json.loads((FIXTURES / "vegan_envfit.json").read_text())
TESTS = json.loads((FIXTURES / "vegan_tests.json").read_text())
DUNE = pd.read_csv(FIXTURES / "dune_braycurtis.csv", index_col=0).rename(
    index=str
)


@pytest.fixture(scope="module")
def dune_env():
    return read_metadata(
        FIXTURES / "dune_env.csv", categories=("Moisture", "Manure")
    )


@pytest.mark.filterwarnings(
    "ignore:rows of dune_env.csv were matched by their order"
)
class TestAgainstVegan:
    @pytest.mark.parametrize("axes", ["two_axes", "three_axes"])
    def test_vectors_and_factors_on_vegan_s_own_points(self, dune_env, axes):
        vegan = VEGAN[axes]
        points = np.array(vegan["points"])
        fit = envfit(
            points,
            dune_env,
            axes=range(1, points.shape[1] + 1),
            random_state=0,
        )
        assert [v.name for v in fit.vectors] == [vegan["vectors"]["names"]]
        assert [f.name for f in fit.factors] == vegan["factors"]["names"]
        np.testing.assert_allclose(
            fit["A1"].direction, vegan["vectors"]["arrows"][0], atol=1e-10
        )
        np.testing.assert_allclose(
            fit["A1"].r2, vegan["vectors"]["r2"], rtol=1e-10
        )
        np.testing.assert_allclose(
            [f.r2 for f in fit.factors], vegan["factors"]["r2"], rtol=1e-10
        )
        centroids = np.vstack([f.centroids for f in fit.factors])
        np.testing.assert_allclose(
            centroids, vegan["factors"]["centroids"], atol=1e-10
        )
        levels = [f.name + level for f in fit.factors for level in f.levels]
        assert levels == vegan["factors"]["levels"]


class TestFits:
    @pytest.fixture
    def points(self):
        return np.random.default_rng(0).normal(size=(60, 3))

    def test_a_variable_in_the_plane_is_found_exactly(self, points):
        variable = 3 * points[:, 0] - 4 * points[:, 1] + 7
        fit = envfit(points, {"v": variable}, permutations=99, random_state=0)
        np.testing.assert_allclose(fit["v"].direction, [0.6, -0.8], atol=1e-12)
        assert fit["v"].r2 == pytest.approx(1)
        assert fit["v"].p == 0.01
        assert (fit["v"].kind, fit["v"].n) == ("vector", 60)

    @pytest.mark.slow
    def test_noise_has_p_values_of_all_sizes(self, points):
        rng = np.random.default_rng(1)
        noise = {f"v{i}": rng.normal(size=60) for i in range(60)}
        noise |= {f"f{i}": rng.choice(list("abc"), size=60) for i in range(60)}
        p, again = (
            [
                f.p
                for f in envfit(
                    points, noise, permutations=199, random_state=0
                ).fits
            ]
            for _ in range(2)
        )
        assert p == again
        # Uniform: the mean of 120 has a standard deviation of 0.026.
        assert abs(np.mean(p) - 0.5) < 0.12
        assert min(p) < 0.1 < 0.9 < max(p)

    def test_gaps_leave_out_an_object_for_that_variable_only(self, points):
        variable = points @ [1.0, 2.0, 0.5]
        holes = np.where(np.arange(60) < 10, np.nan, variable)
        groups = ["a", "b"] * 30
        gaps = [None, *groups[1:]]
        with pytest.warns(NeucmdsWarning, match="of 60 objects, .*: 'v', 'g'"):
            fit = envfit(
                points, {"v": holes, "w": variable, "g": gaps}, permutations=0
            )
        alone = envfit(points[10:], {"v": variable[10:]}, permutations=0)
        assert fit["v"].r2 == pytest.approx(alone["v"].r2)
        assert (fit["v"].n, fit["w"].n, fit["g"].n) == (50, 60, 59)

    def test_constants_and_empty_columns_fit_nothing(self, points):
        table = {"c": [2.5] * 60, "one": ["a"] * 60, "none": [None] * 60}
        fit = envfit(points, table, permutations=9, random_state=0)
        assert [f.r2 for f in fit.fits] == pytest.approx(
            [0.0, 0.0, 0.0], abs=1e-15
        )
        assert np.isnan(fit["c"].p)
        assert fit["one"].p == 1.0
        assert fit["none"].levels == ()

    def test_bad_axes_coordinates_and_counts_are_refused(self, points):
        with pytest.raises(
            InputError, match="axis 4 does not exist; there are 1 to 3"
        ):
            envfit(points, {"v": points[:, 0]}, axes=(1, 4))
        with pytest.raises(InputError, match="60 rows for 10 objects"):
            envfit(points[:10], {"v": points[:, 0]})
        with pytest.raises(InputError, match="finite numbers"):
            envfit(points[:, 0], {"v": points[:, 0]})
        with pytest.raises(InputError, match="permutations=-1"):
            envfit(points, {"v": points[:, 0]}, permutations=-1)
        with pytest.raises(KeyError, match="'x'"):
            envfit(points, {"v": points[:, 0]}, permutations=0)["x"]


class TestDispersion:
    @pytest.fixture
    def d_of(self, request):
        def d_of(name):
            if name == "dune":
                return DUNE
            if name == "mite":
                mites = pd.read_csv(FIXTURES / "mite_species.csv", index_col=0)
                return squareform(pdist(mites.to_numpy(float), "braycurtis"))
            folder = request.getfixturevalue("data_home") / "dissimilarities"
            return np.load(folder / "moving_pictures_unifrac.npz")["D"]

        return d_of

    # R's optim ends the search for a spatial median early: 2e-5 from the least sum of distances.
    @pytest.mark.parametrize(
        ("center", "tol"), [("centroid", 1e-10), ("median", 3e-4)]
    )
    @pytest.mark.parametrize("name", ["dune", "mite", "moving_pictures"])
    @pytest.mark.filterwarnings("ignore:.* negative squared distances")
    def test_it_is_betadisper_and_permutest(self, d_of, name, center, tol):
        vegan = TESTS["dispersion"][name]
        orders, numbers = vegan["permutations"], vegan[center]
        found = dispersion(
            d_of(name), vegan["groups"], center=center, permutations=orders
        )
        np.testing.assert_allclose(found.statistic, numbers["f"], rtol=tol)
        for field in ("distances", "group_distances", "permuted"):
            np.testing.assert_allclose(
                getattr(found, field), numbers[field], rtol=tol
            )
        assert found.p == pytest.approx(numbers["p"])

    @pytest.mark.filterwarnings("ignore:1 of 20 objects lack a group")
    def test_groups_go_by_name_and_objects_without_one_are_left_out(self):
        env = pd.read_csv(FIXTURES / "dune_env.csv", index_col=0).rename(
            index=str
        )
        groups = env["Management"].where(env.index != "3")
        found = dispersion(
            DUNE, groups.sample(frac=1, random_state=0), random_state=0
        )
        rest = DUNE.drop(index="3", columns="3")
        alone = dispersion(
            rest.to_numpy(), list(groups.dropna()), random_state=0
        )
        assert (found.statistic, found.p) == (
            pytest.approx(alone.statistic),
            alone.p,
        )
        assert np.isnan(found.distances[2])

    def test_negative_squared_distances_are_zero_with_a_warning(self):
        d = np.array([[0, 1, 1, 5], [1, 0, 9, 5], [1, 9, 0, 5], [5, 5, 5, 0]])
        with pytest.warns(
            NeucmdsWarning, match="1 negative squared distances"
        ):
            found = dispersion(
                d, list("aaab"), center="centroid", permutations=0
            )
        assert found.distances[0] == 0
        assert np.isnan(found.p)

    def test_what_has_no_groups_is_refused(self):
        for groups in (["a"] * 20, list(map(str, range(20)))):
            with pytest.raises(InputError, match="no spread to compare"):
                dispersion(DUNE, groups)
        with pytest.raises(InputError, match="must be 'median' or 'centroid'"):
            dispersion(DUNE, ["a", "b"] * 10, center="mean")
        with pytest.raises(InputError, match="must hold the numbers 0 to 19"):
            dispersion(DUNE, ["a", "b"] * 10, permutations=[[0] * 20])
        copies = np.kron(1 - np.eye(3), np.ones((4, 4)))
        for d, groups in (
            (0 * copies, "aaaabbbbcccc"),
            (copies, "aaaabbbbcccc"),
        ):
            with pytest.raises(InputError, match="F does not exist"):
                dispersion(d, list(groups))

    @pytest.mark.filterwarnings("ignore:4 of 20 objects lack a group")
    def test_a_missing_value_of_pandas_is_no_group(self):
        groups = ["a"] * 8 + [None] * 4 + ["b"] * 8
        expected = dispersion(DUNE, groups, permutations=0).distances
        for held in (
            pd.Series(groups, dtype="string"),
            [pd.NA if g is None else g for g in groups],
        ):
            np.testing.assert_array_equal(
                dispersion(DUNE, held, permutations=0).distances, expected
            )


class TestProtest:
    def test_it_is_vegan_s_also_of_other_numbers_of_axes(self):
        vegan = TESTS["protest"]
        x, y = (np.array(vegan[part]) for part in "xy")
        found = protest(x, y, permutations=vegan["permutations"])
        np.testing.assert_allclose(
            found.statistic, vegan["correlation"], rtol=1e-10
        )
        np.testing.assert_allclose(
            1 - found.statistic**2, vegan["disparity"], rtol=1e-10
        )
        np.testing.assert_allclose(
            found.permuted, vegan["permuted"], rtol=1e-10
        )
        assert found.p == pytest.approx(vegan["p"])

    def test_coordinates_with_signs_are_compared_within_their_isometries(self):
        a, b = (
            neuc_mds(DUNE, signature, "neuc") for signature in ((2, 1), (3, 1))
        )
        found = protest(a, b, permutations=19, random_state=0)
        left = procrustes(a, b).disparity
        assert 1 - found.statistic**2 == pytest.approx(left, abs=1e-9)
        assert found.p == 0.05
        assert found.permuted.max() < found.statistic


def test_species_scores_are_wascores():
    vegan, plants = (
        TESTS["wascores"],
        pd.read_csv(FIXTURES / "dune_species.csv", index_col=0),
    )
    points = np.array(vegan["points"])
    found = species_scores(points, plants.reset_index(drop=True))
    assert list(found.index) == vegan["species"]
    np.testing.assert_allclose(found, vegan["scores"], rtol=1e-10)
    named = neuc_mds(DUNE, 2)
    shuffled = plants.rename(index=str).sample(frac=1, random_state=0)
    expected = species_scores(named.coordinates, plants.reset_index(drop=True))
    np.testing.assert_allclose(species_scores(named, shuffled), expected)
    for bad in (-1, np.nan, np.inf):
        with pytest.raises(
            InputError, match=f"{len(points)} abundances are negative, missing"
        ):
            species_scores(points, {"moss": [bad] * len(points)})
    first = species_scores(named, shuffled, axes=np.array([1]))
    np.testing.assert_allclose(first, expected.iloc[:, :1])
