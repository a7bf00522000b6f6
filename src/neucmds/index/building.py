"""Learn coordinates from few distances: a core among itself, then every object's nearest."""

from __future__ import annotations

from dataclasses import replace
from math import isqrt

import numpy as np

from neucmds.backend.arrays import (
    Floats,
    Indices,
    Numbers,
    row_blocks,
    to_numpy,
)
from neucmds.embedding import Embedding
from neucmds.errors import InputError
from neucmds.form import Form
from neucmds.index.answers import Answers, known_nearest
from neucmds.index.search import ROUND, PlacedObjects
from neucmds.large.landmark_fit import embed_landmarks
from neucmds.large.listed import fit_pairs
from neucmds.large.two_levels import BRIEF_ITERATIONS
from neucmds.options import Options
from neucmds.place.rules import LossPlacement
from neucmds.problem.pairs import Pairs
from neucmds.problem.validation import refuse_range
from neucmds.refine.descent import Configuration
from neucmds.refine.losses import PairLoss

# Calls per object for the core, whose objects are compared all with all.
CORE_CALLS = 20


def learn(
    answers: Answers, members: Indices, options: Options
) -> PlacedObjects:
    """Place the objects `members`, by numbers among all; objects below are positions in `members`.

    1. A core of objects is compared all with all and embedded.
    2. Every other object is compared with 2k objects of the core, and placed among these.
    3. Every object is compared with k/2 objects drawn at random, which keep far pairs apart.
    4. Twice, every object is compared with its 3k/2 nearest by D̂, and all descend together on the
       pairs that are known.
    5. Every object is compared with neighbours of its nearest and a few more, so that few are
       without their nearest.
    """
    rng = options.random_state
    n = members.size
    k = options.n_components
    core_size = min(n, max(4 * k, isqrt(2 * CORE_CALLS * n)))
    order = rng.permutation(n)
    core = order[:core_size]
    others = order[core_size:]
    placed = _embedded_core(answers, members[core], options)
    # Fewer if the core has no use for more.
    k = placed.form.signs.size
    x = np.zeros((n, k))
    x[core] = placed.coordinates
    if others.size:
        # Positions in the core, of so many objects one after the other from a random one on.
        count = min(core_size, 2 * k)
        first = rng.randint(core_size, size=others.size)
        partners = (first[:, None] + np.arange(count)) % core_size
        d = _ask_rows(answers, members[others], members[core[partners]])
        nearest = partners[np.arange(others.size), d.argmin(axis=1)]
        x[others] = placed.place(placed.coordinates[nearest], partners, d)
    everyone = np.arange(n)
    drawn = rng.randint(1, n, size=(n, max(1, k // 2)))
    _ask_rows(answers, members, members[(everyone[:, None] + drawn) % n])
    placed = replace(placed, coordinates=x, order=order)
    for is_first in (True, False):
        count = min(n - 1, 3 * k // 2)
        x = placed.coordinates
        near = placed.nearest(x, everyone[:, None], count)
        _ask_rows(answers, members, members[near])
        known = _known_among(answers, members)
        pairs = Pairs(n, known["i"], known["j"], known["d"] ** 2)
        # The first descent only has to tell which objects are near.
        max_iter = BRIEF_ITERATIONS if is_first else 2 * BRIEF_ITERATIONS
        embedding = fit_pairs(
            pairs,
            Configuration(x, placed.form),
            replace(options, max_iter=max_iter),
            falling=is_first,
        )
        placed = _placed_by(embedding, order)
    noise = placed.relative_error(
        placed.coordinates, known["i"], known["j"], known["d"]
    )
    placed = with_links(replace(placed, noise=noise), known)
    _ask_as_queries(answers, members, placed, known)
    return with_links(placed, _known_among(answers, members))


def with_links(placed: PlacedObjects, known: Numbers) -> PlacedObjects:
    """Return placed objects that are linked to their nearest among the known pairs."""
    n = len(placed.coordinates)
    linked, lengths = known_nearest(known, n, min(n - 1, ROUND))
    return replace(placed, linked=linked, lengths=lengths)


def _ask_as_queries(
    answers: Answers,
    members: Indices,
    placed: PlacedObjects,
    known: Numbers,
) -> None:
    """Ask for what a query in the place of each object, with its known distances, asks next."""
    x = placed.coordinates
    n, k = x.shape
    asked, d = known_nearest(known, n, min(n - 1, 4 * k))
    # An object counts as asked, so that it is not asked, and as infinitely far from itself.
    own = np.arange(n)[:, None]
    asked = np.concatenate([own, asked], axis=1)
    d = np.concatenate([np.full(own.shape, np.inf), d], axis=1)
    new = np.empty((n, min(n - 1, 3 * ROUND // 2)), dtype=np.int64)
    for rows in row_blocks(n, new.shape[1] * asked.shape[1]):
        near = placed.nearest(x[rows], asked[rows], new.shape[1])
        # Nothing is explored: `asked[rows, :0]` has no columns.
        new[rows] = placed.next_asked(
            asked[rows], d[rows], asked[rows, :0], near
        )
    i, column = np.nonzero(new != own)
    answers.ask(members[i], members[new[i, column]])


def _embedded_core(
    answers: Answers, core: Indices, options: Options
) -> PlacedObjects:
    """Embed some objects from all their pairs."""
    i, j = np.triu_indices(core.size, 1)
    d = answers.ask(core[i], core[j])
    answers.refuse_asymmetry()
    refuse_range(float(d.max()), False, "distances are")
    if not d.any():
        raise InputError(
            f"all distances among {core.size} objects are 0; pass objects that differ."
        )
    sq = np.zeros((core.size, core.size))
    sq[i, j] = d * d
    sq[j, i] = d * d
    embedding, _ = embed_landmarks(sq, options)
    return _placed_by(embedding, np.arange(core.size))


def _placed_by(embedding: Embedding, order: Indices) -> PlacedObjects:
    """Return objects where an embedding has them, with its loss, and without links."""
    rule = embedding.placement
    assert isinstance(rule, LossPlacement)
    x = to_numpy(embedding.coordinates)
    return unlinked(x, embedding.form.in_numpy(), rule.loss, order)


def unlinked(
    x: Floats, form: Form, loss: PairLoss, order: Indices
) -> PlacedObjects:
    """Return placed objects without links: each is linked to itself, at an infinite length."""
    own = np.arange(len(x))[:, None]
    return PlacedObjects(x, form, loss, order, own, np.full(own.shape, np.inf))


def _ask_rows(answers: Answers, i: Indices, j: Indices) -> Floats:
    """Return the distances (m, c) of objects i (m,) to the objects in their rows of j (m, c)."""
    return answers.ask(i.repeat(j.shape[1]), j.ravel()).reshape(j.shape)


def _known_among(answers: Answers, members: Indices) -> Numbers:
    """Return the known pairs, all of which are among members, by positions in `members`."""
    position = np.zeros(len(answers.objects), dtype=np.int64)
    position[members] = np.arange(members.size)
    known = answers.pairs
    known["i"] = position[known["i"]]
    known["j"] = position[known["j"]]
    return known
