"""Every label of a table or figure in the paper has an experiment."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from neucmds.errors import InputError
from reproduction.errata import ERRATA
from reproduction.published import TABLES
from reproduction.registry import EXPERIMENTS, select

LABELS = (
    "fig:eigen-dist-renal",
    "tab:dataset",
    "tab:stress-all",
    "tab:distortion-all",
    "fig:dim-paradox",
    "tab:randommatrixerrors1",
    "tab:randommatrixerrors2",
    "tab:evaluation-2-all",
    "tab:evaluation-1-all",
    "tab:image-other-metric",
    "fig:dim-para-all",
)


def test_every_label_of_the_paper_is_regenerated():
    for label in LABELS:
        (experiment,) = select([label])
        kind, _, rest = label.partition(":")
        assert experiment.name == f"{'table' if kind == 'tab' else 'figure'}:{rest}"


def test_every_published_table_belongs_to_an_experiment():
    labels = {experiment.label for experiment in EXPERIMENTS.values()}
    assert {table.label for table in TABLES} <= labels


def test_no_name_means_all_and_a_name_given_twice_runs_once():
    assert [e.name for e in select([])] == list(EXPERIMENTS)
    assert len(select(["table:dataset", "tab:dataset"])) == 1


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(InputError, match=r"no table:nothing; choose from .*table:stress-all"):
        select(["table:dataset", "table:nothing"])


def test_every_erratum_that_a_number_cites_is_written_down():
    cited = {
        erratum
        for table in TABLES
        for row in table.rows
        for column in table.columns
        if (printed := table.get(row, column)) is not None
        for erratum in printed.errata
    }
    assert cited
    assert cited <= set(ERRATA)


def test_the_errata_are_those_of_the_documentation():
    page = Path(__file__).resolve().parents[2] / "docs" / "errata.md"
    assert re.findall(r"^\| (E\d+) \|", page.read_text(encoding="utf-8"), re.M) == list(ERRATA)
