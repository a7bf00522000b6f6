"""Real data and the paper's perturbations, from `reproduction`, which lies beside this folder."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from reproduction.data import (
    data_folders,
    entropic_affinities,
    list_dissimilarities,
    load_dissimilarity,
    load_genomics,
    load_images,
    wrapped_hops,
)

__all__ = [
    "data_folders",
    "entropic_affinities",
    "list_dissimilarities",
    "load_dissimilarity",
    "load_genomics",
    "load_images",
    "wrapped_hops",
]
