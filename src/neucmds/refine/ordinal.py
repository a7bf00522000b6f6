"""Non-metric scaling: distances d̂ in the order of the dissimilarities d.

Kruskal's stress-1 compares d̂ with disparities δ, numbers that rise with d and are free otherwise:

    stress-1² = Σ u (d̂ − δ)² / Σ u d̂²          u the weights of the pairs

At given coordinates the best δ are the isotonic regression of d̂ in the order of d. So δ is no
unknown, and, being at its minimum, adds nothing to the gradient (variable projection):

    ∂ stress-1² / ∂ d̂ = 2u (d̂ − δ − stress-1² d̂) / Σ u d̂²

Pairs of equal d are in the order of their d̂ (primary ties), or have one δ (secondary ties).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from math import inf, sqrt
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import eigh, orthogonal_procrustes
from scipy.optimize import OptimizeResult, isotonic_regression, minimize
from scipy.spatial.distance import pdist, squareform
from sklearn.utils import check_random_state

from neucmds.backend.arrays import EPS, Array, Floats, Indices, to_numpy
from neucmds.backend.progress import Callback
from neucmds.form import Form
from neucmds.problem.pairs import Pairs
from neucmds.refine.descent import FEW_OBJECTS, MAX_ITER, Configuration
from neucmds.refine.losses import LOSSES, PairLoss, check_defined

# δ of the d̂ of all pairs.
Regression = Callable[[Floats], Floats]

# Those of single pairs, and this one.
ALL_LOSSES = (*LOSSES, "ordinal")
TIES = ("primary", "secondary")
# Most starts of up to FEW_OBJECTS objects, and of more.
STARTS = 32
FEWER_STARTS = 4
# How often the best is found before starts end.
ENOUGH = 6
# Noise about the best, relative to its spread.
NOISE = 0.8
# A descent ends when an iteration lowers stress-1² by less than this.
TOL = 1e-9
# Two configurations, each of unit length, are the same if no object is farther off when they are
# laid over each other; vegan's metaMDS has the same limit.
SAME = 0.01
# Steps that L-BFGS remembers.
MEMORY = 20
# Length of a coordinate that classical scaling lacks, relative to the others.
LACKING = 0.1


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
    position : ndarray of shape (m,), optional
        Of the pairs of a matrix: where each is in the condensed matrix of all pairs.
    incidence : sparse array of shape (m, n), optional
        Of listed pairs: a row has 1 at one object of its pair and −1 at the other.
    """

    n: int
    dissimilarity: Floats
    weight: Floats
    ties: str
    position: Indices | None = None
    incidence: Any = None

    @classmethod
    def of(
        cls, sq_dissimilarity: Array, weights: Array | None, ties: str
    ) -> RankedPairs:
        """Rank the pairs of a matrix of squared dissimilarities."""
        check_defined(sq_dissimilarity, weights, "ordinal")
        n = sq_dissimilarity.shape[0]
        upper = np.triu_indices(n, 1)
        sq = to_numpy(sq_dissimilarity)[upper].astype(np.float64)
        position = np.argsort(sq, kind="stable")
        weight = np.ones(sq.size)
        if weights is not None:
            weight = to_numpy(weights)[upper].astype(np.float64)
            position = position[weight[position] > 0]
        d = np.sqrt(sq[position])
        return cls(n, d, weight[position], ties, position)

    @classmethod
    def listed(cls, pairs: Pairs, ties: str) -> RankedPairs:
        """Rank listed pairs."""
        check_defined(pairs.sq_dissimilarity, None, "ordinal")
        order = np.argsort(pairs.sq_dissimilarity, kind="stable")
        objects = np.stack([pairs.i[order], pairs.j[order]], axis=1)
        m = pairs.size
        incidence = sparse.csr_array(
            (np.tile([1.0, -1.0], m), objects.ravel(), np.arange(m + 1) * 2),
            shape=(m, pairs.n),
        )
        d = np.sqrt(pairs.sq_dissimilarity[order])
        weight = pairs.weights[order]
        return cls(pairs.n, d, weight, ties, incidence=incidence)

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

    def means(self, values: Floats) -> Floats:
        """Return the weighted mean over the pairs of each d."""
        sums = np.add.reduceat(self.weight * values, self.first)
        return sums / self.weight_of_value

    @cached_property
    def weight_of_value(self) -> Floats:
        """The weight of the pairs of each value of d together."""
        return np.add.reduceat(self.weight, self.first)

    def disparities(self, d_hat: Floats) -> Floats:
        """Return δ of every pair: the isotonic regression of d̂ in the order of d."""
        if not self.tied.size:
            return rising(d_hat, self.weight)
        if self.ties == "secondary":
            steps = rising(self.means(d_hat), self.weight_of_value)
            return np.repeat(steps, self.count)
        order = np.arange(d_hat.size)
        keys = (d_hat[self.tied], self.dissimilarity[self.tied])
        order[self.tied] = self.tied[np.lexsort(keys)]
        disparity = np.empty_like(d_hat)
        disparity[order] = rising(d_hat[order], self.weight[order])
        return disparity

    def proportional(self, d_hat: Floats) -> Floats:
        """Return the multiple of d that is nearest to d̂: disparities of metric scaling."""
        d = self.dissimilarity
        weighted = self.weight * d
        return d * ((weighted @ d_hat) / (weighted @ d))

    def total(self, values: Floats) -> float:
        """Return the weighted sum of squares over all pairs."""
        return float((self.weight * values) @ values)

    def distances(self, x: Floats) -> Floats:
        """Return d̂ of every pair."""
        if self.incidence is None:
            return np.asarray(pdist(x)[self.position])
        difference = self.incidence @ x
        squares = np.einsum("ij,ij->i", difference, difference)
        return np.asarray(np.sqrt(squares))

    def pulled(self, pull: Floats, x: Floats) -> Floats:
        """Return Σ_j pull_ij (x_i − x_j) of every object i."""
        if self.incidence is not None:
            difference = self.incidence @ x
            difference *= pull[:, None]
            return np.asarray(self.incidence.T @ difference)
        condensed = np.zeros(self.n * (self.n - 1) // 2)
        condensed[self.position] = pull
        pulls = squareform(condensed, checks=False)
        return np.asarray(pulls.sum(axis=1)[:, None] * x - pulls @ x)

    def stress(
        self, x: Floats, regression: Regression
    ) -> tuple[float, Floats]:
        """Return stress-1² and its gradient at coordinates x (n, k)."""
        d_hat = self.distances(x)
        error = d_hat - regression(d_hat)
        weighted = self.weight * d_hat
        weighted_error = self.weight * error
        total = float(weighted @ d_hat)
        value = float(weighted_error @ error) / total
        slope = (2 / total) * (weighted_error - value * weighted)
        # Objects in one place have no direction to part in.
        pull = np.divide(
            slope, d_hat, out=np.zeros_like(slope), where=d_hat > 0
        )
        return value, self.pulled(pull, x)


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
    descent = partial(_descend, pairs, max_iter=max_iter, tol=tol)
    rng = check_random_state(random_state)
    x, n_starts, times_found = _search(pairs, descent, first, n_init, rng)
    sum_of_squares = 2 * pairs.total(pairs.dissimilarity)
    history: list[float] = []

    def record(intermediate_result: OptimizeResult) -> None:
        history.append(float(intermediate_result.fun) * sum_of_squares)
        if callback is not None:
            callback(len(history), max_iter, history[-1])

    # Once more, for the history, and with new directions.
    last = descent(x, pairs.disparities, callback=record)
    x = last.x.reshape(first.shape)
    d_hat = pairs.distances(x)
    scale = sqrt(pairs.total(pairs.dissimilarity) / pairs.total(d_hat))
    value = float(last.fun) * sum_of_squares
    end = Configuration(
        scale * (x - x.mean(axis=0)),
        Form(np.ones(first.shape[1])),
        PairLoss("ordinal"),
        value=value,
        history=(*history, value),
        converged=bool(last.success),
    )
    dissimilarity = pairs.dissimilarity[pairs.first]
    disparity = scale * pairs.means(pairs.disparities(d_hat))
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
    descent: Callable[..., OptimizeResult],
    first: Floats,
    n_init: int,
    rng: np.random.RandomState,
) -> tuple[Floats, int, int]:
    """Return the best end of several descents, their number, and how often it was found."""
    # Where descents ended, and what each was drawn about; None: nothing.
    trials: list[tuple[Floats, Floats | None]] = []
    best = first
    lowest = inf
    times_found = 0
    while len(trials) < n_init and times_found < ENOUGH:
        number = len(trials)
        origin = None
        start = first
        if number == 1:
            metric = descent(first, pairs.proportional)
            start = metric.x.reshape(first.shape)
        elif number > 1:
            start = rng.normal(size=first.shape)
            if number % 2:
                origin = best
                start = origin + NOISE * origin.std() * start
        end = descent(start, pairs.disparities)
        trial = (end.x.reshape(first.shape), origin)
        trials.append(trial)
        if end.fun < lowest:
            lowest = float(end.fun)
            best = trial[0]
            times_found = sum(_finds(best, *trial) for trial in trials)
        else:
            times_found += _finds(best, *trial)
    return best, len(trials), times_found


