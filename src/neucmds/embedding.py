"""Coordinates and signature: what a selection of eigenpairs becomes, as one immutable value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds.arrays import Array, asarray_like, namespace, to_numpy
from neucmds.errors import InputError
from neucmds.geometry import sq_dissimilarities
from neucmds.gram import Gram
from neucmds.placement import LeastSquaresPlacement, LinearPlacement, Placement
from neucmds.refine import Refined
from neucmds.selection import Components, Selection, neuc_plus
from neucmds.spectrum import Spectrum
from neucmds.stress import StressTerms, kept_vectors, stress_terms

__all__ = ["Embedding", "diagonalize", "embed", "embed_refined"]


@dataclass(frozen=True)
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
        Kept eigenvalues λ of B, largest magnitude first. For the paper's methods, and up to rows
        given up as zero, eigenvalue and coordinate correspond.
    weights : array of shape (k,)
        λ̃: the signed squared length of each coordinate column.
    stress_terms : tuple of three floats
        C1, C2 and C3 (thm:stress-decomp); their sum is the exact STRESS.
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
        ``‖B u − λ u‖`` of the kept eigenpairs.
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
        from neucmds.storage import save_embedding

        save_embedding(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Embedding:
        """Read what `save` wrote."""
        from neucmds.storage import load_embedding

        return load_embedding(path)

    def with_labels(self, labels: tuple[str, ...] | None) -> Embedding:
        """Return the same embedding with names for its objects."""
        return replace(self, labels=labels)

    def _indices(self, which: Any) -> Array:
        ids = np.arange(self.n)[slice(None) if which is None else which]
        xp = namespace(self.coordinates)
        return asarray_like(np.atleast_1d(ids), self.coordinates, dtype=xp.int64)


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


def embed(
    gram: Gram,
    spectrum: Spectrum,
    selection: Selection,
    *,
    method: str,
    requested: int,
    squared: bool = False,
    labels: tuple[str, ...] | None = None,
) -> Embedding:
    """Turn kept pairs and their core M into coordinates, by one rule for all methods.

    M = V Diag(μ) Vᵀ, coordinates U_W V √|μ|, signs sign(μ). Indefiniteness is explicit: no square
    root of a negative number is ever taken.
    """
    u = kept_vectors(spectrum, selection)
    weights, rotation = diagonalize(selection.core)
    lam = spectrum.ends.values[selection.kept]
    scale = np.sqrt(np.abs(weights))
    to_coordinates = asarray_like(rotation * scale, u)
    coordinates = u @ to_coordinates
    projector = u @ asarray_like((rotation * scale) / lam[:, None], u)
    flips = column_signs(coordinates)
    xp = namespace(u)
    by_size = np.argsort(-np.abs(lam), kind="stable")
    residuals = to_numpy(spectrum.residuals)[selection.kept][by_size]

    def cast(array: Array) -> Array:
        return xp.astype(array, gram.dtype, copy=False)

    return Embedding(
        coordinates=cast(coordinates * flips),
        signs=asarray_like(np.sign(weights), coordinates, dtype=gram.dtype),
        eigenvalues=asarray_like(lam[by_size], coordinates),
        weights=asarray_like(weights, coordinates),
        stress_terms=stress_terms(spectrum, gram.diagonal(), selection),
        sq_norm=gram.moments.sq_norm,
        method=method,
        requested=requested,
        squared=squared,
        labels=labels,
        placement=LinearPlacement(cast(gram.moments.row_means), cast(projector * flips)),
        residuals=asarray_like(residuals, coordinates),
        converged=spectrum.converged,
        solver=spectrum.solver,
    )


def embed_refined(
    gram: Gram,
    spectrum: Spectrum,
    refined: Refined,
    *,
    method: str,
    requested: int,
    squared: bool = False,
    labels: tuple[str, ...] | None = None,
) -> Embedding:
    """Wrap free coordinates; new objects are placed by least squares among them."""
    xp = gram.xp
    coordinates = refined.coordinates * column_signs(refined.coordinates)
    kept = neuc_plus(spectrum.ends, Components(requested)).kept
    lam = spectrum.ends.values[kept]
    by_size = np.argsort(-np.abs(lam), kind="stable")
    coordinates = xp.astype(coordinates, gram.dtype, copy=False)
    signs = asarray_like(np.sign(refined.weights), coordinates)
    return Embedding(
        coordinates=coordinates,
        signs=signs,
        eigenvalues=asarray_like(lam[by_size], coordinates, dtype=xp.float64),
        weights=asarray_like(refined.weights, coordinates, dtype=xp.float64),
        stress_terms=refined.stress_terms,
        sq_norm=gram.moments.sq_norm,
        method=method,
        requested=requested,
        squared=squared,
        labels=labels,
        placement=LeastSquaresPlacement(coordinates, signs),
        residuals=asarray_like(to_numpy(spectrum.residuals)[kept][by_size], coordinates),
        converged=spectrum.converged and refined.converged,
        solver=spectrum.solver,
        history=refined.history,
    )


def diagonalize(
    core: npt.NDArray[np.float64],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Eigenvalues μ of M, largest magnitude first and zeros left out, and their vectors V."""
    if core.ndim == 1:
        mu, vectors = core, np.eye(core.size)
    else:
        mu, vectors = np.linalg.eigh((core + core.T) / 2)
    order = np.argsort(-np.abs(mu), kind="stable")
    largest = float(np.max(np.abs(mu), initial=0.0))
    order = order[np.abs(mu[order]) > largest * np.finfo(np.float64).eps]
    return mu[order], vectors[:, order]


def column_signs(columns: Array) -> Array:
    """Return ±1 for each column: the sign that makes its first largest entry positive.

    Entries within 1e-6 of the largest count as largest, so that rounding cannot choose between
    two of equal size.
    """
    xp = namespace(columns)
    if columns.shape[1] == 0:
        return xp.ones((0,), dtype=columns.dtype)
    size = xp.abs(columns)
    largest = xp.max(size, axis=0, keepdims=True)
    near = xp.astype(size >= (1 - 1e-6) * largest, xp.int64)
    first = xp.argmax(near, axis=0, keepdims=True)
    row_ids = asarray_like(np.arange(columns.shape[0]), columns, dtype=first.dtype)
    leading = xp.sum(xp.where(row_ids[:, None] == first, columns, xp.zeros_like(columns)), axis=0)
    return xp.where(leading < 0, -xp.ones_like(leading), xp.ones_like(leading))
