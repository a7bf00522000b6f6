"""What a method found, before it is wrapped for users: coordinates, weights, STRESS."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds._backend.arrays import Array, asarray_like, namespace, to_numpy
from neucmds._input.components import Components
from neucmds._methods.geometry import canonical, column_signs, diagonalize
from neucmds._methods.refined.descent import Descent
from neucmds._methods.refined.losses import PairLoss
from neucmds._methods.refined.objective import Refined, stress_terms_at
from neucmds._methods.refined.pair_descent import LossResult
from neucmds._methods.refined.weighted import WeightedStress
from neucmds._methods.selection import Selection, neuc
from neucmds._methods.stress import StressTerms, stress_terms
from neucmds._operator import DenseGram, Gram
from neucmds._spectrum import Spectrum

__all__ = ["Solution", "from_loss", "from_refinement", "from_selection", "from_weighted"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Solution:
    """Coordinates with signed weights and the figures that go with them.

    Parameters
    ----------
    coordinates : array of shape (n, k), float64
        Ordered by weight; the first largest entry of each column is positive.
    weights : ndarray of shape (k,)
        Signed squared length of each column.
    dtype : dtype
        Precision of the input, in which coordinates are returned.
    stress_terms : tuple of three floats
        C1, C2 and C3; a weighted STRESS stands first, beside two zeros.
    sq_norm : float
        ‖D‖²_F, weighted as the STRESS is.
    total_sum_of_squares : float
        Σ(D − mean)² over pairs i ≠ j, weighted as the STRESS is.
    trace : float
        Trace of B, n − 1 times half the mean squared dissimilarity of a pair.
    eigenvalues, residuals : ndarray
        Kept eigenvalues and ``‖Bu − λu‖`` of each.
    projector : array of shape (n, k), optional
        ``U_W Λ_W⁻¹`` times the map from U_W to coordinates, where coordinates are linear in B.
    row_means : array of shape (n,), optional
        Row means of D, which go with the projector.
    converged : bool
    solver : str
    history : tuple of floats
    loss : PairLoss, optional
        The loss that was minimised, with its floor; None for the squared one.
    loss_value : float
        Its value over all n² ordered pairs; NaN for the squared one.
    relative_gradient : float
        0 at a stationary point; NaN where it was not measured.
    """

    coordinates: Array
    weights: Floats
    dtype: Any
    stress_terms: StressTerms
    sq_norm: float
    total_sum_of_squares: float
    trace: float
    eigenvalues: Floats
    residuals: Floats
    converged: bool
    solver: str
    history: tuple[float, ...] = ()
    projector: Array | None = None
    row_means: Array | None = None
    loss: PairLoss | None = None
    loss_value: float = math.nan
    relative_gradient: float = math.nan


def from_selection(gram: Gram, spectrum: Spectrum, selection: Selection) -> Solution:
    """Turn kept pairs and their core M into coordinates, by one rule for all closed forms.

    M = V Diag(μ) Vᵀ, coordinates U_W V √|μ|, signs sign(μ). Indefiniteness is explicit: no square
    root of a negative number is ever taken.
    """
    u = spectrum.take(selection.kept)
    weights, rotation = diagonalize(selection.core)
    lam = spectrum.ends.values[selection.kept]
    scale = np.sqrt(np.abs(weights))
    coordinates = u @ asarray_like(rotation * scale, u)
    flips = column_signs(coordinates)
    # As the coordinates are ordered, where there is an eigenvalue to each.
    sizes = selection.core if selection.core.ndim == 1 else lam
    by_size = np.argsort(-np.abs(sizes), kind="stable")
    return Solution(
        coordinates=coordinates * flips,
        weights=weights,
        dtype=gram.dtype,
        stress_terms=stress_terms(spectrum, gram.diagonal(), selection),
        sq_norm=gram.moments.sq_norm,
        total_sum_of_squares=gram.moments.total_sum_of_squares,
        trace=gram.trace,
        eigenvalues=lam[by_size],
        residuals=to_numpy(spectrum.residuals)[selection.kept][by_size],
        converged=spectrum.converged,
        solver=spectrum.solver,
        projector=u @ (asarray_like((rotation * scale) / lam[:, None], u) * flips),
        row_means=gram.moments.row_means,
    )


def from_refinement(
    gram: Gram, spectrum: Spectrum | None, refined: Refined, requested: int
) -> Solution:
    """Take free coordinates, beside the eigenvalues that their signature starts from, if any."""
    eigenvalues, residuals = _starting_eigenvalues(spectrum, refined, requested)
    return Solution(
        coordinates=refined.coordinates * column_signs(refined.coordinates),
        weights=refined.weights,
        dtype=gram.dtype,
        stress_terms=refined.stress_terms,
        sq_norm=gram.moments.sq_norm,
        total_sum_of_squares=gram.moments.total_sum_of_squares,
        trace=gram.trace,
        eigenvalues=eigenvalues,
        residuals=residuals,
        converged=refined.converged and (spectrum is None or spectrum.converged),
        solver="init" if spectrum is None else spectrum.solver,
        history=refined.history,
        relative_gradient=refined.relative_gradient,
    )


def _starting_eigenvalues(
    spectrum: Spectrum | None, refined: Refined, requested: int
) -> tuple[Floats, Floats]:
    """Eigenvalues of the signature of refined coordinates, largest first, and their residuals."""
    if spectrum is None:
        return np.zeros(0), np.zeros(0)
    negative = int(np.sum(refined.weights < 0))
    signature = (refined.weights.size - negative, negative)
    kept = neuc(spectrum.ends, Components(requested, signature)).kept
    lam = spectrum.ends.values[kept]
    by_size = np.argsort(-np.abs(lam), kind="stable")
    return lam[by_size], to_numpy(spectrum.residuals)[kept][by_size]


def from_loss(gram: DenseGram, found: LossResult, weights: Array | None) -> Solution:
    """Take coordinates of least loss; the STRESS goes with them, weighted where pairs are."""
    d = gram.sq_dissimilarity
    x, lengths = canonical(asarray_like(found.coordinates, gram.diagonal()), found.signs)
    signs = np.sign(lengths)
    if weights is None:
        terms = stress_terms_at(gram, x, signs)
        sums = (gram.moments.sq_norm, gram.moments.total_sum_of_squares, gram.trace)
    else:
        state = WeightedStress(d, weights, x, asarray_like(signs, x))
        terms = (state.value, 0.0, 0.0)
        sums = _weighted_sums(d, weights)
    return Solution(
        coordinates=x * column_signs(x),
        weights=lengths,
        dtype=d.dtype,
        stress_terms=terms,
        sq_norm=sums[0],
        total_sum_of_squares=sums[1],
        trace=sums[2],
        eigenvalues=np.zeros(0),
        residuals=np.zeros(0),
        converged=found.converged,
        solver="loss",
        history=found.history,
        loss=PairLoss(found.loss, found.floor**2),
        loss_value=found.value,
        relative_gradient=found.relative_gradient,
    )


def _weighted_sums(d: Array, w: Array) -> tuple[float, float, float]:
    """Σ w D², Σ w (D − mean)² and the trace that goes with the weighted mean."""
    xp = namespace(d)
    mean = float(xp.sum(w * d)) / float(xp.sum(w))
    total = float(xp.sum(w * (d - mean) ** 2))
    return float(xp.sum(w * d**2)), total, 0.5 * (int(d.shape[0]) - 1) * mean


def from_weighted(found: Descent[WeightedStress]) -> Solution:
    """Take coordinates of least weighted STRESS, which has no decomposition: C2 = C3 = 0."""
    state = found.state
    x, weights = canonical(state.x, to_numpy(state.signs))
    sums = _weighted_sums(state.sq_dissimilarity, state.weights)
    return Solution(
        coordinates=x * column_signs(x),
        weights=weights,
        dtype=state.sq_dissimilarity.dtype,
        stress_terms=(state.value, 0.0, 0.0),
        sq_norm=sums[0],
        total_sum_of_squares=sums[1],
        trace=sums[2],
        eigenvalues=np.zeros(0),
        residuals=np.zeros(0),
        converged=found.converged,
        solver="weighted",
        history=found.history,
        relative_gradient=found.relative_gradient,
    )
