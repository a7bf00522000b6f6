"""Relate D and its coordinates to variables, groups and other ordinations."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import minimize
from sklearn.utils import check_random_state

from neucmds.alignment import align, columns_by_sign
from neucmds.backend.arrays import to_numpy
from neucmds.ecology.metadata import as_metadata, column_values, match_rows, read_metadata
from neucmds.embedding import Embedding
from neucmds.errors import InputError, NeucmdsWarning, option
from neucmds.problem.containers import as_real
from neucmds.problem.dense import as_squares
from neucmds.problem.names import common_objects, listed, row_names

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

# As in vegan, a permuted statistic that equals the observed one up to rounding counts as larger.
_TIE = math.sqrt(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class VectorFit:
    """Fit of a continuous variable: the direction in which it grows.

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
        Number of objects with a value.
    """

    name: str
    direction: Floats
    r2: float
    p: float
    n: int


@dataclass(frozen=True)
class FactorFit:
    """Fit of a categorical variable: the centroids of its classes.

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
        Number of objects with a value.
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
        The fitted axes, counted from 1.
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
        """All fits, continuous variables first."""
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
    and r² says how well the coordinates predict it. A categorical variable has a centroid per
    class, and r² is the share of the sum of squares between the classes. The test permutes the
    objects. The fit ignores the signs of the coordinates: it uses the axes as they are drawn.

    Parameters
    ----------
    embedding : Embedding or array of shape (n, k)
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
    counts the objects with one; vegan's ``na.rm`` leaves it out of all fits.

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds.ecology.ordination import envfit
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
    # Every variable is tested on the same permutations.
    seed = _seed(random_state)
    vectors, factors = [], []
    for name in table.columns:
        column = column_values(table, name)
        if isinstance(column, np.ndarray):
            vectors.append(_fit_vector(name, x, column, permutations, seed))
        else:
            factors.append(_fit_factor(name, x, column, permutations, seed))
    found = EnvFit(wanted, tuple(vectors), tuple(factors), int(permutations))
    fewer = [f"{fit.name!r} {fit.n}" for fit in found.fits if fit.n < len(x)]
    if fewer:
        message = f"of {len(x)} objects, only those with a value are fitted: {listed(fewer)}."
        warnings.warn(NeucmdsWarning(message), stacklevel=2)
    return found


def species_scores(embedding: Any, abundances: Any, *, axes: Sequence[int] | None = None) -> Any:
    """Average the coordinates of the objects, weighted by abundance, as vegan's ``wascores``.

    Parameters
    ----------
    embedding : Embedding or array of shape (n, k)
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
    >>> from neucmds.ecology.ordination import species_scores
    >>> x = np.array([[0.0], [1.0], [2.0]])
    >>> species_scores(x, {"moss": [1, 1, 0], "sedge": [0, 1, 3]})["axis1"].to_list()
    [0.5, 1.75]
    """
    coordinates, _, labels = _coordinates(embedding)
    k = coordinates.shape[1]
    wanted = checked_axes(range(1, k + 1) if axes is None else axes, k)
    x = coordinates[:, [a - 1 for a in wanted]]
    table = match_rows(as_metadata(abundances), labels, len(x))
    weights = as_real(table.astype(object), "abundances")
    bad = int(np.sum(~(np.isfinite(weights) & (weights >= 0))))
    if bad:
        raise InputError(
            f"{bad} abundances are negative, missing or infinite; use 0 where nothing was found."
        )
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
        Share of the permutations, the observed order included, with a statistic as extreme; NaN
        without permutations.
    permuted : ndarray of shape (permutations,)
        The statistic of each permutation.
    """

    statistic: float
    p: float
    permuted: Floats


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
    >>> from neucmds.ecology.ordination import dispersion
    >>> x = np.array([0.0, 1.0, 2.0, 10.0, 14.0, 18.0])
    >>> found = dispersion(abs(x[:, None] - x), list("aaabbb"), random_state=0)
    >>> found.group_distances.round(3).tolist(), round(found.statistic, 2)
    ([0.667, 2.667], 2.12)
    """
    if center not in ("median", "centroid"):
        raise InputError(f"{option('center', center)} must be 'median' or 'centroid'.")
    squares, labels = as_squares(D, squared=squared)
    named = labels if row_names(_frame(groups)) is not None else None
    table = match_rows(as_metadata(_frame(groups)), named, len(squares))
    known = table.iloc[:, 0].notna()
    names = [str(v) if k else "" for v, k in zip(table.iloc[:, 0], known, strict=True)]
    rows = np.flatnonzero(names)
    levels, member = np.unique(np.array(names)[rows], return_inverse=True)
    if not 1 < levels.size < rows.size:
        raise InputError(
            f"{levels.size} groups of {rows.size} objects have no spread to compare; pass at least "
            "two groups, one of them with two objects."
        )
    sq_d = to_numpy(squares).astype(np.float64)[np.ix_(rows, rows)]
    parts = [member == g for g in range(levels.size)]
    to_center = _to_medians if center == "median" else _to_centroids
    sq_distances = to_center(sq_d, parts)
    below = sq_distances < -1e-12 * float(np.abs(sq_d).max())
    if below.any():
        message = f"{int(below.sum())} negative squared distances to a center were set to zero."
        warnings.warn(NeucmdsWarning(message), stacklevel=2)
    z = np.sqrt(np.maximum(sq_distances, 0.0))
    means = np.array([z[part].mean() for part in parts])
    residuals, sizes = z - means[member], np.bincount(member)
    if np.abs(residuals).max() <= 1e-8 * math.sqrt(float(np.abs(sq_d).max())):
        raise InputError(
            f"in each of {levels.size} groups all objects are as far from its center, so that F "
            "does not exist; pass groups of at least three different objects."
        )

    def f(values: Floats) -> float:
        between = np.sum(np.bincount(member, values) ** 2 / sizes)
        within = values @ values - between
        return float((between / (levels.size - 1)) / (within / (z.size - levels.size)))

    orders = _permutations(permutations, z.size, _seed(random_state))
    test = _tested(f(z - z.mean()), (f(residuals[order]) for order in orders))
    distances = np.full(len(squares), math.nan)
    distances[rows] = z
    return Dispersion(*test, tuple(map(str, levels)), distances, means)


