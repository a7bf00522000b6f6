"""Ask adaptively: place a query from a few distances, ask its nearest by D̂, and place it again.

Every distance is used twice, for the answer and for the place of the query.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import CACHED_ELEMENTS, row_blocks
from neucmds.form import Form
from neucmds.place.least_squares import NewObjects
from neucmds.place.neighbors import roughly_nearest
from neucmds.place.newton import descend
from neucmds.refine.losses import PairLoss

Indices = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
# Distances (m, c) of queries, by their numbers (m,), to objects (m, c).
Compare = Callable[[Indices, Indices], Floats]

# Objects that are asked in a round.
ROUND = 16


@dataclass(frozen=True, eq=False)
class PlacedObjects:
    """Objects with coordinates, among which queries are placed.

    Parameters
    ----------
    coordinates : ndarray of shape (n, k)
    form : Form
    loss : PairLoss
        Queries are placed by it.
    first : ndarray of int
        Objects that every query is compared with first, as many of them as it takes.
    """

    coordinates: Floats
    form: Form
    loss: PairLoss
    first: Indices

    def descended(
        self, x: Floats, ids: Indices, d: Floats, steps: int
    ) -> Floats:
        """Move queries from x (m, k) by steps that lower the loss of their distances (m, c)."""
        sq = self.form.to_sq(d * d)
        moved = np.empty_like(x)
        width = ids.shape[1] * x.shape[1]
        for rows in row_blocks(len(x), width, CACHED_ELEMENTS):
            near = self.coordinates[ids[rows]]
            new = NewObjects(sq[rows], None, near, self.form)
            moved[rows] = descend(
                new, self.loss, x[rows].copy(), max_iter=steps, gauss=True
            )
        return moved

    def search(
        self, compare: Compare, m: int, k: int, effort: int, max_calls: int
    ) -> tuple[Floats, list[Indices], list[Floats]]:
        """Return places of m queries, the objects that each was compared with, and the distances.

        A query begins with `effort` objects per coordinate. It ends when its k nearest have not
        changed in more than `effort` rounds.
        """
        n, n_coordinates = self.coordinates.shape
        most = min(n, max_calls)
        count = min(effort * n_coordinates, self.first.size, most)
        ids = np.tile(self.first[:count], (m, 1))
        rows = np.arange(m)
        d = compare(rows, ids)
        x = self.coordinates[ids[rows, d.argmin(axis=1)]]
        x = self.descended(x, ids, d, 8)
        partners: list[Indices] = [ids[0]] * m
        distances: list[Floats] = list(d)
        quiet = np.zeros(m, dtype=int)
        while rows.size:
            count = min(ROUND, most - ids.shape[1])
            if count:
                new = roughly_nearest(
                    self.form, x[rows], self.coordinates, ids, count
                )
                ids = np.concatenate([ids, new], axis=1)
                before = _sum_of_least(d, k)
                d = np.concatenate([d, compare(rows, new)], axis=1)
                is_same = _sum_of_least(d, k) == before
                quiet[rows] = np.where(is_same, quiet[rows] + 1, 0)
                x[rows] = self.descended(x[rows], ids, d, 2)
            ended = (quiet[rows] > effort) | (ids.shape[1] >= most)
            for at in np.nonzero(ended)[0]:
                partners[rows[at]] = ids[at]
                distances[rows[at]] = d[at]
            rows = rows[~ended]
            ids = ids[~ended]
            d = d[~ended]
        return x, partners, distances


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
