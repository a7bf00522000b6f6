"""Pairs with hubs, objects that are paired with most others: products of matrices, not differences.

Three in five pairs of a sample are with landmarks. As an n × h matrix with gaps of weight zero they
cost an iteration a sixth of what they cost as listed pairs (1.4 million of them, k = 16, one core:
9 ms instead of 55). D̂ comes from the expanded formula, for which float64 has the digits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from neucmds._backend.threads import parallel_map
from neucmds._input.pairs import Pairs
from neucmds._methods.refined.pair_tiles import moments, second_moments_about

Floats = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[Any]

# Share of all others that a hub is paired with: so many gaps at most are carried along.
MOST = 0.5
# Most hubs; a block of rows has as many rows as there are.
MOST_HUBS = 1000
# Shares of the rows, each with sums over them for the hubs.
SHARES = 16
# Entries of a block of rows: 256 KB of float64, a quarter of an L2 cache.
BLOCK = 2**15


@dataclass(frozen=True, eq=False)
class Hubs:
    """Which objects are hubs, and where the n × h matrix of their pairs lies in an array.

    Parameters
    ----------
    n : int
        Number of objects.
    ids : ndarray of shape (h,)
    listed : int
        Length of the array before the matrix.
    """

    n: int
    ids: Ints
    listed: int

    @classmethod
    def split(cls, pairs: Pairs) -> tuple[Self, Ints, Ints]:
        """Tell pairs with hubs from others.

        Returns
        -------
        hubs : Hubs
        listed : ndarray of int
            Which pairs have no hub.
        place : ndarray of int
            Where in the matrix, row by row, the other pairs are.
        """
        degrees = pairs.degrees
        ids = np.flatnonzero(degrees >= MOST * (pairs.n - 1))
        if ids.size > MOST_HUBS:
            order = np.argsort(-degrees[ids], kind="stable")
            ids = np.sort(ids[order[:MOST_HUBS]])
        column = np.full(pairs.n, -1)
        column[ids] = np.arange(ids.size)
        first, second = column[pairs.i], column[pairs.j]
        listed = np.flatnonzero((first < 0) & (second < 0))
        # A pair of two hubs has one place, too.
        by_second = second >= 0
        row, at = np.where(by_second, pairs.i, pairs.j), np.where(by_second, second, first)
        place = (row.astype(np.int64) * ids.size + at)[by_second | (first >= 0)]
        return cls(pairs.n, ids, listed.size), listed, place

    @property
    def size(self) -> int:
        """Number of entries of the matrix."""
        return self.n * self.ids.size

    def spread(self, values: Floats, listed: Ints, place: Ints, gap: float) -> Floats:
        """Put the values of all pairs in one array: of the listed ones, then of the matrix."""
        if self.size == 0:
            return values
        out = np.full(self.listed + self.size, gap)
        out[: self.listed] = values[listed]
        others = np.ones(values.size, dtype=bool)
        others[listed] = False
        out[self.listed + place] = values[others]
        return out

    @cached_property
    def blocks(self) -> list[slice]:
        """Rows of the matrix that stay in the cache."""
        if self.size == 0:
            return []
        step = max(self.ids.size, BLOCK // self.ids.size)
        return [slice(s, min(s + step, self.n)) for s in range(0, self.n, step)]

    @cached_property
    def shares(self) -> list[list[slice]]:
        """Blocks in so few parts that each can have sums of its own."""
        count = min(SHARES, len(self.blocks))
        return [self.blocks[i::count] for i in range(count)]

    def rows_of(self, values: Floats, rows: slice) -> Floats:
        """Return rows of the matrix in an array, as a view."""
        h = self.ids.size
        return values[self.listed + rows.start * h : self.listed + rows.stop * h].reshape(-1, h)

    def forms(self, x: Doubles, signs: Floats) -> Callable[[slice], Doubles]:
        """Return the function of rows that computes D̂ there."""
        a = signs.astype(np.float64)
        norms, ones = np.sum(x * x * a, axis=1, keepdims=True), np.ones((len(x), 1))
        left = np.concatenate([x * (-2 * a), norms, ones], axis=1)
        right = np.concatenate([x, ones, norms], axis=1)[self.ids].T
        return lambda rows: left[rows] @ right

    def times(self, values: Floats, columns: Floats) -> Doubles:
        """Multiply the symmetric matrix that has the values of hubs, and zeros, with columns."""
        some, total = columns[self.ids], np.zeros(columns.shape)

        def walk(share: list[slice]) -> Doubles:
            across = np.zeros(some.shape)
            for rows in share:
                part = self.rows_of(values, rows)
                total[rows] = part @ some
                across += part.T @ columns[rows]
            return across

        for across in parallel_map(walk, self.shares):
            total[self.ids] += across
        return total

    def add_blocks(self, x: Doubles, weights: Floats, out: Floats) -> None:
        """Add Σ_j w (x_i − x_j)(x_i − x_j)ᵀ of every object i."""
        some = moments(x[self.ids])

        def walk(share: list[slice]) -> Doubles:
            across = np.zeros(some.shape)
            for rows in share:
                w = self.rows_of(weights, rows).astype(np.float64)
                out[rows] += second_moments_about(x[rows], w @ some)
                across += w.T @ moments(x[rows])
            return across

        of_hubs = sum(parallel_map(walk, self.shares))
        out[self.ids] += second_moments_about(x[self.ids], of_hubs)
