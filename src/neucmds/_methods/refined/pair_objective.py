"""A loss of pairs as an objective of the descent: every object has its own preconditioner.

It is the object's Gauss–Newton block

    16 Σ_j u q′² A(x_i − x_j)(x_i − x_j)ᵀA  +  4 Σ_j u |q| q′ · I,

renewed every few iterations. Its second term stands for the curvature that Gauss–Newton drops.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neucmds._backend.arrays import Array, asarray_like, is_numpy, namespace
from neucmds._backend.threads import over_rows, worker_pool
from neucmds._methods.refined.descent import (
    Limits,
    Refined,
    Start,
    centered,
    descend,
    lowest_point,
    search_by_slopes,
)

if TYPE_CHECKING:
    from neucmds._methods.refined.listed_pairs import ListedPairs
    from neucmds._methods.refined.tiles import Tiles

Floats = npt.NDArray[np.float64]

# Blocks are renewed after so many iterations at first, then less and less often. Streets, k = 16,
# 100 iterations: 11,830 renewed every 5, 12,960 every 20; a renewal costs about three iterations.
FIRST_RENEWAL = 3
LAST_RENEWAL = 8
# Share of Σ u|q|q′ in a block, in units of 16. Set from trials with a ridge of fixed share τ of
# Σ u q′²D instead: best were τ = 0.03 (digits, k = 20), 0.01 (streets, k = 16) and 0.001 (k = 32),
# in the order of their mean |q|. This form was not compared with other shares.
DROPPED_CURVATURE = 0.25
# What keeps the block of an object without near partners invertible.
RIDGE = 1e-7


def minimize(pairs: Tiles | ListedPairs, start: Start | Refined, limits: Limits) -> Refined:
    """Lower a loss of pairs of coordinates with a fixed signature until they are at rest.

    Parameters
    ----------
    pairs : Tiles or ListedPairs
    start : Start or Refined
        Its signs do not change.
    limits : Limits
    """
    xp, root, unit = namespace(pairs.d), sqrt(pairs.scale), pairs.unit
    x = asarray_like(start.coordinates, pairs.d, dtype=xp.float64) / root
    x -= xp.mean(x, axis=0, keepdims=True)
    pairs = pairs.signed(start.signs)
    tell, keep = limits.callback, limits.keep
    if tell is not None:
        limits = replace(limits, callback=lambda step, value: tell(step, value * unit))

    def on_step(state: PairObjective) -> None:
        if keep is not None:
            keep(state.x * root, start.signs)

    # One thread each for BLAS also where all pairs are one tile: its threads wait longer for each
    # other than a product of 100 objects takes.
    with worker_pool() if is_numpy(pairs.d) else nullcontext():
        end = descend(PairObjective.at(pairs, x), limits, on_step)
        value = pairs.true_value(end.state.x)
    return Refined(
        end.state.x * root,
        start.signs,
        replace(pairs.loss, floor=pairs.loss.floor * pairs.scale),
        value * unit,
        tuple(one * unit for one in end.history),
        end.converged,
        end.relative_gradient,
    )


@dataclass(frozen=True, eq=False)
class PairObjective:
    """A loss of pairs at coordinates x: an objective for `descend`.

    Parameters
    ----------
    pairs : Tiles or ListedPairs
    x : array of shape (n, k), float64
    here : TileSlopes or ListedSlopes
        Value and gradient at x.
    carried : array of shape (n, k, k) or None
        Inverse blocks of an earlier point, `age` iterations ago, good until age `renewal`.
    """

    pairs: Tiles | ListedPairs
    x: Array
    here: Any
    carried: Array | None = None
    age: int = 0
    renewal: int = FIRST_RENEWAL

    @classmethod
    def at(cls, pairs: Tiles | ListedPairs, x: Array) -> PairObjective:
        """Return the objective at some coordinates."""
        return cls(pairs, x, pairs.at(x))

    @property
    def value(self) -> float:
        """The loss here."""
        return float(self.here.value)

    @property
    def rounding(self) -> float:
        """The loss at which a fit is exact for all purposes."""
        return self.pairs.rounding

    @cached_property
    def inverses(self) -> Array:
        """Inverse blocks of this point, or of an earlier one."""
        if self.carried is not None:
            return self.carried
        return _held_inverses(*self.pairs.blocks(self.x, self.here))

    def gradient(self) -> Array:
        """Return the gradient, centered."""
        return self.here.gradient

    def precondition(self, gradient: Array) -> Array:
        """Solve with every object's block."""
        xp, (n, k), signs = namespace(gradient), gradient.shape, self.pairs.signs[None, :]
        solved = xp.empty_like(gradient)

        def solve(rows: slice) -> None:
            inverses = self.inverses[rows, :, :]
            some = xp.astype(gradient[rows, :] * (signs / 16), inverses.dtype)
            solved[rows, :] = (inverses @ some[:, :, None])[:, :, 0] * signs

        _ = self.inverses  # made once, by all threads
        over_rows(solve, n, k * k)
        return centered(solved)

    def minimize_along(self, direction: Array) -> PairObjective | None:
        """Go to the lowest point of a line; None where rounding leaves no way down."""
        line = self.pairs.line(self.x, direction, self.here)
        quadratic = self.pairs.loss.is_quadratic
        t = lowest_point(line.quartic) if quadratic else search_by_slopes(line)
        if t is None:
            return None
        renew = self.age + 1 >= self.renewal
        there = line.end(t, anew=renew)
        if not there.value < self.value:
            return None
        x = self.x + t * direction
        if renew:
            # Blocks of k² numbers cost the more the larger k is.
            last = max(LAST_RENEWAL, int(x.shape[1]) // 4)
            return PairObjective(self.pairs, x, there, renewal=min(2 * self.renewal, last))
        return PairObjective(self.pairs, x, there, self.inverses, self.age + 1, self.renewal)

    def sharper(self) -> PairObjective | None:
        """Return the same place with fresh blocks, or else in float64; None if it is."""
        if self.age:
            return replace(self, carried=None, age=0)
        return None if self.pairs.is_exact else PairObjective.at(self.pairs.exact(), self.x)

    def measured(self) -> PairObjective:
        """Return the same place in float64."""
        if self.pairs.is_exact:
            return self
        exact = self.pairs.exact()
        return replace(self, pairs=exact, here=exact.at(self.x), carried=self.inverses)


def _held_inverses(blocks: Array, pull: Array) -> Array:
    """Add to every block what Gauss–Newton drops and a ridge, over itself, and invert it."""
    xp, (n, k) = namespace(blocks), (int(size) for size in blocks.shape[:2])
    own = xp.sum(xp.linalg.diagonal(blocks), axis=1) / max(1, k)
    ridge = DROPPED_CURVATURE * pull + RIDGE * (own + xp.mean(own))
    ridge = xp.astype(xp.where(ridge > 0, ridge, xp.ones_like(ridge)), blocks.dtype)
    unit = asarray_like(np.eye(k), blocks)

    def invert(rows: slice) -> None:
        held = blocks[rows, :, :]
        held += ridge[rows][:, None, None] * unit[None, :, :]
        blocks[rows, :, :] = _inverses(held)

    over_rows(invert, n, k * k)
    return blocks


def _inverses(blocks: Array) -> Array:
    """Invert matrices; where D spans 24 decades one may be singular but for its last digits."""
    try:
        return namespace(blocks).linalg.inv(blocks)
    except np.linalg.LinAlgError:
        return np.linalg.pinv(blocks, hermitian=True)
