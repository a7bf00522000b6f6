"""Refusals made before D is touched, and warnings about what came out."""

from __future__ import annotations

import warnings
from typing import Any

from neucmds._operator.choose import stays_outside
from neucmds.api.options import Options
from neucmds.embedding import Embedding
from neucmds.errors import (
    ConvergenceWarning,
    FewerComponentsWarning,
    InputError,
    NonEuclideanWarning,
    PrecisionWarning,
    option,
)


def refuse_without_refinement(options: Options) -> None:
    """Refuse what only "refined" can obey."""
    method, loss = options.method, options.loss
    if method == "refined":
        if loss == "squared" and options.n_init not in (None, 1):
            raise InputError(
                f"{option('n_init', options.n_init)} is for the losses with several valleys; "
                f"{option('loss', 'squared')} starts once, from eigenvectors."
            )
        return
    if loss != "squared":
        raise InputError(
            f"{option('loss', loss)} needs {option('method', 'refined')}, not "
            f"{method!r}: closed forms minimise the squared loss, or a bound of it."
        )
    if options.start is not None:
        raise InputError(f"{option('init')} needs {option('method', 'refined')}, not {method!r}.")


def refuse_checkpoint(D: Any, options: Options) -> None:
    """Refuse a checkpoint of a fit that takes no descent over a D outside memory."""
    # A signature, a share and "auto" take many descents.
    if options.method != "refined" or isinstance(options.n_components, (str, float, tuple, list)):
        raise InputError(
            f"{option('checkpoint')} keeps the coordinates of {option('method', 'refined')} with a "
            f"whole number as {option('n_components')}, and no eigenpairs; leave it out."
        )
    if not stays_outside(D):
        raise InputError(
            f"{option('checkpoint')} is for fits of listed pairs (a scipy.sparse D, "
            f"{option('n_pairs')}, graphs of more than 3,000 nodes) or of a D that is not held in "
            "memory, and for LandmarkNeucMDS.transform; this D is: leave it out."
        )


def refuse_for_pairs(weights: Any, options: Options) -> None:
    """Refuse what a list of pairs cannot obey."""
    if options.n_init not in (None, 1):
        raise InputError(
            f"{option('n_init', options.n_init)} is for a D of which every pair is known, and this "
            "is a list of pairs, fitted once from one start; leave it out."
        )
    if options.method != "refined":
        raise InputError(
            f"a sparse D, a list of pairs, needs {option('method', 'refined')}, not "
            f"{options.method!r}: closed forms need every pair; pass D.toarray() if what is not "
            "stored is zero."
        )
    if weights is not None:
        raise InputError("a list of pairs carries its weights itself, in a fourth column.")


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
