"""What the axes mean: how variables measured on the objects relate to their coordinates."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils import check_random_state

from neucmds._backend.arrays import to_numpy
from neucmds._input import as_metadata, column_values, listed, match_rows, read_metadata
from neucmds.embedding import Embedding
from neucmds.errors import InputError, NeucmdsWarning, option

__all__ = ["EnvFit", "FactorFit", "VectorFit", "envfit", "read_metadata"]

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
    coordinates, labels = _coordinates(embedding)
    wanted = _checked_axes(axes, coordinates.shape[1])
    x = coordinates[:, [a - 1 for a in wanted]]
    table = match_rows(as_metadata(metadata), labels, len(x))
    if not isinstance(permutations, (int, np.integer)) or permutations < 0:
        raise InputError(f"{option('permutations', permutations)} must be a whole number ≥ 0.")
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
    """Share of the permutations, the data as they are among them, with an r² as large."""
    if not permutations:
        return math.nan
    orders: Iterator[npt.NDArray[np.intp]] = (rng.permutation(n) for _ in range(permutations))
    as_large = sum(r2(order) >= observed - _TIE for order in orders)
    return (as_large + 1) / (permutations + 1)


def _centered(values: Floats) -> Floats:
    centered: Floats = values - values.mean(axis=0) if len(values) else values
    return centered


def _coordinates(embedding: Any) -> tuple[Floats, tuple[str, ...] | None]:
    if isinstance(embedding, Embedding):
        return to_numpy(embedding.coordinates).astype(np.float64), embedding.labels
    try:
        values = np.asarray(to_numpy(embedding), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError("coordinates must be an Embedding or an array of numbers.") from error
    if values.ndim != 2 or 0 in values.shape or not np.isfinite(values).all():
        raise InputError(
            f"coordinates have shape {values.shape}; they must be finite numbers of shape (n, k)."
        )
    return values, None


def _checked_axes(axes: Sequence[int] | None, k: int) -> tuple[int, ...]:
    wanted = tuple(range(1, min(k, 2) + 1)) if axes is None else tuple(int(a) for a in axes)
    for axis in wanted:
        if not 1 <= axis <= k:
            raise InputError(f"axis {axis} does not exist; there are axes 1 to {k}.")
    if not wanted or len(set(wanted)) < len(wanted):
        raise InputError(f"axes {wanted} must be different, and at least one.")
    return wanted
