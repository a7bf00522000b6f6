"""The published values agree with one another once units and errata are applied."""

from __future__ import annotations

import numpy as np
import pytest

from neucmds.errors import InputError
from neucmds.theory import classical_error, neuc_error
from reproduction.published import (
    EVALUATION_1,
    EVALUATION_2,
    RANDOM_MATRIX_1,
    RANDOM_MATRIX_2,
    STRESS_ALL,
    TABLES,
)
from reproduction.random_matrices import (
    classical_error_small,
    errors_of_spectrum,
    neuc_error_large,
    neuc_error_small,
    random_spectrum,
)

METHODS = ("classical", "lower", "neuc", "neuc+")


def test_every_row_has_a_number_for_every_column():
    for table in TABLES:
        for row, texts in table.rows.items():
            assert len(texts) == len(table.columns), (table.label, row)


@pytest.mark.parametrize("row", list(STRESS_ALL.rows))
@pytest.mark.parametrize("method", METHODS)
def test_stress_is_the_square_of_the_norm_printed_elsewhere(row, method):
    """Fails if a unit (E7, E9) or a correction (E8) is wrong."""
    stress = STRESS_ALL.get(row, method)
    norm = EVALUATION_1.get(row, f"norm: {method}")
    low, high = (max(norm.value + s * norm.half_digit, 0.0) ** 2 for s in (-1, 1))
    # Colorectal, Neuc⁺: 0.026 against 0.016² = 0.0256, one digit in all
    assert low - stress.half_digit <= stress.value <= high + stress.half_digit


@pytest.mark.parametrize("row", list(EVALUATION_2.rows))
@pytest.mark.parametrize("method", METHODS)
def test_scaling_never_makes_the_additive_error_larger(row, method):
    """Fails if a unit or E10 is wrong: the best scale is at least as good as scale 1."""
    error = EVALUATION_2.get(row, f"additive error: {method}")
    norm = EVALUATION_1.get(row, f"norm: {method}")
    assert 0.1 * norm.value < error.value <= norm.value + norm.half_digit + error.half_digit


@pytest.mark.parametrize("table", [RANDOM_MATRIX_1, RANDOM_MATRIX_2])
def test_the_formulas_give_every_printed_coefficient(table):
    for row in table.rows:
        c = float(row)
        formulas = {
            "e_C constant": classical_error(c).constant,
            "e_C per n": classical_error(c).linear,
            "e_N": neuc_error(c),
        }
        for column in table.columns:
            printed = table.get(row, column)
            assert abs(formulas[column] - printed.value) <= printed.half_digit, (row, column)


def test_the_random_matrix_tables_hold_37_coefficients():
    assert sum(len(t.rows) * len(t.columns) for t in (RANDOM_MATRIX_1, RANDOM_MATRIX_2)) == 37


def test_small_k_asymptotics_meet_the_exact_errors():
    n, k = 10**8, 100
    exact = neuc_error(k / n)
    assert 1 - exact == pytest.approx(1 - neuc_error_small(k, n), rel=1e-3)
    exact = classical_error(k / n).at(n)
    assert exact == pytest.approx(classical_error_small(k, n), rel=1e-3)


def test_error_near_full_rank_vanishes_with_the_cube():
    for dropped in (1e-1, 1e-2):
        ratio = neuc_error(1 - dropped) / neuc_error_large(1 - dropped)
        assert ratio == pytest.approx(1, abs=dropped**2)


@pytest.mark.slow
@pytest.mark.parametrize("c", [0.05, 0.3, 0.7])
def test_simulation_meets_theory_within_two_percent(c):
    n = 2000
    measured = errors_of_spectrum(random_spectrum(n, random_state=0), round(c * n))
    assert measured.classical == pytest.approx(classical_error(c).at(n), rel=0.02)
    assert measured.neuc == pytest.approx(neuc_error(c), rel=0.02)
    with pytest.raises(InputError, match="k is 11"):
        errors_of_spectrum(np.zeros(10), 11)
