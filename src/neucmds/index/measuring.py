"""Measure what an index finds, and in which time, by objects that are searched for as queries."""

from __future__ import annotations

import time
from collections.abc import Iterable

import numpy as np

from neucmds.backend.arrays import Floats, Indices
from neucmds.index.answers import Answers, known_nearest
from neucmds.index.building import taken
from neucmds.index.search import PlacedObjects

# Recall is measured of so many nearest objects, and no search is for fewer.
NEAREST = 10
# So many held-out objects are compared with all others, which tells what the most effort misses.
COMPARED = 10
# Neighbours among the known pairs are judged by a search for one object of so many, and at most for
# so many objects.
ONE_OF = 40
JUDGED = 50


class HeldOut:
    """Objects that are held out, and searched for as queries among the others.

    Known distances need no call, so that a search which is repeated needs none.

    Parameters
    ----------
    answers : Answers
    drawn : ndarray of int of shape (m,)
        The objects that are held out, by numbers among all.
    others : ndarray of int of shape (n,)
    placed : PlacedObjects
        The others; objects below are positions among these.
    """

    def __init__(
        self,
        answers: Answers,
        drawn: Indices,
        others: Indices,
        placed: PlacedObjects,
    ) -> None:
        self.answers = answers
        self.drawn = drawn
        self.others = others
        self.placed = placed
        self.k = min(NEAREST, others.size)
        self._asking_seconds = 0.0

    def ask(self, rows: Indices, ids: Indices) -> Floats:
        """Return the distances (m, c) of some of the objects held out to `ids` (m, c)."""
        begin = time.perf_counter()
        of_rows = self.drawn[rows].repeat(ids.shape[1])
        d = self.answers.ask(of_rows, self.others[ids].ravel())
        self._asking_seconds += time.perf_counter() - begin
        return d.reshape(ids.shape)

    def ask_back(self, rows: Indices, ids: Indices) -> Floats:
        """Return the distances from `ids` (m, c) to some of the objects held out."""
        to = self.drawn[rows].repeat(ids.shape[1])
        d = self.answers.ask(self.others[ids].ravel(), to)
        return d.reshape(ids.shape)

    def search(
        self, effort: int
    ) -> tuple[Floats, list[Indices], list[Floats], Indices]:
        """Search for all as `PlacedObjects.search` does."""
        return self.placed.search(
            self.ask, self.drawn.size, self.k, effort, self.others.size
        )

    def search_back(self, effort: int) -> Floats:
        """Return where the objects are arrived at, if distances are directed."""
        y, *_ = self.placed.turned().search(
            self.ask_back, self.drawn.size, self.k, effort, self.others.size
        )
        return y

    def seconds_beyond_calls(self, count: int, effort: int) -> float:
        """Return what a search for the first `count` takes beyond calls, per call."""
        begin = time.perf_counter()
        asking = self._asking_seconds
        _, partners, _, _ = self.placed.search(
            self.ask, count, self.k, effort, self.others.size
        )
        asking = self._asking_seconds - asking
        seconds = time.perf_counter() - begin - asking
        return seconds / sum(row.size for row in partners)

    def compared(self) -> Floats:
        """Return the distances of the first of them to all others."""
        rows = np.arange(min(self.drawn.size, COMPARED))
        ids = np.arange(self.others.size)
        return self.ask(rows, np.tile(ids, (rows.size, 1)))

    def recall_of_vectors(self, x: Floats, limits: Floats) -> Floats:
        """Return recall for queries at x: by D̂ alone, and by d of the 5k nearest by D̂.

        The k nearest are those up to `limits`.
        """
        m = self.drawn.size
        count = min(5 * self.k, self.others.size)
        near = self.placed.nearest(x, np.empty((m, 0), np.int64), count)
        ends = np.tile([self.k, count], (m, 1))
        d = self.ask(np.arange(m), near)
        found = shares_found(d, ends, limits, self.k)
        return np.asarray(found.mean(axis=0))


def tradeoff(
    distances: list[Floats], stops: Indices, limits: Floats, d: Floats, k: int
) -> Floats:
    """Return calls, recall and its standard error of searches that stop so, at every level.

    Levels are judged by the most effort, which finds nearest objects up to `limits`; this is judged
    by the first of the searches, which `d` has the distances of all objects for.
    """
    found = shares_found(distances, stops, limits, k)
    compared = len(d)
    true_limits = np.partition(d, k - 1, axis=1)[:, k - 1]
    most = shares_found(
        distances[:compared], stops[:compared, -1:], true_limits, k
    )
    recalls = found.mean(axis=0) * most.mean()
    m = len(found)
    # If none fails: an object that fails as a whole changes the mean by 1/m.
    errors = np.maximum(found.std(axis=0) / m**0.5, 1 / m)
    errors = np.hypot(errors, most.std() / compared**0.5)
    return np.column_stack([stops.mean(axis=0), recalls, errors])


def shares_found(
    distances: Iterable[Floats],
    stops: Indices,
    limits: Iterable[float],
    k: int,
) -> Floats:
    """Return which share of its k nearest each object had found at its stops (m, levels).

    `distances` are those of each object in the order of calls, and what is no farther than its
    limit is one of its nearest.
    """
    counts = [
        np.cumsum(row <= limit)[stop - 1]
        for row, stop, limit in zip(distances, stops, limits, strict=True)
    ]
    return np.minimum(counts, k) / k


def judged(members: Indices, n: int) -> Indices:
    """Return the first of members whose neighbours among the known pairs are to be judged."""
    return members[: max(1, min(JUDGED, n // ONE_OF))]


def recall_of_known(
    answers: Answers, placed: PlacedObjects, objects: Indices, effort: int
) -> tuple[float, float]:
    """Return which share of their nearest objects have among the known pairs, and its error.

    The nearest are those known after each is searched for among the others, by calls.
    """
    n = len(placed.coordinates)
    k = min(NEAREST, n - 1)

    def known() -> Floats:
        pairs = answers.pairs
        is_near = np.isin(pairs["i"], objects) | np.isin(pairs["j"], objects)
        _, d = known_nearest(pairs[is_near], n, k, answers.directed)
        return d[objects]

    before = known()
    others = np.setdiff1d(np.arange(n), objects)
    # Without their own points and links, which would lead to what is known alone.
    of_others, _ = taken(placed, answers.pairs, others)
    HeldOut(answers, objects, others, of_others).search(effort)
    limits = known()[:, -1:]
    shares = (before <= limits).mean(axis=1)
    m = objects.size
    error = max(shares.std() / m**0.5, 1 / (k * m))
    return float(shares.mean()), float(error)
