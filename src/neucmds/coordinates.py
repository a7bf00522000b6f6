"""From kept pairs, or freed coordinates, to an `Embedding`: one rule for weights and signs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neucmds.arrays import Array, asarray_like, namespace, to_numpy
from neucmds.descent import Descent
from neucmds.embedding import Embedding
from neucmds.gram import Gram
from neucmds.placement import LeastSquaresPlacement, LinearPlacement
from neucmds.refine import Refined, canonical
from neucmds.selection import Components, Selection, neuc
from neucmds.spectrum import Spectrum
from neucmds.stress import stress_terms
from neucmds.weighted import WeightedStress

__all__ = ["column_signs", "diagonalize", "embed", "embed_refined", "embed_weighted"]


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
    u = spectrum.take(selection.kept)
    weights, rotation = diagonalize(selection.core)
    lam = spectrum.ends.values[selection.kept]
    scale = np.sqrt(np.abs(weights))
    coordinates = u @ asarray_like(rotation * scale, u)
    flips = column_signs(coordinates)
    projector = u @ (asarray_like((rotation * scale) / lam[:, None], u) * flips)
    coordinates = coordinates * flips
    xp = namespace(u)
    # As the coordinates are ordered, where there is an eigenvalue to each.
    sizes = selection.core if selection.core.ndim == 1 else lam
    by_size = np.argsort(-np.abs(sizes), kind="stable")
    residuals = to_numpy(spectrum.residuals)[selection.kept][by_size]

    def cast(array: Array) -> Array:
        return xp.astype(array, gram.dtype, copy=False)

    return Embedding(
        coordinates=cast(coordinates),
        signs=asarray_like(np.sign(weights), coordinates, dtype=gram.dtype),
        eigenvalues=asarray_like(lam[by_size], coordinates),
        weights=asarray_like(weights, coordinates),
        stress_terms=stress_terms(spectrum, gram.diagonal(), selection),
        sq_norm=gram.moments.sq_norm,
        method=method,
        requested=requested,
        squared=squared,
        labels=labels,
        placement=LinearPlacement(cast(gram.moments.row_means), cast(projector)),
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
    negative = int(np.sum(refined.weights < 0))
    signature = (refined.weights.size - negative, negative)
    kept = neuc(spectrum.ends, Components(requested, signature)).kept
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


def embed_weighted(
    found: Descent[WeightedStress],
    *,
    method: str,
    requested: int,
    squared: bool = False,
    labels: tuple[str, ...] | None = None,
) -> Embedding:
    """Wrap coordinates of least weighted STRESS, which has no decomposition: C2 and C3 are zero."""
    state, xp = found.state, namespace(found.state.x)
    x, weights = canonical(state.x, to_numpy(state.signs))
    dtype = state.sq_dissimilarity.dtype
    coordinates = xp.astype(x * column_signs(x), dtype, copy=False)
    signs = asarray_like(np.sign(weights), coordinates)
    none = xp.zeros((0,), dtype=xp.float64)
    return Embedding(
        coordinates=coordinates,
        signs=signs,
        eigenvalues=none,
        weights=asarray_like(weights, coordinates, dtype=xp.float64),
        stress_terms=(found.state.value, 0.0, 0.0),
        sq_norm=float(xp.sum(state.weights * state.sq_dissimilarity**2)),
        method=method,
        requested=requested,
        squared=squared,
        labels=labels,
        placement=LeastSquaresPlacement(coordinates, signs),
        residuals=none,
        converged=found.converged,
        solver="weighted",
        history=found.history,
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
    order = order[np.abs(mu[order]) > largest * max(64, mu.size) * np.finfo(np.float64).eps]
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
