"""Tests by permutation, and the agreement of two ordinations."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import squareform
from scipy.stats import rankdata
from sklearn.utils import check_random_state

from neucmds.alignment import (
    align,
    centered_columns,
    columns_by_sign,
    common_signs,
)
from neucmds.backend.arrays import Floats, Indices, to_floats
from neucmds.ecology.corrections import root_values
from neucmds.ecology.metadata import group_names, known_rows
from neucmds.embedding import Embedding
from neucmds.embedding.result import refuse_directed
from neucmds.errors import InputError, option
from neucmds.problem.containers import as_real
from neucmds.problem.names import Labels, common_objects, row_names

# As in vegan, a permuted statistic so little below the observed one counts as equal to it.
TIE = math.sqrt(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False, repr=False)
class PermutationTest:
    """A statistic of the data, and the same statistic of permuted data.

    Parameters
    ----------
    statistic : float
    p : float
        Share of the orders, the observed and the permuted ones, with a statistic at least as
        extreme as the observed one; NaN without permutations.
    permuted : ndarray of shape (permutations,)
        The statistic of each permutation.
    """

    statistic: float
    p: float
    permuted: Floats

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__}: statistic {self.statistic:.5g}, p {self.p:.4g}, "
            f"{len(self.permuted)} permutations>"
        )


def protest(
    a: Any, b: Any, *, permutations: Any = 999, random_state: Any = None
) -> PermutationTest:
    """Test whether two ordinations of the same objects agree, as vegan's ``protest``.

    Parameters
    ----------
    a, b : Embedding or array of shape (n, k)
        As for `neucmds.procrustes`; columns of an array are positive. With negative coordinates
        each permutation takes a descent over the isometries of O(p, q).
    permutations : int or array of shape (m, n), default=999
        Number of permutations, 0 for no test; or the permutations of the objects of `b`.
    random_state : int, RandomState or None
        Draws the permutations.

    Returns
    -------
    PermutationTest
        The statistic is the correlation √(1 − `disparity`) of `neucmds.procrustes`: vegan's ``t0``.

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds.ecology import protest
    >>> x = np.random.default_rng(0).normal(size=(20, 2))
    >>> protest(x, 3 * x[:, ::-1] + 1, permutations=99, random_state=0).p
    0.01
    """
    for embedding in (a, b):
        if isinstance(embedding, Embedding):
            refuse_directed(embedding)
    x, x_signs, x_names = coordinates_of(a)
    y, y_signs, y_names = coordinates_of(b)
    x_rows, y_rows = common_objects(x_names, len(x), y_names, len(y))
    signs = common_signs(x_signs, y_signs)
    x = centered_columns(x[x_rows], columns_by_sign(x_signs, signs))
    y = centered_columns(y[y_rows], columns_by_sign(y_signs, signs))
    product_of_norms = float(np.linalg.norm(x) * np.linalg.norm(y)) or 1.0

    def correlation(order: Indices) -> float:
        permuted_y = y[order]
        if (signs > 0).all():
            # The best rotation leaves the sum of the singular values.
            products = x.T @ permuted_y / product_of_norms
            return float(np.linalg.norm(products, ord="nuc"))
        return math.sqrt(1 - align(x, permuted_y, signs).disparity)

    return permutation_test(correlation, len(x), permutations, random_state)


def mantel(
    a: Any,
    b: Any,
    *,
    method: Literal["pearson", "spearman"] = "pearson",
    strata: Any = None,
    squared: bool = False,
    permutations: Any = 999,
    random_state: Any = None,
) -> PermutationTest:
    """Correlate two matrices of dissimilarities, as vegan's ``mantel``.

    Parameters
    ----------
    a, b : as D of `neuc_mds`
        Of the same objects, matched by name if both have names.
    method : {"pearson", "spearman"}, default="pearson"
        The correlation of the dissimilarities, or that of their ranks.
    strata : sequence of length n or Series, optional
        Permutations stay within these groups of objects.
    squared : bool, default=False
        Whether both hold squared dissimilarities.
    permutations : int or array of shape (m, n), default=999
        Number of permutations, 0 for no test; or the permutations of the objects of `a`.
    random_state : int, RandomState or None
        Draws the permutations.

    Returns
    -------
    PermutationTest
        The statistic is the correlation; high values are extreme.

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds.ecology import mantel
    >>> x = np.arange(10.0)
    >>> d = abs(x[:, None] - x)
    >>> test = mantel(d, d**2, method="spearman", random_state=0)
    >>> round(test.statistic, 6), test.p
    (1.0, 0.001)
    """
    if method not in ("pearson", "spearman"):
        raise InputError(
            f"{option('method', method)} must be 'pearson' or 'spearman'."
        )
    x, x_names = root_values(a, squared)
    y, y_names = root_values(b, squared)
    x_rows, y_rows = common_objects(x_names, len(x), y_names, len(y))
    blocks = group_names(strata, x_names, len(x))[x_rows]
    kept = known_rows(blocks != "", "a stratum")
    x_rows = x_rows[kept]
    y_rows = y_rows[kept]
    upper = np.triu_indices(len(x_rows), 1)
    x_values = x[np.ix_(x_rows, x_rows)][upper]
    y_values = y[np.ix_(y_rows, y_rows)][upper]
    if method == "spearman":
        x_values = rankdata(x_values)
        y_values = rankdata(y_values)
    y_unit = _centered_unit_vector(y_values)
    x_matrix = squareform(_centered_unit_vector(x_values))

    def correlation(order: Indices) -> float:
        return float(x_matrix[np.ix_(order, order)][upper] @ y_unit)

    return permutation_test(
        correlation, len(x_rows), permutations, random_state, blocks[kept]
    )


def permutation_test(
    statistic: Callable[[Indices], float],
    n: int,
    permutations: Any,
    random_state: Any,
    strata: npt.NDArray[np.str_] | None = None,
) -> PermutationTest:
    """Compare a statistic of n objects in their own order with that in permuted orders."""
    orders = permutation_orders(permutations, n, seed_of(random_state), strata)
    values = np.array([statistic(order) for order in orders])
    return PermutationTest(float(values[0]), p_value(values), values[1:])


def _centered_unit_vector(values: Floats) -> Floats:
    """Return values with mean zero and length one."""
    centered = values - values.mean()
    length = float(np.linalg.norm(centered))
    if length <= 1e-12 * float(np.linalg.norm(values)):
        raise InputError(
            "all dissimilarities are equal in one matrix, so there is no correlation; pass another."
        )
    return np.asarray(centered / length)


def seed_of(random_state: Any) -> int:
    """Draw a seed, with which several tests use the same permutations."""
    return int(check_random_state(random_state).randint(2**31))


def permutation_orders(
    permutations: Any,
    n: int,
    seed: int,
    strata: npt.NDArray[np.str_] | None = None,
) -> Indices:
    """Return orders of n objects: their own, then those given, or random ones within strata."""
    own = np.arange(n)
    if np.ndim(permutations) == 2:
        given = np.asarray(permutations)
        if given.shape[1] != n or (np.sort(given, axis=1) != own).any():
            raise InputError(
                f"each row of {option('permutations')} must hold the numbers 0 to {n - 1}."
            )
        return np.vstack([own, given]).astype(np.intp)
    check_permutations(permutations)
    rng = np.random.default_rng(seed)
    if strata is None:
        strata = np.full(n, "all")
    blocks = [np.flatnonzero(strata == name) for name in np.unique(strata)]
    orders = np.tile(own, (permutations + 1, 1))
    for order in orders[1:]:
        for block in blocks:
            order[block] = rng.permutation(block)
    return orders


def check_permutations(permutations: Any) -> None:
    """Refuse a number of permutations that is not a whole number ≥ 0."""
    if not isinstance(permutations, (int, np.integer)) or permutations < 0:
        raise InputError(
            f"{option('permutations', permutations)} must be a whole number ≥ 0."
        )


def p_value(statistics: Any) -> float:
    """Return the share of orders with a statistic as large as the first, the observed one."""
    observed = statistics[0]
    if len(statistics) == 1 or math.isnan(observed):
        return math.nan
    return float(np.mean(np.asarray(statistics) >= observed - TIE))


def table_text(heading: str, table: Any) -> str:
    """Return a table below its heading, with five digits and blanks for undefined values."""
    text = table.to_string(na_rep="", float_format="{:.5g}".format)
    return f"{heading}\n{text}"


def coordinates_of(embedding: Any) -> tuple[Floats, Floats, Labels]:
    """Return coordinates, signs and labels of an embedding, or of an array of positive columns."""
    if isinstance(embedding, Embedding):
        coordinates = to_floats(embedding.coordinates)
        signs = to_floats(embedding.signs)
        return coordinates, signs, embedding.labels
    values = to_floats(as_real(embedding, "coordinates"))
    if values.ndim != 2 or not values.size or not np.isfinite(values).all():
        raise InputError(
            f"coordinates have shape {values.shape}; they must be finite numbers of shape (n, k)."
        )
    return values, np.ones(values.shape[1]), row_names(embedding)
