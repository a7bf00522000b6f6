"""Table tab:evaluation-2-all: scaled additive error, negative pairs, negative eigenvalues kept."""

from __future__ import annotations

from reproduction import published
from reproduction.bench import Bench
from reproduction.cells import (
    ADDITIVE_ERROR,
    NEGATIVE_EIGENVALUES,
    measure_cells,
    negative_pair_cells,
    not_run,
)
from reproduction.records import Record
from reproduction.sources import PAPER_SETS

COUNTING_NOTE = (
    "Negative pairs are unordered (i < j). “neuc” and “neuc+” count as print does: every D̂ < 0, "
    "the rounding of twins' zeros included (E14), and for Neuc-MDS⁺ only pairs that are not "
    "negative under Neuc-MDS as well (E13). Counted alike, Neuc-MDS⁺ has about as many as Neuc-MDS."
)


def run(bench: Bench) -> Record:
    """Measure and count on every data set."""
    found, skipped = bench.split(PAPER_SETS)
    table = published.EVALUATION_2
    cells = []
    for name in found:
        cells += measure_cells(bench, name, table, ADDITIVE_ERROR)
        cells += negative_pair_cells(bench, name, table)
        cells += measure_cells(
            bench, name, table, NEGATIVE_EIGENVALUES, ("neuc", "neuc+", "exact", "refined")
        )
    return Record(
        "table:evaluation-2-all",
        ("tab:evaluation-2-all",),
        "Scaled additive error, negative dissimilarities, negative eigenvalues kept",
        {"seed": bench.settings.seed, "n": bench.settings.n, "n_seeds": bench.n_seeds},
        cells=(*cells, *not_run(table, skipped)),
        skipped=tuple(skipped),
        notes=(COUNTING_NOTE,),
    )
