"""Dissimilarities in, coordinates with a signature out."""

from neucmds.api import neuc_mds
from neucmds.embedding import Embedding
from neucmds.errors import (
    ConvergenceWarning,
    FewerComponentsWarning,
    InputError,
    NonEuclideanWarning,
    OverfitWarning,
)
from neucmds.estimators import LandmarkNeucMDS, NeucMDS

__version__ = "0.1.0"

__all__ = [
    "NeucMDS",
    "LandmarkNeucMDS",
    "neuc_mds",
    "Embedding",
    "InputError",
    "ConvergenceWarning",
    "FewerComponentsWarning",
    "NonEuclideanWarning",
    "OverfitWarning",
    "__version__",
]
