"""The paper's data: image sets, expression tables, stored dissimilarities, perturbations."""

from reproduction.data.dissimilarities import (
    StoredDissimilarity,
    list_dissimilarities,
    load_dissimilarity,
)
from reproduction.data.genomics import Expression, load_genomics
from reproduction.data.home import DataNotFoundError, data_folders
from reproduction.data.images import IMAGE_SETS, Images, load_images
from reproduction.data.perturb import (
    add_noise,
    entropic_affinities,
    missing_pixels,
    wrapped_distances,
    wrapped_hops,
)

__all__ = [
    "IMAGE_SETS",
    "DataNotFoundError",
    "Expression",
    "Images",
    "StoredDissimilarity",
    "add_noise",
    "data_folders",
    "entropic_affinities",
    "list_dissimilarities",
    "load_dissimilarity",
    "load_genomics",
    "load_images",
    "missing_pixels",
    "wrapped_distances",
    "wrapped_hops",
]
