"""Learn coordinates from few distances: a core among itself, then every object's nearest."""

from __future__ import annotations

from dataclasses import replace
from math import isqrt

import numpy as np

from neucmds.backend.arrays import (
    EPS,
    Floats,
    Indices,
    Numbers,
    row_blocks,
    to_numpy,
)
from neucmds.dense_fit import fit_directed
from neucmds.embedding import Embedding
from neucmds.errors import InputError
from neucmds.index.answers import Answers, known_nearest, refusal
from neucmds.index.search import ROUND, PlacedObjects
from neucmds.large.landmark_fit import embed_landmarks
from neucmds.large.listed import fit_pairs
from neucmds.large.two_levels import BRIEF_ITERATIONS
from neucmds.options import Options
from neucmds.place.rules import LossPlacement
from neucmds.problem.directed import as_directed
from neucmds.problem.pairs import Pairs
from neucmds.problem.validation import refuse_range
from neucmds.refine.descent import Configuration
from neucmds.refine.losses import PairLoss

# Calls per object for the core, whose objects are compared all with all.
CORE_CALLS = 20
# Coordinates take a distance for at most so many medians of the core: beside 1e8 medians, squares
# of the others are rounding, and with one outlier all other coordinates were lost.
MOST_MEDIANS = 1e5


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
    # Pairs in one order, or in both.
    n_orders = 1 + answers.directed
    core_size = min(n, max(4 * k, isqrt(2 * CORE_CALLS * n // n_orders)))
    order = rng.permutation(n)
    core = order[:core_size]
    others = order[core_size:]
    placed, limit = _embedded_core(answers, members[core], options)
    # Fewer if the core has no use for more.
    k = placed.form.signs.size
    # Positions in the core, of so many objects one after the other from a random one on.
    count = min(core_size, 2 * k)
    first = rng.randint(core_size, size=others.size)
    partners = (first[:, None] + np.arange(count)) % core_size

    def with_others(of_core: PlacedObjects, forward: bool) -> Floats:
        """Return where all objects are as queries of the core, or of the core turned."""
        x = np.zeros((n, k))
        x[core] = of_core.as_queries
        if others.size:
            asked = members[core[partners]]
            d = _ask_rows(answers, members[others], asked, forward)
            nearest = of_core.as_queries[
                partners[np.arange(others.size), d.argmin(axis=1)]
            ]
            d = np.minimum(d, limit)
            x[others] = of_core.place(nearest, partners, d)
        return x

    x = with_others(placed, True)
    departures = None
    if answers.directed:
        departures = x
        x = with_others(placed.turned(), False)
    everyone = np.arange(n)
    drawn = rng.randint(1, n, size=(n, max(1, k // 2)))
    _ask_rows(answers, members, members[(everyone[:, None] + drawn) % n])
    placed = replace(placed, coordinates=x, departures=departures, order=order)
    for is_first in (True, False):
        count = min(n - 1, 3 * k // 2)
        if answers.directed:
            # Each object asks for those near it in both directions: of its two points one may be
            # far from where it belongs, and then is near only in its own eyes.
            count = -(-count // 2)
            turned = placed.turned()
            near = turned.nearest(turned.as_queries, everyone[:, None], count)
            _ask_rows(answers, members, members[near], forward=False)
        near = placed.nearest(placed.as_queries, everyone[:, None], count)
        _ask_rows(answers, members, members[near])
        known = _known_among(answers, members)
        # The first descent only has to tell which objects are near.
        max_iter = BRIEF_ITERATIONS if is_first else 2 * BRIEF_ITERATIONS
        points, pairs = _pairs_of(placed, known, limit)
        embedding = fit_pairs(
            pairs,
            Configuration(points, placed.form),
            replace(options, max_iter=max_iter),
            falling=is_first,
        )
        placed = _placed_by(embedding, order)
    placed = with_links(placed, known)
    noise = _ask_as_queries(answers, members, placed, known, limit)
    placed = replace(placed, noise=noise)
    return with_links(placed, _known_among(answers, members))


def with_links(placed: PlacedObjects, known: Numbers) -> PlacedObjects:
    """Return placed objects that are linked to their nearest among the known pairs.

    If these are directed, to those near in either direction: in a city, to the corners that lead
    there as well.
    """
    n = len(placed.coordinates)
    linked, lengths = known_nearest(known, n, min(n - 1, ROUND))
    return replace(placed, linked=linked, lengths=lengths)


def taken(
    placed: PlacedObjects, pairs: Numbers, members: Indices
) -> tuple[PlacedObjects, Numbers]:
    """Return the placed objects `members` alone, and the known pairs of these, by positions there.

    They are linked by these pairs.
    """
    # The new position of each object; −1 of others.
    position = np.full(len(placed.coordinates), -1)
    position[members] = np.arange(members.size)
    pairs = pairs.copy()
    for end in ("i", "j"):
        pairs[end] = position[pairs[end]]
    pairs = pairs[(pairs["i"] >= 0) & (pairs["j"] >= 0)]
    order = position[placed.order]
    departures = placed.departures
    if departures is not None:
        departures = departures[members]
    placed = replace(
        placed,
        coordinates=placed.coordinates[members],
        departures=departures,
        order=order[order >= 0],
    )
    return with_links(placed, pairs), pairs


def nearest_among(placed: PlacedObjects, members: Indices) -> Indices:
    """Return the nearest by D̂ (m, c) of each of some objects among these, by positions there."""
    m = members.size
    count = min(m - 1, 3 * ROUND // 2)
    own = np.arange(m)[:, None]
    if not count:
        return own[:, :0]
    of_members = replace(
        placed, coordinates=placed.coordinates[members], order=np.arange(m)
    )
    return of_members.nearest(placed.as_queries[members], own, count)


def _ask_as_queries(
    answers: Answers,
    members: Indices,
    placed: PlacedObjects,
    known: Numbers,
    limit: float,
) -> float:
    """Ask for what a query in the place of each object, with its known distances, asks next.

    Return the mean relative error of d̂ there. Most of these pairs took no part in a fit, which may
    know its own ten times as well.
    """
    x = placed.as_queries
    n, k = x.shape
    asked, d = known_nearest(known, n, min(n - 1, 4 * k), answers.directed)
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
    j = new[i, column]
    d = answers.ask(members[i], members[j])
    return placed.relative_error(x, i, j, np.minimum(d, limit))


def _embedded_core(
    answers: Answers, core: Indices, options: Options
) -> tuple[PlacedObjects, float]:
    """Embed some objects from all their pairs; return them, and the largest d of coordinates."""
    if answers.directed:
        i, j = np.nonzero(~np.eye(core.size, dtype=bool))
    else:
        i, j = np.triu_indices(core.size, 1)
    d = answers.ask(core[i], core[j])
    answers.refuse_similarity()
    if not answers.directed:
        answers.refuse_asymmetry()
    refuse_range(float(d.max()), False, "distances are")
    if not d.any():
        raise InputError(
            f"all distances among {core.size} objects drawn from all are 0; pass each of equal "
            "objects once."
        )
    worst = d.argmax()
    median = np.median(d[d > 0])
    outlier = refusal(
        f"gives {d[worst]:.4g}, and {median:.4g} in the median of pairs",
        answers.objects[core[i[worst]]],
        answers.objects[core[j[worst]]],
        "no coordinates hold both; mend it, or leave one of the two out",
    )
    if d[worst] * EPS > median:
        raise outlier
    limit = MOST_MEDIANS * float(median)
    sq = np.zeros((core.size, core.size))
    sq[i, j] = np.minimum(d, limit) ** 2
    if answers.directed:
        problem = as_directed(sq, squared=True)
        embedding = fit_directed(problem, replace(options, directed=True))
    else:
        sq[j, i] = sq[i, j]
        embedding, _ = embed_landmarks(sq, options)
    if not embedding.k:
        raise outlier
    return _placed_by(embedding, np.arange(core.size)), limit


def _placed_by(embedding: Embedding, order: Indices) -> PlacedObjects:
    """Return objects where an embedding has them, with its loss, and without links."""
    rule = embedding.placement
    assert isinstance(rule, LossPlacement)
    return unlinked(embedding, rule.loss, order)


def unlinked(
    embedding: Embedding, loss: PairLoss, order: Indices
) -> PlacedObjects:
    """Return objects where an embedding has them: each is linked to itself, at infinite length."""
    x = to_numpy(embedding.coordinates).astype(np.float64)
    departures = None
    if embedding.arrivals is not None:
        departures = x
        x = to_numpy(embedding.arrivals).astype(np.float64)
    own = np.arange(len(x))[:, None]
    lengths = np.full(own.shape, np.inf)
    return PlacedObjects(
        x,
        embedding.form.in_numpy(),
        loss,
        order,
        own,
        lengths,
        departures=departures,
    )


def _pairs_of(
    placed: PlacedObjects, known: Numbers, limit: float
) -> tuple[Floats, Pairs]:
    """Return the points of objects, departures before arrivals, and the known pairs of points."""
    n = len(placed.coordinates)
    i = known["i"]
    j = known["j"]
    sq = np.minimum(known["d"], limit) ** 2
    if placed.departures is None:
        return placed.coordinates, Pairs(n, i, j, sq)
    points = np.concatenate([placed.departures, placed.coordinates])
    return points, Pairs(2 * n, i, n + j, sq, n_departures=n)


def _ask_rows(
    answers: Answers, i: Indices, j: Indices, forward: bool = True
) -> Floats:
    """Return distances (m, c) of objects i (m,) to, or from, those in their rows of j (m, c)."""
    i = i.repeat(j.shape[1])
    d = answers.ask(i, j.ravel()) if forward else answers.ask(j.ravel(), i)
    return d.reshape(j.shape)


def _known_among(answers: Answers, members: Indices) -> Numbers:
    """Return the known pairs, all of which are among members, by positions in `members`."""
    position = np.zeros(len(answers.objects), dtype=np.int64)
    position[members] = np.arange(members.size)
    known = answers.pairs
    known["i"] = position[known["i"]]
    known["j"] = position[known["j"]]
    return known
