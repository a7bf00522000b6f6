"""The paper's synthetic sets, and hop counts in neighbour graphs."""

from neucmds.datasets.hops import hop_distances
from neucmds.datasets.synthetic import euclidean_ball, random_simplex

__all__ = ["random_simplex", "euclidean_ball", "hop_distances"]
