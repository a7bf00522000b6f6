"""Relate coordinates to variables of the objects: vegan's ``envfit`` and ``wascores``."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from scipy.linalg import orth
from scipy.sparse import csr_array

from neucmds.backend.arrays import Floats
from neucmds.ecology.metadata import as_metadata, column_values, match_rows
from neucmds.ecology.permutation import (
    coordinates_of,
    p_value,
    permutation_orders,
    seed_of,
)
from neucmds.embedding import Embedding
from neucmds.errors import InputError, NeucmdsWarning, option
from neucmds.problem.containers import as_real
from neucmds.problem.names import examples


@dataclass(frozen=True)
class VariableFit:
    """Fit of a variable: the direction in which it grows, or the centroids of its classes.

    Parameters
    ----------
    name : str
    kind : {"vector", "factor"}
        Whether the variable is continuous or categorical.
    r2 : float
        Squared correlation of a continuous variable with the coordinates along the direction;
        share of the sum of squares that lies between the classes of a categorical one.
    p : float
        Share of permutations with an r² as large; NaN without permutations.
    n : int
        Number of objects with a value.
    direction : ndarray of shape (m,)
        Direction cosines of the gradient on the m axes; zero for a constant variable, empty for a
        categorical one.
    levels : tuple of str
        The classes, in alphabetical order.
    centroids : ndarray of shape (levels, m)
        Mean coordinates of each class on the m axes.
    """

    name: str
    kind: Literal["vector", "factor"]
    r2: float
    p: float
    n: int
    direction: Floats = field(default_factory=lambda: np.empty(0))
    levels: tuple[str, ...] = ()
    centroids: Floats = field(default_factory=lambda: np.empty((0, 0)))


@dataclass(frozen=True)
class EnvFit:
    """Fits of every variable of a table to the same axes.

    Parameters
    ----------
    axes : tuple of int
        The fitted axes, counted from 1.
    fits : tuple of VariableFit
        One for each variable, continuous ones first.
    """

    axes: tuple[int, ...]
    fits: tuple[VariableFit, ...]

    @property
    def vectors(self) -> tuple[VariableFit, ...]:
        """The fits of continuous variables."""
        return tuple(fit for fit in self.fits if fit.kind == "vector")

    @property
    def factors(self) -> tuple[VariableFit, ...]:
        """The fits of categorical variables."""
        return tuple(fit for fit in self.fits if fit.kind == "factor")

    def __getitem__(self, name: str) -> VariableFit:
        """Return the fit of a variable by its name."""
        return {fit.name: fit for fit in self.fits}[name]


def envfit(
    embedding: Any,
    metadata: Any,
    *,
    axes: Sequence[int] | None = None,
    permutations: int = 999,
    random_state: Any = None,
) -> EnvFit:
    """Fit variables measured on the objects to their coordinates, as vegan's ``envfit`` does.

    A continuous variable is regressed on the coordinates: its arrow points where it grows fastest,
    and r² says how well the coordinates predict it. A categorical variable has a centroid per
    class, and r² is the share of the sum of squares between the classes. The test permutes the
    objects. The fit ignores the signs of the coordinates: it uses the axes as they are drawn.

    Parameters
    ----------
    embedding : Embedding or array of shape (n, k)
        Of a directed embedding the departures are fitted; pass its `arrivals` to fit those.
    metadata : DataFrame or mapping of str to sequence
        Variables in the columns. The index of a DataFrame is matched with the labels of the
        embedding; without names on either side, rows are in the order of the objects. A table
        from `read_metadata` is matched by the column that agrees with the labels.
    axes : sequence of int, optional
        Axes to fit, counted from 1; the first two by default, as in vegan.
    permutations : int, default=999
        0 skips the test.
    random_state : int, RandomState or None
        Draws the permutations.

    Returns
    -------
    EnvFit

    Notes
    -----
    An object without a value is left out of the fit of that variable only, and a `NeucmdsWarning`
    names such variables; vegan's ``na.rm`` leaves the object out of all fits.

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds.ecology import envfit
    >>> x = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> fit = envfit(x, {"height": [1.0, 1.0, 3.0, 3.0], "side": list("abab")}, permutations=0)
    >>> fit["height"].direction.round(6) + 0.0, round(fit["height"].r2, 6)
    (array([0., 1.]), 1.0)
    >>> fit["side"].centroids, round(fit["side"].r2, 6)
    (array([[0. , 0.5],
           [1. , 0.5]]), 0.5)
    """
    coordinates, _, labels = coordinates_of(embedding)
    fitted_axes = axis_numbers(axes, coordinates.shape[1])
    x = coordinates[:, [axis - 1 for axis in fitted_axes]]
    table = match_rows(as_metadata(metadata), labels, len(x))
    # Every variable is tested on the same permutations.
    seed = seed_of(random_state)
    fits = []
    for name in table.columns:
        column = column_values(table, name)
        if isinstance(column, np.ndarray):
            fits.append(_fit_vector(name, x, column, permutations, seed))
        else:
            fits.append(_fit_factor(name, x, column, permutations, seed))
    fits.sort(key=lambda fit: fit.kind == "factor")
    with_gaps = [fit.name for fit in fits if fit.n < len(x)]
    if with_gaps:
        message = f"of {len(x)} objects, only those with a value are fitted: {examples(with_gaps)}."
        warnings.warn(NeucmdsWarning(message), stacklevel=2)
    return EnvFit(fitted_axes, tuple(fits))


def species_scores(
    embedding: Any, abundances: Any, *, axes: Sequence[int] | None = None
) -> Any:
    """Average the coordinates of the objects, weighted by abundance, as vegan's ``wascores``.

    Parameters
    ----------
    embedding : Embedding or array of shape (n, k)
        Of a directed embedding the departures are averaged; pass its `arrivals` for those.
    abundances : DataFrame or mapping of str to sequence
        A column per species, without negative numbers; rows are matched with the objects as in
        `envfit`.
    axes : sequence of int, optional
        Which axes, counted from 1; all by default.

    Returns
    -------
    pandas.DataFrame
        A row per species, a column per axis; NaN for a species without abundance.

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds.ecology import species_scores
    >>> x = np.array([[0.0], [1.0], [2.0]])
    >>> species_scores(x, {"moss": [1, 1, 0], "sedge": [0, 1, 3]})["axis1"].to_list()
    [0.5, 1.75]
    """
    coordinates, _, labels = coordinates_of(embedding)
    k = coordinates.shape[1]
    if axes is None:
        axes = range(1, k + 1)
    columns = [axis - 1 for axis in axis_numbers(axes, k)]
    names = [f"axis{column + 1}" for column in columns]
    if isinstance(embedding, Embedding):
        names = [embedding.axis_names[column] for column in columns]
    table = match_rows(as_metadata(abundances), labels, len(coordinates))
    weights = as_real(table.astype(object), "abundances")
    n_refused = np.sum(~np.isfinite(weights) | (weights < 0))
    if n_refused:
        raise InputError(
            f"{n_refused} abundances are negative, missing or infinite; use 0 where nothing was "
            "found."
        )
    # A species without abundance has the shares 0/0.
    with np.errstate(invalid="ignore"):
        shares = weights / weights.sum(axis=0)
    scores = shares.T @ coordinates[:, columns]
    return type(table)(scores, index=list(table.columns), columns=names)


def _fit_vector(
    name: str, x: Floats, column: Floats, permutations: int, seed: int
) -> VariableFit:
    """Regress a continuous variable on coordinates."""
    known = np.isfinite(column)
    n = int(known.sum())
    values = _centered(column[known])
    rounding = 1e-12 * float(np.linalg.norm(column[known]))
    is_constant = np.linalg.norm(values) <= rounding
    if is_constant:
        no_direction = np.zeros(x.shape[1])
        return VariableFit(name, "vector", 0.0, math.nan, n, no_direction)
    points = _centered(x[known])
    basis = orth(points, rcond=1e-10)
    slope = np.linalg.pinv(points, rcond=1e-10) @ values
    direction = slope / (np.linalg.norm(slope) or 1.0)
    r2, p = _r2_and_p(basis, values, permutations, seed)
    return VariableFit(name, "vector", r2, p, n, direction)


def _fit_factor(
    name: str,
    x: Floats,
    column: Sequence[str | None],
    permutations: int,
    seed: int,
) -> VariableFit:
    """Fit the centroids of the classes of a categorical variable."""
    cells = np.array(column, dtype=object)
    known = np.array([value is not None for value in column])
    n = int(known.sum())
    levels, level_of = np.unique(cells[known], return_inverse=True)
    # A row per object, with a one in the column of its class.
    members: Any = csr_array(
        (np.ones(n), level_of, np.arange(n + 1)), shape=(n, levels.size)
    )
    sizes = np.bincount(level_of)
    # With columns of length one, products with values are √size times the means of the classes.
    basis = members / np.sqrt(sizes)
    r2, p = _r2_and_p(basis, _centered(x[known]), permutations, seed)
    names = tuple(map(str, levels))
    centroids = members.T @ x[known] / sizes[:, None]
    return VariableFit(
        name, "factor", r2, p, n, levels=names, centroids=centroids
    )


def _r2_and_p(
    basis: Any, values: Floats, permutations: int, seed: int
) -> tuple[float, float]:
    """Return r², the share of the sum of squares in an orthonormal basis, and its p."""
    total = float(np.sum(values**2)) or 1.0
    orders = permutation_orders(permutations, len(values), seed)
    r2 = []
    for order in orders:
        projected = basis.T @ values[order]
        r2.append(float(np.sum(projected**2)) / total)
    return r2[0], p_value(r2)


def _centered(values: Floats) -> Floats:
    """Return values minus their mean; there may be none."""
    centered: Floats = values - values.sum(axis=0) / max(1, len(values))
    return centered


def axis_numbers(axes: Sequence[int] | None, k: int) -> tuple[int, ...]:
    """Return axes, the first two by default; they must be different and from 1 to k."""
    if axes is None:
        axes = range(1, min(k, 2) + 1)
    numbers = np.atleast_1d(np.asarray(axes)).tolist()
    if not numbers or len(set(numbers)) < len(numbers):
        raise InputError(
            f"{option('axes', numbers)} must be different axes, as in (1, 2)."
        )
    for axis in numbers:
        if axis not in range(1, k + 1):
            raise InputError(
                f"{option('axes', numbers)}: axis {axis} does not exist; there are 1 to {k}."
            )
    return tuple(map(int, numbers))
