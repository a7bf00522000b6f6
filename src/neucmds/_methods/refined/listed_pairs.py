"""A loss of listed pairs and how it changes with the coordinates, in main memory.

Pairs with objects that are paired with most others are rows of a matrix (`hub_pairs`), the rest are
listed; `device_pairs` does the same elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from neucmds._backend.arrays import row_blocks
from neucmds._backend.threads import parallel_map
from neucmds._input.pairs import Pairs
from neucmds._methods.refined.compiled_pairs import WORTH_COMPILING, Loops, loops
from neucmds._methods.refined.descent import centered
from neucmds._methods.refined.hub_pairs import Hubs
from neucmds._methods.refined.losses import PairLoss
from neucmds._methods.refined.pair_descent import power_of_four

Floats = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[Any]

# Up to so many pairs float64 costs next to nothing.
SMALL = 2**17
# Entries of a block of differences: 512 KB of float32, a quarter of an L2 cache.
BLOCK = 2**17
# Stored entries of the sparse product that one piece of work multiplies with.
SHARE = 2**18
# Pieces of the product with the pulls; each has n × k sums of its own, which are added up in turn.
PIECES = 4


@dataclass(frozen=True, eq=False)
class _Share:
    """Consecutive rows of a symmetric matrix with one value for each pair.

    Parameters
    ----------
    rows : slice
    matrix : csr_array
        Its entries are written anew for every product.
    pair : ndarray of int
        Which pair each stored entry is.
    """

    rows: slice
    matrix: Any
    pair: Ints

    def load(self, values: Floats) -> Any:
        """Put the value of every pair in its two places and return the matrix."""
        np.take(values, self.pair, out=self.matrix.data, mode="clip")
        return self.matrix

    def blocks(self, k: int) -> Iterator[slice]:
        """Cut the rows so that k numbers for each stored entry stay in the cache."""
        ends = self.matrix.indptr
        cuts = np.searchsorted(ends, np.arange(BLOCK // max(1, k), ends[-1], BLOCK // max(1, k)))
        rows = np.unique(np.concatenate([[0], cuts, [ends.size - 1]]))
        for first, last in pairwise(rows.tolist()):
            yield slice(first, last)


def _shares(n: int, i: Ints, j: Ints, dtype: Any) -> tuple[_Share, ...]:
    """Store every pair in both orders, rows cut into shares of about equal work."""
    number = np.arange(i.size, dtype=np.int32 if i.size < 2**31 else np.int64)
    ends: Any = np.concatenate([i, j]), np.concatenate([j, i])
    both: Any = sparse.csr_array((np.concatenate([number, number]), ends), shape=(n, n))
    both.sort_indices()
    starts, indices, pair = both.indptr, both.indices, both.data
    cuts = np.searchsorted(starts, np.arange(SHARE, starts[-1], SHARE))
    rows = np.unique(np.concatenate([[0], cuts, [n]]))
    made = []
    for first, last in pairwise(int(row) for row in rows):
        stored = slice(int(starts[first]), int(starts[last]))
        data = np.empty(stored.stop - stored.start, dtype=dtype)
        parts = (data, indices[stored], starts[first : last + 1] - starts[first])
        matrix = sparse.csr_array(parts, shape=(last - first, n))
        made.append(_Share(slice(first, last), matrix, pair[stored]))
    return tuple(made)


@dataclass(frozen=True, eq=False)
class PairSystem:
    """A loss of listed pairs as a function of the coordinates; D near one, in one precision.

    Parameters
    ----------
    i, j : ndarray of shape (l,)
        The listed pairs, those without a hub.
    d : ndarray of shape (m,)
        D / scale of the listed pairs, then of the matrix of the others; its gaps hold ones.
    u : ndarray of shape (m,) or None
        Weights, at most about one, and zero for gaps.
    weight_scale : float
    loss : PairLoss
        With the floor f² / scale.
    signs : ndarray of shape (k,)
    shares : tuple
        The listed pairs in both orders.
    hubs : Hubs
    """

    i: Ints
    j: Ints
    d: Floats
    u: Floats | None
    weight_scale: float
    loss: PairLoss
    signs: Floats
    shares: tuple[_Share, ...]
    hubs: Hubs

    @classmethod
    def of(
        cls, pairs: Pairs, signs: Doubles, loss: str, *, scale: float, floor: float
    ) -> PairSystem:
        """Round pairs to the precision of the descent."""
        dtype = np.dtype(np.float64 if pairs.size <= SMALL else np.float32)
        hubs, listed, place = Hubs.split(pairs)
        d, u, weight_scale = pairs.sq_dissimilarity / scale, None, 1.0
        if pairs.weight is not None:
            weight_scale = power_of_four(pairs.weight)
            u = pairs.weight / weight_scale
        elif hubs.size:
            u = np.ones(pairs.size)
        i, j = pairs.i[listed], pairs.j[listed]
        return cls(
            i,
            j,
            hubs.spread(d, listed, place, gap=1.0).astype(dtype),
            None if u is None else hubs.spread(u, listed, place, gap=0.0).astype(dtype),
            weight_scale,
            PairLoss(loss, floor),
            signs.astype(dtype),
            _shares(pairs.n, i, j, dtype),
            hubs,
        )

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of everything that there is one of for each pair."""
        return self.d.dtype

    @property
    def is_exact(self) -> bool:
        """Whether all is in float64."""
        return self.dtype == np.float64

    @cached_property
    def loops(self) -> Loops | None:
        """Compiled loops, where there are enough pairs and numba is installed."""
        return loops() if self.i.size >= WORTH_COMPILING else None

    def exact(self) -> PairSystem:
        """Return the same system in float64; D itself stays as it was rounded."""
        if self.dtype == np.float64:
            return self
        wide = np.float64
        shares = tuple(replace(one, matrix=one.matrix.astype(wide)) for one in self.shares)
        u = None if self.u is None else self.u.astype(wide)
        return replace(
            self, d=self.d.astype(wide), u=u, signs=self.signs.astype(wide), shares=shares
        )

    @cached_property
    def size(self) -> float:
        """The loss of D̂ = 0."""
        return self.loss.size(self.d, self.u)

    @cached_property
    def weights(self) -> Floats | None:
        """Return u q′² where q is linear in D̂, and the loss along a line therefore a quartic."""
        if not self.loss.is_quadratic:
            return None
        ones = np.ones_like(self.d) if self.u is None else self.u
        slope = self.loss.terms(self.d, self.d.copy()).slope
        return ones if slope is None else ones * slope**2

    @cached_property
    def starts(self) -> Ints:
        """Where the listed pairs of every first object begin."""
        starts = np.searchsorted(self.i, np.arange(self.hubs.n + 1))
        return starts.astype(np.int32 if self.i.size < 2**31 else np.int64)

    @cached_property
    def pieces(self) -> list[slice]:
        """Cut the objects where about equally many listed pairs begin."""
        cuts = np.searchsorted(self.starts, np.arange(1, PIECES) * (self.i.size / PIECES))
        rows = np.unique(np.concatenate([[0], cuts, [self.starts.size - 1]]))
        return [slice(first, last) for first, last in pairwise(rows.tolist())]

    @cached_property
    def blocks(self) -> list[slice]:
        """Slices of the listed pairs whose differences stay in the cache."""
        return list(row_blocks(self.i.size, 2 * self.signs.size, BLOCK))

    @cached_property
    def runs(self) -> list[slice]:
        """Slices of all pairs of which some numbers each stay in the cache."""
        return list(row_blocks(self.d.size, 8, BLOCK))

    def residuals(self, x: Doubles) -> Floats:
        """D̂ − D of every pair."""
        narrow, out = x.astype(self.dtype), np.empty_like(self.d)
        compiled = self.loops

        def walk(part: slice) -> None:
            if compiled is not None:
                compiled.forms(narrow, self.i[part], self.j[part], self.signs, out[part])
                out[part] -= self.d[part]
                return
            u = self._differences(narrow, part)
            u *= u
            np.subtract(u @ self.signs, self.d[part], out=out[part])

        def walk_hubs(rows: slice) -> None:
            d_hat = forms(rows)
            d_hat -= self.hubs.rows_of(self.d, rows)
            self.hubs.rows_of(out, rows)[...] = d_hat

        parallel_map(walk, self.blocks)
        forms = self.hubs.forms(x, self.signs)
        parallel_map(walk_hubs, self.hubs.blocks)
        return out

    def along(self, x: Doubles, p: Doubles, residual: Floats) -> tuple[Floats, Floats]:
        """D₁ and D₂ of D̂(x + tp) = D̂ + tD₁ + t²D₂, for every pair."""
        d1, d2 = np.empty_like(self.d), np.empty_like(self.d)
        self._listed_along(x, p, residual, d1, d2)
        there, change = self.hubs.forms(x + p, self.signs), self.hubs.forms(p, self.signs)

        def walk(rows: slice) -> None:
            second, first = change(rows), there(rows)
            first -= second
            self.hubs.rows_of(d2, rows)[...] = second
            # Rounded before the rest is taken off: NumPy is slow where precisions are mixed.
            rounded = self.hubs.rows_of(d1, rows)
            rounded[...] = first
            rounded -= self.hubs.rows_of(residual, rows)
            rounded -= self.hubs.rows_of(self.d, rows)

        parallel_map(walk, self.hubs.blocks)
        return d1, d2

    def _listed_along(
        self, x: Doubles, p: Doubles, residual: Floats, d1: Floats, d2: Floats
    ) -> None:
        k, compiled = self.signs.size, self.loops
        if compiled is not None:
            tables = x.astype(self.dtype), p.astype(self.dtype)

            def follow(part: slice) -> None:
                pairs = self.i[part], self.j[part], self.signs
                compiled.along(*tables, *pairs, d1[part], d2[part])

            parallel_map(follow, self.blocks)
            return
        # One table of rows twice as long: half the cache misses of two, and one square for both.
        table = np.concatenate([x + p, p], axis=1).astype(self.dtype)
        form = np.zeros((2 * k, 2), dtype=self.dtype)
        form[:k, 0] = form[k:, 1] = self.signs

        def walk(part: slice) -> None:
            u = self._differences(table, part)
            u *= u
            both = u @ form
            d2[part] = both[:, 1]
            # D̂(x + p) − D̂(x) − D̂(p)
            np.subtract(both[:, 0], both[:, 1], out=d1[part])
            d1[part] -= residual[part]
            d1[part] -= self.d[part]

        parallel_map(walk, self.blocks)

    def pulls(self, residual: Floats) -> tuple[float, Floats]:
        """Value of the loss, and u q q′ of every pair."""
        out = np.empty_like(residual)

        def walk(part: slice) -> float:
            r = residual[part]
            if self.weights is not None:
                np.multiply(self.weights[part], r, out=out[part])
                return float(np.dot(out[part], r))
            q, slope, _ = self._root(r, part)
            uq = q if self.u is None else self.u[part] * q
            np.multiply(uq, slope, out=out[part])
            return float(np.dot(uq, q))

        return 2 * sum(parallel_map(walk, self.runs)), out

    def gradient(self, x: Doubles, pulls: Floats) -> Doubles:
        """8(Diag(C1) − C)XA with C the symmetric matrix of pulls; centered."""
        n, k = x.shape
        # The column of ones sums up the pulls in the same product.
        table = np.ones((n, k + 1), dtype=self.dtype)
        table[:, :k] = x

        def walk(rows: slice) -> tuple[Floats, Floats]:
            first = self.starts[rows.start : rows.stop + 1]
            part = slice(int(first[0]), int(first[-1]))
            # Pairs are the upper half as they stand; with its transpose, nothing is copied to both
            # halves: 25 ms instead of 45 (2.6 million pairs, k = 16, one core).
            half = sparse.csr_array(
                (pulls[part], self.j[part], first - first[0]), shape=(rows.stop - rows.start, n)
            )
            return half @ table, half.T @ table[rows]

        summed = self.hubs.times(pulls, table)
        for rows, (upper, lower) in zip(self.pieces, parallel_map(walk, self.pieces), strict=True):
            summed[rows] += upper
            summed += lower
        out: Doubles = summed[:, k:] * x - summed[:, :k]
        out *= 8.0 * self.signs
        result: Doubles = centered(out)
        return result

    def quartic(self, here: Any, d1: Floats, d2: Floats, slope: float) -> Doubles:
        """Coefficients of the loss along a line, constant first; to second order for "distance"."""

        def walk(part: slice) -> Doubles:
            one, two = d1[part], d2[part]
            bend: Floats | None
            if self.weights is not None:
                w, bend = self.weights[part], None
            else:
                _, steep, bend = self._root(here.residual[part], part)
                w = steep**2 if self.u is None else self.u[part] * steep**2
            w1, pull = w * one, here.pull[part]
            return np.array(
                [
                    float(np.dot(w1 if bend is None else w1 * bend, one))
                    + 2 * float(np.dot(pull, two)),
                    2 * float(np.dot(w1, two)),
                    float(np.dot(w * two, two)),
                ]
            )

        curved = 2 * np.sum(parallel_map(walk, self.runs), axis=0)
        return np.array([here.value, slope, *curved])

    def on_line(self, residual: Floats, d1: Floats, d2: Floats, t: float) -> tuple[float, float]:
        """Value and slope of the loss at t on a line."""

        def walk(part: slice) -> tuple[float, float]:
            change = d1[part] + t * d2[part]
            q, slope, _ = self._root(residual[part] + t * change, part)
            uq = q if self.u is None else self.u[part] * q
            change += t * d2[part]
            return float(np.dot(uq, q)), float(np.dot(uq * slope, change))

        value, slope = np.sum(parallel_map(walk, self.runs), axis=0)
        return 2 * float(value), 4 * float(slope)

    def moved(self, residual: Floats, d1: Floats, d2: Floats, t: float) -> Floats:
        """Residuals at t on a line; D₂ is written over."""
        out, step = np.empty_like(residual), self.dtype.type(t)

        def walk(part: slice) -> None:
            d2[part] *= step
            d2[part] += d1[part]
            d2[part] *= step
            np.add(residual[part], d2[part], out=out[part])

        parallel_map(walk, self.runs)
        return out

    def gauss_newton(self, x: Doubles, residual: Floats, pull: Floats) -> tuple[Floats, Doubles]:
        """Σ_j u q′² (x_i − x_j)(x_i − x_j)ᵀ of every object i, and Σ_j u |q| q′."""
        narrow, (n, k) = x.astype(self.dtype), x.shape
        out, pulled = np.empty((n, k, k), dtype=self.dtype), np.empty(n)
        weights, size = self.weights, np.abs(pull)
        if weights is None:
            slope = self._root(residual, slice(None))[1]
            weights = slope**2 if self.u is None else self.u * slope**2

        ones = np.ones(n, dtype=self.dtype)

        def walk(share: _Share) -> None:
            pulled[share.rows] = share.load(size) @ ones
            matrix = share.load(weights)
            for rows in share.blocks(k):
                self._add_up(narrow, share, matrix, rows, out)

        parallel_map(walk, self.shares)
        if self.hubs.size:
            self.hubs.add_blocks(x, weights, out)
            pulled += self.hubs.times(size, ones[:, None])[:, 0]
        return out, pulled

    def true_value(self, x: Doubles) -> float:
        """Σ u q², no corner rounded."""
        return 2 * self.loss.value(self.d, self.residuals(x) + self.d, self.u)

    @staticmethod
    def _add_up(x: Floats, share: _Share, matrix: Any, rows: slice, out: Floats) -> None:
        """Σ_j w (x_i − x_j)(x_i − x_j)ᵀ for some objects of a share."""
        ends = matrix.indptr[rows.start : rows.stop + 1].tolist()
        stored, first = slice(ends[0], ends[-1]), share.rows.start + rows.start
        u = x.take(matrix.indices[stored], axis=0)
        u -= np.repeat(x[first : share.rows.start + rows.stop], np.diff(ends), axis=0)
        weighted = u * matrix.data[stored, None]
        for own, (start, stop) in enumerate(pairwise(ends), first):
            part = slice(start - ends[0], stop - ends[0])
            # Two arrays: NumPy hands the product of one with itself to syrk, which takes twice as
            # long as gemm at this size (285 × 16).
            np.dot(u[part].T, weighted[part], out=out[own])

    def _differences(self, table: Floats, part: slice) -> Floats:
        u = table.take(self.i[part], axis=0)
        u -= table.take(self.j[part], axis=0)
        return u

    def _root(self, residual: Floats, part: slice) -> tuple[Floats, Floats, Floats]:
        """Return q, its slope and its curvature for "distance"."""
        d = self.d[part]
        terms = self.loss.terms(d, residual + d, bend=True)
        assert terms.slope is not None
        assert terms.curvature is not None
        return terms.residual, terms.slope, terms.curvature
