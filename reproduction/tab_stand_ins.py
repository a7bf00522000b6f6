"""Our own table: five real expression sets in place of CuMiDa's, under their own names."""

from __future__ import annotations

from reproduction.bench import Bench
from reproduction.cells import (
    ADDITIVE_ERROR,
    DISTORTION,
    NORM,
    measure_cells,
    negative_cells,
)
from reproduction.records import Record
from reproduction.sources import PERPLEXITY, STAND_INS


def run(bench: Bench) -> Record:
    """Measure everything the paper measures on its genomics sets."""
    found, skipped = bench.split(STAND_INS)
    cells = []
    for name in found:
        for measure in (NORM, ADDITIVE_ERROR, DISTORTION):
            cells += measure_cells(bench, name, None, measure)
        cells += negative_cells(bench, name, None)
    return Record(
        "table:genomics-stand-ins",
        (),
        "Five public expression sets in place of CuMiDa's",
        {"seed": bench.settings.seed, "perplexity": PERPLEXITY},
        cells=tuple(cells),
        skipped=tuple(skipped),
        notes=("The paper does not use these sets.",),
    )
