"""Starts and signatures of the descent on a loss.

The squared solution is the best single start. At small k there are other local minima, so more
starts are tried, most of them through a smoothed loss, and signatures are compared by several
starts each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import ceil
from operator import attrgetter
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from neucmds.backend.arrays import (
    BLOCK_ELEMENTS,
    Array,
    asarray_like,
    in_double,
    min_and_max,
    namespace,
    to_numpy,
)
from neucmds.backend.threads import pool_for
from neucmds.form import Form
from neucmds.problem.components import Size, total_of
from neucmds.refine.descent import (
    FEW_OBJECTS,
    START_ITERATIONS,
    TOL,
    Configuration,
    Descent,
    briefly,
    descend,
    shortened,
)
from neucmds.refine.gaps import (
    among_points,
    complete_and_refine,
    filled,
    has_gaps,
)
from neucmds.refine.pairwise import (
    FLOOR_STEP,
    descended,
    finish,
    lowered,
    minimize,
    spans_decades,
)
from neucmds.refine.products import refine
from neucmds.refine.signatures import best_negatives
from neucmds.refine.starts import (
    MORE_STARTS,
    VERY_FEW_OBJECTS,
    best_refined,
    eigenvector_start,
    in_form,
)
from neucmds.refine.tiles import Tiles
from neucmds.spectrum.geometry import canonical
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.spectrum.solve import solve_for

# Up to this many coordinates there are several starts.
FEW_COORDINATES = 10
STARTS = 12
# Number of the lowest ends of short descents that are descended to convergence.
FINALISTS = 5
# How further starts begin, in turn. A number: at random, with a first descent on a loss that is
# smooth for D below so many means of D; without smoothing, "distance" ended 0.28 % above the lowest
# value seen, with it 0.07 %. None: near the best end so far, with no such descent.
SMOOTHINGS = (1.0, 0.09, 1.0, None)
# The same of the only start of many objects by "distance": without it, hops in a tree of 650 nodes
# end 1.1 % higher. With weights it gains 0.02 % at most, and takes longer.
SMOOTHING = 0.3
# A start of many objects by "distance" is poor if its loss is this share of that of all objects in
# one place, and of few, whose stages take little time, its square: affinities of 128 patients in 20
# coordinates start at 0.67 and end at 0.61, in stages at 0.41; layouts of digits in the plane end
# at 0.126 from 0.155 with and without stages.
POOR = 0.3


def refine_for_loss(
    sq_dissimilarity: Array,
    components: Size,
    loss: str,
    descent: Descent = descend,
    *,
    start: Configuration | None = None,
    near_start: Callable[[float], Configuration | None] | None = None,
    weights: Array | None = None,
    n_init: int | None = None,
    floor: float | None = None,
    form: Form | None = None,
    random_state: Any = None,
    directed: bool = False,
) -> Configuration:
    """Find the coordinates, and the signature unless it is given, of the least loss.

    Parameters
    ----------
    sq_dissimilarity : array of shape (n, n) or (m, n)
        d², not g(d) as in `Tiles.of`.
    components : Size
    loss, weights, floor, directed
        As for `Tiles.of`.
    descent : callable, optional
        `descend`, with its limits; the callback hears of stages, too, if there is one start.
    start : Configuration, optional
        The only start, instead of the squared solution and others.
    near_start : callable, optional
        Takes the floor of D and returns the only start by a relative loss, with its own floor, from
        which floors fall; or None, if there is none.
    n_init : int, optional
        Number of starts, the squared solution first; with several, other signatures are tried as
        well. `usual_starts` by default, and of few objects other signatures in any case.
    form : Form, optional
        Of any signs; flat by default.
    random_state : int, RandomState or None
        Seed of the eigensolver and of the starts.
    """
    form = form or Form()
    # g(d), of the shape of D.
    link = form.to_sq(sq_dissimilarity)
    tiles = Tiles.of(
        link,
        loss,
        form=form,
        weights=weights,
        floor=floor,
        directed=directed,
    )
    n = tiles.n_points
    if start is not None:
        return finish(tiles, in_form(start, form), descent)
    if near_start is not None:
        near = near_start(tiles.loss.sq_floor * tiles.scale)
        if near is not None:
            return _finish_near(tiles, near, descent)
    beginning = replace(tiles, loss=tiles.loss.beginning)
    compares_signatures = n <= FEW_OBJECTS
    if n_init is None:
        n_init = usual_starts(n, total_of(components))
    else:
        compares_signatures = n_init > 1
    compares_signatures = compares_signatures and isinstance(components, int)
    squared, ends_of = search(
        beginning,
        link,
        components,
        n_init=n_init,
        quick=n > FEW_OBJECTS,
        rng=check_random_state(random_state),
    )
    negatives = squared.form.signature[1]
    with pool_for(tiles.d):
        if n_init == 1 and not compares_signatures:
            # From the squared solution alone.
            stage = shortened(descent)
            if n > FEW_OBJECTS:
                stage = partial(stage, tol=TOL)
            start = approach(beginning, squared, stage)
            if beginning.loss != tiles.loss:
                start = descended(beginning, start, stage)
            elif (
                loss == "distance"
                and weights is None
                and n > FEW_OBJECTS
                and start.signs.size <= FEW_COORDINATES
            ):
                start = descended(smoothed(beginning, SMOOTHING), start, stage)
            return finish(tiles, start, descent)
        if isinstance(components, int):
            negatives = best_negatives(
                lambda q: ends_of(q)[0].value,
                negatives,
                sum(squared.form.signature),
            )
        quiet = partial(descent, callback=None)
        end = lowest(beginning, ends_of(negatives, n_init), quiet)
        return finish(tiles, end, descent)


def _finish_near(
    tiles: Tiles, near: Configuration, descent: Descent
) -> Configuration:
    """Descend from a start of the same loss with a floor of its own, on floors that fall from it.

    They end where a step promises little, whatever the last ones gained: a descent follows.
    """
    beginning = replace(tiles, loss=tiles.loss.beginning)
    stage = partial(shortened(descent), tol=1.0)
    highest_floor = FLOOR_STEP * near.loss.sq_floor / tiles.scale
    with pool_for(tiles.d):
        start = lowered(beginning, near, stage, highest_floor)
        return finish(tiles, start, descent)


def usual_starts(n: int, k: int) -> int:
    """Return how many starts n objects have in k coordinates."""
    if n > FEW_OBJECTS or k > FEW_COORDINATES:
        return 1
    if n <= VERY_FEW_OBJECTS:
        return MORE_STARTS
    return STARTS


def approach(
    tiles: Tiles,
    start: Configuration,
    stage: Descent = briefly,
) -> Configuration:
    """Descend on falling floors of D, from the largest D if near pairs of the start are far off.

    Where d spans many decades, the squared solution may have a larger loss than all objects in one
    place; with a high floor the loss is smooth, and each lower floor starts near its minimum. By
    "distance", a `POOR` start takes this way.
    """
    before = tiles.value_of(start)
    largest = min_and_max(tiles.d)[1]
    # A start is near enough whose loss is at most this share of that of all objects in one place.
    enough = 1.0
    if tiles.loss.name == "distance":
        enough = POOR if tiles.n_points > FEW_OBJECTS else POOR**2
    elif spans_decades(tiles.loss, largest):
        enough = 0.0
    in_one_place = tiles.loss_in_one_place * tiles.unit
    if tiles.loss.name == "squared" or before <= enough * in_one_place:
        return lowered(tiles, start, stage)
    highest_floor = largest / FLOOR_STEP
    end = lowered(tiles, start, stage, highest_floor)
    if tiles.value_of(end) < before:
        return end
    return start


def search(
    tiles: Tiles,
    link: Array,
    components: Size,
    *,
    n_init: int,
    quick: bool,
    rng: np.random.RandomState,
) -> tuple[Configuration, Callable[..., list[Configuration]]]:
    """Return the squared solution, and a function that descends from it and from other starts.

    The function takes a number of negatives and a number of starts (a quarter of `n_init` by
    default), and returns the lowest ends of short descents, the lowest first.

    Parameters
    ----------
    tiles : Tiles
        The loss, with its weights.
    link : array of the shape of D
        g(d), of which the squared solution is the first start.
    components : Size
    n_init : int
        Number of starts.
    quick : bool
        Whether the squared solution comes from eigenvectors alone, not from contained signatures.
    rng : RandomState
    """
    seed = int(rng.randint(2**31 - total_of(components)))
    squared_of = _squared_solver(tiles, link, components, quick, rng)
    squared = squared_of(None)
    k = sum(squared.form.signature)
    brief = briefly
    if quick:
        brief = partial(briefly, tol=TOL)
    # Ends of all short descents so far, the lowest first, by the number of negatives.
    ends: dict[int, list[Configuration]] = {}

    def ends_of(
        negatives: int, starts: int = ceil(n_init / 4)
    ) -> list[Configuration]:
        if negatives not in ends:
            start = squared
            if negatives != squared.form.signature[1]:
                start = squared_of((k - negatives, negatives))
            start = approach(tiles, start, brief)
            ends[negatives] = [minimize(tiles, start, brief)]
        _add_ends(tiles, ends[negatives], starts, seed + negatives, brief)
        return ends[negatives][:FINALISTS]

    return squared, ends_of


def _add_ends(
    tiles: Tiles,
    ends: list[Configuration],
    starts: int,
    seed: int,
    brief: Descent,
) -> None:
    """Append the ends of further starts up to a number of `starts`, and sort; `ends` is changed.

    Starts are near the best end, or anywhere, with a first descent on a loss with few minima.
    """
    if not tiles.loss_in_one_place:
        # D is zero, and no start is lower.
        return
    rng = check_random_state(seed)
    # Then all starts are at random, with first descents on falling floors: from a smooth loss
    # straight to near-duplicates, starts of 490 hosts end 15 % higher.
    floors_fall = spans_decades(tiles.loss, min_and_max(tiles.d)[1])
    highest_floor = smoothed(tiles, 1.0).loss.sq_floor
    n_tried = len(ends)
    for i in range(1, starts):
        # Drawn for starts that were tried as well, so that each start has its own noise.
        noise = rng.standard_normal(tuple(ends[0].coordinates.shape))
        if i < n_tried:
            continue
        best = ends[0]
        x = to_numpy(best.coordinates)
        # Heights, of sign 0, start as they are or at zero.
        noise = noise * np.abs(best.signs)
        smoothing = SMOOTHINGS[(i - 1) % len(SMOOTHINGS)]
        if smoothing is None and not floors_fall:
            x = x + x.std(axis=0) * noise
        else:
            x = x.std() * noise
        start = Configuration(asarray_like(x, best.coordinates), best.form)
        if floors_fall:
            start = lowered(tiles, start, brief, highest_floor)
        elif smoothing is not None:
            start = descended(smoothed(tiles, smoothing), start, brief)
        ends.append(minimize(tiles, start, brief))
        ends.sort(key=attrgetter("value"))


def smoothed(tiles: Tiles, share: float) -> Tiles:
    """Return the loss `smoothed` for D below this share of the mean of positive D."""
    step = ceil(tiles.d.shape[0] ** 2 / BLOCK_ELEMENTS)
    rows = tiles.d[::step, :]
    mean_sq = float(namespace(rows).mean(rows[rows > 0]))
    return replace(tiles, loss=tiles.loss.smoothed(share * mean_sq))


def lowest(
    tiles: Tiles, ends: list[Configuration], descent: Descent
) -> Configuration:
    """Continue short descents to convergence, and return the lowest end."""
    followed = [minimize(tiles, end, descent) for end in ends]
    return min(followed, key=attrgetter("value"))


def _squared_solver(
    tiles: Tiles,
    link: Array,
    components: Size,
    quick: bool,
    rng: np.random.RandomState,
) -> Callable[[tuple[int, int] | None], Configuration]:
    """Return the function that finds the squared solution of a signature; of `components` if None.

    Columns of a solution are orthogonal and ordered by weight.
    """
    values = in_double(link)
    weights = tiles.weights
    if tiles.is_directed:
        values, weights = among_points(values, weights)
    completed: Configuration | None = None
    if weights is not None and has_gaps(weights):
        weights = in_double(weights)
        completed = complete_and_refine(
            values,
            weights,
            components,
            random_state=rng,
            # Two sets of objects have no pair within each, which is no sample of all.
            hold_out=not tiles.is_directed,
        )
        values = filled(values, weights, completed)
    gram = DenseGram(values)
    spectrum = solve_for(gram, components, "refined")
    descent = partial(descend, max_iter=START_ITERATIONS, tol=TOL)

    def solve(signature: tuple[int, int] | None) -> Configuration:
        if signature is None and completed is not None:
            return in_form(completed, tiles.form)
        wanted = components
        generator = rng
        if signature is not None:
            wanted = signature
            generator = check_random_state(signature[1])
        if quick:
            start = eigenvector_start(spectrum, gram.diagonal(), wanted)
            end = refine(gram, start, descent)
        else:
            end = best_refined(gram, spectrum, wanted, descent)
        start = Configuration(*canonical(end.coordinates, end.form))
        start = _padded(start, wanted, generator)
        return in_form(start, tiles.form)

    return solve


def _padded(
    start: Configuration, components: Size, rng: np.random.RandomState
) -> Configuration:
    """Return a start with random columns added if it has fewer of a sign than requested.

    They are as long as the shortest of its columns.
    """
    positive, negative = start.form.signature
    if isinstance(components, int):
        components = (components - negative, negative)
    missing = [
        max(0, components[0] - positive),
        max(0, components[1] - negative),
    ]
    signs = np.repeat([1.0, -1.0], missing)
    if not signs.size:
        return start
    x = to_numpy(start.coordinates)
    length = 1.0
    if x.size:
        length = float(x.std(axis=0).min())
    columns = length * rng.standard_normal((x.shape[0], signs.size))
    padded = np.concatenate([x, columns], axis=1)
    return Configuration(
        asarray_like(padded, start.coordinates),
        Form(np.append(start.signs, signs)),
    )
