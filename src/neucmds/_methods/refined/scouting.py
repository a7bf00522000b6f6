"""Choose signature and curvature by short descents on a sample of objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import pi, sqrt
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from neucmds._backend.arrays import Array, asarray_like, namespace
from neucmds._input import Components
from neucmds._methods.geometry import sq_dissimilarities
from neucmds._methods.refined.curvature import curved, kappa_of
from neucmds._methods.refined.descent import Limits
from neucmds._methods.refined.loss_starts import Search, Solve, Source, usual_starts
from neucmds._methods.refined.tiles import Tiles

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


def mean_distance(sq_dissimilarity: Array, weights: Array | None = None) -> float:
    """Mean of d over pairs of different objects, weighted: the unit of curvature."""
    xp, n = namespace(sq_dissimilarity), int(sq_dissimilarity.shape[0])
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
        n = int(sq_dissimilarity.shape[0])
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
        unit = self.mean / longest
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
        fixed = self.components.signature is not None
        ends = search.ends_of(search.own if fixed else search.walked(first), search.n_init)
        end = search.followed(ends)
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
        kappa = kappa_of(curvature, self.mean)
        link, rng = curved(self.sq_dissimilarity, kappa), check_random_state(self.seed)
        tiles = Tiles.of(link, self.loss, weights=self.weights, floor=self.floor, curvature=kappa)
        source = Source.of(link, self.weights, self.components, self.solve, rng)
        return Search(tiles, source, BRIEF, starts, self.seed)

    @cached_property
    def mean(self) -> float:
        return mean_distance(self.sq_dissimilarity, self.weights)


def _signed_square(root: float) -> float:
    return root * abs(root)