def _frame(groups: Any) -> Any:
    return groups.to_frame("groups") if hasattr(groups, "to_frame") else {"groups": groups}


def _to_centroids(sq_d: Floats, parts: Sequence[Any]) -> Floats:
    """Compute squared distances to the centroids of groups from D."""
    found = np.empty(len(sq_d))
    for part in parts:
        means = sq_d[np.ix_(part, part)].mean(axis=1)
        found[part] = means - means.mean() / 2
    return found


def _to_medians(sq_d: Floats, parts: Sequence[Any]) -> Floats:
    """Compute squared distances to spatial medians: the positive minus the negative part."""
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
    """Return the point with the least sum of distances to the rows of x."""

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
    >>> from neucmds.ecology.ordination import protest
    >>> x = np.random.default_rng(0).normal(size=(20, 2))
    >>> protest(x, 3 * x[:, ::-1] + 1, permutations=99, random_state=0).p
    0.01
    """
    (x, x_signs, x_names), (y, y_signs, y_names) = _coordinates(a), _coordinates(b)
    rows, cols = common_objects(x_names, len(x), y_names, len(y))
    (x, y), signs, _ = columns_by_sign(x[rows], x_signs, y[cols], y_signs)
    norm = float(np.linalg.norm(x) * np.linalg.norm(y)) or 1.0

    def correlation(points: Floats) -> float:
        if (signs > 0).all():
            return float(np.linalg.svd(x.T @ points / norm, compute_uv=False).sum())
        return math.sqrt(1 - align(x, points, signs).disparity)

    orders = _permutations(permutations, len(x), _seed(random_state))
    return PermutationTest(*_tested(correlation(y), (correlation(y[order]) for order in orders)))


def _seed(random_state: Any) -> int:
    return int(check_random_state(random_state).randint(2**31))


def _permutations(permutations: Any, n: int, seed: int) -> Iterator[npt.NDArray[np.intp]]:
    """Yield permutations of n objects: those given, or as many random ones."""
    if np.ndim(permutations) == 2:
        orders = np.asarray(permutations)
        if not np.array_equal(np.sort(orders, axis=1), np.tile(np.arange(n), (len(orders), 1))):
            raise InputError(
                f"each row of {option('permutations')} must hold the numbers 0 to {n - 1}."
            )
        yield from orders.astype(np.intp)
        return
    if not isinstance(permutations, (int, np.integer)) or permutations < 0:
        raise InputError(f"{option('permutations', permutations)} must be a whole number ≥ 0.")
    rng = np.random.default_rng(seed)
    yield from (rng.permutation(n) for _ in range(permutations))


def _tested(observed: float, permuted: Iterable[float]) -> tuple[float, float, Floats]:
    """Return a statistic, the share of permutations that reach it, and theirs."""
    values = np.array(list(permuted), dtype=np.float64)
    as_large = int(np.sum(values >= observed - _TIE))
    return observed, (as_large + 1) / (values.size + 1) if values.size else math.nan, values


def _fit_vector(name: str, x: Floats, column: Floats, permutations: int, seed: int) -> VectorFit:
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

    orders = _permutations(permutations, values.size, seed)
    observed, p, _ = _tested(r2(slice(None)), map(r2, orders))
    return VectorFit(name, slope / length if length else slope, observed, p, values.size)


def _fit_factor(
    name: str, x: Floats, column: Sequence[str | None], permutations: int, seed: int
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

    centroids: Floats = np.asarray(members @ points) / sizes[:, None]
    orders = _permutations(permutations, classes.size, seed)
    observed, p, _ = _tested(r2(slice(None)), map(r2, orders))
    return FactorFit(name, tuple(map(str, levels)), centroids, observed, p, classes.size)


def _centered(values: Floats) -> Floats:
    centered: Floats = values - values.mean(axis=0) if len(values) else values
    return centered


def _coordinates(embedding: Any) -> tuple[Floats, Floats, tuple[str, ...] | None]:
    """Return coordinates, signs and labels."""
    if isinstance(embedding, Embedding):
        x, signs = (to_numpy(part) for part in (embedding.coordinates, embedding.signs))
        return x.astype(np.float64), signs.astype(np.float64), embedding.labels
    values = to_numpy(as_real(embedding, "coordinates")).astype(np.float64)
    if values.ndim != 2 or 0 in values.shape or not np.isfinite(values).all():
        raise InputError(
            f"coordinates have shape {values.shape}; they must be finite numbers of shape (n, k)."
        )
    return values, np.ones(values.shape[1]), None


def checked_axes(axes: Sequence[int] | None, k: int) -> tuple[int, ...]:
    """Check that axes are different and from 1 to k; the first two by default."""
    wanted = range(1, min(k, 2) + 1) if axes is None else axes
    wanted = tuple(np.atleast_1d(np.asarray(wanted)).tolist())
    if not wanted or len(set(wanted)) < len(wanted):
        raise InputError(f"{option('axes', wanted)} must be different axes, as in (1, 2).")
    for axis in wanted:
        if axis != int(axis) or not 1 <= axis <= k:
            raise InputError(
                f"{option('axes', wanted)}: axis {axis} does not exist; there are 1 to {k}."
            )
    return tuple(map(int, wanted))
