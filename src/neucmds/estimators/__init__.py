"""Estimators with scikit-learn's contract; they translate parameters."""

from neucmds.estimators.isomap import NeucIsomap
from neucmds.estimators.landmark import LandmarkNeucMDS
from neucmds.estimators.neighbors import KNeighborsGraph
from neucmds.estimators.neuc_mds import NeucMDS

__all__ = ["KNeighborsGraph", "LandmarkNeucMDS", "NeucIsomap", "NeucMDS"]
