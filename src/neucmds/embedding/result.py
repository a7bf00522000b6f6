"""`Embedding`: coordinates with a signature, as one immutable value."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, overload

import numpy as np
import numpy.typing as npt

from neucmds.alignment import Alignment, align, columns_by_sign
from neucmds.backend.arrays import Array, asarray_like, is_array, namespace, row_blocks, to_numpy
from neucmds.backend.files import atomic_file
from neucmds.embedding import saved
from neucmds.embedding.info import Info
from neucmds.embedding.inner_product import InnerProduct
from neucmds.errors import InputError, option
from neucmds.form import Form, kappa_of
from neucmds.place.least_squares import SHRINKAGE, LeastSquaresPlacement, LinearPlacement, Placement
from neucmds.place.neighbors import nearest
from neucmds.place.new_rows import check_gaps, check_shape, checked_weights, sq_rows
from neucmds.place.newton import LossPlacement
from neucmds.problem.containers import as_real
from neucmds.problem.names import common_objects, ordered_by_name, rows_ordered_as
from neucmds.problem.validation import as_labels
from neucmds.refine.solution import Solution
from neucmds.spectrum.geometry import StressTerms

# Of NumPy unless the input was of another array library.
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Object = int | str
_SINGLE = (int, str, np.int64)


@dataclass(frozen=True, repr=False)
class Embedding:
    """k real coordinates for each of n objects, with a sign for each coordinate.

    The dissimilarity it gives two objects is ``D̂_ij = Σ_a signs[a] (x_ia − x_ja)²``, on the squared
    scale. Coordinates come ordered by the size of their weight, largest first.

    Parameters
    ----------
    coordinates : array of shape (n, k)
    signs : array of shape (k,)
        ±1.0 each.
    weights : array of shape (k,)
        λ̃: the signed squared length of each coordinate column.
    stress_terms : tuple of three floats
        C1, C2 and C3 (thm:stress-decomp); their sum is the exact STRESS. A weighted STRESS has no
        such terms: it stands first, beside two zeros.
    method : str
        As of `neuc_mds`.
    requested : int
        Number of coordinates asked for; `k` may be smaller.
    info : Info
        How they were found: solver, convergence, eigenvalues, errors.
    squared : bool
        Whether the input held squared dissimilarities; `transform` expects the same.
    labels : tuple of str or None
    placement : Placement or None
        The rule behind `transform`.
    loss : {"squared", "distance", "relative"}
        What was minimised.
    loss_value : float
        The value of the loss, over all n² ordered pairs; for "squared" it is the STRESS.
    missing : {"error", "ignore"}
        Whether `transform` accepts NaN for unknown dissimilarities.
    curvature : float
        κ·(mean d)²: D̂ approximates g(d), which is d² where κ is zero (see `neuc_mds`). Negative:
        hyperbolic; positive: spherical. STRESS and R² are always computed on d².
    mean_distance : float
        The mean d, the unit of the curvature; NaN for the squared loss.
    landmarks : ndarray of shape (L,) or None
        Numbers of the landmarks, if all other objects were placed among them: `transform` takes
        dissimilarities to these alone, in this order, and STRESS, R², weights and eigenvalues are
        those of the landmarks.
    """

    coordinates: Floats
    signs: Floats
    weights: Floats
    stress_terms: StressTerms
    method: str
    requested: int
    info: Info
    squared: bool = False
    labels: tuple[str, ...] | None = None
    placement: Placement | None = None
    loss: str = "squared"
    loss_value: float = math.nan
    missing: str = "error"
    curvature: float = 0.0
    mean_distance: float = math.nan
    landmarks: npt.NDArray[np.intp] | None = None

    def __repr__(self) -> str:
        positive, negative = self.signature
        bend = f" of curvature {self.curvature:.3g}" if self.curvature else ""
        return (
            f"<Embedding of {self.n} objects by {self.method}: {positive} positive and "
            f"{negative} negative coordinates{bend}, STRESS {self.stress:.4g} "
            f"({self.normalized_stress:.2%} of ‖D‖²){self._stress_note}>"
        )

    @property
    def n(self) -> int:
        """Number of objects."""
        return int(self.coordinates.shape[0])

    @property
    def k(self) -> int:
        """Number of coordinates."""
        return int(self.coordinates.shape[1])

    @property
    def stress(self) -> float:
        """‖D̂ − D‖²_F over all n² entries, on the squared scale."""
        return sum(self.stress_terms)

    @property
    def normalized_stress(self) -> float:
        """STRESS as a share of ‖D‖²_F: 0 is perfect, 1 is no better than D̂ = 0."""
        return self.stress / self.info.sq_norm if self.info.sq_norm else 0.0

    @property
    def r2(self) -> float:
        """1 − STRESS / Σ(D − mean)² over pairs, squared scale: 1 is perfect, 0 is like a constant.

        NaN if all dissimilarities are equal, or in files written before it was stored.
        """
        return (
            1 - self.stress / self.info.total_sum_of_squares
            if self.info.total_sum_of_squares
            else math.nan
        )

    @property
    def _landmarks_alone(self) -> str:
        """Say that weights and R² are those of the landmarks, if they are."""
        return "" if self.landmarks is None else f"the {len(self.landmarks)} landmarks alone"

    @property
    def _stress_note(self) -> str:
        """Say which pairs STRESS and R² are computed from, if not from all."""
        if self._landmarks_alone:
            return f", of {self._landmarks_alone}"
        info = self.info
        if not info.held_out_pairs:
            return ""
        return (
            f", ± {info.stress_standard_error:.2g}; R² {self.r2:.3f} ± "
            f"{info.r2_standard_error:.2g}, from {info.held_out_pairs} pairs that were not fitted"
        )

    @property
    def signature(self) -> tuple[int, int]:
        """Numbers of positive and of negative coordinates (p, q)."""
        negative = int(np.sum(to_numpy(self.signs) < 0))
        return self.k - negative, negative

    @property
    def explained(self) -> npt.NDArray[np.float64]:
        """R² lost without each coordinate, the others as they are; shape (k,).

        They do not add up to `r2`: coordinates are fitted together. Where a coordinate makes the
        fit worse ("classical"), its value is negative. For a curved embedding of more than 1000
        objects it is estimated from the pairs between about 1000 of them and all. NaN where R² is
        NaN, or in files written before it was stored.
        """
        total = self.info.total_sum_of_squares or math.nan
        rises = (
            np.full(self.k, math.nan) if self.info.stress_rises is None else self.info.stress_rises
        )
        return np.asarray(to_numpy(rises) / total)

    @property
    def shares(self) -> dict[str, npt.NDArray[np.float64]]:
        """Each kept eigenvalue as a fraction of a sum of eigenvalues; keys name the convention.

        For "classical" and "neuc", which project on eigenvectors; empty otherwise. "trace":
        λ / Σλ over all eigenvalues, as R's ape and scikit-bio's ``pcoa(dimensions=k)``. "positive":
        λ / Σλ over the positive ones, if all are known, as vegan's ``capscale`` and scikit-bio's
        ``pcoa`` of all dimensions.
        """
        if self.method not in ("classical", "neuc"):
            return {}
        sums = {"trace": self.info.trace, "positive": self.info.positive_trace}
        lam = to_numpy(self.info.eigenvalues)
        return {name: lam / total for name, total in sums.items() if total > 0}

    @property
    def axis_names(self) -> tuple[str, ...]:
        """Names that encode the sign and are valid R column names: axis1, axis2_neg."""
        return tuple(
            f"axis{a}" if sign > 0 else f"axis{a}_neg"
            for a, sign in enumerate(to_numpy(self.signs), 1)
        )

    @property
    def complex_coordinates(self) -> npt.NDArray[np.complex128]:
        """The paper's complex X: D̂ is the plain (unconjugated) dot product of differences.

        Paper: eq:embeddingX.
        """
        xp = namespace(self.coordinates)
        roots = xp.sqrt(xp.astype(self.signs, xp.complex128))
        product: npt.NDArray[np.complex128] = xp.astype(self.coordinates, xp.complex128) * roots
        return product

    @property
    def floor(self) -> float:
        """The d below which "relative" divides errors by it instead of d; NaN for "squared"."""
        if not isinstance(self.placement, LossPlacement):
            return math.nan
        return float(self.form.to_distance(np.array([self.placement.loss.floor]))[0])

    @property
    def kappa(self) -> float:
        """The curvature κ in the units of the data: ``curvature / mean_distance**2``."""
        return self.form.curvature

    @cached_property
    def form(self) -> Form:
        """The function from coordinates to dissimilarities."""
        return Form(self.signs, kappa_of(self.curvature, self.mean_distance))

    def dissimilarities(
        self, rows: Any = None, cols: Any = None, *, squared: bool = False
    ) -> Floats:
        """Fitted dissimilarities, all of them or those of the given rows and columns.

        Parameters
        ----------
        rows, cols : slice, int, str, sequence of them, mask of length n, or None
            Which objects, by number or by name; None means all.
        squared : bool, default=False
            False: distances, as `distance` returns them. True: D̂ itself, which may be negative;
            for a curved embedding on the scale of g(d).
        """
        row_ids, col_ids = self._indices(rows), self._indices(cols)
        d_hat: Floats = self.form.sq(self._taken(row_ids), self._taken(col_ids))
        xp = namespace(d_hat)
        same = asarray_like(row_ids[:, None] == col_ids[None, :], d_hat, dtype=xp.bool)
        return self._scaled(xp.where(same, xp.zeros_like(d_hat), d_hat), squared)

    @overload
    def distance(self, i: Object, j: Object, *, squared: bool = ...) -> float: ...

    @overload
    def distance(self, i: Any, j: Any, *, squared: bool = ...) -> Floats: ...

    def distance(self, i: Any, j: Any, *, squared: bool = False) -> Any:
        """Dissimilarities of pairs: the first of `i` with the first of `j`, and so on.

        Parameters
        ----------
        i, j : int, str, or sequences of them
            Objects, by number or by name; shapes are broadcast.
        squared : bool, default=False
            False: the fitted distance g⁻¹(max(D̂, 0)), which is √max(D̂, 0) without curvature.
            True: D̂ itself, which may be negative.

        Returns
        -------
        float or array
            A number for two single objects, otherwise an array of the broadcast shape.

        Examples
        --------
        >>> import pandas as pd
        >>> from neucmds import neuc_mds
        >>> names = ["here", "there", "away"]
        >>> emb = neuc_mds(pd.DataFrame([[0, 3, 4], [3, 0, 5], [4, 5, 0]], names, names), 2)
        >>> round(emb.distance("here", "there"), 6)
        3.0
        >>> emb.distance([0, 0], [1, 2]).round(6).tolist()
        [3.0, 4.0]
        """
        if type(i) in _SINGLE and type(j) in _SINGLE and self.form.is_flat:
            found = self._pair(i, j)
            if found is not None:
                return found if squared else math.sqrt(max(found, 0.0))
        both = self._numbers(i), self._numbers(j)
        try:
            left, right = np.broadcast_arrays(*both)
        except ValueError as problem:
            raise InputError(
                f"i has shape {both[0].shape} and j has {both[1].shape}, which do not broadcast; "
                "pass as many of both, or one object for all."
            ) from problem
        xp = namespace(self.coordinates)
        parts = []
        for some in row_blocks(left.size, max(1, 2 * self.k), 2**18):
            x, y = (self._taken(ids.ravel()[some]) for ids in (left, right))
            parts.append(self.form.paired_sq(x, y))
        d_hat = xp.concat(parts) if parts else self.signs[:0]
        d_hat = self._scaled(d_hat, squared)
        return float(d_hat[0]) if left.ndim == 0 else xp.reshape(d_hat, left.shape)

    def between(self, a: Any, b: Any, *, squared: bool = False) -> Floats:
        """Fitted dissimilarities between two sets of coordinates, such as `transform` returns.

        Parameters
        ----------
        a : array of shape (m, k)
        b : array of shape (l, k)
        squared : bool, default=False
            As for `dissimilarities`.

        Returns
        -------
        array of shape (m, l)
        """
        d_hat = self.form.sq(self._as_points(a, "a"), self._as_points(b, "b"))
        return self._scaled(d_hat, squared)

    def _scaled(self, d_hat: Floats, squared: bool) -> Floats:
        """Return D̂ as it is, or the distances that it stands for."""
        if squared:
            return d_hat
        fitted: Floats = self.form.to_distance(d_hat)
        return fitted

    def neighbors(
        self, k: int = 10, queries: Any = None, *, among: Any = None, squared: bool = False
    ) -> tuple[Ints, Floats]:
        """Find the nearest fitted objects by D̂, exactly.

        Parameters
        ----------
        k : int, default=10
            How many for each query.
        queries : array of shape (m, n_coordinates), optional
            Coordinates, such as `transform` returns. None: the fitted objects, each without itself.
        among : slice, sequence of int or str, or mask of length n, optional
            Which objects may be found; all by default.
        squared : bool, default=False
            As for `dissimilarities`.

        Returns
        -------
        indices : array of shape (m, k)
            Numbers of the nearest objects, nearest first; of equal ones the lower number first.
        dissimilarities : array of shape (m, k)
            Their fitted dissimilarities. D̂ may be negative; the most negative is the nearest.

        Examples
        --------
        >>> from neucmds import neuc_mds
        >>> emb = neuc_mds([[0, 1, 4], [1, 0, 3], [4, 3, 0]], 1)
        >>> emb.neighbors(1)[0].ravel().tolist()
        [1, 0, 1]
        """
        allowed = np.unique(self._indices(among))
        most = allowed.size - (queries is None)
        if most < 1:
            least = "two objects" if queries is None else "one object"
            raise InputError(f"{option('among')} must hold at least {least}.")
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 1 <= k <= most:
            raise InputError(f"k={k!r} must be a whole number of neighbours from 1 to {most}.")
        points = self.coordinates if queries is None else self._as_points(queries, "queries")
        xp = namespace(points)
        own = None
        if queries is None:
            own = np.full(self.n, -1)
            own[allowed] = np.arange(allowed.size)
        at, sq = nearest(self.form, points, self._taken(allowed), int(k), own)
        return asarray_like(allowed[to_numpy(at)], points, dtype=xp.int64), self._scaled(
            sq, squared
        )

    def append(self, coordinates: Any, labels: Sequence[str] | None = None) -> Embedding:
        """Return the embedding with objects that were placed later.

        Parameters
        ----------
        coordinates : array of shape (m, k)
            As `transform` returns them, or that of an estimator.
        labels : sequence of str, optional
            Names of the new objects, if the others have names.

        Returns
        -------
        Embedding
            Its `landmarks` are the objects that were fitted: `transform` still takes
            dissimilarities to these alone, and STRESS, R² and weights are unchanged.

        Examples
        --------
        >>> from neucmds import neuc_mds
        >>> emb = neuc_mds([[0, 3, 4], [3, 0, 5], [4, 5, 0]], 2)
        >>> more = emb.append(emb.transform([[3, 0, 5]]))
        >>> more.n, round(more.distance(1, 3), 6)
        (4, 0.0)
        """
        new = self._as_points(coordinates, "coordinates")
        xp = namespace(new)
        if (self.labels is None) != (labels is None):
            raise InputError(
                f"{option('labels')} must be given for new objects if and only if the {self.n} "
                "fitted objects have names."
            )
        return replace(
            self,
            coordinates=xp.concat([self.coordinates, new]),
            labels=as_labels([*(self.labels or ()), *(labels or ())] or None, self.n + len(new)),
            landmarks=np.arange(self.n) if self.landmarks is None else self.landmarks,
        )

    def __getitem__(self, which: Any) -> Embedding:
        """Return the embedding of some objects: a slice, numbers, names, or a mask of length n.

        STRESS, R² and weights stay those of all objects. A part has no `transform`; use that of the
        whole embedding.
        """
        ids = self._indices(which)
        labels = None if self.labels is None else tuple(self.labels[i] for i in ids)
        twice = next((name for name, count in Counter(labels or ()).items() if count > 1), None)
        if twice is not None:
            raise InputError(f"object {twice!r} is chosen more than once; name it once.")
        part = {"coordinates": self._taken(ids), "labels": labels}
        return replace(self, **part, landmarks=None, placement=None)

    def to_inner_product(self, *, unit: bool = False) -> InnerProduct:
        """Vectors whose inner product ranks objects as D̂ does: for vector indexes and databases.

        Parameters
        ----------
        unit : bool, default=False
            Whether all vectors have length one, with one more number each. Take it for HNSW
            graphs, which find almost nothing among vectors of different lengths, for inverted lists
            (IVF), and for indexes that know only cosines or Euclidean distances.

        Returns
        -------
        InnerProduct
            `vectors` for the database, `queries(coordinates)` for searches, and
            `sq_dissimilarities(scores, coordinates)` for D̂ from scores.
        """
        return InnerProduct(self.coordinates, self.signs, unit)

    def to_frame(self) -> Any:
        """Coordinates as a pandas DataFrame, with names of objects and axes (``axis2_neg``)."""
        from neucmds.interop import to_frame

        return to_frame(self)

    def to_skbio(self) -> Any:
        """Coordinates as scikit-bio's `OrdinationResults`; see `neucmds.interop.to_skbio`."""
        from neucmds.interop import to_skbio

        return to_skbio(self)

    def plot(self, color: Any = None, **options: Any) -> Any:
        """Draw the objects on two of their axes; see `neucmds.tools.plots.plot_coordinates`.

        Parameters
        ----------
        color : sequence of length n, optional
            A category or a number for each object.
        **options
            ``axes=(1, 2)``, ``names``, ``ellipses``, ``arrows``, ``title``, ``ax``.

        Returns
        -------
        matplotlib Axes

        Examples
        --------
        >>> from neucmds import neuc_mds
        >>> emb = neuc_mds([[0, 1, 1], [1, 0, 4], [1, 4, 0]], 2)
        >>> emb.plot(names=False, axes=(2, 1)).get_xlabel()[:16]
        'axis 2, negative'
        """
        from neucmds.tools.plots import plot_coordinates

        return plot_coordinates(self, color, **options)

    def plot_shepard(self, D: Any, **options: Any) -> Any:
        """Draw the fitted dissimilarities against D; see `neucmds.tools.plots.plot_shepard`.

        Parameters
        ----------
        D : as for `neuc_mds`
            What was embedded.
        **options
            ``squared``, ``symmetrize``, ``max_pairs``, ``random_state``, ``ax``.

        Returns
        -------
        matplotlib Axes
        """
        from neucmds.tools.plots import plot_shepard

        return plot_shepard(D, self, **options)

    def report(self, path: str | PathLike[str], D: Any = None, **options: Any) -> Path:
        """Write one HTML page to look at; see `neucmds.tools.report.write_report`.

        Parameters
        ----------
        path : path
        D : as for `neuc_mds`, optional
            The embedded dissimilarities, for the parts of the page that compare D̂ with D.
        **options
            ``metadata``, ``color_by``, ``title``, ``squared``, ``symmetrize``, ``weights``,
            ``missing``, ``random_state``, ``overwrite``.

        Returns
        -------
        Path

        Examples
        --------
        >>> import tempfile
        >>> from neucmds import neuc_mds
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = neuc_mds([[0, 1, 2], [1, 0, 1], [2, 1, 0]], 1).report(f"{folder}/line.html")
        ...     page.name
        'line.html'
        """
        from neucmds.tools.report import write_report

        return write_report(path, self, D, **options)

    def transform(self, new: Any, *, weights: Any = None) -> Floats:
        """Place new objects.

        Parameters
        ----------
        new : array or DataFrame of shape (m, n)
            Dissimilarities of the new objects to the fitted ones, or (m, L) to the `landmarks` if
            there are some; columns with names are matched with `labels`. On the scale of the fit:
            squared if and only if the fit had ``squared=True``. With ``missing="ignore"`` in the
            fit, NaN marks unknown ones; at least k + 1 per object must be known.
        weights : array or DataFrame of shape (m, n), optional
            How much each dissimilarity counts; zero: not at all. Columns with names are matched
            with `labels`, rows with those of `new` if it is a DataFrame, too. Only ratios within a
            row matter.

        Returns
        -------
        array of shape (m, k)
        """
        if self.placement is None:
            raise InputError(
                "this embedding holds a part of the fitted objects, or no rule for new ones; call "
                "transform of the whole embedding."
            )
        if self.landmarks is not None:
            fitted = replace(self[self.landmarks], placement=self.placement)
            return fitted.transform(new, weights=weights)
        weights = rows_ordered_as(weights, new, "rows of weights")
        new = ordered_by_name(new, self.labels, "columns of new objects", rows=False)
        delta = asarray_like(as_real(new, "new dissimilarities"), self.coordinates)
        check_shape(delta, self.n)
        check_gaps(delta, self.k, self.missing)
        xp, u = namespace(delta), None
        if weights is not None:
            shape, known = (int(delta.shape[0]), self.n), ~np.isnan(to_numpy(delta))
            u = checked_weights(weights, shape, self.k, self.labels, known)
        sq_new = sq_rows(delta, self.coordinates, squared=self.squared, loss=self.loss, weights=u)
        placed = self.placement.place(sq_new, u)
        rounded: Floats = xp.astype(placed, self.coordinates.dtype, copy=False)
        return rounded

    def save(self, path: str | PathLike[str] | BinaryIO) -> None:
        """Write everything to one npz file, atomically and without pickle.

        Parameters
        ----------
        path : path or binary file
            A path appears once the file is complete.

        Examples
        --------
        >>> import tempfile
        >>> from neucmds import Embedding, neuc_mds
        >>> embedding = neuc_mds([[0, 1, 2], [1, 0, 1], [2, 1, 0]], 1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     embedding.save(f"{folder}/line.npz")
        ...     Embedding.load(f"{folder}/line.npz").signature
        (1, 0)
        """
        if not isinstance(path, (str, PathLike)):
            saved.write(self, path)
            return
        with atomic_file(path) as file:
            saved.write(self, file)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Embedding:
        """Read what `save` wrote.

        Parameters
        ----------
        path : path

        Returns
        -------
        Embedding
            Its arrays are NumPy's, whatever library they were made in.

        Raises
        ------
        FileFormatError
            If the file is not such an embedding, is damaged, or was written by a newer version.
        """
        return saved.read(cls, Path(path))

    def _pair(self, i: Any, j: Any) -> float | None:
        """D̂ of one pair, ten times as fast as by arrays; None if these are needed."""
        x, n = self.coordinates, self.n
        i, j = (self._places.get(one, n) if type(one) is str else one for one in (i, j))
        if not (-n <= i < n and -n <= j < n and isinstance(x, np.ndarray)):
            return None
        return float(self.form.paired_sq(x[i], x[j]))

    @cached_property
    def _places(self) -> dict[str, int]:
        """Numbers of objects by their names."""
        return {name: at for at, name in enumerate(self.labels or ())}

    def _numbers(self, which: Any) -> Any:
        """Turn numbers or names of objects into numbers."""
        ids = np.asarray(which)
        if ids.dtype == object:  # a column of a table may hold numbers so
            ids = np.asarray(ids.tolist())
        if ids.dtype.kind in "UST" or ids.dtype == object:
            if self.labels is None:
                raise InputError("the objects have no names; pass their numbers.")
            try:
                found = [self._places[str(name)] for name in ids.ravel()]
            except KeyError as unknown:
                raise InputError(f"no object is called {unknown}.") from None
            return np.reshape(found, ids.shape).astype(int)
        if ids.size == 0:
            return ids.astype(int)
        if ids.dtype.kind not in "iu":
            raise InputError(f"objects are named by whole numbers or by name, not {ids.dtype}.")
        outside = ids[(ids < -self.n) | (ids >= self.n)]
        if outside.size:
            raise InputError(f"there is no object {int(outside.flat[0])} among {self.n}.")
        return np.where(ids < 0, ids + self.n, ids)

    def _as_points(self, points: Array, name: str) -> Array:
        array = asarray_like(as_real(points, name), self.coordinates)
        if array.ndim != 2 or array.shape[1] != self.k:
            raise InputError(
                f"{name} has shape {tuple(array.shape)}; expected (m, {self.k}): one row of "
                "coordinates for each object."
            )
        xp = namespace(array)
        if not bool(xp.all(xp.isfinite(array))):
            raise InputError(f"{name} hold NaN or infinity; drop these rows.")
        return array

    def _taken(self, ids: npt.NDArray[Any]) -> Array:
        """Coordinates of some objects."""
        xp = namespace(self.coordinates)
        ids = asarray_like(ids, self.coordinates, dtype=xp.int64)
        return xp.take(self.coordinates, ids, axis=0)

    def _indices(self, which: Any) -> npt.NDArray[Any]:
        if which is None or isinstance(which, slice):
            ids = np.arange(self.n)[which or slice(None)]
        else:
            given = np.asarray(to_numpy(which) if is_array(which) else which)
            is_mask = given.dtype == bool and given.shape == (self.n,)
            ids = np.flatnonzero(given) if is_mask else np.atleast_1d(self._numbers(given))
        if ids.ndim != 1:
            raise InputError(f"objects have shape {ids.shape}; pass one flat list of them.")
        return ids


