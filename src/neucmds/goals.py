"""Choose the number of coordinates for a share of R², or for held-out objects."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from neucmds.errors import InputError, NeucmdsWarning, option
from neucmds.fitting import Fit, fit
from neucmds.options import Options, notify
from neucmds.place.dimension import DimensionScan, fewest, scan_dimensions
from neucmds.prepared import refuse_weights
from neucmds.problem.components import AUTO, Components, spaced_ks
from neucmds.problem.dense import Dense
from neucmds.spectrum.geometry import stress_terms
from neucmds.spectrum.operators.gram import Gram
from neucmds.spectrum.selection import METHODS
from neucmds.spectrum.solve import solve_for

# Of more than 5000 objects no more than this many coordinates are tried to reach a share of R²: all
# of the spectrum would take hours.
MOST_FOR_SHARE = 1000
ALL_TRIED_UP_TO = 5000


def fit_chosen(prepared: Dense, options: Options) -> Fit:
    """Choose the number of coordinates by the goal in `options`, and embed with it."""
    gram, method = prepared.gram, options.method
    goal = Components.parse(options.n_components, gram.n).goal
    assert goal is not None
    if goal == AUTO:
        refuse_weights(prepared, option("n_components", AUTO), "pass a number")
        notify(options.callback, "predicting objects held out, to choose k")
        scan = held_out_scan(gram, options.random_state)
        if scan.error >= 1:
            warnings.warn(
                "no number of coordinates predicts pairs of objects held out better than their "
                f"mean does (R² {1 - scan.error:.2g} with {scan.k}); compare the STRESS of "
                "several.",
                NeucmdsWarning,
                stacklevel=4,
            )
        return fit(prepared, replace(options, n_components=scan.k))
    share = float(goal)
    if not gram.moments.total_sum_of_squares:
        raise InputError(
            f"{option('n_components', share)} is a share of R², which has no meaning here: all "
            "dissimilarities are equal; pass a number."
        )
    notify(options.callback, f"looking for the fewest coordinates with an R² of {share:g}")
    complete = prepared.weights is None
    closed = method if method in METHODS else "neuc+"
    start, best = _fewest_closed(gram, closed, share) if complete else (None, -np.inf)
    if method in METHODS:
        found_k = _reached(start, share, method, best)
        return fit(prepared, replace(options, n_components=found_k))
    found: dict[int, Fit] = {}
    warned: dict[int, list[warnings.WarningMessage]] = {}

    def reaches(k: int) -> bool:
        # What is wrong with a number that is not returned is nothing to warn of.
        with warnings.catch_warnings(record=True) as warned[k]:
            warnings.simplefilter("always")
            found[k] = fit(prepared, replace(options, n_components=k))
        return bool(found[k].embedding.r2 >= share)

    k = fewest(reaches, start or 8, _most_for_share(gram.n))
    best = max((one.embedding.r2 for one in found.values()), default=best)
    chosen = _reached(k, share, method, best)
    for one in warned[chosen]:
        warnings.warn(one.message, one.category, stacklevel=4)
    return found[chosen]


def _reached(k: int | None, share: float, method: str, best: float) -> int:
    if k is None:
        raise InputError(
            f"{option('n_components', share)} asks for an R² of {share:g}, but "
            f"{option('method', method)} reaches {best:.4g} at most; ask for less, or pass a "
            "number of coordinates."
        )
    return k


def _most_for_share(n: int) -> int:
    return n - 1 if n <= ALL_TRIED_UP_TO else MOST_FOR_SHARE


def _fewest_closed(gram: Gram, method: str, share: float) -> tuple[int | None, float]:
    """Return the fewest coordinates of a closed form that reach an R², and the largest R² seen.

    Every k is tried from one on, as R² need not grow with k: classical MDS gets worse in the end.
    """
    total, most = gram.moments.total_sum_of_squares, _most_for_share(gram.n)
    known, tried, best = min(16, most), 0, -np.inf
    while True:
        sizes = [Components(k) for k in spaced_ks(known)]
        spectrum = solve_for(gram, sizes, method, random_state=0)
        known = most if spectrum.complete else known
        for k in range(tried + 1, known + 1):
            selection = METHODS[method](spectrum, Components(k))
            r2 = 1 - sum(stress_terms(spectrum, gram.diagonal(), selection)) / total
            best = max(best, r2)
            if r2 >= share:
                return k, best
            if method in ("classical", "lower") and selection.kept.size < k:
                return None, best  # there are no more to be had
        if known == most:
            return None, best
        tried, known = known, min(4 * known, most)


def held_out_scan(gram: Gram, random_state: Any) -> DimensionScan:
    """Measure the error on pairs of held-out objects against the number of coordinates."""
    return scan_dimensions(gram, check_random_state(random_state))
