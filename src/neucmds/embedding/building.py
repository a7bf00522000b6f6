"""From what a method found to an `Embedding`, in one place."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from neucmds._backend.arrays import Array, asarray_like, namespace
from neucmds._methods.refined.losses import PairLoss
from neucmds._methods.solution import Solution
from neucmds._placement.loss_rule import LossPlacement
from neucmds._placement.rules import (
    SHRINKAGE,
    LeastSquaresPlacement,
    LinearPlacement,
    Placement,
)
from neucmds.embedding.result import Embedding
from neucmds.errors import InputError


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


def rescaled(embedding: Embedding, exponent: int, of_weights: int = 0) -> Embedding:
    """Return the embedding of dissimilarities that are two to this power as large, to the last bit.

    Parameters
    ----------
    embedding : Embedding
    exponent : int
        Of d; the squared scale grows by its double, STRESS by its fourfold.
    of_weights : int, default=0
        Power of two by which the weights of pairs are larger too.
    """
    if not (exponent or of_weights):
        return embedding
    once, twice = 2.0**exponent, 4.0**exponent

    def stress(value: float, degree: int = 2) -> float:
        return times_power_of_two(value, 2 * degree * exponent + of_weights)

    degree = PairLoss(embedding.loss, 0.0).degree
    c1, c2, c3 = (stress(term) for term in embedding.stress_terms)
    return replace(
        embedding,
        coordinates=embedding.coordinates * once,
        eigenvalues=embedding.eigenvalues * twice,
        weights=embedding.weights * twice,
        residuals=embedding.residuals * twice,
        trace=embedding.trace * twice,
        hidden_below=embedding.hidden_below * twice,
        stress_terms=(c1, c2, c3),
        sq_norm=stress(embedding.sq_norm),
        total_sum_of_squares=stress(embedding.total_sum_of_squares),
        # The numbers themselves are rounded where they have become subnormal.
        stress_error=stress(embedding.stress_error) + 8 * math.ulp(0.0),
        history=tuple(stress(value, degree) for value in embedding.history),
        loss_value=stress(embedding.loss_value, degree),
        placement=None if embedding.placement is None else embedding.placement.rescaled(once),
    )


def times_power_of_two(value: float, power: int) -> float:
    """Return a sum over pairs on another scale; refuse what is no float there."""
    try:
        return math.ldexp(value, power)
    except OverflowError as problem:
        decades = math.log10(abs(value)) + power * math.log10(2)
        raise InputError(
            f"D is too large: a sum over its pairs of about 1e{decades:.0f} overflows in float64; "
            "divide D by a constant."
        ) from problem