def build_embedding(
    solution: Solution,
    method: str,
    requested: int,
    squared: bool = False,
    labels: tuple[str, ...] | None = None,
) -> Embedding:
    """Turn a solution into an embedding, in the precision of the input, with a placement rule."""
    xp, dtype, loss = namespace(solution.coordinates), solution.dtype, solution.loss
    coordinates = xp.astype(solution.coordinates, dtype, copy=False)
    signs = asarray_like(np.sign(solution.weights), coordinates)
    placement: Placement = LeastSquaresPlacement(coordinates, signs, shrinkage=SHRINKAGE)
    if solution.projector is not None:
        of_rows = (solution.row_means, solution.projector)
        placement = LinearPlacement(*(xp.astype(part, dtype, copy=False) for part in of_rows))
    if loss is not None:
        form = replace(solution.form, signs=signs)
        placement = LossPlacement(coordinates, form, loss)
    known = {field.name: getattr(solution, field.name) for field in fields(Solution)}
    for name in ("eigenvalues", "weights", "residuals"):
        known[name] = asarray_like(known[name], coordinates, dtype=xp.float64)
    info = Info(**{field.name: known[field.name] for field in fields(Info)})
    names = {field.name for field in fields(Embedding)} - {"loss"}
    shared: dict[str, Any] = {name: known[name] for name in names & known.keys()}
    if loss is None:
        shared["loss_value"] = sum(solution.stress_terms)
    else:
        shared["loss"] = loss.name
        if not solution.form.is_flat:
            shared["curvature"] = solution.form.curvature * solution.mean_distance**2
    shared |= {"info": info, "coordinates": coordinates, "signs": signs, "placement": placement}
    shared |= {"method": method, "requested": requested, "squared": squared, "labels": labels}
    return Embedding(**shared)


