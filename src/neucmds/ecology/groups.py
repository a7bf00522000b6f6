"""The spread of groups around their centers (PERMDISP), and their separation (ANOSIM)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.stats import f_oneway, rankdata, ttest_ind

from neucmds.backend.arrays import Floats, Indices, Marks
from neucmds.ecology.corrections import centered_gram, sq_values
from neucmds.ecology.metadata import group_names, known_rows
from neucmds.ecology.permutation import (
    PermutationTest,
    p_value,
    permutation_orders,
    permutation_test,
    seed_of,
    table_text,
)
from neucmds.errors import InputError, NeucmdsWarning, option
from neucmds.problem.files import require_pandas

# A mask of the objects for each group.
Members = Sequence[Marks]
Names = npt.NDArray[np.str_]


@dataclass(frozen=True, eq=False, repr=False)
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
    table : pandas.DataFrame
        Analysis of variance of the distances, with the columns of vegan's ``permutest``.
    pairwise : pandas.DataFrame
        A row per pair of groups: t of their distances, its p by permutation of the distances, and p
        by Holm's correction for the number of pairs.
    """

    groups: tuple[str, ...]
    distances: Floats
    group_distances: Floats
    table: Any
    pairwise: Any

    def __repr__(self) -> str:
        return table_text("PERMDISP", self.table)


