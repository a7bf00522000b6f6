"""A regularised placement rule, chosen on landmarks that are held out.

Plain triangulation divides by small eigenvalues, and gives every object the misfit of the
landmarks. The rule here

- takes least squares on the object's own dissimilarities;
- fits the misfit E = D − D̂ among landmarks by b_i + b_j, and may subtract b_j from dissimilarities
  to landmark j;
- adds a ridge: a coordinate whose squares sum to s over L landmarks has variance s/L, and noise of
  variance σ² in each squared dissimilarity makes it uncertain by σ²/(4s), so the ridge is
  g·(σ²/4)·(L/s) with a factor g to choose.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from neucmds.backend.arrays import TINY, Floats, Indices
from neucmds.place.rules import (
    SHRINKAGE,
    LinearPlacement,
    LossPlacement,
)
from neucmds.problem.components import Size
from neucmds.refine.losses import SQUARED
from neucmds.refine.signatures import best_negatives

# fit(sq_dissimilarity, n_components) returns an `Embedding`, which this module cannot import.
Fit = Callable[[Floats, Size], Any]

PLACEMENTS = ("auto", "least_squares", "linear")

# Factors g that are tried; the first is used if nothing can be held out.
RIDGES = (0.1, 0.0, 0.3, 1.0, 3.0)
# Folds of landmarks that are held out.
FOLDS = 5
# Landmarks that take part: 5 folds of 1200 fitted ones take about 2 s.
MOST_VALIDATED = 1500


@dataclass(frozen=True)
class Recipe:
    """Parameters of a least-squares placement.

    `ridge` is g, `subtract_misfit` whether the landmarks' own misfit b is subtracted, and
    `n_components` the signature of the landmark embedding.
    """

    ridge: float
    subtract_misfit: bool
    n_components: Size


def least_squares_rule(
    sq_dissimilarity: Floats, embedding: Any, recipe: Recipe
) -> LossPlacement:
    """Return the placement rule of a recipe, for landmarks (L, L) and their embedding."""
    x = np.asarray(embedding.coordinates, dtype=np.float64)
    n, k = x.shape
    fitted = embedding.dissimilarities(squared=True)
    errors = np.asarray(sq_dissimilarity - fitted, dtype=np.float64)
    offsets = np.zeros(n)
    if recipe.subtract_misfit:
        offsets = misfit(errors)
    # n²/2 dissimilarities were fitted by nk numbers: the share 1 − 2k/n of the noise is left. It is
    # kept away from zero where landmarks are few.
    freedom = max(1 - 2 * k / n, 0.05)
    noise = float(np.mean((errors - offsets[None, :]) ** 2)) / freedom
    sq_lengths = np.maximum(np.sum(x * x, axis=0), TINY)
    ridge = recipe.ridge * (noise / 4) * (n / sq_lengths)
    return LossPlacement(
        embedding.coordinates,
        embedding.form,
        SQUARED,
        SHRINKAGE,
        offsets,
        ridge,
    )


def linear_rule(sq_dissimilarity: Floats, embedding: Any) -> LinearPlacement:
    """Return the rule of plain triangulation: x solves XAx = −½C(δ − mean) by least squares.

    X has the landmarks' coordinates, A their signs, and δ an object's squared dissimilarities.
    """
    if isinstance(embedding.placement, LinearPlacement):
        return embedding.placement
    x = np.asarray(embedding.coordinates, dtype=np.float64)
    projector = np.linalg.pinv(x * np.asarray(embedding.signs), rcond=1e-6).T
    return LinearPlacement(
        np.asarray(sq_dissimilarity).mean(axis=0), projector
    )


def misfit(errors: Floats) -> Floats:
    """Return the b of the least-squares fit E_ij ≈ b_i + b_j off the diagonal (n > 2)."""
    n = len(errors)
    sums = errors.sum(axis=0)
    return np.asarray((sums - sums.sum() / (2 * (n - 1))) / max(n - 2, 1))


def cross_validated(
    sq_dissimilarity: Floats,
    n_components: Size,
    method: str,
    rng: np.random.RandomState,
    fit: Fit,
) -> Recipe:
    """Choose the recipe of least STRESS over pairs of landmarks that are held out together."""
    order = rng.permutation(len(sq_dissimilarity))[:MOST_VALIDATED]
    sq_d = sq_dissimilarity[np.ix_(order, order)]
    k = int(np.sum(n_components))
    fold_size = min(order.size // FOLDS, order.size - k - 2)
    # Six pairs per fold are the fewest to choose by.
    if fold_size < 4:
        return _recipes(n_components, method)[0]
    folds = np.arange(FOLDS * fold_size).reshape(FOLDS, fold_size)

    def least_stress(negatives: int) -> float:
        """Return that of the best recipe with so many negative coordinates, on one fold."""
        recipes = _recipes((k - negatives, negatives), method)
        stress = _held_out_stress(sq_d, folds[0], recipes, fit)
        return float(np.min(stress))

    if isinstance(n_components, int) and method in ("neuc", "refined"):
        # The spectrum of few objects is wider than that of many, and has too many negatives: fewer
        # are tried.
        most = fit(sq_d, k).signature[1]
        negatives = best_negatives(least_stress, most, most)
        if negatives != most:
            n_components = (k - negatives, negatives)
    recipes = _recipes(n_components, method)
    stress = sum(_held_out_stress(sq_d, fold, recipes, fit) for fold in folds)
    return recipes[int(np.argmin(stress))]


def _recipes(n_components: Size, method: str) -> list[Recipe]:
    """Return all recipes of a signature; the first is used if nothing can be held out."""
    # "refined" leaves no systematic misfit to subtract, closed forms do: that comes first.
    is_refined = method == "refined"
    return [
        Recipe(g, subtract_misfit, n_components)
        for subtract_misfit in (not is_refined, is_refined)
        for g in RIDGES
    ]


def _held_out_stress(
    sq_d: Floats,
    fold: Indices,
    recipes: list[Recipe],
    fit: Fit,
) -> Floats:
    """Return the STRESS of pairs in a fold, placed by each recipe of one signature.

    The landmarks outside of the fold are fitted.
    """
    others = np.setdiff1d(np.arange(len(sq_d)), fold)
    among_others = sq_d[np.ix_(others, others)]
    among_fold = sq_d[np.ix_(fold, fold)]
    to_others = sq_d[np.ix_(fold, others)]
    embedding = fit(among_others, recipes[0].n_components)
    stress = []
    for recipe in recipes:
        rule = least_squares_rule(among_others, embedding, recipe)
        placed = rule.place(to_others)
        errors = embedding.form.residuals(placed, placed, among_fold)
        stress.append(float(np.sum(errors**2)))
    return np.asarray(stress)
