"""Fit a prepared D, by eigenpairs or by descent."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import sqrt

from sklearn.utils import check_random_state

from neucmds.backend.arrays import Array, is_numpy, min_and_max
from neucmds.backend.memory import require_memory
from neucmds.embedding import Embedding
from neucmds.embedding.build import from_descent, from_selection
from neucmds.errors import (
    ConvergenceWarning,
    FewerComponentsWarning,
    InputError,
    NonEuclideanWarning,
    OverfitWarning,
    option,
)
from neucmds.form import kappa_of
from neucmds.options import Options, notify
from neucmds.prepared import dense_gram, refuse_weights
from neucmds.problem.components import AUTO, Components
from neucmds.problem.dense import Dense
from neucmds.problem.weights import refuse_parts_of
from neucmds.refine.descent import FEW_OBJECTS, Keep, Limits
from neucmds.refine.gaps import Weighted, complete_and_refine
from neucmds.refine.loss_starts import refine_for_loss
from neucmds.refine.pairwise import minimize
from neucmds.refine.products import refine
from neucmds.refine.scouting import mean_distance, scout
from neucmds.refine.starts import best_refined
from neucmds.refine.tiles import Tiles
from neucmds.spectrum.exact import exact_selection
from neucmds.spectrum.selection import METHODS, neuc_plus
from neucmds.spectrum.solve import EIGENPAIR_TOL, solve_for
from neucmds.spectrum.spectrum import Spectrum

# A fit of sampled pairs overfits if the loss of held-out ones is larger by this factor.
OVERFIT = 2.0


@dataclass(frozen=True, eq=False)
class Fit:
    """An embedding, its eigenpairs (squared loss without weights), and D if all pairs were used."""

    embedding: Embedding
    spectrum: Spectrum | None = None
    prepared: Dense | None = None


def fit(prepared: Dense, options: Options, keep: Keep | None = None) -> Fit:
    """Embed a prepared D; `keep` is called with coordinates and signs after every step."""
    gram, method, start = prepared.gram, options.method, options.init
    components = Components.parse(options.n_components, gram.n)
    limits = replace(options.limits(gram.n), keep=keep)
    if method != "refined":
        refuse_weights(prepared, option("method", method), f"use {option('method', 'refined')}")
    if start is not None and int(start.coordinates.shape[0]) != gram.n:
        raise InputError(
            f"{option('init')} has coordinates of {int(start.coordinates.shape[0])} objects, but D "
            f"has {gram.n}."
        )
    free, spectrum = prepared.weights is not None or start is not None, None
    # Where D is zero, so is every loss, without any coordinate.
    if free or (options.loss != "squared" and gram.moments.sq_norm > 0):
        notify(options.callback, f"embedding by {method}")
        embedding = _free_coordinates(prepared, components, options, limits)
    else:
        notify(options.callback, f"computing the spectrum of {gram.n:,} objects")
        tol = EIGENPAIR_TOL if options.tol is None or method == "refined" else options.tol
        seed = options.random_state
        spectrum = solve_for(gram, components, method, tol=tol, random_state=seed)
        notify(options.callback, f"embedding by {method}")
        embedding = embed_spectrum(prepared, spectrum, components, method, limits)
    return Fit(embedding, spectrum, prepared)


def embed_spectrum(
    prepared: Dense,
    spectrum: Spectrum,
    components: Components,
    method: str,
    limits: Limits | None = None,
) -> Embedding:
    """Embed from a spectrum that is already there: one solve serves every method and every k.

    Parameters are those of `neuc_mds`; `limits` are for "refined".
    """
    gram, k = prepared.gram, components.total
    if method == "refined" and (components.signature or neuc_plus(spectrum, components).kept.size):
        refined = best_refined(gram, spectrum, components, limits or Limits.of("squared", gram.n))
        return from_descent(prepared, refined, k, spectrum=spectrum)
    if method in METHODS:
        selection = METHODS[method](spectrum, components)
    else:
        selection = exact_selection(spectrum, gram.diagonal(), components)
    return from_selection(prepared, spectrum, selection, method, k)


def _free_coordinates(
    prepared: Dense, components: Components, options: Options, limits: Limits
) -> Embedding:
    """Refine where there is no closed form to begin with: weights, gaps, other losses, a start."""
    start, weights = options.init, prepared.weights
    if weights is not None and start is None:
        refuse_parts_of(weights, prepared.labels)
    if options.loss != "squared":
        return _least_loss(prepared, components, options, limits)
    if weights is None:
        end = refine(prepared.gram, start, limits)
        return from_descent(prepared, end, components.total)
    gram = dense_gram(prepared, "weights")
    if start is not None:
        tiles = Tiles.of(gram.sq_dissimilarity, "squared", weights=weights)
        found = minimize(tiles, start, limits)
    else:
        found = complete_and_refine(
            Weighted(gram.sq_dissimilarity, weights),
            components,
            limits,
            random_state=options.random_state,
        )
    return from_descent(prepared, found, components.total, solver="weighted")


def _least_loss(
    prepared: Dense, components: Components, options: Options, limits: Limits
) -> Embedding:
    gram = dense_gram(prepared, option("loss", options.loss))
    if is_numpy(gram.sq_dissimilarity):
        # A scaled copy of D, and tiles of it.
        require_memory(
            24 * prepared.n**2,
            f"{option('loss', options.loss)} of {prepared.n} objects",
            f"use {option('loss', 'squared')}, or LandmarkNeucMDS, which takes any loss",
        )
    D, weights = gram.sq_dissimilarity, prepared.weights
    components, curvature = scouted(lambda: D, prepared.n, components, options, weights)
    unit = mean_distance(D, weights)
    notify(options.callback, f"comparing starts and signatures by the {options.loss} loss")
    found = refine_for_loss(
        D,
        components,
        options.loss,
        limits,
        start=options.init,
        weights=weights,
        n_init=options.n_init,
        floor=options.floor,
        curvature=kappa_of(curvature, unit, sqrt(min_and_max(D)[1])),
        random_state=options.random_state,
    )
    return from_descent(prepared, found, components.total, solver="loss", mean_distance=unit)


def scouted(
    squares: Callable[[], Array] | None,
    n: int,
    components: Components,
    options: Options,
    weights: Array | None = None,
) -> tuple[Components, float]:
    """Choose curvature and signature, if free, by short descents on `squares()`, some of D.

    The fit itself chooses the signature of few objects.
    """
    curvature, free = options.curvature, options.n_init is None and options.init is None
    many = n > FEW_OBJECTS and free and components.signature is None and options.loss != "squared"
    if squares is None or not (many or curvature == AUTO):
        return components, float(curvature)
    seed = int(check_random_state(options.random_state).randint(2**31))
    if curvature == AUTO:
        notify(options.callback, "looking for the curvature")
    signature, chosen = scout(
        squares(),
        components,
        options.loss,
        curvature=AUTO if curvature == AUTO else float(curvature),
        weights=weights,
        floor=options.floor,
        seed=seed,
    )
    if many:
        components = Components(components.total, signature)
    return components, chosen


def warn_of_surprises(embedding: Embedding) -> None:
    """Warn where a fit did not converge, overfits, or has fewer coordinates than requested."""
    info = embedding.info
    found: list[tuple[str, type[Warning]]] = []
    if not info.converged and info.history:
        gradient = f"relative gradient {info.relative_gradient:.2g}"
        text = f"the fit stopped before it converged ({gradient}); raise {option('max_iter')}."
        found.append((text, ConvergenceWarning))
    elif not info.converged:
        worst = float(max(info.residuals))
        text = f"the {info.solver} solver did not converge (largest residual {worst:.2g})"
        found.append((f"{text}; raise {option('tol')}.", ConvergenceWarning))
    if info.held_out_pairs and embedding.loss_value > OVERFIT * info.history[-1]:
        times = embedding.loss_value / info.history[-1]
        text = f"the loss of held-out pairs is {times:.2g} times that of fitted ones"
        text += f", and the estimated R² of all pairs is {embedding.r2:.2f}"
        advice = f"raise {option('n_pairs')}, or lower {option('n_components')}"
        found.append((f"{text}; {advice}.", OverfitWarning))
    if embedding.k != embedding.requested:
        category: type[Warning] = FewerComponentsWarning
        text = "the other eigenvalues are zero, have the wrong sign, or lose their weight by the "
        text += "shift of 'neuc+'"
        if info.hidden_below:
            text = f"rounding hides eigenvalues below {info.hidden_below:.2g}; look for huge "
            text += "entries in D, and correct or remove them"
        elif embedding.method in ("classical", "lower"):
            category = NonEuclideanWarning
            text = f"{option('method', embedding.method)} can use no more positive eigenvalues; "
            text += "'neuc+' and 'exact' keep negative ones too"
        elif info.solver == "weighted":
            text = "more do not improve the fit, or predict held-out entries worse"
        elif embedding.method == "refined":
            text = "another one of these signs does not lower the STRESS"
        count = f"{embedding.k} of {embedding.requested} coordinates are returned"
        found.append((f"{count}: {text}.", category))
    for text, category in found:
        # Two frames up: the caller of `neuc_mds`.
        warnings.warn(text, category, stacklevel=3)
