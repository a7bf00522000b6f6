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
        least = int(np.argmin(self.errors))
        limit = self.errors[least] + self.standard_errors[least]
        within = np.array(self.errors) <= limit
        return self.ks[int(np.argmax(within))]

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
    # So many take part, drawn from more.
    if gram.n > FEW_OBJECTS:
        ids = np.sort(rng.permutation(gram.n)[:FEW_OBJECTS])
    sq_d = among(gram, ids)
    n = ids.size
    # With a third held out, real D of high rank get too few coordinates.
    n_held = max(2, round(HELD_OUT * n))
    most = max(1, min(MOST_CHOSEN, n - n_held - 2))
    n_splits = math.ceil(HELD_OUT_PAIRS / math.comb(n_held, 2))
    n_splits = min(max(n_splits, FEWEST_SPLITS), MOST_SPLITS)
    orders = [rng.permutation(n) for _ in range(n_splits)]
    error_functions = [
        _error_function(sq_d, order[:n_held], order[n_held:], most)
        for order in orders
    ]
    variance = float(sq_d[np.triu_indices(n, 1)].var()) or 1.0
    # k → its error in every split.
    errors: dict[int, Floats] = {}

    def scan(ks: Iterable[int]) -> DimensionScan:
        """Try more k; return the errors of all that were tried so far."""
        for k in ks:
            if k not in errors:
                errors[k] = np.array(
                    [error(k) / variance for error in error_functions]
                )
        tried = sorted(errors)
        means = [float(errors[k].mean()) for k in tried]
        standard_errors = [
            float(errors[k].std(ddof=1) / math.sqrt(n_splits)) for k in tried
        ]
        return DimensionScan(
            tuple(tried), tuple(means), tuple(standard_errors), n
        )

    coarse = scan(spaced_ks(most, points=11))
    if coarse.open_ended:
        return coarse
    chosen = coarse.ks.index(coarse.k)
    # From the k tried before the choice to the one after it.
    around = coarse.ks[max(0, chosen - 1) : chosen + 2]
    return scan(range(around[0], around[-1] + 1))


def _error_function(
    sq_d: Floats, held_out: Indices, kept: Indices, most: int
) -> Callable[[int], float]:
    """Fit the objects `kept`; return the function of k that predicts pairs of those `held_out`.

    Its value is the mean of (D̂ − D)². Held-out objects are placed as `transform` places new ones.
    """
    gram = DenseGram(np.ascontiguousarray(sq_d[np.ix_(kept, kept)]))
    sizes: list[Size] = list(spaced_ks(most))
    spectrum = solve_for(gram, sizes, "neuc+", tol=1e-5, random_state=0)
    to_kept = sq_d[np.ix_(held_out, kept)]
    pairs = np.triu_indices(held_out.size, 1)
    truth = sq_d[np.ix_(held_out, held_out)][pairs]

    def error(k: int) -> float:
        selection = neuc_plus(spectrum, k)
        x, weights, _ = selected_coordinates(spectrum, selection)
        form = Form(np.sign(weights))
        placed = LossPlacement(x, form, shrinkage=SHRINKAGE).place(to_kept)
        return float(np.mean((form.sq(placed, placed)[pairs] - truth) ** 2))

    return error


def among(gram: Gram, ids: Indices) -> Floats:
    """D between the objects `ids`, which ascend, as NumPy float64, in one pass over the rows."""
    parts = []
    for rows, block in gram.walk():
        inside = ids[(ids >= rows.start) & (ids < rows.stop)] - rows.start
        if inside.size:
            part = to_numpy(block)[np.ix_(inside, ids)]
            parts.append(part.astype(np.float64))
    return np.concatenate(parts)


def fewest(reaches: Callable[[int], bool], most: int) -> int | None:
    """Find the fewest coordinates that reach a goal; None if not even `most` do.

    From one coordinate on, twice as many at a time, because few take less time than many. `low`
    coordinates do not reach it, and `high` do.
    """
    low = 0
    high = 1
    while not reaches(high):
        if high == most:
            return None
        low = high
        high = min(2 * high, most)
    between = range(low + 1, high)
    return low + 1 + bisect_left(between, True, key=reaches)
