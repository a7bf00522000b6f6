"""Turn what a spectrum or a descent gives into an `Embedding`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from neucmds.backend.arrays import (
    EPS,
    Array,
    Floats,
    asarray_like,
    eps,
    namespace,
    row_blocks,
    to_numpy,
)
from neucmds.backend.threads import parallel_map
from neucmds.embedding.info import Info
from neucmds.embedding.result import Embedding
from neucmds.form import Form
from neucmds.place.rules import (
    SHRINKAGE,
    LinearPlacement,
    LossPlacement,
    Placement,
)
from neucmds.problem.dense import Dense
from neucmds.problem.directed import Directed
from neucmds.problem.names import row_numbers
from neucmds.problem.pairs import Pairs, pair_keys
from neucmds.problem.sampled_pairs import Check
from neucmds.refine.descent import Configuration
from neucmds.refine.losses import SQUARED, PairLoss
from neucmds.refine.products import exact_terms
from neucmds.refine.stress import stress_of_rows
from neucmds.spectrum.geometry import (
    canonical,
    column_signs,
    gram_rounding,
    selected_coordinates,
    signed_lengths,
    stress_rises,
    stress_rounding,
    stress_terms,
)
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.spectrum.selection import Selection, neuc
from neucmds.spectrum.spectrum import Spectrum

# Objects that must decide a standard error. With fewer, as among heavy tails, R² was off by up to
# 600 standard errors; with more, by up to 3.
FEWEST_DECIDING = 5


def from_selection(
    problem: Dense,
    spectrum: Spectrum,
    selection: Selection,
    method: str,
    requested: int,
) -> Embedding:
    """Return the embedding of a closed form, by the eigenpairs and the core that it selects."""
    gram = problem.gram
    kept = selection.kept
    x, weights, directions = selected_coordinates(spectrum, selection)
    form = Form(np.sign(weights))
    eigenvalues = spectrum.values[kept]
    # Eigenvalues come in the order of the coordinates, which is that of |μ| if the core is
    # diagonal, Diag(μ). "exact" mixes eigenvectors: then in the order of |λ|.
    order = np.argsort(-np.abs(eigenvalues), kind="stable")
    if selection.core.ndim == 1:
        order = np.argsort(-np.abs(selection.core), kind="stable")
    lambdas = asarray_like(eigenvalues, x)
    # xᵀBx of each coordinate: with x = U·directions, it is directionsᵀ Λ directions.
    quadratic = lambdas @ directions**2
    terms = stress_terms(spectrum, gram.diagonal(), selection)
    rounding = gram_rounding(spectrum, selection)
    terms, error, rises = _stress(problem, x, form, terms, rounding, quadratic)
    positive_trace = math.nan
    if spectrum.complete:
        positive_trace = float(spectrum.values[spectrum.values > 0].sum())
    info = Info(
        eigenvalues=eigenvalues[order],
        residuals=spectrum.residuals[kept][order],
        **_sums(problem),
        positive_trace=positive_trace,
        converged=spectrum.converged,
        solver=spectrum.solver,
        stress_error=error,
        stress_rises=rises,
    )
    projector = spectrum.take(kept) @ (directions / lambdas[:, None])
    placement = LinearPlacement(
        gram.xp.astype(gram.row_means, gram.dtype, copy=False),
        gram.xp.astype(projector, gram.dtype, copy=False),
    )
    return _embedding(
        problem,
        x,
        form,
        gram.dtype,
        SQUARED,
        placement,
        stress_terms=terms,
        loss_value=sum(terms) / 2,
        info=info,
        method=method,
        requested=requested,
    )


def from_descent(
    problem: Dense,
    end: Configuration,
    requested: int,
    *,
    method: str = "refined",
    spectrum: Spectrum | None = None,
    solver: str = "init",
    mean_distance: float = math.nan,
) -> Embedding:
    """Return the embedding of a descent's end; `spectrum` has the eigenpairs it started from."""
    gram = problem.gram
    x = end.coordinates
    form = end.form
    # xᵀBx of each coordinate. Where it is known, the coordinates are canonical.
    quadratic = end.quadratic
    if quadratic is None:
        x = form.centered(asarray_like(x, gram.diagonal()))
        x, form = canonical(x, form)
    if problem.weights is not None or not form.is_bilinear:
        terms, error, rises = _stress_of_pairs(problem, x, form)
    else:
        if quadratic is None:
            quadratic = gram.quadratic(x)
        terms, rounding = exact_terms(gram, x, form, quadratic)
        terms, error, rises = _stress(
            problem, x, form, terms, rounding, quadratic
        )
    # Over both orders of a pair, as are the STRESS and the history.
    value = end.value
    converged = end.converged
    if end.loss.name == "squared":
        value = sum(terms)
        # A STRESS below its rounding error has no gradient.
        converged = converged or value <= error
    info = Info(
        **_sums(problem),
        converged=converged,
        solver=solver,
        history=tuple(loss / 2 for loss in end.history),
        relative_gradient=end.relative_gradient,
        stress_error=error,
        stress_rises=rises,
    )
    if spectrum is not None:
        kept = neuc(spectrum, end.form.signature).kept
        kept = kept[np.argsort(-np.abs(spectrum.values[kept]), kind="stable")]
        info = replace(
            info,
            eigenvalues=spectrum.values[kept],
            residuals=spectrum.residuals[kept],
            converged=converged and spectrum.converged,
            solver=spectrum.solver,
        )
    return _embedding(
        problem,
        x,
        form,
        gram.dtype,
        end.loss,
        stress_terms=terms,
        loss_value=value / 2,
        mean_distance=mean_distance,
        info=info,
        method=method,
        requested=requested,
    )


