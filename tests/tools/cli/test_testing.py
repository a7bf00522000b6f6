"""``neucmds test`` prints what the functions of `neucmds.ecology` return."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest

from neucmds.ecology import anosim, dispersion, mantel, permanova

FIXTURES = Path(__file__).parents[2] / "fixtures"
FORMULA = "~ A1 + Management"


@pytest.fixture
def files(here):
    """Dune meadows with names, a class of texts that pandas would not read, and two gaps."""
    d = pd.read_csv(FIXTURES / "dune_braycurtis.csv", index_col=0)
    names = [f"s{i}" for i in range(20)]
    d.set_axis(names).set_axis(names, axis=1).to_csv("d.csv")
    env = pd.read_csv(FIXTURES / "dune_env.csv", index_col=0).set_axis(names)
    env["Management"] = env["Management"].replace("NM", "None")
    env["Use"] = env["Use"].mask(env.index.isin(["s3", "s5"]))
    env.sample(frac=1, random_state=0).to_csv("env.csv")
    return d.to_numpy(), env


def test_its_tables_are_those_of_the_library(run, files):
    d, env = files
    given = ("--formula", FORMULA, "--by", "margin", "--permutations", 99)
    document = run("test", "d.csv", "--metadata", "env.csv", *given, "--json")
    settings = {"permutations": 99, "random_state": 0}
    table = env.reset_index(drop=True)
    expected = permanova(d, FORMULA, table, by="margin", **settings).table
    rows = pd.DataFrame(document.document["permanova"]).set_index("name")
    pd.testing.assert_frame_equal(
        rows.astype(float), expected.astype(float), check_names=False
    )
    groups = table["Management"]
    soil = table["A1"].to_numpy()
    tests = [
        mantel(d, abs(soil[:, None] - soil), **settings),
        anosim(d, groups, **settings),
        dispersion(d, groups, **settings),
    ]
    shown = document.document["tests"]
    assert [row["test"] for row in shown] == [
        "Mantel r",
        "ANOSIM R",
        "PERMDISP F",
    ]
    for row, test in zip(shown, tests, strict=True):
        assert row["statistic"] == pytest.approx(test.statistic)
        assert row["p"] == test.p
    pairs = [row["name"] for row in document.document["pairs"]]
    assert pairs[1] == "Management: BF-None"


def test_it_prints_tables_and_counts_objects_without_a_value(run, files):
    given = ("--formula", FORMULA, "--strata", "Use", "--permutations", 9)
    outcome = run("test", "d.csv", "--metadata", "env.csv", *given)
    assert outcome.code == 0
    assert "PERMANOVA of 18 objects, terms in their order" in outcome.out
    for word in ("SumOfSqs", "Pr(>F)", "Mantel r", "ANOSIM R", "p.holm"):
        assert word in outcome.out
    assert (
        "2 of 20 objects lack a value of A1 or Management or Use"
        in outcome.err
    )


def test_progress_says_what_is_being_done(run, files, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    given = ("--formula", FORMULA, "--permutations", 9)
    said = run("test", "d.csv", "--metadata", "env.csv", *given).err
    reading = said.index("reading d.csv")
    assert reading < said.index("testing by permutations")


def test_objects_without_a_row_are_left_out_by_a_blank_one(run, files):
    _, env = files
    given = ("--formula", FORMULA, "--permutations", 9)
    env.drop(index="s1").to_csv("short.csv")
    refused = run("test", "d.csv", "--metadata", "short.csv", *given)
    assert "('s1'); correct the names, or add rows for these" in refused.err
    blank = env.astype(object)
    blank.loc["s1"] = None
    blank.to_csv("blank.csv")
    outcome = run("test", "d.csv", "--metadata", "blank.csv", *given)
    assert outcome.code == 0
    assert "PERMANOVA of 19 objects" in outcome.out


def test_species_are_tested_by_their_metric(run, files):
    shutil.copy(FIXTURES / "mite_species.csv", "mite.csv")
    shutil.copy(FIXTURES / "mite_env.csv", "sites.csv")
    given = ("--formula", "Shrub", "--permutations", 9)
    outcome = run(
        "test",
        "mite.csv",
        "--metric",
        "braycurtis",
        "--metadata",
        "sites.csv",
        *given,
    )
    assert outcome.code == 0
    # The class "None" is a class.
    assert "of 70 objects" in outcome.out
    assert "Few-None" in outcome.out


def test_what_it_cannot_test_is_one_line(run, files):
    table = ("--metadata", "env.csv")
    outcome = run("test", "d.csv", *table, "--formula", "~ Depth")
    assert outcome.code == 2
    assert "env.csv has no column 'Depth'" in outcome.err
    outcome = run("test", "d.csv", *table, "--formula", "~ A1 +")
    assert outcome.code == 2
    assert "--formula ~A1+ is not understood" in outcome.err
    assert len(outcome.err.splitlines()) == 1
    each = pd.DataFrame({"name": [f"s{i}" for i in range(20)]})
    each["twin"] = [f"t{i // 2}" for i in range(20)]
    each.to_csv("twins.csv", index=False)
    twins = ("--metadata", "twins.csv", "--formula", "twin")
    outcome = run("test", "d.csv", *twins, "--permutations", 9)
    assert outcome.code == 0
    assert "twin: in each of 10 groups" in outcome.err
    assert "ANOSIM R" in outcome.out
