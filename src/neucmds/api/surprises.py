"""Warnings about what came out."""

from __future__ import annotations

import warnings

from neucmds.embedding import Embedding
from neucmds.errors import (
    ConvergenceWarning,
    FewerComponentsWarning,
    NonEuclideanWarning,
    PrecisionWarning,
    option,
)


def warn_of_surprises(embedding: Embedding) -> None:
    """Issue a warning for each surprise that the fields of the result hold."""
    # Two frames up: the caller of `neuc_mds`.
    if not embedding.converged:
        warnings.warn(_unconverged(embedding), ConvergenceWarning, stacklevel=3)
    if embedding.k == embedding.requested:
        return
    returned = f"{embedding.k} of {embedding.requested} coordinates are returned: "
    if embedding.hidden_below:
        warnings.warn(
            returned + f"beside the largest one, eigenvalues below {embedding.hidden_below:.2g} "
            "cannot be told from rounding; look for huge entries in D, and correct them or treat "
            "them as missing.",
            PrecisionWarning,
            stacklevel=3,
        )
        return
    if embedding.method in ("classical", "lower"):
        warnings.warn(
            f"{returned}{option('method', embedding.method)} keeps positive eigenvalues only, and "
            "no more of them can be used; 'neuc+' and 'exact' keep negative ones too.",
            NonEuclideanWarning,
            stacklevel=3,
        )
    elif embedding.solver == "weighted":
        warnings.warn(
            f"{returned}more fit the observed entries no better, or predict held-out ones worse.",
            FewerComponentsWarning,
            stacklevel=3,
        )
    else:
        why = (
            "another one of the signs asked for does not lower the STRESS."
            if embedding.method == "refined"
            else "the other eigenvalues are zero, of the sign not asked for, or left without "
            "weight by the shift of 'neuc+'."
        )
        warnings.warn(returned + why, FewerComponentsWarning, stacklevel=3)


def _unconverged(embedding: Embedding) -> str:
    if embedding.history:
        return (
            "refinement was still gaining when it was stopped (relative gradient "
            f"{embedding.relative_gradient:.2g}); raise {option('max_iter')}."
        )
    worst = float(max(embedding.residuals))
    return (
        f"the {embedding.solver} solver did not reach its tolerance (largest residual "
        f"{worst:.2g}); raise {option('tol')}."
    )
