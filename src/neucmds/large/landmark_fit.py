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
        squared one, which have no such choice, it shrinks negative coordinates by the noise of each
        object. "least_squares" has no ridge, subtracts nothing and shrinks nothing; "linear" is
        plain triangulation.
    """
    fold_options = replace(options, init=None, callback=None)
    if options.method == "refined":
        # Rules differ by more than what a lower tolerance gains.
        fold_options = replace(fold_options, tol=TOL)

    def embed(
        sq_among: Array,
        n_components: NComponents,
        options: Options = fold_options,
    ) -> Embedding:
        """Embed some landmarks in so many coordinates."""
        gram = DenseGram(np.ascontiguousarray(sq_among))
        return fit(
            Dense(gram, squared=options.squared),
            replace(options, n_components=n_components),
        )

    size = options.n_components
    checked_size(size, sq_dissimilarity.shape[0])
    if isinstance(size, GOALS):
        # A quality, or "auto": as many coordinates as the landmarks need.
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
        if placement == "auto" and isinstance(rule, LossPlacement):
            embedding = replace(
                embedding, placement=replace(rule, shrinkage=SHRINKAGE)
            )
        return embedding, None
    recipe = Recipe(0.0, False, size)  # "least_squares"
    if placement == "auto":
        rng = check_random_state(options.random_state)
        recipe = cross_validated(
            sq_dissimilarity, size, options.method, rng, embed
        )
    embedding = embed(sq_dissimilarity, recipe.n_components, options)
    rule = least_squares_rule(sq_dissimilarity, embedding, recipe)
    return replace(embedding, placement=rule), recipe
