"""Non-metric scaling: distances d̂ in the order of the dissimilarities d.

Kruskal's stress-1 compares d̂ with disparities δ, numbers that rise with d and are free otherwise:

    stress-1² = Σ u (d̂ − δ)² / Σ u d̂²          u the weights of the pairs

At given coordinates the best δ are the isotonic regression of d̂ in the order of d. So δ is no
unknown, and, being at its minimum, adds nothing to the gradient (variable projection):

    ∂ stress-1² / ∂ d̂ = 2u (d̂ − δ − stress-1² d̂) / Σ u d̂²

Pairs of equal d are in the order of their d̂ (primary ties), or have one δ (secondary ties).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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

# The losses of single pairs, and that of this module.
ALL_LOSSES = (*LOSSES, "ordinal")
TIES = ("primary", "secondary")
# Most starts of up to FEW_OBJECTS objects, and of more.
STARTS = 32
FEWER_STARTS = 4
# At most so many pairs of all starts that descend at once: their arrays stay in the cache.
BATCH = 16_000
# No start is begun once the best end was found so often and so many starts about it have ended.
ENOUGH = 3
# Noise about the best end, and in place of coordinates that classical scaling lacks, relative to
# the standard deviation of coordinates.
NOISE = 0.8
# A descent ends when an iteration lowers stress-1² by less than this.
TOL = 1e-9
# Two configurations, each of unit length, are the same if no object is farther off when they are
# laid over each other; vegan's metaMDS has the same limit.
SAME = 0.01
# Iterations that L-BFGS remembers. A start is given up if ten times what it fell in so many would
# not bring it to the best.
MEMORY = 4


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
    ties : {"primary", "secondary"}
    i, j : ndarray of shape (m,)
        The objects of each pair.
    position : ndarray of shape (m,), optional
        Of the pairs of a matrix: where each is in the condensed matrix of all pairs.
    """

    n: int
    dissimilarity: Floats
    weight: Floats
    ties: str
    i: Indices
    j: Indices
    position: Indices | None = None

    @classmethod
    def of(
        cls, sq_dissimilarity: Array, weights: Array | None, ties: str
    ) -> RankedPairs:
        """Rank the pairs of a matrix of squared dissimilarities."""
        check_defined(sq_dissimilarity, weights, "ordinal", symmetric=True)
        n = sq_dissimilarity.shape[0]
        i, j = np.triu_indices(n, 1)
        sq = to_numpy(sq_dissimilarity)[i, j].astype(np.float64)
        position = np.argsort(sq, kind="stable")
        weight = np.ones(sq.size)
        if weights is not None:
            weight = to_numpy(weights)[i, j].astype(np.float64)
            position = position[weight[position] > 0]
        d = np.sqrt(sq[position])
        return cls(
            n, d, weight[position], ties, i[position], j[position], position
        )

    @classmethod
    def listed(cls, pairs: Pairs, ties: str) -> RankedPairs:
        """Rank listed pairs."""
        check_defined(pairs.sq_dissimilarity, None, "ordinal")
        order = np.argsort(pairs.sq_dissimilarity, kind="stable")
        d = np.sqrt(pairs.sq_dissimilarity[order])
        return cls(
            pairs.n,
            d,
            pairs.weights[order],
            ties,
            pairs.i[order],
            pairs.j[order],
        )

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
        """The number of the value of d of each pair of `tied`."""
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
        if self.ties == "secondary":
            steps = rising(self.means(d_hat), self.weight_of_value)
            return np.repeat(steps, self.count, axis=1)
        weight: Floats | None = self.weight
        if self.is_uniform:
            weight = None
        if not self.tied.size:
            return rising(d_hat, weight)
        of_tied = d_hat.take(self.tied, axis=1)
        # Below one, so that pairs stay among those of their d.
        rank = of_tied / (2 * of_tied.max() or 1.0)
        rank += self.value_of_tied
        # Nearly in order already, which a stable sort makes use of.
        order = self.tied.take(np.argsort(rank, axis=1, kind="stable"))
        # Numbers in the flat array: one index is faster than two.
        row = np.arange(len(d_hat))[:, None] * d_hat.shape[1]
        sorted_pairs = row + order
        values = d_hat.copy()
        values.reshape(-1)[row + self.tied] = d_hat.take(sorted_pairs)
        if weight is not None:
            weight = np.tile(weight, (len(d_hat), 1))
            weight[:, self.tied] = self.weight[order]
        disparity = rising(values, weight)
        disparity.reshape(-1)[sorted_pairs] = disparity.take(self.tied, axis=1)
        return disparity

    @cached_property
    def is_uniform(self) -> bool:
        """Whether all weights are equal."""
        return bool(np.ptp(self.weight) == 0)

    def weighed(self, values: Floats) -> Floats:
        """Return values times weights; `values` itself if all weights are equal, as in ratios."""
        return values if self.is_uniform else self.weight * values

    def total(self, values: Floats) -> float:
        """Return the weighted sum of squares over all pairs."""
        return float((self.weight * values) @ values)

    def distances(self, x: Floats) -> Floats:
        """Return d̂ of every pair (b, m) at each of b configurations (b, n, k)."""
        if self.position is None:
            columns = np.ascontiguousarray(x.swapaxes(1, 2))
            difference = columns.take(self.i, axis=2)
            difference -= columns.take(self.j, axis=2)
            squares = np.einsum("bkm,bkm->bm", difference, difference)
            return np.asarray(np.sqrt(squares))
        # |x_i|² + |x_j|² − 2 x_i·x_j of all pairs, in one product.
        squares = np.vecdot(x, x)[:, :, None]
        ones = np.ones_like(squares)
        left = np.concatenate([-2 * x, squares, ones], axis=2)
        right = np.concatenate([x, ones, squares], axis=2)
        of_pairs = (left @ right.swapaxes(1, 2)).reshape(len(x), -1)
        d_hat = of_pairs.take(self._number, axis=1)
        # Rounding may leave a square below zero.
        np.maximum(d_hat, 0.0, out=d_hat)
        return np.asarray(np.sqrt(d_hat, out=d_hat))

    def stress(self, x: Floats) -> tuple[Floats, Floats]:
        """Return stress-1² and its gradient at each of b configurations (b, n, k)."""
        d_hat = self.distances(x)
        disparity = self.disparities(d_hat)
        total = np.vecdot(self.weighed(d_hat), d_hat)
        error = d_hat - disparity
        value = np.vecdot(self.weighed(error), error) / total
        # Objects in one place have no direction to part in.
        pull = disparity / np.where(d_hat > 0, d_hat, 1.0)
        np.subtract((1 - value)[:, None], pull, out=pull)
        pull = self.weighed(pull)
        with_ones = np.concatenate([x, np.ones((*x.shape[:2], 1))], axis=2)
        products = self.product(pull, with_ones)
        gradient = products[:, :, -1:] * x - products[:, :, :-1]
        return value, 2 / total[:, None, None] * gradient

    def spread(self, noise: Floats) -> Floats:
        """Return B times noise (n, k), with B of classical scaling, up to a factor: a random start.

        Gaps of D are filled by the mean d². The product is long along the eigenvectors of large
        eigenvalues, so that it is nearer to an embedding than noise is.
        """
        sq = self.dissimilarity**2
        mean = sq.mean()
        centered = noise - noise.mean(axis=0)
        (product,) = self.product((sq - mean)[None], centered[None])
        return np.asarray(mean * centered - product)

    def product(self, values: Floats, x: Floats) -> Floats:
        """Return Σ_j v_ij x_j (b, n, k) at each of b configurations x, from `values` v (b, m)."""
        if self.position is None:
            each = zip(values, x, strict=True)
            return np.stack([self._listed(v) @ y for v, y in each])
        b, n, _ = x.shape
        padded = np.zeros((b, self.i.size + 1))
        padded[:, :-1] = values
        return padded.take(self._rank, axis=1).reshape(b, n, n) @ x

    @cached_property
    def _number(self) -> Indices:
        """The number of each pair in the flat square matrix."""
        return self.i * self.n + self.j

    @cached_property
    def _rank(self) -> Indices:
        """The rank of each entry of the square matrix, flat; m if it is not among the m pairs."""
        m = self.i.size
        rank = np.full((self.n, self.n), m)
        rank[self.i, self.j] = np.arange(m)
        rank[self.j, self.i] = np.arange(m)
        return rank.ravel()

    def _listed(self, values: Floats) -> Any:
        """Return the symmetric matrix of values of listed pairs."""
        upper = sparse.csr_array((values, (self.i, self.j)), (self.n, self.n))
        return upper + upper.T


