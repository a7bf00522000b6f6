"""Choose the number of coordinates that predicts held-out objects best.

A tenth of the objects is held out at a time and placed among the others; the error of pairs between
two held-out objects, which no step used, is compared (bi-cross-validation).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from neucmds.backend.arrays import Floats, Indices, to_numpy
from neucmds.errors import InputError, option
from neucmds.form import Form
from neucmds.place.rules import SHRINKAGE, LossPlacement
from neucmds.problem.components import MOST_CHOSEN, Size, spaced_ks
from neucmds.refine.descent import FEW_OBJECTS
from neucmds.refine.gaps import HELD_OUT
from neucmds.spectrum.geometry import selected_coordinates
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.spectrum.operators.gram import Gram
from neucmds.spectrum.selection import neuc_plus
from neucmds.spectrum.solve import solve_for

# Pairs held out over all splits together, at least.
HELD_OUT_PAIRS = 200
# Least number of splits.
FEWEST_SPLITS = 8
# Largest number of splits.
MOST_SPLITS = 40
# Fewer objects cannot be split into fitted ones and pairs that are held out.
LEAST_OBJECTS = 6


@dataclass(frozen=True)
class DimensionScan:
    """Error on pairs of held-out objects against the number of coordinates.

    Parameters
    ----------
    ks : tuple of int
    errors : tuple of floats
        Mean over the splits of the mean of (D̂ − D)² among held-out objects, in units of the
        variance of D over all pairs; squared scale.
    standard_errors : tuple of floats
        Standard errors of these means.
    n_objects : int
        Objects that took part: all, or a random sample.
    """

    ks: tuple[int, ...]
    errors: tuple[float, ...]
    standard_errors: tuple[float, ...]
    n_objects: int

    @property
    def best(self) -> int:
        """The number of coordinates with the least error."""
        return self.ks[int(np.argmin(self.errors))]

    @property
    def k(self) -> int:
        """The fewest coordinates within one standard error of the least error."""
        best = int(np.argmin(self.errors))
        limit = self.errors[best] + self.standard_errors[best]
        first = int(np.argmax(np.array(self.errors) <= limit))
        return self.ks[first]

    @property
    def open_ended(self) -> bool:
        """Whether the choice is the largest k that was tried: more might predict better still."""
        return len(self.ks) > 1 and self.k == self.ks[-1]

    @property
    def error(self) -> float:
        """The error with k coordinates; 1 is no better than the mean of the pairs."""
        return self.errors[self.ks.index(self.k)]


def scan_dimensions(gram: Gram, rng: np.random.RandomState) -> DimensionScan:
    """Measure the error on held-out objects for a grid of k, then for every k around the choice.

    `rng` draws a sample of many objects, and the splits.
    """
    if gram.n < LEAST_OBJECTS:
        raise InputError(
            f"{option('n_components', 'auto')} needs {LEAST_OBJECTS} objects, some of which are "
            f"held out, but D has {gram.n}; pass a number."
        )
    ids = np.arange(gram.n)
    if gram.n > FEW_OBJECTS:
        ids = np.sort(rng.permutation(gram.n)[:FEW_OBJECTS])
    sq_d = entries_among(gram, ids)
    n = ids.size
    # With a third held out, real D of high rank get too few coordinates.
    n_held = max(2, round(HELD_OUT * n))
    k_max = max(1, min(MOST_CHOSEN, n - n_held - 2))
    n_splits = math.ceil(HELD_OUT_PAIRS / math.comb(n_held, 2))
    n_splits = min(max(n_splits, FEWEST_SPLITS), MOST_SPLITS)
    orders = [rng.permutation(n) for _ in range(n_splits)]
    error_functions = [
        _error_function(sq_d, order[:n_held], order[n_held:], k_max)
        for order in orders
    ]
    variance = float(sq_d[np.triu_indices(n, 1)].var()) or 1.0
    # k → its error in every split.
    errors: dict[int, Floats] = {}

    def scan(ks: Iterable[int]) -> DimensionScan:
        """Measure `errors` of these k where they lack; return those of all k so far."""
        for k in ks:
            if k not in errors:
                errors[k] = np.array(
                    [error(k) / variance for error in error_functions]
                )
        ks_so_far = sorted(errors)
        means = [float(errors[k].mean()) for k in ks_so_far]
        standard_errors = [
            float(errors[k].std(ddof=1) / math.sqrt(n_splits))
            for k in ks_so_far
        ]
        return DimensionScan(
            tuple(ks_so_far), tuple(means), tuple(standard_errors), n
        )

    grid = scan(spaced_ks(k_max, points=11))
    if grid.open_ended:
        return grid
    choice = grid.ks.index(grid.k)
    # From the k of the grid before the choice to the one after it.
    neighborhood = grid.ks[max(0, choice - 1) : choice + 2]
    return scan(range(neighborhood[0], neighborhood[-1] + 1))


def _error_function(
    sq_d: Floats, held_out: Indices, others: Indices, k_max: int
) -> Callable[[int], float]:
    """Return the function of k, up to `k_max`, that predicts pairs of the objects `held_out`.

    Its value is the mean of (D̂ − D)² over these pairs. The `others` are embedded, and the objects
    held out are placed as `transform` places new ones.
    """
    gram = DenseGram(np.ascontiguousarray(sq_d[np.ix_(others, others)]))
    sizes: list[Size] = list(spaced_ks(k_max))
    spectrum = solve_for(gram, sizes, "neuc+", tol=1e-5, random_state=0)
    to_others = sq_d[np.ix_(held_out, others)]
    pairs = np.triu_indices(held_out.size, 1)
    sq_held_out = sq_d[np.ix_(held_out, held_out)][pairs]

    def error(k: int) -> float:
        selection = neuc_plus(spectrum, k)
        x, weights, _ = selected_coordinates(spectrum, selection)
        form = Form(np.sign(weights))
        placed = LossPlacement(x, form, shrinkage=SHRINKAGE).place(to_others)
        residuals = form.sq(placed, placed)[pairs] - sq_held_out
        return float(np.mean(residuals**2))

    return error


def entries_among(gram: Gram, ids: Indices) -> Floats:
    """Return D among the objects `ids`, which ascend, as NumPy float64, in one pass over rows."""
    parts = []
    for rows, block in gram.walk():
        inside = ids[(ids >= rows.start) & (ids < rows.stop)] - rows.start
        if inside.size:
            part = to_numpy(block)[np.ix_(inside, ids)]
            parts.append(part.astype(np.float64))
    return np.concatenate(parts)


def fewest(reaches: Callable[[int], bool], most: int) -> int | None:
    """Find the fewest coordinates that reach a goal; None if not even `most` do.

    The number doubles until it reaches the goal, because few take less time than many; then the
    gap between the last two is bisected.
    """
    low = 0
    high = 1
    while not reaches(high):
        if high == most:
            return None
        low = high
        high = min(2 * high, most)
    # Not `low`, but `high` reaches it.
    between = range(low + 1, high)
    return low + 1 + bisect_left(between, True, key=reaches)
