"""Choose the number of coordinates that predicts held-out objects best.

A tenth of the objects is held out at a time and placed among the others; the error of pairs between
two held-out objects, which no step used, is compared (bi-cross-validation).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import to_numpy
from neucmds.errors import InputError, option
from neucmds.form import Form
from neucmds.place.rules import SHRINKAGE, LossPlacement
from neucmds.problem.components import MOST_CHOSEN, Components, spaced_ks
from neucmds.spectrum.geometry import selected_coordinates
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.spectrum.operators.gram import Gram
from neucmds.spectrum.selection import neuc_plus
from neucmds.spectrum.solve import solve_for
from neucmds.spectrum.spectrum import Spectrum

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]

# Share of objects held out at a time, and pairs held out in all. With a third of the objects, real
# sets of high rank get too few coordinates.
HELD_OUT = 1 / 10
HELD_OUT_PAIRS = 200
FEWEST_SPLITS, MOST_SPLITS = 8, 40
# Objects in the sample.
MOST_OBJECTS = 600
# Fewer cannot be split into some that are fitted and pairs that are held out.
LEAST_OBJECTS = 6
# Every number of coordinates up to this, then evenly on a log scale.
EVERY_UP_TO = 20


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
        Of these means.
    n_objects : int
        Objects that took part; a random sample if fewer than there are.
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
        at = int(np.argmin(self.errors))
        limit = self.errors[at] + self.standard_errors[at]
        return next(k for k, error in zip(self.ks, self.errors, strict=True) if error <= limit)

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

    ``solve(gram, k)`` returns the pairs that "neuc+" selects from for up to k coordinates; `rng`
    draws a sample of many objects, and the splits.
    """
    if gram.n < LEAST_OBJECTS:
        raise InputError(
            f"{option('n_components', 'auto')} needs {LEAST_OBJECTS} objects, some of which are "
            f"held out, but D has {gram.n}; pass a number."
        )
    ids = np.arange(gram.n)
    if gram.n > MOST_OBJECTS:
        ids = np.sort(rng.permutation(gram.n)[:MOST_OBJECTS])
    d, n = among(gram, ids), ids.size
    held = max(2, round(HELD_OUT * n))
    wanted = math.ceil(2 * HELD_OUT_PAIRS / (held * (held - 1)))
    n_splits = min(max(wanted, FEWEST_SPLITS), MOST_SPLITS)
    most = max(1, min(MOST_CHOSEN, n - held - 2))
    variance = float(d[np.triu_indices(n, 1)].var())
    orders = [rng.permutation(n) for _ in range(n_splits)]
    splits = [_Split.of(d, order[:held], order[held:], most) for order in orders]

    done: dict[int, list[float]] = {}

    def scanned(ks: Iterable[int]) -> DimensionScan:
        for k in ks:
            if k not in done:
                done[k] = [split.error(k) / variance if variance else 0.0 for split in splits]
        tried = sorted(done)
        table = np.array([done[k] for k in tried])
        means, spread = table.mean(axis=1), table.std(axis=1, ddof=1) / np.sqrt(n_splits)
        return DimensionScan(tuple(tried), tuple(means.tolist()), tuple(spread.tolist()), n)

    far = np.rint(np.geomspace(EVERY_UP_TO, max(most, EVERY_UP_TO), 12)).astype(int)
    coarse = scanned(k for k in (*range(1, EVERY_UP_TO), *far.tolist()) if k <= most)
    if coarse.open_ended:
        return coarse
    at = coarse.ks.index(coarse.k)
    around = coarse.ks[max(0, at - 1) : at + 2]
    return scanned(range(around[0], around[-1] + 1))


def among(gram: Gram, ids: npt.NDArray[np.intp]) -> Floats:
    """D between some objects in ascending order, as NumPy float64, in one pass over the rows."""
    parts = []
    for rows, part in gram.walk():
        mine = ids[(ids >= rows.start) & (ids < rows.stop)] - rows.start
        if mine.size:
            parts.append(to_numpy(part)[np.ix_(mine, ids)].astype(np.float64))
    return np.concatenate(parts)


def fewest(reaches: Callable[[int], bool], start: int, most: int) -> int | None:
    """Find the fewest coordinates that reach a goal, from a guess; None if not even `most` do."""
    low, high = 0, max(1, min(start, most))
    while not reaches(high):
        if high == most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high


@dataclass(frozen=True)
class _Split:
    """Some objects fitted, with their spectrum, and the others held out."""

    gram: DenseGram
    spectrum: Spectrum
    measured: Floats
    truth: Floats

    @classmethod
    def of(cls, d: Floats, held: Ids, kept: Ids, most: int) -> _Split:
        gram = DenseGram(np.ascontiguousarray(d[np.ix_(kept, kept)]))
        truth = d[np.ix_(held, held)][np.triu_indices(held.size, 1)]
        sizes = [Components(size) for size in spaced_ks(most)]
        spectrum = solve_for(gram, sizes, "neuc+", tol=1e-5, random_state=0)
        return cls(gram, spectrum, d[np.ix_(held, kept)], truth)

    def error(self, k: int) -> float:
        """Mean squared error of the pairs held out, placed as `transform` places new objects."""
        selection = neuc_plus(self.spectrum, Components(k))
        x, weights, _ = selected_coordinates(self.spectrum, selection)
        form = Form(np.sign(weights))
        rule = LossPlacement(x, form, shrinkage=SHRINKAGE)
        placed = rule.place(self.measured)
        above = np.triu_indices(self.measured.shape[0], 1)
        left = form.sq(placed, placed)[above] - self.truth
        return float(left @ left) / self.truth.size
