"""Tests on D: PERMANOVA, ANOSIM, Mantel and pairs of groups, beside vegan's numbers."""

from __future__ import annotations

import builtins
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import pdist, squareform

from neucmds.ecology import (
    anosim,
    dispersion,
    mantel,
    permanova,
    read_metadata,
)
from neucmds.errors import InputError, NeucmdsWarning

FIXTURES = Path(__file__).parents[1] / "fixtures"
VEGAN = json.loads((FIXTURES / "vegan_permanova.json").read_text())
COLUMNS = {
    "Df": "df",
    "SumOfSqs": "sums",
    "R2": "r2",
    "F": "f",
    "Pr(>F)": "p",
}


def metadata(name):
    """A table in the order of the objects."""
    table = read_metadata(FIXTURES / name).reset_index(drop=True)
    table.attrs = {}
    return table


@pytest.fixture(scope="module")
def dune():
    table = pd.read_csv(FIXTURES / "dune_braycurtis.csv", index_col=0)
    return table.to_numpy()


@pytest.fixture(scope="module")
def dune_env():
    return metadata("dune_env.csv")


@pytest.fixture(scope="module")
def mite():
    species = pd.read_csv(FIXTURES / "mite_species.csv", index_col=0)
    return squareform(pdist(species.to_numpy(float), "braycurtis"))


@pytest.fixture(scope="module")
def mite_env():
    return metadata("mite_env.csv")


