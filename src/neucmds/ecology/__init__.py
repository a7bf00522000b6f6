"""Statistics of ordinations: variables, groups, agreement, corrections and metadata."""

from neucmds.ecology.corrections import Corrected, cailliez, lingoes
from neucmds.ecology.groups import Dispersion, dispersion
from neucmds.ecology.metadata import read_metadata
from neucmds.ecology.permutation import PermutationTest, protest
from neucmds.ecology.variables import (
    EnvFit,
    VariableFit,
    envfit,
    species_scores,
)

__all__ = [
    "Corrected",
    "Dispersion",
    "EnvFit",
    "PermutationTest",
    "VariableFit",
    "cailliez",
    "dispersion",
    "envfit",
    "lingoes",
    "protest",
    "read_metadata",
    "species_scores",
]
