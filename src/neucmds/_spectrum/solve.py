"""The choice between LAPACK and Krylov, and the entry point of both."""

from __future__ import annotations

from typing import Any

from neucmds._operator import Gram
from neucmds._spectrum.full import full_spectrum
from neucmds._spectrum.krylov import krylov_spectrum
from neucmds._spectrum.search import Rule
from neucmds._spectrum.spectrum import Spectrum
from neucmds.errors import InputError, option

SOLVERS = ("auto", "full", "krylov")


def check_solver(solver: str) -> None:
    """Refuse a solver that does not exist."""
    if solver not in SOLVERS:
        raise InputError(
            f"{option('solver', solver)} is not known; choose one of {', '.join(SOLVERS)}."
        )


def check_tolerance(tol: float) -> None:
    """Refuse a tolerance that no solver can use."""
    if not isinstance(tol, (int, float)) or not 0 < tol < 1:
        raise InputError(f"{option('tol', tol)} must be a number between 0 and 1.")


def prefers_full(n: int, n_wanted: int) -> bool:
    """Tell whether LAPACK is the faster solver for so many objects and pairs."""
    # Time of LAPACK over Krylov on one core, for Euclidean-ball / hops / Bray–Curtis:
    #   n = 450: k = 10 1.3 0.9 0.9, k = n/8 0.9 0.4 0.6 (21 ms in all)
    #   n = 800: k = 10 3.1 2.2 2.0, k = n/12 1.8 1.0 1.4, k = n/8 1.0 0.7 0.9
    #   n = 2000: k = 10 16 12 8, k = n/12 3.7 2.5 1.0, k = n/8 2.0 1.5 0.7
    return n <= 600 or 8 * n_wanted >= n


def solve(
    gram: Gram,
    rule: Rule,
    n_wanted: int,
    *,
    solver: str = "auto",
    tol: float = 1e-7,
    random_state: Any = None,
    spare: bool = True,
) -> Spectrum:
    """Compute as much of the spectrum of B as a selection rule needs.

    Parameters
    ----------
    gram : Gram
    rule : callable
        Selects from the ends of a spectrum.
    n_wanted : int
        Number of pairs that the rule keeps at the most.
    solver : {"auto", "full", "krylov"}
        "auto" takes LAPACK for at most 600 objects, or if an eighth of all pairs is wanted.
    tol, random_state, spare
        As in `krylov_spectrum`; LAPACK has no use for them.
    """
    check_solver(solver)
    check_tolerance(tol)
    if solver == "full" or (solver == "auto" and prefers_full(gram.n, n_wanted)):
        return full_spectrum(gram)
    return krylov_spectrum(gram, rule, n_wanted, tol=tol, random_state=random_state, spare=spare)
