"""Both ends of the spectrum of B: all of it by LAPACK, or as much as is kept by Krylov."""

from collections.abc import Callable
from typing import Any

from neucmds.errors import InputError
from neucmds.gram import Gram
from neucmds.spectrum.base import Ends, Spectrum
from neucmds.spectrum.full import full_spectrum

__all__ = ["Ends", "Spectrum", "full_spectrum", "solve"]


def solve(
    gram: Gram,
    rule: Callable[[Ends], Any],
    n_wanted: int,
    *,
    solver: str = "auto",
    tol: float = 1e-7,
    random_state: Any = None,
) -> Spectrum:
    """Compute the eigenpairs that the selection rule keeps."""
    if solver not in ("auto", "full"):
        raise InputError(f"solver={solver!r} is unknown; choose 'auto' or 'full'.")
    return full_spectrum(gram)
