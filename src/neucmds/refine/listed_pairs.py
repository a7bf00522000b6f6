"""Objective of listed pairs: any loss; time and memory grow with the number of pairs, not with n².

An iteration takes two passes over the pairs: one for D̂ along a line, one for the gradient, a
sparse product. In main memory passes are cut into parts that stay in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count, pairwise
from math import sqrt
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from neucmds.backend.arrays import (
    Array,
    asarray_like,
    centered,
    device,
    is_array,
    is_numpy,
    namespace,
    on_cpu,
    row_blocks,
    sparse_times,
)
from neucmds.backend.checkpoint import Checkpoint
from neucmds.backend.cuda_kernels import pair_changes
from neucmds.backend.threads import parallel_map
from neucmds.errors import InputError
from neucmds.problem.pairs import Pairs
from neucmds.refine.descent import EXACT, Limits, Refined, Start, dot
from neucmds.refine.losses import (
    DEGREES,
    PairLoss,
    PairTerms,
    check_defined,
    combined_floor,
    power_of_four,
)
from neucmds.refine.tiles import lowered, minimize, moments, second_moments_about

Floats = npt.NDArray[Any]
Ints = npt.NDArray[Any]

# Up to this many pairs float64 is used.
FEW_PAIRS = 2**17
# Entries of a block of differences: 512 KB of float32, a quarter of an L2 cache; 0.5 GB on a GPU.
BLOCK, DEVICE_BLOCK = 2**17, 2**27
# Pieces of the product with the pulls; each has n × k sums of its own, which are added up in turn.
PIECES = 4


def refine_pairs(
    pairs: Pairs,
    start: Start,
    limits: Limits,
    loss: str = "relative",
    *,
    floor: float | None = None,
    curvature: float = 0.0,
    falling: bool = True,
    checkpoint: str | PathLike[str] | None = None,
) -> Refined:
    """Lower a loss of listed pairs, with the library and on the device of the start.

    Parameters
    ----------
    pairs : Pairs
        With a curvature, of g(d). Weights multiply the loss of each pair.
    start : Start
    limits : Limits
    loss : {"relative", "distance", "squared"}, default="relative"
    floor : float, optional
        As for `Tiles.of`; `pair_floor` by default.
    curvature : float, default=0
        κ, in units of 1/d².
    falling : bool, default=True
        Whether the floor falls in stages, for a start whose near pairs are far off.
    checkpoint : path, optional
        A file that holds the coordinates every few seconds; the descent resumes from it. It is
        removed at the end.
    """
    shape, expected = tuple(start.coordinates.shape), (pairs.n, start.signs.size)
    if shape != expected:
        raise InputError(f"start has shape {shape}; expected {expected}.")
    check_defined(pairs.sq_dissimilarity, None, loss)
    like = start.coordinates if is_array(start.coordinates) else np.zeros(0)
    listed = ListedPairs.of(pairs, loss, like=like, floor=floor, curvature=curvature)
    first = None if falling else listed.loss.floor
    if checkpoint is None:
        return minimize(listed, *lowered(listed, start, limits, first))
    problem = (pairs.i, pairs.j, pairs.sq_dissimilarity, pairs.weight, loss, floor, curvature)
    kept = Checkpoint(checkpoint, *problem, limits.tol, start.coordinates, start.signs)
    done = int(kept.held.get("iteration", 0))
    steps = count(done + 1)
    limits = replace(limits, keep=lambda x, _: kept.save(x=x, iteration=next(steps)))
    if done:
        start = replace(start, coordinates=asarray_like(kept.held["x"], like))
        limits = replace(limits, max_iter=max(0, limits.max_iter - done))
    else:
        start, limits = lowered(listed, start, limits, first)
    found = minimize(listed, start, limits)
    kept.remove()
    return found


def pair_floor(pairs: Pairs, curvature: float = 0.0) -> float:
    """Return the floor of d of the listed pairs, as `combined_floor`; weights do not count."""
    known = pairs.sq_dissimilarity > 0
    d = pairs.sq_dissimilarity[known]
    nearest = np.full(pairs.n, np.inf)
    for ends in (pairs.i, pairs.j):
        np.minimum.at(nearest, ends[known], d)
    return combined_floor(d, nearest, float(d.max(initial=0.0)), curvature)


@dataclass(frozen=True, eq=False)
class ListedPairs:
    """A loss of listed pairs as a function of the coordinates, on any array library.

    Objects i and j of m pairs, with `d`, `scale`, `unit`, `loss` and `signs` as of `Tiles`, and
    weights u of at most about one. `starts`, `partners` and `pair` have every pair in both orders,
    by rows: the start of each row, the other object, and the number of the pair.
    """

    i: Array
    j: Array
    d: Array
    u: Array | None
    loss: PairLoss
    signs: Array
    starts: Array
    partners: Array
    pair: Array
    scale: float
    unit: float

    @classmethod
    def of(
        cls,
        pairs: Pairs,
        loss: str,
        *,
        like: Array,
        floor: float | None = None,
        curvature: float = 0.0,
    ) -> ListedPairs:
        """Bring pairs to the library and device of an array, in the precision of the descent.

        Parameters are those of `refine_pairs`, and an array.
        """
        xp, few = namespace(like), pairs.size <= FEW_PAIRS
        dtype = xp.float64 if few and on_cpu(like) else xp.float32
        scale, weight_scale = power_of_four(pairs.sq_dissimilarity), 1.0
        d, u, i, j = pairs.sq_dissimilarity / scale, None, pairs.i, pairs.j
        if pairs.weight is not None:
            weight_scale = power_of_four(pairs.weight)
            u = pairs.weight / weight_scale
        if not is_numpy(like):
            i, j = (asarray_like(ends, like, dtype=xp.int32) for ends in (i, j))
        floor = pair_floor(pairs, curvature) if floor is None else floor
        made = PairLoss(loss, 0.0, curvature=curvature * scale).floored(floor / sqrt(scale))
        return cls(
            i,
            j,
            asarray_like(d, like, dtype=dtype),
            None if u is None else asarray_like(u, like, dtype=dtype),
            made,
            asarray_like(np.zeros(0), like, dtype=xp.float64),
            *_by_rows(pairs.n, i, j),
            scale,
            scale ** DEGREES[loss] * weight_scale,
        )

    def exact(self) -> ListedPairs:
        """Return the same pairs in float64; D itself stays as it was rounded."""
        xp = namespace(self.d)
        if self.d.dtype == xp.float64:
            return self
        u = None if self.u is None else xp.astype(self.u, xp.float64)
        return replace(self, d=xp.astype(self.d, xp.float64), u=u)

    def signed(self, signs: npt.NDArray[np.float64]) -> ListedPairs:
        """Return the same pairs for coordinates of other signs."""
        return replace(self, signs=asarray_like(signs, self.d, dtype=namespace(self.d).float64))

    @cached_property
    def rounding(self) -> float:
        """The loss at which a fit is exact for all purposes."""
        exact = self.exact()
        return EXACT * 2 * self.loss.value(exact.d, exact.d * 0.0, exact.u)

    def at(self, x: Array) -> ListedSlopes:
        """Return value and gradient at some coordinates."""
        return self.with_residual(x, self.residuals(x))

    def with_residual(self, x: Array, residual: Array) -> ListedSlopes:
        """Return value and gradient where D̂ − D is known."""
        pull = namespace(residual).empty_like(residual)

        def walk(part: slice) -> float:
            value, pull[part] = self._pulled(residual[part], part)
            return value

        return ListedSlopes(self, x, residual, 2 * sum(self._each(walk, self._runs)), pull)

    def residuals(self, x: Array) -> Array:
        """D̂ − D of every pair."""
        narrow, signs = self._narrow(x), self._narrow(self.signs)
        made = pair_changes(narrow, narrow, signs, self.i, self.j)
        if made is not None:
            return made[1] - self.d
        out = namespace(x).empty_like(self.d)

        def write(part: slice, forms: Array) -> None:
            out[part] = forms[:, 0] - self.d[part]

        self._walk(narrow, signs[:, None], write)
        return out

    def line(self, x: Array, direction: Array, here: ListedSlopes) -> ListedLine:
        """Return the loss along a direction."""
        d1, d2 = self._changes(x, direction, here.residual)

        def walk(part: slice) -> Floats:
            w, bend = self._curved(here.residual[part], part)
            one, two = d1[part], d2[part]
            w1 = w * one
            second = dot(w1 if bend is None else w1 * bend, one) + 2 * dot(here.pull[part], two)
            return np.array([second, 2 * dot(w1, two), dot(w * two, two)])

        curved = 2 * np.sum(self._each(walk, self._runs), axis=0)
        quartic = np.array([here.value, dot(here.gradient, direction), *curved])
        return ListedLine(here, direction, d1, d2, quartic)

    def blocks(self, x: Array, here: ListedSlopes) -> tuple[Array, Array]:
        """Σ_j u q′² (x_i − x_j)(x_i − x_j)ᵀ of every object i, and Σ_j u |q| q′."""
        xp = namespace(x)
        weights = self._curved(here.residual, slice(None))[0]
        size, ones = xp.abs(here.pull), asarray_like(np.ones((x.shape[0], 1)), x)
        if is_numpy(x):
            out = self._blocks_by_object(x, weights)
            return out, self._times(size, self._narrow(ones))[:, 0]
        # By the expanded formula, for which float64 has the digits.
        weights, size = (xp.astype(one, xp.float64) for one in (weights, size))
        sums = self._times(weights, moments(x))
        return second_moments_about(x, sums), self._times(size, ones)[:, 0]

    def true_value(self, x: Array) -> float:
        """Σ u q² in float64, no corner rounded."""
        exact = self.exact()
        return 2 * self.loss.value(exact.d, exact.residuals(x) + exact.d, exact.u)

    def gradient(self, x: Array, pulls: Array) -> Array:
        """8(Diag(C1) − C)XA with C the symmetric matrix of pulls; centered."""
        xp = namespace(x)
        # The column of ones sums up the pulls in the same product.
        table = self._narrow(xp.concat([x, xp.ones_like(x[:, :1])], axis=1))
        summed = xp.astype(self._times(pulls, table), xp.float64, copy=False)
        out = summed[:, -1:] * x - summed[:, :-1]
        out *= 8.0 * self.signs
        return centered(out)

    def on_line(self, line: ListedLine, t: float) -> tuple[float, float]:
        """Value and slope of the loss at t on a line."""

        def walk(part: slice) -> tuple[float, float]:
            change = line.d1[part] + t * line.d2[part]
            value, pull = self._pulled(line.here.residual[part] + t * change, part)
            change += t * line.d2[part]
            return value, dot(pull, change)

        value, slope = np.sum(self._each(walk, self._runs), axis=0)
        return 2 * float(value), 4 * float(slope)

    def moved(self, line: ListedLine, t: float) -> Array:
        """Residuals at t on a line."""
        out = namespace(line.d2).empty_like(line.d2)

        def walk(part: slice) -> None:
            change = t * (line.d1[part] + t * line.d2[part])
            out[part] = line.here.residual[part] + change

        self._each(walk, self._runs)
        return out

    def _changes(self, x: Array, p: Array, residual: Array) -> tuple[Array, Array]:
        """D₁ and D₂ of D̂(x + tp) = D̂ + tD₁ + t²D₂, for every pair."""
        xp, signs, k = namespace(x), self._narrow(self.signs), int(x.shape[1])
        made = pair_changes(self._narrow(x), self._narrow(p), signs, self.i, self.j)
        if made is not None:
            return made
        d1, d2 = xp.empty_like(self.d), xp.empty_like(self.d)
        # One table of rows twice as long: half the cache misses of two, and one square for both.
        table = self._narrow(xp.concat([x + p, p], axis=1))
        form = asarray_like(np.zeros((2 * k, 2)), table)
        form[:k, 0] = signs
        form[k:, 1] = signs

        def write(part: slice, both: Array) -> None:
            d2[part] = both[:, 1]
            # D̂(x + p) − D̂(x) − D̂(p)
            d1[part] = both[:, 0] - both[:, 1]
            d1[part] -= residual[part]
            d1[part] -= self.d[part]

        self._walk(table, form, write)
        return d1, d2

    def _walk(self, table: Array, form: Array, write: Callable[[slice, Array], None]) -> None:
        """Call `write` with (rows i − rows j of a table)² @ form for parts of the pairs."""
        xp = namespace(table)

        def walk(part: slice) -> None:
            u = xp.take(table, self.i[part], axis=0)
            u -= xp.take(table, self.j[part], axis=0)
            u *= u
            write(part, u @ form)

        size = int(self.i.shape[0])
        block = BLOCK if is_numpy(table) else DEVICE_BLOCK
        self._each(walk, row_blocks(size, 2 * int(self.signs.shape[0]), block))

    def _pulled(self, residual: Array, part: slice) -> tuple[float, Array]:
        """Return Σ u q² of some pairs, and u q q′ of each."""
        if self._weights is not None:
            pull = self._weights[part] * residual
            return dot(pull, residual), pull
        terms = self._terms(residual, part)
        uq = terms.residual if self.u is None else self.u[part] * terms.residual
        return dot(uq, terms.residual), uq * terms.slope

    def _curved(self, residual: Array, part: slice) -> tuple[Array, Array | None]:
        """Return u q′² of some pairs, and how q bends."""
        if self._weights is not None:
            return self._weights[part], None
        terms = self._terms(residual, part, bend=True)
        assert terms.slope is not None
        w = terms.slope * terms.slope
        return w if self.u is None else self.u[part] * w, terms.curvature

    def _terms(self, residual: Array, part: slice, bend: bool = False) -> PairTerms:
        return self.loss.terms(self.d[part], residual + self.d[part], bend=bend)

    @cached_property
    def _weights(self) -> Array | None:
        """Return u q′² where q is linear in D̂, and the loss along a line therefore a quartic."""
        if self.loss.name == "distance":
            return None
        xp = namespace(self.d)
        ones = xp.ones_like(self.d) if self.u is None else self.u
        slope = self.loss.terms(self.d, xp.asarray(self.d, copy=True)).slope
        return ones if slope is None else ones * slope * slope

    def _times(self, values: Array, columns: Array) -> Array:
        """Multiply the symmetric matrix of one value for each pair with columns."""
        if not is_numpy(values):
            # In both orders, so that no digit depends on the order in which threads finish.
            both = namespace(values).take(values, self.pair, axis=0)
            return sparse_times(self.starts, self.partners, both, columns)

        def walk(rows: slice) -> tuple[Floats, Floats]:
            first = self._firsts[rows.start : rows.stop + 1]
            part = slice(int(first[0]), int(first[-1]))
            # Pairs are the upper half; multiplying its transpose as well needs no copy.
            shape = (rows.stop - rows.start, len(columns))
            half = sparse.csr_array((values[part], self.j[part], first - first[0]), shape=shape)
            return half @ columns, half.T @ columns[rows]

        summed, pieces = np.zeros(columns.shape), _cut(self._firsts, PIECES)
        for rows, (upper, lower) in zip(pieces, parallel_map(walk, pieces), strict=True):
            summed[rows] += upper
            summed += lower
        return summed

    @cached_property
    def _firsts(self) -> Ints:
        """Where the pairs of every first object begin, in main memory."""
        firsts = np.searchsorted(self.i, np.arange(self.starts.size))
        return firsts.astype(np.int32 if self.i.size < 2**31 else np.int64)

    def _blocks_by_object(self, x: Floats, weights: Floats) -> Floats:
        """Σ_j w (x_i − x_j)(x_i − x_j)ᵀ of every object i, from differences."""
        narrow, (n, k) = self._narrow(x), x.shape
        out = np.empty((n, k, k), dtype=self.d.dtype)

        def walk(rows: slice) -> None:
            ends = self.starts[rows.start : rows.stop + 1].tolist()
            stored = slice(ends[0], ends[-1])
            u = narrow.take(self.partners[stored], axis=0)
            u -= np.repeat(narrow[rows], np.diff(ends), axis=0)
            weighted = u * weights.take(self.pair[stored])[:, None]
            for own, (start, stop) in enumerate(pairwise(ends), rows.start):
                part = slice(start - ends[0], stop - ends[0])
                # Two arrays: of one with itself NumPy calls syrk, twice as slow at this size.
                np.dot(u[part].T, weighted[part], out=out[own])

        blocks = max(1, int(self.starts[-1]) * max(1, k) // BLOCK)
        parallel_map(walk, _cut(self.starts, blocks))
        return out

    @cached_property
    def _runs(self) -> list[slice]:
        """Slices of all pairs of which some numbers each stay in the cache."""
        size = int(self.d.shape[0])
        return list(row_blocks(size, 8, BLOCK)) if is_numpy(self.d) else [slice(0, size)]

    def _each(self, work: Callable[[slice], Any], parts: Iterable[slice]) -> list[Any]:
        return parallel_map(work, parts) if is_numpy(self.d) else [work(part) for part in parts]

    def _narrow(self, array: Array) -> Array:
        return namespace(array).astype(array, self.d.dtype, copy=False)


@dataclass(frozen=True, eq=False)
class ListedSlopes:
    """The loss of listed pairs at x: residuals D̂ − D, value, and pulls u q q′."""

    pairs: ListedPairs
    x: Array
    residual: Array
    value: float
    pull: Array

    @cached_property
    def gradient(self) -> Array:
        """The gradient, centered."""
        return self.pairs.gradient(self.x, self.pull)


@dataclass(frozen=True, eq=False)
class ListedLine:
    """The loss of listed pairs along a direction, where D̂ is D̂ + tD₁ + t²D₂."""

    here: ListedSlopes
    direction: Array
    d1: Array
    d2: Array
    quartic: npt.NDArray[np.float64]

    def at(self, t: float) -> tuple[float, float]:
        """Return loss and slope at t."""
        return self.here.pairs.on_line(self, t)

    def end(self, t: float, anew: bool = False) -> ListedSlopes:
        """Return value and gradient at t."""
        pairs, x = self.here.pairs, self.here.x + t * self.direction
        # Rounding of updated residuals adds up.
        return pairs.at(x) if anew else pairs.with_residual(x, pairs.moved(self, t))


def _cut(starts: Ints, parts: int) -> list[slice]:
    """Cut rows into slices of about equally many entries."""
    cuts = np.searchsorted(starts, np.arange(1, parts) * (int(starts[-1]) / parts))
    rows = np.unique(np.concatenate([[0], cuts, [starts.size - 1]]))
    return [slice(first, last) for first, last in pairwise(rows.tolist())]


def _by_rows(n: int, i: Array, j: Array) -> tuple[Array, Array, Array]:
    """Sort pairs in both orders by row: where each row starts, the partners, and which pair."""
    xp, m = namespace(i), int(i.shape[0])
    wide = xp.int32 if 2 * m < 2**31 else xp.int64
    if is_numpy(i):
        number = np.arange(m, dtype=wide)
        ends: Any = np.concatenate([i, j]), np.concatenate([j, i])
        both: Any = sparse.csr_array((np.concatenate([number, number]), ends), shape=(n, n))
        both.sort_indices()
        return both.indptr, both.indices, both.data
    rows, partners = (xp.astype(xp.concat(ends), xp.int64) for ends in ((i, j), (j, i)))
    order = xp.argsort(rows * n + partners)
    rows = xp.take(rows, order, axis=0)
    starts = xp.searchsorted(rows, xp.arange(n + 1, dtype=xp.int64, device=device(i)))
    pair = xp.where(order < m, order, order - m)
    partners = xp.take(partners, order, axis=0)
    starts, partners, pair = (xp.astype(one, wide, copy=False) for one in (starts, partners, pair))
    return starts, partners, pair
