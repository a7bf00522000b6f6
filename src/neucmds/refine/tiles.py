"""Objective of tiles of D: any loss of all pairs, with weights and gaps.

Every object has its own preconditioner, its Gauss–Newton block

    16 Σ_j u q′² A(x_i − x_j)(x_i − x_j)ᵀA  +  4 Σ_j u |q| q′ · I,

renewed every few iterations; the second term stands for the curvature that Gauss–Newton drops. Only
tiles on and above the diagonal are visited.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import (
    Array,
    asarray_like,
    centered,
    empty_like,
    is_numpy,
    namespace,
    on_cpu,
    row_blocks,
)
from neucmds.backend.threads import over_rows, parallel_map, pool_for
from neucmds.refine.descent import (
    EXACT,
    FEW_OBJECTS,
    Limits,
    Refined,
    Start,
    descend,
    dot,
    lowest_point,
    search_by_slopes,
)
from neucmds.refine.losses import (
    DEGREES,
    PairLoss,
    PairTerms,
    check_defined,
    floor_of,
    power_of_four,
)

if TYPE_CHECKING:
    from neucmds.refine.listed_pairs import ListedPairs

Floats = npt.NDArray[np.float64]

# Blocks are renewed after 3 iterations at first, then less often; a renewal costs about three.
FIRST_RENEWAL = 3
LAST_RENEWAL = 8
# Share of Σ u|q|q′ in a block, in units of 16.
DROPPED_CURVATURE = 0.25
# Keeps the block of an object without near partners invertible.
RIDGE = 1e-7
# Falling floors of d²: the first one relative to the last, and the ratio of two stages.
FIRST_FLOOR = 16.0**2
FLOOR_STEP = 2.0**2
STAGE_ITERATIONS, STAGE_TOL = 40, 1e-3
# A tile of float32 takes 256 KB: four of them stay in the L2 cache.
_TILE_ROWS = 128
_TILE_COLUMNS = 512
# Up to this many entries all pairs are one tile.
_ONE_TILE = 2**16
# Entries of a tile on a GPU: every tile is waited for.
_DEVICE_TILE = 2**26
_SHARES = 16


def minimize(pairs: Tiles | ListedPairs, start: Start, limits: Limits) -> Refined:
    """Lower a loss of pairs over coordinates; the signs of the start do not change."""
    xp, root, unit = namespace(pairs.d), sqrt(pairs.scale), pairs.unit
    x = asarray_like(start.coordinates, pairs.d, dtype=xp.float64) / root
    x -= xp.mean(x, axis=0, keepdims=True)
    pairs = pairs.signed(start.signs)
    callback, keep = limits.callback, limits.keep
    if callback is not None:
        limits = replace(limits, callback=lambda step, value: callback(step, value * unit))
    on_step = None if keep is None else lambda state: keep(state.x * root, start.signs)
    with pool_for(pairs.d):
        end = descend(PairObjective(pairs, x, pairs.at(x)), limits, on_step)
        value = pairs.true_value(end.state.x)
    loss, scale = pairs.loss, pairs.scale
    return Refined(
        end.state.x * root,
        start.signs,
        replace(loss, floor=loss.floor * scale, curvature=loss.curvature / scale),
        value * unit,
        tuple(one * unit for one in end.history),
        end.converged,
        end.relative_gradient,
    )


def lowered(
    pairs: Tiles | ListedPairs, start: Start, limits: Limits, first: float | None = None
) -> tuple[Start, Limits]:
    """Descend on falling floors, all but the last; also return the remaining limits.

    `first` is the highest floor; by default, and only for "relative", 16 times the last one of d.
    """
    if first is None:
        first = FIRST_FLOOR * pairs.loss.floor if pairs.loss.name == "relative" else 0.0
    floor, left = first, limits
    while floor > pairs.loss.floor and left.max_iter:
        loss = replace(pairs.loss, floor=floor)
        most, tol = min(left.max_iter, STAGE_ITERATIONS), max(limits.tol, STAGE_TOL)
        end = minimize(replace(pairs, loss=loss), start, replace(left, max_iter=most, tol=tol))
        start, left = Start(end.coordinates, start.signs), left.after(len(end.history) - 1)
        floor /= FLOOR_STEP
    return start, left


@dataclass(frozen=True, eq=False)
class PairObjective:
    """A loss of pairs at coordinates x: an objective for `descend`.

    `here` has value and gradient at x; `carried` are inverse blocks (n, k, k) of a point `age`
    iterations ago, valid until age `renewal`.
    """

    pairs: Tiles | ListedPairs
    x: Array
    here: Any
    carried: Array | None = None
    age: int = 0
    renewal: int = FIRST_RENEWAL

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
        return _inverted(*self.pairs.blocks(self.x, self.here))

    @property
    def gradient(self) -> Array:
        """The gradient, centered."""
        return self.here.gradient

    @cached_property
    def step(self) -> Array:
        """The gradient, solved with every object's block; centered."""
        gradient, inverses, signs = self.gradient, self.inverses, self.pairs.signs[None, :]
        xp, (n, k) = namespace(gradient), gradient.shape
        right = xp.astype(gradient * (signs / 16), inverses.dtype)[:, :, None]
        parts = over_rows(lambda rows: inverses[rows, :, :] @ right[rows, :, :], n, k * k)
        return centered(xp.concat(parts)[:, :, 0] * signs)

    def minimize_along(self, direction: Array) -> PairObjective | None:
        """Move to the lowest point of a line; None if rounding hides a gain."""
        line = self.pairs.line(self.x, direction, self.here)
        by_slopes = self.pairs.loss.name == "distance"
        t = search_by_slopes(line) if by_slopes else lowest_point(line.quartic)
        if t is None:
            return None
        renew = self.age + 1 >= self.renewal
        there = line.end(t, anew=renew)
        if not there.value < self.value:
            return None
        x = self.x + t * direction
        if renew:
            last = max(LAST_RENEWAL, int(x.shape[1]) // 4)
            return PairObjective(self.pairs, x, there, renewal=min(2 * self.renewal, last))
        return PairObjective(self.pairs, x, there, self.inverses, self.age + 1, self.renewal)

    def sharper(self) -> PairObjective | None:
        """Return the same place with new blocks, or else in float64; None if it has both."""
        if self.age:
            return replace(self, carried=None, age=0)
        exact = self.pairs.exact()
        return None if exact is self.pairs else PairObjective(exact, self.x, exact.at(self.x))

    def measured(self) -> PairObjective:
        """Return the same place in float64."""
        exact = self.pairs.exact()
        if exact is self.pairs:
            return self
        return replace(self, pairs=exact, here=exact.at(self.x), carried=self.inverses)


def _inverted(blocks: Array, pull: Array) -> Array:
    """Add the curvature that Gauss–Newton drops and a ridge to every block; invert it in place."""
    xp, (n, k) = namespace(blocks), (int(size) for size in blocks.shape[:2])
    own = xp.sum(xp.linalg.diagonal(blocks), axis=1) / max(1, k)
    ridge = DROPPED_CURVATURE * pull + RIDGE * (own + xp.mean(own))
    ridge = xp.astype(xp.where(ridge > 0, ridge, xp.ones_like(ridge)), blocks.dtype)
    unit = asarray_like(np.eye(k), blocks)

    def invert(rows: slice) -> None:
        held = blocks[rows, :, :]
        held += ridge[rows][:, None, None] * unit[None, :, :]
        try:
            blocks[rows, :, :] = xp.linalg.inv(held)
        except np.linalg.LinAlgError:
            # Singular to rounding, where D spans 24 decades.
            blocks[rows, :, :] = np.linalg.pinv(held)

    over_rows(invert, n, k * k)
    return blocks


class _Tile(NamedTuple):
    """Rows and columns of a tile, and its factor: 2 off the diagonal."""

    rows: slice
    columns: slice
    times: float


@dataclass(frozen=True)
class TileSlopes:
    """Value and gradient of a loss at some coordinates, as `PairObjective` takes them."""

    value: float
    gradient: Array


@dataclass(frozen=True, eq=False)
class Tiles:
    """A loss of all pairs, as a function of the coordinates.

    `d` is D divided by `scale`, a power of four, so that rounding does not depend on the unit of D;
    the loss has the floor f² / scale, and times `unit` it is in the units of D. `precision` is that
    of the tiles, and `resolution` the share of the loss of D̂ = 0 at which a fit counts as exact.
    """

    d: Array
    loss: PairLoss
    signs: Array
    precision: Any
    weights: Array | None = None
    scale: float = 1.0
    unit: float = 1.0
    resolution: float = EXACT

    @classmethod
    def of(
        cls,
        sq_dissimilarity: Array,
        loss: str,
        *,
        weights: Array | None = None,
        floor: float | None = None,
        curvature: float = 0.0,
        exact: bool = False,
    ) -> Tiles:
        """Scale D and weights, and round them to the precision of the tiles.

        Parameters
        ----------
        sq_dissimilarity : array of shape (n, n), float32 or float64
            D, squared scale, or g(d) of a curvature; finite where `weights` is zero, too.
        loss : {"squared", "distance", "relative"}
        weights : array of shape (n, n), optional
            Symmetric, not negative; multiplies the loss of each pair. Zero: not observed.
        floor : float, optional
            Smaller d count as this much in "relative", and in the rounded corner of "distance";
            `floor_of` by default.
        curvature : float, default=0
            κ, in units of 1/d².
        exact : bool, default=False
            Use float64 for any number of objects, and never stop at an exact fit.
        """
        check_defined(sq_dissimilarity, weights, loss)
        xp = namespace(sq_dissimilarity)
        narrow = sq_dissimilarity.shape[0] > FEW_OBJECTS and not exact
        dtype = xp.float32 if narrow else xp.float64
        scale, weight_scale = power_of_four(sq_dissimilarity), 1.0
        if weights is not None:
            weight_scale = power_of_four(weights)
            weights = _scaled(weights, weight_scale, dtype)
        d = _scaled(sq_dissimilarity, scale, dtype, weights)
        made = PairLoss(loss, 0.0, curvature=curvature * scale)
        if floor is not None:
            made = made.floored(floor / sqrt(scale))
        elif loss != "squared":
            made = made.floored(floor_of(d, weights, made.curvature))
        unit = scale ** DEGREES[loss] * weight_scale
        no_signs = xp.zeros_like(sq_dissimilarity[0, :0], dtype=xp.float64)
        return cls(d, made, no_signs, dtype, weights, scale, unit, 0.0 if exact else EXACT)

    @property
    def rounding(self) -> float:
        """The loss at which a fit is exact for all purposes."""
        return self.resolution * self.size

    @cached_property
    def size(self) -> float:
        """The loss of all objects in one place: what makes a loss a share."""
        return self.signed(np.zeros(0)).true_value(self.d[:, :0])

    def exact(self) -> Tiles:
        """Return the same loss with tiles in float64; D itself stays as it is."""
        wide = namespace(self.d).float64
        return self if self.precision == wide else replace(self, precision=wide)

    def signed(self, signs: Floats) -> Tiles:
        """Return the same pairs for coordinates of other signs."""
        xp = namespace(self.d)
        return replace(self, signs=asarray_like(signs, self.d, dtype=xp.float64))

    def value_of(self, coordinates: Array, signs: Floats) -> float:
        """Return the loss of coordinates, both in the units of D, computed in float64."""
        x = asarray_like(coordinates, self.d, dtype=namespace(self.d).float64)
        return self.signed(signs).true_value(x / sqrt(self.scale)) * self.unit

    def at(self, x: Array) -> TileSlopes:
        """Return the value and the gradient, in one pass over the pairs."""
        xp, k, factors = namespace(x), int(x.shape[1]), self._factors(x)
        # the last column of ones makes row sums of the pulls in the same product
        extended = self._narrow(xp.concat([x, xp.ones_like(x[:, :1])], axis=1))
        terms_of = self._terms_of()

        def walk(share: list[_Tile]) -> tuple[float, Array]:
            value, pulled = 0.0, xp.zeros_like(extended)
            for tile in share:
                d, u, d_hat = self._seen(tile, factors)
                terms = terms_of(tile, d, d_hat)
                pull = terms.residual if u is None else u * terms.residual
                value += tile.times * dot(pull, terms.residual)
                if terms.slope is not None:
                    pull *= terms.slope
                pulled[tile.rows, :] += pull @ extended[tile.columns, :]
                if tile.times == 2:
                    pulled[tile.columns, :] += xp.matrix_transpose(pull) @ extended[tile.rows, :]
            return value, pulled

        values, parts = zip(*self._spread(walk, self._shares), strict=True)
        pulled = sum(xp.astype(part, xp.float64, copy=False) for part in parts)
        gradient = pulled[:, k:] * x - pulled[:, :k]
        gradient *= 8.0 * self.signs[None, :]
        return TileSlopes(float(sum(values)) - self._own_cost, centered(gradient))

    def line(self, x: Array, p: Array, here: TileSlopes) -> TileLine:
        """Return the loss along a direction: a quartic where q is linear in D̂.

        Elsewhere it is exact to second order, the rest as if q were.
        """
        xp, factors, factors_2 = namespace(x), self._factors(x), self._factors(p)
        minus_2a, terms_of = -2.0 * self.signs[None, :], self._terms_of(bend=True)
        # D1_ij = 2(x_i − x_j)ᵀA(p_i − p_j), one product of 2k + 2 columns
        cross = xp.sum(x * p * self.signs[None, :], axis=1)[:, None] * 2.0
        ones = xp.ones_like(cross)
        left = self._narrow(xp.concat([x * minus_2a, p * minus_2a, cross, ones], axis=1))
        right = self._narrow(xp.concat([p, x, ones, cross], axis=1))

        def walk(share: list[_Tile]) -> Floats:
            sums = np.zeros(3)
            for tile in share:
                d, u, d_hat, first, second = self._seen(tile, factors, (left, right), factors_2)
                terms = terms_of(tile, d, d_hat)
                if terms.slope is not None:
                    first *= terms.slope
                    second *= terms.slope
                weighted = second if u is None else u * second
                bent = first if u is None else u * first
                c3, c4 = 2 * dot(bent, second), dot(weighted, second)
                fall = 2 * dot(weighted, terms.residual)
                if terms.curvature is not None:
                    bent = bent * terms.curvature
                sums += tile.times * np.array([fall + dot(bent, first), c3, c4])
            return sums

        curved = np.sum(self._spread(walk, self._shares), axis=0)
        quartic = np.array([here.value, dot(here.gradient, p), *curved])
        return TileLine(self, x, p, quartic)

    def blocks(self, x: Array, here: TileSlopes) -> tuple[Array, Array]:
        """Σ_j u q′² (x_i − x_j)(x_i − x_j)ᵀ for every object i, and Σ_j u |q| q′; float64.

        The expanded formula cancels: in float32 nothing would be left of it.
        """
        xp, n, features, factors = namespace(x), int(x.shape[0]), moments(x), self._factors(x)
        sums, pulls = empty_like(x, tuple(features.shape)), empty_like(x, (n,))
        terms_of = self._terms_of()

        def walk(rows: slice) -> None:
            total: Any = 0.0
            pull: Any = 0.0
            for columns in _cuts(0, n, self._steps[1]):
                tile = _Tile(rows, columns, 1.0)
                d, u, d_hat = self._seen(tile, factors)
                terms = terms_of(tile, d, d_hat)
                slope = xp.ones_like(d_hat) if terms.slope is None else terms.slope
                weighted = slope if u is None else u * slope
                some = xp.astype(weighted * slope, xp.float64, copy=False)
                total = total + some @ features[columns, :]
                pulled = xp.abs(terms.residual) * weighted
                pull = pull + xp.sum(pulled, axis=1, dtype=xp.float64)
            sums[rows, :] = total
            pulls[rows] = pull

        self._spread(walk, _cuts(0, n, self._steps[0]))
        return second_moments_about(x, sums), pulls

    def true_value(self, x: Array) -> float:
        """Σ u q² in float64, no corner rounded."""
        exact = self.exact()
        factors = exact._factors(x)

        def walk(share: list[_Tile]) -> float:
            total = 0.0
            for tile in share:
                d, u, d_hat = exact._seen(tile, factors)
                total += tile.times * self.loss.value(d, d_hat, u)
            return total

        return float(sum(self._spread(walk, self._shares)))

    def _terms_of(self, bend: bool = False) -> Callable[[_Tile, Array, Array], PairTerms]:
        """Return the function that makes the terms of a tile of D and D̂."""
        known = self._known  # not in the walk, which uses the same threads

        def terms(tile: _Tile, d: Array, d_hat: Array) -> PairTerms:
            part = None if known is None else known[tile.rows, tile.columns]
            return self.loss.terms(d, d_hat, bend=bend, known=part)

        return terms

    @cached_property
    def _known(self) -> Array | None:
        """Terms of a curved loss that depend on D alone: they take a third of its time."""
        if not self.loss.curvature:
            return None
        known, (n, _) = namespace(self.d).empty_like(self.d, dtype=self.precision), self.d.shape

        def walk(rows: slice) -> None:
            known[rows, :] = self.loss.of_pairs(self._narrow(self.d[rows, :]))

        self._spread(walk, list(row_blocks(n, n)))
        return known

    @cached_property
    def _own_cost(self) -> float:
        """Loss of the diagonal where the corner is rounded: not part of the loss."""
        xp, zero = namespace(self.d), self._narrow(self.d[:1, :1])
        own = float(self.loss.terms(zero, zero * 0.0).residual[0, 0]) ** 2
        if self.weights is None:
            return own * int(self.d.shape[0])
        return own * float(xp.sum(xp.linalg.diagonal(self.weights), dtype=xp.float64))

    def _factors(self, x: Array) -> tuple[Array, Array]:
        """Return L and R with D̂ = L Rᵀ: norms ride along as two more columns."""
        xp = namespace(x)
        norms = xp.sum(x * x * self.signs[None, :], axis=1)[:, None]
        ones = xp.ones_like(norms)
        left = xp.concat([x * (-2.0 * self.signs[None, :]), norms, ones], axis=1)
        return self._narrow(left), self._narrow(xp.concat([x, ones, norms], axis=1))

    def _seen(self, tile: _Tile, *factors: tuple[Array, Array]) -> tuple[Any, ...]:
        """Return D, the weights and L Rᵀ for every two factors L and R, of a tile."""
        d, u = self.d[tile.rows, tile.columns], self.weights
        if u is not None:
            u = self._narrow(u[tile.rows, tile.columns])
        transposed = namespace(d).matrix_transpose
        products = (
            left[tile.rows, :] @ transposed(right[tile.columns, :]) for left, right in factors
        )
        return self._narrow(d), u, *products

    def _narrow(self, array: Array) -> Array:
        return namespace(array).astype(array, self.precision, copy=False)

    def _spread(self, walk: Callable[[Any], Any], parts: list[Any]) -> list[Any]:
        """Walk over every part; NumPy's on all threads."""
        if is_numpy(self.d) and len(parts) > 1:
            return parallel_map(walk, parts)
        return [walk(part) for part in parts]

    @cached_property
    def _steps(self) -> tuple[int, int]:
        """Rows and columns of a tile."""
        n, _ = self.d.shape
        if not on_cpu(self.d):
            return max(1, _DEVICE_TILE // n), n
        return (n, n) if n**2 <= _ONE_TILE else (_TILE_ROWS, _TILE_COLUMNS)

    @cached_property
    def _shares(self) -> list[list[_Tile]]:
        """Tiles on and above the diagonal, dealt out so that shares are about equally long."""
        (n, _), (step, width) = self.d.shape, self._steps
        row_slices = _cuts(0, n, step)
        count = min(_SHARES, len(row_slices)) if is_numpy(self.d) else 1
        shares: list[list[_Tile]] = [[] for _ in range(count)]
        for i, rows in enumerate(row_slices):
            turn = i % (2 * count)
            share = shares[turn if turn < count else 2 * count - 1 - turn]
            share.append(_Tile(rows, rows, 1.0))
            share.extend(_Tile(rows, columns, 2.0) for columns in _cuts(rows.stop, n, width))
        return shares


@dataclass(frozen=True, eq=False)
class TileLine:
    """The loss of all pairs along a direction, with the values computed so far."""

    tiles: Tiles
    x: Array
    direction: Array
    quartic: Floats
    seen: dict[float, TileSlopes] = field(default_factory=dict)

    def at(self, t: float) -> tuple[float, float]:
        """Return loss and slope at t."""
        there = self.end(t)
        return there.value, dot(there.gradient, self.direction)

    def end(self, t: float, anew: bool = False) -> TileSlopes:
        """Return value and gradient at t."""
        if t not in self.seen:
            self.seen[t] = self.tiles.at(self.x + t * self.direction)
        return self.seen[t]


def _cuts(start: int, stop: int, step: int) -> list[slice]:
    return [slice(first, min(first + step, stop)) for first in range(start, stop, step)]


def _scaled(array: Array, scale: float, dtype: object, weights: Array | None = None) -> Array:
    """``array / scale``, rounded, with no temporary of its size; zero where there is no weight."""
    xp, (n, _) = namespace(array), array.shape
    scaled = xp.empty_like(array, dtype=dtype)
    for rows in row_blocks(n, n):
        some = array[rows, :] * (1 / scale)
        if weights is not None:
            some = xp.where(weights[rows, :] > 0, some, xp.zeros_like(some))
        scaled[rows, :] = xp.astype(some, dtype)
    return scaled


def moments(x: Array) -> Array:
    """Products of any two coordinates of every object, its coordinates, and one."""
    xp = namespace(x)
    above, below = (asarray_like(i, x, dtype=xp.int64) for i in np.triu_indices(int(x.shape[1])))
    outer = xp.take(x, above, axis=1) * xp.take(x, below, axis=1)
    return xp.concat([outer, x, xp.ones_like(x[:, :1])], axis=1)


def second_moments_about(x: Array, sums: Array) -> Array:
    """Σ_j w (x_i − x_j)(x_i − x_j)ᵀ of every object i, from Σ_j w of the `moments` of x_j."""
    xp, (n, k) = namespace(x), (int(size) for size in x.shape)
    upper = np.triu_indices(k)
    size = len(upper[0])
    products, means, total = sums[:, :size], sums[:, size:-1], sums[:, -1:]
    full = np.empty((k, k), dtype=np.int64)
    full[upper] = full.T[upper] = np.arange(size)
    places = asarray_like(full.ravel(), x, dtype=xp.int64)
    # One product of n pairs of k × 2 matrices: half the time of sums of outer products.
    left = xp.stack([total * x - means, x], axis=2)
    blocks = left @ xp.stack([x, -means], axis=1)
    blocks += xp.reshape(xp.take(products, places, axis=1), (n, k, k))
    return blocks
