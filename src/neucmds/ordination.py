"""Variables, groups and other ordinations beside D and its coordinates."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import minimize
from sklearn.utils import check_random_state

from neucmds._backend.arrays import to_numpy
from neucmds._input import (
    as_dissimilarity,
    as_metadata,
    column_values,
    common_objects,
    listed,
    match_rows,
    read_metadata,
    row_names,
)
from neucmds._methods import align, columns_by_sign
from neucmds.embedding import Embedding
from neucmds.errors import InputError, NeucmdsWarning, option

__all__ = [
    "Dispersion",
    "EnvFit",
    "FactorFit",
    "PermutationTest",
    "VectorFit",
    "dispersion",
    "envfit",
    "protest",
    "read_metadata",
    "species_scores",
]

Floats = npt.NDArray[np.float64]

# As in vegan: a permutation that ties with the data up to rounding counts against it.
_TIE = math.sqrt(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class VectorFit:
    """The direction in which a continuous variable grows.

    Parameters
    ----------
    name : str
    direction : ndarray of shape (m,)
        Direction cosines of its gradient on the m axes; zero for a constant variable.
    r2 : float
        Squared correlation of the variable with the coordinates along that direction.
    p : float
        Share of permutations with an r² as large; NaN without permutations.
    n : int
        Number of objects on which it is known.
    """

    name: str
    direction: Floats
    r2: float
    p: float
    n: int


@dataclass(frozen=True)
class FactorFit:
    """Where the classes of a categorical variable lie.

    Parameters
    ----------
    name : str
    levels : tuple of str
        The classes, in alphabetical order.
    centroids : ndarray of shape (levels, m)
        Mean coordinates of each class on the m axes.
    r2 : float
        Share of the sum of squares that lies between the classes.
    p : float
        Share of permutations with an r² as large; NaN without permutations.
    n : int
        Number of objects on which it is known.
    """

    name: str
    levels: tuple[str, ...]
    centroids: Floats
    r2: float
    p: float
    n: int


@dataclass(frozen=True)
class EnvFit:
    """Fits of every variable of a table to the same axes.

    Parameters
    ----------
    axes : tuple of int
        The axes fitted to, counted from 1.
    vectors : tuple of VectorFit
        One for each continuous variable.
    factors : tuple of FactorFit
        One for each categorical variable.
    permutations : int
    """

    axes: tuple[int, ...]
    vectors: tuple[VectorFit, ...]
    factors: tuple[FactorFit, ...]
    permutations: int

    @property
    def fits(self) -> tuple[VectorFit | FactorFit, ...]:
        """All of them, continuous variables first."""
        return (*self.vectors, *self.factors)

    def __getitem__(self, name: str) -> VectorFit | FactorFit:
        """Return the fit of a variable by its name."""
        for fit in self.fits:
            if fit.name == name:
                return fit
        known = ", ".join(repr(fit.name) for fit in self.fits)
        raise InputError(f"no variable {name!r} was fitted; fitted are {known}.")

    def as_rows(self) -> list[dict[str, Any]]:
        """Return a row for each variable: name, kind, direction or None, r², p and n."""
        return [
            {
                "variable": fit.name,
                "kind": "vector" if isinstance(fit, VectorFit) else "factor",
                "direction": fit.direction.tolist() if isinstance(fit, VectorFit) else None,
                "r2": fit.r2,
                "p": fit.p,
                "n": fit.n,
            }
            for fit in self.fits
        ]


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
    and r² says how well the coordinates predict it. Of a categorical variable the centroids of its
    classes are computed, and the share of the sum of squares between them. The test permutes the
    objects. Signs of the coordinates play no part: distances along an axis are measured as drawn.

    Parameters
    ----------
    embedding : Embedding or array of shape (n, k)
    metadata : DataFrame or mapping of str to sequence
        Variables in the columns. A DataFrame is matched with the embedding's labels by its index,
        and taken in the order of the objects where either has no names. What `read_metadata`
        returns is matched by the column that agrees with the labels.
    axes : sequence of int, optional
        The axes to fit to, counted from 1; the first two by default, as in vegan.
    permutations : int, default=999
        0 skips the test.
    random_state : int, RandomState or None
        Draws the permutations.

    Returns
    -------
    EnvFit

    Notes
    -----
    An object on which a variable is missing is left out of the fit of that variable only, and a
    `NeucmdsWarning` says how many are; vegan's ``na.rm`` leaves it out of all.

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds.ordination import envfit
    >>> x = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> fit = envfit(x, {"height": [1.0, 1.0, 3.0, 3.0], "side": list("abab")}, permutations=0)
    >>> fit["height"].direction.round(6) + 0.0, round(fit["height"].r2, 6)
    (array([0., 1.]), 1.0)
    >>> fit["side"].centroids, fit["side"].r2
    (array([[0. , 0.5],
           [1. , 0.5]]), 0.5)
    """
    coordinates, _, labels = _coordinates(embedding)
    wanted = checked_axes(axes, coordinates.shape[1])
    x = coordinates[:, [a - 1 for a in wanted]]
    table = match_rows(as_metadata(metadata), labels, len(x))
    _check_permutations(permutations)
    seed = check_random_state(random_state).randint(2**31)
    vectors, factors = [], []
    for name in table.columns:
        column = column_values(table, name)
        # Every variable is tested on the same permutations.
        rng = np.random.default_rng(seed)
        if isinstance(column, np.ndarray):
            vectors.append(_fit_vector(name, x, column, permutations, rng))
        else:
            factors.append(_fit_factor(name, x, column, permutations, rng))
    found = EnvFit(wanted, tuple(vectors), tuple(factors), int(permutations))
    fewer = [f"{fit.name!r} {fit.n}" for fit in found.fits if fit.n < len(x)]
    if fewer:
        message = f"of {len(x)} objects, those with a value are fitted: {listed(fewer)}."
        warnings.warn(NeucmdsWarning(message), stacklevel=2)
    return found


