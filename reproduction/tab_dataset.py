"""Table tab:dataset: sizes, negative eigenvalues, classes, metric or not."""

from __future__ import annotations

import numpy as np

from reproduction import published
from reproduction.bench import Bench
from reproduction.cells import not_run
from reproduction.counting import is_metric
from reproduction.records import Cell, Record
from reproduction.sources import PAPER_SETS, STAND_INS


def run(bench: Bench) -> Record:
    """Count; the stand-ins for CuMiDa's sets follow under their own names."""
    found, skipped = bench.split((*PAPER_SETS, *STAND_INS))
    cells = [cell for name in found for cell in _row(bench, name)]
    return Record(
        "table:dataset",
        ("tab:dataset",),
        "Data sets",
        {
            "seed": bench.settings.seed,
            "n": bench.settings.n,
            "n_seeds": bench.n_seeds,
        },
        cells=(*cells, *not_run(published.DATASET, skipped)),
        skipped=tuple(skipped),
        notes=(
            "The paper's count of negative eigenvalues includes zeros that rounding made negative "
            "(E19).",
        ),
    )


def _row(bench: Bench, name: str) -> list[Cell]:
    problem = bench.problem(name)
    table = published.DATASET
    _, spectrum = bench.spectrum(name)
    beyond = int(np.sum(spectrum.values < -spectrum.null_level))
    metric = is_metric(problem.sq_dissimilarity)
    counts = bench.counts(name)
    low, high = _range(bench, name)
    cells = [
        Cell(
            name,
            "size",
            len(problem.sq_dissimilarity),
            table.get(name, "size"),
        ),
        Cell(
            name,
            "negative eigenvalues",
            counts.negative_eigenvalues,
            table.get(name, "negative eigenvalues"),
            tolerance=0.003,  # a zero may round either way
            low=low,
            high=high,
        ),
        Cell(name, "negative eigenvalues beyond rounding", beyond),
    ]
    if problem.classes is not None:
        cells.append(
            Cell(name, "classes", problem.classes, table.get(name, "classes"))
        )
    told = published.METRIC.get(name)
    note = (
        "" if told is None else f"print: {'metric' if told else 'not metric'}"
    )
    cells.append(Cell(name, "metric", "yes" if metric else "no", note=note))
    return cells


def _range(bench: Bench, name: str) -> tuple[int | None, int | None]:
    """Fewest and most negative eigenvalues over the draws of a synthetic set."""
    if bench.source(name).kind != "synthetic":
        return None, None
    found = [draw.counts.negative_eigenvalues for draw in bench.draws(name)]
    return min(found), max(found)
