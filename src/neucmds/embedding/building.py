"""From what a method found to an `Embedding`, in one place."""

from __future__ import annotations

from typing import Any

import numpy as np

from neucmds._backend.arrays import Array, asarray_like, namespace
from neucmds._methods.solution import Solution
from neucmds._placement import (
    SHRINKAGE,
    LeastSquaresPlacement,
    LinearPlacement,
    LossPlacement,
    Placement,
)
from neucmds.embedding.result import Embedding


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
        stress_error=solution.stress_error,
        hidden_below=solution.hidden_below,
    )
