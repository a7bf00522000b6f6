"""Table tab:evaluation-2-all: scaled additive error, negative pairs, negative eigenvalues kept."""

from __future__ import annotations

from reproduction.bench import Bench
from reproduction.cells import (
    ADDITIVE_ERROR,
    measure_cells,
    negative_cells,
    printed_table,
)
from reproduction.published import EVALUATION_2
from reproduction.records import Cell, Record


def run(bench: Bench) -> Record:
    """Measure and count on every data set."""
    return printed_table(
        bench,
        EVALUATION_2,
        "Scaled additive error, negative dissimilarities, negative eigenvalues kept",
        _row,
        notes=(
            "Negative pairs are counted as in the paper: pairs i < j with D̂ < 0, including zeros "
            "of twins that rounding made negative (E14), and for neuc+ only pairs that neuc leaves "
            "positive (E13).",
        ),
    )


def _row(bench: Bench, name: str) -> list[Cell]:
    errors = measure_cells(bench, name, EVALUATION_2, ADDITIVE_ERROR)
    return errors + negative_cells(bench, name, EVALUATION_2)
