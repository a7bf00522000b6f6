"""Ask adaptively: place a query from a few distances, ask its nearest by D̂, and place it again.

Every distance is used twice, for the answer and for the place of the query.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import (
    CACHED_ELEMENTS,
    TINY,
    row_blocks,
    solve_definite,
)
from neucmds.form import Form
from neucmds.place.neighbors import roughly_nearest
from neucmds.refine.losses import PairLoss

Indices = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
# Distances (m, c) of queries, by their numbers (m,), to objects (m, c).
Compare = Callable[[Indices, Indices], Floats]

# Objects that are asked in a round.
ROUND = 16
# Of these, objects of the random order, and known neighbours of the nearest.
EXPLORED = 4


@dataclass(frozen=True, eq=False)
class PlacedObjects:
    """Objects with coordinates, among which queries are placed.

    Parameters
    ----------
    coordinates : ndarray of shape (n, k)
    form : Form
    loss : PairLoss
        Queries are placed by it.
    order : ndarray of int
        The objects in a random order: queries are compared with the first of them, then with
        their nearest among the first 1/16, the first quarter, and all.
    linked : ndarray of int of shape (n, c)
        Objects that are known to be near to each; itself where fewer are.
    noise : float, default=0.1
        Mean share by which d̂ misses d.
    """

    coordinates: Floats
    form: Form
    loss: PairLoss
    order: Indices
    linked: Indices
    noise: float = 0.1

    def descended(
        self, x: Floats, ids: Indices, d: Floats, steps: int
    ) -> Floats:
        """Move queries from x (m, k) by steps that lower the loss of their distances (m, c)."""
        sq = self.form.to_sq(d * d)
        width = ids.shape[1] * x.shape[1]
        moved = [
            self._descended_block(
                x[rows], self.coordinates[ids[rows]], sq[rows], steps
            )
            for rows in row_blocks(len(x), width, CACHED_ELEMENTS)
        ]
        return np.concatenate(moved)

    def _descended_block(
        self, x: Floats, near: Floats, sq: Floats, steps: int
    ) -> Floats:
        """Take damped Gauss–Newton steps to the minimum of Σ q² + Σ_a r_a (x_a − mean_a)².

        The ridge r_a, the squared noise over the variance of coordinate a, holds queries that were
        compared with few objects.
        """
        mean = self.coordinates.mean(axis=0)
        ridge = self.noise**2 / (self.coordinates.var(axis=0) + TINY)
        _, partners = self.form.tangents(near)

        def evaluated(x: Floats) -> tuple[Floats, Floats, Floats]:
            sq_hat = self.form.paired_sq(x[:, None, :], near)
            q, slope, _ = self.loss.terms(self.form, sq, sq_hat)
            assert slope is not None
            value = np.vecdot(q, q) + (x - mean) ** 2 @ ridge
            return q, slope, value

        q, slope, value = evaluated(x)
        damping = np.full(len(x), 0.01)
        for _ in range(steps):
            own, _ = self.form.tangents(x)
            jacobian = own[:, None, :] - partners
            jacobian *= 2 * slope[:, :, None] * self.form.turn
            hessian = jacobian.mT @ jacobian + np.diag(ridge)
            mean_curvature = np.trace(hessian, axis1=1, axis2=2) / ridge.size
            added = damping * mean_curvature + TINY
            hessian += added[:, None, None] * np.eye(ridge.size)
            gradient = (q[:, None, :] @ jacobian)[:, 0] + ridge * (x - mean)
            trial = x - solve_definite(hessian, gradient)
            trial_q, trial_slope, trial_value = evaluated(trial)
            better = trial_value < value
            gain = value - trial_value
            damping *= np.where(better, 0.2, 8.0)
            x = np.where(better[:, None], trial, x)
            q = np.where(better[:, None], trial_q, q)
            slope = np.where(better[:, None], trial_slope, slope)
            value = np.where(better, trial_value, value)
            if np.all(np.abs(gain) <= 1e-3 * value):
                break
        return x

    def _next(
        self, x: Floats, asked: Indices, d: Floats, count: int
    ) -> Indices:
        """Return objects (m, count) to ask: random ones, known neighbours, and the nearest by D̂.

        Random ones correct a query that began in the wrong region; neighbours of the nearest that
        were found stand in for objects with wrong coordinates.
        """
        m, n_asked = asked.shape
        explored = EXPLORED
        if len(self.coordinates) - n_asked < 2 * ROUND:
            explored = 0
        far = np.tile(self.order[n_asked : n_asked + explored], (m, 1))
        nearest = np.take_along_axis(asked, np.argsort(d)[:, :5], axis=1)
        linked = np.sort(self.linked[nearest].reshape(m, -1))
        sq = self.form.paired_sq(x[:, None, :], self.coordinates[linked])
        sq[:, 1:][linked[:, 1:] == linked[:, :-1]] = np.inf
        sq[_are_in(linked, asked)] = np.inf
        linked = np.take_along_axis(linked, np.argsort(sq), axis=1)
        near = roughly_nearest(self.form, x, self.coordinates, asked, count)
        new = np.concatenate([far, linked[:, :explored], near], axis=1)
        same = new[:, :, None] == new[:, None, :]
        is_asked = _are_in(new, asked) | np.tril(same, -1).any(axis=2)
        ranks = np.argsort(is_asked, axis=1, kind="stable")[:, :count]
        return np.take_along_axis(new, ranks, axis=1)

    def _narrowed(
        self,
        compare: Compare,
        x: Floats,
        asked: Indices,
        d: Floats,
        most: int,
    ) -> tuple[Floats, Indices, Floats]:
        """Compare queries with their nearest among the first 1/16 and the first quarter."""
        rows = np.arange(len(x))
        for share in (16, 4):
            pool = self.order[: len(self.order) // share]
            count = min(ROUND // 2, most - asked.shape[1])
            if pool.size < asked.shape[1] + count:
                continue
            position = np.zeros(len(self.coordinates), dtype=np.int64)
            position[pool] = np.arange(pool.size)
            near = roughly_nearest(
                self.form, x, self.coordinates[pool], position[asked], count
            )
            new = pool[near]
            asked = np.concatenate([asked, new], axis=1)
            d = np.concatenate([d, compare(rows, new)], axis=1)
            x = self.descended(x, asked, d, 20)
        return x, asked, d

    def relative_errors(self, x: Floats, ids: Indices, d: Floats) -> Floats:
        """Return |d̂ − d|/max(d, floor) of queries at x (m, k) and one object each."""
        sq_hat = self.form.paired_sq(x, self.coordinates[ids])
        d_hat = self.form.to_distance(sq_hat)
        floor = self.form.to_distance(np.array([self.loss.sq_floor]))
        return np.asarray(np.abs(d_hat - d) / np.maximum(d, floor))

    def search(
        self, compare: Compare, m: int, k: int, effort: int, max_calls: int
    ) -> tuple[Floats, list[Indices], list[Floats], Indices]:
        """Return places of m queries, the objects that each was compared with, and the distances.

        A query begins with an object per coordinate. It ends when its k nearest have not changed
        in `effort` rounds. The last array (m, effort) is the number of its calls when they had not
        changed in 1, 2, … rounds.
        """
        n, n_coordinates = self.coordinates.shape
        most = min(n, max_calls)
        count = min(n_coordinates, most)
        ids = np.tile(self.order[:count], (m, 1))
        rows = np.arange(m)
        d = compare(rows, ids)
        x = self.coordinates[ids[rows, d.argmin(axis=1)]]
        x = self.descended(x, ids, d, 20)
        x, ids, d = self._narrowed(compare, x, ids, d, most)
        partners: list[Indices] = list(ids)
        distances: list[Floats] = list(d)
        quiet = np.zeros(m, dtype=int)
        stops = np.full((m, effort), most)
        while rows.size and ids.shape[1] < most:
            count = min(ROUND, most - ids.shape[1])
            new = self._next(x[rows], ids, d, count)
            before = _sum_of_least(d, k)
            ids = np.concatenate([ids, new], axis=1)
            d = np.concatenate([d, compare(rows, new)], axis=1)
            x[rows] = self.descended(x[rows], ids, d, 10)
            is_same = _sum_of_least(d, k) == before
            quiet[rows] = np.where(is_same, quiet[rows] + 1, 0)
            reached = rows[is_same], quiet[rows[is_same]] - 1
            stops[reached] = np.minimum(stops[reached], ids.shape[1])
            goes_on = quiet[rows] < effort
            for at, row in enumerate(rows):
                partners[row] = ids[at]
                distances[row] = d[at]
            rows = rows[goes_on]
            ids = ids[goes_on]
            d = d[goes_on]
        return x, partners, distances, stops


def _are_in(some: Indices, known: Indices) -> npt.NDArray[np.bool_]:
    """Tell which entries of each row are in the same row of `known`."""
    return np.asarray((some[:, :, None] == known[:, None, :]).any(axis=2))


def _sum_of_least(d: Floats, k: int) -> Floats:
    """Return the sum of the k least of every row: less if a nearer object was found."""
    if d.shape[1] <= k:
        return np.full(len(d), np.inf)
    return np.asarray(np.partition(d, k - 1, axis=1)[:, :k].sum(axis=1))


def least(
    partners: list[Indices], distances: list[Floats], k: int
) -> tuple[Indices, Floats]:
    """Return the k nearest objects (m, k) of every query, nearest first, and their distances."""
    orders = [np.argsort(d, kind="stable")[:k] for d in distances]
    ids = [row[order] for row, order in zip(partners, orders, strict=True)]
    d = [row[order] for row, order in zip(distances, orders, strict=True)]
    return np.stack(ids), np.stack(d)
