"""Table tab:evaluation-1-all: the norm and the distortion, original values."""

from __future__ import annotations

from reproduction import published
from reproduction.bench import Bench
from reproduction.cells import NORM, distortion_cells, measure_cells, not_run
from reproduction.records import Record
from reproduction.sources import PAPER_SETS


def run(bench: Bench) -> Record:
    """Measure ‖D̂ − D‖_F and the distortion of every method on every data set."""
    found, skipped = bench.split(PAPER_SETS)
    cells = []
    for name in found:
        cells += measure_cells(bench, name, published.EVALUATION_1, NORM)
        cells += distortion_cells(bench, name, published.EVALUATION_1, prefix="distortion")
    return Record(
        "table:evaluation-1-all",
        ("tab:evaluation-1-all",),
        "‖D̂ − D‖_F and average geometric distortion",
        {"seed": bench.settings.seed, "n": bench.settings.n, "n_seeds": bench.n_seeds},
        cells=(*cells, *not_run(published.EVALUATION_1, skipped)),
        skipped=tuple(skipped),
        notes=("What print calls STRESS here is the norm (E9).",),
    )