def species_scores(embedding: Any, abundances: Any, *, axes: Sequence[int] | None = None) -> Any:
    """Place species where they are found: averages of the objects, weighted by abundance.

    As vegan's ``wascores``.

    Parameters
    ----------
    embedding : Embedding or array of shape (n, k)
    abundances : DataFrame or mapping of str to sequence
        A column for each species, with numbers that are not negative; rows are matched with the
        objects as those of the metadata of `envfit`.
    axes : sequence of int, optional
        Which axes, counted from 1; all by default.

    Returns
    -------
    pandas.DataFrame
        A row for each species, a column for each axis; NaN for a species that is nowhere.

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds.ordination import species_scores
    >>> x = np.array([[0.0], [1.0], [2.0]])
    >>> species_scores(x, {"moss": [1, 1, 0], "sedge": [0, 1, 3]})["axis1"].to_list()
    [0.5, 1.75]
    """
    coordinates, _, labels = _coordinates(embedding)
    wanted = checked_axes(axes or range(1, coordinates.shape[1] + 1), coordinates.shape[1])
    x = coordinates[:, [a - 1 for a in wanted]]
    table = match_rows(as_metadata(abundances), labels, len(x))
    try:
        weights = table.to_numpy(dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError("abundances must be numbers; leave out other columns.") from error
    if not weights.min(initial=0.0) >= 0:
        raise InputError("abundances are negative or missing; use 0 where nothing was found.")
    totals = weights.sum(axis=0)
    with np.errstate(invalid="ignore"):
        scores = (weights.T @ x) / totals[:, None]
    names = [f"axis{a}" for a in wanted]
    if isinstance(embedding, Embedding):
        names = [embedding.axis_names[a - 1] for a in wanted]
    return type(table)(scores, index=list(table.columns), columns=names)


@dataclass(frozen=True, eq=False)
class PermutationTest:
    """A statistic of the data, and the same statistic of permuted data.

    Parameters
    ----------
    statistic : float
    p : float
        Share of the permutations, the data as they are among them, with a statistic as extreme; NaN
        without permutations.
    permuted : ndarray of shape (permutations,)
        The statistic of each permutation.
    """

    statistic: float
    p: float
    permuted: Floats


@dataclass(frozen=True, eq=False)
class Dispersion(PermutationTest):
    """How far the objects of each group lie from its center; F of these distances is tested.

    Parameters
    ----------
    statistic, p, permuted
        As of any `PermutationTest`.
    groups : tuple of str
        Names of the groups, in alphabetical order.
    distances : ndarray of shape (n,)
        Distance of each object to the center of its group; NaN for objects of no group.
    group_distances : ndarray of shape (groups,)
        Their mean in each group.
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

    Distances to the centroid of a group come from D itself: z² is the mean of d² to the group less
    half the mean of d² within it. Distances to the spatial median, vegan's default, come from the
    principal coordinates of all objects, those of positive and of negative eigenvalues apart. The
    test permutes the residuals of the distances.

    Parameters
    ----------
    D : as for `neuc_mds`
        All of it in memory.
    groups : sequence of length n, or Series
        The group of each object, None or NaN for none; a Series with the names of the objects is
        matched by them.
    center : {"median", "centroid"}, default="median"
        As ``type`` of ``betadisper``.
    squared : bool, default=False
        Whether D holds squared dissimilarities.
    permutations : int or array of shape (m, n), default=999
        How many, 0 for none; or the permutations themselves, of the objects that have a group.
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
    >>> from neucmds.ordination import dispersion
    >>> x = np.array([0.0, 1.0, 2.0, 10.0, 14.0, 18.0])
    >>> found = dispersion(abs(x[:, None] - x), list("aaabbb"), random_state=0)
    >>> found.group_distances.round(3).tolist(), round(found.statistic, 2)
    ([0.667, 2.667], 2.12)
    """
    if center not in ("median", "centroid"):
        raise InputError(f"{option('center', center)} must be 'median' or 'centroid'.")
    data = as_dissimilarity(D, squared=squared)
    named = data.labels if row_names(_frame(groups)) is not None else None
    table = match_rows(as_metadata(_frame(groups)), named, data.n)
    names = [str(v) if v == v and v is not None else "" for v in table.iloc[:, 0]]
    rows = np.flatnonzero(names)
    levels, member = np.unique(np.array(names)[rows], return_inverse=True)
    if not 1 < levels.size < rows.size:
        raise InputError(
            f"{levels.size} groups of {rows.size} objects have no spread to compare; give at least "
            "two groups, one of them with two objects."
        )
    sq_d = to_numpy(data.values).astype(np.float64)[np.ix_(rows, rows)]
    parts = [member == g for g in range(levels.size)]
    to_center = _to_medians if center == "median" else _to_centroids
    sq_distances = to_center(sq_d, parts)
    below = sq_distances < -1e-12 * float(np.abs(sq_d).max())
    if below.any():
        message = f"{int(below.sum())} squared distances are negative and changed to zero."
        warnings.warn(NeucmdsWarning(message), stacklevel=2)
    z = np.sqrt(np.maximum(sq_distances, 0.0))
    means = np.array([z[part].mean() for part in parts])
    orders = _as_orders(permutations, z.size, random_state)
    residuals = z - means[member]
    sums = [np.bincount(member, row, levels.size) for row in (z - z.mean(), *residuals[orders])]
    between = np.sum(np.square(sums) / np.bincount(member), axis=1)
    within = np.sum(np.square([z - z.mean(), *residuals[orders]]), axis=1) - between
    f = (between / (levels.size - 1)) / (within / (z.size - levels.size))
    distances = np.full(data.n, math.nan)
    distances[rows] = z
    test = (float(f[0]), _share(f[1:], f[0]), f[1:])
    return Dispersion(*test, tuple(map(str, levels)), distances, means)


def _frame(groups: Any) -> Any:
    return groups.to_frame("groups") if hasattr(groups, "to_frame") else {"groups": groups}


def _to_centroids(sq_d: Floats, parts: Sequence[Any]) -> Floats:
    """Squared distances to the centroids of groups, from D itself."""
    found = np.empty(len(sq_d))
    for part in parts:
        means = sq_d[np.ix_(part, part)].mean(axis=1)
        found[part] = means - means.mean() / 2
    return found


def _to_medians(sq_d: Floats, parts: Sequence[Any]) -> Floats:
    """Squared distances to spatial medians, the positive part less the negative one."""
    b = -0.5 * _centered(_centered(sq_d).T)
    lam, vectors = np.linalg.eigh((b + b.T) / 2)
    found = np.zeros(len(sq_d))
    for sign in (1.0, -1.0):
        kept = sign * lam > math.sqrt(np.finfo(np.float64).eps) * np.abs(lam).max()
        x = vectors[:, kept] * np.sqrt(np.abs(lam[kept]))
        for part in parts:
            found[part] += sign * np.sum((x[part] - _spatial_median(x[part])) ** 2, axis=1)
    return found


def _spatial_median(x: Floats) -> Floats:
    """Return the point with the least sum of distances to some others."""

    def total(point: Floats) -> tuple[float, Floats]:
        gaps = point - x
        lengths = np.linalg.norm(gaps, axis=1)
        return float(lengths.sum()), np.sum(gaps / np.maximum(lengths, 1e-300)[:, None], axis=0)

    limits: Any = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 10_000}
    return np.asarray(
        minimize(total, x.mean(axis=0), jac=True, method="L-BFGS-B", options=limits).x
    )