def _finds(best: Floats, end: Floats, origin: Floats | None) -> bool:
    """Tell whether a descent ended at the best; from about the best, that is no evidence."""
    if not _is_same(best, end):
        return False
    return origin is None or not _is_same(best, origin)


def rising(values: Floats, weight: Floats) -> Floats:
    """Return the rising numbers nearest to the values: their isotonic regression."""
    return np.asarray(isotonic_regression(values, weights=weight).x)


def _descend(
    pairs: RankedPairs,
    start: Floats,
    regression: Regression,
    *,
    max_iter: int,
    tol: float,
    callback: Callable[[OptimizeResult], None] | None = None,
) -> OptimizeResult:
    """Lower stress-1² by L-BFGS, from coordinates that are brought to unit variance."""

    def stress(flat: Floats) -> tuple[float, Floats]:
        value, gradient = pairs.stress(flat.reshape(start.shape), regression)
        return value, gradient.ravel()

    end: OptimizeResult = minimize(  # type: ignore[call-overload]
        stress,
        start.ravel() / (start.std() or 1.0),
        jac=True,
        method="L-BFGS-B",
        callback=callback,
        options={
            "maxiter": max_iter,
            "maxfun": 2 * max_iter + 20,
            "maxcor": MEMORY,
            "ftol": tol,
            "gtol": 0.0,
        },
    )
    return end


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
        LACKING * (x.std() or 1.0) * rng.normal(size=(n, lacking.sum()))
    )
    return x


def _is_same(x: Floats, y: Floats) -> bool:
    """Tell whether two configurations are one, but for place, size, rotation and reflection."""
    x = x - x.mean(axis=0)
    y = y - y.mean(axis=0)
    x /= np.linalg.norm(x)
    y /= np.linalg.norm(y)
    rotation, size = orthogonal_procrustes(y, x)
    off = np.linalg.norm(size * (y @ rotation) - x, axis=1)
    return bool(off.max() < SAME)
