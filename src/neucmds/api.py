"""The way of the data, walked once, top to bottom: the only place that knows the order."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from neucmds._backend.arrays import Array
from neucmds._input import Dissimilarity, as_dissimilarity, as_weighted
from neucmds._input.components import Components
from neucmds._input.containers import as_labels
from neucmds._methods.exact import MOST_DENSE, exact_selection
from neucmds._methods.refined.completion import complete_and_refine
from neucmds._methods.refined.descent import Callback
from neucmds._methods.refined.starts import RefineSettings, best_refined
from neucmds._methods.selection import METHODS, Selection, neuc_plus, union
from neucmds._methods.solution import from_refinement, from_selection, from_weighted
from neucmds._operator import DenseGram, Gram
from neucmds._operator.blocked import Progress
from neucmds._operator.choose import Limit, loaded, memory_home, outside_home
from neucmds._placement.triangulation import (
    Recipe,
    cross_validated,
    least_squares_rule,
    linear_rule,
)
from neucmds._spectrum import Ends, Spectrum, solve
from neucmds._spectrum.solve import check_tolerance
from neucmds.embedding import Embedding, build_embedding
from neucmds.errors import (
    ConvergenceWarning,
    FewerComponentsWarning,
    InputError,
    NonEuclideanWarning,
)

__all__ = [
    "ALL_METHODS",
    "DEFAULT_METHOD",
    "embed_gram",
    "embed_landmarks",
    "embed_spectrum",
    "neuc_mds",
    "solve_for",
    "warn_of_surprises",
]

ALL_METHODS = (*METHODS, "exact", "refined")
# Of all methods "refined" has the least STRESS on fitted objects (docs/quality.md) and on objects
# placed later (benchmarks/records/placement.json); of 8000 objects it takes 1.1 to 1.8 times the
# time of "neuc+" (benchmarks/records/refined_at_scale.json).
DEFAULT_METHOD = "refined"


def neuc_mds(
    D: Any,
    n_components: int | tuple[int, int] = 2,
    method: str = DEFAULT_METHOD,
    *,
    squared: bool = False,
    symmetrize: bool = False,
    weights: Any = None,
    missing: Literal["error", "ignore"] = "error",
    labels: Any = None,
    solver: str = "auto",
    tol: float = 1e-7,
    random_state: Any = None,
    copy: bool = True,
    max_memory: Limit = None,
    max_iter: int = 100,
    stress_tol: float = 2e-3,
    climb: bool = False,
    callback: Callback | None = None,
    progress: Progress | None = None,
) -> Embedding:
    """Embed dissimilarities as real coordinates with a sign for each coordinate.

    Parameters
    ----------
    D : array, DataFrame, scikit-bio DistanceMatrix, condensed vector, nested list, path or Gram
        Symmetric dissimilarities with a zero diagonal; they need not be Euclidean, nor metric. An
        npy file, memory map, zarr array or HDF5 dataset that does not fit in memory is read in
        blocks of rows. The chunks of a dask array stay on its workers. `BlockedGram` and
        `FeatureGram` of `neucmds.operators` are taken as they are.
    n_components : int or (int, int), default=2
        Number of coordinates, or a pair (p, q) of positive and negative ones.
    method : {"classical", "lower", "neuc", "neuc+", "exact", "refined"}, default="refined"
        The first four are the paper's, "exact" minimises the true STRESS in closed form on kept
        eigenvectors, "refined" sets the coordinates free.
    squared : bool, default=False
        False: D holds dissimilarities and is squared inside, as in scikit-learn, scikit-bio and R.
        True: D is taken as it is, and may hold negative entries; this is the paper's D.
    symmetrize : bool, default=False
        Average D and its transpose instead of refusing an asymmetric D.
    weights : array of shape (n, n), optional
        How much each pair counts: Σ w_ij (D_ij − D̂_ij)² is minimised. "refined" only.
    missing : {"error", "ignore"}, default="error"
        "ignore": NaN in D means that the pair was not observed, and does not count. "refined" only.
    labels : sequence of str, optional
        Names of the objects, for input that has none of its own.
    solver : {"auto", "full", "krylov"}, default="auto"
        How the eigenpairs are computed; "auto" chooses by size.
    tol : float, default=1e-7
        Relative residual that the kept eigenpairs must reach (iterative solver). From 1e-6 up no
        product in double precision is needed, which takes up to a third less time.
    random_state : int, RandomState or None
        Seed of the iterative solver's start.
    copy : bool, default=True
        False allows D to be squared in place.
    max_memory : int or str, optional
        Most memory to use beyond a D that is in memory already: bytes, or "2GB". By default what is
        free. A D outside memory that needs more is read in blocks.
    max_iter : int, default=100
        Most iterations of "refined".
    stress_tol : float, default=2e-3
        "refined" stops when three iterations together gain less than this share of the STRESS.
    climb : bool, default=False
        Let "refined" also try signatures with one negative coordinate more or fewer, as long as
        that helps: a few times the work, rarely more than a few percent of STRESS.
    callback : callable, optional
        Called by "refined" with the iteration and the STRESS after every step.
    progress : callable, optional
        Called while a D outside memory is read: the number of the pass, rows done in it, and n.

    Returns
    -------
    Embedding

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import neuc_mds
    >>> D = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 4.0], [1.0, 4.0, 0.0]])  # 4 > 1 + 1: no metric
    >>> neuc_mds(D, n_components=2).signature
    (1, 1)
    """
    settings = RefineSettings(max_iter, stress_tol, climb, callback)
    solving: dict[str, Any] = {"solver": solver, "tol": tol, "random_state": random_state}
    gram = outside_home(
        D,
        n_components,
        complete=weights is None and missing == "error",
        squared=squared,
        symmetrize=symmetrize,
        max_memory=max_memory,
        labels=labels,
        progress=progress,
    )
    if gram is not None:
        facts: dict[str, Any] = {
            "squared": getattr(gram, "squared", squared),
            "labels": as_labels(labels, gram.n),
        }
        return embed_gram(gram, n_components, method, **facts, **solving, settings=settings)
    D, copy = loaded(D, copy)
    data = as_dissimilarity(
        D, squared=squared, symmetrize=symmetrize, labels=labels, copy=copy, missing=missing
    )
    weighted = None if weights is None and missing == "error" else as_weighted(data, weights)
    if weighted is not None:
        return _embed_weighted(
            data,
            weighted,
            n_components,
            method,
            squared=squared,
            settings=settings,
            **solving,
        )
    gram = memory_home(data, n_components, max_memory, keep_copy=method == "refined")
    facts = {"squared": squared, "labels": data.labels}
    return embed_gram(gram, n_components, method, **facts, **solving, settings=settings)


def embed_gram(
    gram: Gram,
    n_components: int | tuple[int, int],
    method: str = DEFAULT_METHOD,
    *,
    squared: bool = False,
    labels: tuple[str, ...] | None = None,
    solver: str = "auto",
    tol: float = 1e-7,
    random_state: Any = None,
    settings: RefineSettings | None = None,
) -> Embedding:
    """Embed a D that is already behind a `Gram`: the pipeline without its first room.

    Parameters are those of `neuc_mds`; `settings` are for "refined".
    """
    components = Components.parse(n_components, gram.n)
    spectrum = solve_for(
        gram, components, method, solver=solver, tol=tol, random_state=random_state
    )
    embedding = embed_spectrum(
        gram,
        spectrum,
        components,
        method,
        squared=squared,
        labels=labels,
        settings=settings,
    )
    warn_of_surprises(embedding)
    return embedding


def embed_landmarks(
    sq_dissimilarity: Array,
    n_components: int | tuple[int, int],
    method: str = DEFAULT_METHOD,
    placement: str = "auto",
    *,
    rng: np.random.RandomState,
    **settings: Any,
) -> tuple[Embedding, Recipe | None]:
    """Embed landmarks, with the rule that places others among them.

    Parameters
    ----------
    sq_dissimilarity : ndarray of shape (L, L)
        Squared dissimilarities among the landmarks.
    n_components, method
        As for `neuc_mds`.
    placement : {"auto", "least_squares", "linear"}
        "auto" chooses the ridge, the offsets and, for "neuc", the signature by cross-validation;
        "least_squares" has neither ridge nor offsets; "linear" is plain triangulation.
    rng : RandomState
        Draws the folds.
    **settings
        Handed to `embed_gram`.

    Returns
    -------
    embedding : Embedding
        Of the landmarks; its `placement` is the rule.
    recipe : Recipe or None
        How the rule was made; None for "linear".
    """

    def fit(part: Array, wanted: int | tuple[int, int], method: str) -> Embedding:
        return embed_gram(DenseGram(np.ascontiguousarray(part)), wanted, method, **settings)

    components = Components.parse(n_components, sq_dissimilarity.shape[0])
    n_components = components.signature or components.total
    if placement == "linear":
        embedding = fit(sq_dissimilarity, n_components, method)
        return replace(embedding, placement=linear_rule(sq_dissimilarity, embedding)), None
    recipe = Recipe(0.0, False, n_components)
    if placement == "auto":
        recipe = cross_validated(sq_dissimilarity, n_components, method, rng, fit)
    embedding = fit(sq_dissimilarity, recipe.n_components, method)
    rule = least_squares_rule(sq_dissimilarity, embedding, recipe)
    return replace(embedding, placement=rule), recipe


def solve_for(
    gram: Gram,
    components: Components,
    method: str,
    *,
    solver: str = "auto",
    tol: float = 1e-7,
    random_state: Any = None,
) -> Spectrum:
    """Compute the eigenpairs that a method will look at.

    Parameters are those of `neuc_mds`.
    """
    if method not in ALL_METHODS:
        raise InputError(f"method={method!r} is unknown; choose one of {', '.join(ALL_METHODS)}.")

    check_tolerance(tol)
    wanted = METHODS.get(method, union)
    if method == "refined":
        # It sets out from eigenvectors and leaves them: starts from residuals of 1e-3 end where
        # exact ones do.
        tol, wanted = max(tol, 1e-3), union if gram.n <= MOST_DENSE else neuc_plus

    def rule(ends: Ends) -> Selection:
        return wanted(ends, components)

    return solve(
        gram,
        rule,
        components.total,
        solver=solver,
        tol=tol,
        random_state=random_state,
        spare=method not in METHODS,
    )


def embed_spectrum(
    gram: Gram,
    spectrum: Spectrum,
    components: Components,
    method: str,
    *,
    squared: bool = False,
    labels: tuple[str, ...] | None = None,
    settings: RefineSettings | None = None,
) -> Embedding:
    """Embed from a spectrum that is already there: one solve serves every method and every k.

    Parameters are those of `neuc_mds`; `settings` are for "refined".
    """
    facts: dict[str, Any] = {
        "method": method,
        "requested": components.total,
        "squared": squared,
        "labels": labels,
    }
    if method == "refined" and neuc_plus(spectrum.ends, components).k:
        refined = best_refined(gram, spectrum, components, settings or RefineSettings())
        solution = from_refinement(gram, spectrum, refined, components.total)
        return build_embedding(solution, **facts)
    if method in ("exact", "refined"):
        selection = exact_selection(spectrum, gram.diagonal(), components)
    else:
        selection = METHODS[method](spectrum.ends, components)
    return build_embedding(from_selection(gram, spectrum, selection), **facts)


def _embed_weighted(
    data: Dissimilarity,
    weighted: tuple[Any, Any],
    n_components: int | tuple[int, int],
    method: str,
    *,
    squared: bool,
    settings: RefineSettings,
    solver: str,
    tol: float,
    random_state: Any,
) -> Embedding:
    """Embed when pairs count differently: the free coordinates are the only ones defined then."""
    if method != "refined":
        raise InputError(
            f"weights and missing entries need method='refined', not {method!r}: the closed forms "
            "count every pair alike."
        )
    check_tolerance(tol)
    components = Components.parse(n_components, data.n)
    values, pair_weights = weighted
    found = complete_and_refine(
        values,
        pair_weights,
        components,
        max_iter=settings.max_iter,
        tol=settings.tol,
        climb=settings.climb,
        solver=solver,
        eigen_tol=tol,
        random_state=random_state,
        callback=settings.callback,
    )
    embedding = build_embedding(
        from_weighted(found),
        method=method,
        requested=components.total,
        squared=squared,
        labels=data.labels,
    )
    warn_of_surprises(embedding)
    return embedding


def warn_of_surprises(embedding: Embedding) -> None:
    """Say aloud what the fields of the result say silently."""
    if not embedding.converged:
        warnings.warn(_unconverged(embedding), ConvergenceWarning, stacklevel=4)
    if embedding.k == embedding.requested:
        return
    returned = f"{embedding.k} of {embedding.requested} coordinates are returned: "
    if embedding.method in ("classical", "lower"):
        warnings.warn(
            returned + f"method={embedding.method!r} keeps positive eigenvalues only, and no more "
            "of them can be used; 'neuc+' and 'exact' keep negative ones too.",
            NonEuclideanWarning,
            stacklevel=4,
        )
    else:
        warnings.warn(
            returned + "the other eigenvalues are zero, of the sign not asked for, or left without "
            "weight by the shift of 'neuc+'.",
            FewerComponentsWarning,
            stacklevel=4,
        )


def _unconverged(embedding: Embedding) -> str:
    steps = len(embedding.history) - 1
    if steps > 0:
        return f"refinement was still gaining after {steps} iterations; raise max_iter."
    if embedding.history:  # the gaps were filled, and counted while it went on
        return "refinement was still gaining when max_iter was reached; raise it."
    worst = float(max(embedding.residuals))
    return (
        f"the {embedding.solver} solver did not reach its tolerance (largest residual "
        f"{worst:.2g}); raise tol, or use solver='full'."
    )
