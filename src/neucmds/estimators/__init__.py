"""scikit-learn's face of the library: estimators translate, they do no maths."""

from neucmds.estimators.isomap import NeucIsomap
from neucmds.estimators.landmark import LandmarkNeucMDS
from neucmds.estimators.neighbors import KNeighborsGraph
from neucmds.estimators.neuc_mds import NeucMDS

__all__ = ["KNeighborsGraph", "LandmarkNeucMDS", "NeucIsomap", "NeucMDS"]
