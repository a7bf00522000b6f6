"""Table tab:image-other-metric: 10-NN graphs, noise, missing pixels."""

from __future__ import annotations

from dataclasses import replace

from reproduction.bench import Bench
from reproduction.cells import (
    ADDITIVE_ERROR,
    NORM,
    measure_cells,
    negative_cells,
    printed_table,
)
from reproduction.published import IMAGE_OTHER_METRIC
from reproduction.records import Cell, Record


def run(bench: Bench) -> Record:
    """Measure and count on the image sets under other perturbations."""
    return printed_table(
        bench,
        IMAGE_OTHER_METRIC,
        "‖D̂ − D‖_F on images with other perturbations",
        _row,
        notes=(
            "Negative pairs are counted as in tab:evaluation-2-all.",
            "Columns marked (missing): the paper's “we skip 50 images for each” does not say which "
            "entries were removed. Removing 50 entries per image comes closest to its CIFAR-10 "
            "numbers, and removing 5 % of all entries to the other two; we found no single rule "
            "for all three. (k=10) is the 10-NN graph, in 100 coordinates like all columns; its "
            "numbers for lower, neuc and neuc+ on MNIST are scaled additive errors (E15).",
        ),
    )


def _row(bench: Bench, name: str) -> list[Cell]:
    norms = measure_cells(bench, name, IMAGE_OTHER_METRIC, NORM)
    return [
        *(_as_printed(bench, cell) for cell in norms),
        *negative_cells(bench, name, IMAGE_OTHER_METRIC),
    ]


def _as_printed(bench: Bench, cell: Cell) -> Cell:
    """Compare what print has: for three entries that is another measure (errata E15)."""
    if cell.row.endswith("(missing)") and cell.printed is not None:
        return replace(
            cell, note="the paper does not say which entries were removed"
        )
    if cell.printed is None or "E15" not in cell.printed.errata:
        return cell
    method = cell.column.partition(": ")[2]
    error = ADDITIVE_ERROR.of(bench.quality(cell.row, method))
    note = f"the norm itself is {cell.ours:.5g}"
    return Cell(
        cell.row, cell.column, error, cell.printed, cell.tolerance, note=note
    )
