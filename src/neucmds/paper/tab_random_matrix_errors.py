"""Tables tab:randommatrixerrors1 and 2: errors on random matrices, by formula and by simulation."""

from __future__ import annotations

from neucmds.paper import published
from neucmds.paper.bench import Bench
from neucmds.paper.published import PublishedTable
from neucmds.paper.records import Cell, Record
from neucmds.theory import classical_error, neuc_error, simulate_errors

__all__ = ["run_1", "run_2"]

N_SIMULATED = 2000
SIMULATION = f"simulated at n = {N_SIMULATED}, over the formula"


def run_1(bench: Bench) -> Record:
    """Keep a share c below one half."""
    return _run(bench, "table:randommatrixerrors1", published.RANDOM_MATRIX_1)


def run_2(bench: Bench) -> Record:
    """Keep a share c of one half or more."""
    return _run(bench, "table:randommatrixerrors2", published.RANDOM_MATRIX_2)


def _run(bench: Bench, name: str, table: PublishedTable) -> Record:
    cells = [cell for row in table.rows for cell in _row(bench, row, table)]
    return Record(
        name,
        (table.label,),
        "Errors on a random symmetric matrix in units of n²σ², share c of eigenvalues kept",
        {"seed": bench.settings.seed, "n": N_SIMULATED},
        cells=tuple(cells),
        notes=(
            "e_C and e_N are (C1+C2)/4 (E6). Formulas are exact in the limit; one matrix of size "
            f"{N_SIMULATED} is drawn for each c and its errors divided by the formula's.",
        ),
    )


def _row(bench: Bench, row: str, table: PublishedTable) -> list[Cell]:
    c = float(row)
    bench.progress(f"random matrix of size {N_SIMULATED}, c = {row}")
    drawn = simulate_errors(N_SIMULATED, round(c * N_SIMULATED), random_state=bench.settings.seed)
    classical, neuc = classical_error(c), neuc_error(c)
    formulas = {"e_C constant": classical.constant, "e_C per n": classical.linear, "e_N": neuc}
    cells = [
        Cell(row, column, formulas[column], table.get(row, column)) for column in table.columns
    ]
    classical_ratio = drawn.classical / classical.at(N_SIMULATED)
    cells.append(Cell(row, f"e_C {SIMULATION}", classical_ratio))
    cells.append(Cell(row, f"e_N {SIMULATION}", drawn.neuc / neuc))
    return cells
