"""Data to work on: synthetic sets, real files, and ways to make Euclidean data stop being so."""

from neucmds.datasets._home import DataNotFoundError
from neucmds.datasets.dissimilarities import (
    StoredDissimilarity,
    list_dissimilarities,
    load_dissimilarity,
)
from neucmds.datasets.genomics import Expression, load_genomics
from neucmds.datasets.images import IMAGE_SETS, Images, load_images
from neucmds.datasets.perturb import (
    add_noise,
    entropic_affinities,
    hop_distances,
    missing_pixels,
)
from neucmds.datasets.synthetic import (
    bray_curtis_gamma,
    euclidean_ball,
    random_hops,
    random_simplex,
)

__all__ = [
    "random_simplex",
    "euclidean_ball",
    "bray_curtis_gamma",
    "random_hops",
    "hop_distances",
    "add_noise",
    "missing_pixels",
    "entropic_affinities",
    "load_images",
    "load_genomics",
    "load_dissimilarity",
    "list_dissimilarities",
    "IMAGE_SETS",
    "Images",
    "Expression",
    "StoredDissimilarity",
    "DataNotFoundError",
]