class TestPermanova:
    @pytest.mark.parametrize("by", ["terms", "margin", None])
    @pytest.mark.parametrize(
        ("name", "formula"),
        [
            ("dune", "~ A1 + Management"),
            ("dune_strata", "d ~ A1 + Management"),
            ("dune_interaction", "A1 * Use"),
            ("mite", "~ log(SubsDens) + WatrCont + Topo + Shrub"),
        ],
    )
    def test_it_is_adonis2(self, request, name, formula, by):
        data = name.partition("_")[0]
        vegan = VEGAN[name]
        test = permanova(
            request.getfixturevalue(data),
            formula,
            request.getfixturevalue(f"{data}_env"),
            by=by,
            permutations=vegan["permutations"],
        )
        expected = vegan[by or "all"]
        for ours, theirs in COLUMNS.items():
            numbers = np.array(expected[theirs], dtype=float)
            np.testing.assert_allclose(
                test.table[ours], numbers, rtol=1e-8, err_msg=ours
            )
        permuted = np.reshape(expected["permuted"], test.permuted.shape)
        np.testing.assert_allclose(test.permuted, permuted, rtol=1e-8)
        assert test.table.index[-2:].tolist() == ["Residual", "Total"]

    def test_permutations_stay_within_strata(self, dune, dune_env):
        strata = [str(block) for block in VEGAN["strata"]]
        # A variable that is constant within strata has one F.
        table = dune_env.assign(block=strata)
        test = permanova(
            dune, "~ block", table, strata="block", random_state=0
        )
        np.testing.assert_allclose(test.permuted, test.table["F"].iloc[0])
        assert test.table["Pr(>F)"].iloc[0] == 1
        given = [
            permanova(
                dune, "~ A1", table, strata=groups, random_state=0
            ).permuted
            for groups in ("block", strata, pd.Series(strata))
        ]
        np.testing.assert_array_equal(given[0], given[1])
        np.testing.assert_array_equal(given[0], given[2])
        free = permanova(dune, "~ A1", table, random_state=0)
        assert not np.array_equal(free.permuted, given[0])

    def test_rows_go_by_name_and_the_answer_by_the_seed(self, dune, dune_env):
        names = [f"site {i}" for i in range(20)]
        d = pd.DataFrame(dune, names, names)
        table = dune_env.set_axis(names).sample(frac=1, random_state=0)
        shuffled = permanova(d, "~ A1", table, random_state=0)
        again = permanova(dune, "~ A1", dune_env, random_state=0)
        pd.testing.assert_frame_equal(shuffled.table, again.table)
        other = permanova(dune, "~ A1", dune_env, random_state=1)
        assert not np.array_equal(other.permuted, again.permuted)

    def test_objects_without_a_value_are_counted(self, dune, dune_env):
        holes = dune_env.assign(A1=dune_env["A1"].mask(dune_env.index < 3))
        with pytest.warns(NeucmdsWarning, match="3 of 20 objects lack a val"):
            test = permanova(dune, "~ A1 + Use", holes, permutations=0)
        alone = permanova(
            dune[3:, 3:],
            "~ A1 + Use",
            dune_env.iloc[3:].reset_index(drop=True),
            permutations=0,
        )
        pd.testing.assert_frame_equal(test.table, alone.table)
        assert test.n == 17
        assert test.table["Pr(>F)"].isna().all()

    def test_it_prints_a_table_as_vegan_s(self, dune, dune_env):
        test = permanova(dune, "~ A1 + Use", dune_env, random_state=0)
        heading, columns, first, *_ = str(test).splitlines()
        assert heading == (
            "PERMANOVA of 20 objects, terms in their order, 999 permutations"
        )
        assert columns.split() == ["Df", "SumOfSqs", "R2", "F", "Pr(>F)"]
        assert first.split()[:2] == ["A1", "1"]
        assert "nan" not in str(test).lower()

    def test_a_term_that_others_imply_is_named(self, dune, dune_env):
        table = dune_env.assign(twice=2 * dune_env["A1"] + 1)
        with pytest.warns(NeucmdsWarning, match="twice adds nothing"):
            test = permanova(dune, "~ A1 + twice", table, permutations=0)
        assert test.table.index[0] == "A1"
        assert test.table["Df"].tolist() == [1, 18, 19]

    @pytest.mark.filterwarnings("ignore:constant adds nothing")
    def test_what_cannot_be_tested_is_refused(self, dune, dune_env):
        for formula, reason in (
            ("~ A1 + (", "is not understood"),
            ("~ Depth", "no column 'Depth'; it has 'A1'"),
            ("~ 1", "has 0 terms"),
            ("~ constant", "has 0 terms"),
            ("~ log(A1 - A1)", "no finite number"),
        ):
            with (
                np.errstate(all="ignore"),
                pytest.raises(InputError, match=reason),
            ):
                permanova(dune, formula, dune_env.assign(constant=0.1))
        names = {"site": [f"s{i}" for i in range(20)]}
        with pytest.raises(InputError, match="leaves 0 of 19 degrees"):
            permanova(dune, "~ site", names)
        with pytest.raises(InputError, match="must be 'terms', 'margin' or"):
            permanova(dune, "~ A1", dune_env, by="onedf")

    def test_without_formulaic_its_extra_is_named(
        self, dune, dune_env, monkeypatch
    ):
        ordinary = builtins.__import__

        def without(name, *args, **kwargs):
            if name.startswith("formulaic"):
                raise ModuleNotFoundError(name=name)
            return ordinary(name, *args, **kwargs)

        monkeypatch.setattr(builtins, "__import__", without)
        with pytest.raises(InputError, match=r"pip install .neucmds\[formu"):
            permanova(dune, "~ A1", dune_env)


