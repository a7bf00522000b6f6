"""Tests by permutation, and the agreement of two ordinations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from neucmds.alignment import (
    align,
    centered_columns,
    columns_by_sign,
    common_signs,
)
from neucmds.backend.arrays import to_numpy
from neucmds.embedding import Embedding
from neucmds.errors import InputError, option
from neucmds.problem.containers import as_real
from neucmds.problem.names import Labels, common_objects, row_names

Floats = npt.NDArray[np.float64]
Order = npt.NDArray[np.intp]

# As in vegan, a permuted statistic this little below the observed one counts as larger.
TIE = math.sqrt(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class PermutationTest:
    """A statistic of the data, and the same statistic of permuted data.

    Parameters
    ----------
    statistic : float
    p : float
        Share of the permutations, the observed order included, with a statistic as extreme; NaN
        without permutations.
    permuted : ndarray of shape (permutations,)
        The statistic of each permutation.
    """

    statistic: float
    p: float
    permuted: Floats


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
    x, x_signs, x_names = coordinates_of(a)
    y, y_signs, y_names = coordinates_of(b)
    x_rows, y_rows = common_objects(x_names, len(x), y_names, len(y))
    signs = common_signs(x_signs, y_signs)
    x = centered_columns(x[x_rows], columns_by_sign(x_signs, signs))
    y = centered_columns(y[y_rows], columns_by_sign(y_signs, signs))
    norms = float(np.linalg.norm(x) * np.linalg.norm(y)) or 1.0

    def correlation(order: Order | slice) -> float:
        permuted_y = y[order]
        if (signs > 0).all():
            return float(np.linalg.norm(x.T @ permuted_y / norms, ord="nuc"))
        return math.sqrt(1 - align(x, permuted_y, signs).disparity)

    orders = permutation_orders(permutations, len(x), seed_of(random_state))
    observed = correlation(slice(None))
    permuted = np.array([correlation(order) for order in orders])
    return PermutationTest(observed, p_value(observed, permuted), permuted)


def seed_of(random_state: Any) -> int:
    """Return a seed, so that several tests use the same permutations."""
    return int(check_random_state(random_state).randint(2**31))


def permutation_orders(
    permutations: Any, n: int, seed: int
) -> Iterator[Order]:
    """Yield permutations of n objects: those given, or as many random ones."""
    if np.ndim(permutations) == 2:
        orders = np.asarray(permutations)
        if (
            orders.shape[1] != n
            or (np.sort(orders, axis=1) != np.arange(n)).any()
        ):
            raise InputError(
                f"each row of {option('permutations')} must hold the numbers 0 to {n - 1}."
            )
        yield from orders.astype(np.intp)
        return
    check_permutations(permutations)
    rng = np.random.default_rng(seed)
    for _ in range(permutations):
        yield rng.permutation(n)


def check_permutations(permutations: Any) -> None:
    """Refuse a number of permutations that is not a whole number ≥ 0."""
    if not isinstance(permutations, (int, np.integer)) or permutations < 0:
        raise InputError(
            f"{option('permutations', permutations)} must be a whole number ≥ 0."
        )


def p_value(observed: float, permuted: Iterable[float]) -> float:
    """Return the share of orders, the observed one included, with a statistic as large."""
    values = np.asarray(permuted)
    if not values.size:
        return math.nan
    as_large = int(np.sum(values >= observed - TIE))
    return (as_large + 1) / (values.size + 1)


def coordinates_of(embedding: Any) -> tuple[Floats, Floats, Labels]:
    """Return coordinates, signs and labels of an embedding, or of an array of positive columns."""
    if isinstance(embedding, Embedding):
        coordinates = to_numpy(embedding.coordinates).astype(np.float64)
        signs = to_numpy(embedding.signs).astype(np.float64)
        return coordinates, signs, embedding.labels
    values = to_numpy(as_real(embedding, "coordinates")).astype(np.float64)
    if values.ndim != 2 or not values.size or not np.isfinite(values).all():
        raise InputError(
            f"coordinates have shape {values.shape}; they must be finite numbers of shape (n, k)."
        )
    return values, np.ones(values.shape[1]), row_names(embedding)
