"""From what is prepared to an `Embedding`: by eigenpairs, or by descent where they do not help."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from neucmds._backend.arrays import is_numpy
from neucmds._backend.memory import require_memory
from neucmds._input.components import Components
from neucmds._input.weights import refuse_parts_of
from neucmds._methods import (
    Keep,
    Limits,
    Solution,
    Tiles,
    complete_and_refine,
    from_refinement,
    minimize,
    refine,
    refine_for_loss,
)
from neucmds._operator import DenseGram, Gram
from neucmds._spectrum import Spectrum
from neucmds.api.eigenpairs import embed_spectrum, solve_for
from neucmds.api.goals import fit_chosen
from neucmds.api.options import Options, refuse, tell
from neucmds.api.prepared import Prepared, dense_gram
from neucmds.embedding import Embedding, build_embedding
from neucmds.errors import (
    ConvergenceWarning,
    FewerComponentsWarning,
    InputError,
    NonEuclideanWarning,
    PrecisionWarning,
    option,
)


@dataclass(frozen=True, eq=False)
class Fit:
    """An embedding and what it was made from.

    Parameters
    ----------
    embedding : Embedding
    spectrum : Spectrum or None
        Eigenpairs; None with weights, gaps and other losses.
    prepared : Prepared or None
        D; None where only some pairs were looked at.
    """

    embedding: Embedding
    spectrum: Spectrum | None = None
    prepared: Prepared | None = None


def fit(prepared: Prepared, options: Options, keep: Keep | None = None) -> Fit:
    """Embed what is prepared: spectrum, method, `Embedding`.

    Parameters
    ----------
    prepared : Prepared
    options : Options
    keep : callable, optional
        Told coordinates and signs after every step of the squared loss of all pairs.

    Returns
    -------
    Fit
    """
    components, start = options.components(prepared.n), options.start
    limits, method = replace(options.limits(prepared.n), keep=keep), options.method
    if prepared.weights is not None and method != "refined":
        refuse("closed form", {"weights": prepared.weights})
    if not isinstance(prepared.gram, DenseGram):
        refuse("blocks", options.asked)
    if start is not None and int(start.coordinates.shape[0]) != prepared.n:
        raise InputError(
            f"{option('init')} has coordinates of {int(start.coordinates.shape[0])} objects, but D "
            f"has {prepared.n}."
        )
    if components.goal is not None:

        def fit_k(k: int) -> Fit:
            return fit(prepared, replace(options, n_components=k))

        return fit_chosen(prepared, components.goal, options, fit_k)
    free = prepared.weights is not None or start is not None
    # Where D is zero, so is every loss, without any coordinate.
    if free or (options.loss != "squared" and prepared.gram.moments.sq_norm > 0):
        tell(options.callback, f"embedding by {method}")
        solve = partial(solve_roughly, solver=options.solver)
        solution = free_coordinates(prepared, components, solve, options, limits)
        embedding = build_embedding(
            solution,
            method=method,
            requested=components.total,
            squared=prepared.squared,
            labels=prepared.labels,
        )
        return Fit(replace(embedding, missing=prepared.missing), None, prepared)
    tell(options.callback, f"computing the spectrum of {prepared.n:,} objects")
    spectrum = solve_for(
        prepared.gram,
        components,
        method,
        solver=options.solver,
        tol=options.eigenpair_tol,
        random_state=options.random_state,
    )
    tell(options.callback, f"embedding by {method}")
    embedding = embed_spectrum(
        prepared.gram,
        spectrum,
        components,
        method,
        squared=prepared.squared,
        labels=prepared.labels,
        limits=limits,
    )
    return Fit(replace(embedding, missing=prepared.missing), spectrum, prepared)


def free_coordinates(
    prepared: Prepared,
    components: Components,
    solve: Callable[[Gram, Components, str], Spectrum],
    options: Options,
    limits: Limits,
) -> Solution:
    """Refine where there is no closed form to begin with: weights, gaps, other losses, a start."""
    start, weights = options.start, prepared.weights
    if weights is not None and start is None:
        refuse_parts_of(weights, prepared.labels)
    if options.loss != "squared":
        return _least_loss(prepared, components, solve, options, limits)
    if weights is None:
        assert start is not None
        return from_refinement(prepared.gram, refine(prepared.gram, start, limits))
    gram = dense_gram(prepared, "weights")
    if start is not None:
        tiles = Tiles.of(gram.sq_dissimilarity, "squared", weights=weights)
        found = minimize(tiles, start, limits)
    else:
        found = complete_and_refine(
            gram.sq_dissimilarity,
            weights,
            components,
            limits,
            solve=lambda gram, wanted: solve(gram, wanted, "neuc+"),
            random_state=options.random_state,
        )
    return from_refinement(gram, found, weights=weights, solver="weighted")


def _least_loss(
    prepared: Prepared,
    components: Components,
    solve: Callable[[Gram, Components, str], Spectrum],
    options: Options,
    limits: Limits,
) -> Solution:
    gram = dense_gram(prepared, option("loss", options.loss))
    if is_numpy(gram.sq_dissimilarity):
        # A copy of D, scaled, and tiles of it: a peak of 3.3 was measured at n = 1500.
        require_memory(
            24 * prepared.n**2,
            f"{option('loss', options.loss)} of {prepared.n} objects",
            f"use {option('loss', 'squared')}, or LandmarkNeucMDS, which takes any loss",
        )
    found = refine_for_loss(
        gram.sq_dissimilarity,
        components,
        options.loss,
        limits,
        solve=solve,
        start=options.start,
        weights=prepared.weights,
        n_init=options.n_init,
        random_state=options.random_state,
    )
    return from_refinement(gram, found, weights=prepared.weights, solver="loss")


def solve_roughly(
    gram: Gram, components: Components, method: str, *, solver: str = "auto"
) -> Spectrum:
    """Compute eigenpairs to start from: the descent that follows mends far more than 1e-3."""
    return solve_for(gram, components, method, solver=solver, tol=1e-3, random_state=0)


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
