"""Where the descent on a loss begins, with which signature, and how often.

The squared solution is the best single start (streets, k = 16: .945 of the ten nearest kept after
75 iterations, against .902 after 100 from eigenvectors). At small k there are other
valleys: raw stress over the best of eight SMACOF starts on the shared data (k = 2, 3, 5, 10) is at
most 1.0005 in 60 of 69 rows, 1.118 at worst, with eight starts for k = 2 and 3 only; below 1 in all
72 rows with 32 starts up to 100 objects and 12 up to 600, most of them by way of a smoothed loss.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from neucmds._backend.arrays import Array, asarray_like, is_numpy, namespace, to_numpy
from neucmds._backend.threads import worker_pool
from neucmds._input.components import Components
from neucmds._methods.geometry import sq_dissimilarities
from neucmds._methods.refined.completion import complete_and_refine
from neucmds._methods.refined.descent import Callback
from neucmds._methods.refined.losses import check_defined, check_loss
from neucmds._methods.refined.objective import refine
from neucmds._methods.refined.pair_descent import (
    Limits,
    LossResult,
    PreparedLoss,
    approach,
    gradient_tolerance,
    minimize_prepared,
    prepare,
)
from neucmds._methods.refined.starts import RefineSettings, best_refined, eigenvector_start
from neucmds._operator import DenseGram, Gram
from neucmds._spectrum import Spectrum
from neucmds.errors import InputError, option

Floats = npt.NDArray[np.float64]
Solve = Callable[[Gram, Components, str], Spectrum]

# Share of the loss that three iterations must gain. "distance" is held against SMACOF to 0.05 %, so
# it goes further; for "relative" 2e-3 is enough on digits and streets. Few objects cost little.
DEFAULT_TOL = {"squared": 2e-3, "distance": 1e-4, "relative": 2e-3}
TOL_OF_FEW = 1e-6
# Up to here other signatures, and other starts at small k, are tried unasked.
FEW_OBJECTS = 600
FEW_COORDINATES = 10
STARTS = 12
# Up to so many objects a start takes 20 ms: 32 take less time than eight of SMACOF (48 as long).
FEWER_OBJECTS, MORE_STARTS = 100, 32
# So many of the lowest ends of short descents are followed to where they lead: the order may change
# on the way (GlobalPatterns, k = 3: "relative" needs 100 iterations).
FINALISTS = 5
# Most iterations of a descent that only compares, and its tolerance.
MOST_PROBING = 60
PROBING_TOL = 1e-3
# Further starts by turns: spread about the best so far, in standard deviations of its columns
# (None: anywhere), and the d below which a first descent is smooth, in root mean squares of d. On
# eight rugged rows of the shared data (four seeds) "distance" ended 0.28 % above the lowest value
# seen with 24 starts, none smoothed, half anywhere and half near the best; 0.07 % with 24 of these.
KINDS: tuple[tuple[float | None, float], ...] = ((None, 1.0), (None, 0.3), (None, 1.0), (1.0, 0.0))
# Size of an added column, relative to the others, where the spectrum has too few of a sign.
PADDING = 0.05


@dataclass(frozen=True)
class Place:
    """Coordinates to start from, and their signs."""

    coordinates: Array
    signs: Floats

    @property
    def signature(self) -> tuple[int, int]:
        """Numbers of positive and negative coordinates."""
        negative = int(np.sum(self.signs < 0))
        return self.signs.size - negative, negative


def as_start(init: Any) -> Place | None:
    """Take a warm start: an embedding, or coordinates and signs; None stays None."""
    if init is None:
        return None
    if hasattr(init, "coordinates") and hasattr(init, "signs"):
        coordinates, signs = init.coordinates, init.signs
    elif isinstance(init, (tuple, list)) and len(init) == 2:
        coordinates, signs = init
    else:
        raise InputError(
            f"{option('init')} is {type(init).__name__}; pass an Embedding, or a pair of "
            "coordinates (n, k) and signs (k,)."
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
            f"{option('init')} has all {x.shape[0]} objects in one place, where no direction is "
            "better than another; spread them, or leave it out."
        )
    return Place(coordinates, a.astype(np.float64))


def refine_for_loss(
    sq_dissimilarity: Array,
    components: Components,
    loss: str,
    *,
    solve: Solve,
    start: Place | None = None,
    weights: Array | None = None,
    n_init: int | None = None,
    climb: bool | None = None,
    max_iter: int = 500,
    tol: float | None = None,
    gradient_tol: float | None = None,
    floor: float | None = None,
    random_state: Any = None,
    callback: Callback | None = None,
) -> LossResult:
    """Find coordinates, signature included, at which a loss is least.

    Parameters
    ----------
    sq_dissimilarity : array of shape (n, n)
        D, squared scale; finite where `weights` is zero, too.
    components : Components
        How many coordinates; a signature in it is kept.
    loss : {"squared", "distance", "relative"}
    solve : callable
        ``solve(gram, components, method)`` returns the eigenpairs that a method selects from.
    start : Place, optional
        The only start, instead of the squared solution and others.
    weights : array of shape (n, n), optional
        Symmetric, not negative; multiplies the loss of each pair. Zero: not observed.
    n_init : int, optional
        Starts, the squared solution first. By default, for up to 10 coordinates, 32 for up to 100
        objects and 12 for up to 600, else 1.
    climb : bool, optional
        Whether to walk to the number of negatives where the loss is least. By default for up to
        600 objects.
    max_iter, gradient_tol, floor, callback
        As in `minimize_loss`; the callback hears of the last descent only.
    tol : float, optional
        As in `minimize_loss`; by default 1e-6 for up to 600 objects, beyond 1e-4 for "distance",
        else 2e-3.
    random_state : int, RandomState or None
        Seed of the eigensolver and of the starts.

    Returns
    -------
    LossResult
    """
    check_loss(loss)
    check_defined(sq_dissimilarity, weights, loss)
    if n_init is not None and (not isinstance(n_init, (int, np.integer)) or n_init < 1):
        raise InputError(f"{option('n_init', n_init)} must be a whole number of at least 1.")
    n = int(sq_dissimilarity.shape[0])
    few = n <= FEW_OBJECTS
    if n_init is None:
        n_init = _default_starts(n, components.total)
    rng = check_random_state(random_state)
    problem = prepare(sq_dissimilarity, loss, weights=weights, floor=floor)
    if tol is None:
        tol = TOL_OF_FEW if few else DEFAULT_TOL[loss]
    flat = gradient_tolerance(tol) if gradient_tol is None else gradient_tol
    limits = Limits(max_iter, tol, flat, callback)
    if start is not None:
        return minimize_prepared(problem, start.coordinates, start.signs, limits)
    source = _Source.of(sq_dissimilarity, weights, components, solve, rng)
    if source.spectrum is None:
        return minimize_prepared(problem, source.place.coordinates, source.place.signs, limits)
    rough = max(tol, PROBING_TOL)
    brief = Limits(min(max_iter, MOST_PROBING), rough, max(flat, gradient_tolerance(rough)))
    search = _Search(problem, source, brief)
    place = search.approached(source.place)
    with worker_pool() if is_numpy(problem.d) else nullcontext():
        if (few if climb is None else climb) and components.signature is None:
            place = search.climb(place)
        if n_init > 1:
            place = search.best_of(place, n_init - 1, rng, replace(limits, callback=None))
        return minimize_prepared(problem, place.coordinates, place.signs, limits)


@dataclass(frozen=True)
class _Source:
    """The squared solution, and the spectrum from which it has others with other signs.

    There is none where the gaps allow only a smaller model.
    """

    place: Place
    gram: Gram | None
    spectrum: Spectrum | None

    @classmethod
    def of(
        cls,
        sq_dissimilarity: Array,
        weights: Array | None,
        components: Components,
        solve: Solve,
        rng: Any,
    ) -> _Source:
        xp = namespace(sq_dissimilarity)
        values = xp.astype(sq_dissimilarity, xp.float64, copy=False)
        if weights is not None and _has_gaps(weights):
            found = complete_and_refine(
                values,
                xp.astype(weights, xp.float64, copy=False),
                components,
                solve=lambda gram, wanted: solve(gram, wanted, "neuc+"),
                random_state=rng,
            ).state
            place = Place(found.x, to_numpy(found.signs))
            if place.signs.size < components.total:
                return cls(place, None, None)
            predicted = sq_dissimilarities(found.x, found.x, found.signs)
            values = xp.where(weights > 0, values, predicted)
            # A guess is no distance of an object to itself.
            values = values * (1 - asarray_like(np.eye(values.shape[0]), values))
            values = (values + xp.matrix_transpose(values)) / 2
            gram = DenseGram(values)
            return cls(place, gram, solve(gram, components, "refined"))
        gram = DenseGram(values)
        spectrum = solve(gram, components, "refined")
        refined = best_refined(gram, spectrum, components, RefineSettings())
        signs = np.where(refined.weights < 0, -1.0, 1.0)
        place = _padded(Place(refined.coordinates, signs), components, rng)
        return cls(place, gram, spectrum)

    def with_negatives(self, negatives: int) -> Place | None:
        """Return the squared solution with so many negatives; None if there is none."""
        k = self.place.signs.size
        if not 0 <= negatives <= k or self.gram is None or self.spectrum is None:
            return None
        components = Components(k, (k - negatives, negatives))
        start = eigenvector_start(self.spectrum, self.gram.diagonal(), components)
        place = _padded(
            Place(start.coordinates, start.signs), components, check_random_state(negatives)
        )
        refined = refine(self.gram, place.coordinates, place.signs)
        signs = np.where(refined.weights < 0, -1.0, 1.0)
        return Place(refined.coordinates, signs)


@dataclass(frozen=True)
class _Search:
    """Short descents that compare places."""

    problem: PreparedLoss
    source: _Source
    limits: Limits

    def approached(self, place: Place) -> Place:
        return Place(approach(self.problem, place.coordinates, place.signs), place.signs)

    def descend(self, place: Place) -> LossResult:
        return minimize_prepared(self.problem, place.coordinates, place.signs, self.limits)

    def smoothly(self, place: Place, smoothing: float) -> Place:
        """Descend on a loss with fewer valleys."""
        loss = self.problem.loss.smoothed(smoothing**2 * self.typical)
        smooth = replace(self.problem, loss=loss)
        end = minimize_prepared(smooth, place.coordinates, place.signs, self.limits)
        return Place(end.coordinates, end.signs)

    @cached_property
    def typical(self) -> float:
        """Mean of D over the pairs that count."""
        xp, d, w = namespace(self.problem.d), self.problem.d, self.problem.weights
        n = int(d.shape[0])
        counted = n * (n - 1) if w is None else int(xp.sum(xp.astype(w > 0, xp.int64)))
        return float(xp.sum(d)) / max(1, counted)

    def climb(self, place: Place) -> Place:
        """Walk to the number of negatives whose loss after a short descent is least.

        It had a single minimum on the four sets where all counts up to four were tried.
        """
        here = int(np.sum(place.signs < 0))
        ends: dict[int, LossResult | None] = {here: self.descend(place)}

        def value(negatives: int) -> float:
            if negatives not in ends:
                start = self.source.with_negatives(negatives)
                ends[negatives] = None if start is None else self.descend(self.approached(start))
            end = ends[negatives]
            return np.inf if end is None else end.value

        while True:
            best = min((here, here - 1, here + 1), key=value)
            if best == here:
                break
            here = best
        end = ends[here]
        assert end is not None
        return Place(end.coordinates, end.signs)

    def best_of(self, place: Place, tries: int, rng: Any, limits: Limits) -> Place:
        """Try other starts, most of them anywhere; follow the lowest ends."""
        ends = [self.descend(place)]
        for i in range(tries):
            best = ends[0]
            x = to_numpy(best.coordinates)
            noise = rng.standard_normal(x.shape)
            spread, smoothing = KINDS[i % len(KINDS)]
            anywhere = x.std() * noise if spread is None else x + spread * x.std(axis=0) * noise
            start = Place(asarray_like(anywhere, best.coordinates), best.signs)
            ends.append(self.descend(self.smoothly(start, smoothing) if smoothing else start))
            ends = sorted(ends, key=_value)[:FINALISTS]
        followed = (minimize_prepared(self.problem, e.coordinates, e.signs, limits) for e in ends)
        best = min(followed, key=_value)
        return Place(best.coordinates, best.signs)


def _value(end: LossResult) -> float:
    return end.value


def _default_starts(n: int, k: int) -> int:
    if n > FEW_OBJECTS or k > FEW_COORDINATES:
        return 1
    return MORE_STARTS if n <= FEWER_OBJECTS else STARTS


def _padded(place: Place, components: Components, rng: Any) -> Place:
    """Add small random columns where the spectrum has fewer of a sign than asked for."""
    have = np.array([np.sum(place.signs > 0), np.sum(place.signs < 0)])
    wanted = have if components.signature is None else np.array(components.signature)
    if components.signature is None:
        wanted = np.array([components.total - have[1], have[1]])
    missing = np.maximum(wanted - have, 0)
    if not missing.any():
        return place
    x = to_numpy(place.coordinates)
    size = PADDING * float(x.std()) if x.size else 1.0
    columns = size * rng.standard_normal((x.shape[0], int(missing.sum())))
    signs = np.concatenate([place.signs, np.ones(missing[0]), -np.ones(missing[1])])
    return Place(asarray_like(np.concatenate([x, columns], axis=1), place.coordinates), signs)


def _has_gaps(weights: Array) -> bool:
    """Tell whether a pair of different objects has weight zero."""
    xp, n = namespace(weights), int(weights.shape[0])
    return int(xp.sum(xp.astype(weights > 0, xp.int64))) < n * (n - 1)