def protest(
    a: Any, b: Any, *, permutations: Any = 999, random_state: Any = None
) -> PermutationTest:
    """Test whether two ordinations of the same objects agree, as vegan's ``protest``.

    Parameters
    ----------
    a, b : Embedding or array of shape (n, k)
        As for `neucmds.procrustes`; columns of an array are positive. The isometries are those of
        O(p, q): where there are negative coordinates, each permutation takes a descent.
    permutations : int or array of shape (m, n), default=999
        How many, 0 for none; or the permutations themselves, of the objects of `b`.
    random_state : int, RandomState or None
        Draws the permutations.

    Returns
    -------
    PermutationTest
        The statistic is the correlation √(1 − `disparity`) of `neucmds.procrustes`: vegan's ``t0``.

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds.ordination import protest
    >>> x = np.random.default_rng(0).normal(size=(20, 2))
    >>> protest(x, 3 * x[:, ::-1] + 1, permutations=99, random_state=0).p
    0.01
    """
    (x, x_signs, x_names), (y, y_signs, y_names) = _coordinates(a), _coordinates(b)
    rows, cols = common_objects(x_names, len(x), y_names, len(y))
    (x, y), signs, _ = columns_by_sign(x[rows], x_signs, y[cols], y_signs)
    orders = _as_orders(permutations, len(x), random_state)
    if (signs > 0).all():
        norm = float(np.linalg.norm(x) * np.linalg.norm(y)) or 1.0
        products = np.stack([x.T @ y, *(x.T @ y[order] for order in orders)])
        found = np.linalg.svd(products / norm, compute_uv=False).sum(axis=1)
    else:
        left = [align(x, y, signs).disparity, *(align(x, y[o], signs).disparity for o in orders)]
        found = np.sqrt(1 - np.array(left))
    return PermutationTest(float(found[0]), _share(found[1:], found[0]), found[1:])


