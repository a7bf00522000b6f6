"""Which eigenpairs are kept, and with which weights: pure functions on the ends of a spectrum."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from neucmds._input.components import Components
from neucmds._spectrum.spectrum import Ends
from neucmds.errors import InputError, option

Floats = npt.NDArray[np.float64]
Rule = Callable[[Ends], "Selection"]


@dataclass(frozen=True)
class Selection:
    """Kept eigenpairs W and the symmetric core M of G = U_W M U_Wᵀ.

    Parameters
    ----------
    kept : ndarray of int
        Indices into the spectrum's values.
    core : ndarray of shape (k,) or (k, k)
        M; one-dimensional when it is diagonal, which it is for all of the paper's methods.
    """

    kept: npt.NDArray[np.intp]
    core: Floats

    @property
    def k(self) -> int:
        """Number of kept pairs."""
        return int(self.kept.size)


def shrink(kept: Floats, dropped_sum: float) -> Floats:
    """Spread what was dropped evenly over what is kept. Paper: thm:general_lower_error."""
    return kept + dropped_sum / (1 + kept.size)


def split_bounds(
    ends: Ends, k: int, second_term_divisor: float
) -> tuple[npt.NDArray[np.intp], Floats]:
    """Evaluate (C1 + C2/divisor)/4 at every split of k into r largest and k − r smallest.

    One of these splits is optimal among *all* subsets of size k, so k + 1 values replace the
    paper's greedy search (docs/facts.md, 3).

    Returns
    -------
    from_top : ndarray of int
        The numbers r of reachable splits, in ascending order.
    bounds : ndarray
        The bound at each of them.

    Paper: eqn:optimization, eq:opt_problem2_main, thm:selection, prop:second_algo.
    """
    lam = ends.values
    from_top = np.arange(max(0, k - ends.n_bottom), min(k, ends.n_top) + 1)
    # What every split drops is taken from the totals once, and what only some drop is added up:
    # next to a pair of size 5e9, differences of running totals do not see pairs of size 1.
    unknown = ends.trace - float(lam.sum())
    unknown_sq = max(0.0, ends.frobenius_sq - float(lam @ lam))
    if ends.unknown_sq is not None:
        unknown_sq = ends.unknown_sq
    dropped, dropped_sq = (_window_sums(part, lam.size - k)[from_top] for part in (lam, lam**2))
    return from_top, unknown_sq + dropped_sq + (unknown + dropped) ** 2 / second_term_divisor


def _window_sums(values: Floats, width: int) -> Floats:
    """Return the sum of every `width` consecutive values."""
    return np.asarray(sliding_window_view(np.r_[values, 0.0], width + 1)[:, :width].sum(axis=1))


def classical(ends: Ends, components: Components) -> Selection:
    """Keep the k largest positive eigenvalues: classical MDS, PCoA. Paper: sec:main_results."""
    return _with_weights(ends, _largest_positive(ends, components, "classical"))


def lower(ends: Ends, components: Components) -> Selection:
    """Keep the k largest positive eigenvalues, shrunk towards trace zero and clipped at zero.

    Neuc-MDS⁺ restricted to positive eigenvalues (docs/facts.md, 5); may keep fewer than k.
    """
    return _shrunk(ends, _largest_positive(ends, components, "lower"))


def neuc(ends: Ends, components: Components) -> Selection:
    """Keep the k eigenvalues that minimise C1 + C2. Paper: alg:ev-selection, thm:selection."""
    return _with_weights(ends, _kept_pairs(ends, components, second_term_divisor=1.0))


def neuc_plus(ends: Ends, components: Components) -> Selection:
    """Keep and shift the k eigenvalues that minimise C̃1 + C̃2.

    Paper: alg:ev-selection-plus with T₋ the most negative (errata E2), thm:general_lower_error.
    """
    kept = _kept_pairs(ends, components, second_term_divisor=1.0 + components.total)
    return _shrunk(ends, kept)


def union(ends: Ends, components: Components) -> Selection:
    """Keep every pair that `neuc` or `neuc+` keeps: what the true-STRESS methods start from."""
    kept = np.union1d(neuc(ends, components).kept, neuc_plus(ends, components).kept)
    return _with_weights(ends, kept)


def _kept_pairs(
    ends: Ends, components: Components, second_term_divisor: float
) -> npt.NDArray[np.intp]:
    if components.signature is not None:
        positive, negative = components.signature
        top = min(positive, int(np.sum(ends.values[: ends.n_top] > ends.null_level)))
        tail = ends.values[ends.size - ends.n_bottom :]
        bottom = min(negative, int(np.sum(tail < -ends.null_level)))
        return _from_both_ends(ends, top, bottom)
    k = min(components.total, ends.size)
    from_top, bounds = split_bounds(ends, k, second_term_divisor)
    # Among splits that rounding cannot tell apart, the one with most positive pairs: a Euclidean D
    # of rank below k then keeps no spurious negative.
    r = int(from_top[np.flatnonzero(bounds <= bounds.min() + _rounding(ends, bounds.min()))[-1]])
    return _not_null(ends, _from_both_ends(ends, r, k - r))


def _rounding(ends: Ends, bound: float) -> float:
    """How far apart two bounds near this one may be by rounding alone."""
    of_totals = 8 * np.finfo(np.float64).eps * (ends.frobenius_sq + ends.trace**2)
    # Every eigenvalue is known to the null level; a single huge one adds no more than that.
    of_values = ends.null_level * (4 * math.sqrt(bound) + 4 * ends.size * ends.null_level)
    return min(of_totals, of_values)


def _from_both_ends(ends: Ends, top: int, bottom: int) -> npt.NDArray[np.intp]:
    return np.concatenate([np.arange(top), np.arange(ends.size - bottom, ends.size)]).astype(
        np.intp
    )


def _not_null(ends: Ends, kept: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    # A kept zero changes nothing (proof of thm:selection), and its vector is arbitrary.
    return kept[np.abs(ends.values[kept]) > ends.null_level]


def _largest_positive(ends: Ends, components: Components, method: str) -> npt.NDArray[np.intp]:
    if components.signature is not None and components.signature[1] > 0:
        raise InputError(
            f"{option('method', method)} keeps positive eigenvalues only, so "
            f"{option('n_components', components.signature)} cannot be met; use 'neuc', 'neuc+' "
            "or 'exact'."
        )
    positive = int(np.sum(ends.values[: ends.n_top] > ends.null_level))
    return np.arange(min(components.total, positive), dtype=np.intp)


def _with_weights(ends: Ends, kept: npt.NDArray[np.intp]) -> Selection:
    return Selection(kept, ends.values[kept].copy())


def _shrunk(ends: Ends, kept: npt.NDArray[np.intp]) -> Selection:
    """Shift the kept eigenvalues, giving up the smallest while the shift would flip its sign."""
    lam = ends.values
    by_size = kept[np.argsort(-np.abs(lam[kept]), kind="stable")]
    while by_size.size:
        dropped_sum = _dropped_sum(ends, by_size)
        weights = shrink(lam[by_size], dropped_sum)
        flipped = np.flatnonzero(weights * lam[by_size] <= 0)
        if flipped.size == 0:
            break
        by_size = np.delete(by_size, flipped[-1])
    still_kept = np.sort(by_size)
    return Selection(still_kept, shrink(lam[still_kept], _dropped_sum(ends, still_kept)))


METHODS: dict[str, Callable[[Ends, Components], Selection]] = {
    "classical": classical,
    "lower": lower,
    "neuc": neuc,
    "neuc+": neuc_plus,
}


def _dropped_sum(ends: Ends, kept: npt.NDArray[np.intp]) -> float:
    return ends.trace - float(ends.values[kept].sum())
