"""Any loss of listed pairs; time and memory grow with the number of pairs, not with n².

An iteration takes two passes over the pairs: one for D̂ along a line, one for the gradient, a
sparse product. In main memory passes are cut into parts that stay in the cache.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import sqrt
from typing import Any

import numpy as np
from scipy import sparse

from neucmds.backend.arrays import (
    CACHED_ELEMENTS,
    DEVICE_ELEMENTS,
    Array,
    Floats,
    Numbers,
    asarray_like,
    in_double,
    is_array,
    is_numpy,
    namespace,
    on_cpu,
    row_blocks,
    sparse_times,
)
from neucmds.backend.cuda_kernels import pair_changes
from neucmds.backend.threads import parallel_map
from neucmds.form import Form
from neucmds.problem.pairs import Pairs
from neucmds.refine.descent import (
    Configuration,
    Descent,
    descend,
    dot,
    shortened,
)
from neucmds.refine.losses import (
    PairLoss,
    Terms,
    check_defined,
    combined_floor,
    least_positive,
    power_of_four,
    weighted,
)
from neucmds.refine.pairwise import (
    Line,
    PairObjective,
    SummedLoss,
    descended,
    finish,
    lowered,
    moments,
    second_moments_about,
    with_ones,
)

# A product with a matrix of pairs is cut into so many pieces, however many threads there are. Each
# has n × k sums of its own, added up in a fixed order, so that threads change no digit.
PIECES = 4


def refine_pairs(
    pairs: Pairs,
    start: Configuration,
    descent: Descent = descend,
    loss: str = "relative",
    *,
    floor: float | None = None,
    falling: bool = True,
) -> Configuration:
    """Lower a loss of listed pairs, with the library and on the device of the start's coordinates.

    Parameters
    ----------
    pairs : Pairs
        Weights multiply the loss of each pair.
    start : Configuration
        With the form of the fit.
    descent : callable, optional
        `descend`, perhaps with some of its arguments given.
    loss : one of `LOSSES`, default="relative"
    floor : float, optional
        As for `Tiles.of`; `pair_floor` by default.
    falling : bool, default=True
        Whether to begin with short descents by the loss's `beginning` on falling floors, for a
        start whose near pairs are far off.
    """
    check_defined(pairs.sq_dissimilarity, None, loss)
    like = start.coordinates if is_array(start.coordinates) else np.zeros(0)
    listed = ListedPairs.of(pairs, loss, start.form, like=like, floor=floor)
    if falling:
        beginning = replace(listed, loss=listed.loss.beginning)
        start = lowered(beginning, start, shortened(descent))
        if beginning.loss != listed.loss:
            # On the last floor, which `lowered` leaves out.
            start = descended(beginning, start, shortened(descent))
    return finish(listed, start, descent)


def pair_floor(form: Form, pairs: Pairs) -> float:
    """Return the floor of d of the listed pairs, as `combined_floor`; weights do not count."""
    is_positive = pairs.sq_dissimilarity > 0
    sq = form.to_sq(pairs.sq_dissimilarity[is_positive])
    nearest = np.full(pairs.n, np.inf)
    for objects in (pairs.i, pairs.j):
        np.minimum.at(nearest, objects[is_positive], sq)
    return combined_floor(form, sq, nearest, float(sq.max(initial=0.0)))


@dataclass(frozen=True, eq=False, kw_only=True)
class ListedPairs(SummedLoss):
    """A loss of listed pairs as a function of the coordinates, on any array library.

    `i` and `j` (m,) are the objects of each pair, i < j, sorted by i; `d` (m,) is its D, and `u`
    (m,) its weight, of at most about one. The symmetric matrix of all pairs, each in both orders,
    is stored as CSR: `starts` = indptr, `partners` = indices, and `pair` = the number of the pair
    of each entry.
    """

    i: Array
    j: Array
    u: Array | None
    starts: Array
    partners: Array
    pair: Array
    # A trial on a line is cheap: D̂ is a sum of arrays that are already computed.
    slope_left: float = 0.3

    @classmethod
    def of(
        cls,
        pairs: Pairs,
        loss: str,
        form: Form,
        *,
        like: Array,
        floor: float | None = None,
    ) -> ListedPairs:
        """Bring pairs to the library and device of the array `like`, scaled and rounded.

        Few pairs in main memory are in float64, others in float32. `floor` is as in `refine_pairs`.
        """
        xp = namespace(like)
        dtype = xp.float32
        if pairs.size <= CACHED_ELEMENTS and on_cpu(like):
            dtype = xp.float64
        sq = form.to_sq(pairs.sq_dissimilarity)
        scale = power_of_four(sq)
        unit = scale ** PairLoss(loss).degree
        weight = None
        if pairs.weight is not None:
            weight_scale = power_of_four(pairs.weight)
            weight = asarray_like(
                pairs.weight / weight_scale, like, dtype=dtype
            )
            unit *= weight_scale
        i, j = pairs.i, pairs.j
        if not is_numpy(like):
            i, j = (
                asarray_like(objects, like, dtype=xp.int32)
                for objects in (i, j)
            )
        least = 0.0
        if floor is None:
            floor = pair_floor(form, pairs)
        else:
            least = least_positive(sq / scale)
        scaled_form = form.scaled(scale)
        starts, partners, pair = _by_rows(pairs.n, i, j)
        return cls(
            d=asarray_like(sq / scale, like, dtype=dtype),
            loss=PairLoss(loss).floored(
                floor / sqrt(scale), scaled_form, least
            ),
            form=scaled_form,
            scale=scale,
            unit=unit,
            precision=dtype,
            i=i,
            j=j,
            u=weight,
            starts=starts,
            partners=partners,
            pair=pair,
        )

    def exact(self) -> ListedPairs:
        """Return the same pairs in float64; `d` keeps the values it was rounded to."""
        xp = namespace(self.d)
        if self.precision == xp.float64:
            return self
        u = self.u
        if u is not None:
            u = xp.astype(u, xp.float64)
        d = xp.astype(self.d, xp.float64)
        return replace(self, d=d, u=u, precision=xp.float64)

    @property
    def n_points(self) -> int:
        """Number of points."""
        return int(self.starts.shape[0]) - 1

    def at(self, x: Array) -> PairObjective:
        """Return the objective at x, with value and gradient."""
        return self._with_residual(x, self._residuals(x))

    def _with_residual(self, x: Array, residual: Array) -> PairObjective:
        """Return the objective at x, where `residual`, D̂ − D, is known."""
        pull = namespace(residual).empty_like(residual)

        def walk(part: slice) -> float:
            value, pulled = self._pulled(residual[part], part)
            pull[part] = pulled
            return value

        # Both orders of every pair count, here and in other sums.
        value = 2 * sum(self.each(walk, self._runs))
        # The gradient is 8(Diag(C1) − C)XA with C the symmetric matrix of pulls.
        pulled = in_double(self._times(pull, self.narrow(with_ones(x))))
        gradient = self.gradient_of(x, pulled)
        return PairObjective(self, x, value, gradient, residual, pull)

    def _residuals(self, x: Array) -> Array:
        """Return D̂ − D of every pair."""
        # D̂ is 0 at zero coordinates, and D₁ + D₂ of a step from there to x.
        d1, d2 = self._changes(0.0 * x, x, -self.d)
        d2 += d1
        d2 -= self.d
        return d2

    def _with_heights(self, sq: Array, heights: Array, part: slice) -> Array:
        """Return D̂ of some pairs with the heights of both objects; the same array without any."""
        if not self.form.has_heights:
            return sq
        xp = namespace(sq)
        first = xp.take(heights, self.i[part], axis=0)
        return sq + first + xp.take(heights, self.j[part], axis=0)

    def line(self, point: PairObjective, direction: Array) -> Line:
        """Return the loss along a direction as a quartic, and the function that moves along it."""
        residual = point.residual
        pull = point.pull
        d1, d2 = self._changes(point.x, direction, residual)

        def walk(part: slice) -> Floats:
            weights, bend = self._sq_slopes(residual[part], part)
            first = d1[part]
            second = d2[part]
            weighted_first = weights * first
            bent = weighted_first
            if bend is not None:
                bent = weighted_first * bend
            c2 = dot(bent, first) + 2 * dot(pull[part], second)
            # Without the bend: beyond second order the quartic of other losses is approximate.
            c3 = 2 * dot(weighted_first, second)
            c4 = dot(weights * second, second)
            return np.array([c2, c3, c4])

        higher = 2 * np.sum(self.each(walk, self._runs), axis=0)
        quartic = np.array(
            [point.value, dot(point.gradient, direction), *higher]
        )

        def move(t: float) -> PairObjective:
            x = point.x + t * direction
            if point.is_due_for_renewal:
                # Rounding of updated residuals adds up.
                return self.at(x)
            updated = namespace(d2).empty_like(d2)

            def update(part: slice) -> None:
                updated[part] = residual[part] + t * (d1[part] + t * d2[part])

            self.each(update, self._runs)
            return self._with_residual(x, updated)

        return quartic, move

    def blocks(self, point: PairObjective) -> tuple[Array, Array]:
        """Return Σ_j u q′² (x_i − x_j)(x_i − x_j)ᵀ of every object i, and Σ_j u |q| q′."""
        x = point.x
        xp = namespace(x)
        weights, _ = self._sq_slopes(point.residual, slice(None))
        sizes = xp.abs(point.pull)
        ones = xp.ones_like(xp.sum(x, axis=1, keepdims=True))
        if is_numpy(x):
            blocks = self._blocks_by_object(x, weights)
            return blocks, self._times(sizes, self.narrow(ones))[:, 0]
        # From moments, in float64: in float32 they would cancel.
        tangents, of_partners = self.form.tangents(x)
        sums = self._times(
            xp.astype(weights, xp.float64), moments(of_partners)
        )
        pulls = self._times(xp.astype(sizes, xp.float64), ones)
        return second_moments_about(tangents, sums), pulls[:, 0]

    def true_value(self, x: Array) -> float:
        """Return Σ u q² with no corner rounded."""
        return 2 * self.loss.value(
            self.form, self.d, self._residuals(x) + self.d, self.u
        )

    def _changes(
        self, x: Array, p: Array, residual: Array
    ) -> tuple[Array, Array]:
        """Return D₁ and D₂ of D̂(x + tp) = D̂ + tD₁ + t²D₂, for every pair; `residual` is at x."""
        xp = namespace(x)
        k = x.shape[1]
        signs = self.narrow(self.signs)
        changes = pair_changes(
            self.narrow(x), self.narrow(p), signs, self.i, self.j
        )
        if changes is not None:
            # The kernel knows no heights.
            d1, d2 = changes
            rises = self.narrow(self.form.height_of(p))
            return self._with_heights(d1, rises, slice(None)), d2
        heights = self.narrow(self.form.height_of(x + p))
        d1 = xp.empty_like(self.d)
        d2 = xp.empty_like(self.d)
        # One table of rows twice as long: half the cache misses of two, and one square for both.
        table = self.narrow(xp.concat([x + p, p], axis=1))
        sign_columns = asarray_like(np.zeros((2 * k, 2)), table)
        sign_columns[:k, 0] = signs
        sign_columns[k:, 1] = signs

        def walk(part: slice) -> None:
            difference = xp.take(table, self.i[part], axis=0)
            difference -= xp.take(table, self.j[part], axis=0)
            difference *= difference
            products = difference @ sign_columns
            d2[part] = products[:, 1]
            # D₁ = D̂(x + p) − D₂ − D̂(x), and D̂(x) = residual + D.
            sq_there = self._with_heights(products[:, 0], heights, part)
            d1[part] = sq_there - products[:, 1]
            d1[part] -= residual[part]
            d1[part] -= self.d[part]

        block = CACHED_ELEMENTS if is_numpy(table) else DEVICE_ELEMENTS
        self.each(walk, row_blocks(self.d.shape[0], 2 * k, block))
        return d1, d2

    def _pulled(self, residual: Array, part: slice) -> tuple[float, Array]:
        """Return Σ u q² of some pairs, and u q q′ of each."""
        if self._fixed_sq_slopes is not None:
            # q = q′·(D̂ − D)
            pull = self._fixed_sq_slopes[part] * residual
            return dot(pull, residual), pull
        q, slope, _ = self._terms(residual, part)
        counted = weighted(q, self._u(part))
        return dot(counted, q), counted * slope

    def _sq_slopes(
        self, residual: Array, part: slice
    ) -> tuple[Array, Array | None]:
        """Return u q′² of some pairs, and the third of their `Terms`."""
        if self._fixed_sq_slopes is not None:
            return self._fixed_sq_slopes[part], None
        _, slope, bend = self._terms(residual, part, bend=True)
        assert slope is not None
        return weighted(slope * slope, self._u(part)), bend

    def _u(self, part: slice) -> Array | None:
        if self.u is None:
            return None
        return self.u[part]

    def _terms(
        self, residual: Array, part: slice, bend: bool = False
    ) -> Terms:
        d = self.d[part]
        return self.loss.terms(self.form, d, residual + d, bend=bend)

    @cached_property
    def _fixed_sq_slopes(self) -> Array | None:
        """The u q′² of every pair if q is linear in D̂, so that q′ is the same at all x, or None."""
        if not self.loss.is_linear:
            return None
        xp = namespace(self.d)
        _, slope, _ = self.loss.terms(
            self.form, self.d, xp.asarray(self.d, copy=True)
        )
        if slope is None:
            slope = xp.ones_like(self.d)
        return weighted(slope * slope, self.u)

    def _times(self, values: Array, columns: Array) -> Array:
        """Return V times columns, with V the symmetric matrix of `values` (m,) of the pairs."""
        if not is_numpy(values):
            # With an entry for both orders, so that no digit depends on which thread is first.
            entries = namespace(values).take(values, self.pair, axis=0)
            return sparse_times(self.starts, self.partners, entries, columns)

        def walk(rows: slice) -> tuple[Floats, Floats]:
            indptr = self._firsts[rows.start : rows.stop + 1]
            part = slice(int(indptr[0]), int(indptr[-1]))
            # Pairs are the upper half; multiplying its transpose as well needs no copy.
            shape = (rows.stop - rows.start, len(columns))
            half = sparse.csr_array(
                (values[part], self.j[part], indptr - indptr[0]), shape=shape
            )
            return half @ columns, half.T @ columns[rows]

        summed = np.zeros(columns.shape)
        pieces = _cut(self._firsts, PIECES)
        for rows, (upper, lower) in zip(
            pieces, parallel_map(walk, pieces), strict=True
        ):
            summed[rows] += upper
            summed += lower
        return summed

    @cached_property
    def _firsts(self) -> Numbers:
        """Where the pairs with each i begin, and their end: `i`, of NumPy, is sorted."""
        firsts = np.searchsorted(self.i, np.arange(self.n_points + 1))
        return firsts.astype(_index_type(np, self.i.size))

    def _blocks_by_object(self, x: Floats, weights: Floats) -> Floats:
        """Return Σ_j w (x_i − x_j)(x_i − x_j)ᵀ of every object i, from differences."""
        tangents, of_partners = map(self.narrow, self.form.tangents(x))
        n, k = x.shape
        out = np.empty((n, k, k), dtype=self.d.dtype)

        def walk(rows: slice) -> None:
            bounds = self.starts[rows.start : rows.stop + 1].tolist()
            stored = slice(bounds[0], bounds[-1])
            difference = of_partners.take(self.partners[stored], axis=0)
            difference -= np.repeat(tangents[rows], np.diff(bounds), axis=0)
            weights_of_rows = weights.take(self.pair[stored])
            weighted_differences = difference * weights_of_rows[:, None]
            for row, (start, stop) in enumerate(pairwise(bounds), rows.start):
                part = slice(start - bounds[0], stop - bounds[0])
                # Two arrays: of one with itself NumPy calls syrk, twice as slow at this size.
                np.dot(
                    difference[part].T,
                    weighted_differences[part],
                    out=out[row],
                )

        blocks = max(1, int(self.starts[-1]) * max(1, k) // CACHED_ELEMENTS)
        parallel_map(walk, _cut(self.starts, blocks))
        return out

    @cached_property
    def _runs(self) -> list[slice]:
        """Slices of all pairs, so short in main memory that their numbers stay in the cache."""
        size = self.d.shape[0]
        if is_numpy(self.d):
            # About eight numbers per pair: D, u, residual, pull, D₁, D₂ and temporaries.
            return list(row_blocks(size, 8, CACHED_ELEMENTS))
        return [slice(0, size)]


def _cut(starts: Numbers, parts: int) -> list[slice]:
    """Cut the rows of a CSR into slices of about equally many entries; `starts` is its indptr."""
    cuts = np.searchsorted(
        starts, np.arange(1, parts) * (int(starts[-1]) / parts)
    )
    rows = np.unique(np.concatenate([[0], cuts, [starts.size - 1]]))
    return [slice(first, last) for first, last in pairwise(rows.tolist())]


def _index_type(xp: Any, size: int) -> Any:
    """Return the type of integers, of a library xp, that count up to a size."""
    if size < 2**31:
        return xp.int32
    return xp.int64


def _by_rows(n: int, i: Array, j: Array) -> tuple[Array, ...]:
    """Return `starts`, `partners` and `pair` of `ListedPairs`: pairs in both orders, by rows."""
    xp = namespace(i)
    m = i.shape[0]
    index_type = _index_type(xp, 2 * m)
    if is_numpy(i):
        number = np.arange(m, dtype=index_type)
        ends: Any = np.concatenate([i, j]), np.concatenate([j, i])
        # Entries are numbers of pairs. No pair is there twice, so that none are added up, and
        # number 0 stays stored.
        matrix: Any = sparse.csr_array(
            (np.concatenate([number, number]), ends), shape=(n, n)
        )
        matrix.sort_indices()
        return matrix.indptr, matrix.indices, matrix.data
    rows = xp.astype(xp.concat([i, j]), xp.int64)
    partners = xp.astype(xp.concat([j, i]), xp.int64)
    order = xp.argsort(rows * n + partners)
    rows = xp.take(rows, order, axis=0)
    starts = xp.searchsorted(
        rows, xp.arange(n + 1, dtype=xp.int64, device=i.device)
    )
    pair = xp.where(order < m, order, order - m)
    partners = xp.take(partners, order, axis=0)
    return tuple(
        xp.astype(part, index_type, copy=False)
        for part in (starts, partners, pair)
    )
