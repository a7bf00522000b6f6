"""The closed forms of the paper: each selects eigenvalues from a spectrum, and weights for them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from neucmds.backend.arrays import EPS, Floats, Indices
from neucmds.errors import InputError, option
from neucmds.problem.components import Size, total_of
from neucmds.spectrum.spectrum import Spectrum


@dataclass(frozen=True)
class Selection:
    """Indices W of kept eigenvalues, and the symmetric core M of G = U_W M U_Wᵀ.

    `core` is the matrix M, or its diagonal if M is diagonal, as in all methods of the paper.
    """

    kept: Indices
    core: Floats


def shrink(kept: Floats, dropped_sum: float) -> Floats:
    """Spread the dropped sum evenly over the kept values. Paper: thm:general_lower_error."""
    return kept + dropped_sum / (1 + kept.size)


def split_bounds(
    ends: Spectrum, k: int, second_term_divisor: float
) -> tuple[Indices, Floats]:
    """Return the bound (C1 + C2/divisor)/4 of every split of k into r largest and k − r smallest.

    One of these splits is optimal among *all* subsets of size k, so k + 1 values replace the
    paper's greedy search (docs/maths.md). Returned are r, ascending, of the splits for which the
    ends have enough eigenvalues, and the bound at each.

    Paper: eqn:optimization, eq:opt_problem2_main, thm:selection, prop:second_algo.
    """
    lam = ends.values
    from_top = np.arange(max(0, k - ends.n_bottom), min(k, ends.n_top) + 1)
    # Dropped values are added up: beside a pair of size 5e9 a difference of totals has no digits.
    unknown = ends.trace - float(lam.sum())
    unknown_sq = max(0.0, ends.frobenius_sq - float(lam @ lam))
    if ends.unknown_sq is not None:
        unknown_sq = ends.unknown_sq
    # Row r holds the values dropped when r are kept from the top and k − r from the bottom. Windows
    # must not be empty: they are one value longer, with a zero appended, and are cut after that.
    windows = sliding_window_view(np.r_[lam, 0.0], lam.size - k + 1)
    windows = windows[from_top, :-1]
    dropped = windows.sum(axis=1)
    dropped_sq = (windows**2).sum(axis=1)
    second_term = (unknown + dropped) ** 2 / second_term_divisor
    return from_top, unknown_sq + dropped_sq + second_term


def classical(ends: Spectrum, components: Size) -> Selection:
    """Keep the k largest positive eigenvalues: classical MDS, PCoA. Paper: sec:main_results."""
    kept = _largest_positive(ends, components, "classical")
    return Selection(kept, ends.values[kept])


def lower(ends: Spectrum, components: Size) -> Selection:
    """Keep the k largest positive eigenvalues, shrunk towards trace zero and clipped at zero.

    Neuc-MDS⁺ for positive eigenvalues alone (docs/maths.md); it may keep fewer than k.
    """
    return _shrunk(ends, _largest_positive(ends, components, "lower"))


def neuc(ends: Spectrum, components: Size) -> Selection:
    """Keep the k eigenvalues that minimise C1 + C2. Paper: alg:ev-selection, thm:selection."""
    kept = _kept_pairs(ends, components, second_term_divisor=1.0)
    return Selection(kept, ends.values[kept])


def neuc_plus(ends: Spectrum, components: Size) -> Selection:
    """Keep and shift the k eigenvalues that minimise C̃1 + C̃2.

    Paper: alg:ev-selection-plus with T₋ the most negative (errata E2), thm:general_lower_error.
    """
    kept = _kept_pairs(
        ends, components, second_term_divisor=1.0 + total_of(components)
    )
    return _shrunk(ends, kept)


def union(ends: Spectrum, components: Size) -> Selection:
    """Keep every pair that `neuc` or `neuc+` keeps, as the true-STRESS methods need."""
    kept = np.union1d(
        neuc(ends, components).kept, neuc_plus(ends, components).kept
    )
    return Selection(kept, ends.values[kept])


def _kept_pairs(
    ends: Spectrum, components: Size, second_term_divisor: float
) -> Indices:
    """Return the pairs of a signature, or for a number k of the split with the least bound."""
    lam = ends.values
    size = lam.size
    if isinstance(components, tuple):
        positive, negative = components
        top = min(positive, int(np.sum(lam[: ends.n_top] > ends.null_level)))
        tail = lam[size - ends.n_bottom :]
        bottom = min(negative, int(np.sum(tail < -ends.null_level)))
    else:
        k = min(components, size)
        from_top, bounds = split_bounds(ends, k, second_term_divisor)
        least = float(bounds.min())
        # The rounding of a bound, by the sums in it and by eigenvalues known to the null level: the
        # smaller of both.
        null = ends.null_level
        of_sums = 8 * EPS * (ends.frobenius_sq + ends.trace**2)
        of_values = null * (4 * math.sqrt(least) + 4 * size * null)
        # Of splits equal up to rounding, the one with most positive pairs: so a Euclidean D of rank
        # below k has no negative coordinate.
        is_least = bounds <= least + min(of_sums, of_values)
        top = int(from_top[is_least][-1])
        bottom = k - top
    ids = np.arange(size)
    kept = ids[(ids < top) | (ids >= size - bottom)]
    # A kept zero changes nothing (proof of thm:selection), and its vector is arbitrary.
    return kept[np.abs(lam[kept]) > ends.null_level]


def _largest_positive(
    ends: Spectrum, components: Size, method: str
) -> Indices:
    """Return the k largest eigenvalues, fewer if fewer are positive; refuse negative ones."""
    if isinstance(components, tuple) and components[1] > 0:
        raise InputError(
            f"{option('method', method)} keeps positive eigenvalues only; for "
            f"{option('n_components', components)} use 'neuc', 'neuc+' or 'exact'."
        )
    positive = int(np.sum(ends.values[: ends.n_top] > ends.null_level))
    return np.arange(min(total_of(components), positive), dtype=np.intp)


def _shrunk(ends: Spectrum, kept: Indices) -> Selection:
    """Shrink the kept eigenvalues; while any would change sign, drop the smallest of these."""
    while True:
        lam = ends.values[kept]
        weights = shrink(lam, ends.trace - float(lam.sum()))
        # Of two equally small ones the later is dropped.
        flipped = np.flatnonzero(weights * lam <= 0)[::-1]
        if flipped.size == 0:
            return Selection(kept, weights)
        smallest = flipped[np.argmin(np.abs(lam[flipped]))]
        kept = np.delete(kept, smallest)


METHODS: dict[str, Callable[[Spectrum, Size], Selection]] = {
    "classical": classical,
    "lower": lower,
    "neuc": neuc,
    "neuc+": neuc_plus,
}
