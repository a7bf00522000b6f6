"""Non-metric scaling: distances d̂ in the order of the dissimilarities d.

Kruskal's stress-1 compares d̂ with disparities δ, numbers that rise with d and are free otherwise:

    stress-1² = Σ u (d̂ − δ)² / Σ u d̂²          u the weights of the pairs

At given coordinates the best δ are the isotonic regression of d̂ in the order of d. So δ is no
unknown, and, being at its minimum, adds nothing to the gradient (variable projection):

    ∂ stress-1² / ∂ d̂ = 2u (d̂ − δ − stress-1² d̂) / Σ u d̂²

Pairs of equal d are in the order of their d̂ (primary ties), or have one δ (secondary ties).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, sqrt
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import eigh
from scipy.optimize import isotonic_regression
from sklearn.utils import check_random_state

from neucmds.backend.arrays import (
    EPS,
    TINY,
    Array,
    Floats,
    Indices,
    Marks,
    to_numpy,
)
from neucmds.backend.progress import Callback
from neucmds.form import Form
from neucmds.problem.pairs import Pairs
from neucmds.refine.descent import FEW_OBJECTS, MAX_ITER, Configuration
from neucmds.refine.losses import LOSSES, PairLoss, check_defined

# Those of single pairs, and this one.
ALL_LOSSES = (*LOSSES, "ordinal")
TIES = ("primary", "secondary")
# Most starts of up to FEW_OBJECTS objects, and of more.
STARTS = 32
FEWER_STARTS = 4
# At most so many pairs of all starts that descend at once: their arrays stay in the cache.
BATCH = 16_000
# How often the best is found before starts end.
ENOUGH = 6
# Noise about the best, and in place of coordinates that classical scaling lacks, relative to the
# spread of coordinates.
NOISE = 0.8
# A descent ends when an iteration lowers stress-1² by less than this.
TOL = 1e-9
# Two configurations, each of unit length, are the same if no object is farther off when they are
# laid over each other; vegan's metaMDS has the same limit.
SAME = 0.01
# Iterations that L-BFGS remembers. A start is given up if thirty times what it fell in so many
# would not bring it to the best.
MEMORY = 8


@dataclass(frozen=True, eq=False)
class RankedPairs:
    """Pairs of positive weight in the order of d.

    Parameters
    ----------
    n : int
        Number of objects.
    dissimilarity : ndarray of shape (m,)
        d, rising.
    weight : ndarray of shape (m,)
    ties : {"primary", "secondary", "metric"}
        "metric": δ is the multiple of d that is nearest to d̂.
    incidence : sparse array of shape (m, n)
        A row has 1 at one object of its pair and −1 at the other.
    position : ndarray of shape (m,), optional
        Of the pairs of a matrix: where each is in the condensed matrix of all pairs.
    """

    n: int
    dissimilarity: Floats
    weight: Floats
    ties: str
    incidence: Any
    position: Indices | None = None

    @classmethod
    def of(
        cls, sq_dissimilarity: Array, weights: Array | None, ties: str
    ) -> RankedPairs:
        """Rank the pairs of a matrix of squared dissimilarities."""
        check_defined(sq_dissimilarity, weights, "ordinal")
        n = sq_dissimilarity.shape[0]
        i, j = np.triu_indices(n, 1)
        sq = to_numpy(sq_dissimilarity)[i, j].astype(np.float64)
        position = np.argsort(sq, kind="stable")
        weight = np.ones(sq.size)
        if weights is not None:
            weight = to_numpy(weights)[i, j].astype(np.float64)
            position = position[weight[position] > 0]
        d = np.sqrt(sq[position])
        incidence = incidence_of(i[position], j[position], n)
        return cls(n, d, weight[position], ties, incidence, position)

    @classmethod
    def listed(cls, pairs: Pairs, ties: str) -> RankedPairs:
        """Rank listed pairs."""
        check_defined(pairs.sq_dissimilarity, None, "ordinal")
        order = np.argsort(pairs.sq_dissimilarity, kind="stable")
        incidence = incidence_of(pairs.i[order], pairs.j[order], pairs.n)
        d = np.sqrt(pairs.sq_dissimilarity[order])
        return cls(pairs.n, d, pairs.weights[order], ties, incidence)

    @cached_property
    def first(self) -> Indices:
        """The first pair of each value of d."""
        d = self.dissimilarity
        return np.flatnonzero(np.diff(d, prepend=-1.0) > 0)

    @cached_property
    def count(self) -> Indices:
        """The number of pairs of each value of d."""
        return np.diff(self.first, append=self.dissimilarity.size)

    @cached_property
    def tied(self) -> Indices:
        """The pairs that are not the only ones of their d."""
        return np.flatnonzero(np.repeat(self.count, self.count) > 1)

    @cached_property
    def value_of_tied(self) -> Indices:
        """The number of the value of d of each of these pairs."""
        values = np.repeat(np.arange(self.count.size), self.count)
        return np.asarray(values[self.tied])

    def means(self, values: Floats) -> Floats:
        """Return the weighted mean over the pairs of each d."""
        sums = np.add.reduceat(self.weight * values, self.first, axis=-1)
        return np.asarray(sums / self.weight_of_value)

    @cached_property
    def weight_of_value(self) -> Floats:
        """The weight of the pairs of each value of d together."""
        return np.add.reduceat(self.weight, self.first)

    def disparities(self, d_hat: Floats) -> Floats:
        """Return δ of every pair: in each row the isotonic regression of d̂ in the order of d."""
        if self.ties == "metric":
            d = self.dissimilarity
            weighted = self.weight * d
            return d * (d_hat @ weighted / (weighted @ d))[:, None]
        if self.ties == "secondary":
            steps = rising(self.means(d_hat), self.weight_of_value)
            return np.repeat(steps, self.count, axis=1)
        if not self.tied.size:
            return rising(d_hat, self.weight)
        of_tied = d_hat[:, self.tied]
        # Below one, so that pairs stay among those of their d.
        share = of_tied / (2 * of_tied.max() or 1.0)
        order = self.tied[np.argsort(self.value_of_tied + share, axis=1)]
        row = np.arange(len(d_hat))[:, None]
        values = d_hat.copy()
        values[:, self.tied] = d_hat[row, order]
        weight = np.tile(self.weight, (len(d_hat), 1))
        weight[:, self.tied] = self.weight[order]
        disparity = rising(values, weight)
        disparity[row, order] = disparity[:, self.tied]
        return disparity

    def total(self, values: Floats) -> float:
        """Return the weighted sum of squares over all pairs."""
        return float((self.weight * values) @ values)

    def differences(self, x: Floats) -> Floats:
        """Return x_i − x_j of every pair (m, b, k) at each of b configurations (b, n, k)."""
        b, n, k = x.shape
        beside = x.swapaxes(0, 1).reshape(n, b * k)
        return np.asarray(self.incidence @ beside).reshape(-1, b, k)

    def distances(self, x: Floats) -> Floats:
        """Return d̂ of every pair (b, m)."""
        return lengths(self.differences(x))

    def stress(self, x: Floats) -> tuple[Floats, Floats]:
        """Return stress-1² and its gradient at each of b configurations (b, n, k)."""
        difference = self.differences(x)
        d_hat = lengths(difference)
        error = d_hat - self.disparities(d_hat)
        weighted = self.weight * d_hat
        weighted_error = self.weight * error
        total = np.einsum("bm,bm->b", weighted, d_hat)
        value = np.einsum("bm,bm->b", weighted_error, error) / total
        slope = weighted_error - value[:, None] * weighted
        slope *= 2 / total[:, None]
        # Objects in one place have no direction to part in.
        pull = np.divide(
            slope, d_hat, out=np.zeros_like(slope), where=d_hat > 0
        )
        difference *= pull.T[:, :, None]
        pulled = self.incidence.T @ difference.reshape(len(difference), -1)
        gradient = pulled.reshape(self.n, *difference.shape[1:])
        return value, gradient.swapaxes(0, 1)


def incidence_of(i: Indices, j: Indices, n: int) -> Any:
    """Return a row per pair, with 1 at i and −1 at j."""
    m = i.size
    objects = np.stack([i, j], axis=1).ravel()
    ends = (np.tile([1.0, -1.0], m), objects, np.arange(m + 1) * 2)
    return sparse.csr_array(ends, shape=(m, n))


def lengths(difference: Floats) -> Floats:
    """Return the lengths (b, m) of vectors (m, b, k)."""
    squares = np.einsum("mbk,mbk->mb", difference, difference)
    return np.asarray(np.sqrt(squares).T.copy())


def rising(values: Floats, weight: Floats) -> Floats:
    """Return the rising numbers nearest to those of each row: their isotonic regression."""
    # One regression of all rows, each above those before it.
    top = values.max()
    floor = top * np.arange(len(values))[:, None]
    weights = np.broadcast_to(weight, values.shape).ravel()
    stacked = (values + floor).ravel()
    fitted = isotonic_regression(stacked, weights=weights).x
    return np.asarray(fitted.reshape(values.shape) - floor)


@dataclass(frozen=True, eq=False)
class OrdinalFit:
    """The best of several descents, and how it was found.

    Parameters
    ----------
    end : Configuration
        Its mean squared d̂ is that of d, and its value Σ u (d̂ − δ)² over both orders of a pair.
    sum_of_squares : float
        Σ u d² over both orders of a pair: the value is stress-1² of it.
    dissimilarity, disparity : ndarray of shape (m,)
        Every d of the pairs, once, and its δ, the mean of equal d.
    n_starts : int
        Number of descents.
    times_found : int
        How many of them ended at the best configuration.
    """

    end: Configuration
    sum_of_squares: float
    dissimilarity: Floats
    disparity: Floats
    n_starts: int
    times_found: int


def refine_ordinal(
    pairs: RankedPairs,
    first: Floats,
    n_init: int | None,
    *,
    max_iter: int | None = None,
    tol: float | None = None,
    random_state: Any = None,
    callback: Callback | None = None,
) -> OrdinalFit:
    """Find coordinates of the least stress-1, from the given ones first.

    Up to `n_init` starts: the first, metric scaling from there, and then in turn a random one and
    one about the best so far. They end once the best was found often enough.
    """
    if max_iter is None:
        max_iter = MAX_ITER
    if tol is None:
        tol = TOL
    if n_init is None:
        n_init = STARTS if pairs.n <= FEW_OBJECTS else FEWER_STARTS
    rng = check_random_state(random_state)
    x, n_starts, times_found = _search(
        pairs, first, n_init, rng, max_iter, tol
    )
    sum_of_squares = 2 * pairs.total(pairs.dissimilarity)
    history: list[float] = []

    def record(value: float) -> None:
        history.append(value * sum_of_squares)
        if callback is not None:
            callback(len(history), max_iter, history[-1])

    # Once more, for the history, and with new directions.
    descent = Descents(pairs, x[None])
    (x,), (value,) = descent.run(max_iter, tol, record=record)
    d_hat = pairs.distances(x[None])
    scale = sqrt(pairs.total(pairs.dissimilarity) / pairs.total(d_hat[0]))
    end = Configuration(
        scale * (x - x.mean(axis=0)),
        Form(np.ones(first.shape[1])),
        PairLoss("ordinal"),
        value=float(value) * sum_of_squares,
        history=tuple(history),
        converged=descent.converged,
    )
    dissimilarity = pairs.dissimilarity[pairs.first]
    # Means of equal numbers are equal up to rounding.
    disparity = np.maximum.accumulate(
        scale * pairs.means(pairs.disparities(d_hat)[0])
    )
    if dissimilarity[0] > 0:
        # An object is nowhere but where it is.
        dissimilarity = np.append(0.0, dissimilarity)
        disparity = np.append(0.0, disparity)
    return OrdinalFit(
        end,
        sum_of_squares,
        dissimilarity,
        disparity,
        n_starts,
        times_found,
    )


def _search(
    pairs: RankedPairs,
    first: Floats,
    n_init: int,
    rng: np.random.RandomState,
    max_iter: int,
    tol: float,
) -> tuple[Floats, int, int]:
    """Return the best end of several descents, their number, and how often it was found."""
    batch = int(np.clip(BATCH // pairs.dissimilarity.size, 1, STARTS // 2))
    metric = Descents(replace(pairs, ties="metric"), first[None])
    (scaled,), _ = metric.run(max_iter, 1e-5)
    # Where descents ended, and what those were drawn about that were drawn about the best.
    ends: list[Floats] = []
    origins: dict[int, Floats] = {}
    best = first
    lowest = inf
    times_found = 0
    while len(ends) < n_init and times_found < ENOUGH:
        last = min(len(ends) + batch, n_init)
        starts = []
        for number in range(len(ends), last):
            start = first
            if number == 1:
                start = scaled
            elif number:
                start = rng.normal(size=first.shape)
            if ends and number > 1 and number % 2:
                origins[number] = best
                start = best + NOISE * best.std() * start
            starts.append(start)
        descents = Descents(pairs, np.array(starts))
        # To tell ends apart; the best descends to `tol` in the end.
        new_ends, values = descents.run(max_iter, 100 * tol, lowest)
        ends += [*new_ends]
        if values.min() < lowest:
            lowest = float(values.min())
            best = new_ends[values.argmin()]
        is_best = _are_same(best, ends)
        if origins:
            # From about the best, that is no evidence.
            numbers = [*origins]
            is_best[numbers] &= ~_are_same(best, [*origins.values()])
        times_found = int(is_best.sum())
    return best, len(ends), times_found


class Descents:
    """Descents of stress-1² by L-BFGS, from several starts at once.

    Each has its own step, directions and end; arrays hold those that have not ended, one in a row.
    """

    def __init__(self, pairs: RankedPairs, starts: Floats) -> None:
        self.pairs = pairs
        self.shape = starts.shape
        spread = starts.std(axis=(1, 2))
        spread[spread == 0] = 1.0
        self.x = (starts / spread[:, None, None]).reshape(len(starts), -1)
        self.value, self.gradient = self._stress(self.x)
        self.number = np.arange(len(starts))
        self.step = np.ones(len(starts))
        # Changes of x and of its gradient in the last iterations, the inverse products of both,
        # and the values before.
        self.moves = np.zeros((MEMORY, *self.x.shape))
        self.turns = np.zeros_like(self.moves)
        self.inverse = np.zeros(self.moves.shape[:2])
        self.past = np.full(self.inverse.shape, inf)
        length = np.linalg.norm(self.gradient, axis=1)
        self.scale = 1 / np.where(length > 0, length, 1.0)
        self.direction = -self.gradient * self.scale[:, None]
        self.converged = False

    def run(
        self,
        max_iter: int,
        tol: float,
        lowest: float = inf,
        record: Callable[[float], None] | None = None,
    ) -> tuple[Floats, Floats]:
        """Return where each ends and its stress-1²; give up those far above the lowest one."""
        ends = self.x.copy()
        values = self.value.copy()
        for iteration in range(max_iter):
            memory = iteration % MEMORY
            is_done = self._advance(memory, tol)
            ends[self.number] = self.x
            values[self.number] = self.value
            if record is not None:
                record(float(self.value[0]))
            lowest = min(lowest, float(self.value.min()))
            fall = self.past[memory] - self.value
            self.past[memory] = self.value
            is_hopeless = self.value - 30 * fall > lowest * (1 + 1e-3)
            self._keep(~is_done & ~is_hopeless)
            if not self.number.size:
                self.converged = True
                break
            self._turn(memory)
        return ends.reshape(self.shape), values

    def _stress(self, x: Floats) -> tuple[Floats, Floats]:
        value, gradient = self.pairs.stress(x.reshape(-1, *self.shape[1:]))
        return value, gradient.reshape(x.shape)

    def _advance(self, memory: int, tol: float) -> Marks:
        """Take the steps that lower stress, and shorten the others; mark descents that end."""
        slope = dots(self.direction, self.gradient)
        trial = self.x + self.step[:, None] * self.direction
        value, gradient = self._stress(trial)
        expected = self.step * slope
        fall = self.value - value
        is_lower = fall >= -1e-4 * expected
        taken = is_lower[:, None]
        move = np.where(taken, trial - self.x, 0.0)
        turn = np.where(taken, gradient - self.gradient, 0.0)
        product = dots(move, turn)
        square = dots(turn, turn)
        is_convex = product > 1e-12 * square
        self.moves[memory] = move
        self.turns[memory] = turn
        self.inverse[memory] = 0.0
        np.divide(1.0, product, out=self.inverse[memory], where=is_convex)
        np.divide(product, square, out=self.scale, where=is_convex)
        self.x = np.where(taken, trial, self.x)
        self.gradient = np.where(taken, gradient, self.gradient)
        self.value = np.where(is_lower, value, self.value)
        # Of a step that is too long: to the lowest point of a parabola.
        excess = np.maximum(-fall - expected, TINY)
        share = np.clip(-expected / (2 * excess), 0.1, 0.5)
        self.step = np.where(is_lower, 1.0, share * self.step)
        return np.where(is_lower, fall, -expected) <= tol

    def _turn(self, memory: int) -> None:
        """Set the directions from the last moves, the last one first (two-loop recursion)."""
        order = [(memory - age) % MEMORY for age in range(MEMORY)]
        direction = -self.gradient
        shares = {}
        for i in order:
            shares[i] = self.inverse[i] * dots(self.moves[i], direction)
            direction -= shares[i][:, None] * self.turns[i]
        direction *= self.scale[:, None]
        for i in reversed(order):
            share = shares[i] - self.inverse[i] * dots(
                self.turns[i], direction
            )
            direction += share[:, None] * self.moves[i]
        self.direction = direction

    def _keep(self, rows: Marks) -> None:
        """Drop the descents of other rows."""
        if rows.all():
            return
        for name in ("x", "value", "gradient", "number", "step", "scale"):
            setattr(self, name, getattr(self, name)[rows])
        for name in ("moves", "turns", "inverse", "past"):
            setattr(self, name, getattr(self, name)[:, rows])


def dots(x: Floats, y: Floats) -> Floats:
    """Return the product of each row with the same row of another array."""
    return np.asarray(np.einsum("bi,bi->b", x, y))


def classical_start(
    sq_dissimilarity: Array,
    weights: Array | None,
    k: int,
    random_state: Any,
) -> Floats:
    """Return classical scaling, the mean D in gaps, and noise for coordinates that it lacks."""
    rng = check_random_state(random_state)
    sq: Floats = to_numpy(sq_dissimilarity).astype(np.float64)
    n = len(sq)
    if weights is not None:
        known = to_numpy(weights) > 0
        mean = sq[known].mean()
        sq = np.where(known, sq, mean)
        np.fill_diagonal(sq, 0.0)
    gram = -0.5 * (sq - sq.mean(axis=0))
    gram -= gram.mean(axis=1)[:, None]
    values, vectors = eigh(gram, subset_by_index=(n - k, n - 1))
    x: Floats = vectors * np.sqrt(np.maximum(values, 0.0))
    lacking = values <= EPS * values[-1]
    x[:, lacking] = (
        NOISE * (x.std() or 1.0) * rng.normal(size=(n, lacking.sum()))
    )
    return x


def _are_same(best: Floats, others: Sequence[Floats]) -> Marks:
    """Mark configurations equal to the best, but for place, size, rotation and reflection."""
    x = np.array([best, *others])
    x -= x.mean(axis=1, keepdims=True)
    x /= np.linalg.norm(x, axis=(1, 2), keepdims=True)
    # Procrustes: the rotation and the size that lay each over the best.
    left, sizes, right = np.linalg.svd(x.swapaxes(1, 2) @ x[0])
    laid = sizes.sum(axis=1)[:, None, None] * (x @ (left @ right))
    off = np.linalg.norm(laid - x[0], axis=2)
    return np.asarray(off.max(axis=1) < SAME)[1:]
