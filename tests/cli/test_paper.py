"""``neucmds paper``: names, files, refusals."""

from __future__ import annotations

import json

import pytest

NAME = "figure:eigen-dist-renal"


@pytest.fixture
def run_bare(run, here, monkeypatch):
    """Run without any data at hand."""
    monkeypatch.setenv("NEUCMDS_DATA", str(here / "nothing"))
    return run


def test_the_list_holds_every_name_and_runs_nothing(run_bare, here):
    outcome = run_bare("paper", "--list")
    assert outcome.code == 0
    for name in ("table:stress-all", "tab:evaluation-2-all", "figure:dim-para-all"):
        assert name in outcome.out
    assert not (here / "paper-neucmds").exists()
    names = [e["name"] for e in run_bare("paper", "--list", "--json").document["experiments"]]
    assert names[0] == "table:dataset"


def test_files_are_written_and_not_overwritten_unasked(run_bare, here):
    outcome = run_bare("paper", NAME, "--no-download", "-o", "out")
    assert outcome.code == 0, outcome.err
    assert "Renal not run" in outcome.out
    files = {path.name for path in (here / "out").iterdir()}
    stem = "figure-eigen-dist-renal"
    assert files == {f"{stem}.json", f"{stem}.md", f"{stem}.csv", "reproduction.md"}
    record = json.loads((here / "out" / f"{stem}.json").read_text())
    assert record["skipped"][0]["row"] == "Renal"
    again = run_bare("paper", NAME, "--no-download", "-o", "out")
    assert again.code == 2
    assert "--force" in again.err
    assert run_bare("paper", NAME, "--no-download", "-o", "out", "--force").code == 0


def test_json_is_one_document(run_bare):
    document = run_bare("paper", NAME, "--no-download", "--json", "-o", "out").document
    assert [record["name"] for record in document["records"]] == [NAME]


def test_an_unknown_name_is_bad_input(run_bare):
    outcome = run_bare("paper", "table:nothing")
    assert outcome.code == 2
    assert "table:nothing" in outcome.err
    assert outcome.out == ""
