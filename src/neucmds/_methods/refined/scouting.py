"""Signature and curvature by short descents, on all objects or on a sample of them."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf, pi, sqrt
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from neucmds._backend.arrays import Array, asarray_like, is_numpy, namespace
from neucmds._backend.threads import worker_pool
from neucmds._input import Components
from neucmds._methods.geometry import sq_dissimilarities
from neucmds._methods.refined.curvature import curved
from neucmds._methods.refined.descent import Limits
from neucmds._methods.refined.loss_starts import Search, Solve, Source
from neucmds._methods.refined.tiles import Tiles

# Objects that decide for all of them: 300 and 1000 of 2,296 crossings choose the same √−κ = 4.
SCOUTS = 500
BRIEF = Limits(150, 2e-3)
# √−κ that are tried first, in units of 1/(mean d), as long as it gains.
STEPS = (1.0, 2.0, 4.0, 8.0)
# √−κ times the largest d: beyond it nothing has been gained on any data.
FARTHEST = 15.0
# Share of the loss that a curvature must gain to be chosen.
LEAST_GAIN = 0.01
# Steps between the best of these and its neighbours.
REFINEMENTS = 5
# The search ends when √|κ| is known to this share, or costs differ by no more than this.
KNOWN = 0.02


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
    """Short descents on some objects.

    Parameters
    ----------
    sq_dissimilarity : array of shape (n, n)
        D, squared scale, of at most `SCOUTS` objects.
    components, loss, solve, weights, floor, seed
        As for `refine_for_loss`.
    """

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

            def some(array: Array) -> Array:
                return xp.take(xp.take(array, at, axis=0), at, axis=1)

            sq_dissimilarity = some(sq_dissimilarity)
            weights = None if weights is None else some(weights)
        return cls(sq_dissimilarity, weights=weights, seed=seed, **how)

    def signature(self, curvature: float = 0.0) -> tuple[int, int]:
        """Return the signature with the least loss, κ in units of 1/(mean d)²."""
        return self._tried(curvature)[1]

    def curvature(self) -> float:
        """Return the κ with the least error of d, in units of 1/(mean d)²; zero unless it gains."""
        flat = self._cost(0.0)
        longest = sqrt(float(namespace(self.sq_dissimilarity).max(self.sq_dissimilarity)))
        unit = self.mean / longest
        hyperbolic = [-step for step in STEPS if step < FARTHEST * unit] + [-FARTHEST * unit]
        # On a scale of ±√|κ|: spheres above zero, up to the one that has the longest d as its half.
        sphere = [pi * unit / 2, 0.97 * pi * unit, pi * unit]
        best = 0.0
        for way in (hyperbolic, sphere):
            before, here = 0.0, 0.0
            for step in way:
                if self._cost(step) > self._cost(here):
                    here = self._between(before, here, step) if here else here
                    break
                before, here = here, step
            best = min(best, here, key=self._cost)
        gains = self._cost(best) < (1 - LEAST_GAIN) * flat
        return _signed_square(best) if gains else 0.0

    def _between(self, before: float, best: float, after: float) -> float:
        """Return the best place between two ends, from one that is better than both."""
        for _ in range(REFINEMENTS):
            worse = max(self._cost(before), self._cost(after))
            if abs(after - before) < KNOWN * abs(best) or worse < (1 + KNOWN) * self._cost(best):
                break
            left, right = best - before, best - after
            if 4 * min(abs(left), abs(right)) < max(abs(left), abs(right)):
                middle = best + 2 * min(left, right, key=abs)
            else:  # the vertex of the parabola through three points
                fall, rise = (self._cost(best) - self._cost(end) for end in (before, after))
                slope = left * rise - right * fall
                middle = best - 0.5 * (left**2 * rise - right**2 * fall) / (slope or inf)
            if abs(middle - best) < 1e-3 * abs(best):
                break
            ends = (before, best) if (middle - before) * (middle - best) < 0 else (best, after)
            if self._cost(middle) < self._cost(best):
                before, best, after = ends[0], middle, ends[1]
            else:
                before, after = (middle, after) if ends[1] == best else (before, middle)
        return best

    def _cost(self, root: float) -> float:
        return self._tried(_signed_square(root))[0]

    def _tried(self, curvature: float) -> tuple[float, tuple[int, int]]:
        if curvature in self.seen:
            return self.seen[curvature]
        kappa = curvature / self.mean**2
        link = curved(self.sq_dissimilarity, kappa)
        rng = check_random_state(self.seed)
        tiles = Tiles.of(link, self.loss, weights=self.weights, floor=self.floor, curvature=kappa)
        given = self.components.signature
        with worker_pool() if is_numpy(link) else nullcontext():
            source = Source.of(link, self.weights, self.components, self.solve, rng)
            search = Search(tiles, replace(source, briefly=True), BRIEF, 1, self.seed)
            end = search.ends_of(search.walked() if given is None else given[1], 1)[0]
        x = asarray_like(end.coordinates, link)
        d_hat = sq_dissimilarities(x, x, asarray_like(end.signs, x))
        self.seen[curvature] = end.loss.in_distances(link, d_hat, self.weights), end.signature
        return self.seen[curvature]

    @cached_property
    def mean(self) -> float:
        return mean_distance(self.sq_dissimilarity, self.weights)


def _signed_square(root: float) -> float:
    return root * abs(root)
