"""Embed landmarks from all their pairs, with the rule that places others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from sklearn.utils import check_random_state

from neucmds.backend.arrays import Array
from neucmds.dense_fit import fit
from neucmds.embedding import Embedding
from neucmds.options import Options, check_support
from neucmds.place.recipe import (
    Recipe,
    cross_validated,
    least_squares_rule,
    linear_rule,
)
from neucmds.place.rules import SHRINKAGE, LossPlacement
from neucmds.problem.components import GOALS, NComponents, checked_size
from neucmds.problem.dense import Dense
from neucmds.refine.descent import TOL
from neucmds.spectrum.operators.dense import DenseGram


def embed_landmarks(
    sq_dissimilarity: Array, options: Options, placement: str = "auto"
) -> tuple[Embedding, Recipe | None]:
    """Return the embedding of landmarks, with the rule that places other objects, and its recipe.

    The recipe is None if the rule has no choices: linear, or by a loss other than the squared one.

    Parameters
    ----------
    sq_dissimilarity : ndarray of shape (L, L)
        Squared dissimilarities among the landmarks.
    options : Options
        `random_state` also draws the folds of landmarks that are held out; the callback is told
        only of the embedding of all landmarks.
    placement : {"auto", "least_squares", "linear"}
        "auto" chooses a recipe on landmarks that are held out: the ridge, whether the landmarks'
        misfit is subtracted, and for "neuc" and "refined" the signature. With losses other than the
        squared one there is no such choice: by relative losses it shrinks negative coordinates by
        the noise of each object, by "relative" in closed form, without a descent on the loss.
        "least_squares" has no ridge and subtracts nothing. By the squared loss it shrinks all
        coordinates by the noise of each object, as "auto" does; by other losses it shrinks nothing.
        "linear" is plain triangulation.
    """
    fold_options = replace(options, init=None, callback=None)
    if options.method == "refined":
        # Folds only rank recipes: the usual tolerance will do, whatever the user asks for.
        fold_options = replace(fold_options, tol=TOL)

    def embed(
        sq_among: Array,
        n_components: NComponents,
        settings: Options = fold_options,
    ) -> Embedding:
        """Embed landmarks in so many coordinates; some of them, without an init, by default."""
        gram = DenseGram(np.ascontiguousarray(sq_among))
        return fit(
            Dense(gram, squared=settings.squared),
            replace(settings, n_components=n_components),
        )

    size = options.n_components
    checked_size(size, sq_dissimilarity.shape[0])
    if isinstance(size, GOALS):
        # A quality, or "auto": `requested` is the number of coordinates that it needs.
        size = embed(sq_dissimilarity, size).requested
    if placement == "linear":
        check_support(options, "linear placement")
        embedding = embed(sq_dissimilarity, size, options)
        return replace(
            embedding, placement=linear_rule(sq_dissimilarity, embedding)
        ), None
    if options.loss != "squared":
        embedding = embed(sq_dissimilarity, size, options)
        rule = embedding.placement
        # `OrdinalPlacement` has no shrinkage.
        if placement == "auto" and isinstance(rule, LossPlacement):
            rule = replace(rule, shrinkage=SHRINKAGE)
            if rule.loss.name == "relative" and rule.form.is_bilinear:
                # A descent on the loss itself undoes the shrinkage and follows noise: recall of new
                # strings is 0.73 after it, and 0.87 before; without negative coordinates, the share
                # of closest strings found 0.83 and 0.89.
                rule = replace(rule, loss=rule.loss.beginning)
            embedding = replace(embedding, placement=rule)
        return embedding, None
    # That of "least_squares".
    recipe = Recipe(ridge=0.0, subtract_misfit=False, n_components=size)
    if placement == "auto":
        rng = check_random_state(options.random_state)
        recipe = cross_validated(
            sq_dissimilarity, size, options.method, rng, embed
        )
    embedding = embed(sq_dissimilarity, recipe.n_components, options)
    rule = least_squares_rule(sq_dissimilarity, embedding, recipe)
    return replace(embedding, placement=rule), recipe
