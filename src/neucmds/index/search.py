"""Search adaptively: place a query from a few distances, ask its nearest by D̂, place it again.

Objects are `asked` when the distance is called. Each distance serves twice, for the answer and for
the place of the query. A search ends when the next object by D̂ is beyond the k nearest of those
asked by more than coordinates err.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from neucmds.backend.arrays import (
    CACHED_ELEMENTS,
    EPS,
    TINY,
    Floats,
    Indices,
    Numbers,
    row_blocks,
    smallest_of_groups,
    solve_definite,
)
from neucmds.form import Form
from neucmds.refine.losses import PairLoss, power_of_four

# Distances (m, c) of queries, by their numbers (m,), to objects (m, c).
Compare = Callable[[Indices, Indices], Floats]

# Objects that are asked in a round.
ROUND = 16
# Of these, so many near a drawn place or at random, and as many known neighbours of the nearest.
EXPLORED = 4
# Relative error of D that gives the ridge which holds queries that were compared with few objects.
# More would hold back queries that are far from all objects.
PRIOR = 0.02
# Queries farther than this, in units of the largest coordinate, are ranked by their direction: the
# norms of objects are below the rounding of single precision.
FARTHEST = 1e12


@dataclass(frozen=True, eq=False)
class PlacedObjects:
    """Objects with coordinates, among which queries are placed.

    The loss of a query at x that was compared with objects y is a quadratic form of
    u = (x, ‖x‖², 1), because D̂ − D = ‖x‖² − 2 x·y + (‖y‖² − D) with norms and products of the form.
    Its matrix of k + 2 rows is the sum over the objects: distances are added to it as they are
    asked, and a step costs the same however many there are.

    Parameters
    ----------
    coordinates : ndarray of shape (n, k)
    form : Form
    loss : PairLoss
        Queries are placed by its tangent at D̂ = D.
    order : ndarray of int
        The objects in a random order: queries are compared with the first of them, then with
        their nearest among the first 1/16, the first quarter, and all.
    linked : ndarray of int of shape (n, c)
        The nearest known neighbours of each object, in either direction; the object itself where
        fewer are known.
    lengths : ndarray of shape (n, c)
        The distances to these, infinite where fewer are known.
    noise : float, default=0.1
        Mean relative error of d̂ of pairs that were not fitted.
    departures : ndarray of shape (n, k), optional
        If distances are directed, where the objects depart; the coordinates are where they are
        arrived at.
    """

    coordinates: Floats
    form: Form
    loss: PairLoss
    order: Indices
    linked: Indices
    lengths: Floats
    noise: float = 0.1
    departures: Floats | None = None

    @property
    def as_queries(self) -> Floats:
        """Where the objects are if they ask for others."""
        if self.departures is None:
            return self.coordinates
        return self.departures

    def turned(self) -> PlacedObjects:
        """Return the objects with directions turned."""
        return replace(
            self,
            coordinates=self.as_queries,
            departures=self.coordinates,
        )

    @cached_property
    def _rows(self) -> Floats:
        """D̂ of a query to every object is the product of its u with these rows (n, k + 2)."""
        x = self.coordinates
        norms = self.form.norms(x)[:, None]
        products = -2 * x * self.form.signs
        return np.concatenate([products, np.ones_like(norms), norms], axis=1)

    @cached_property
    def _prior(self) -> Floats:
        """The matrix of Σ_a r_a (x_a − mean_a)², which holds queries compared with few objects.

        r_a is the square of the relative error of D over the variance of coordinate a.
        """
        x = self.as_queries
        mean = x.mean(axis=0)
        ridge = PRIOR**2 / (x.var(axis=0) + TINY)
        matrix = np.diag([*ridge, 0.0, ridge @ mean**2])
        matrix[:-2, -1] = -ridge * mean
        matrix[-1, :-2] = -ridge * mean
        return matrix

    @cached_property
    def _columns(self) -> Numbers:
        """`_rows` but for the ones, as columns (k + 1, n) in `order`, in single precision.

        That takes half the time, and rounding swaps only objects at about the same D̂. Coordinates
        are in `_unit`, so that single precision holds ‖x‖².
        """
        rows = np.delete(self._rows[self.order], -2, axis=1)
        rows /= self._unit
        rows[:, -1] /= self._unit
        return np.ascontiguousarray(rows.T, np.float32)

    @cached_property
    def _unit(self) -> float:
        """The unit of coordinates in `nearest`."""
        return power_of_four(self.coordinates)

    def _in_unit(self, x: Floats) -> Floats:
        """Return queries x (m, k) in `_unit`, those farther than `FARTHEST` as far as that."""
        largest = abs(x).max(axis=1, keepdims=True) / self._unit
        return np.asarray(x / self._unit / np.maximum(largest / FARTHEST, 1))

    @cached_property
    def _positions(self) -> Indices:
        """Where every object is in the order."""
        positions = np.empty_like(self.order)
        positions[self.order] = np.arange(self.order.size)
        return positions

    def matrices_of(self, ids: Indices, d: Floats) -> Floats:
        """Return what distances d (m, c) to objects `ids` add to matrices (m, k + 2, k + 2)."""
        sq = self.form.to_sq(d * d)
        rows = self._rows[ids]
        rows[:, :, -1] -= sq
        rows *= self.loss.beginning.of_pairs(self.form, sq)[:, :, None]
        return np.asarray(rows.mT @ rows)

    def place(self, x: Floats, ids: Indices, d: Floats) -> Floats:
        """Return places (m, k) of queries by distances d (m, c) to objects `ids`, from x (m, k)."""
        width = ids.shape[1] * x.shape[1]
        moved = [
            self._descend(
                x[rows], self._prior + self.matrices_of(ids[rows], d[rows])
            )
            for rows in row_blocks(len(x), width, CACHED_ELEMENTS)
        ]
        return np.concatenate(moved)

    def _descend(self, x: Floats, matrices: Floats) -> Floats:
        """Return where damped Gauss–Newton steps from x (m, k) reach a minimum of each uᵀMu."""
        moved = [
            self._descend_block(x[rows], matrices[rows])
            for rows in row_blocks(
                len(x), matrices.shape[1] ** 2, CACHED_ELEMENTS
            )
        ]
        return np.concatenate(moved)

    def _descend_block(self, x: Floats, matrices: Floats) -> Floats:
        """Descend as `_descend`; a query stops when a trial changes its value by a thousandth."""
        k = x.shape[1]
        diagonal = np.arange(k)
        result = x.copy()
        # The queries that still move; x and the arrays below are theirs.
        rows = np.arange(len(x))
        damping = np.full(len(x), 0.01)
        product, value = self._product_and_value(x, matrices)
        for _ in range(10):
            slope, hessian = self._slope_and_hessian(x, matrices)
            # Half of the gradient is Jᵀ M u.
            gradient = product[:, :k] + slope * product[:, k : k + 1]
            curvature = hessian[:, diagonal, diagonal].mean(axis=1)
            added = damping * curvature
            hessian[:, diagonal, diagonal] += added[:, None]
            trial = x - solve_definite(hessian, gradient)
            trial_product, trial_value = self._product_and_value(
                trial, matrices
            )
            is_lower = trial_value < value
            moves = abs(value - trial_value) > 1e-3 * abs(value)
            damping *= np.where(is_lower, 0.2, 8.0)
            x = np.where(is_lower[:, None], trial, x)
            product = np.where(is_lower[:, None], trial_product, product)
            value = np.where(is_lower, trial_value, value)
            result[rows] = x
            if not moves.any():
                break
            if not moves.all():
                rows = rows[moves]
                x = x[moves]
                product = product[moves]
                value = value[moves]
                damping = damping[moves]
                matrices = matrices[moves]
        return result

    def _slope_and_hessian(
        self, x: Floats, matrices: Floats
    ) -> tuple[Floats, Floats]:
        """Return d‖x‖²/dx (m, k), and half of the Gauss–Newton Hessian of uᵀMu (m, k, k).

        The Hessian is 2JᵀMJ with J = du/dx: the identity, d‖x‖²/dx below it, and a row of zeros.
        """
        k = x.shape[1]
        slope = 2 * x * self.form.signs + 1 - abs(self.form.signs)
        lower = matrices[:, k, k][:, None] * slope + matrices[:, k, :k]
        hessian = matrices[:, :k, :k] + slope[:, :, None] * lower[:, None, :]
        hessian += matrices[:, :k, k][:, :, None] * slope[:, None, :]
        # These terms may cancel, and their rounding leave the sum indefinite.
        diagonal = np.arange(k)
        terms = matrices[:, diagonal, diagonal]
        terms = terms + matrices[:, k, k][:, None] * slope**2
        hessian[:, diagonal, diagonal] += (
            1e-13 * terms.sum(axis=1)[:, None] + TINY
        )
        return slope, hessian

    def _draw(self, x: Floats, matrices: Floats, n_asked: int) -> Floats:
        """Return a random place around each query, three standard errors wide in every direction.

        Objects near it correct a query that is in the wrong region. The draw depends on `n_asked`
        alone, so that a query does not depend on others.
        """
        _, hessian = self._slope_and_hessian(x, matrices)
        _, value = self._product_and_value(x, matrices)
        draw = np.random.default_rng(n_asked).normal(size=x.shape[1])
        width = 3 * np.sqrt(np.maximum(value, 0) / n_asked)
        factors = np.linalg.cholesky(hessian)
        draws = np.tile(draw, (len(x), 1))
        step = solve_definite(factors.mT, draws)
        return np.asarray(x + width[:, None] * step)

    def _product_and_value(
        self, x: Floats, matrices: Floats
    ) -> tuple[Floats, Floats]:
        """Return Mu (m, k + 2) and uᵀMu (m,) of queries at x."""
        u = np.ones((len(x), x.shape[1] + 2))
        u[:, :-2] = x
        u[:, -2] = self.form.norms(x)
        product = (matrices @ u[:, :, None])[:, :, 0]
        return product, np.vecdot(u, product)

    def nearest(
        self, x: Floats, asked: Indices, count: int, divisor: int = 1
    ) -> Indices:
        """Return the objects (m, count) of least D̂, nearest first, that are not `asked` (m, c).

        Only the first n/divisor objects of `order` are searched, and `asked` must be among them.
        For 16 of 20,000 objects it takes 50 µs per query, FAISS 80 µs without a graph and 160 µs
        with HNSW.
        """
        columns = self._columns[:, : len(self.order) // divisor]
        products = columns[:-1]
        norms = columns[-1]
        near = np.empty((len(x), count), dtype=np.int64)
        x_in_unit = self._in_unit(x).astype(np.float32)
        for rows in row_blocks(len(x), norms.size, 4 * CACHED_ELEMENTS):
            # D̂ less the norm of the query, which is the same for all objects.
            sq_hat = x_in_unit[rows] @ products
            sq_hat += norms
            queries = np.arange(len(sq_hat))[:, None]
            sq_hat[queries, self._positions[asked[rows]]] = np.inf
            values, ids = smallest_of_groups(sq_hat, count)
            near[rows] = np.take_along_axis(ids, np.argsort(values), axis=1)
        return np.asarray(self.order[near])

    def next_asked(
        self,
        asked: Indices,
        d: Floats,
        explored: Indices,
        near: Indices,
    ) -> Indices:
        """Return objects to ask next, as many as `near` (m, c) has, without those `asked` at d.

        First come those `explored`, then known neighbours of the nearest of `asked`, which may have
        wrong coordinates and be missing in `near`, then objects of `near`.
        """
        m = len(asked)
        ranks = np.argsort(d)[:, :10]
        nearest = np.take_along_axis(asked, ranks, axis=1)
        lengths = np.take_along_axis(d, ranks, axis=1)[:, :, None]
        lengths = (lengths + self.lengths[nearest]).reshape(m, -1)
        linked = self.linked[nearest].reshape(m, -1)
        lengths[_are_in(linked, asked)] = np.inf
        # Ten times as many as needed: an object may be linked to all ten, and be there ten times.
        ranks = np.argsort(lengths)[:, : 10 * EXPLORED]
        linked = _without(np.take_along_axis(linked, ranks, axis=1), asked)
        new = np.concatenate([explored, linked[:, :EXPLORED], near], axis=1)
        return _without(new, asked)[:, : near.shape[1]]

    def _narrowed(
        self,
        compare: Compare,
        x: Floats,
        asked: Indices,
        d: Floats,
        matrices: Floats,
        most: int,
    ) -> tuple[Floats, Indices, Floats]:
        """Ask the nearest of queries among the first 1/16 of `order`, then among the first quarter.

        Return places, objects asked and distances; `matrices` is updated in place.
        """
        rows = np.arange(len(x))
        for divisor in (16, 4):
            n_searched = len(self.order) // divisor
            count = min(ROUND // 2, most - asked.shape[1])
            # No call is left, or not so many objects.
            if not count or n_searched < asked.shape[1] + count:
                continue
            new = self.nearest(x, asked, count, divisor)
            lengths = compare(rows, new)
            asked = np.concatenate([asked, new], axis=1)
            d = np.concatenate([d, lengths], axis=1)
            matrices += self.matrices_of(new, lengths)
            x = self._descend(x, matrices)
        return x, asked, d

    def relative_error(
        self, x: Floats, rows: Indices, ids: Indices, d: Floats
    ) -> float:
        """Return the mean |d̂ − d|/max(d, floor) of pairs: queries x[rows] and objects `ids`."""
        floor = self.form.to_distance(np.array([self.loss.sq_floor]))
        total = 0.0
        for part in row_blocks(d.size, x.shape[1], CACHED_ELEMENTS):
            of_part = self.coordinates[ids[part]]
            sq_hat = self.form.paired_sq(x[rows[part]], of_part)
            errors = np.abs(self.form.to_distance(sq_hat) - d[part])
            total += float(np.sum(errors / np.maximum(d[part], floor)))
        return total / d.size

    def _next_round(
        self,
        x: Floats,
        matrices: Floats,
        asked: Indices,
        d: Floats,
        near: Indices,
    ) -> Indices:
        """Return what to ask in a round; objects near a drawn place and at random are explored."""
        n_asked = asked.shape[1]
        drawn = self._draw(x, matrices, n_asked)
        count = min(near.shape[1], EXPLORED // 2)
        explored = self.nearest(drawn, asked, count)
        at_random = self.order[n_asked:][: EXPLORED // 2]
        at_random = np.tile(at_random, (len(x), 1))
        explored = np.concatenate([explored, at_random], axis=1)
        return self.next_asked(asked, d, explored, near)

    def _levels(
        self, x: Floats, near: Indices, d: Floats, quiet: Indices
    ) -> Indices:
        """Return how many levels of effort queries have reached.

        `near` (m,) is the next object of each query by D̂, d (m, k) are distances to its k nearest
        so far, and `quiet` (m,) counts its last rounds that did not change these. A query with a
        quiet round has reached level l if the next object is beyond the k nearest by (l − 1)²/64
        mean errors, and any query has after 2·l quiet rounds. Queries far from all objects need
        many calls, and most need few.
        """
        sq_hat = self.form.paired_sq(x, self.coordinates[near])
        d_hat = self.form.to_distance(sq_hat)
        radius = d.max(axis=1)
        gap = d_hat - radius
        errors = gap / (self.noise * radius + EPS * d_hat + TINY)
        levels = 1 + np.floor(8 * np.sqrt(np.maximum(errors, 0)))
        is_beyond = (quiet > 0) & (gap >= 0)
        levels = np.where(is_beyond, levels, 0)
        return np.asarray(np.maximum(levels, quiet // 2))

    def search(
        self, compare: Compare, m: int, k: int, effort: int, max_calls: int
    ) -> tuple[Floats, list[Indices], list[Floats], Indices]:
        """Return places of m queries, the objects that each was compared with, and the distances.

        A query begins with three objects per four coordinates, and ends when it has reached the
        level `effort`. The last array (m, effort) is the number of its calls at every level up to
        it.
        """
        n, n_coordinates = self.coordinates.shape
        most = min(n, max_calls)
        # Rounded up.
        count = min(-(-3 * n_coordinates // 4), most)
        ids = np.tile(self.order[:count], (m, 1))
        rows = np.arange(m)
        d = compare(rows, ids)
        matrices = self._prior + self.matrices_of(ids, d)
        x = self.as_queries[ids[rows, d.argmin(axis=1)]]
        x = self._descend(x, matrices)
        x, ids, d = self._narrowed(compare, x, ids, d, matrices, most)
        # Of every query, once it has ended.
        partners: list[Indices] = [ids[0]] * m
        distances: list[Floats] = [d[0]] * m

        def keep(rows: Indices, ids: Indices, d: Floats) -> None:
            for row, row_ids, row_d in zip(rows, ids, d, strict=True):
                partners[row] = row_ids
                distances[row] = row_d

        # Rounds without a change so far, and the calls of each query at each level. From here on
        # `rows` are the queries that go on, and ids, d, matrices and quiet are theirs.
        quiet = np.zeros(m, dtype=int)
        stops = np.full((m, effort), most)
        while ids.shape[1] < most:
            count = min(ROUND, most - ids.shape[1])
            near = self.nearest(x[rows], ids, count)
            levels = self._levels(x[rows], near[:, 0], _smallest(d, k), quiet)
            reached = levels[:, None] > np.arange(effort)
            fewest = np.minimum(stops[rows], ids.shape[1])
            stops[rows] = np.where(reached, fewest, stops[rows])
            goes_on = levels < effort
            # Copies, because a row of an array would hold all of it in memory.
            keep(rows[~goes_on], ids[~goes_on], d[~goes_on])
            if not goes_on.any():
                break
            rows = rows[goes_on]
            ids = ids[goes_on]
            d = d[goes_on]
            quiet = quiet[goes_on]
            matrices = matrices[goes_on]
            new = self._next_round(x[rows], matrices, ids, d, near[goes_on])
            before = _smallest(d, k).sum(axis=1)
            lengths = compare(rows, new)
            ids = np.concatenate([ids, new], axis=1)
            d = np.concatenate([d, lengths], axis=1)
            matrices += self.matrices_of(new, lengths)
            x[rows] = self._descend(x[rows], matrices)
            is_same = _smallest(d, k).sum(axis=1) == before
            quiet = np.where(is_same, quiet + 1, 0)
        else:
            keep(rows, ids, d)
        return x, partners, distances, stops


def _are_in(ids: Indices, others: Indices) -> Numbers:
    """Tell which entries of each row are in the same row of `others`."""
    is_in = np.empty(ids.shape, dtype=bool)
    for rows in row_blocks(len(ids), ids.shape[1] * others.shape[1]):
        equal = ids[rows, :, None] == others[rows, None, :]
        is_in[rows] = equal.any(axis=2)
    return is_in


def _without(ids: Indices, others: Indices) -> Indices:
    """Move entries of each row that are in the row of `others`, or repeated, behind the rest."""
    is_repeated = np.tril(ids[:, :, None] == ids[:, None, :], -1).any(axis=2)
    is_left_out = _are_in(ids, others) | is_repeated
    ranks = np.argsort(is_left_out, axis=1, kind="stable")
    return np.take_along_axis(ids, ranks, axis=1)


def _smallest(d: Floats, k: int) -> Floats:
    """Return the k smallest of every row, in any order; NaN if there are fewer."""
    if d.shape[1] < k:
        return np.full((len(d), k), np.nan)
    return np.asarray(np.partition(d, k - 1, axis=1)[:, :k])


def k_nearest(
    partners: list[Indices], distances: list[Floats], k: int
) -> tuple[Indices, Floats]:
    """Return the k nearest objects (m, k) of every query, nearest first, and their distances."""
    orders = [np.argsort(d, kind="stable")[:k] for d in distances]
    ids = [row[order] for row, order in zip(partners, orders, strict=True)]
    d = [row[order] for row, order in zip(distances, orders, strict=True)]
    return np.stack(ids), np.stack(d)
