"""Any loss of all pairs of a matrix D, with weights and gaps.

Only tiles on and above the diagonal are visited.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import isqrt, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import (
    DEVICE_ELEMENTS,
    Array,
    asarray_like,
    centered,
    empty_like,
    namespace,
    on_cpu,
    row_blocks,
)
from neucmds.form import Form
from neucmds.refine.descent import EXACT, FEW_OBJECTS, dot
from neucmds.refine.losses import (
    PairLoss,
    Terms,
    check_defined,
    floor_of,
    least_positive,
    power_of_four,
    weighted,
)
from neucmds.refine.pairwise import (
    PairObjective,
    SummedLoss,
    moments,
    second_moments_about,
)

Floats = npt.NDArray[np.float64]
# Rows and columns.
Tile = tuple[slice, slice]

# Rows of a tile, which has four times as many columns: few pairs are visited twice beside the
# diagonal, and in float32 it takes 256 KB, so that four of them stay in the L2 cache.
TILE = 128
# Lists of tiles that threads take one at a time.
SHARES = 16


@dataclass(frozen=True, eq=False, kw_only=True)
class Tiles(SummedLoss):
    """A loss of all pairs, as a function of the coordinates.

    `precision` is that of the tiles.
    """

    precision: Any
    weights: Array | None = None
    # Each trial on a line is a pass over D.
    slope_left: float = 0.7

    @classmethod
    def of(
        cls,
        sq_dissimilarity: Array,
        loss: str,
        *,
        form: Form | None = None,
        weights: Array | None = None,
        floor: float | None = None,
    ) -> Tiles:
        """Scale D and weights, and round them to the precision of the tiles.

        Parameters
        ----------
        sq_dissimilarity : array of shape (n, n), float32 or float64
            g(d), not d² as in `refine_for_loss`; finite where `weights` is zero, too.
        loss : {"squared", "distance", "relative"}
        form : Form, optional
            Of any signs; flat by default.
        weights : array of shape (n, n), optional
            Symmetric, not negative; multiplies the loss of each pair. Zero: not observed.
        floor : float, optional
            Smaller d count as this much in "relative", and in the rounded corner of "distance";
            `floor_of` by default.
        """
        check_defined(sq_dissimilarity, weights, loss)
        xp = namespace(sq_dissimilarity)
        dtype = xp.float64
        if sq_dissimilarity.shape[0] > FEW_OBJECTS:
            dtype = xp.float32
        scale = power_of_four(sq_dissimilarity)
        unit = scale ** PairLoss(loss).degree
        if weights is not None:
            weight_scale = power_of_four(weights)
            weights = _scaled(weights, weight_scale, dtype)
            unit *= weight_scale
        d = _scaled(sq_dissimilarity, scale, dtype, weights)
        form = (form or Form()).scaled(scale)
        pair_loss = PairLoss(loss)
        if floor is not None:
            least = least_positive(d)
            pair_loss = pair_loss.floored(floor / sqrt(scale), form, least)
        elif loss != "squared":
            pair_loss = pair_loss.floored(floor_of(form, d, weights), form)
        return cls(
            d=d,
            loss=pair_loss,
            form=form,
            scale=scale,
            unit=unit,
            precision=dtype,
            weights=weights,
        )

    @property
    def rounding(self) -> float:
        """The loss at which a fit is exact for all purposes."""
        return EXACT * self.size

    @cached_property
    def size(self) -> float:
        """The loss of all objects in one place: what makes a loss a share."""
        return self.signed(np.zeros(0)).true_value(self.d[:, :0])

    def exact(self) -> Tiles:
        """Return the same loss with tiles in float64; D itself stays as it is."""
        wide = namespace(self.d).float64
        if self.precision == wide:
            return self
        return replace(self, precision=wide)

    def at(self, x: Array) -> PairObjective:
        """Return value and gradient, in one pass over the pairs."""
        xp = namespace(x)
        k = int(x.shape[1])
        factors = self._factors(x)
        # The last column of ones makes row sums of the pulls in the same product.
        extended = self._narrow(xp.concat([x, xp.ones_like(x[:, :1])], axis=1))
        terms_of = self._terms_of()

        def walk(share: list[Tile]) -> tuple[float, Array]:
            value = 0.0
            pulled = xp.zeros_like(extended)
            for rows, columns in share:
                d, u, d_hat = self._parts((rows, columns), factors)
                residual, slope, _ = terms_of((rows, columns), d, d_hat)
                pull = weighted(residual, u)
                value += _times(rows, columns) * dot(pull, residual)
                if slope is not None:
                    pull *= slope
                pulled[rows, :] += pull @ extended[columns, :]
                if rows != columns:
                    pulled[columns, :] += (
                        xp.matrix_transpose(pull) @ extended[rows, :]
                    )
            return value, pulled

        values, parts = zip(*self.each(walk, self._shares), strict=True)
        pulled = sum(xp.astype(part, xp.float64, copy=False) for part in parts)
        gradient = pulled[:, k:] * x - pulled[:, :k]
        gradient *= 8.0 * self.signs[None, :]
        return PairObjective(
            self,
            x,
            float(sum(values)),
            centered(gradient),
        )

    def line(
        self, point: PairObjective, direction: Array
    ) -> tuple[Floats, Callable[[float], PairObjective]]:
        """Return the loss along a direction as a quartic, and the function that moves along it."""
        x = point.x
        p = direction
        xp = namespace(x)
        signs = self.signs[None, :]
        terms_of = self._terms_of(bend=True)
        # D1_ij = 2(x_i − x_j)ᵀA(p_i − p_j), one product of 2k + 2 columns
        cross = xp.sum(x * p * signs, axis=1)[:, None] * 2.0
        ones = xp.ones_like(cross)
        left = self._narrow(
            xp.concat(
                [-2.0 * x * signs, -2.0 * p * signs, cross, ones], axis=1
            )
        )
        right = self._narrow(xp.concat([p, x, ones, cross], axis=1))
        factors = (self._factors(x), (left, right), self._factors(p))

        def walk(share: list[Tile]) -> Floats:
            sums = np.zeros(3)
            for tile in share:
                d, u, d_hat, first, second = self._parts(tile, *factors)
                residual, slope, bend = terms_of(tile, d, d_hat)
                if slope is not None:
                    first *= slope
                    second *= slope
                counted = weighted(second, u)
                bent = weighted(first, u)
                c3 = 2 * dot(bent, second)
                c4 = dot(counted, second)
                fall = 2 * dot(counted, residual)
                if bend is not None:
                    bent = bent * bend
                sums += _times(*tile) * np.array(
                    [fall + dot(bent, first), c3, c4]
                )
            return sums

        higher = np.sum(self.each(walk, self._shares), axis=0)
        quartic = np.array([point.value, dot(point.gradient, p), *higher])
        return quartic, lambda t: self.at(x + t * p)

    def blocks(self, point: PairObjective) -> tuple[Array, Array]:
        """Return Σ_j u q′² (x_i − x_j)(x_i − x_j)ᵀ of every object i, and Σ_j u |q| q′; float64.

        The expanded formula cancels: in float32 nothing would be left of it.
        """
        x = point.x
        xp = namespace(x)
        n = int(x.shape[0])
        features = moments(x)
        factors = self._factors(x)
        sums = empty_like(x, tuple(features.shape))
        pulls = empty_like(x, (n,))
        terms_of = self._terms_of()

        def walk(rows: slice) -> None:
            total: Any = 0.0
            pull: Any = 0.0
            for columns in [
                *_cuts(0, rows.start, 4 * self._step),
                rows,
                *self._columns(rows.stop),
            ]:
                d, u, d_hat = self._parts((rows, columns), factors)
                residual, slope, _ = terms_of((rows, columns), d, d_hat)
                if slope is None:
                    slope = xp.ones_like(d_hat)
                counted = weighted(slope, u)
                squares = xp.astype(counted * slope, xp.float64, copy=False)
                total = total + squares @ features[columns, :]
                pulled = xp.abs(residual) * counted
                pull = pull + xp.sum(pulled, axis=1, dtype=xp.float64)
            sums[rows, :] = total
            pulls[rows] = pull

        self.each(walk, _cuts(0, n, self._step))
        return second_moments_about(x, sums), pulls

    def true_value(self, x: Array) -> float:
        """Σ u q² in float64, no corner rounded."""
        exact = self.exact()
        factors = exact._factors(x)

        def walk(share: list[Tile]) -> float:
            total = 0.0
            for tile in share:
                d, u, d_hat = exact._parts(tile, factors)
                total += _times(*tile) * self.loss.value(
                    self.form, d, d_hat, u
                )
            return total

        return float(sum(self.each(walk, self._shares)))

    def _terms_of(
        self, bend: bool = False
    ) -> Callable[[Tile, Array, Array], Terms]:
        """Return the function that makes the terms of a tile of D and D̂."""
        # Not in the walk, which uses the same threads.
        precomputed = self._precomputed

        def terms(tile: Tile, d: Array, d_hat: Array) -> Terms:
            of_tile = None
            if precomputed is not None:
                of_tile = precomputed[tile]
            return self.loss.terms(
                self.form, d, d_hat, bend=bend, precomputed=of_tile
            )

        return terms

    @cached_property
    def _precomputed(self) -> Array | None:
        """Terms of a curved loss that depend on D alone: they take a third of its time."""
        if self.form.is_flat or self.loss.name == "squared":
            return None
        precomputed = namespace(self.d).empty_like(
            self.d, dtype=self.precision
        )
        n = int(self.d.shape[0])

        def walk(rows: slice) -> None:
            precomputed[rows, :] = self.loss.of_pairs(
                self.form, self._narrow(self.d[rows, :])
            )

        self.each(walk, list(row_blocks(n, n)))
        return precomputed

    @cached_property
    def _off_diagonal(self) -> Array:
        """Zeros on a diagonal and else ones, of a tile's rows."""
        size = min(self._step, int(self.d.shape[0]))
        return asarray_like(1 - np.eye(size), self.d, dtype=self.precision)

    def _factors(self, x: Array) -> tuple[Array, Array]:
        """Return L and R with D̂ = L Rᵀ: norms ride along as two more columns."""
        xp = namespace(x)
        signed = x * self.signs[None, :]
        norms = xp.sum(x * signed, axis=1)[:, None]
        ones = xp.ones_like(norms)
        left = xp.concat([-2.0 * signed, norms, ones], axis=1)
        right = xp.concat([x, ones, norms], axis=1)
        return self._narrow(left), self._narrow(right)

    def _parts(
        self, tile: Tile, *factors: tuple[Array, Array]
    ) -> tuple[Any, ...]:
        """Return D, the weights and L Rᵀ for every two factors L and R, of a tile.

        An object has no weight with itself: rounding of its D̂ may exceed the floor.
        """
        rows, columns = tile
        d = self._narrow(self.d[tile])
        u = None
        if self.weights is not None:
            u = self._narrow(self.weights[tile])
        if rows == columns:
            size = int(d.shape[0])
            u = weighted(self._off_diagonal[:size, :size], u)
        transposed = namespace(d).matrix_transpose
        products = (
            left[rows, :] @ transposed(right[columns, :])
            for left, right in factors
        )
        return d, u, *products

    def _narrow(self, array: Array) -> Array:
        return namespace(array).astype(array, self.precision, copy=False)

    @cached_property
    def _step(self) -> int:
        """Rows of a tile."""
        if on_cpu(self.d):
            return TILE
        return isqrt(DEVICE_ELEMENTS // 4)

    def _columns(self, first: int) -> list[slice]:
        """Columns of the tiles from a first column on."""
        return _cuts(first, int(self.d.shape[0]), 4 * self._step)

    @cached_property
    def _shares(self) -> list[list[Tile]]:
        """Tiles on and above the diagonal, in lists about equally long."""
        tiles = [
            (rows, columns)
            for rows in _cuts(0, int(self.d.shape[0]), self._step)
            for columns in [rows, *self._columns(rows.stop)]
        ]
        count = min(SHARES, len(tiles))
        return [tiles[i::count] for i in range(count)]


def _cuts(start: int, stop: int, step: int) -> list[slice]:
    return [slice(i, min(i + step, stop)) for i in range(start, stop, step)]


def _times(rows: slice, columns: slice) -> float:
    """Return how often the pairs of a tile count: both orders are in one on the diagonal."""
    return 1.0 if rows == columns else 2.0


def _scaled(
    array: Array, scale: float, dtype: object, weights: Array | None = None
) -> Array:
    """``array / scale``, rounded, with no temporary of its size; zero where there is no weight."""
    xp = namespace(array)
    n = int(array.shape[0])
    scaled = xp.empty_like(array, dtype=dtype)
    for rows in row_blocks(n, n):
        part = array[rows, :] * (1 / scale)
        if weights is not None:
            part = xp.where(weights[rows, :] > 0, part, xp.zeros_like(part))
        scaled[rows, :] = xp.astype(part, dtype)
    return scaled