def dispersion(
    D: Any,
    groups: Any,
    *,
    center: Literal["median", "centroid"] = "median",
    strata: Any = None,
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
        The group of each object, None or NaN if it has none; a Series with the names of the
        objects is matched by them.
    center : {"median", "centroid"}, default="median"
        As ``type`` of ``betadisper``.
    strata : sequence of length n or Series, optional
        Permutations stay within these groups of objects.
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
    Objects without a group or stratum are left out, and a `NeucmdsWarning` counts them.
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
    sq_distances_to = {
        "median": _sq_distances_to_medians,
        "centroid": _sq_distances_to_centroids,
    }
    if center not in sq_distances_to:
        raise InputError(
            f"{option('center', center)} must be 'median' or 'centroid'."
        )
    sq_d, known, levels, group_of, blocks = _read_groups(
        D, groups, strata, squared
    )
    members = [group_of == group for group in range(levels.size)]
    sq_distances = sq_distances_to[center](sq_d, members)
    largest_sq = float(np.abs(sq_d).max())
    negative = int(np.sum(sq_distances < -1e-12 * largest_sq))
    if negative:
        message = f"{negative} negative squared distances to a center were set to zero."
        warnings.warn(NeucmdsWarning(message), stacklevel=2)
    to_center = np.sqrt(np.maximum(sq_distances, 0.0))
    means = np.array([to_center[mask].mean() for mask in members])
    residuals = to_center - means[group_of]
    # Rounding of 1e-16 in squares is 1e-8 in their roots.
    if np.abs(residuals).max() <= 1e-8 * math.sqrt(largest_sq):
        raise InputError(
            f"in each of {levels.size} groups all objects are equally far from its center, so that "
            "F does not exist; pass groups of at least three different objects."
        )
    orders = permutation_orders(
        permutations, len(sq_d), seed_of(random_state), blocks
    )
    samples = residuals[orders]
    # The first order is the observed one, whose F is that of the distances.
    samples[0] = to_center
    f = f_oneway(*(samples[:, mask] for mask in members), axis=1).statistic
    p = p_value(f)
    distances = np.full(known.size, math.nan)
    distances[known] = to_center
    return Dispersion(
        float(f[0]),
        p,
        f[1:],
        groups=tuple(levels.tolist()),
        distances=distances,
        group_distances=means,
        table=_variance_table(
            to_center, residuals, levels.size, len(orders) - 1, p
        ),
        pairwise=_pairwise_table(to_center[orders], members, levels),
    )


def anosim(
    D: Any,
    groups: Any,
    *,
    strata: Any = None,
    squared: bool = False,
    permutations: Any = 999,
    random_state: Any = None,
) -> PermutationTest:
    """Compare ranks of dissimilarities between and within groups, as vegan's ``anosim``.

    Parameters
    ----------
    D, groups, strata, squared, permutations, random_state
        As for `dispersion`; objects without a group are left out with a warning.

    Returns
    -------
    PermutationTest
        The statistic R is the mean rank between groups minus the mean rank within them, in units
        of half the number of pairs: 1 if all pairs between groups are farther than all within, 0
        if the two means are equal; high values are extreme.

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds.ecology import anosim
    >>> x = np.array([0.0, 1.0, 2.0, 10.0, 14.0, 18.0])
    >>> round(anosim(abs(x[:, None] - x), list("aaabbb"), random_state=0).statistic, 3)
    0.981
    """
    sq_d, _, _, group_of, blocks = _read_groups(D, groups, strata, squared)
    first, second = np.triu_indices(len(sq_d), 1)
    ranks = rankdata(sq_d[first, second])

    def separation(order: Indices) -> float:
        permuted = group_of[order]
        within = permuted[first] == permuted[second]
        difference = ranks[~within].mean() - ranks[within].mean()
        return float(difference / (ranks.size / 2))

    return permutation_test(
        separation, len(sq_d), permutations, random_state, blocks
    )


def _read_groups(
    D: Any, groups: Any, strata: Any, squared: bool
) -> tuple[Floats, Marks, Names, Indices, Names]:
    """Read D and groups, without objects that lack a group or stratum.

    Returns the squares of D, a mask of the objects that are kept among all, the names of the
    groups, and for each kept object the number of its group and the name of its stratum.
    """
    sq_d, labels = sq_values(D, squared)
    names = group_names(groups, labels, len(sq_d))
    blocks = group_names(strata, labels, len(sq_d))
    known = (names != "") & (blocks != "")
    rows = known_rows(known, "a group or stratum", stacklevel=4)
    levels, group_of = np.unique(names[rows], return_inverse=True)
    if not 1 < levels.size < rows.size:
        raise InputError(
            f"{levels.size} groups of {rows.size} objects have no spread to compare; pass at least "
            "two groups, one of them with two objects."
        )
    return sq_d[np.ix_(rows, rows)], known, levels, group_of, blocks[rows]


def _variance_table(
    to_center: Floats,
    residuals: Floats,
    n_groups: int,
    n_permutations: int,
    p: float,
) -> Any:
    """Return the analysis of variance of the distances to centers."""
    df = np.array([n_groups - 1, residuals.size - n_groups])
    total = float(np.sum((to_center - to_center.mean()) ** 2))
    within = float(np.sum(residuals**2))
    sums = np.array([total - within, within])
    mean_squares = sums / df
    return require_pandas("a table").DataFrame(
        {
            "Df": df,
            "Sum Sq": sums,
            "Mean Sq": mean_squares,
            "F": [mean_squares[0] / mean_squares[1], math.nan],
            "N.Perm": [str(n_permutations), ""],
            "Pr(>F)": [p, math.nan],
        },
        index=["Groups", "Residuals"],
    )


def _pairwise_table(distances: Floats, members: Members, levels: Names) -> Any:
    """Test pairs of groups on distances: observed in the first row, permuted in the others."""
    names = []
    observed = []
    p = []
    for i, j in combinations(range(levels.size), 2):
        names.append(f"{levels[i]}-{levels[j]}")
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            # Two groups of one object each have no t.
            warnings.simplefilter("ignore")
            t: Any = ttest_ind(
                distances[:, members[i]], distances[:, members[j]], axis=1
            ).statistic
        observed.append(t[0])
        p.append(p_value(np.abs(t)))
    columns = {"t": observed, "p": p, "p.holm": _holm(np.array(p))}
    return require_pandas("a table").DataFrame(columns, index=names)


def _holm(p: Floats) -> Floats:
    """Correct p of m tests: the least is multiplied by m, the next by m − 1, and so on."""
    # A pair of groups without t has no p: NaN is sorted last and not counted.
    order = np.argsort(p)
    factors = np.isfinite(p).sum() - np.arange(p.size)
    corrected = np.empty_like(p)
    rising = np.maximum.accumulate(factors * p[order])
    corrected[order] = np.minimum(rising, 1.0)
    return corrected


def _sq_distances_to_centroids(sq_d: Floats, members: Members) -> Floats:
    """Return the squared distance of each object to the centroid of its group."""
    sq_distances = np.empty(len(sq_d))
    for mask in members:
        means = sq_d[np.ix_(mask, mask)].mean(axis=1)
        sq_distances[mask] = means - means.mean() / 2
    return sq_distances


def _sq_distances_to_medians(sq_d: Floats, members: Members) -> Floats:
    """Return the squared distance of each object to the spatial median of its group.

    It is that along the positive coordinates minus that along the negative ones.
    """
    gram = centered_gram(sq_d)
    eigenvalues, vectors = np.linalg.eigh((gram + gram.T) / 2)
    rounding = math.sqrt(np.finfo(np.float64).eps) * np.abs(eigenvalues).max()
    coordinates = vectors * np.sqrt(np.abs(eigenvalues))
    sq_distances = np.zeros(len(sq_d))
    for sign in (1.0, -1.0):
        x = coordinates[:, sign * eigenvalues > rounding]
        for mask in members:
            offsets = x[mask] - _spatial_median(x[mask])
            sq_distances[mask] += sign * np.sum(offsets**2, axis=1)
    return sq_distances


def _spatial_median(x: Floats) -> Floats:
    """Return the point with the least sum of distances to the rows of x."""

    def sum_and_gradient(point: Floats) -> tuple[float, Floats]:
        offsets = point - x
        lengths = np.linalg.norm(offsets, axis=1, keepdims=True)
        units = offsets / np.maximum(lengths, np.finfo(np.float64).tiny)
        return float(lengths.sum()), units.sum(axis=0)

    limits: Any = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 10_000}
    optimum = minimize(
        sum_and_gradient,
        x.mean(axis=0),
        jac=True,
        method="L-BFGS-B",
        options=limits,
    )
    return np.asarray(optimum.x)