def _check_permutations(permutations: Any) -> None:
    if not isinstance(permutations, (int, np.integer)) or permutations < 0:
        raise InputError(f"{option('permutations', permutations)} must be a whole number ≥ 0.")


def _as_orders(permutations: Any, n: int, random_state: Any) -> npt.NDArray[np.intp]:
    """Return permutations of n objects, a row each: those given, or as many as asked for."""
    if np.ndim(permutations) == 2:
        orders = np.asarray(permutations)
        if not np.array_equal(np.sort(orders, axis=1), np.tile(np.arange(n), (len(orders), 1))):
            raise InputError(f"{option('permutations')} must hold the numbers 0 to {n - 1} a row.")
        return orders.astype(np.intp)
    _check_permutations(permutations)
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31))
    return np.array([rng.permutation(n) for _ in range(permutations)], np.intp).reshape(-1, n)


def _share(permuted: Floats, observed: float) -> float:
    """Share of the permutations, the data as they are among them, with a statistic as large."""
    as_large = int(np.sum(permuted >= observed - _TIE))
    return (as_large + 1) / (permuted.size + 1) if permuted.size else math.nan


def _fit_vector(
    name: str, x: Floats, column: Floats, permutations: int, rng: np.random.Generator
) -> VectorFit:
    known = np.isfinite(column)
    values = _centered(column[known])
    total = float(values @ values)
    basis, stretch, turn = np.linalg.svd(_centered(x[known]), full_matrices=False)
    used = stretch > 1e-10 * stretch.max(initial=0.0)
    # A constant, up to rounding, has no direction.
    if not used.any() or total <= (1e-12 * float(np.abs(column[known]).max())) ** 2 * values.size:
        return VectorFit(name, np.zeros(x.shape[1]), 0.0, math.nan, int(known.sum()))
    basis = basis[:, used]
    slope = turn[used].T @ ((basis.T @ values) / stretch[used])
    length = float(np.linalg.norm(slope))

    def r2(order: npt.NDArray[np.intp] | slice) -> float:
        image = basis.T @ values[order]
        return float(image @ image) / total

    observed = r2(slice(None))
    p = _permutation_p(r2, observed, values.size, permutations, rng)
    return VectorFit(name, slope / length if length else slope, observed, p, values.size)


