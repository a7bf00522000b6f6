"""Tiles of D: any loss of all pairs, walked in tiles that stay in the cache.

D̂ and D are symmetric, so only tiles on and above the diagonal are visited; what a tile adds to the
gradient of its columns goes into the accumulator of its share. Shares are cut without regard to the
number of threads, so no digit depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds._backend.arrays import (
    Array,
    asarray_like,
    empty_like,
    is_numpy,
    namespace,
    on_cpu,
    row_blocks,
)
from neucmds._backend.threads import parallel_map
from neucmds._methods.refined.descent import EXACT, Start, dot
from neucmds._methods.refined.losses import (
    PairLoss,
    check_defined,
    check_loss,
    floor_of,
    power_of_four,
)

Floats = npt.NDArray[np.float64]

# Up to so many objects float64 costs next to nothing.
SMALL = 600
# A tile of float32 takes 256 KB: four of them stay in the L2 cache.
_TILE_ROWS = 128
_TILE_COLUMNS = 512
# Up to so many entries all pairs are one tile.
_ONE_TILE = 2**16
# Entries of a tile elsewhere than on a CPU: an iteration on 20,000 objects takes 19 ms on an H200,
# with a quarter of that 37 ms, for every tile is waited for.
_DEVICE_TILE = 2**26
_SHARES = 16


@dataclass(frozen=True)
class _Tile:
    """Rows and columns of a tile, and how often it counts: twice off the diagonal."""

    rows: slice
    columns: slice

    @property
    def on_diagonal(self) -> bool:
        return self.rows == self.columns

    @property
    def count(self) -> float:
        return 1.0 if self.on_diagonal else 2.0


@dataclass(frozen=True)
class TileSlopes:
    """Value and gradient of a loss at some coordinates, as `PairObjective` takes them."""

    value: float
    gradient: Array


@dataclass(frozen=True, eq=False)
class Tiles:
    """A loss of all pairs, as a function of the coordinates.

    Parameters
    ----------
    d : array of shape (n, n), float32 or float64
        D on the squared scale, divided by `scale`.
    loss : PairLoss
        With the floor f² / scale.
    signs : array of shape (k,), float64
    weights : array of shape (n, n), optional
        How much each pair counts on top of the loss; symmetric, zero: not observed.
    scale : float, default=1
        A power of four: rounding is the same whatever the unit of D.
    unit : float, default=1
        What a loss of one here is in the units of D.
    resolution : float
        Share of the loss of D̂ = 0 at which a fit is exact for all purposes.
    dtype : dtype, optional
        Precision of the tiles; that of `d` by default.
    """

    d: Array
    loss: PairLoss
    signs: Array
    weights: Array | None = None
    scale: float = 1.0
    unit: float = 1.0
    resolution: float = EXACT
    dtype: Any = None

    @classmethod
    def of(
        cls,
        sq_dissimilarity: Array,
        loss: str,
        *,
        weights: Array | None = None,
        floor: float | None = None,
        exact: bool = False,
    ) -> Tiles:
        """Scale D and weights, and round them to the precision of the tiles.

        Parameters
        ----------
        sq_dissimilarity : array of shape (n, n), float32 or float64
            D, squared scale; finite where `weights` is zero, too.
        loss : {"squared", "distance", "relative"}
        weights : array of shape (n, n), optional
            Symmetric, not negative; multiplies the loss of each pair. Zero: not observed.
        floor : float, optional
            The least d that is told apart by "relative", and by the rounded corner of "distance";
            half of the 1 % quantile of the positive d by default.
        exact : bool, default=False
            Whether float64 is used of any number of objects, and no fit is exact enough to stop.

        Raises
        ------
        InputError
            When the loss is unknown, or D is negative somewhere and the loss needs its root or its
            inverse.
        """
        check_loss(loss)
        check_defined(sq_dissimilarity, weights, loss)
        xp = namespace(sq_dissimilarity)
        narrow = sq_dissimilarity.shape[0] > SMALL and not exact
        dtype = xp.float32 if narrow else xp.float64
        scale, weight_scale = power_of_four(sq_dissimilarity), 1.0
        if weights is not None:
            weight_scale = power_of_four(weights)
            weights = _scaled(weights, weight_scale, dtype)
        d = _scaled(sq_dissimilarity, scale, dtype, weights)
        least = 0.0 if floor is None else floor**2 / scale
        if floor is None and loss != "squared":
            least = floor_of(d, weights)
        made = PairLoss(loss, least)
        unit = scale**made.degree * weight_scale
        no_signs = xp.zeros_like(sq_dissimilarity[0, :0], dtype=xp.float64)
        return cls(d, made, no_signs, weights, scale, unit, 0.0 if exact else EXACT)

    @property
    def n(self) -> int:
        """Number of objects."""
        return int(self.d.shape[0])

    @property
    def precision(self) -> Any:
        """The dtype of the tiles."""
        return self.d.dtype if self.dtype is None else self.dtype

    @property
    def is_exact(self) -> bool:
        """Whether all is in float64."""
        return bool(self.precision == namespace(self.d).float64)

    @property
    def rounding(self) -> float:
        """The loss at which a fit is exact for all purposes."""
        return self.resolution * self.size

    def exact(self) -> Tiles:
        """Return the same loss with tiles in float64; D itself stays as it is."""
        return replace(self, dtype=namespace(self.d).float64)

    def signed(self, signs: Floats) -> Tiles:
        """Return the same pairs for coordinates of other signs."""
        xp = namespace(self.d)
        return replace(self, signs=asarray_like(signs, self.d, dtype=xp.float64))

    def value_of(self, coordinates: Array, signs: Floats) -> float:
        """Return the loss of coordinates, both in the units of D, computed in float64."""
        x = asarray_like(coordinates, self.d, dtype=namespace(self.d).float64)
        return self.signed(signs).true_value(x / sqrt(self.scale)) * self.unit

    def with_loss(self, loss: PairLoss) -> Tiles:
        """Return the same pairs with another floor, or smoothed."""
        return replace(self, loss=loss)

    def rounded_value_of(self, start: Start) -> float:
        """Return the loss of a start as a descent sees it, with D near one."""
        x = asarray_like(start.coordinates, self.d, dtype=namespace(self.d).float64)
        return self.signed(start.signs).at(x / sqrt(self.scale)).value

    @cached_property
    def size(self) -> float:
        """Σ u q² of D̂ = 0 without a floor: what makes a loss a share."""
        name = self.loss.name

        def walk(share: list[_Tile]) -> float:
            total = 0.0
            for tile in share:
                xp, d = namespace(self.d), _wide(self._entries(tile))
                one = d * d if name == "squared" else d if name == "distance" else xp.ones_like(d)
                u = self._weights(tile)
                total += tile.count * float(xp.sum(one if u is None else u * one))
            return total

        return float(sum(self._spread(walk)))

    def at(self, x: Array) -> TileSlopes:
        """Return the value and the gradient, in one pass over the pairs."""
        xp, k = namespace(x), int(x.shape[1])
        left, right = self._factors(x)
        # the last column of ones makes row sums of the pulls in the same product
        ones = xp.ones_like(right[:, :1])
        extended = xp.concat([self._narrow(x), ones], axis=1)

        def walk(share: list[_Tile]) -> tuple[float, Array]:
            value, pulled = 0.0, xp.zeros_like(extended)
            for tile in share:
                terms = self.loss.terms(self._entries(tile), self._fit(left, right, tile))
                u, q = self._weights(tile), terms.residual
                pull = q if u is None else u * q
                value += tile.count * _dot(pull, q)
                if terms.slope is not None:
                    pull = _multiplied(terms.slope, pull)
                pulled[tile.rows, :] += pull @ extended[tile.columns, :]
                if not tile.on_diagonal:
                    pulled[tile.columns, :] += xp.matrix_transpose(pull) @ extended[tile.rows, :]
            return value, pulled

        values, parts = zip(*self._spread(walk), strict=True)
        pulled = sum(_wide(part) for part in parts)
        gradient = pulled[:, k:] * x - pulled[:, :k]
        gradient *= 8.0 * self.signs[None, :]
        gradient -= xp.mean(gradient, axis=0, keepdims=True)
        return TileSlopes(float(sum(values)) - self._own_cost, gradient)

    def line(self, x: Array, direction: Array, here: TileSlopes) -> TileLine:
        """Return the loss along a direction."""
        return TileLine(self, x, direction, self.quartic(x, direction, here))

    def quartic(self, x: Array, p: Array, here: TileSlopes) -> Floats:
        """Coefficients of the loss at x + tp, constant first: a quartic in t.

        Exact where q is linear in D̂; else to second order, the rest as if it were.
        """
        xp = namespace(x)
        left, right = self._factors(x)
        left_2, right_2 = self._factors(p)
        x_narrow, p_narrow = self._narrow(x), self._narrow(p)
        minus_2a = -2.0 * self._narrow(self.signs)[None, :]
        # D1_ij = 2(x_i − x_j)ᵀA(p_i − p_j), one product of 2k + 2 columns
        cross = self._narrow(xp.sum(x * p * self.signs[None, :], axis=1) * 2.0)[:, None]
        ones = xp.ones_like(cross)
        left_1 = xp.concat([x_narrow * minus_2a, p_narrow * minus_2a, cross, ones], axis=1)
        right_1 = xp.concat([p_narrow, x_narrow, ones, cross], axis=1)

        def walk(share: list[_Tile]) -> Floats:
            sums = np.zeros(3)
            for tile in share:
                terms = self.loss.terms(
                    self._entries(tile), self._fit(left, right, tile), bend=True
                )
                first = self._fit(left_1, right_1, tile)
                second = self._fit(left_2, right_2, tile)
                if terms.slope is not None:
                    first *= terms.slope
                    second *= terms.slope
                u, q = self._weights(tile), terms.residual
                weighted = second if u is None else u * second
                bent = first if u is None else u * first
                c3, c4 = 2 * _dot(bent, second), _dot(weighted, second)
                fall = 2 * _dot(weighted, q)
                if terms.curvature is not None:
                    bent = bent * terms.curvature
                sums += tile.count * np.array([fall + _dot(bent, first), c3, c4])
            return sums

        curved = np.sum(self._spread(walk), axis=0)
        slope = float(xp.sum(here.gradient * p))
        return np.array([here.value, slope, *curved])

    def blocks(self, x: Array, here: TileSlopes) -> tuple[Array, Array]:
        """Σ_j u q′² (x_i − x_j)(x_i − x_j)ᵀ for every object i, and Σ_j u |q| q′; float64.

        The expanded formula cancels: in float32 nothing would be left of it.
        """
        n, features = self.n, moments(x)
        left, right = self._factors(x)
        sums = empty_like(x, tuple(features.shape))
        pulls = empty_like(x, (n,))

        def walk(rows: slice) -> None:
            total: Any = 0.0
            pull: Any = 0.0
            for columns in self._column_slices():
                weight, some = self._gauss_newton(left, right, _Tile(rows, columns))
                total = total + _wide(weight) @ features[columns, :]
                pull = pull + some
            sums[rows, :] = total
            pulls[rows] = pull

        self._spread(walk, list(self._row_slices()))
        return second_moments_about(x, sums), pulls

    def true_value(self, x: Array) -> float:
        """Σ u q² in float64, no corner rounded."""
        exact = self.exact()
        left, right = exact._factors(x)

        def walk(share: list[_Tile]) -> float:
            return sum(
                tile.count
                * self.loss.value(
                    exact._entries(tile), exact._fit(left, right, tile), exact._weights(tile)
                )
                for tile in share
            )

        return float(sum(self._spread(walk)))

    @cached_property
    def _own_cost(self) -> float:
        """What every object costs with itself where the corner is rounded: not part of the loss."""
        xp, d = namespace(self.d), self._narrow(self.d[:1, :1]) * 0.0
        own = float(self.loss.terms(d, d * 0.0).residual[0, 0]) ** 2
        if self.weights is None:
            return own * self.n
        return own * float(xp.sum(_wide(xp.linalg.diagonal(self.weights))))

    def _gauss_newton(self, left: Array, right: Array, tile: _Tile) -> tuple[Array, Array]:
        """Return u q′² of a tile, and the row sums of u |q| q′."""
        xp = namespace(left)
        terms = self.loss.terms(self._entries(tile), self._fit(left, right, tile))
        slope = xp.ones_like(terms.residual) if terms.slope is None else terms.slope
        weighted, u = slope, self._weights(tile)
        if u is not None:
            weighted = u * slope
        pull = xp.sum(xp.abs(terms.residual) * weighted, axis=1, dtype=xp.float64)
        return weighted * slope, pull

    def _factors(self, x: Array) -> tuple[Array, Array]:
        """Return L and R with D̂ = L Rᵀ: norms ride along as two more columns."""
        xp = namespace(x)
        norms = xp.sum(x * x * self.signs[None, :], axis=1)[:, None]
        ones = xp.ones_like(norms)
        left = xp.concat([x * (-2.0 * self.signs[None, :]), norms, ones], axis=1)
        return self._narrow(left), self._narrow(xp.concat([x, ones, norms], axis=1))

    def _fit(self, left: Array, right: Array, tile: _Tile) -> Array:
        return left[tile.rows, :] @ namespace(left).matrix_transpose(right[tile.columns, :])

    def _entries(self, tile: _Tile) -> Array:
        return self._narrow(self.d[tile.rows, tile.columns])

    def _weights(self, tile: _Tile) -> Array | None:
        if self.weights is None:
            return None
        return self._narrow(self.weights[tile.rows, tile.columns])

    def _narrow(self, array: Array) -> Array:
        return namespace(array).astype(array, self.precision, copy=False)

    def _spread(self, walk: Callable[[Any], Any], parts: list[Any] | None = None) -> list[Any]:
        """Walk over every part, by default the shares of all tiles; NumPy's on all threads."""
        parts = self._shares if parts is None else parts
        if is_numpy(self.d) and len(parts) > 1:
            return parallel_map(walk, parts)
        return [walk(part) for part in parts]

    def _row_slices(self) -> Iterator[slice]:
        step = self._steps[0]
        for start in range(0, self.n, step):
            yield slice(start, min(start + step, self.n))

    def _column_slices(self, start: int = 0) -> Iterator[slice]:
        step = self._steps[1]
        for first in range(start, self.n, step):
            yield slice(first, min(first + step, self.n))

    @cached_property
    def _steps(self) -> tuple[int, int]:
        if not on_cpu(self.d):
            rows = max(1, _DEVICE_TILE // self.n)
            return rows, self.n
        if self.n**2 <= _ONE_TILE:
            return self.n, self.n
        return _TILE_ROWS, _TILE_COLUMNS

    @cached_property
    def _shares(self) -> list[list[_Tile]]:
        """Tiles on and above the diagonal, dealt out so that shares are about equally long."""
        row_slices = list(self._row_slices())
        count = min(_SHARES, len(row_slices)) if is_numpy(self.d) else 1
        shares: list[list[_Tile]] = [[] for _ in range(count)]
        for i, rows in enumerate(row_slices):
            turn = i % (2 * count)
            share = shares[turn if turn < count else 2 * count - 1 - turn]
            share.append(_Tile(rows, rows))
            share.extend(_Tile(rows, columns) for columns in self._column_slices(rows.stop))
        return shares


@dataclass(frozen=True, eq=False)
class TileLine:
    """The loss of all pairs along a direction, and what was seen there."""

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


def _scaled(array: Array, scale: float, dtype: object, weights: Array | None = None) -> Array:
    """``array / scale``, rounded, with no temporary of its size; zero where there is no weight."""
    xp, n = namespace(array), int(array.shape[0])
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


def _multiplied(product: Array, factor: Array) -> Array:
    """``product * factor``, over the first."""
    product *= factor
    return product


def _dot(left: Array, right: Array) -> float:
    """⟨left, right⟩ of two tiles."""
    if is_numpy(left) and left.flags.c_contiguous and right.flags.c_contiguous:
        # BLAS: no temporary for the product
        return float(np.dot(left.ravel(), right.ravel()))
    return float(namespace(left).sum(left * right))


def _wide(array: Array) -> Array:
    xp = namespace(array)
    return xp.astype(array, xp.float64, copy=False)
