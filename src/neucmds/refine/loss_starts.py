"""Starts, signatures and curvatures of the descent on a loss.

The squared solution is the best single start. At small k there are other local minima, so more
starts are tried, most of them through a smoothed loss, and signatures are compared by several
starts each. A `Scout` chooses signature and curvature by short descents on a sample of objects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import pi, sqrt
from operator import attrgetter
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from neucmds.backend.arrays import Array, asarray_like, min_and_max, namespace, to_numpy
from neucmds.backend.threads import pool_for
from neucmds.form import curved, kappa_of
from neucmds.problem.components import Components
from neucmds.refine.descent import FEW_OBJECTS, Limits, Refined, Start
from neucmds.refine.gaps import Weighted, complete_and_refine, predicted
from neucmds.refine.products import refine
from neucmds.refine.starts import FEWER_OBJECTS, best_refined, eigenvector_start
from neucmds.refine.tiles import FLOOR_STEP, Tiles, lowered, minimize
from neucmds.spectrum.geometry import canonical, sq_dissimilarities
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.spectrum.operators.gram import Gram
from neucmds.spectrum.spectrum import Spectrum

Solve = Callable[[Gram, Components, str], Spectrum]

# Up to this many coordinates there are several starts: 32 for few objects take less time than eight
# of SMACOF.
FEW_COORDINATES = 10
STARTS = 12
MORE_STARTS = 32
# Lowest ends of short descents that are descended to convergence.
FINALISTS = 5
# Iterations and tolerance of a short descent.
MOST_PROBING = 60
PROBING_TOL = 1e-3
# Kinds of further starts, in turn: spread about the best so far, in standard deviations of its
# columns (None: anywhere), and the D below which a first descent is smooth, in means of D. Without
# smoothing, "distance" ended 0.28 % above the lowest value seen, with it 0.07 %.
KINDS: tuple[tuple[float | None, float], ...] = ((None, 1.0), (None, 0.09), (None, 1.0), (1.0, 0.0))
# Loss of a poor start, relative to that of all objects in one place: affinities of 128 patients in
# 20 coordinates start at 0.67 and end at 0.61, in stages at 0.41.
POOR = 0.1
# Size of an added column, relative to the others, where the spectrum has too few of a sign.
PADDING = 0.05
# Objects in a sample: 300 and 1000 of 2,296 crossings choose the same √−κ = 4.
SCOUTS = 500
BRIEF = Limits(150, 2e-3)
# √−κ that are tried first, in units of 1/(mean d): short descents do not tell 1 from 0.
STEPS = (2.0, 4.0, 8.0)
# √−κ times the largest d: beyond it nothing has been gained on any data.
FARTHEST = 15.0
# Share of the squared error that a curvature must gain to be chosen, or to be looked for.
LEAST_GAIN = 0.02
# Squared error, relative to that of all objects in one place, that no curvature can lower.
PERFECT = 1e-20
# Steps between the best of these and its neighbours.
REFINEMENTS = 5


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
    """Find the coordinates, and the signature unless it is given, of the least loss.

    Parameters
    ----------
    sq_dissimilarity, loss, weights, floor, curvature
        As for `Tiles.of`; with a curvature, coordinates are of g(d).
    components : Components
    limits : Limits
        The callback is called in the last descent only.
    solve : callable
        ``solve(gram, components, method)`` returns the eigenpairs that a method selects from.
    start : Start, optional
        The only start, instead of the squared solution and others.
    n_init : int, optional
        Number of starts, the squared solution first; with several, other numbers of negatives are
        tried as well. By default as of `usual_starts`.
    random_state : int, RandomState or None
        Seed of the eigensolver and of the starts.
    """
    sq_dissimilarity = curved(sq_dissimilarity, curvature)
    n, _ = sq_dissimilarity.shape
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
            place, limits = approach(tiles, source.place, limits, alone=True)
        return minimize(tiles, place, limits)


def usual_starts(n: int, k: int) -> int:
    """Return how many starts n objects have in k coordinates."""
    if n > FEW_OBJECTS or k > FEW_COORDINATES:
        return 1
    return MORE_STARTS if n <= FEWER_OBJECTS else STARTS


def approach(
    tiles: Tiles, start: Start, limits: Limits, *, alone: bool = False
) -> tuple[Start, Limits]:
    """Descend on floors that fall, from the largest d if near pairs of the start are far off.

    Where d spans many decades, the squared solution may have a larger loss than all objects in one
    place; with a high floor the loss is smooth, and each lower floor starts near its minimum. By
    "distance", a start that is the only one (`alone`) takes this way from `POOR` of that loss on.
    Also returns the remaining limits.
    """
    before = tiles.value_of(start.coordinates, start.signs)
    worst = POOR if alone and tiles.loss.name == "distance" else 1.0
    if tiles.loss.name == "squared" or before <= worst * tiles.size * tiles.unit:
        return lowered(tiles, start, limits)
    place, left = lowered(tiles, start, limits, min_and_max(tiles.d)[1] / FLOOR_STEP)
    after = tiles.value_of(place.coordinates, start.signs)
    return (place, left) if after < before else (start, limits)


@dataclass(frozen=True)
class Source:
    """The squared solution, and the spectrum that gives it with other signatures.

    There is no spectrum where the gaps allow only a smaller model. `briefly`: from eigenvectors
    alone, not from contained signatures as well.
    """

    place: Start
    gram: Gram | None
    spectrum: Spectrum | None
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
        place = None
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
            # The diagonal was not observed, but is zero.
            values = values * (1 - asarray_like(np.eye(*values.shape), values))
            values = (values + xp.matrix_transpose(values)) / 2
        gram = DenseGram(values)
        spectrum = solve(gram, components, "refined")
        if place is None:
            place = _squared(gram, spectrum, components, rng, briefly)
        return cls(place, gram, spectrum, briefly)

    def with_negatives(self, negatives: int) -> Start:
        """Return the squared solution with a number of negatives."""
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
    """The lowest ends of short descents with some number of negatives, and the starts so far."""

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

    @cached_property
    def typical(self) -> float:
        """Mean of D over the pairs that count."""
        xp, d, w = namespace(self.tiles.d), self.tiles.d, self.tiles.weights
        n, _ = d.shape
        counted = n * (n - 1) if w is None else int(xp.sum(xp.astype(w > 0, xp.int64)))
        return float(xp.sum(d)) / max(1, counted)

    def lowest(self, signature: tuple[int, int] | None = None) -> Refined:
        """Return the lowest end over signatures, or of a given one.

        The number of negatives changes by one from that of the squared solution as long as the
        loss falls, with a quarter of the starts each; the last one has all of them. The first
        number and 0 are descended to convergence as well.
        """
        own = self.source.place.signature[1]
        if signature is not None:
            return self.followed(self.ends_of(own, self.n_init))
        here = self.walked()
        others = [self.ends_of(q)[0] for q in {own, 0} - {here}]
        return self.followed(self.ends_of(here, self.n_init) + others)

    def walked(self, first: int | None = None) -> int:
        """Return the number of negatives of locally least loss, from the squared solution's."""
        own, k = self.source.place.signature[1], self.source.place.signs.size
        if self.source.spectrum is None:
            return own
        first = here = own if first is None else first

        def value_of(negatives: int) -> float:
            return self.ends_of(negatives)[0].value if 0 <= negatives <= k else np.inf

        for way in (1, -1):
            while value_of(here + way) < value_of(here):
                here += way
            if here != first:
                break
        return here

    def ends_of(self, negatives: int, starts: int | None = None) -> list[Refined]:
        """Return the lowest ends of short descents with a number of negatives, sorted.

        There are a quarter of the starts by default.
        """
        starts = -(-self.n_init // 4) if starts is None else starts
        brief = Limits(min(self.limits.max_iter, MOST_PROBING), max(self.limits.tol, PROBING_TOL))
        if negatives not in self.tried:
            begun = self.source.with_negatives(negatives)
            place, _ = approach(self.tiles, begun, self.limits, alone=self.n_init == 1)
            rng = check_random_state(self.seed + negatives)
            self.tried[negatives] = _Tried(rng, [minimize(self.tiles, place, brief)])
        tried = self.tried[negatives]
        for i in range(tried.starts, starts):
            best = tried.ends[0]
            x = to_numpy(best.coordinates)
            noise = tried.rng.standard_normal(x.shape)
            spread, smoothing = KINDS[(i - 1) % len(KINDS)]
            anywhere = x.std() * noise if spread is None else x + spread * x.std(axis=0) * noise
            start = Start(asarray_like(anywhere, best.coordinates), best.signs)
            if smoothing:
                # On a loss with fewer local minima.
                loss = self.tiles.loss.smoothed(smoothing * self.typical)
                start = minimize(replace(self.tiles, loss=loss), start, brief)
            tried.ends.append(minimize(self.tiles, start, brief))
            tried.ends.sort(key=attrgetter("value"))
            del tried.ends[FINALISTS:]
        tried.starts = max(tried.starts, starts)
        return tried.ends

    def followed(self, ends: list[Refined]) -> Refined:
        """Continue short descents to convergence, and return the lowest end."""
        found = [minimize(self.tiles, end, self.limits) for end in ends]
        return min(found, key=attrgetter("value"))


def _padded(place: Start, components: Components, rng: Any) -> Start:
    """Add small random columns if the spectrum has fewer of a sign than requested."""
    have = place.signature
    wanted = components.signature or (components.total - have[1], have[1])
    missing = np.maximum(np.subtract(wanted, have), 0)
    if not missing.any():
        return place
    x = to_numpy(place.coordinates)
    size = PADDING * float(x.std()) if x.size else 1.0
    columns = size * rng.standard_normal((x.shape[0], int(missing.sum())))
    signs = np.concatenate([place.signs, np.ones(missing[0]), -np.ones(missing[1])])
    return Start(asarray_like(np.concatenate([x, columns], axis=1), place.coordinates), signs)


def mean_distance(sq_dissimilarity: Array, weights: Array | None = None) -> float:
    """Mean of d over pairs of different objects, weighted: the unit of curvature."""
    xp, (n, _) = namespace(sq_dissimilarity), sq_dissimilarity.shape
    total = 0.0
    for i in range(0, n, SCOUTS):
        root = xp.sqrt(xp.clip(sq_dissimilarity[i : i + SCOUTS, :], 0.0, None))
        root = root if weights is None else root * weights[i : i + SCOUTS, :]
        total += float(xp.sum(root, dtype=xp.float64))
    count = n * (n - 1) if weights is None else float(xp.sum(weights, dtype=xp.float64))
    return total / max(1, count)


@dataclass(frozen=True)
class Scout:
    """Short descents on D of at most `SCOUTS` objects; parameters as for `refine_for_loss`."""

    sq_dissimilarity: Array
    components: Components
    loss: str
    solve: Solve
    weights: Array | None = None
    floor: float | None = None
    seed: int = 0
    seen: dict[float, tuple[float, tuple[int, int]]] = field(default_factory=dict)

    @classmethod
    def among(cls, sq_dissimilarity: Array, weights: Array | None, seed: int, **how: Any) -> Scout:
        """Take all objects, or a sample of them."""
        n, _ = sq_dissimilarity.shape
        if n > SCOUTS:
            xp = namespace(sq_dissimilarity)
            drawn = np.sort(np.random.default_rng(seed).choice(n, SCOUTS, replace=False))
            at = asarray_like(drawn, sq_dissimilarity, dtype=xp.int64)
            sq_dissimilarity, weights = (
                None if array is None else xp.take(xp.take(array, at, axis=0), at, axis=1)
                for array in (sq_dissimilarity, weights)
            )
        return cls(sq_dissimilarity, weights=weights, seed=seed, **how)

    def signature(self, curvature: float = 0.0) -> tuple[int, int]:
        """Return the signature with the least loss, κ in units of 1/(mean d)²."""
        if curvature not in self.seen:
            search = self._search(curvature)
            negatives = search.walked()
            return search.source.place.signs.size - negatives, negatives
        return self.seen[curvature][1]

    def curvature(self) -> float:
        """Return the κ with the least error of d, in units of 1/(mean d)²; zero unless it gains."""
        longest = sqrt(float(namespace(self.sq_dissimilarity).max(self.sq_dissimilarity)))
        unit = mean_distance(self.sq_dissimilarity, self.weights) / longest
        hyperbolic = [-step for step in STEPS if step < FARTHEST * unit] + [-FARTHEST * unit]
        # On a scale of ±√|κ|: spheres above zero, up to the one that has the longest d as its half.
        sphere = [pi * unit / 2, 0.97 * pi * unit, pi * unit]
        if self._cost(0.0) < PERFECT:
            return 0.0
        for way in (hyperbolic, sphere):
            best = self._lowest(way)
            if self._cost(best) < (1 - LEAST_GAIN) * self._cost(0.0):
                return _signed_square(best)
        return 0.0

    def _lowest(self, way: list[float]) -> float:
        """Return the best of 0 and some places, and of others beside it."""
        known = [0.0, *way]
        for _ in range(REFINEMENTS):
            known.sort()
            at = known.index(min(known, key=self._cost))
            if known[at] == 0.0 or at in (0, len(known) - 1):
                break
            three = known[at - 1 : at + 2]
            square, slope, height = np.polyfit(three, [self._cost(root) for root in three], 2)
            lowest = height - 0.25 * slope**2 / square
            if lowest > (1 - LEAST_GAIN) * self._cost(known[at]):
                break
            known.append(-0.5 * slope / square)
        return min(known, key=self._cost)

    def _cost(self, root: float) -> float:
        return self._tried(_signed_square(root))[0]

    def _tried(self, curvature: float) -> tuple[float, tuple[int, int]]:
        """Return the error of d and the signature, searched from that of the nearest κ.

        The error is the squared mean error, relative to that of all objects in one place.
        """
        if curvature in self.seen:
            return self.seen[curvature]
        nearest = min(self.seen, key=lambda other: abs(other - curvature), default=None)
        first = None if nearest is None else self.seen[nearest][1][1]
        search = self._search(curvature)
        if self.components.signature is None:
            negatives = search.walked(first)
        else:
            negatives = search.source.place.signature[1]
        end = search.followed(search.ends_of(negatives, search.n_init))
        link = search.tiles.d * search.tiles.scale
        x = asarray_like(end.coordinates, link)
        d_hat = sq_dissimilarities(x, x, asarray_like(end.signs, x))
        error, of_none = (
            end.loss.in_distances(link, fitted, self.weights) for fitted in (d_hat, 0 * d_hat)
        )
        self.seen[curvature] = (error / of_none) ** 2 if of_none else 0.0, end.signature
        return self.seen[curvature]

    def _search(self, curvature: float) -> Search:
        """Return the search of a fit with this κ, by short descents."""
        # With one start each, local minima would decide between κ.
        starts = -(-usual_starts(len(self.sq_dissimilarity), self.components.total) // 4)
        kappa = kappa_of(curvature, mean_distance(self.sq_dissimilarity, self.weights))
        link, rng = curved(self.sq_dissimilarity, kappa), check_random_state(self.seed)
        tiles = Tiles.of(link, self.loss, weights=self.weights, floor=self.floor, curvature=kappa)
        source = Source.of(link, self.weights, self.components, self.solve, rng)
        return Search(tiles, source, BRIEF, starts, self.seed)


def _signed_square(root: float) -> float:
    return root * abs(root)
