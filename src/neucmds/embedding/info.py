"""`Info`: how an embedding was found."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from neucmds.backend.arrays import Array


@dataclass(frozen=True, eq=False)
class Info:
    """How the coordinates of an embedding were found, and how exactly.

    Parameters
    ----------
    eigenvalues : array of shape (k',)
        Kept eigenvalues λ of B: for the paper's methods one per coordinate (k' = k), in their
        order; for "exact" and "refined" with the squared loss largest magnitude first. Other fits
        have none (k' = 0).
    residuals : array of shape (k',)
        ``‖B u − λ u‖`` of the pairs of `eigenvalues`, or a bound on it:

        - "full": the bound nε·max|λ|;
        - "krylov", of pairs that the method asked for: from float64 products. On a GPU it may be a
          bound, by Lanczos's recurrence and twice the rounding of float32 products, which is
          measured on a sample of rows;
        - "krylov", of further pairs, as "exact" has beside those of "neuc" and "neuc+": a bound, by
          Lanczos's recurrence and 1e-6·max|λ| for the rounding of float32 products.
    sq_norm : float
        ‖D‖²_F on the squared scale, which normalises STRESS.
    converged : bool
        Whether the eigensolver, or the descent of "refined", reached its tolerance.
    solver : str
        Eigensolver, "full" (LAPACK) or "krylov"; or the descent that gave the coordinates without
        eigenpairs: "weighted" (the squared loss with weights or gaps), "loss" (another loss, or
        directed), "pairs", "sampled pairs", "init", and "smacof" of `compare`.
    history : tuple of floats
        Loss at the start of a refinement and after every iteration, over pairs as
        `Embedding.loss_value`; empty for closed forms.
    total_sum_of_squares : float
        Σ(D − mean)² over the pairs i ≠ j, weighted as the STRESS is; NaN if not known.
    sum_of_squares : float
        Σ d² over pairs, as `Embedding.loss_value` counts and weighs them; NaN if not known.
    trace : float
        Trace of B: n − 1 times half the mean squared dissimilarity of a pair; NaN if not known.
    positive_trace : float
        Sum of the positive eigenvalues of B; NaN where they are not all known.
    relative_gradient : float
        √(gᵀM⁻¹g / 2f) where "refined" ended, with f the loss, g its gradient and M the Gauss–Newton
        block of every object: 0 at a stationary point, NaN where it was not measured. The square
        of `relative_gradient` is the share of f that one more step promises; of a converged fit it
        is at most ``min(6e-4, max(tol, 1.5e-8))``, but for rounding. Where gaps were filled by a
        smaller model (`OverfitWarning`), f and g are those of the filled D, not of the observed
        pairs.
    stress_error : float
        Bound on the rounding error of `Embedding.stress`.
    stress_rises : array of shape (k,)
        Rise of the STRESS without each coordinate; empty if not known.
    stress_standard_error, r2_standard_error : float
        Standard errors of `Embedding.stress` and `Embedding.r2` where only a sample of all pairs
        was fitted: STRESS, R² and `Embedding.loss_value` are then estimated from held-out pairs. 0
        where every pair counted. NaN if fewer than five of the objects drawn decide them, as with
        an outlier, heavy tails or very few objects: STRESS and R² may then be far off.
    held_out_pairs : int
        Number of held-out pairs. With ``direction="out"`` in a graph, STRESS and R² are those of
        both orders of all pairs, and fitted pairs may be among the held-out ones.
    overfit_ratio : float
        Mean loss of held-out pairs, in units of that of fitted ones; 1 where none were held out.
        Of two levels of landmarks, the fitted ones are pairs of random or of global landmarks.
    n_starts : int
        Number of starts of "ordinal"; 1 for other losses.
    times_found : int
        How many of the starts of "ordinal" ended at the best configuration; starts that were drawn
        about it do not count. Two configurations are the same if no object is farther off than 0.01
        when both, of unit length, are laid over each other.
    ties : {"primary", "secondary"}
        How "ordinal" treated equal dissimilarities.
    """

    sq_norm: float
    eigenvalues: Array = field(default_factory=partial(np.zeros, 0))
    residuals: Array = field(default_factory=partial(np.zeros, 0))
    converged: bool = True
    solver: str = "full"
    history: tuple[float, ...] = ()
    total_sum_of_squares: float = math.nan
    sum_of_squares: float = math.nan
    trace: float = math.nan
    positive_trace: float = math.nan
    relative_gradient: float = math.nan
    stress_error: float = 0.0
    stress_rises: Array = field(default_factory=partial(np.zeros, 0))
    stress_standard_error: float = 0.0
    r2_standard_error: float = 0.0
    held_out_pairs: int = 0
    overfit_ratio: float = 1.0
    n_starts: int = 1
    times_found: int = 1
    ties: str = "primary"
