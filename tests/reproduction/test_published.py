"""The published numbers agree with one another, and with ours where records say so."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from reproduction import published
from reproduction.document import RECORD, reproduction
from reproduction.published import (
    EVALUATION_1,
    EVALUATION_2,
    STRESS_ALL,
    TABLES,
)
from reproduction.random_matrices import (
    classical_cut,
    classical_error,
    classical_error_small,
    errors_of_spectrum,
    neuc_cut,
    neuc_error,
    neuc_error_large,
    neuc_error_small,
    random_spectrum,
)
from reproduction.records import Cell, Printed, Record

ROOT = Path(__file__).resolve().parents[2]
METHODS = ("classical", "lower", "neuc", "neuc+")


def test_every_row_has_a_number_for_every_column_and_errata_that_are_written_down():
    page = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")
    written = re.findall(r"^\| (E\d+) \|", page, re.MULTILINE)
    assert written == [f"E{i}" for i in range(1, len(written) + 1)]
    for table in TABLES:
        for row, texts in table.rows.items():
            assert len(texts) == len(table.columns), (table.label, row)
            found = (table.get(row, column) for column in table.columns)
            assert {
                name for one in found if one for name in one.errata
            } <= set(written)


@pytest.mark.parametrize("row", STRESS_ALL.rows)
@pytest.mark.parametrize("method", METHODS)
def test_the_tables_agree_with_one_another(row, method):
    """Fails if a unit (E7, E9) or a correction (E8, E10) is wrong."""
    stress = STRESS_ALL.get(row, method)
    norm = EVALUATION_1.get(row, f"norm: {method}")
    low, high = (
        max(norm.value + s * norm.half_digit, 0.0) ** 2 for s in (-1, 1)
    )
    # Colorectal, Neuc⁺: 0.026 against 0.016² = 0.0256, one digit in all
    assert low - stress.half_digit <= stress.value <= high + stress.half_digit
    # The best scale is at least as good as scale 1.
    error = EVALUATION_2.get(row, f"additive error: {method}")
    assert (
        0.1 * norm.value
        < error.value
        <= norm.value + norm.half_digit + error.half_digit
    )


@pytest.mark.parametrize(
    "table", [published.RANDOM_MATRIX_1, published.RANDOM_MATRIX_2]
)
def test_the_formulas_give_every_printed_coefficient(table):
    for row in table.rows:
        c = float(row)
        constant = classical_error(c, n=0)
        formulas = {
            "e_C constant": constant,
            "e_C per n": classical_error(c, n=1) - constant,
            "e_N": neuc_error(c),
        }
        for column in table.columns:
            printed = table.get(row, column)
            assert (
                abs(formulas[column] - printed.value) <= printed.half_digit
            ), (row, column)


def test_the_errors_have_the_limits_that_are_stated():
    n, k = 10**8, 100
    assert 1 - neuc_error(k / n) == pytest.approx(
        1 - neuc_error_small(k, n), rel=1e-3
    )
    assert classical_error(k / n, n) == pytest.approx(
        classical_error_small(k, n), rel=1e-3
    )
    for dropped in (1e-1, 1e-2):
        ratio = neuc_error(1 - dropped) / neuc_error_large(1 - dropped)
        assert ratio == pytest.approx(1, abs=dropped**2)


@pytest.mark.slow
def test_cuts_keep_the_share_asked_for():
    x = np.linspace(-2, 2, 400_001)
    density = np.sqrt(np.maximum(4 - x**2, 0)) / (2 * np.pi) * (x[1] - x[0])
    for c in (0.01, 0.2, 0.49):
        assert density[x > 2 - classical_cut(c)].sum() == pytest.approx(
            c, abs=1e-4
        )
    for c in (0.01, 0.5, 0.99):
        assert density[np.abs(x) > 2 - neuc_cut(c)].sum() == pytest.approx(
            c, abs=1e-4
        )


def test_simulation_meets_theory_within_two_percent():
    lam = random_spectrum(2000, random_state=0)
    for c in (0.05, 0.3, 0.7):
        measured = errors_of_spectrum(lam, round(c * 2000))
        assert measured.classical == pytest.approx(
            classical_error(c, 2000), rel=0.02
        )
        assert measured.neuc == pytest.approx(neuc_error(c), rel=0.02)


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
        (cell(2.3548e6, "2.35e5"), "same digits"),
        (cell(2.3552e6, "2.35e5"), "differs"),
        (
            Cell(
                "",
                "",
                1.12e11,
                Printed("1.196", 1e11, ("E8",), corrected=1.120),
            ),
            "same digits",
        ),
    ],
)
def test_a_verdict_needs_digits_tolerance_or_range(made, verdict):
    assert made.verdict == verdict


def test_the_page_is_that_of_the_record():
    if not (ROOT / RECORD).exists():
        pytest.skip("benchmarks are not part of this installation")
    content = json.loads((ROOT / RECORD).read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    assert page == reproduction([Record.from_dict(one) for one in content])
