"""The result: coordinates with a signature, as one immutable value."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from neucmds._backend.arrays import Array, asarray_like, namespace, to_numpy
from neucmds._methods.geometry import sq_dissimilarities
from neucmds._methods.solution import Solution
from neucmds._methods.stress import StressTerms
from neucmds._placement.rules import (
    SHRINKAGE,
    LeastSquaresPlacement,
    LinearPlacement,
    Placement,
)
from neucmds.errors import FileFormatError, InputError

__all__ = ["Embedding", "build_embedding"]

FORMAT_VERSION = 1
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
    def signature(self) -> tuple[int, int]:
        """Numbers of positive and of negative coordinates (p, q)."""
        negative = int(np.sum(to_numpy(self.signs) < 0))
        return self.k - negative, negative

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

    def _indices(self, which: Any) -> Array:
        ids = np.arange(self.n)[slice(None) if which is None else which]
        xp = namespace(self.coordinates)
        return asarray_like(np.atleast_1d(ids), self.coordinates, dtype=xp.int64)


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
            "was on unsquared dissimilarities (squared=False)."
        )
    return delta


def _save(embedding: Embedding, path: str | PathLike[str]) -> None:
    """Write an embedding to `path`: first beside it, then moved into place."""
    target = Path(path)
    header = {name: getattr(embedding, name) for name in _SAVED_SCALARS}
    header |= {"format": "neucmds.Embedding", "version": FORMAT_VERSION}
    header["placement"] = type(embedding.placement).__name__
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
    labels = tuple(str(name) for name in arrays["labels"]) if "labels" in arrays else None
    c1, c2, c3 = (float(term) for term in arrays["stress_terms"])
    return Embedding(
        **{name: arrays[name] for name in _SAVED_ARRAYS},
        **{name: header[name] for name in _SAVED_SCALARS},
        stress_terms=(c1, c2, c3),
        labels=labels,
        placement=placement,
        history=tuple(float(value) for value in arrays["history"]),
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
