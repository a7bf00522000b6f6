"""scikit-learn's SMACOF, for comparison."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from neucmds._backend.arrays import to_numpy
from neucmds._methods.refined.descent import Refined
from neucmds._methods.refined.losses import PairLoss
from neucmds._methods.solution import Solution, from_refinement
from neucmds._operator import DenseGram
from neucmds.errors import InputError

# Random starts, of which the best is taken; each of at most 300 iterations.
STARTS = 2
MAX_ITER = 300


def smacof_solution(gram: DenseGram, k: int, *, random_state: Any = 0) -> Solution:
    """Run SMACOF on √D, and return its coordinates and their STRESS."""
    from sklearn.manifold import smacof

    d = to_numpy(gram.sq_dissimilarity).astype(np.float64)
    if float(d.min()) < 0 or not d.any():
        raise InputError("SMACOF needs dissimilarities that are not negative, and not all zero.")
    with warnings.catch_warnings():
        # Of new defaults, which are not used here.
        warnings.simplefilter("ignore", FutureWarning)
        found, _, iterations = smacof(
            np.sqrt(d),
            n_components=k,
            n_init=STARTS,
            max_iter=MAX_ITER,
            normalized_stress=False,
            random_state=random_state,
            return_n_iter=True,
        )
    end = Refined(
        coordinates=found,
        signs=np.ones(k),
        loss=PairLoss("squared", 0.0),
        value=math.nan,
        history=(),
        converged=iterations < MAX_ITER,
        relative_gradient=math.nan,
    )
    return from_refinement(gram, end, solver="smacof")
