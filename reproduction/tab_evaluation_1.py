"""Table tab:evaluation-1-all: the norm and the distortion, original values."""

from __future__ import annotations

from reproduction.bench import Bench
from reproduction.cells import (
    NORM,
    distortion_cells,
    measure_cells,
    printed_table,
)
from reproduction.published import EVALUATION_1
from reproduction.records import Cell, Record


def run(bench: Bench) -> Record:
    """Measure ‖D̂ − D‖_F and the distortion of every method on every data set."""
    return printed_table(
        bench,
        EVALUATION_1,
        "‖D̂ − D‖_F and average geometric distortion",
        _row,
        notes=(
            "The paper calls this norm STRESS (E9). For twins D̂ is a rounding error instead of "
            "zero, and the paper's distortion includes these pairs (E14).",
        ),
    )


def _row(bench: Bench, name: str) -> list[Cell]:
    distortions = distortion_cells(
        bench, name, EVALUATION_1, prefix="distortion"
    )
    return measure_cells(bench, name, EVALUATION_1, NORM) + distortions
