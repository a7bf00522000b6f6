"""Both ends of the spectrum of B: all of it by LAPACK, or as much as is kept by Krylov."""

from neucmds._spectrum.full import full_spectrum
from neucmds._spectrum.krylov import krylov_spectrum
from neucmds._spectrum.solve import solve
from neucmds._spectrum.spectrum import Ends, Spectrum

__all__ = ["Ends", "Spectrum", "full_spectrum", "krylov_spectrum", "solve"]
