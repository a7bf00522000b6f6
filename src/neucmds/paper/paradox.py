"""The dimensionality paradox on one data set: a panel of curves and the k that shows it."""

from __future__ import annotations

import numpy as np

from neucmds.paper.bench import Bench
from neucmds.paper.curves import stress_curve
from neucmds.paper.records import Cell, Panel, Series
from neucmds.selection import METHODS

__all__ = ["paradox_cells", "paradox_panel"]

# `exact` and `refined` solve anew at each k; ten of them draw the curve.
SPARSE = (2, 5, 10, 20, 30, 50, 75, 100, 150, 200)


def curves(bench: Bench, name: str) -> dict[str, Series]:
    """STRESS against every k, for the paper's methods."""
    gram, spectrum = bench.spectrum(name)
    positive = int(np.sum(spectrum.ends.values > spectrum.ends.null_level))
    found = {}
    for method in METHODS:
        # Lower-MDS has no more dimensions than there are positive eigenvalues
        last = positive if method == "lower" else gram.n - 1
        ks = range(1, last + 1)
        values = stress_curve(gram, spectrum, method, ks)
        found[method] = Series(method, tuple(map(float, ks)), tuple(values.tolist()))
    return found


def paradox_panel(bench: Bench, name: str) -> Panel:
    """All curves of one data set."""
    bench.progress(f"{name}: STRESS against k")
    series = list(curves(bench, name).values())
    n = bench.spectrum(name)[0].n
    ks = sorted({k for k in (*SPARSE, *worse_from_to(bench, name)) if 0 < k < n / 2})
    for method in ("exact", "refined"):
        values = tuple(bench.embedding(name, method, k).stress for k in ks)
        series.append(Series(method, tuple(map(float, ks)), values))
    return Panel(name, "k", "STRESS", tuple(series), log_y=True)


def worse_from_to(bench: Bench, name: str) -> tuple[int, int]:
    """Return k where classical MDS is best, and the k of the paper, or beyond, where it is worse.

    Both are the same number if adding dimensions never makes classical MDS worse.
    """
    gram, spectrum = bench.spectrum(name)
    curve = stress_curve(gram, spectrum, "classical", range(1, gram.n))
    paper_k = bench.problem(name).k
    best = int(np.argmin(curve[:paper_k])) + 1
    if curve[paper_k - 1] > curve[best - 1]:
        return best, paper_k
    best = int(np.argmin(curve)) + 1
    worst = best + int(np.argmax(curve[best - 1 :]))
    return best, worst


def paradox_cells(bench: Bench, name: str) -> list[Cell]:
    """STRESS at the larger k over STRESS at the smaller one, by method: above 1 is the paradox."""
    start, end = worse_from_to(bench, name)
    cells = [Cell(name, "from k", start), Cell(name, "to k", end)]
    if start == end:
        return [Cell(name, "from k", None, note="no k makes classical MDS worse")]
    for method in (*METHODS, "exact", "refined"):
        at_start, at_end = (bench.embedding(name, method, k).stress for k in (start, end))
        cells.append(Cell(name, f"factor: {method}", at_end / at_start))
    gram, spectrum = bench.spectrum(name)
    for method in METHODS:
        curve = stress_curve(gram, spectrum, method, range(1, end + 1))
        rise = float(np.max(curve[1:] / curve[:-1]) - 1)
        cells.append(Cell(name, f"largest rise in one step: {method}", max(rise, 0.0)))
    return cells
