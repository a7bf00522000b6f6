"""SMACOF, scikit-learn's, as the paper ran it and as it is meant to be run."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist
from sklearn.manifold import smacof
from sklearn.utils import check_random_state

# One start of at most 300 iterations: 3 to 6 s at n = 1000, k = 100. scikit-learn has four.
MAX_ITER = 300


@dataclass(frozen=True)
class Smacof:
    """What one run of SMACOF reached.

    Parameters
    ----------
    own_stress : float
        scikit-learn's ``stress_``: half of Σ(input − ‖x_i − x_j‖)² over all entries.
    stress : float
        ‖D̂ − D‖²_F, the measure of all other columns. D̂ is ‖x_i − x_j‖², or ‖x_i − x_j‖ itself if
        D was handed in as if it were unsquared.
    """

    own_stress: float
    stress: float


def run_smacof(
    sq_dissimilarity: npt.NDArray[np.float64],
    k: int,
    *,
    on_squared: bool,
    seed: int = 0,
) -> Smacof:
    """Run SMACOF once from uniform random coordinates.

    Parameters
    ----------
    sq_dissimilarity : ndarray of shape (n, n)
    k : int
    on_squared : bool
        True hands in D itself, as published (errata E16); False its root, negative entries as zero.
    seed : int
    """
    d = np.maximum(sq_dissimilarity, 0.0)
    given = d if on_squared else np.sqrt(d)
    start = check_random_state(seed).uniform(size=(len(d), k))
    with warnings.catch_warnings():
        # scikit-learn announces new defaults, which are not used here
        warnings.simplefilter("ignore", FutureWarning)
        x, own_stress = smacof(
            given,
            n_components=k,
            init=start,
            n_init=1,
            max_iter=MAX_ITER,
            normalized_stress=False,
        )
    distance = cdist(x, x)
    fitted = distance if on_squared else np.square(distance)
    return Smacof(
        float(own_stress), float(np.sum((fitted - sq_dissimilarity) ** 2))
    )