def rising(values: Floats, weight: Floats | None) -> Floats:
    """Return the isotonic regression of each row of `values` (b, m): rising, and nearest to it."""
    # One regression of all rows, each above those before it.
    floor = values.max() * np.arange(len(values))[:, None]
    stacked = (values + floor).ravel()
    if weight is not None:
        weight = np.broadcast_to(weight, values.shape).ravel()
    fitted: Floats = isotonic_regression(stacked, weights=weight).x
    return np.asarray(fitted.reshape(values.shape) - floor)


@dataclass(frozen=True, eq=False)
class OrdinalFit:
    """The best of several descents, and how it was found.

    Parameters
    ----------
    end : Configuration
        Scaled so that Σ u d̂² is Σ u d²; its value is Σ u (d̂ − δ)² over both orders of a pair.
    sum_of_squares : float
        Σ u d² over both orders of a pair: stress-1² is the value over this.
    dissimilarity, disparity : ndarray of shape (m,)
        Every value of d, once, and the mean δ of its pairs; from 0 at d = 0 on.
    n_starts : int
        Number of descents.
    times_found : int
        How many descents ended at the best configuration, of those not drawn about it.
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
    """Find coordinates of the least stress-1.

    There are up to `n_init` starts: at `first`, then in turn about the best end so far and at
    random. No more are begun once the best was found `ENOUGH` times and as many about it found none
    lower.
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
    descent = Descents(pairs, [x])
    descent.advance(tol)
    converged = False
    for _ in range(max_iter):
        (converged,) = descent.advance(tol)
        record(float(descent.value[0]))
        if converged:
            break
    x = descent.x.reshape(x.shape)
    d_hat = pairs.distances(x[None])
    scale = sqrt(pairs.total(pairs.dissimilarity) / pairs.total(d_hat[0]))
    end = Configuration(
        scale * (x - x.mean(axis=0)),
        Form(np.ones(first.shape[1])),
        PairLoss("ordinal"),
        value=history[-1],
        history=tuple(history),
        converged=bool(converged),
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
    # By the number of a start: where it ended and, if it was drawn about the best end, that end.
    ends: dict[int, Floats] = {}
    origins: dict[int, Floats] = {}
    best = first
    lowest = inf
    times_found = 0

    def start_of(number: int) -> Floats:
        """Return the start of this number; keep its origin if it is about the best end."""
        if number == 0:
            return first
        noise = rng.normal(size=first.shape)
        if number % 2 and ends:
            origins[number] = best
            return np.asarray(best + NOISE * best.std() * noise)
        return pairs.spread(noise)

    # To tell ends apart; the best descends to `tol` in the end.
    rough_tol = 100 * tol
    width = int(np.clip(BATCH // pairs.dissimilarity.size, 1, STARTS // 2))
    n_begun = min(width, n_init)
    descents = Descents(pairs, [start_of(number) for number in range(n_begun)])
    # The number of the start in each row of the descents.
    numbers = np.arange(n_begun)
    while numbers.size:
        has_ended = descents.advance(rough_tol, max_iter, lowest)
        rows = np.flatnonzero(has_ended)
        for row in rows:
            end = descents.x[row].reshape(first.shape).copy()
            ends[int(numbers[row])] = end
            if descents.value[row] < lowest:
                lowest = float(descents.value[row])
                best = end
        # Ends of another stress are not the best configuration: skip the comparison.
        if np.any(descents.value[rows] <= (1 + SAME) * lowest + rough_tol):
            times_found = _times_found(best, ends, origins)
        n_about = len(ends.keys() & origins.keys())
        if min(times_found, n_about) >= ENOUGH:
            break
        for row in rows[: n_init - n_begun]:
            numbers[row] = n_begun
            descents.begin(row, start_of(n_begun))
            has_ended[row] = False
            n_begun += 1
        if has_ended.any():
            descents.keep(~has_ended)
            numbers = numbers[~has_ended]
    return best, len(ends), times_found


def _times_found(
    best: Floats, ends: dict[int, Floats], origins: dict[int, Floats]
) -> int:
    """Return how many descents ended at the best, without those that began about it."""
    is_same = _are_same(best, [*ends.values(), *origins.values()])
    is_best = is_same[: len(ends)]
    from_best = dict(zip(origins, is_same[len(ends) :], strict=True))
    is_evidence = [not from_best.get(number, False) for number in ends]
    return int(np.sum(is_best & is_evidence))


class Descents:
    """Descents of stress-1² by L-BFGS, one in each row of the arrays.

    Each has its own step, directions and end; where one ended, another may begin.
    """

    def __init__(self, pairs: RankedPairs, starts: Sequence[Floats]) -> None:
        self.pairs = pairs
        self.shape = starts[0].shape
        b = len(starts)
        self.x = np.zeros((b, starts[0].size))
        self.gradient = np.zeros_like(self.x)
        self.direction = np.zeros_like(self.x)
        self.value = np.zeros(b)
        self.step = np.zeros(b)
        self.scale = np.zeros(b)
        self.age = np.zeros(b)
        # Changes of x and of its gradient in the last iterations, the inverse products of both,
        # and the values before. `memory` is the column of the present iteration.
        self.memory = 0
        self.moves = np.zeros((b, MEMORY, starts[0].size))
        self.changes = np.zeros_like(self.moves)
        self.inverse = np.zeros((b, MEMORY))
        self.past = np.zeros((b, MEMORY))
        for row, start in enumerate(starts):
            self.begin(row, start)

    def begin(self, row: int, start: Floats) -> None:
        """Begin a descent: the first step leads to the start."""
        self.x[row] = (start / (start.std() or 1.0)).ravel()
        self.direction[row] = 0.0
        self.value[row] = inf
        # With all pairs, that is a step of majorization (SMACOF).
        self.scale[row] = start.size / 2
        self.age[row] = -1
        self.inverse[row] = 0.0
        self.past[row] = inf

    def advance(
        self, tol: float, max_iter: float = inf, lowest: float = inf
    ) -> Marks:
        """Iterate once; mark descents that end, reach `max_iter` or would end above `lowest`."""
        is_done = self._step(tol)
        fall = self.past[:, self.memory] - self.value
        self.past[:, self.memory] = self.value
        lowest = min(lowest, float(self.value.min()))
        is_hopeless = self.value - 10 * fall > lowest * (1 + 1e-3)
        self._set_direction()
        self.memory = (self.memory + 1) % MEMORY
        self.age += 1
        return np.asarray(is_done | is_hopeless | (self.age >= max_iter))

    def keep(self, rows: Marks) -> None:
        """Drop all descents but those of `rows`."""
        names = "x gradient direction value step scale age moves changes inverse past"
        for name in names.split():
            setattr(self, name, getattr(self, name)[rows])

    def _step(self, tol: float) -> Marks:
        """Take the steps that lower stress, and shorten the others; mark descents that end."""
        slope = np.vecdot(self.direction, self.gradient)
        trial = self.x + self.step[:, None] * self.direction
        value, gradient = self.pairs.stress(trial.reshape(-1, *self.shape))
        gradient = gradient.reshape(trial.shape)
        expected = self.step * slope
        fall = self.value - value
        is_lower = fall >= -1e-4 * expected
        taken = is_lower[:, None]
        move = np.where(taken, trial - self.x, 0.0)
        change = np.where(taken, gradient - self.gradient, 0.0)
        product = np.vecdot(move, change)
        square = np.vecdot(change, change)
        is_convex = product > 1e-12 * square
        self.moves[:, self.memory] = move
        self.changes[:, self.memory] = change
        inverse = self.inverse[:, self.memory]
        inverse[:] = 0.0
        np.divide(1.0, product, out=inverse, where=is_convex)
        np.divide(product, square, out=self.scale, where=is_convex)
        self.x = np.where(taken, trial, self.x)
        self.gradient = np.where(taken, gradient, self.gradient)
        self.value = np.where(is_lower, value, self.value)
        # Of a step that is too long: to the lowest point of a parabola.
        excess = np.maximum(-fall - expected, TINY)
        share = np.clip(-expected / (2 * excess), 0.1, 0.5)
        self.step = np.where(is_lower, 1.0, share * self.step)
        return np.where(is_lower, fall, -expected) <= tol

    def _set_direction(self) -> None:
        """Set the directions from the last moves and changes (the two-loop recursion of L-BFGS)."""
        order = [(self.memory - age) % MEMORY for age in range(MEMORY)]
        direction = -self.gradient
        shares = np.zeros((MEMORY, len(direction), 1))
        for i in order:
            share = self.inverse[:, i] * np.vecdot(self.moves[:, i], direction)
            shares[i, :, 0] = share
            direction -= shares[i] * self.changes[:, i]
        direction *= self.scale[:, None]
        for i in reversed(order):
            back = self.inverse[:, i] * np.vecdot(
                self.changes[:, i], direction
            )
            direction += (shares[i] - back[:, None]) * self.moves[:, i]
        self.direction = direction


def classical_start(
    sq_dissimilarity: Array,
    weights: Array | None,
    k: int,
    random_state: Any,
) -> Floats:
    """Return classical scaling, with the mean D in gaps, and noise for coordinates it lacks."""
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
    """Mark configurations equal to the best up to translation, scale, rotation and reflection."""
    x = np.array([best, *others])
    x -= x.mean(axis=1, keepdims=True)
    x /= np.linalg.norm(x, axis=(1, 2), keepdims=True)
    # Procrustes: the rotation and the size that lay each over the best.
    left, sizes, right = np.linalg.svd(x.swapaxes(1, 2) @ x[0])
    laid = sizes.sum(axis=1)[:, None, None] * (x @ (left @ right))
    off = np.linalg.norm(laid - x[0], axis=2)
    return np.asarray(off.max(axis=1) < SAME)[1:]
