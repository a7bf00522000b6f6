"""Tables tab:randommatrixerrors1 and 2: errors on random matrices, by formula and by simulation."""

from __future__ import annotations

from reproduction import published
from reproduction.bench import Bench
from reproduction.published import PublishedTable
from reproduction.random_matrices import (
    classical_error,
    errors_of_spectrum,
    neuc_error,
)
from reproduction.records import Cell, Record

N_SIMULATED = 2000
# One matrix scatters by 3 % at c = 0.95, where 100 small eigenvalues make up e_N; the mean of eight
# comes within 1 %.
N_MATRICES = 8
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
        {
            "seed": bench.settings.seed,
            "n": N_SIMULATED,
            "matrices": N_MATRICES,
        },
        cells=tuple(cells),
        notes=(
            "e_C (classical MDS) and e_N (Neuc-MDS) are (C1+C2)/4 (E6), computed from the formulas "
            f"of the limit n → ∞. The record compares them with the mean over {N_MATRICES} random "
            f"matrices of size {N_SIMULATED}.",
        ),
    )


def _row(bench: Bench, row: str, table: PublishedTable) -> list[Cell]:
    c = float(row)
    constant = classical_error(c, n=0)
    slope = classical_error(c, n=1) - constant
    neuc = neuc_error(c)
    formulas = {"e_C constant": constant, "e_C per n": slope, "e_N": neuc}
    cells = [
        Cell(row, column, formulas[column], table.get(row, column))
        for column in table.columns
    ]
    spectra = bench.noise_spectra(N_SIMULATED, N_MATRICES)
    drawn = [
        errors_of_spectrum(lam, round(c * N_SIMULATED)) for lam in spectra
    ]
    at_n = classical_error(c, N_SIMULATED)
    ratios = {
        "e_C": [d.classical / at_n for d in drawn],
        "e_N": [d.neuc / neuc for d in drawn],
    }
    for name, values in ratios.items():
        mean = sum(values) / len(values)
        cells.append(
            Cell(
                row,
                f"{name} {SIMULATION}",
                mean,
                low=min(values),
                high=max(values),
            )
        )
    return cells
