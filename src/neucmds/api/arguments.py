"""What may be asked for, refusals made before D is touched, and warnings about what came out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from neucmds._backend.arrays import is_array, is_dask
from neucmds._input.components import Components, NComponents
from neucmds._methods.refined.loss_starts import Place
from neucmds._methods.refined.starts import RefineSettings
from neucmds._methods.selection import METHODS
from neucmds._operator.choose import Limit, stays_outside
from neucmds._spectrum.solve import check_solver, check_tolerance
from neucmds.embedding import Embedding
from neucmds.errors import (
    ConvergenceWarning,
    FewerComponentsWarning,
    InputError,
    NonEuclideanWarning,
    PrecisionWarning,
    option,
)

ALL_METHODS = (*METHODS, "exact", "refined")
CLOSED_FORMS = tuple(method for method in ALL_METHODS if method != "refined")
# Of all methods "refined" has the least STRESS on fitted objects (docs/quality.md) and on objects
# placed later (benchmarks/records/placement.json); of 8000 objects it takes 1.1 to 1.8 times the
# time of "neuc+" (benchmarks/records/refined_at_scale.json).
DEFAULT_METHOD = "refined"

OnStep = Callable[[str], None]


def check_arguments(
    D: Any, n_components: NComponents, method: str, solver: str, tol: float, random_state: Any
) -> None:
    """Refuse what is wrong before D is touched: with ``copy=False`` a second try would be late."""
    check_methods((method,))
    check_solver(solver)
    check_tolerance(tol)
    _check_seed(random_state)
    # Only a matrix can be overwritten; dask's sizes may be NaN, and are refused elsewhere.
    shape: Any = getattr(D, "shape", ())
    if is_array(D) and not is_dask(D) and len(shape) == 2:
        Components.parse(n_components, max(2, int(shape[0])))


def _check_seed(random_state: Any) -> None:
    if isinstance(random_state, np.random.Generator):
        return
    try:
        check_random_state(random_state)
    except ValueError as problem:
        raise InputError(
            f"{option('random_state', random_state)} cannot seed a generator; pass a whole number, "
            "a RandomState, a Generator or None."
        ) from problem


def check_methods(names: Sequence[str]) -> None:
    """Refuse a method that does not exist."""
    for name in names:
        if name not in ALL_METHODS:
            raise InputError(
                f"{option('method', name)} is unknown; choose one of {', '.join(ALL_METHODS)}."
            )


def refuse_without_refinement(method: str, settings: RefineSettings, start: Place | None) -> None:
    """Refuse what only "refined" can obey."""
    if method == "refined":
        if settings.loss == "squared" and settings.n_init not in (None, 1):
            raise InputError(
                f"{option('n_init', settings.n_init)} is for the losses with several valleys; "
                f"{option('loss', 'squared')} starts once, from eigenvectors."
            )
        return
    if settings.loss != "squared":
        raise InputError(
            f"{option('loss', settings.loss)} needs {option('method', 'refined')}, not "
            f"{method!r}: closed forms minimise the squared loss, or a bound of it."
        )
    if start is not None:
        raise InputError(f"{option('init')} needs {option('method', 'refined')}, not {method!r}.")


def signature_of(start: Place, n_components: NComponents) -> tuple[int, int]:
    """Return the signature of a warm start, which is not to contradict what is asked for."""
    signature = start.signature
    # 2 is the default, and says nothing.
    if n_components not in (None, 2, signature, sum(signature)):
        raise InputError(
            f"{option('init')} has {signature[0]} positive and {signature[1]} negative "
            f"coordinates, not {option('n_components', n_components)}; leave the latter out."
        )
    return signature


def refuse_checkpoint_in_memory(D: Any, squared: bool, max_memory: Limit) -> None:
    """Refuse a checkpoint of a fit that takes no passes over a D outside memory."""
    if not stays_outside(D, squared, max_memory):
        raise InputError(
            f"{option('checkpoint')} is for fits of listed pairs (a scipy.sparse D, "
            f"{option('n_pairs')}, graphs of more than 3,000 nodes) or of a D that is not held in "
            "memory, and for LandmarkNeucMDS.transform; this D is: leave it out, or lower "
            f"{option('max_memory')}."
        )


def refuse_for_pairs(method: str, weights: Any, solver: str, settings: RefineSettings) -> None:
    """Refuse what a list of pairs cannot obey."""
    asked = {
        "solver": (solver, solver != "auto"),
        "climb": (settings.climb, bool(settings.climb)),
        "n_init": (settings.n_init, settings.n_init not in (None, 1)),
    }
    for name, (value, refused) in asked.items():
        if refused:
            raise InputError(
                f"{option(name, value)} is for a D of which every pair is known, and this is a "
                "list of pairs, fitted once from one start; leave it out."
            )
    if method != "refined":
        raise InputError(
            f"a sparse D, a list of pairs, needs {option('method', 'refined')}, not {method!r}: "
            "closed forms need every pair; pass D.toarray() if what is not stored is zero."
        )
    if weights is not None:
        raise InputError("a list of pairs carries its weights itself, in a fourth column.")


def silent(_: str) -> None:
    """Tell nobody."""


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
        f"{worst:.2g}); raise {option('tol')}, or use {option('solver', 'full')}."
    )
