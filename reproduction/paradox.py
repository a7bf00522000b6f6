"""The dimensionality paradox on one data set: a panel of curves and the k that shows it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from neucmds.spectrum.selection import METHODS
from reproduction.bench import Bench
from reproduction.curves import stress_curve
from reproduction.records import Cell, Panel, Series

Floats = npt.NDArray[np.float64]

# `exact` and `refined` solve anew at each k; ten of them draw the curve.
SPARSE = (2, 5, 10, 20, 30, 50, 75, 100, 150, 200)
OURS = ("exact", "refined")
# A step is tried with `exact` and `refined` only if the paper's methods show the paradox on it.
MOST_TRIALS = 10


def paradox(bench: Bench, name: str) -> tuple[Panel, list[Cell]]:
    """All curves of one data set, and STRESS at a larger k over STRESS at a smaller one."""
    curves = _curves(bench, name)
    return _panel(bench, name, curves), _cells(bench, name, curves)


def _panel(bench: Bench, name: str, curves: dict[str, Floats]) -> Panel:
    series = [
        Series(method, tuple(range(1, curve.size + 1)), tuple(curve.tolist()))
        for method, curve in curves.items()
    ]
    n = bench.spectrum(name)[0].n
    ks = tuple(k for k in SPARSE if k < n / 2)
    for method in OURS:
        values = tuple(bench.embedding(name, method, k).stress for k in ks)
        series.append(Series(method, ks, values))
    return Panel(name, "k", "STRESS", tuple(series), log_y=True)


def _cells(bench: Bench, name: str, curves: dict[str, Floats]) -> list[Cell]:
    """Factors by method, above 1 is the paradox; and how far the curves are from monotone."""
    best = int(np.argmin(curves["classical"])) + 1
    last = bench.problem(name).k
    cells = [Cell(name, "classical is best at k", best)]
    if best < last:
        cells += _factors(
            bench, name, best, last, f"factor from there to k = {last}"
        )
    found = _stated_step(bench, name, curves)
    if found is None:
        cells.append(
            Cell(
                name,
                "from k",
                None,
                note="no k makes classical MDS worse and the others not",
            )
        )
    else:
        start, end = found
        cells += [Cell(name, "from k", start), Cell(name, "to k", end)]
        cells += _factors(bench, name, start, end, "factor")
    for method, curve in curves.items():
        head = curve[:last]
        rise = float(np.max(head[1:] / head[:-1], initial=1.0) - 1)
        column = f"largest rise in one step: {method}"
        cells.append(Cell(name, column, rise))
    return cells


def _factors(
    bench: Bench, name: str, start: int, end: int, column: str
) -> list[Cell]:
    """STRESS at one k over STRESS at another, for every method."""
    return [
        Cell(
            name,
            f"{column}: {method}",
            _stress(bench, name, method, end)
            / _stress(bench, name, method, start),
        )
        for method in (*METHODS, *OURS)
    ]


def _curves(bench: Bench, name: str) -> dict[str, Floats]:
    """STRESS against every k, for the paper's methods."""
    bench.progress(f"{name}: STRESS against k")
    gram, spectrum = bench.spectrum(name)
    positive = int(np.sum(spectrum.values > spectrum.null_level))
    # Lower-MDS has no more dimensions than there are positive eigenvalues.
    last = {"lower": positive}
    return {
        method: stress_curve(
            gram, spectrum, method, range(1, last.get(method, gram.n - 1) + 1)
        )
        for method in METHODS
    }


def _stress(bench: Bench, name: str, method: str, k: int) -> float:
    return bench.embedding(name, method, k).stress


def _stated_step(
    bench: Bench, name: str, curves: dict[str, Floats]
) -> tuple[int, int] | None:
    """Find a step on which `exact` and `refined` do not get worse either."""
    steps = steps_that_show_it(curves, bench.problem(name).k)
    for _, (start, end) in zip(range(MOST_TRIALS), steps, strict=False):
        if all(
            _stress(bench, name, method, end)
            <= _stress(bench, name, method, start)
            for method in OURS
        ):
            return start, end
    return None


def steps_that_show_it(
    curves: dict[str, Floats], paper_k: int
) -> Iterator[tuple[int, int]]:
    """Find steps (from, to) that make classical MDS worse and Neuc-MDS and Neuc-MDS⁺ not.

    First those that end at the k of the paper, then those that end below it, largest first; of
    each, the step comes first that makes classical MDS worst.
    """
    for end in range(min(paper_k, curves["classical"].size), 1, -1):
        factor = {
            m: curves[m][end - 1] / curves[m][: end - 1]
            for m in ("classical", *_NEUC)
        }
        shows = (factor["classical"] > 1) & np.all(
            [factor[m] <= 1 for m in _NEUC], axis=0
        )
        worst_first = np.argsort(-factor["classical"], kind="stable")
        yield from ((int(i) + 1, end) for i in worst_first if shows[i])


_NEUC = ("neuc", "neuc+")
