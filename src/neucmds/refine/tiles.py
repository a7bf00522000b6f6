"""Any loss of all pairs of a matrix D, with weights and gaps.

Of a symmetric D only tiles on and above the diagonal are visited. A directed D, or one whose rows
and columns are different objects, is a rectangle of the pairs of m + n points: those of the rows,
from which to depart, and then those of the columns, where to arrive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import isqrt, sqrt
from typing import Any

import numpy as np

from neucmds.backend.arrays import (
    CACHED_ELEMENTS,
    DEVICE_ELEMENTS,
    Array,
    Floats,
    asarray_like,
    block_elements,
    empty_like,
    in_double,
    namespace,
    on_cpu,
    row_blocks,
)
from neucmds.form import Form
from neucmds.refine.descent import FEW_OBJECTS, dot
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
    RIDGE,
    Line,
    PairObjective,
    SummedLoss,
    moments,
    second_moments_about,
    with_ones,
)

# Rows and columns.
Tile = tuple[slice, slice]

# Rows of a tile, which has four times as many columns: few pairs are visited twice beside the
# diagonal, and in float32 it takes 256 KB, so that four of them stay in the L2 cache.
TILE = 128
# Of many objects every so many rows of D stand for all in the search along a line.
STRIDE = 4
# Number of lists of tiles; a thread takes one list at a time.
SHARES = 16


@dataclass(frozen=True, eq=False, kw_only=True)
class Tiles(SummedLoss):
    """A loss of all pairs, as a function of the coordinates.

    `first_row` is the number of the point of D's first row, `first_column` that of its first
    column. They are the same if and only if D is symmetric.
    """

    weights: Array | None = None
    # Each trial on a line is a pass over D.
    slope_left: float = 0.7
    first_row: int = 0
    first_column: int = 0

    @classmethod
    def of(
        cls,
        sq_dissimilarity: Array,
        loss: str,
        *,
        form: Form | None = None,
        weights: Array | None = None,
        floor: float | None = None,
        directed: bool = False,
    ) -> Tiles:
        """Scale D and weights, and round them to the precision of the tiles.

        Parameters
        ----------
        sq_dissimilarity : array of shape (n, n) or (m, n), float32 or float64
            g(d), not d² as in `refine_for_loss`; finite where `weights` is zero, too.
        loss : one of `LOSSES`
        form : Form, optional
            Of any signs; flat by default.
        weights : array of the same shape, optional
            Symmetric if D is, not negative; multiplies the loss of each pair. Zero: not observed.
        floor : float, optional
            Smaller d count as this much in "relative", and in the rounded corner of "distance";
            `floor_of` by default.
        directed : bool, default=False
            Whether rows and columns of D have points of their own.
        """
        check_defined(sq_dissimilarity, weights, loss, symmetric=not directed)
        xp = namespace(sq_dissimilarity)
        dtype = xp.float64
        if sq_dissimilarity.shape[0] > FEW_OBJECTS:
            dtype = xp.float32
        scale = power_of_four(sq_dissimilarity)
        unit = scale ** PairLoss(loss).degree
        first_column = 0
        if directed:
            first_column = sq_dissimilarity.shape[0]
            # Sums count each entry twice, as if D were a block of a symmetric matrix.
            unit /= 2
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
            first_column=first_column,
        )

    @property
    def is_directed(self) -> bool:
        """Whether rows and columns of D have points of their own."""
        return self.first_row != self.first_column

    @property
    def n_points(self) -> int:
        """Number of points."""
        m, n = self.d.shape
        return int(max(self.first_row + m, self.first_column + n))

    def exact(self) -> Tiles:
        """Return the same loss with pairs in float64; `d` stays as it is."""
        wide = namespace(self.d).float64
        if self.precision == wide:
            return self
        return replace(self, precision=wide)

    def at(self, x: Array) -> PairObjective:
        """Return the objective at x, with value and gradient, in one pass over the pairs."""
        xp = namespace(x)
        factors = self._factors(x)
        extended = self.narrow(with_ones(x))
        row_points = self.of_rows(extended)
        column_points = self.of_columns(extended)
        terms_of = self._terms_of()

        def walk(share: list[Tile]) -> tuple[float, Array]:
            value = 0.0
            pulled = xp.zeros_like(extended)
            pulled_rows = self.of_rows(pulled)
            pulled_columns = self.of_columns(pulled)
            for rows, columns in share:
                d, u, sq_hat = self._parts((rows, columns), factors)
                residual, slope, _ = terms_of((rows, columns), d, sq_hat)
                pull = weighted(residual, u)
                times = self._times(rows, columns)
                value += times * dot(pull, residual)
                if slope is not None:
                    pull *= slope
                pulled_rows[rows, :] += pull @ column_points[columns, :]
                if times == 2:
                    pulled_columns[columns, :] += pull.T @ row_points[rows, :]
            return value, pulled

        values, parts = zip(*self.each(walk, self._shares), strict=True)
        pulled = sum(map(in_double, parts))
        return PairObjective(
            self, x, float(sum(values)), self.gradient_of(x, pulled)
        )

    def line(self, point: PairObjective, direction: Array) -> Line:
        """Return the loss along a direction as a quartic, and the function that moves along it.

        Of many objects its first two coefficients are exact, and the others estimated from some
        rows of D.
        """
        x = point.x
        p = direction
        xp = namespace(x)
        signs = self.signs[None, :]
        terms_of = self._terms_of(bend=True)
        # D1_ij = 2(x_i − x_j)ᵀA(p_i − p_j), one product of 2k + 2 columns
        cross = self.form.norm_change(x, p)[:, None]
        ones = xp.ones_like(cross)
        left = self.narrow(
            xp.concat(
                [-2.0 * x * signs, -2.0 * p * signs, cross, ones], axis=1
            )
        )
        right = self.narrow(xp.concat([p, x, ones, cross], axis=1))
        changes = (self.of_rows(left), self.of_columns(right))
        # The second change of D̂, which is linear in heights.
        coordinates_alone = p * abs(signs)
        factors = (
            self._factors(x),
            changes,
            self._factors(coordinates_alone),
        )
        stride = STRIDE
        shares = self._sparse_shares
        if self.precision == xp.float64 or self.d.shape[0] <= TILE:
            stride = 1
            shares = self._shares

        def walk(share: list[Tile]) -> Floats:
            sums = np.zeros(3)
            for rows, columns in share:
                tile = (slice(rows.start, rows.stop, stride), columns)
                d, u, sq_hat, first, second = self._parts(tile, *factors)
                residual, slope, bend = terms_of(tile, d, sq_hat)
                if slope is not None:
                    first *= slope
                    second *= slope
                counted = weighted(second, u)
                bent = weighted(first, u)
                c3 = 2 * dot(bent, second)
                c4 = dot(counted, second)
                c2 = 2 * dot(counted, residual)
                if bend is not None:
                    bent = bent * bend
                c2 += dot(bent, first)
                copies = self._times(*tile) * stride
                sums += copies * np.array([c2, c3, c4])
            return sums

        higher = np.sum(self.each(walk, shares), axis=0)
        quartic = np.array([point.value, dot(point.gradient, p), *higher])
        return quartic, lambda t: self.at(x + t * p)

    def blocks(self, point: PairObjective) -> tuple[Array, Array]:
        """Return Σ_j u q′² (x_i − x_j)(x_i − x_j)ᵀ of every object i, and Σ_j u |q| q′; float64.

        The first comes from sums of moments, which cancel: of near pairs that outweigh all others
        nothing would be left in float32. A high floor leaves no such pairs.
        """
        x, partners = self.form.tangents(point.x)
        features = moments(partners)
        if self.loss.name == "squared" or self.loss.sq_floor > sqrt(RIDGE):
            features = self.narrow(features)
        sums = empty_like(x, tuple(features.shape))
        pulls = empty_like(x, (self.n_points,))
        self._sum_rows(point.x, features, sums, pulls)
        if self.is_directed:
            self._transposed._sum_rows(point.x, features, sums, pulls)
        return second_moments_about(x, sums), pulls

    def _sum_rows(
        self, x: Array, features: Array, sums: Array, pulls: Array
    ) -> None:
        """Write Σ_j u q′² of the features of j and Σ_j u |q| q′ for the points i of the rows."""
        xp = namespace(x)
        factors = self._factors(x)
        features = self.of_columns(features)
        sums = self.of_rows(sums)
        pulls = self.of_rows(pulls)
        terms_of = self._terms_of()

        def walk(rows: slice) -> None:
            total: Any = 0.0
            pull: Any = 0.0
            for columns in self._columns_of(rows):
                d, u, sq_hat = self._parts((rows, columns), factors)
                residual, slope, _ = terms_of((rows, columns), d, sq_hat)
                if slope is None:
                    slope = xp.ones_like(sq_hat)
                counted = weighted(slope, u)
                squares = xp.astype(
                    counted * slope, features.dtype, copy=False
                )
                total = total + in_double(squares @ features[columns, :])
                pulled = xp.abs(residual) * counted
                pull = pull + xp.sum(pulled, axis=1, dtype=xp.float64)
            sums[rows, :] = total
            pulls[rows] = pull

        self.each(walk, self._row_cuts)

    @cached_property
    def _transposed(self) -> Tiles:
        """The same loss with rows as columns."""
        weights = self.weights
        if weights is not None:
            weights = weights.T
        return replace(
            self,
            d=self.d.T,
            weights=weights,
            first_row=self.first_column,
            first_column=self.first_row,
        )

    def true_value(self, x: Array) -> float:
        """Return Σ u q² with no corner rounded."""
        factors = self._factors(x)

        def walk(share: list[Tile]) -> float:
            total = 0.0
            for tile in share:
                d, u, sq_hat = self._parts(tile, factors)
                total += self._times(*tile) * self.loss.value(
                    self.form, d, sq_hat, u
                )
            return total

        return float(sum(self.each(walk, self._shares)))

    def _terms_of(
        self, bend: bool = False
    ) -> Callable[[Tile, Array, Array], Terms]:
        """Return the function that computes the terms of a tile from its D and D̂."""
        # Here, not by the threads that call `terms`: it is computed by these threads itself.
        precomputed = self._precomputed

        def terms(tile: Tile, d: Array, sq_hat: Array) -> Terms:
            of_tile = None
            if precomputed is not None:
                of_tile = precomputed[tile]
            return self.loss.terms(
                self.form, d, sq_hat, bend=bend, precomputed=of_tile
            )

        return terms

    @cached_property
    def _precomputed(self) -> Array | None:
        """`PairLoss.of_pairs` of all D, which takes a third of the time of a loss; None without it.

        The few passes in float64 over a D of single precision do without.
        """
        if self.loss.name == "squared" or self.precision != self.d.dtype:
            return None
        precomputed = namespace(self.d).empty_like(
            self.d, dtype=self.precision
        )
        m, n = self.d.shape

        def walk(rows: slice) -> None:
            precomputed[rows, :] = self.loss.of_pairs(
                self.form, self.narrow(self.d[rows, :])
            )

        elements = block_elements(self.d, CACHED_ELEMENTS)
        self.each(walk, list(row_blocks(m, n, elements)))
        return precomputed

    @cached_property
    def _off_diagonal(self) -> Array:
        """Zeros on the diagonal of a square and ones elsewhere, for tiles on the diagonal of D."""
        size = min(self._sparse_step, self.d.shape[0])
        return asarray_like(1 - np.eye(size), self.d, dtype=self.precision)

    def _factors(self, x: Array) -> tuple[Array, Array]:
        """Return L of the rows and R of the columns, with D̂ = L Rᵀ, which hold norms as well."""
        xp = namespace(x)
        signed = x * self.signs[None, :]
        norms = self.form.norms(x)[:, None]
        ones = xp.ones_like(norms)
        left = xp.concat([-2.0 * signed, norms, ones], axis=1)
        right = xp.concat([x, ones, norms], axis=1)
        return (
            self.narrow(self.of_rows(left)),
            self.narrow(self.of_columns(right)),
        )

    def of_rows(self, points: Array) -> Array:
        """Return the part of an array over all points that belongs to the rows of D."""
        stop = self.first_row + self.d.shape[0]
        return points[self.first_row : stop, ...]

    def of_columns(self, points: Array) -> Array:
        """Return the part of an array over all points that belongs to the columns of D."""
        stop = self.first_column + self.d.shape[1]
        return points[self.first_column : stop, ...]

    def _parts(
        self, tile: Tile, *factors: tuple[Array, Array]
    ) -> tuple[Any, ...]:
        """Return D of a tile, its weights, or None, and L Rᵀ for every two factors L and R.

        Of a tile on the diagonal an object has weight 0 with itself: by rounding its D̂ may exceed
        the floor. D is not to be written into, the products are.
        """
        rows, columns = tile
        d = self.narrow(self.d[tile])
        u = None
        if self.weights is not None:
            u = self.narrow(self.weights[tile])
        if self._times(rows, columns) == 1:
            size = d.shape[1]
            u = weighted(self._off_diagonal[: size : rows.step, :size], u)
        products = (
            left[rows, :] @ right[columns, :].T for left, right in factors
        )
        return d, u, *products

    @cached_property
    def _step(self) -> int:
        """Rows of a tile."""
        if on_cpu(self.d):
            return TILE
        return isqrt(DEVICE_ELEMENTS // 4)

    @property
    def _sparse_step(self) -> int:
        """Rows of a tile of which every `STRIDE`-th is visited."""
        if on_cpu(self.d):
            return STRIDE * TILE
        return self._step

    @property
    def _row_cuts(self) -> list[slice]:
        """Rows of the tiles."""
        return _cuts(0, self.d.shape[0], self._step)

    def _columns_of(self, rows: slice) -> list[slice]:
        """Columns of all tiles of some rows; of a symmetric D one is on the diagonal."""
        n = self.d.shape[1]
        if self.is_directed:
            return _cuts(0, n, 4 * self._step)
        before = _cuts(0, rows.start, 4 * self._step)
        return [*before, rows, *_cuts(rows.stop, n, 4 * self._step)]

    @cached_property
    def _shares(self) -> list[list[Tile]]:
        """Tiles, of a symmetric D on and above the diagonal, in lists about equally long."""
        return self._shares_of(self._row_cuts)

    @cached_property
    def _sparse_shares(self) -> list[list[Tile]]:
        """The same of tiles of which every `STRIDE`-th row is visited."""
        return self._shares_of(_cuts(0, self.d.shape[0], self._sparse_step))

    def _shares_of(self, row_cuts: list[slice]) -> list[list[Tile]]:
        """Return the tiles of these rows, on and above the diagonal, in at most `SHARES` lists."""
        tiles = [
            (rows, columns)
            for rows in row_cuts
            for columns in self._columns_of(rows)
            if self._offset(rows, columns) >= 0
        ]
        count = min(SHARES, len(tiles))
        return [tiles[i::count] for i in range(count)]

    def _times(self, rows: slice, columns: slice) -> float:
        """Return how often entries of a tile count: once on the diagonal, which has both orders."""
        if self._offset(rows, columns) == 0:
            return 1.0
        return 2.0

    def _offset(self, rows: slice, columns: slice) -> int:
        """Return how many points the first column of a tile is after its first row."""
        after: int = columns.start - rows.start
        return after + self.first_column - self.first_row


def _cuts(start: int, stop: int, step: int) -> list[slice]:
    """Cut a range into slices of `step`."""
    return [slice(i, min(i + step, stop)) for i in range(start, stop, step)]


def _scaled(
    array: Array, scale: float, dtype: object, weights: Array | None = None
) -> Array:
    """Return ``array / scale`` in a dtype, zero where there is no weight; temporaries are small."""
    xp = namespace(array)
    m, n = array.shape
    scaled = xp.empty_like(array, dtype=dtype)
    for rows in row_blocks(m, n):
        part = array[rows, :] * (1 / scale)
        if weights is not None:
            part = xp.where(weights[rows, :] > 0, part, 0.0)
        scaled[rows, :] = xp.astype(part, dtype)
    return scaled
