"""Estimators with scikit-learn's contract; they translate parameters."""

from neucmds.estimators.isomap import NeucIsomap
from neucmds.estimators.landmark import LandmarkNeucMDS
from neucmds.estimators.neighbors import KNeighborsGraph
from neucmds.estimators.neuc_mds import NeucMDS
from neucmds.estimators.scoring import neg_relative_error, recall_at_10

__all__ = [
    "KNeighborsGraph",
    "LandmarkNeucMDS",
    "NeucIsomap",
    "NeucMDS",
    "neg_relative_error",
    "recall_at_10",
]