class TestGroups:
    def test_it_is_anosim(self, dune, dune_env):
        vegan = VEGAN["anosim"]
        orders = VEGAN["dune"]["permutations"]
        test = anosim(dune, dune_env["Management"], permutations=orders)
        assert test.statistic == pytest.approx(vegan["r"], rel=1e-10)
        np.testing.assert_allclose(test.permuted, vegan["permuted"])
        assert test.p == pytest.approx(vegan["p"])

    def test_pairs_of_groups_are_permutest_s(self, dune, dune_env):
        vegan = VEGAN["pairwise"]
        spread = dispersion(
            dune,
            dune_env["Management"],
            center="centroid",
            permutations=VEGAN["dune"]["permutations"],
        )
        pairs = spread.pairwise
        assert pairs.index.tolist() == vegan["pairs"]
        np.testing.assert_allclose(pairs["t"], vegan["t"], rtol=1e-8)
        np.testing.assert_allclose(pairs["p"], vegan["p"])
        np.testing.assert_allclose(pairs["p.holm"], vegan["holm"])
        np.testing.assert_allclose(spread.table["Sum Sq"], vegan["sums"])
        assert spread.table["F"].iloc[0] == pytest.approx(vegan["f"])
        assert spread.statistic == pytest.approx(vegan["f"])

    def test_a_test_prints_no_permutations(self, dune, dune_env):
        spread = dispersion(dune, dune_env["Management"], random_state=0)
        lines = str(spread).splitlines()
        assert len(lines) == 4
        assert lines[1].split()[-1] == "Pr(>F)"
        test = anosim(dune, dune_env["Management"], random_state=0)
        assert str(test).startswith("<PermutationTest: statistic 0.25")
        assert str(test).endswith("999 permutations>")

    @pytest.mark.parametrize("test_of", [dispersion, anosim])
    def test_objects_without_a_group_are_counted(
        self, mite, mite_env, test_of
    ):
        # pandas reads the class "None" as a missing value.
        wrong = pd.read_csv(FIXTURES / "mite_env.csv")["Shrub"]
        with pytest.warns(NeucmdsWarning, match="19 of 70 objects lack a gr"):
            test_of(mite, wrong, permutations=0)
        right = mite_env["Shrub"]
        assert sorted(set(right)) == ["Few", "Many", "None"]
        assert np.isfinite(test_of(mite, right, permutations=0).statistic)

    def test_permutations_stay_within_strata(self, dune, dune_env):
        groups = dune_env["Management"]
        test = anosim(dune, groups, strata=groups, random_state=0)
        np.testing.assert_allclose(test.permuted, test.statistic)
        assert test.p == 1
        # Residuals of each group have the mean zero wherever they go.
        spread = dispersion(dune, groups, strata=groups, random_state=0)
        np.testing.assert_allclose(spread.permuted, 0, atol=1e-12)


def test_warnings_point_to_the_caller(dune, dune_env):
    gaps = [None, *dune_env["Use"][1:]]
    from_file = read_metadata(FIXTURES / "dune_env.csv")
    for call in (
        lambda: permanova(dune, "~ g", {"g": gaps}, permutations=0),
        lambda: dispersion(dune, gaps, permutations=0),
        lambda: anosim(dune, gaps, permutations=0),
        lambda: mantel(dune, dune, strata=gaps, permutations=0),
        lambda: permanova(dune, "~ Use", from_file, permutations=0),
    ):
        with pytest.warns(NeucmdsWarning) as found:
            call()
        assert {warning.filename for warning in found} == {__file__}


class TestMantel:
    @pytest.mark.parametrize("method", ["pearson", "spearman"])
    def test_it_is_vegan_s(self, dune, dune_env, method):
        vegan = VEGAN[method]
        soil = dune_env["A1"].to_numpy()
        thickness = np.abs(soil[:, None] - soil)
        test = mantel(
            dune,
            thickness,
            method=method,
            permutations=VEGAN["dune"]["permutations"],
        )
        assert test.statistic == pytest.approx(vegan["r"], rel=1e-10)
        np.testing.assert_allclose(test.permuted, vegan["permuted"], rtol=1e-8)
        assert test.p == pytest.approx(vegan["p"])

    def test_objects_go_by_name_and_strata_hold(self, dune):
        names = [f"site {i}" for i in range(20)]
        d = pd.DataFrame(dune, names, names)
        turned = d.iloc[::-1, ::-1]
        each = [f"block {i}" for i in range(20)]
        test = mantel(d, turned, strata=each, permutations=9, random_state=0)
        assert test.statistic == pytest.approx(1)
        np.testing.assert_allclose(test.permuted, 1)

    def test_what_has_no_correlation_is_refused(self, dune):
        with pytest.raises(InputError, match="all dissimilarities are equal"):
            mantel(dune, 1 - np.eye(20))
        with pytest.raises(InputError, match="'pearson' or 'spearman'"):
            mantel(dune, dune, method="kendall")
        with pytest.raises(InputError, match="below 0, and has no root"):
            mantel(dune, np.eye(20) - 1, squared=True)


def test_a_formula_that_is_no_text_is_refused(dune, dune_env):
    with pytest.raises(InputError, match="formula=None must be a text"):
        permanova(dune, None, dune_env)
