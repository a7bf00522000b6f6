"""Where refinement begins, and with which signature: it is the signature that decides the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from os import PathLike

import numpy as np
import numpy.typing as npt

from neucmds._backend import checkpoint_path
from neucmds._backend.arrays import Array, asarray_like
from neucmds._input.components import Components
from neucmds._input.validation import check_flags
from neucmds._methods.exact import MAX_DENSE, exact_selection, exact_weights
from neucmds._methods.geometry import diagonalize
from neucmds._methods.refined.descent import Callback, Keep
from neucmds._methods.refined.losses import check_loss
from neucmds._methods.refined.objective import SMALL, Refined, refine
from neucmds._methods.refined.signatures import (
    count_of_real,
    lowest_end,
    numbers_of_signs,
    steepest_column,
)
from neucmds._methods.selection import Selection, neuc, neuc_plus
from neucmds._methods.stress import stress_terms
from neucmds._operator import Gram
from neucmds._spectrum import Spectrum
from neucmds.errors import InputError, option

Floats = npt.NDArray[np.float64]

# Iterations that tell which of two signatures ends lower; six misled once.
PROBE_ITERATIONS = 10


@dataclass(frozen=True)
class Start:
    """Coordinates, the sign of each, and B @ coordinates where the solver knows it."""

    coordinates: Array
    signs: Floats
    images: Array | None


@dataclass(frozen=True)
class RefineSettings:
    """How far and how to refine; None leaves a choice to the loss.

    Parameters
    ----------
    max_iter : int, optional
        100 for the squared loss, 500 for the others.
    tol : float, optional
        Stop when three iterations together gain less than this share of the loss; 2e-3 for the
        squared loss.
    climb : bool, optional
        Also try signatures with one negative coordinate more or fewer, as long as that helps.
    callback : callable, optional
        Called with the iteration and the loss after every step.
    loss : {"squared", "distance", "relative"}, default="squared"
    n_init : int, optional
        Number of starts, of the losses other than the squared one.
    checkpoint : path, optional
        Of a fit of listed pairs.
    keep : callable, optional
        Told coordinates and signs after every step of the squared loss of all pairs.
    """

    max_iter: int | None = None
    tol: float | None = None
    climb: bool | None = None
    callback: Callback | None = None
    loss: str = "squared"
    n_init: int | None = None
    checkpoint: str | PathLike[str] | None = None
    keep: Keep | None = None

    def __post_init__(self) -> None:
        if self.checkpoint is not None:
            checkpoint_path(self.checkpoint)
        for name, count in (("max_iter", self.max_iter), ("n_init", self.n_init)):
            if count is not None and (
                isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1
            ):
                raise InputError(f"{option(name, count)} must be a whole number of at least 1.")
        if self.tol is not None and (
            not isinstance(self.tol, (int, float)) or not 0 <= self.tol < 1
        ):
            raise InputError(f"{option('tol', self.tol)} must be a number from 0 to 1.")
        if self.climb is not None:
            check_flags(climb=self.climb)
        check_loss(self.loss)

    @property
    def most_iterations(self) -> int:
        """Most iterations of the squared loss."""
        return 100 if self.max_iter is None else self.max_iter

    @property
    def least_gain(self) -> float:
        """Least gain of three iterations of the squared loss."""
        # Against 1e-7 it costs at most 0.6 % of STRESS on the data sets of docs/quality.md, and
        # keeps all of them within 25 products with B.
        return 2e-3 if self.tol is None else self.tol


def best_refined(
    gram: Gram, spectrum: Spectrum, components: Components, settings: RefineSettings
) -> Refined:
    """Refine from eigenvector coordinates with the signature of `neuc+`.

    A signature that was asked for is reached in several ways, up to 2000 objects, and never ends
    above one that it contains (`neucmds._methods.refined.signatures`).

    Should the closed form of `exact`, which may choose another signature, be better than what that
    reaches, refinement goes on from there: up to 2000 objects, and unless the signature is fixed,
    `refined` is never worse than `exact` by construction. Beyond it was not in any measurement.
    """
    if components.signature is not None and gram.n <= MAX_DENSE:
        return _signature_asked_for(gram, spectrum, components.signature, settings)
    if settings.climb and components.signature is None:
        components = _climb(gram, spectrum, components)
    result = _refine(gram, eigenvector_start(spectrum, gram.diagonal(), components), settings)
    # A closed form of fixed signs may leave some without weight; of many objects it takes longer
    # than it is worth.
    if components.signature is not None or gram.n > MAX_DENSE:
        return result
    closed_form = exact_selection(spectrum, gram.diagonal(), components)
    reached = sum(stress_terms(spectrum, gram.diagonal(), closed_form))
    # Less by more than rounding: otherwise the simpler start stays.
    if reached < result.stress - min(1e-12 * gram.moments.sq_norm, 1e-3 * result.stress):
        result = _refine(gram, _closed_form_start(spectrum, closed_form), settings)
    return result


def _signature_asked_for(
    gram: Gram, spectrum: Spectrum, signature: tuple[int, int], settings: RefineSettings
) -> Refined:
    def from_eigenvectors(wanted: tuple[int, int]) -> Refined | None:
        start = eigenvector_start(spectrum, gram.diagonal(), Components(sum(wanted), wanted))
        if start.signs.size < sum(wanted):
            return None
        return _without_null_columns(_refine(gram, start, settings))

    def extended(end: Refined, sign: float) -> Refined | None:
        start = _with_steepest_column(gram, end, sign)
        return None if start is None else _without_null_columns(_refine(gram, start, settings))

    empty = gram.xp.zeros_like(gram.diagonal())[:, None][:, :0]
    nothing = _refine(gram, Start(empty, np.zeros(0), None), settings)
    whole = Components(sum(signature), signature)
    return lowest_end(
        signature,
        numbers_of_signs(eigenvector_start(spectrum, gram.diagonal(), whole).signs),
        nothing,
        lambda end: end.stress,
        from_eigenvectors,
        extended,
        rounding=1e-14 * gram.moments.sq_norm,
    )


def _without_null_columns(refined: Refined) -> Refined:
    """Leave out columns that the descent took all length from; they come last."""
    real = count_of_real(refined.weights)
    return replace(
        refined, coordinates=refined.coordinates[:, :real], weights=refined.weights[:real]
    )


def _with_steepest_column(gram: Gram, end: Refined, sign: float) -> Start | None:
    """Add the column of a sign that lowers STRESS fastest, of the length that lowers it most.

    f falls at the rate t·a·vᵀHv at G + t·a·vvᵀ, with H = C(8E + 4n·Diag(e) + 4Σe·I)C, E = B − G and
    e = diag(E); f being quadratic in G, the second-order term is t²(6 + 2nΣv⁴) for a unit v.
    """
    xp, x = gram.xp, end.coordinates
    signs = np.sign(end.weights)
    a = asarray_like(signs, x)
    e = gram.diagonal() - (x * x) @ a
    pull = (4 * (gram.n * e + xp.sum(e)))[:, None]

    def rate(v: Array) -> Array:
        rest = gram.matmat(v) - x @ (a[:, None] * (xp.matrix_transpose(x) @ v))
        return gram.center(sign * (8 * rest + pull * v))

    found = steepest_column(rate, gram.diagonal())
    if found is None:
        return None
    v, slope = found
    length = slope / (2 * (6 + 2 * gram.n * float(xp.sum(v**4))))
    column = v * float(np.sqrt(length))
    return Start(xp.concat([x, column], axis=1), np.append(signs, sign), None)


def _refine(gram: Gram, start: Start, settings: RefineSettings) -> Refined:
    return refine(
        gram,
        start.coordinates,
        start.signs,
        images=start.images,
        max_iter=settings.most_iterations,
        tol=settings.least_gain,
        callback=settings.callback,
        keep=settings.keep,
    )


def climb(k: int, here: int, probe: Callable[[int], float]) -> Components:
    """Walk to the number of negatives whose STRESS after a short refinement is least.

    STRESS as a function of that number had a single minimum wherever it was measured, and `neuc+`
    starts at it or next to it.

    Parameters
    ----------
    k : int
        Number of coordinates.
    here : int
        Number of negative ones to begin with.
    probe : callable
        STRESS that a number of negatives from 0 to k reaches; infinite where there is none.
    """
    probe = cache(probe)

    def reached(negatives: int) -> float:
        return probe(negatives) if 0 <= negatives <= k else np.inf

    while True:
        best = min((here, here - 1, here + 1), key=reached)
        if best == here:
            return Components(k, (k - here, here))
        here = best


def _climb(gram: Gram, spectrum: Spectrum, components: Components) -> Components:
    def probe(negatives: int) -> float:
        return _short_refinement(gram, spectrum, components.total, negatives)

    here = int(np.sum(neuc_plus(spectrum.ends, components).core < 0))
    return climb(components.total, here, probe)


def _short_refinement(gram: Gram, spectrum: Spectrum, k: int, negatives: int) -> float:
    start = eigenvector_start(spectrum, gram.diagonal(), Components(k, (k - negatives, negatives)))
    if start.signs.size < k:
        return np.inf  # the spectrum does not reach that far
    return _refine(gram, start, RefineSettings(max_iter=PROBE_ITERATIONS)).stress


def eigenvector_start(spectrum: Spectrum, diagonal: Array, components: Components) -> Start:
    """Kept eigenvectors with their exact weights, clamped so that no sign flips.

    Columns that even so have no length are left out: a descent cannot move them.
    """
    if components.signature is None:
        chosen = neuc_plus(spectrum.ends, components)
    else:
        chosen = neuc(spectrum.ends, components)
    signs = np.sign(chosen.core)
    weights = exact_weights(spectrum, diagonal, chosen.kept).core
    floor = 1e-3 * float(np.median(np.abs(weights))) if weights.size else 0.0
    lengths = np.sqrt(np.maximum(signs * weights, floor))
    largest = float(np.max(np.abs(spectrum.ends.values), initial=0.0))
    real = lengths**2 > 1e-14 * largest
    kept, signs, lengths = chosen.kept[real], signs[real], lengths[real]
    u, images = spectrum.take(kept), _images(spectrum, kept)
    scale = asarray_like(lengths, u)[None, :]
    return Start(u * scale, signs, None if images is None else images * scale)


def _images(spectrum: Spectrum, kept: npt.NDArray[np.intp]) -> Array | None:
    """B u as exactly as the descent will multiply: in double precision up to some size."""
    exact = spectrum.complete or int(spectrum.vectors.shape[0]) > SMALL
    return spectrum.images(kept) if exact else None


def _closed_form_start(spectrum: Spectrum, selection: Selection) -> Start:
    weights, rotation = diagonalize(selection.core)
    u, images = spectrum.take(selection.kept), _images(spectrum, selection.kept)
    turn = asarray_like(rotation * np.sqrt(np.abs(weights)), u)
    return Start(u @ turn, np.sign(weights), None if images is None else images @ turn)