def procrustes(a: Embedding, b: Embedding, *, scaling: bool = True) -> Alignment:
    """Lay one embedding over another of the same objects, up to the isometries of the form.

    Coordinates are determined only up to O(p, q): rotations, reflections and, where signs differ,
    boosts that mix a positive with a negative coordinate. They all leave D̂ unchanged.

    Parameters
    ----------
    a, b : Embedding
        Objects are matched by name if both have names, those of one alone left out with a warning;
        otherwise by number. Where one has fewer coordinates of a sign, zeros stand for the others,
        as in vegan's ``procrustes``.
    scaling : bool, default=True
        Whether b may be multiplied by a constant.

    Returns
    -------
    Alignment
        With the `disparity` (for a signature (k, 0) that of `scipy.spatial.procrustes`) and the
        `coordinates` of b laid over those of a.

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import neuc_mds, procrustes
    >>> X = np.random.default_rng(0).normal(size=(30, 4))
    >>> D = np.abs(X[:, None] - X).sum(axis=2)
    >>> procrustes(neuc_mds(D, 3), neuc_mds(2 * D, 3)).disparity < 1e-12
    True
    """
    if not any(map(min, a.signature, b.signature)):
        raise InputError(
            f"the signatures {a.signature} and {b.signature} share no sign, so no isometry maps "
            "one to the other; compare D̂: "
            "evaluate(a, b.dissimilarities(squared=True), squared=True)."
        )
    rows = common_objects(a.labels, a.n, b.labels, b.n)
    of_a, of_b = (
        (to_numpy(emb.coordinates)[ids].astype(np.float64), to_numpy(emb.signs))
        for emb, ids in zip((a, b), rows, strict=True)
    )
    (x, y), signs, (order_a, order_b) = columns_by_sign(*of_a, *of_b)
    there, back = align(x, y, signs, scaling), np.argsort(order_a)
    isometry = there.isometry[np.argsort(order_b)][:, back]
    return replace(
        there, coordinates=there.coordinates[:, back], isometry=isometry, objects=rows[0]
    )
