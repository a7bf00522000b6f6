"""Cells that several tables have in common: one measure, some methods, print beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from neucmds.explore import Quality
from neucmds.options import ALL_METHODS
from neucmds.spectrum.selection import METHODS
from reproduction.bench import Bench
from reproduction.published import PublishedTable
from reproduction.records import Cell, Record, Skipped


@dataclass(frozen=True)
class Measure:
    """A measure of an embedding: the name of its columns, and how it is read off a `Quality`."""

    name: str
    of: Callable[[Quality], float]

    def column(self, method: str) -> str:
        """Name of the column; a table of one measure names its columns by the method alone."""
        return f"{self.name}: {method}" if self.name else method


STRESS = Measure("", lambda quality: quality.stress)
NORM = Measure("norm", lambda quality: math.sqrt(quality.stress))
ADDITIVE_ERROR = Measure(
    "additive error", lambda quality: quality.scaled_additive_error
)
DISTORTION = Measure("distortion", lambda quality: quality.distortion)
NEGATIVE_EIGENVALUES = Measure(
    "negative eigenvalues", lambda quality: quality.negative_coordinates
)

TWINS_OUT = ", twins left out"
RANGE_OF_TWINS = "range: without the twins, and with their rounding"


def printed_table(
    bench: Bench,
    table: PublishedTable,
    title: str,
    row_cells: Callable[[Bench, str], list[Cell]],
    notes: tuple[str, ...],
    **parameters: object,
) -> Record:
    """Make the record of a printed table: a row for each data set that can be had."""
    found, skipped = bench.split(table.rows)
    cells = [cell for name in found for cell in row_cells(bench, name)]
    settings = {
        "seed": bench.settings.seed,
        "n": bench.settings.n,
        "n_seeds": bench.n_seeds,
    }
    return Record(
        table.label.replace("tab:", "table:"),
        (table.label,),
        title,
        settings | parameters,
        cells=(*cells, *not_run(table, skipped)),
        skipped=tuple(skipped),
        notes=notes,
    )


def measure_cells(
    bench: Bench,
    row: str,
    published: PublishedTable | None,
    measure: Measure,
    methods: Iterable[str] = ALL_METHODS,
) -> list[Cell]:
    """One cell per method; synthetic sets get their range over many seeds."""
    return [
        _measure_cell(bench, row, published, measure, method)
        for method in methods
    ]


def _measure_cell(
    bench: Bench,
    row: str,
    published: PublishedTable | None,
    measure: Measure,
    method: str,
) -> Cell:
    column = measure.column(method)
    source = bench.source(row)
    low = high = None
    if source.kind == "synthetic" and method in METHODS:
        values = [
            measure.of(draw.quality[method]) for draw in bench.draws(row)
        ]
        low, high = min(values), max(values)
    return Cell(
        row,
        column,
        measure.of(bench.quality(row, method)),
        printed=published.get(row, column) if published else None,
        tolerance=source.tolerance,
        low=low,
        high=high,
    )


def distortion_cells(
    bench: Bench, row: str, published: PublishedTable, prefix: str
) -> list[Cell]:
    """Distortion beside print; where twins spoil it, as published and again without them."""
    measure = Measure(prefix, DISTORTION.of)
    if bench.source(row).kind != "images":
        return measure_cells(bench, row, published, measure)
    cells = []
    for method in METHODS:
        column = measure.column(method)
        ours = bench.counts(row).distortion[method]
        clean = DISTORTION.of(bench.quality(row, method))
        low, high = min(clean, ours), max(clean, ours)
        printed = published.get(row, column)
        cells.append(
            Cell(row, column, ours, printed, 0.005, low, high, RANGE_OF_TWINS)
        )
    cells += measure_cells(bench, row, None, measure, ("exact", "refined"))
    for method in METHODS:
        clean = DISTORTION.of(bench.quality(row, method))
        cells.append(Cell(row, measure.column(method) + TWINS_OUT, clean))
    return cells


def negative_pair_cells(
    bench: Bench, row: str, published: PublishedTable | None
) -> list[Cell]:
    """Negative pairs as print counts them (errata E13, E14), then alike and beyond rounding."""
    column = "negative pairs: {}".format
    kind = bench.source(row).kind
    cells = []
    if published is not None:
        counts = bench.counts(row)
        as_printed = {
            "neuc": counts.negative_pairs["neuc"],
            "neuc+": counts.new_negative_pairs,
        }
        for method, ours in as_printed.items():
            low, high, note = _pair_range(bench, row, method)
            printed = published.get(row, column(method))
            cells.append(
                Cell(row, column(method), ours, printed, 0.02, low, high, note)
            )
        cells.append(
            Cell(
                row,
                column("neuc+, counted alike"),
                counts.negative_pairs["neuc+"],
            )
        )
    for method in ("neuc", "neuc+", "exact", "refined"):
        beyond = bench.quality(row, method).negative_dissimilarities
        cells.append(Cell(row, column(f"{method}, beyond rounding"), beyond))
    if kind == "images":
        cells.append(Cell(row, "pairs of twins", bench.counts(row).twins))
    return cells


def _pair_range(
    bench: Bench, row: str, method: str
) -> tuple[int | None, int | None, str]:
    """Range of a count: over the seeds of a synthetic set, over what rounding does with twins."""
    if bench.source(row).kind == "synthetic":
        counts = [draw.counts for draw in bench.draws(row)]
        found = [
            one.negative_pairs["neuc"]
            if method == "neuc"
            else one.new_negative_pairs
            for one in counts
        ]
        return min(found), max(found), ""
    counts_here = bench.counts(row)
    if not counts_here.twins:
        return None, None, ""
    return *counts_here.range_of(method), RANGE_OF_TWINS


def negative_cells(
    bench: Bench, row: str, published: PublishedTable | None
) -> list[Cell]:
    """Negative pairs, and negative eigenvalues kept."""
    methods = ("neuc", "neuc+", "exact", "refined")
    eigenvalues = measure_cells(
        bench, row, published, NEGATIVE_EIGENVALUES, methods
    )
    return negative_pair_cells(bench, row, published) + eigenvalues


def not_run(
    published: PublishedTable, skipped: Iterable[Skipped]
) -> list[Cell]:
    """Keep the published numbers of rows without data in sight, with the reason beside them."""
    return [
        Cell(skip.row, column, None, printed, note=skip.reason)
        for skip in skipped
        for column in published.columns
        if (printed := published.get(skip.row, column)) is not None
    ]
