"""Table tab:distortion-all: average geometric distortion."""

from __future__ import annotations

from reproduction import published
from reproduction.bench import Bench
from reproduction.cells import distortion_cells, not_run
from reproduction.records import Record
from reproduction.sources import PAPER_SETS


def run(bench: Bench) -> Record:
    """Measure the distortion of every method on every data set."""
    found, skipped = bench.split(PAPER_SETS)
    cells = [
        cell
        for name in found
        for cell in distortion_cells(bench, name, published.DISTORTION_ALL, prefix="")
    ]
    return Record(
        "table:distortion-all",
        ("tab:distortion-all",),
        "Average geometric distortion of √D against √D̂",
        {"seed": bench.settings.seed, "n": bench.settings.n, "n_seeds": bench.n_seeds},
        cells=(*cells, *not_run(published.DISTORTION_ALL, skipped)),
        skipped=tuple(skipped),
        notes=(
            "Image rows stand twice: as published, where pairs of twins enter with the rounding of "
            "their zero (E14), and with twins left out, which is what does not depend on the "
            "machine.",
        ),
    )
