"""The spread of groups around their centers (PERMDISP)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.stats import f_oneway

from neucmds.backend.arrays import to_numpy
from neucmds.ecology.corrections import centered_gram
from neucmds.ecology.metadata import as_metadata, match_rows
from neucmds.ecology.permutation import (
    PermutationTest,
    p_value,
    permutation_orders,
    seed_of,
)
from neucmds.errors import InputError, NeucmdsWarning, option
from neucmds.problem.dense import as_squares
from neucmds.problem.names import Labels

Floats = npt.NDArray[np.float64]
# Which objects belong to each group.
Members = Sequence[npt.NDArray[np.bool_]]


@dataclass(frozen=True, eq=False)
class Dispersion(PermutationTest):
    """Distances of objects to the center of their group, and a test of their F statistic.

    Parameters
    ----------
    statistic, p, permuted
        As for `PermutationTest`.
    groups : tuple of str
        Names of the groups, in alphabetical order.
    distances : ndarray of shape (n,)
        Distance of each object to the center of its group; NaN for objects without a group.
    group_distances : ndarray of shape (groups,)
        Mean distance in each group.
    """

    groups: tuple[str, ...]
    distances: Floats
    group_distances: Floats


def dispersion(
    D: Any,
    groups: Any,
    *,
    center: Literal["median", "centroid"] = "median",
    squared: bool = False,
    permutations: Any = 999,
    random_state: Any = None,
) -> Dispersion:
    """Compare the spread of groups (PERMDISP), as vegan's ``betadisper`` with ``permutest``.

    Squared distances to a centroid are the mean of d² to the group minus half the mean of d² within
    it. Distances to the spatial median, vegan's default, use the principal coordinates of all
    objects, separately for positive and negative eigenvalues. The test permutes the residuals of
    the distances.

    Parameters
    ----------
    D : as for `neuc_mds`
        It must fit in memory.
    groups : sequence of length n, or Series
        The group of each object, None or NaN for none; a Series with the names of the objects is
        matched by them.
    center : {"median", "centroid"}, default="median"
        As ``type`` of ``betadisper``.
    squared : bool, default=False
        Whether D holds squared dissimilarities.
    permutations : int or array of shape (m, n), default=999
        Number of permutations, 0 for no test; or the permutations of the objects with a group.
    random_state : int, RandomState or None
        Draws the permutations.

    Returns
    -------
    Dispersion

    Notes
    -----
    Negative squared distances, which negative eigenvalues allow, become zero with a
    `NeucmdsWarning`, as in vegan.

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds.ecology import dispersion
    >>> x = np.array([0.0, 1.0, 2.0, 10.0, 14.0, 18.0])
    >>> spread = dispersion(abs(x[:, None] - x), list("aaabbb"), random_state=0)
    >>> spread.group_distances.round(3).tolist(), round(spread.statistic, 2)
    ([0.667, 2.667], 2.12)
    """
    sq_distances_to = {"median": _to_medians, "centroid": _to_centroids}
    if center not in sq_distances_to:
        raise InputError(
            f"{option('center', center)} must be 'median' or 'centroid'."
        )
    squares, labels = as_squares(D, squared=squared)
    n = len(squares)
    names = _group_names(groups, labels, n)
    rows = np.flatnonzero(names != "")
    levels, group_of = np.unique(names[rows], return_inverse=True)
    if not 1 < levels.size < rows.size:
        raise InputError(
            f"{levels.size} groups of {rows.size} objects have no spread to compare; pass at least "
            "two groups, one of them with two objects."
        )
    sq_d = to_numpy(squares).astype(np.float64)
    sq_d = sq_d[np.ix_(rows, rows)]
    members = [group_of == group for group in range(levels.size)]
    sq_distances = sq_distances_to[center](sq_d, members)
    largest_sq = float(np.abs(sq_d).max())
    negative = int(np.sum(sq_distances < -1e-12 * largest_sq))
    if negative:
        message = f"{negative} negative squared distances to a center were set to zero."
        warnings.warn(NeucmdsWarning(message), stacklevel=2)
    to_center = np.sqrt(np.maximum(sq_distances, 0.0))
    means = np.array([to_center[group].mean() for group in members])
    residuals = to_center - means[group_of]
    if np.abs(residuals).max() <= 1e-8 * math.sqrt(largest_sq):
        raise InputError(
            f"in each of {levels.size} groups all objects are equally far from its center, so that "
            "F does not exist; pass groups of at least three different objects."
        )
    orders = permutation_orders(permutations, rows.size, seed_of(random_state))
    # The first row holds the observed distances.
    samples = np.stack([to_center, *(residuals[order] for order in orders)])
    tests = f_oneway(*(samples[:, group] for group in members), axis=1)
    observed = float(tests.statistic[0])
    permuted = tests.statistic[1:]
    distances = np.full(n, math.nan)
    distances[rows] = to_center
    return Dispersion(
        observed,
        p_value(observed, permuted),
        permuted,
        groups=tuple(levels.tolist()),
        distances=distances,
        group_distances=means,
    )


def _group_names(groups: Any, labels: Labels, n: int) -> npt.NDArray[np.str_]:
    """Return the name of the group of each object, empty where it has none."""
    if hasattr(groups, "to_frame"):
        table = groups.to_frame("groups")
    else:
        table = {"groups": groups}
    column = match_rows(as_metadata(table), labels, n).iloc[:, 0]
    texts = column.astype(object).where(column.notna(), "")
    return np.array(texts, dtype=str)


def _to_centroids(sq_d: Floats, members: Members) -> Floats:
    """Compute squared distances to the centroids of groups from D."""
    sq_distances = np.empty(len(sq_d))
    for group in members:
        means = sq_d[np.ix_(group, group)].mean(axis=1)
        sq_distances[group] = means - means.mean() / 2
    return sq_distances


def _to_medians(sq_d: Floats, members: Members) -> Floats:
    """Compute squared distances to spatial medians: the positive minus the negative part."""
    gram = centered_gram(sq_d)
    eigenvalues, vectors = np.linalg.eigh((gram + gram.T) / 2)
    rounding = math.sqrt(np.finfo(np.float64).eps) * np.abs(eigenvalues).max()
    coordinates = vectors * np.sqrt(np.abs(eigenvalues))
    sq_distances = np.zeros(len(sq_d))
    for sign in (1.0, -1.0):
        x = coordinates[:, sign * eigenvalues > rounding]
        for group in members:
            offsets = x[group] - _spatial_median(x[group])
            sq_distances[group] += sign * np.sum(offsets**2, axis=1)
    return sq_distances


def _spatial_median(x: Floats) -> Floats:
    """Return the point with the least sum of distances to the rows of x."""

    def sum_and_gradient(point: Floats) -> tuple[float, Floats]:
        offsets = point - x
        lengths = np.linalg.norm(offsets, axis=1, keepdims=True)
        units = offsets / np.maximum(lengths, np.finfo(np.float64).tiny)
        return float(lengths.sum()), units.sum(axis=0)

    limits: Any = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 10_000}
    median = minimize(
        sum_and_gradient,
        x.mean(axis=0),
        jac=True,
        method="L-BFGS-B",
        options=limits,
    )
    return np.asarray(median.x)