def _stress(
    problem: Dense,
    x: Array,
    form: Form,
    terms: tuple[float, float, float],
    rounding: float,
    quadratic: Array,
) -> tuple[tuple[float, float, float], float, Any]:
    """Return the terms of the STRESS, its rounding error, and its rises without a coordinate.

    A huge D drowns the STRESS in the rounding of its terms: then pairs are summed, if D is stored.
    """
    gram = problem.gram
    error = stress_rounding(gram, x, terms, rounding)
    is_lost = error > sum(terms) and isinstance(gram, DenseGram)
    if is_lost or problem.weights is not None:
        return _stress_of_pairs(problem, x, form)
    return terms, error, stress_rises(gram, x, form.signs, quadratic)


def _stress_of_pairs(
    problem: Dense, x: Array, form: Form
) -> tuple[tuple[float, float, float], float, Any]:
    """Return the STRESS, pair by pair, its rounding error, and its rises without a coordinate.

    A weighted STRESS, or one of a form that is not bilinear, has no decomposition: C2 = C3 = 0.
    """
    gram = problem.gram
    precision = eps(gram.dtype, gram.xp)
    stress, error, rises = stress_of_rows(
        gram.walk(), x, x, form, problem.weights, precision
    )
    return (stress, 0.0, 0.0), error, rises


def _sums(problem: Dense) -> dict[str, Any]:
    """Return the fields of `Info` that are sums over D."""
    gram = problem.gram
    weights = problem.weights
    if weights is None:
        return {
            "sum_of_squares": gram.n * gram.trace,
            "sq_norm": gram.sq_norm,
            "total_sum_of_squares": gram.total_sum_of_squares,
            "trace": gram.trace,
        }
    sums = _weighted_sums(gram.rows(slice(None)), weights)
    mean = sums["sum_of_squares"] / float(gram.xp.sum(weights))
    return sums | {
        # Both orders of a pair are entries.
        "sum_of_squares": sums["sum_of_squares"] / 2,
        "trace": 0.5 * (gram.n - 1) * mean,
    }


def _weighted_sums(sq: Array, weights: Array) -> dict[str, Any]:
    """Return the fields of `Info` that are weighted sums over the entries of D."""
    xp = namespace(sq)
    sum_of_squares = float(xp.sum(weights * sq))
    mean = sum_of_squares / float(xp.sum(weights))
    return {
        "sum_of_squares": sum_of_squares,
        "sq_norm": float(xp.sum(weights * sq**2)),
        "total_sum_of_squares": float(xp.sum(weights * (sq - mean) ** 2)),
    }


def from_directed(
    problem: Directed,
    end: Configuration,
    requested: int,
    mean_distance: float,
) -> Embedding:
    """Return the embedding of a descent on directed dissimilarities; each order counts once.

    The coordinates of `end` are those of the m departures, then those of the n arrivals.
    """
    sq = problem.sq_dissimilarity
    weights = problem.weights
    m, n = sq.shape
    xp = namespace(sq)
    x = asarray_like(end.coordinates, sq, dtype=xp.float64)
    x, form = canonical(end.form.centered(x), end.form)
    rows = row_blocks(m, n)
    blocks = ((block, sq[block, :]) for block in rows)
    stress, error, rises = stress_of_rows(
        blocks, x[:m, :], x[m:, :], form, weights
    )
    info = Info(
        **_weighted_sums(sq, weights),
        converged=end.converged,
        solver="loss",
        history=end.history,
        relative_gradient=end.relative_gradient,
        stress_error=error,
        stress_rises=rises,
    )
    return _embedding(
        problem,
        x,
        form,
        xp.float64,
        end.loss,
        n_departures=m,
        stress_terms=(stress, 0.0, 0.0),
        loss_value=end.value,
        mean_distance=mean_distance,
        info=info,
        requested=requested,
        arrival_labels=problem.arrival_labels,
    )


