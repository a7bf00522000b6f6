"""Both ends of the spectrum of B: all of it by LAPACK, or as much as is kept by Krylov."""

from neucmds.spectrum.base import Ends, Spectrum
from neucmds.spectrum.full import full_spectrum
from neucmds.spectrum.krylov import krylov_spectrum
from neucmds.spectrum.solve import solve

__all__ = ["Ends", "Spectrum", "full_spectrum", "krylov_spectrum", "solve"]
