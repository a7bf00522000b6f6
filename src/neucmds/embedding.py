"""The result: coordinates with a signature, as one immutable value."""

from __future__ import annotations

import json
import math
import os
import tempfile
import zipfile
import zlib
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from neucmds._backend.arrays import Array, asarray_like, namespace, row_blocks, to_numpy
from neucmds._methods.geometry import paired_sq_dissimilarities, sq_dissimilarities
from neucmds._methods.neighbors import nearest
from neucmds._methods.procrustes import Alignment, align
from neucmds._methods.refined.losses import PairLoss
from neucmds._methods.solution import Solution
from neucmds._methods.stress import StressTerms
from neucmds._placement.loss_rule import LossPlacement
from neucmds._placement.rules import (
    SHRINKAGE,
    LeastSquaresPlacement,
    LinearPlacement,
    Placement,
)
from neucmds.errors import FileFormatError, InputError, option

__all__ = ["Embedding", "InnerProduct", "procrustes"]

FORMAT_VERSION = 2
_SAVED_ARRAYS = ("coordinates", "signs", "eigenvalues", "weights", "residuals")
_SAVED_SCALARS = ("sq_norm", "method", "requested", "squared", "converged", "solver")


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
    eigenvalues : array of shape (k',)
        Kept eigenvalues λ of B: for the paper's methods one a coordinate, in their order; otherwise
        largest magnitude first.
    weights : array of shape (k,)
        λ̃: the signed squared length of each coordinate column.
    stress_terms : tuple of three floats
        C1, C2 and C3 (thm:stress-decomp); their sum is the exact STRESS. A weighted STRESS has no
        such terms: it stands first, beside two zeros.
    sq_norm : float
        ‖D‖²_F on the squared scale, which normalises STRESS.
    method : str
    requested : int
        Number of coordinates asked for; `k` may be smaller.
    squared : bool
        Whether the input held squared dissimilarities; `transform` expects the same.
    labels : tuple of str or None
    placement : Placement or None
        The rule behind `transform`.
    residuals : array of shape (k',)
        ``‖B u − λ u‖`` of the kept eigenpairs, or an estimate of it from some rows of B.
    converged : bool
    solver : str
    history : tuple of floats
        STRESS at the start of a refinement and after every iteration; empty for closed forms.
    total_sum_of_squares : float
        Σ(D − mean)² over the pairs i ≠ j, weighted as the STRESS is; NaN if not known.
    trace : float
        Trace of B: n − 1 times half the mean squared dissimilarity of a pair; NaN if not known.
    loss : {"squared", "distance", "relative"}
        What was minimised.
    loss_value : float
        The value of the loss, over all n² ordered pairs; for "squared" it is the STRESS.
    relative_gradient : float
        √(gᵀM⁻¹g / 2f) where "refined" ended, with f the loss, g its gradient and M the Gauss–Newton
        block of every object: 0 at a stationary point, NaN where it was not measured. Its square is
        the share of f that one more step promises, for the squared loss at most `stress_tol` if
        `converged`.
    """

    coordinates: Array
    signs: Array
    eigenvalues: Array
    weights: Array
    stress_terms: StressTerms
    sq_norm: float
    method: str
    requested: int
    squared: bool = False
    labels: tuple[str, ...] | None = None
    placement: Placement | None = None
    residuals: Array = None
    converged: bool = True
    solver: str = "full"
    history: tuple[float, ...] = ()
    total_sum_of_squares: float = math.nan
    trace: float = math.nan
    loss: str = "squared"
    loss_value: float = math.nan
    relative_gradient: float = math.nan

    def __repr__(self) -> str:
        positive, negative = self.signature
        return (
            f"<Embedding of {self.n} objects by {self.method}: {positive} positive and "
            f"{negative} negative coordinates, STRESS {self.stress:.4g} "
            f"({self.normalized_stress:.2%} of ‖D‖²)>"
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
        return self.stress / self.sq_norm if self.sq_norm else 0.0

    @property
    def r2(self) -> float:
        """1 − STRESS / Σ(D − mean)² over pairs, squared scale: 1 is perfect, 0 is like a constant.

        NaN if all dissimilarities are equal, or in files written before it was stored.
        """
        return (
            1 - self.stress / self.total_sum_of_squares if self.total_sum_of_squares else math.nan
        )

    @property
    def signature(self) -> tuple[int, int]:
        """Numbers of positive and of negative coordinates (p, q)."""
        negative = int(np.sum(to_numpy(self.signs) < 0))
        return self.k - negative, negative

    @property
    def explained(self) -> Array:
        """Signed share of each coordinate in the mean squared dissimilarity, shape (k,).

        The weight of a coordinate over the trace of B. A positive coordinate adds to D̂, a negative
        one takes off, and all of a complete embedding add up to one. For "classical" on Euclidean
        input it is scikit-bio's ``proportion_explained``.
        """
        return self.weights / self.trace

    @property
    def axis_names(self) -> tuple[str, ...]:
        """Names of the coordinates, which say the sign and survive R: axis1, axis2_neg."""
        return tuple(
            f"axis{a}" if sign > 0 else f"axis{a}_neg"
            for a, sign in enumerate(to_numpy(self.signs), 1)
        )

    @property
    def complex_coordinates(self) -> Array:
        """The paper's complex X: D̂ is the plain (unconjugated) dot product of differences.

        Paper: eq:embeddingX.
        """
        xp = namespace(self.coordinates)
        return xp.astype(self.coordinates, xp.complex128) * xp.sqrt(
            xp.astype(self.signs, xp.complex128)
        )

    def dissimilarities(self, rows: Any = None, cols: Any = None) -> Array:
        """D̂ on the squared scale, all of it or the given rows and columns.

        Parameters
        ----------
        rows, cols : slice, sequence of int or None
            Which objects; None means all.
        """
        xp = namespace(self.coordinates)
        row_ids, col_ids = self._indices(rows), self._indices(cols)
        x, y = (xp.take(self.coordinates, ids, axis=0) for ids in (row_ids, col_ids))
        same = row_ids[:, None] == col_ids[None, :]
        d_hat = sq_dissimilarities(x, y, self.signs)
        return xp.where(same, xp.zeros_like(d_hat), d_hat)

    def distance(self, i: Any, j: Any, *, squared: bool = False) -> Any:
        """Dissimilarities of pairs: the first of `i` with the first of `j`, and so on.

        Parameters
        ----------
        i, j : int, str, or sequences of them
            Objects, by number or by name; shapes are broadcast.
        squared : bool, default=False
            False: √max(D̂, 0), on the scale of distances; a negative D̂ counts as zero. True: D̂
            itself, which may be negative.

        Returns
        -------
        float or array
            A number for two single objects, otherwise an array of the broadcast shape.

        Examples
        --------
        >>> from neucmds import neuc_mds
        >>> D = [[0, 3, 4], [3, 0, 5], [4, 5, 0]]
        >>> emb = neuc_mds(D, 2, labels=["here", "there", "away"])
        >>> round(emb.distance("here", "there"), 6)
        3.0
        >>> emb.distance([0, 0], [1, 2]).round(6).tolist()
        [3.0, 4.0]
        """
        left, right = np.broadcast_arrays(self._numbers(i), self._numbers(j))
        xp = namespace(self.coordinates)
        parts = []
        for some in row_blocks(left.size, max(1, 2 * self.k), 2**18):
            x, y = (
                xp.take(
                    self.coordinates,
                    asarray_like(ids.ravel()[some], self.coordinates, dtype=xp.int64),
                    axis=0,
                )
                for ids in (left, right)
            )
            parts.append(paired_sq_dissimilarities(x, y, self.signs))
        d_hat = xp.concat(parts) if parts else self.signs[:0]
        d_hat = d_hat if squared else xp.sqrt(xp.clip(d_hat, min=0.0))
        return float(d_hat[0]) if left.ndim == 0 else xp.reshape(d_hat, left.shape)

    def between(self, a: Array, b: Array) -> Array:
        """D̂ between two sets of coordinates, such as `transform` returns; squared scale.

        Parameters
        ----------
        a : array of shape (m, k)
        b : array of shape (l, k)

        Returns
        -------
        array of shape (m, l)
            Entries may be negative.
        """
        return sq_dissimilarities(self._as_points(a, "a"), self._as_points(b, "b"), self.signs)

    def neighbors(self, k: int = 10, queries: Array | None = None) -> tuple[Array, Array]:
        """Find the nearest fitted objects by D̂, exactly.

        Parameters
        ----------
        k : int, default=10
            How many for each query.
        queries : array of shape (m, n_coordinates), optional
            Coordinates, such as `transform` returns. None: the fitted objects, each without itself.

        Returns
        -------
        indices : array of shape (m, k)
            Numbers of the nearest objects, nearest first; of equal ones the lower number first.
        sq_dissimilarities : array of shape (m, k)
            D̂ on the squared scale; it may be negative, and the most negative is the nearest.

        Examples
        --------
        >>> from neucmds import neuc_mds
        >>> emb = neuc_mds([[0, 1, 4], [1, 0, 3], [4, 3, 0]], 1)
        >>> emb.neighbors(1)[0].ravel().tolist()
        [1, 0, 1]
        """
        most = self.n - (queries is None)
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 1 <= k <= most:
            raise InputError(f"k={k!r} neighbours cannot be had; ask for 1 to {most}.")
        points = self.coordinates if queries is None else self._as_points(queries, "queries")
        own = np.arange(self.n) if queries is None else None
        return nearest(points, self.coordinates, self.signs, int(k), own)

    def to_inner_product(self) -> InnerProduct:
        """Vectors whose inner product ranks objects as D̂ does: for vector indexes and databases.

        Returns
        -------
        InnerProduct
            `vectors` for the database, `queries(coordinates)` for what is searched, and
            `sq_dissimilarities(scores, coordinates)` back from scores to D̂.
        """
        return InnerProduct(self.coordinates, self.signs)

    def to_frame(self) -> Any:
        """Coordinates as a pandas DataFrame, with names of objects and axes (``axis2_neg``)."""
        from neucmds.interop import to_frame

        return to_frame(self)

    def to_skbio(self) -> Any:
        """Coordinates as scikit-bio's `OrdinationResults`; see `neucmds.interop.to_skbio`."""
        from neucmds.interop import to_skbio

        return to_skbio(self)

    def transform(self, new: Array) -> Array:
        """Place new objects.

        Parameters
        ----------
        new : array of shape (m, n)
            Dissimilarities of the new objects to the fitted ones, on the scale of the fit:
            squared if and only if the fit had ``squared=True``.

        Returns
        -------
        array of shape (m, k)
        """
        if self.placement is None:
            raise InputError("this embedding was saved or made without what `transform` needs.")
        delta = _checked_new(asarray_like(new, self.coordinates), self)
        return self.placement.place(delta if self.squared else delta * delta)

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to one npz file, atomically and without pickle."""
        _save(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Embedding:
        """Read what `save` wrote."""
        return _load(path)

    def _numbers(self, which: Any) -> Any:
        """Turn numbers or names of objects into numbers, and refuse what is neither."""
        ids = np.asarray(which)
        if ids.dtype.kind in "UST" or ids.dtype == object:
            if self.labels is None:
                raise InputError("the objects have no names; pass their numbers.")
            place = {name: at for at, name in enumerate(self.labels)}
            names = [str(name) for name in ids.ravel()]
            missing = next((name for name in names if name not in place), None)
            if missing is not None:
                raise InputError(f"no object is called {missing!r}.")
            return np.reshape([place[name] for name in names], ids.shape).astype(int)
        if ids.size == 0:
            return ids.astype(int)
        if ids.dtype.kind not in "iu":
            raise InputError(f"objects are named by whole numbers or by name, not {ids.dtype}.")
        outside = ids[(ids < -self.n) | (ids >= self.n)] if ids.size else ids
        if outside.size:
            raise InputError(f"there is no object {int(outside.flat[0])} among {self.n}.")
        return np.where(ids < 0, ids + self.n, ids)

    def _as_points(self, points: Array, name: str) -> Array:
        array = asarray_like(points, self.coordinates)
        if array.ndim != 2 or array.shape[1] != self.k:
            raise InputError(
                f"{name} has shape {tuple(array.shape)}; expected (m, {self.k}): one row of "
                "coordinates for each object."
            )
        return array

    def _indices(self, which: Any) -> Array:
        ids = np.arange(self.n)[slice(None) if which is None else which]
        xp = namespace(self.coordinates)
        return asarray_like(np.atleast_1d(ids), self.coordinates, dtype=xp.int64)


def procrustes(a: Embedding, b: Embedding, *, scaling: bool = True) -> Alignment:
    """Lay one embedding over another of the same objects, up to the isometries of the form.

    Coordinates are determined only up to O(p, q): rotations, reflections and, where signs differ,
    boosts that mix a positive with a negative coordinate. None of them changes D̂.

    Parameters
    ----------
    a, b : Embedding
        Of the same number of objects, and of the same signature. Objects are matched by name if
        both have names, otherwise by number.
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
    if a.n != b.n:
        raise InputError(f"the embeddings hold {a.n} and {b.n} objects; they must hold the same.")
    if a.signature != b.signature:
        raise InputError(
            f"the signatures {a.signature} and {b.signature} differ, and no isometry leads from "
            f"one to the other; fit both with {option('n_components', a.signature)}."
        )
    order = np.arange(b.n) if a.labels is None or b.labels is None else b._numbers(list(a.labels))
    x, y = (to_numpy(emb.coordinates).astype(np.float64) for emb in (a, b))
    y = y[order]
    # Columns of one sign stand together in both, in the order of their weights.
    by_sign_a, by_sign_b = (np.argsort(-to_numpy(emb.signs), kind="stable") for emb in (a, b))
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    there = align(x[:, by_sign_a], y[:, by_sign_b], to_numpy(a.signs)[by_sign_a], scaling)
    back = np.argsort(by_sign_a, kind="stable")
    isometry = there.isometry[np.argsort(by_sign_b, kind="stable")][:, back]
    return replace(there, coordinates=there.coordinates[:, back], isometry=isometry)


@dataclass(frozen=True)
class InnerProduct:
    """D̂ as an inner product: with signs, a dissimilarity is one.

    ``D̂(q, x) = Σ s q² − ⟨(2 s∘q, −1), (x, Σ s x²)⟩``, so the largest inner product is the nearest
    object, whatever the signs are.

    Parameters
    ----------
    coordinates : array of shape (n, k)
    signs : array of shape (k,)

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import neuc_mds
    >>> emb = neuc_mds([[0, 1, 4], [1, 0, 3], [4, 3, 0]], 1)
    >>> index = emb.to_inner_product()
    >>> scores = index.queries(emb.coordinates) @ index.vectors.T
    >>> np.allclose(index.sq_dissimilarities(scores, emb.coordinates), emb.dissimilarities())
    True
    """

    coordinates: Array
    signs: Array

    @property
    def vectors(self) -> Array:
        """Database vectors (x, Σ s x²), shape (n, k + 1)."""
        return self._with_last(self.coordinates, self._norms(self.coordinates))

    def queries(self, coordinates: Array) -> Array:
        """Query vectors (2 s∘q, −1) of objects at these coordinates, shape (m, k + 1)."""
        q = asarray_like(coordinates, self.coordinates)
        xp = namespace(q)
        last = -xp.ones((q.shape[0],), dtype=q.dtype)
        return self._with_last(2 * q * self.signs[None, :], asarray_like(last, q))

    def sq_dissimilarities(self, scores: Array, coordinates: Array) -> Array:
        """D̂ from inner products, one row of scores for each row of query coordinates."""
        q = asarray_like(coordinates, self.coordinates)
        return self._norms(q)[:, None] - asarray_like(scores, q)

    def _norms(self, points: Array) -> Array:
        return (points * points) @ self.signs

    @staticmethod
    def _with_last(columns: Array, last: Array) -> Array:
        return namespace(columns).concat([columns, last[:, None]], axis=1)


def build_embedding(
    solution: Solution,
    *,
    method: str,
    requested: int,
    squared: bool = False,
    labels: tuple[str, ...] | None = None,
) -> Embedding:
    """Wrap what a method found, in the precision of the input and with a rule for new objects.

    Parameters
    ----------
    solution : Solution
    method, squared, labels
        As in `neuc_mds`.
    requested : int
        Number of coordinates asked for.
    """
    xp = namespace(solution.coordinates)

    def cast(array: Array) -> Array:
        return xp.astype(array, solution.dtype, copy=False)

    coordinates = cast(solution.coordinates)
    signs = asarray_like(np.sign(solution.weights), coordinates)
    placement: Placement = LeastSquaresPlacement(coordinates, signs, shrinkage=SHRINKAGE)
    if solution.projector is not None:
        placement = LinearPlacement(cast(solution.row_means), cast(solution.projector))

    if solution.loss is not None:
        placement = LossPlacement(coordinates, signs, solution.loss)

    def double(values: Any) -> Array:
        return asarray_like(values, coordinates, dtype=xp.float64)

    return Embedding(
        coordinates=coordinates,
        signs=signs,
        eigenvalues=double(solution.eigenvalues),
        weights=double(solution.weights),
        stress_terms=solution.stress_terms,
        sq_norm=solution.sq_norm,
        method=method,
        requested=requested,
        squared=squared,
        labels=labels,
        placement=placement,
        residuals=double(solution.residuals),
        converged=solution.converged,
        solver=solution.solver,
        history=solution.history,
        total_sum_of_squares=solution.total_sum_of_squares,
        trace=solution.trace,
        loss="squared" if solution.loss is None else solution.loss.name,
        loss_value=sum(solution.stress_terms) if solution.loss is None else solution.loss_value,
        relative_gradient=solution.relative_gradient,
    )


def _checked_new(delta: Array, embedding: Embedding) -> Array:
    xp = namespace(delta)
    if delta.ndim != 2 or delta.shape[1] != embedding.n:
        raise InputError(
            f"new dissimilarities have shape {tuple(delta.shape)}; expected (m, {embedding.n}): "
            "one row for each new object, one column for each fitted one."
        )
    if not bool(xp.all(xp.isfinite(delta))):
        raise InputError("new dissimilarities contain NaN or infinity; every entry must be finite.")
    if not embedding.squared and delta.shape[0] and float(xp.min(delta)) < 0:
        raise InputError(
            f"new dissimilarities have a negative entry ({float(xp.min(delta)):.3g}), but the fit "
            f"was on unsquared dissimilarities ({option('squared', False)})."
        )
    return delta


def _save(embedding: Embedding, path: str | PathLike[str]) -> None:
    """Write an embedding to `path`: first beside it, then moved into place."""
    target = Path(path)
    header = {name: getattr(embedding, name) for name in _SAVED_SCALARS}
    header |= {"format": "neucmds.Embedding", "version": FORMAT_VERSION}
    header["placement"] = type(embedding.placement).__name__
    header["loss"] = embedding.loss
    if isinstance(embedding.placement, LossPlacement):
        header["loss_floor"] = embedding.placement.loss.floor
    for name in ("total_sum_of_squares", "trace", "loss_value", "relative_gradient"):
        if math.isfinite(value := getattr(embedding, name)):
            header[name] = value
    arrays: dict[str, Any] = {name: to_numpy(getattr(embedding, name)) for name in _SAVED_ARRAYS}
    arrays["stress_terms"] = np.asarray(embedding.stress_terms)
    arrays["history"] = np.asarray(embedding.history, dtype=np.float64)
    if embedding.labels is not None:
        arrays["labels"] = np.asarray(embedding.labels, dtype=np.str_)
    if isinstance(embedding.placement, LinearPlacement):
        arrays["placement_mean"] = to_numpy(embedding.placement.mean)
        arrays["placement_projector"] = to_numpy(embedding.placement.projector)
    if isinstance(embedding.placement, LeastSquaresPlacement):
        for name in ("offsets", "ridge", "shrinkage"):
            if (values := getattr(embedding.placement, name)) is not None:
                arrays[f"placement_{name}"] = np.asarray(to_numpy(values))
    if not target.parent.is_dir():
        raise InputError(f"{target}: the folder {target.parent} does not exist; make it first.")
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, header=np.asarray(json.dumps(header)), **arrays)
        # mkstemp lets only its owner read; a result is as readable as any other new file.
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _load(path: str | PathLike[str]) -> Embedding:
    """Read an embedding; a foreign, damaged or newer file is refused by one clear line."""
    arrays = _read_arrays(Path(path))
    try:
        header = json.loads(str(arrays.pop("header")))
        known = header["format"] == "neucmds.Embedding" and int(header["version"]) > 0
    except (KeyError, ValueError, TypeError) as problem:
        raise FileFormatError(f"{path}: not an embedding saved by neucmds.") from problem
    if not known:
        raise FileFormatError(f"{path}: not an embedding saved by neucmds.")
    if int(header["version"]) > FORMAT_VERSION:
        raise FileFormatError(
            f"{path}: written in format {header['version']}, but this neucmds reads up to "
            f"{FORMAT_VERSION}; update neucmds."
        )
    try:
        return _rebuild(header, arrays)
    except (KeyError, ValueError, TypeError) as problem:
        raise FileFormatError(f"{path}: damaged, {problem!r} is missing or wrong.") from problem


def _rebuild(header: dict[str, Any], arrays: dict[str, Any]) -> Embedding:
    placement: Placement | None = None
    if header["placement"] == "LinearPlacement":
        placement = LinearPlacement(arrays["placement_mean"], arrays["placement_projector"])
    elif header["placement"] == "LeastSquaresPlacement":
        placement = LeastSquaresPlacement(
            arrays["coordinates"],
            arrays["signs"],
            arrays.get("placement_offsets"),
            arrays.get("placement_ridge"),
            float(arrays.get("placement_shrinkage", SHRINKAGE)),
        )
    elif header["placement"] == "LossPlacement":
        loss = PairLoss(str(header["loss"]), float(header["loss_floor"]))
        placement = LossPlacement(arrays["coordinates"], arrays["signs"], loss)
    labels = tuple(str(name) for name in arrays["labels"]) if "labels" in arrays else None
    c1, c2, c3 = (float(term) for term in arrays["stress_terms"])
    return Embedding(
        **{name: arrays[name] for name in _SAVED_ARRAYS},
        **{name: header[name] for name in _SAVED_SCALARS},
        stress_terms=(c1, c2, c3),
        labels=labels,
        placement=placement,
        history=tuple(float(value) for value in arrays["history"]),
        total_sum_of_squares=float(header.get("total_sum_of_squares", math.nan)),
        trace=float(header.get("trace", math.nan)),
        loss=str(header.get("loss", "squared")),
        loss_value=float(header.get("loss_value", math.nan)),
        relative_gradient=float(header.get("relative_gradient", math.nan)),
    )


def _read_arrays(path: Path) -> dict[str, Any]:
    try:
        if not zipfile.is_zipfile(path) and path.is_file():
            raise FileFormatError(f"{path}: not an embedding saved by neucmds.")
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError as problem:
        raise FileFormatError(f"{path}: no such file.") from problem
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as problem:
        if isinstance(problem, FileFormatError):
            raise
        raise FileFormatError(
            f"{path}: not an embedding saved by neucmds, or damaged ({problem})."
        ) from problem