def from_pairs(
    pairs: Pairs,
    end: Configuration,
    requested: int,
    *,
    mean_distance: float = math.nan,
    checks: Iterable[Check] | None = None,
) -> Embedding:
    """Return the embedding of coordinates fitted to listed pairs.

    Without `checks` its figures are those of the listed pairs. With these, objects drawn at random
    with dissimilarities to others, they are estimates for all pairs: fitted pairs count as they
    are, and all others as the mean held-out pair. Pairs of one object are alike, so standard errors
    are those of a mean over objects.
    """
    x, form = canonical(to_numpy(end.coordinates), end.form)
    n = pairs.n
    center = float(np.average(pairs.sq_dissimilarity, weights=pairs.weights))
    # Columns are Σw, Σw(D − center), Σw(D − center)², STRESS, loss, and rises of the STRESS. The
    # weight of a held-out pair is 1.
    fitted, held_out = _sums_of_pairs(pairs, x, form, end.loss, center, checks)
    n_held_out = int(held_out[:, 0].sum())
    means = held_out.sum(axis=0) / max(1, n_held_out)
    n_others = pairs.n_ordered - fitted[0]
    totals = fitted + n_others * means
    weight, offset, sq_offset, stress, loss_value = totals[:5].tolist()
    # ΣwD/Σw, Σw(D − mean)² and ΣwD², from sums over D − center.
    mean_offset = offset / weight
    mean = center + mean_offset
    total = sq_offset - weight * mean_offset**2
    sq_norm = total + weight * mean**2
    # Sums of each object drawn, less those of as many mean pairs.
    deviations = held_out - np.outer(held_out[:, 0], means)
    stress_deviation = deviations[:, 3]
    r2_deviation = _r2_deviation(deviations, mean_offset, stress, total)
    # From the length of the deviations to the standard error of the sum over all pairs.
    n_objects = len(deviations)
    scale = n_others / max(1, n_held_out)
    scale *= math.sqrt(n_objects / max(1, n_objects - 1))
    stress_error = 32 * EPS * sq_norm
    n_deciding = min(_deciding(stress_deviation), _deciding(r2_deviation))
    if stress > stress_error and n_held_out and n_deciding < FEWEST_DECIDING:
        scale = math.nan
    # A descent counts both orders of two points.
    history = tuple(value / 2 for value in end.history)
    sum_of_squares = weight * mean
    arrival_labels = None
    # Without directions a pair counts once, and has both orders in the sums.
    if pairs.n_departures is None:
        sum_of_squares /= 2
        loss_value /= 2
    # As many arrivals as departures are the same objects.
    elif n != 2 * pairs.n_departures:
        arrival_labels = row_numbers(n - pairs.n_departures)
    overfit_ratio = 1.0
    if n_held_out:
        overfit_ratio = loss_value / (history[-1] or 1.0)
    info = Info(
        sum_of_squares=sum_of_squares,
        sq_norm=sq_norm,
        total_sum_of_squares=total,
        trace=0.5 * (n - 1) * mean,
        converged=end.converged,
        solver="sampled pairs" if pairs.sampled else "pairs",
        history=history,
        relative_gradient=end.relative_gradient,
        stress_error=stress_error,
        stress_rises=totals[5:],
        stress_standard_error=scale * float(np.linalg.norm(stress_deviation)),
        r2_standard_error=scale * float(np.linalg.norm(r2_deviation)),
        held_out_pairs=n_held_out,
        overfit_ratio=overfit_ratio,
    )
    return _embedding(
        pairs,
        x,
        form,
        np.float64,
        end.loss,
        stress_terms=(stress, 0.0, 0.0),
        loss_value=loss_value,
        mean_distance=mean_distance,
        info=info,
        requested=requested,
        n_departures=pairs.n_departures,
        arrival_labels=arrival_labels,
    )


def _r2_deviation(
    deviations: Floats, mean_offset: float, stress: float, total: float
) -> Floats:
    """Return the deviation of 1 − R² = STRESS / total of each object: the quotient's differential.

    `deviations` are those of the columns of `_sums_of_pairs`.
    """
    _, offset, sq_offset, of_stress = deviations.T[:4]
    of_total = sq_offset - 2 * mean_offset * offset
    with np.errstate(all="ignore"):
        share = np.divide(stress, total)
        deviation: Floats = (of_stress - share * of_total) / total
    return deviation


