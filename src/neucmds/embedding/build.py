"""Turn what a spectrum or a descent gives into an `Embedding`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import (
    Array,
    asarray_like,
    centered,
    eps,
    namespace,
    row_blocks,
    to_numpy,
)
from neucmds.backend.threads import parallel_map
from neucmds.embedding.info import Info
from neucmds.embedding.result import Embedding
from neucmds.errors import InputError
from neucmds.form import Form
from neucmds.place.rules import (
    SHRINKAGE,
    LinearPlacement,
    LossPlacement,
    Placement,
)
from neucmds.problem.components import Components
from neucmds.problem.dense import Dense
from neucmds.problem.pairs import Pairs
from neucmds.problem.sampled_pairs import Check
from neucmds.refine.descent import Refined, Start
from neucmds.refine.losses import PairLoss
from neucmds.refine.products import stress_terms_at
from neucmds.refine.stress import stress_of_pairs, stress_of_rows
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
from neucmds.spectrum.operators.gram import Gram
from neucmds.spectrum.operators.outliers import outlying_entries
from neucmds.spectrum.selection import Selection, neuc
from neucmds.spectrum.spectrum import Spectrum

Floats = npt.NDArray[np.float64]


def from_selection(
    problem: Dense,
    spectrum: Spectrum,
    selection: Selection,
    method: str,
    requested: int,
) -> Embedding:
    """Embed by a closed form: by the eigenpairs that it keeps, and what it makes of them."""
    gram = problem.gram
    kept = selection.kept
    x, weights, directions = selected_coordinates(spectrum, selection)
    form = Form(np.sign(weights))
    values = spectrum.values[kept]
    terms = stress_terms(spectrum, gram.diagonal(), selection)
    quadratic = asarray_like(values, x) @ directions**2
    sizes = selection.core if selection.core.ndim == 1 else values
    order = np.argsort(-np.abs(sizes), kind="stable")
    positive_trace = math.nan
    if spectrum.complete:
        positive_trace = float(spectrum.values[spectrum.values > 0].sum())
    info = Info(
        eigenvalues=values[order],
        residuals=spectrum.residuals[kept][order],
        sq_norm=gram.sq_norm,
        total_sum_of_squares=gram.total_sum_of_squares,
        trace=gram.trace,
        positive_trace=positive_trace,
        converged=spectrum.converged,
        solver=spectrum.solver,
        stress_error=stress_rounding(
            gram, x, terms, gram_rounding(spectrum, selection)
        ),
        stress_rises=stress_rises(gram, x, form.signs, quadratic),
        hidden_below=_hidden_below(gram, spectrum, kept.size, requested),
    )
    back = spectrum.take(kept) @ (
        directions / asarray_like(values, x)[:, None]
    )
    xp = gram.xp
    placement = LinearPlacement(
        xp.astype(gram.row_means, gram.dtype, copy=False),
        xp.astype(back, gram.dtype, copy=False),
    )
    return _embedding(
        x,
        form,
        gram.dtype,
        weights=weights,
        stress_terms=terms,
        loss_value=sum(terms),
        info=info,
        placement=placement,
        method=method,
        requested=requested,
        squared=problem.squared,
        labels=problem.labels,
        missing=problem.missing,
    )


def from_descent(
    problem: Dense,
    end: Refined,
    requested: int,
    *,
    method: str = "refined",
    spectrum: Spectrum | None = None,
    solver: str = "init",
    mean_distance: float = math.nan,
) -> Embedding:
    """Embed by free coordinates; `spectrum` has the eigenpairs of their start.

    A weighted STRESS, or one of a curved form, has no decomposition: C2 = C3 = 0.
    """
    gram = problem.gram
    x = end.coordinates
    form = end.form
    quadratic = end.quadratic
    if quadratic is None:
        x, form = canonical(centered(asarray_like(x, gram.diagonal())), form)
        quadratic = gram.quadratic(x)
    if problem.weights is not None or not form.is_flat:
        stress, error, rises = stress_of_rows(gram, x, form, problem.weights)
        terms = (stress, 0.0, 0.0)
    else:
        rises = stress_rises(gram, x, form.signs, quadratic)
        if end.stress_terms is not None:
            terms = end.stress_terms
            error = stress_rounding(gram, x, terms, end.gram_rounding)
        else:
            terms, error = stress_terms_at(gram, Start(x, form), quadratic)
    is_squared = end.loss.name == "squared"
    sq_norm, total, trace = _sums(problem)
    info = Info(
        sq_norm=sq_norm,
        total_sum_of_squares=total,
        trace=trace,
        # A STRESS below its rounding error has no gradient.
        converged=end.converged or (is_squared and sum(terms) <= error),
        solver=solver,
        history=end.history,
        relative_gradient=end.relative_gradient,
        stress_error=error,
        stress_rises=rises,
    )
    if spectrum is not None:
        kept = neuc(spectrum, Components(requested, end.form.signature)).kept
        kept = kept[np.argsort(-np.abs(spectrum.values[kept]), kind="stable")]
        info = replace(
            info,
            eigenvalues=spectrum.values[kept],
            residuals=spectrum.residuals[kept],
            converged=info.converged and spectrum.converged,
            solver=spectrum.solver,
            hidden_below=_hidden_below(
                gram, spectrum, form.signs.size, requested
            ),
        )
    return _embedding(
        x * column_signs(x),
        form,
        gram.dtype,
        weights=signed_lengths(x, form),
        stress_terms=terms,
        loss=end.loss,
        loss_value=sum(terms) if is_squared else end.value,
        mean_distance=mean_distance,
        info=info,
        method=method,
        requested=requested,
        squared=problem.squared,
        labels=problem.labels,
        missing=problem.missing,
    )


def from_pairs(
    pairs: Pairs,
    end: Refined,
    requested: int,
    *,
    squared: bool = False,
    mean_distance: float = math.nan,
    checks: Iterable[Check] | None = None,
) -> Embedding:
    """Embed by coordinates fitted to listed pairs; sums count both orders.

    With `checks`, dissimilarities of objects drawn at random, figures are those of all pairs.
    """
    x, form = canonical(to_numpy(end.coordinates), end.form)
    stress, rises = stress_of_pairs(
        asarray_like(x, end.coordinates), form, pairs
    )
    d = pairs.sq_dissimilarity
    w = pairs.weights
    mean = float(w @ d) / float(w.sum())
    sq_norm = 2 * float(w @ d**2)
    info = Info(
        sq_norm=sq_norm,
        total_sum_of_squares=2 * float(w @ (d - mean) ** 2),
        trace=0.5 * (pairs.n - 1) * mean,
        converged=end.converged,
        solver="sampled pairs" if pairs.sampled else "pairs",
        history=end.history,
        relative_gradient=end.relative_gradient,
        stress_error=32 * eps(np.float64) * sq_norm,
        stress_rises=rises,
    )
    embedding = _embedding(
        x * column_signs(x),
        form,
        np.float64,
        weights=signed_lengths(x, form),
        stress_terms=(stress, 0.0, 0.0),
        loss=end.loss,
        loss_value=stress if end.loss.name == "squared" else end.value,
        mean_distance=mean_distance,
        info=info,
        method="refined",
        requested=requested,
        squared=squared,
        labels=pairs.labels,
    )
    if checks is None:
        return embedding
    return _checked(embedding, end.loss, pairs, checks)


def _embedding(
    x: Array,
    form: Form,
    dtype: Any,
    *,
    weights: Floats,
    info: Info,
    loss: PairLoss | None = None,
    placement: Placement | None = None,
    **facts: Any,
) -> Embedding:
    """Return an embedding in the precision of the input, with arrays of one library."""
    xp = namespace(x)
    x = xp.astype(x, dtype, copy=False)
    form = replace(form, signs=asarray_like(form.signs, x))
    name = "squared"
    if loss is not None and loss.name != "squared":
        name = loss.name
        placement = LossPlacement(x, form, loss)
    if placement is None:
        placement = LossPlacement(x, form, shrinkage=SHRINKAGE)
    return Embedding(
        coordinates=x,
        form=form,
        weights=asarray_like(weights, x, dtype=xp.float64),
        info=replace(
            info,
            eigenvalues=asarray_like(info.eigenvalues, x, dtype=xp.float64),
            residuals=asarray_like(info.residuals, x, dtype=xp.float64),
        ),
        placement=placement,
        loss=name,
        **facts,
    )


def _sums(problem: Dense) -> tuple[float, float, float]:
    """Σ w D², Σ w (D − mean)² and the trace that goes with the weighted mean."""
    gram = problem.gram
    w = problem.weights
    if w is None:
        return gram.sq_norm, gram.total_sum_of_squares, gram.trace
    xp = gram.xp
    d = gram.rows(slice(None))
    mean = float(xp.sum(w * d)) / float(xp.sum(w))
    total = float(xp.sum(w * (d - mean) ** 2))
    return float(xp.sum(w * d**2)), total, 0.5 * (gram.n - 1) * mean


def _hidden_below(
    gram: Gram, spectrum: Spectrum, count: int, requested: int
) -> float:
    """Return the null level if eigenvalues of ordinary size may lie below it; else 0."""
    # Only if the known pairs hold nearly all of B can a few entries hide the others.
    unknown = spectrum.frobenius_sq - float(spectrum.values @ spectrum.values)
    if count >= requested or unknown > 1e-9 * spectrum.frobenius_sq:
        return 0.0
    try:
        outliers = outlying_entries(gram)
    except (
        InputError
    ):  # chunks on the workers of a cluster, too many to be gathered
        return 0.0
    if outliers.entries and spectrum.null_level > 1e-2 * outliers.typical:
        return spectrum.null_level
    return 0.0


def _checked(
    embedding: Embedding, loss: PairLoss, pairs: Pairs, checks: Iterable[Check]
) -> Embedding:
    """Return an embedding with STRESS, R² and loss of all pairs, with standard errors.

    All pairs that were not fitted are estimated from `checks`, objects drawn at random with others
    each. Pairs of one object are alike, so standard errors are those of a mean over objects.
    """
    n = pairs.n
    mean = float(np.mean(pairs.sq_dissimilarity))
    x = to_numpy(embedding.coordinates)
    form = embedding.form

    def sums(i: Any, j: Any, d: Floats) -> Floats:
        """Σ(D̂ − D)², the loss, Σ(D − mean), Σ(D − mean)² and rises of the first."""
        residual, without = form.paired_residuals(x[i], x[j], d)
        cost = loss.value(form, form.to_sq(d), form.paired_sq(x[i], x[j]))
        off = d - mean
        rises = (without**2 - residual[:, None] ** 2).sum(axis=0)
        return np.array(
            [residual @ residual, cost, off.sum(), off @ off, *rises]
        )

    def of_fitted(block: slice) -> Floats:
        return sums(
            pairs.i[block], pairs.j[block], pairs.sq_dissimilarity[block]
        )

    fitted = np.sum(
        parallel_map(of_fitted, row_blocks(pairs.size, 4 * x.shape[1])), axis=0
    )
    keys = pairs.i.astype(np.int64) * n + pairs.j
    rows = []
    counts = []
    for first, others, lengths in checks:
        key = np.minimum(first, others) * n + np.maximum(first, others)
        nearest = np.minimum(np.searchsorted(keys, key), keys.size - 1)
        unseen = keys[nearest] != key
        rows.append(sums(first, others[unseen], lengths[unseen] ** 2))
        counts.append(int(unseen.sum()))
    drawn = np.array(rows)
    count = sum(counts)
    left = n * (n - 1) - 2 * pairs.size
    means = drawn.sum(axis=0) / max(1, count)
    totals = 2 * fitted + left * means
    stress, cost, shift, squares = totals[:4].tolist()
    shift /= n * (n - 1)
    total = squares - n * (n - 1) * shift**2
    # Of the mean of each sum over the pairs of all objects drawn; R² = 1 − STRESS / Σ(D − mean)².
    off = drawn - np.multiply.outer(counts, means)
    off[:, 3] -= 2 * shift * off[:, 2]
    scale = left / max(1, count) * math.sqrt(len(rows) / max(1, len(rows) - 1))
    with np.errstate(all="ignore"):
        r2_off = (off[:, 0] - np.divide(stress, total) * off[:, 3]) / total
    info = replace(
        embedding.info,
        stress_rises=totals[4:],
        sq_norm=total + n * (n - 1) * (mean + shift) ** 2,
        total_sum_of_squares=total,
        trace=0.5 * (n - 1) * (mean + shift),
        stress_standard_error=scale * float(np.linalg.norm(off[:, 0])),
        r2_standard_error=scale * float(np.linalg.norm(r2_off)),
        held_out_pairs=count,
    )
    return replace(
        embedding, stress_terms=(stress, 0.0, 0.0), loss_value=cost, info=info
    )
