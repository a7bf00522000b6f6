"""Dissimilarities in, coordinates with a signature out."""

from neucmds.embedding import Embedding
from neucmds.errors import (
    ConvergenceWarning,
    FewerComponentsWarning,
    InputError,
    NonEuclideanWarning,
    OverfitWarning,
)
from neucmds.estimators import NeucMDS
from neucmds.landmarks import LandmarkNeucMDS
from neucmds.pipeline import neuc_mds

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