def _deciding(deviations: Floats) -> float:
    """Return how many objects decide a standard error: all if their deviations are alike.

    A variance estimated from m such objects is off by a share of about 1/√m.
    """
    squares = (deviations / (np.abs(deviations).max(initial=0) or 1.0)) ** 2
    return float(squares.sum() ** 2 / (squares @ squares or 1.0))


def _sums_of_pairs(
    pairs: Pairs,
    x: Floats,
    form: Form,
    loss: PairLoss,
    center: float,
    checks: Iterable[Check] | None,
) -> tuple[Floats, Floats]:
    """Return sums over the fitted pairs, and over the held-out pairs of each object drawn.

    Columns are Σw, Σw(D − center), Σw(D − center)², STRESS, loss, and the rise of the STRESS
    without each coordinate. Undirected pairs count in both orders. Where only one order of the
    pairs was fitted and the other may differ, no pair counts as fitted. The weights of a sample
    serve its fit alone; here its pairs count alike.
    """
    weights = pairs.weights
    if checks is not None:
        weights = np.ones(pairs.size)

    def sums(i: Any, j: Any, sq_dissimilarity: Floats, w: Floats) -> Floats:
        """Return the columns of the pairs (i, j) with weights w."""
        parts = form.paired_parts(x[i], x[j])
        sq_hat = parts.sum(axis=1)
        residual = form.to_sq_distance(sq_hat) - sq_dissimilarity
        without = form.to_sq_distance(sq_hat[:, None] - parts)
        without -= sq_dissimilarity[:, None]
        loss_value = loss.value(form, form.to_sq(sq_dissimilarity), sq_hat, w)
        offset = sq_dissimilarity - center
        stress = w @ residual**2
        rises = w @ without**2 - stress
        return np.array(
            [w.sum(), w @ offset, w @ offset**2, stress, loss_value, *rises]
        )

    def sums_of_block(block: slice) -> Floats:
        return sums(
            pairs.i[block],
            pairs.j[block],
            pairs.sq_dissimilarity[block],
            weights[block],
        )

    blocks = row_blocks(pairs.size, 4 * x.shape[1])
    fitted = np.sum(parallel_map(sums_of_block, blocks), axis=0)
    if pairs.n_departures is None:
        fitted *= 2
    if pairs.one_way:
        fitted = np.zeros_like(fitted)
    fitted_keys = pairs.keys
    held_out = []
    for first, others, sq_to_others in checks or ():
        keys = pair_keys(pairs.n, first, others)
        # Where in the sorted keys of fitted pairs each pair would stand.
        position = np.searchsorted(fitted_keys, keys)
        position = np.minimum(position, fitted_keys.size - 1)
        unseen = pairs.one_way | (fitted_keys[position] != keys)
        sq_dissimilarity = sq_to_others[unseen]
        ones = np.ones_like(sq_dissimilarity)
        held_out.append(sums(first, others[unseen], sq_dissimilarity, ones))
    return fitted, np.reshape(held_out, (-1, fitted.size))


def _embedding(
    problem: Dense | Directed | Pairs,
    x: Array,
    form: Form,
    dtype: Any,
    loss: PairLoss,
    placement: Placement | None = None,
    n_departures: int | None = None,
    method: str = "refined",
    **facts: Any,
) -> Embedding:
    """Return an embedding with coordinates of a dtype, and all arrays of one library.

    Points x after the first `n_departures`, if it is given, are arrivals. `facts` are further
    fields of `Embedding`.
    """
    xp = namespace(x)
    weights = signed_lengths(x, form)
    # The sign of a column is free, but not that of heights, which come last.
    k = sum(form.signature)
    flips = column_signs(x[:, :k])
    x = xp.concat([x[:, :k] * flips, x[:, k:]], axis=1)
    x = xp.astype(x, dtype, copy=False)
    form = replace(form, signs=asarray_like(form.signs, x))
    arrivals = None
    targets = x
    if n_departures is not None:
        arrivals = x[n_departures:, :]
        targets = arrivals
        x = x[:n_departures, :]
    if placement is None:
        shrinkage = 0.0
        if loss.name == "squared":
            shrinkage = SHRINKAGE
        placement = LossPlacement(targets, form, loss, shrinkage)
    return Embedding(
        coordinates=x,
        arrivals=arrivals,
        form=form,
        weights=asarray_like(weights, x, dtype=xp.float64),
        placement=placement,
        loss=loss.name,
        method=method,
        squared=problem.squared,
        labels=problem.labels,
        missing=problem.missing,
        **facts,
    )
