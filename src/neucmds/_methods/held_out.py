"""Estimate the fit over all pairs from pairs that were not fitted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import sqrt

import numpy as np
import numpy.typing as npt

from neucmds._backend.arrays import row_blocks, to_numpy
from neucmds._input import Pairs
from neucmds._methods.refined.curvature import curved
from neucmds._methods.refined.losses import PairLoss
from neucmds._methods.solution import Solution, errors_of_pairs
from neucmds._operator import Check

Floats = npt.NDArray[np.float64]


def held_out(solution: Solution, pairs: Pairs, checks: Iterable[Check]) -> Solution:
    """Return a solution with STRESS, R² and loss of all pairs, with standard errors.

    All pairs that were not fitted are estimated from `checks`, objects drawn at random with others
    each. Pairs of one object are alike, so standard errors are those of a mean over objects.
    """
    n, mean = pairs.n, float(np.mean(pairs.sq_dissimilarity))
    x, signs = to_numpy(solution.coordinates), np.sign(solution.weights)
    loss, values = solution.loss or PairLoss("squared", 0.0), np.zeros(4 + signs.size)
    for some in row_blocks(pairs.size, 4 * signs.size):
        sq = (x[pairs.i[some]] - x[pairs.j[some]]) ** 2
        values += _sums(sq, signs, loss, pairs.sq_dissimilarity[some], mean)
    keys, rows, count = pairs.i.astype(np.int64) * n + pairs.j, [], []
    for one, others, length in checks:
        new = np.minimum(one, others) * n + np.maximum(one, others)
        place = np.minimum(np.searchsorted(keys, new), keys.size - 1)
        unseen = keys[place] != new
        j, d = others[unseen], length[unseen] ** 2
        rows.append(_sums((x[one] - x[j]) ** 2, signs, loss, d, mean))
        count.append(j.size)
    made, left = np.array(rows), n * (n - 1) - 2 * pairs.size
    means = made.sum(axis=0) / max(1, sum(count))
    total = 2 * values + left * means
    stress, loss, shift, squares = total[:4].tolist()
    shift /= n * (n - 1)
    spread = squares - n * (n - 1) * shift**2
    # Of the mean of each sum over the pairs of all objects drawn; R² = 1 − STRESS / Σ(D − mean)².
    off = made - np.multiply.outer(count, means)
    off[:, 3] -= 2 * shift * off[:, 2]
    scale = left / max(1, sum(count)) * sqrt(len(count) / max(1, len(count) - 1))
    of_r2 = (off[:, 0] - stress / spread * off[:, 3]) / spread if spread else off[:, 0] * np.nan
    return replace(
        solution,
        stress_terms=(stress, 0.0, 0.0),
        stress_rises=total[4:],
        loss_value=loss,
        sq_norm=spread + n * (n - 1) * (mean + shift) ** 2,
        total_sum_of_squares=spread,
        trace=0.5 * (n - 1) * (mean + shift),
        stress_standard_error=scale * float(np.linalg.norm(off[:, 0])),
        r2_standard_error=scale * float(np.linalg.norm(of_r2)),
        held_out_pairs=sum(count),
    )


def _sums(sq: Floats, signs: Floats, loss: PairLoss, d: Floats, mean: float) -> Floats:
    """Σ(D̂ − D)², the loss, Σ(D − mean), Σ(D − mean)² and rises of the first, of some pairs.

    `sq` has the squared difference of every coordinate, one row for each pair.
    """
    squares, rises = errors_of_pairs(sq, signs, d, loss.curvature)
    off, cost = d - mean, loss.value(curved(d, loss.curvature), sq @ signs)
    return np.array([squares.sum(), cost, off.sum(), off @ off, *rises.sum(axis=0)])
