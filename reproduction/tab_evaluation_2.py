"""Table tab:evaluation-2-all: scaled additive error, negative pairs, negative eigenvalues kept."""

from __future__ import annotations

from reproduction.bench import Bench
from reproduction.cells import ADDITIVE_ERROR, measure_cells, negative_cells, printed_table
from reproduction.published import EVALUATION_2
from reproduction.records import Cell, Record

COUNTING_NOTE = (
    "Negative pairs are unordered (i < j). “neuc” and “neuc+” count as print does: every D̂ < 0, "
    "the rounding of twins' zeros included (E14), and for Neuc-MDS⁺ only pairs that are not "
    "negative under Neuc-MDS as well (E13). Counted alike, Neuc-MDS⁺ has about as many as Neuc-MDS."
)


def run(bench: Bench) -> Record:
    """Measure and count on every data set."""
    return printed_table(
        bench,
        EVALUATION_2,
        "Scaled additive error, negative dissimilarities, negative eigenvalues kept",
        _row,
        notes=(COUNTING_NOTE,),
    )


def _row(bench: Bench, name: str) -> list[Cell]:
    errors = measure_cells(bench, name, EVALUATION_2, ADDITIVE_ERROR)
    return errors + negative_cells(bench, name, EVALUATION_2)
