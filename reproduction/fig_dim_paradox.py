"""Figures fig:dim-paradox and fig:dim-para-all: STRESS against k for every method."""

from __future__ import annotations

from reproduction.bench import Bench
from reproduction.paradox import paradox
from reproduction.records import Record
from reproduction.sources import CUMIDA, IMAGES, STAND_INS


def run_two(bench: Bench) -> Record:
    """Draw Random-simplex and Renal."""
    names = ("Random-simplex", "Renal")
    return _run(bench, "figure:dim-paradox", ("fig:dim-paradox",), names)


def run_all(bench: Bench) -> Record:
    """Draw the other eight data sets."""
    names = (
        "Euclidean-ball",
        *(name for name in CUMIDA if name != "Renal"),
        *IMAGES,
    )
    return _run(bench, "figure:dim-para-all", ("fig:dim-para-all",), names)


def run_stand_ins(bench: Bench) -> Record:
    """Draw our own figure: the five expression sets that can be had."""
    return _run(bench, "figure:dim-paradox-stand-ins", (), STAND_INS)


def _run(
    bench: Bench, name: str, labels: tuple[str, ...], rows: tuple[str, ...]
) -> Record:
    found, skipped = bench.split(rows)
    shown = [paradox(bench, row) for row in found]
    return Record(
        name,
        labels,
        "STRESS against the number of dimensions",
        {"seed": bench.settings.seed, "n": bench.settings.n},
        cells=tuple(cell for _, cells in shown for cell in cells),
        panels=tuple(panel for panel, _ in shown),
        skipped=tuple(skipped),
        notes=(
            "“factor” is the STRESS at “to k” divided by the STRESS at “from k”; above 1, more "
            "coordinates made the embedding worse. “to k” is the paper's k. “from k” was chosen to "
            "show the paradox most clearly: of the smaller k at which classical MDS alone has a "
            "factor above 1, it has the largest.",
            "“largest rise” is the largest relative rise of STRESS from one k to the next, up to "
            "the paper's k: neuc and neuc+ minimise a lower bound, and C3 may rise.",
        ),
    )
