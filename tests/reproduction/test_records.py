"""What counts as the published number, and what does not; how records are written."""

from __future__ import annotations

import json

import pytest

from reproduction.document import reproduction
from reproduction.records import Cell, Printed, Record, Skipped
from reproduction.writing import CSV_HEADER, csv_rows, markdown, stem


def cell(ours, text="2.50", unit=10.0, **settings):
    return Cell("set", "method", ours, Printed(text, unit), **settings)


@pytest.mark.parametrize(
    ("made", "verdict"),
    [
        (cell(25.04), "same digits"),
        (cell(25.06), "differs"),
        (cell(25.06, tolerance=0.01), "within 1 %"),
        (cell(26.0, tolerance=0.01), "differs"),
        (cell(26.0, low=24.0, high=26.0), "in range"),
        (cell(26.0, low=25.5, high=26.0), "differs"),
        (cell(None), "not run"),
        (Cell("set", "method", 1.0), ""),
        (cell(0, "0", 1.0), "same digits"),
        (cell(1, "0", 1.0, tolerance=0.5), "differs"),
    ],
)
def test_a_verdict_needs_digits_tolerance_or_range(made, verdict):
    assert made.verdict == verdict


def test_a_printed_number_is_scaled_and_corrected():
    assert Printed("1.196", 1e11, ("E8",), corrected=1.120).value == pytest.approx(1.12e11)
    assert Printed("2.35e5", 10.0).half_digit == pytest.approx(0.5 * 10 * 1e3)
    assert Printed("15.962", 10.0).half_digit == pytest.approx(0.005)


@pytest.fixture
def record():
    return Record(
        "table:some",
        ("tab:some",),
        "Something",
        {"seed": 3},
        cells=(
            cell(25.04),
            Cell("set", "other", 9.0, Printed("8", 1.0, ("E7",)), note="because of a reason"),
            Cell("gone", "method", None, Printed("1.5"), note="gone not found"),
            Cell("set", "ours", 7),
        ),
        skipped=(Skipped("gone", "gone not found"),),
    )


def test_the_score_counts_every_published_number_once(record):
    assert record.score == (1, 1, 1)


def test_markdown_holds_every_published_number_and_the_reason(record):
    text = markdown(record)
    for part in ("2.50", "+0.16 %", "+12.50 %", "E7; because of a reason", "not run", "- gone"):
        assert part in text
    assert stem(record.name) == "table-some"


def test_csv_has_a_line_for_each_cell(record):
    rows = csv_rows(record)
    assert len(rows) == len(record.cells)
    assert {len(row) for row in rows} == {len(CSV_HEADER)}
    assert rows[2][CSV_HEADER.index("ours")] == ""


def test_a_record_survives_json(record):
    content = json.loads(json.dumps(record.as_dict()))
    assert content["cells"][1]["verdict"] == "differs"
    assert content["cells"][0]["published"] == 25.0
    assert content["parameters"] == {"seed": 3}
    assert "numpy" in content["versions"]


def test_the_document_counts_names_differences_and_errata(record):
    text = reproduction([record])
    assert "| table:some | 3 | 1 | 0 | 0 | 1 | 1 |" in text
    assert "- table:some, set, other: +12.50 %; because of a reason" in text
    assert "- gone not found" in text
    assert "**E16**" in text
