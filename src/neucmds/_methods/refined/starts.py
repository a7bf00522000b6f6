"""Starts of the squared loss, and their signature, which decides where the descent ends."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds._backend.arrays import Array, asarray_like, to_numpy
from neucmds._input import Components
from neucmds._methods.exact import MAX_DENSE, exact_selection, exact_weights
from neucmds._methods.geometry import diagonalize, stress_terms
from neucmds._methods.refined.descent import Limits, Refined, Start
from neucmds._methods.refined.products import in_memory, refine
from neucmds._methods.refined.signatures import WORTH, lowest_end, with_steepest_column
from neucmds._methods.selection import Selection, neuc, neuc_plus
from neucmds._operator import Gram
from neucmds._spectrum import Spectrum
from neucmds.errors import InputError, option

# Up to this many objects the signature (k, 0) is tried as well.
FEWER_OBJECTS = 100


def as_start(init: Any) -> Start:
    """Take a warm start: an embedding, or coordinates and signs."""
    if hasattr(init, "coordinates") and hasattr(init, "signs"):
        coordinates, signs = init.coordinates, init.signs
    elif isinstance(init, (tuple, list)) and len(init) == 2:
        coordinates, signs = init
    else:
        raise InputError(
            f"{option('init')} is {type(init).__name__}; pass a number of starts, an Embedding, or "
            "(coordinates, signs)."
        )
    x, a = to_numpy(coordinates), to_numpy(signs)
    if x.ndim != 2 or a.shape != x.shape[1:] or not np.all(np.abs(a) == 1):
        raise InputError(
            f"{option('init')} has coordinates of shape {x.shape} and signs of shape {a.shape}; "
            "pass (n, k) and k signs of ±1."
        )
    if not np.all(np.isfinite(x)):
        raise InputError(f"{option('init')} has coordinates that are not finite.")
    if x.size and not np.any(x - x[:1]):
        raise InputError(
            f"{option('init')} has all {x.shape[0]} objects in one place; spread them."
        )
    return Start(coordinates, a.astype(np.float64))


def best_refined(gram: Gram, spectrum: Spectrum, components: Components, limits: Limits) -> Refined:
    """Refine from eigenvector coordinates, with the signature of `neuc+` or the requested one.

    Up to 2000 objects the result is never above `exact`, and a requested signature never above one
    that it contains (`lowest_end`). Up to 100 objects (k, 0) is tried as well.
    """
    start_of = partial(eigenvector_start, spectrum, gram.diagonal())
    if gram.n > MAX_DENSE:
        return refine(gram, start_of(components), limits)
    if components.signature is None:
        result = refine(gram, start_of(components), limits)
    else:
        result = lowest_end(
            components.signature,
            start_of,
            partial(with_steepest_column, in_memory(gram)),
            partial(refine, gram, limits=limits),
        )
    closed_form = exact_selection(spectrum, gram.diagonal(), components)
    reached = sum(stress_terms(spectrum, gram.diagonal(), closed_form))
    # Less by more than rounding: otherwise the simpler start stays.
    if reached < result.value - min(1e-12 * gram.moments.sq_norm, 1e-3 * result.value):
        result = refine(gram, _closed_form_start(spectrum, closed_form), limits)
    if components.signature is None and gram.n <= FEWER_OBJECTS:
        euclidean = Components(components.total, (components.total, 0))
        quiet = replace(limits, callback=None, keep=None)
        other = best_refined(gram, spectrum, euclidean, quiet)
        result = other if other.value < (1 - WORTH) * result.value else result
    return result


def eigenvector_start(spectrum: Spectrum, diagonal: Array, components: Components) -> Start:
    """Kept eigenvectors with exact weights, clamped so that no sign flips; no null columns."""
    if components.signature is None:
        chosen = neuc_plus(spectrum, components)
    else:
        chosen = neuc(spectrum, components)
    signs = np.sign(chosen.core)
    weights = exact_weights(spectrum, diagonal, chosen.kept).core
    floor = 1e-3 * float(np.median(np.abs(weights))) if weights.size else 0.0
    lengths = np.sqrt(np.maximum(signs * weights, floor))
    largest = float(np.max(np.abs(spectrum.values), initial=0.0))
    real = lengths**2 > 1e-14 * largest
    kept, signs, lengths = chosen.kept[real], signs[real], lengths[real]
    mixed = _untied(spectrum, kept)
    u = spectrum.take(kept) if mixed is None else mixed
    return Start(u * asarray_like(lengths, u)[None, :], signs)


def _untied(spectrum: Spectrum, kept: npt.NDArray[np.intp]) -> Array | None:
    """Mix eigenvectors with all that share their eigenvalues; None if no eigenvalue is repeated.

    A solver's own choice may be symmetric, and the descent cannot leave that symmetry.
    """
    lam = spectrum.values
    same = np.abs(lam[:, None] - lam[None, kept]) <= spectrum.null_level
    tied = np.any(np.sum(same, axis=0) > np.sum(same[kept], axis=0))
    if not tied or not spectrum.complete:
        return None
    mixing = same * np.random.default_rng(0).standard_normal(same.shape)
    return spectrum.vectors @ asarray_like(np.linalg.qr(mixing)[0], spectrum.vectors)


def _closed_form_start(spectrum: Spectrum, selection: Selection) -> Start:
    weights, rotation = diagonalize(selection.core)
    u = spectrum.take(selection.kept)
    turn = asarray_like(rotation * np.sqrt(np.abs(weights)), u)
    return Start(u @ turn, np.sign(weights))
