"""Statistics of ordinations: variables, groups, agreement, corrections and metadata."""

from neucmds.ecology.corrections import Corrected, cailliez, lingoes
from neucmds.ecology.groups import Dispersion, anosim, dispersion
from neucmds.ecology.metadata import read_metadata
from neucmds.ecology.permanova import Permanova, permanova
from neucmds.ecology.permutation import PermutationTest, mantel, protest
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
    "Permanova",
    "PermutationTest",
    "VariableFit",
    "anosim",
    "cailliez",
    "dispersion",
    "envfit",
    "lingoes",
    "mantel",
    "permanova",
    "protest",
    "read_metadata",
    "species_scores",
]
