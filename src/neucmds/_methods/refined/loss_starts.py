"""Starts and signatures of the descent on a loss.

The squared solution is the best single start. At small k there are other local minima, so more
starts are tried, most of them through a smoothed loss, and signatures are compared by several
starts each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from neucmds._backend.arrays import Array, asarray_like, min_and_max, namespace, to_numpy
from neucmds._backend.threads import pool_for
from neucmds._input import Components
from neucmds._methods.geometry import canonical
from neucmds._methods.refined.completion import Weighted, complete_and_refine, predicted
from neucmds._methods.refined.curvature import curved
from neucmds._methods.refined.descent import FEW_OBJECTS, Limits, Refined, Start
from neucmds._methods.refined.products import refine
from neucmds._methods.refined.starts import FEWER_OBJECTS, best_refined, eigenvector_start
from neucmds._methods.refined.tiles import FLOOR_STEP, Tiles, lowered, minimize
from neucmds._operator import DenseGram, Gram
from neucmds._spectrum import Spectrum

Solve = Callable[[Gram, Components, str], Spectrum]

# Up to here other signatures, and other starts at small k, are tried unasked.
FEW_COORDINATES = 10
STARTS = 12
# Up to so many objects a start takes 20 ms: 32 take less time than eight of SMACOF (48 as long).
MORE_STARTS = 32
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


def refine_for_loss(
    sq_dissimilarity: Array,
    components: Components,
    loss: str,
    limits: Limits,
    *,
    solve: Solve,
    start: Start | None = None,
    weights: Array | None = None,
    n_init: int | None = None,
    floor: float | None = None,
    curvature: float = 0.0,
    random_state: Any = None,
) -> Refined:
    """Find coordinates, signature included, at which a loss is least.

    Parameters
    ----------
    sq_dissimilarity : array of shape (n, n)
        D, squared scale; finite where `weights` is zero, too.
    components : Components
        How many coordinates; a signature in it is kept.
    loss : {"squared", "distance", "relative"}
    limits : Limits
        The callback hears of the last descent only.
    solve : callable
        ``solve(gram, components, method)`` returns the eigenpairs that a method selects from.
    start : Start, optional
        The only start, instead of the squared solution and others.
    weights : array of shape (n, n), optional
        Symmetric, not negative; multiplies the loss of each pair. Zero: not observed.
    n_init : int, optional
        Starts, the squared solution first; with more than one, other numbers of negatives are tried
        as well. By default, for up to 600 objects, these are tried, and up to 10 coordinates have
        12 starts, 32 for up to 100 objects; otherwise 1.
    floor : float, optional
        As for `Tiles.of`.
    curvature : float, default=0
        κ, in units of 1/d²: coordinates are of g(d).
    random_state : int, RandomState or None
        Seed of the eigensolver and of the starts.
    """
    sq_dissimilarity = curved(sq_dissimilarity, curvature)
    n = int(sq_dissimilarity.shape[0])
    few = n <= FEW_OBJECTS if n_init is None else n_init > 1
    n_init = usual_starts(n, components.total) if n_init is None else n_init
    rng = check_random_state(random_state)
    tiles = Tiles.of(sq_dissimilarity, loss, weights=weights, floor=floor, curvature=curvature)
    if start is not None:
        return minimize(tiles, start, limits)
    seed = int(rng.randint(2**31 - components.total))
    source = Source.of(sq_dissimilarity, weights, components, solve, rng, n > FEW_OBJECTS)
    if source.spectrum is None:
        return minimize(tiles, source.place, limits)
    search = Search(tiles, source, replace(limits, callback=None, keep=None), n_init, seed)
    with pool_for(tiles.d):
        if n_init > 1 or (few and components.signature is None):
            place: Start = search.lowest(components.signature)
        else:
            place, limits = approach(tiles, source.place, limits)
        return minimize(tiles, place, limits)


def usual_starts(n: int, k: int) -> int:
    """Return how many starts n objects have in k coordinates."""
    if n > FEW_OBJECTS or k > FEW_COORDINATES:
        return 1
    return MORE_STARTS if n <= FEWER_OBJECTS else STARTS


def approach(tiles: Tiles, start: Start, limits: Limits) -> tuple[Start, Limits]:
    """Bring a start that says nothing of the near pairs close to a minimum, by floors that fall.

    Where d spans many decades, the near pairs of the squared solution are wrong by factors of a
    hundred, or have D̂ < 0 by as much, and the loss is worse there than with all objects in one
    place. With a floor as high as the largest d it is the squared one for "relative" and smooth for
    "distance"; from there each floor starts near its minimum. Entropic affinities (breast_colon,
    k = 20, five decades), 200 iterations, against the loss of all objects in one place: "relative"
    2.4 times from the squared solution and 0.36 times in stages, "distance" 0.60 and 0.47 times.

    Parameters
    ----------
    tiles : Tiles
    start : Start
        If its loss is below that of all objects in one place, floors fall as always.
    limits : Limits
        Also returned, less what was spent.
    """
    before = tiles.value_of(start.coordinates, start.signs)
    if tiles.loss.name == "squared" or before <= tiles.size * tiles.unit:
        return lowered(tiles, start, limits)
    place, left = lowered(tiles, start, limits, min_and_max(tiles.d)[1] / FLOOR_STEP**2)
    after = tiles.value_of(place.coordinates, start.signs)
    return (place, left) if after < before else (start, limits)


@dataclass(frozen=True)
class Source:
    """The squared solution, and the spectrum from which it has others with other signs.

    There is none where the gaps allow only a smaller model.
    """

    place: Start
    gram: Gram | None
    spectrum: Spectrum | None
    # Whether it is sought from eigenvectors alone, not from what its signature contains as well.
    briefly: bool = True

    @classmethod
    def of(
        cls,
        sq_dissimilarity: Array,
        weights: Array | None,
        components: Components,
        solve: Solve,
        rng: Any,
        briefly: bool = True,
    ) -> Source:
        xp = namespace(sq_dissimilarity)
        values = xp.astype(sq_dissimilarity, xp.float64, copy=False)
        pairs = None if weights is None else Weighted(values, weights)
        if pairs is not None and pairs.has_gaps:
            found = complete_and_refine(
                values,
                xp.astype(weights, xp.float64, copy=False),
                components,
                Limits.of("squared", len(values)),
                solve=lambda gram, wanted: solve(gram, wanted, "neuc+"),
                random_state=rng,
            )
            place = Start(found.coordinates, found.signs)
            if place.signs.size < components.total:
                return cls(place, None, None)
            values = pairs.filled(predicted(found)).sq_dissimilarity
            # A guess is no distance of an object to itself.
            values = values * (1 - asarray_like(np.eye(values.shape[0]), values))
            values = (values + xp.matrix_transpose(values)) / 2
            gram = DenseGram(values)
            return cls(place, gram, solve(gram, components, "refined"), briefly)
        gram = DenseGram(values)
        spectrum = solve(gram, components, "refined")
        place = _squared(gram, spectrum, components, rng, briefly)
        return cls(place, gram, spectrum, briefly)

    def with_negatives(self, negatives: int) -> Start:
        """Return the squared solution with so many negatives."""
        k = self.place.signs.size
        if negatives == self.place.signature[1]:
            return self.place
        assert self.gram is not None
        assert self.spectrum is not None
        components = Components(k, (k - negatives, negatives))
        rng = check_random_state(negatives)
        return _squared(self.gram, self.spectrum, components, rng, self.briefly)


def _squared(
    gram: Gram, spectrum: Spectrum, components: Components, rng: Any, briefly: bool
) -> Start:
    """Return the squared solution, its columns orthogonal and ordered by weight."""
    limits = Limits.of("squared", gram.n)
    if briefly:
        start = eigenvector_start(spectrum, gram.diagonal(), components)
        refined = refine(gram, start, limits)
    else:
        refined = best_refined(gram, spectrum, components, limits)
    x, weights = canonical(refined.coordinates, refined.signs)
    return _padded(Start(x, np.where(weights < 0, -1.0, 1.0)), components, rng)


@dataclass
class _Tried:
    """Starts with a number of negatives: how many there were, and their lowest ends."""

    rng: np.random.RandomState
    ends: list[Refined]
    starts: int = 1


@dataclass(frozen=True)
class Search:
    """Short descents that compare places."""

    tiles: Tiles
    source: Source
    limits: Limits
    n_init: int
    seed: int
    tried: dict[int, _Tried] = field(default_factory=dict)

    @property
    def own(self) -> int:
        """The number of negatives of the squared solution."""
        return self.source.place.signature[1]

    @cached_property
    def brief(self) -> Limits:
        return Limits(min(self.limits.max_iter, MOST_PROBING), max(self.limits.tol, PROBING_TOL))

    def smoothly(self, place: Start, smoothing: float) -> Refined:
        """Descend on a loss with fewer valleys."""
        loss = self.tiles.loss.smoothed(smoothing**2 * self.typical)
        return minimize(replace(self.tiles, loss=loss), place, self.brief)

    @cached_property
    def typical(self) -> float:
        """Mean of D over the pairs that count."""
        xp, d, w = namespace(self.tiles.d), self.tiles.d, self.tiles.weights
        n = int(d.shape[0])
        counted = n * (n - 1) if w is None else int(xp.sum(xp.astype(w > 0, xp.int64)))
        return float(xp.sum(d)) / max(1, counted)

    def lowest(self, signature: tuple[int, int] | None = None) -> Refined:
        """Return the lowest end over signatures, or of a given one.

        From the number of negatives of the squared solution one walks to lower ends, by a quarter
        of the starts each; the last one has all of them. The first number and none at all are
        followed to their ends, too: a fit with these signatures alone hardly ends lower.
        """
        if signature is not None:
            return self.followed(self.ends_of(self.own, self.n_init))
        here = self.walked()
        others = [self.ends_of(q, self.few)[0] for q in {self.own, 0} - {here}]
        return self.followed(self.ends_of(here, self.n_init) + others)

    def walked(self, first: int | None = None) -> int:
        """Return the number of negatives that one walks to, by default from the squared start's."""
        if self.source.spectrum is None:
            return self.own
        first = here = self.own if first is None else first
        k = self.source.place.signs.size

        def value_of(negatives: int) -> float:
            return self.ends_of(negatives, self.few)[0].value if 0 <= negatives <= k else np.inf

        for way in (1, -1):
            while value_of(here + way) < value_of(here):
                here += way
            if here != first:
                break
        return here

    @property
    def few(self) -> int:
        return -(-self.n_init // 4)

    def ends_of(self, negatives: int, starts: int) -> list[Refined]:
        """Return the lowest ends of short descents with so many negatives, the lowest first.

        The squared solution is the first start; of the others, which are random, most are anywhere.
        """
        if negatives not in self.tried:
            begun = self.source.with_negatives(negatives)
            place, _ = approach(self.tiles, begun, self.limits)
            rng = check_random_state(self.seed + negatives)
            self.tried[negatives] = _Tried(rng, [minimize(self.tiles, place, self.brief)])
        tried = self.tried[negatives]
        for i in range(tried.starts, starts):
            best = tried.ends[0]
            x = to_numpy(best.coordinates)
            noise = tried.rng.standard_normal(x.shape)
            spread, smoothing = KINDS[(i - 1) % len(KINDS)]
            anywhere = x.std() * noise if spread is None else x + spread * x.std(axis=0) * noise
            start = Start(asarray_like(anywhere, best.coordinates), best.signs)
            smooth = self.smoothly(start, smoothing) if smoothing else start
            tried.ends.append(minimize(self.tiles, smooth, self.brief))
            tried.ends.sort(key=attrgetter("value"))
            del tried.ends[FINALISTS:]
        tried.starts = max(tried.starts, starts)
        return tried.ends

    def followed(self, ends: list[Refined]) -> Refined:
        """Follow short descents to where they lead, and return the lowest end."""
        found = [minimize(self.tiles, end, self.limits) for end in ends]
        return min(found, key=attrgetter("value"))


def _padded(place: Start, components: Components, rng: Any) -> Start:
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
    return Start(asarray_like(np.concatenate([x, columns], axis=1), place.coordinates), signs)
