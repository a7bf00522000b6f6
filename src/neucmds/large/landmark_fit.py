"""Embed landmarks from all their pairs, with the rule that places others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from sklearn.utils import check_random_state

from neucmds.backend.arrays import Array
from neucmds.dense_fit import fit
from neucmds.embedding import Embedding
from neucmds.errors import InputError, option
from neucmds.options import Options
from neucmds.place.recipe import (
    Recipe,
    cross_validated,
    least_squares_rule,
    linear_rule,
)
from neucmds.place.rules import SHRINKAGE, LossPlacement
from neucmds.problem.components import GOALS, NComponents, checked_size
from neucmds.problem.dense import Dense
from neucmds.spectrum.operators.dense import DenseGram


def embed_landmarks(
    sq_dissimilarity: Array, options: Options, placement: str = "auto"
) -> tuple[Embedding, Recipe | None]:
    """Embed landmarks; return them with the rule that places others, and how it was made.

    Parameters
    ----------
    sq_dissimilarity : ndarray of shape (L, L)
        Squared dissimilarities among the landmarks.
    options : Options
        The callback does not hear of the folds, which `random_state` draws.
    placement : {"auto", "least_squares", "linear"}
        "auto" chooses the ridge, the offsets and, of "neuc" and "refined", one of two signatures
        on landmarks held out, and holds negative coordinates of the relative loss by the noise of
        each object; "least_squares" has none of these; "linear" is plain triangulation.
    """
    method = options.method
    quiet = replace(options, init=None, callback=None)

    def embed(
        part: Array,
        n_components: NComponents,
        method: str,
        asked: Options = quiet,
    ) -> Embedding:
        gram = DenseGram(np.ascontiguousarray(part))
        return fit(
            Dense(gram, squared=options.squared),
            replace(asked, n_components=n_components, method=method),
        )

    wanted = options.n_components
    checked_size(wanted, sq_dissimilarity.shape[0])
    if isinstance(wanted, GOALS):
        # The landmarks are few, and chosen for all: what they need is what all need.
        wanted = embed(sq_dissimilarity, wanted, method).requested
    if placement == "linear":
        if options.curvature:
            raise InputError(
                f"{option('placement', placement)} is for {option('curvature', 0)}; use "
                f"{option('placement', 'least_squares')}."
            )
        embedding = embed(sq_dissimilarity, wanted, method, options)
        return replace(
            embedding, placement=linear_rule(sq_dissimilarity, embedding)
        ), None
    if options.loss != "squared":
        embedding = embed(sq_dissimilarity, wanted, method, options)
        rule = embedding.placement
        if placement == "auto" and isinstance(rule, LossPlacement):
            embedding = replace(
                embedding, placement=replace(rule, shrinkage=SHRINKAGE)
            )
        return embedding, None
    recipe = Recipe(0.0, False, wanted)
    if placement == "auto":
        rng = check_random_state(options.random_state)
        recipe = cross_validated(sq_dissimilarity, wanted, method, rng, embed)
    embedding = embed(sq_dissimilarity, recipe.n_components, method, options)
    learnt = least_squares_rule(sq_dissimilarity, embedding, recipe)
    return replace(embedding, placement=learnt), recipe
