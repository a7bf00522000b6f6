"""Figure fig:eigen-dist-renal: the eigenvalues of B, positive and negative."""

from __future__ import annotations

import numpy as np

from reproduction.bench import Bench
from reproduction.records import Cell, Panel, Record, Series
from reproduction.sources import STAND_INS


def run(bench: Bench) -> Record:
    """Renal, and the expression sets that can be had in its place."""
    found, skipped = bench.split(("Renal", *STAND_INS))
    shares = [cell for name in found for cell in _shares(bench, name)]
    return Record(
        "figure:eigen-dist-renal",
        ("fig:eigen-dist-renal",),
        "Eigenvalues of B in order",
        {"seed": bench.settings.seed},
        cells=tuple(shares),
        panels=tuple(_panel(bench, name) for name in found),
        skipped=tuple(skipped),
        notes=(
            "Renal, which the paper shows, was not run; five public expression sets stand in for "
            "it.",
        ),
    )


def _values(
    bench: Bench, name: str
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    _, spectrum = bench.spectrum(name)
    return spectrum.values


def _panel(bench: Bench, name: str) -> Panel:
    values = _values(bench, name)
    order = np.arange(1, values.size + 1)
    series = tuple(
        Series(
            sign,
            tuple(order[part].astype(float).tolist()),
            tuple(values[part].tolist()),
        )
        for sign, part in (("positive", values > 0), ("negative", values < 0))
    )
    return Panel(name, "eigenvalue, largest first", "λ", series, kind="bar")


def _shares(bench: Bench, name: str) -> list[Cell]:
    values = _values(bench, name)
    negative = values[values < 0]
    return [
        Cell(name, "negative eigenvalues", int(negative.size)),
        Cell(
            name,
            "negative share of Σ|λ|",
            float(-negative.sum() / np.abs(values).sum()),
        ),
    ]
