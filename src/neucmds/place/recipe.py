"""A regularised placement rule, chosen on landmarks that are held out.

Plain triangulation divides by small eigenvalues and repeats the misfit of the landmarks on every
object. The rule here

- takes least squares on the object's own dissimilarities;
- fits the misfit E = D − D̂ among landmarks by b_i + b_j, and may subtract b_j from dissimilarities
  to landmark j;
- adds a ridge: a coordinate of length² s among L landmarks has variance s/L, and with noise σ² in
  each dissimilarity it is known to σ²/4s, so the ridge is g·(σ²/4)·(L/s).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds.place.rules import SHRINKAGE, SQUARED, LinearPlacement, LossPlacement

Floats = npt.NDArray[Any]
NComponents = int | tuple[int, int]
# fit(sq_dissimilarity, n_components, method) returns an `Embedding`.
Fit = Callable[[Floats, NComponents, str], Any]

PLACEMENTS = ("auto", "least_squares", "linear")

# Ridges tried, and how many landmarks take part: five eigensolves of 1200 objects are about 2 s.
RIDGES = (0.1, 0.0, 0.3, 1.0, 3.0)
FOLDS = 5
MOST_VALIDATED = 1500
# Components and method that give a second signature with k coordinates.
OTHER_SIGNATURES: dict[str, Callable[[int], tuple[NComponents, str]]] = {
    "neuc": lambda k: (k, "neuc+"),
    "refined": lambda k: ((k, 0), "refined"),
}


@dataclass(frozen=True)
class Recipe:
    """Parameters of a least-squares placement.

    `ridge` is g, `subtract_misfit` whether the landmarks' own misfit b is subtracted, and
    `n_components` the signature of the landmark embedding.
    """

    ridge: float
    subtract_misfit: bool
    n_components: NComponents


def least_squares_rule(sq_dissimilarity: Floats, embedding: Any, recipe: Recipe) -> LossPlacement:
    """Make the placement rule of a recipe from the landmarks' own misfit."""
    x = np.asarray(embedding.coordinates, dtype=np.float64)
    n, k = x.shape
    errors = np.asarray(
        sq_dissimilarity - embedding.dissimilarities(squared=True), dtype=np.float64
    )
    offsets = misfit(errors) if recipe.subtract_misfit else np.zeros(n)
    # n²/2 dissimilarities were fitted by nk numbers
    freedom = max(1 - 2 * k / n, 0.05)
    noise = float(np.mean((errors - offsets[None, :]) ** 2)) / freedom
    lengths = np.maximum(np.sum(x * x, axis=0), np.finfo(np.float64).tiny)
    ridge = recipe.ridge * (noise / 4) * (n / lengths)
    return LossPlacement(embedding.coordinates, embedding.form, SQUARED, SHRINKAGE, offsets, ridge)


def linear_rule(sq_dissimilarity: Floats, embedding: Any) -> LinearPlacement:
    """Make the rule of plain triangulation: x solves XAx = −½C(δ − mean) by least squares."""
    if isinstance(embedding.placement, LinearPlacement):
        return embedding.placement
    x = np.asarray(embedding.coordinates, dtype=np.float64)
    projector = np.linalg.pinv(x * np.asarray(embedding.signs), rcond=1e-6).T
    return LinearPlacement(np.asarray(sq_dissimilarity).mean(axis=0), projector)


def misfit(errors: Floats) -> Floats:
    """Return the b of the least-squares fit E_ij ≈ b_i + b_j off the diagonal (n > 2)."""
    n = len(errors)
    sums = errors.sum(axis=0)
    return np.asarray((sums - sums.sum() / (2 * (n - 1))) / max(n - 2, 1))


def cross_validated(
    sq_dissimilarity: Floats,
    n_components: NComponents,
    method: str,
    rng: np.random.RandomState,
    fit: Fit,
) -> Recipe:
    """Choose the recipe of least STRESS among landmarks held out, pairs of one fold together."""
    order = rng.permutation(len(sq_dissimilarity))[:MOST_VALIDATED]
    d = sq_dissimilarity[np.ix_(order, order)]
    candidates = list(_candidates(d, n_components, method, fit))
    total = n_components if isinstance(n_components, int) else sum(n_components)
    held_out = min(order.size // FOLDS, order.size - total - 2)
    if held_out < 4:
        return candidates[0]
    stress = np.zeros(len(candidates))
    for fold in range(FOLDS):
        held = np.arange(fold * held_out, (fold + 1) * held_out)
        stress += _held_out_stress(d, held, candidates, method, fit)
        if fold == 0:
            # The better signature shows at once, and a fit without negatives may be slow.
            signature = candidates[int(np.argmin(stress))].n_components
            same = np.array([one.n_components == signature for one in candidates])
            candidates, stress = list(itertools.compress(candidates, same)), stress[same]
    return candidates[int(np.argmin(stress))]


def _candidates(d: Floats, n_components: NComponents, method: str, fit: Fit) -> Iterator[Recipe]:
    """All recipes; the first is used if nothing can be held out."""
    signatures: list[NComponents] = [n_components]
    if isinstance(n_components, int) and method in OTHER_SIGNATURES:
        # Few objects have a wider spectrum than many, and keep too many negatives then.
        wanted, by = OTHER_SIGNATURES[method](n_components)
        own = fit(d, n_components, method).signature
        other = own if own == wanted else fit(d, wanted, by).signature
        if other != own and sum(other) == n_components:
            signatures.append(other)
    # The misfit of refined landmarks is noise.
    subtracted = (False, True) if method == "refined" else (True, False)
    for wanted, subtract, g in itertools.product(signatures, subtracted, RIDGES):
        yield Recipe(g, subtract, wanted)


def _held_out_stress(
    d: Floats, held: npt.NDArray[np.intp], candidates: list[Recipe], method: str, fit: Fit
) -> Floats:
    kept = np.setdiff1d(np.arange(len(d)), held)
    known, measured, truth = (d[np.ix_(*ids)] for ids in ((kept, kept), (held, kept), (held, held)))
    fits = {n: fit(known, n, method) for n in {c.n_components for c in candidates}}
    stress = []
    for recipe in candidates:
        fitted = fits[recipe.n_components]
        placed = least_squares_rule(known, fitted, recipe).place(measured)
        errors = fitted.form.residuals(placed, placed, truth)
        stress.append(float(np.sum(errors**2)))
    return np.asarray(stress)