def _fit_factor(
    name: str,
    x: Floats,
    column: Sequence[str | None],
    permutations: int,
    rng: np.random.Generator,
) -> FactorFit:
    known = np.array([value is not None for value in column], dtype=bool)
    texts = [value for value in column if value is not None]
    points = x[known]
    if not texts:
        return FactorFit(name, (), np.empty((0, x.shape[1])), 0.0, math.nan, 0)
    levels, classes = np.unique(texts, return_inverse=True)
    sizes = np.bincount(classes)
    members = sparse.csr_array(
        (np.ones(classes.size), (classes, np.arange(classes.size))),
        shape=(levels.size, classes.size),
    )
    centered = _centered(points)
    total = float(np.sum(centered * centered))

    def r2(order: npt.NDArray[np.intp] | slice) -> float:
        sums: Floats = np.asarray(members @ centered[order])
        return float(np.sum(sums * sums / sizes[:, None])) / total if total else 0.0

    observed = r2(slice(None))
    centroids: Floats = np.asarray(members @ points) / sizes[:, None]
    p = _permutation_p(r2, observed, classes.size, permutations, rng)
    return FactorFit(name, tuple(map(str, levels)), centroids, observed, p, classes.size)


def _permutation_p(
    r2: Callable[[npt.NDArray[np.intp]], float],
    observed: float,
    n: int,
    permutations: int,
    rng: np.random.Generator,
) -> float:
    permuted = [r2(rng.permutation(n)) for _ in range(permutations)]
    return _share(np.array(permuted), observed)


def _centered(values: Floats) -> Floats:
    centered: Floats = values - values.mean(axis=0) if len(values) else values
    return centered


def _coordinates(embedding: Any) -> tuple[Floats, Floats, tuple[str, ...] | None]:
    """Return coordinates, signs, and names if there are some."""
    if isinstance(embedding, Embedding):
        x, signs = (to_numpy(part) for part in (embedding.coordinates, embedding.signs))
        return x.astype(np.float64), signs.astype(np.float64), embedding.labels
    try:
        values = np.asarray(to_numpy(embedding), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError("coordinates must be an Embedding or an array of numbers.") from error
    if values.ndim != 2 or 0 in values.shape or not np.isfinite(values).all():
        raise InputError(
            f"coordinates have shape {values.shape}; they must be finite numbers of shape (n, k)."
        )
    return values, np.ones(values.shape[1]), None


def checked_axes(axes: Sequence[int] | None, k: int) -> tuple[int, ...]:
    """Return different axes, each from 1 to k; the first two by default."""
    wanted = tuple(range(1, min(k, 2) + 1)) if axes is None else tuple(axes)
    if not wanted or len(set(wanted)) < len(wanted):
        raise InputError(f"{option('axes', wanted)} must be different axes, as in (1, 2).")
    for axis in wanted:
        if axis != int(axis) or not 1 <= axis <= k:
            raise InputError(
                f"{option('axes', wanted)}: axis {axis} does not exist; there are 1 to {k}."
            )
    return tuple(map(int, wanted))
