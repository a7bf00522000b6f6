"""Table tab:distortion-all: average geometric distortion."""

from __future__ import annotations

from reproduction.bench import Bench
from reproduction.cells import distortion_cells, printed_table
from reproduction.published import DISTORTION_ALL
from reproduction.records import Record


def run(bench: Bench) -> Record:
    """Measure the distortion of every method on every data set."""
    return printed_table(
        bench,
        DISTORTION_ALL,
        "Average geometric distortion of √D against √D̂",
        lambda bench, name: distortion_cells(
            bench, name, DISTORTION_ALL, prefix=""
        ),
        notes=(
            "On images, pairs of twins enter with the rounding error of a zero (E14). Values "
            "without twins do not depend on the machine.",
        ),
    )
