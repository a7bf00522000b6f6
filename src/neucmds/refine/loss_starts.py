"""Starts and signatures of the descent on a loss.

The squared solution is the best single start. At small k there are other local minima, so more
starts are tried, most of them through a smoothed loss, and signatures are compared by several
starts each.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from operator import attrgetter
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from neucmds.backend.arrays import (
    Array,
    asarray_like,
    min_and_max,
    namespace,
    to_numpy,
)
from neucmds.backend.threads import pool_for
from neucmds.form import Form
from neucmds.problem.components import Size, total_of
from neucmds.refine.descent import FEW_OBJECTS, Limits, Refined, Start
from neucmds.refine.gaps import complete_and_refine, filled, has_gaps
from neucmds.refine.pairwise import (
    FLOOR_STEP,
    STAGE_ITERATIONS,
    STAGE_TOL,
    lowered,
    minimize,
)
from neucmds.refine.products import refine
from neucmds.refine.signatures import best_negatives
from neucmds.refine.starts import (
    FEWER_OBJECTS,
    MORE_STARTS,
    best_refined,
    eigenvector_start,
)
from neucmds.refine.tiles import Tiles
from neucmds.spectrum.geometry import canonical
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.spectrum.solve import solve_for

# Up to this many coordinates there are several starts.
FEW_COORDINATES = 10
STARTS = 12
# Lowest ends of short descents that are descended to convergence.
FINALISTS = 5
# D below which the first descent of further starts is smooth, in means of D: without smoothing,
# "distance" ended 0.28 % above the lowest value seen, with it 0.07 %. None: no such descent, and a
# start about the best so far instead of one anywhere.
SMOOTHINGS = (1.0, 0.09, 1.0, None)
# Loss of a poor start, relative to that of all objects in one place: affinities of 128 patients in
# 20 coordinates start at 0.67 and end at 0.61, in stages at 0.41.
POOR = 0.1
# Size of an added column, relative to the others, where the spectrum has too few of a sign.
PADDING = 0.05


def refine_for_loss(
    sq_dissimilarity: Array,
    components: Size,
    loss: str,
    limits: Limits,
    *,
    start: Start | None = None,
    weights: Array | None = None,
    n_init: int | None = None,
    floor: float | None = None,
    form: Form | None = None,
    random_state: Any = None,
) -> Refined:
    """Find the coordinates, and the signature unless it is given, of the least loss.

    Parameters
    ----------
    sq_dissimilarity : array of shape (n, n)
        d².
    components : int or (int, int)
    loss, weights, floor
        As for `Tiles.of`.
    limits : Limits
        The callback is called in the last descent only.
    start : Start, optional
        The only start, instead of the squared solution and others.
    n_init : int, optional
        Number of starts, the squared solution first; with several, other numbers of negatives are
        tried as well. By default as of `usual_starts`.
    form : Form, optional
        Of any signs; flat by default.
    random_state : int, RandomState or None
        Seed of the eigensolver and of the starts.
    """
    form = form or Form(np.zeros(0))
    link = form.to_sq(sq_dissimilarity)
    n = int(link.shape[0])
    rng = check_random_state(random_state)
    tiles = Tiles.of(link, loss, form=form, weights=weights, floor=floor)
    if start is not None:
        return minimize(tiles, start, limits)
    several = n <= FEW_OBJECTS
    if n_init is None:
        n_init = usual_starts(n, total_of(components))
    else:
        several = n_init > 1
    search = Search(
        tiles,
        link,
        components,
        replace(limits, callback=None),
        n_init=n_init,
        quick=n > FEW_OBJECTS,
        seed=int(rng.randint(2**31 - total_of(components))),
        rng=rng,
    )
    if search.is_smaller:
        return minimize(tiles, search.squared, limits)
    with pool_for(tiles.d):
        if n_init > 1 or (several and isinstance(components, int)):
            return minimize(tiles, search.lowest(components), limits)
        return minimize(
            tiles, *approach(tiles, search.squared, limits, alone=True)
        )


def usual_starts(n: int, k: int) -> int:
    """Return how many starts n objects have in k coordinates."""
    if n > FEW_OBJECTS or k > FEW_COORDINATES:
        return 1
    if n <= FEWER_OBJECTS:
        return MORE_STARTS
    return STARTS


def approach(
    tiles: Tiles, start: Start, limits: Limits, *, alone: bool = False
) -> tuple[Start, Limits]:
    """Descend on floors that fall, from the largest d if near pairs of the start are far off.

    Where d spans many decades, the squared solution may have a larger loss than all objects in one
    place; with a high floor the loss is smooth, and each lower floor starts near its minimum. By
    "distance", a start that is the only one (`alone`) takes this way from `POOR` of that loss on.
    Also returns the remaining limits.
    """
    before = tiles.value_of(start)
    worst = 1.0
    if alone and tiles.loss.name == "distance":
        worst = POOR
    if (
        tiles.loss.name == "squared"
        or before <= worst * tiles.size * tiles.unit
    ):
        return lowered(tiles, start, limits)
    end, left = lowered(
        tiles, start, limits, min_and_max(tiles.d)[1] / FLOOR_STEP
    )
    if tiles.value_of(end) < before:
        return end, left
    return start, limits


class Search:
    """Short descents that compare starts and numbers of negatives.

    Parameters
    ----------
    tiles : Tiles
        The loss, with its weights.
    link : array of shape (n, n)
        g(d), of which the squared solution is the first start.
    components : int or (int, int)
    limits : Limits
        Of descents to convergence.
    n_init : int
        Number of starts.
    quick : bool
        Whether the squared solution comes from eigenvectors alone, not from contained signatures.
    rng : RandomState
    seed : int
        Of the starts.
    """

    def __init__(
        self,
        tiles: Tiles,
        link: Array,
        components: Size,
        limits: Limits,
        *,
        n_init: int,
        quick: bool,
        rng: np.random.RandomState,
        seed: int,
    ) -> None:
        self.tiles = tiles
        self.limits = limits
        self.n_init = n_init
        self.quick = quick
        self.seed = seed
        # Of short descents so far, by numbers of negatives, the lowest first.
        self.ends: dict[int, list[Refined]] = {}
        xp = namespace(link)
        values = xp.astype(link, xp.float64, copy=False)
        completed: Refined | None = None
        if tiles.weights is not None and has_gaps(tiles.weights):
            weights = xp.astype(tiles.weights, xp.float64, copy=False)
            usual = Limits.of("squared", len(values))
            completed = complete_and_refine(
                values, weights, components, usual, random_state=rng
            )
            values = _symmetric(filled(values, weights, completed))
        # Where the gaps allow only a smaller model, no other signature is compared.
        self.is_smaller = (
            completed is not None
            and completed.signs.size < total_of(components)
        )
        self.gram = DenseGram(values)
        if completed is None or not self.is_smaller:
            self.spectrum = solve_for(self.gram, components, "refined")
        self.squared = completed or self._squared(components, rng)

    def lowest(self, components: Size) -> Refined:
        """Return the lowest end over signatures, or of a given one.

        Numbers of negatives are compared by a quarter of the starts each; the best one has all of
        them. The number of the squared solution and 0 are descended to convergence as well.
        """
        first = self.squared.form.signature[1]
        if isinstance(components, tuple):
            return self.followed(self.ends_of(first, self.n_init))
        best = self.negatives(first)
        others = [self.ends_of(q)[0] for q in {first, 0} - {best}]
        return self.followed(self.ends_of(best, self.n_init) + others)

    def negatives(self, first: int) -> int:
        """Return the number of negatives of locally least loss."""
        if self.is_smaller:
            return self.squared.form.signature[1]
        return best_negatives(
            lambda q: self.ends_of(q)[0].value, first, self.squared.signs.size
        )

    def ends_of(
        self, negatives: int, starts: int | None = None
    ) -> list[Refined]:
        """Return the lowest ends of short descents with a number of negatives, sorted.

        There are a quarter of the starts by default.
        """
        starts = starts or ceil(self.n_init / 4)
        brief = self.limits.at_most(STAGE_ITERATIONS, STAGE_TOL)
        if negatives not in self.ends:
            squared = self._squared_with(negatives)
            start, _ = approach(
                self.tiles, squared, self.limits, alone=self.n_init == 1
            )
            self.ends[negatives] = [minimize(self.tiles, start, brief)]
        ends = self.ends[negatives]
        rng = check_random_state(self.seed + negatives)
        tried = len(ends)
        for i in range(1, starts):
            noise = rng.standard_normal(tuple(ends[0].coordinates.shape))
            if i < tried:
                continue
            smoothing = SMOOTHINGS[(i - 1) % len(SMOOTHINGS)]
            start = self._start(ends[0], noise, smoothing, brief)
            ends.append(minimize(self.tiles, start, brief))
            ends.sort(key=attrgetter("value"))
        return ends[:FINALISTS]

    def followed(self, ends: list[Refined]) -> Refined:
        """Continue short descents to convergence, and return the lowest end."""
        followed = [minimize(self.tiles, end, self.limits) for end in ends]
        return min(followed, key=attrgetter("value"))

    def _start(
        self, best: Refined, noise: Any, smoothing: float | None, brief: Limits
    ) -> Start:
        """Return a start about the best end so far, or one anywhere on a loss with few minima."""
        x = to_numpy(best.coordinates)
        if smoothing is None:
            near = x + x.std(axis=0) * noise
            return Start(asarray_like(near, best.coordinates), best.form)
        start = Start(
            asarray_like(x.std() * noise, best.coordinates), best.form
        )
        d = self.tiles.d
        mean = float(namespace(d).mean(d[d > 0]))
        loss = self.tiles.loss.smoothed(smoothing * mean)
        return minimize(replace(self.tiles, loss=loss), start, brief)

    def _squared_with(self, negatives: int) -> Start:
        """Return the squared solution with a number of negatives."""
        if negatives == self.squared.form.signature[1]:
            return self.squared
        k = self.squared.signs.size
        components = (k - negatives, negatives)
        return self._squared(components, check_random_state(negatives))

    def _squared(self, components: Size, rng: np.random.RandomState) -> Start:
        """Return the squared solution, its columns orthogonal and ordered by weight."""
        limits = Limits.of("squared", self.gram.n)
        if self.quick:
            start = eigenvector_start(
                self.spectrum, self.gram.diagonal(), components
            )
            end = refine(self.gram, start, limits)
        else:
            end = best_refined(self.gram, self.spectrum, components, limits)
        return _padded(
            Start(*canonical(end.coordinates, end.form)), components, rng
        )


def _symmetric(values: Array) -> Array:
    """Average both orders, and set the diagonal, which was not observed, to zero."""
    xp = namespace(values)
    values = values * (1 - asarray_like(np.eye(*values.shape), values))
    return (values + xp.matrix_transpose(values)) / 2


def _padded(start: Start, components: Size, rng: Any) -> Start:
    """Add small random columns if the spectrum has fewer of a sign than requested."""
    positive, negative = start.form.signature
    if isinstance(components, int):
        components = (components - negative, negative)
    missing = np.maximum(np.subtract(components, (positive, negative)), 0)
    if not missing.any():
        return start
    x = to_numpy(start.coordinates)
    size = 1.0
    if x.size:
        size = PADDING * float(x.std())
    columns = size * rng.standard_normal((x.shape[0], int(missing.sum())))
    signs = np.concatenate(
        [start.signs, np.ones(missing[0]), -np.ones(missing[1])]
    )
    padded = np.concatenate([x, columns], axis=1)
    return Start(asarray_like(padded, start.coordinates), Form(signs))
