"""Both ends of the spectrum of B, by LAPACK or Krylov."""

from neucmds._spectrum.krylov import solve as solve
from neucmds._spectrum.spectrum import Ends as Ends
from neucmds._spectrum.spectrum import Spectrum as Spectrum
from neucmds._spectrum.spectrum import full_spectrum as full_spectrum
