"""scikit-learn's face of the library: estimators translate, they do no maths."""

from neucmds.estimators.all_pairs import NeucMDS
from neucmds.estimators.among_landmarks import LandmarkNeucMDS
from neucmds.estimators.geodesics import NeucIsomap
from neucmds.estimators.neighbors_step import KNeighborsGraph

__all__ = ["KNeighborsGraph", "LandmarkNeucMDS", "NeucIsomap", "NeucMDS"]
