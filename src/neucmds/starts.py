"""Where refinement begins, and with which signature: it is the signature that decides the end."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neucmds.arrays import Array, asarray_like
from neucmds.coordinates import diagonalize
from neucmds.descent import Callback
from neucmds.exact import exact_selection, exact_weights
from neucmds.gram import Gram
from neucmds.refine import Refined, refine
from neucmds.selection import Components, Selection, neuc, neuc_plus
from neucmds.spectrum import Spectrum
from neucmds.stress import kept_vectors, stress_terms

__all__ = ["best_refined", "eigenvector_start"]

Floats = npt.NDArray[np.float64]


def best_refined(
    gram: Gram,
    spectrum: Spectrum,
    components: Components,
    *,
    max_iter: int = 100,
    tol: float = 5e-4,
    callback: Callback | None = None,
) -> Refined:
    """Refine from eigenvector coordinates with the signature of `neuc+` (or the one asked for).

    Should the closed form of `exact`, which may choose another signature, be better than what that
    reaches, refinement goes on from there: `refined` is never worse than `exact`.
    """
    settings = {"max_iter": max_iter, "tol": tol, "callback": callback}
    x, signs = eigenvector_start(spectrum, gram.diagonal(), components)
    result = refine(gram, x, signs, **settings)  # type: ignore[arg-type]
    closed_form = exact_selection(spectrum, gram.diagonal(), components)
    if sum(stress_terms(spectrum, gram.diagonal(), closed_form)) < result.stress:
        x, signs = _coordinates(spectrum, closed_form)
        result = refine(gram, x, signs, **settings)  # type: ignore[arg-type]
    return result


def eigenvector_start(
    spectrum: Spectrum, diagonal: Array, components: Components
) -> tuple[Array, Floats]:
    """Kept eigenvectors with their exact weights, clamped so that no sign flips."""
    if components.signature is None:
        chosen = neuc_plus(spectrum.ends, components)
    else:
        chosen = neuc(spectrum.ends, components)
    signs = np.sign(chosen.core)
    weights = exact_weights(spectrum, diagonal, chosen.kept).core
    floor = 1e-3 * float(np.median(np.abs(weights)))
    lengths = np.sqrt(np.maximum(signs * weights, floor))
    u = kept_vectors(spectrum, chosen)
    return u * asarray_like(lengths, u)[None, :], signs


def _coordinates(spectrum: Spectrum, selection: Selection) -> tuple[Array, Floats]:
    weights, rotation = diagonalize(selection.core)
    u = kept_vectors(spectrum, selection)
    return u @ asarray_like(rotation * np.sqrt(np.abs(weights)), u), np.sign(weights)
