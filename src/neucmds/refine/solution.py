"""The result of a method: coordinates, weights and STRESS; SMACOF's, for comparison."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import (
    BLOCK_ELEMENTS,
    Array,
    asarray_like,
    centered,
    eps,
    namespace,
    on_cpu,
    row_blocks,
    to_numpy,
)
from neucmds.backend.threads import parallel_map
from neucmds.errors import InputError
from neucmds.form import Form
from neucmds.problem.components import Components
from neucmds.problem.pairs import Pairs
from neucmds.problem.sampled_pairs import Check
from neucmds.refine.descent import Refined, Start
from neucmds.refine.losses import PairLoss
from neucmds.refine.products import stress_terms_at
from neucmds.spectrum.geometry import (
    StressTerms,
    canonical,
    column_signs,
    diagonalize,
    gram_rounding,
    signed_lengths,
    stress_rises,
    stress_rounding,
    stress_terms,
)
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.spectrum.operators.gram import Gram
from neucmds.spectrum.operators.outliers import outlying_entries
from neucmds.spectrum.selection import Selection, neuc
from neucmds.spectrum.spectrum import Spectrum

Floats = npt.NDArray[np.float64]

# Entries of a block of differences on a GPU: 1 GB in float64.
_DEVICE_ELEMENTS = 2**27
# Objects on which the rise of STRESS without each coordinate is measured, pair by pair.
RISE_OBJECTS = 1000
# Random starts of SMACOF, of which the best is taken, and iterations of each.
SMACOF_STARTS = 2
SMACOF_ITERATIONS = 300


@dataclass(frozen=True)
class Solution:
    """Coordinates with signed weights and their figures, as of `Embedding` unless listed here.

    Parameters
    ----------
    coordinates : array of shape (n, k), float64
        Ordered by weight; the first largest entry of each column is positive.
    dtype : dtype
        Precision of the input, in which coordinates are returned.
    projector, row_means : arrays of shape (n, k) and (n,), optional
        As of `LinearPlacement`, where coordinates are linear in B.
    loss : PairLoss, optional
        With its floor; None for the squared one.
    loss_value : float
        Its value over all n² ordered pairs; NaN for the squared one.
    """

    coordinates: Array
    weights: Floats
    form: Form
    dtype: Any
    stress_terms: StressTerms
    stress_rises: Floats
    stress_error: float
    sq_norm: float
    total_sum_of_squares: float
    trace: float
    converged: bool
    solver: str
    eigenvalues: Floats = field(default_factory=lambda: np.zeros(0))
    residuals: Floats = field(default_factory=lambda: np.zeros(0))
    history: tuple[float, ...] = ()
    projector: Array | None = None
    row_means: Array | None = None
    loss: PairLoss | None = None
    loss_value: float = math.nan
    relative_gradient: float = math.nan
    hidden_below: float = 0.0
    stress_standard_error: float = 0.0
    r2_standard_error: float = 0.0
    held_out_pairs: int = 0
    positive_trace: float = math.nan
    mean_distance: float = math.nan


def from_selection(
    gram: Gram, spectrum: Spectrum, selection: Selection, requested: int | None = None
) -> Solution:
    """Turn kept pairs and their core M = V Diag(μ) Vᵀ into coordinates U_W V √|μ|, signs sign(μ).

    If there are fewer than `requested` coordinates, `hidden_below` says why.
    """
    u = spectrum.take(selection.kept)
    weights, rotation = diagonalize(selection.core)
    lam = spectrum.values[selection.kept]
    scale = np.sqrt(np.abs(weights))
    coordinates = u @ asarray_like(rotation * scale, u)
    flips = column_signs(coordinates)
    coordinates *= flips
    sizes = selection.core if selection.core.ndim == 1 else lam
    by_size = np.argsort(-np.abs(sizes), kind="stable")
    terms = stress_terms(spectrum, gram.diagonal(), selection)
    error = stress_rounding(gram, coordinates, terms, gram_rounding(spectrum, selection))
    quadratic = asarray_like(lam @ (rotation * scale) ** 2, coordinates)
    values = spectrum.values
    return Solution(
        coordinates=coordinates,
        weights=weights,
        form=Form(np.sign(weights)),
        dtype=gram.dtype,
        stress_terms=terms,
        stress_rises=stress_rises(gram, coordinates, np.sign(weights), quadratic),
        stress_error=error,
        hidden_below=_hidden_below(gram, spectrum, int(selection.kept.size), requested),
        sq_norm=gram.moments.sq_norm,
        total_sum_of_squares=gram.moments.total_sum_of_squares,
        trace=gram.trace,
        positive_trace=float(values[values > 0].sum()) if spectrum.complete else math.nan,
        eigenvalues=lam[by_size],
        residuals=spectrum.residuals[selection.kept][by_size],
        converged=spectrum.converged,
        solver=spectrum.solver,
        projector=u @ (asarray_like((rotation * scale) / lam[:, None], u) * flips),
        row_means=gram.moments.row_means,
    )


def from_refinement(
    gram: Gram,
    found: Refined,
    *,
    weights: Array | None = None,
    spectrum: Spectrum | None = None,
    requested: int | None = None,
    solver: str = "init",
) -> Solution:
    """Turn free coordinates into a solution, with the STRESS weighted if pairs are.

    A weighted STRESS has no decomposition: C2 = C3 = 0. `spectrum` has the eigenpairs of the start,
    and names the solver if there is one.
    """
    quadratic, x, form = found.quadratic, found.coordinates, found.form
    if quadratic is None:
        x, form = canonical(centered(asarray_like(x, gram.diagonal())), form)
        quadratic = gram.quadratic(x)
    lengths = signed_lengths(x, form)
    sums = (gram.moments.sq_norm, gram.moments.total_sum_of_squares, gram.trace)
    if weights is not None:
        assert isinstance(gram, DenseGram)
        sums = _weighted_sums(gram.sq_dissimilarity, weights)
    if not form.is_flat or weights is not None:
        terms, error, rises = _stress_by_pairs(gram, weights, x, form)
    else:
        rises = stress_rises(gram, x, form.signs, quadratic)
        if found.stress_terms is not None:
            terms = found.stress_terms
            error = stress_rounding(gram, x, terms, found.gram_rounding)
        else:
            terms, error = stress_terms_at(gram, Start(x, form), quadratic)
    eigenvalues, residuals, hidden_below = np.zeros(0), np.zeros(0), 0.0
    if spectrum is not None:
        wanted = Components(requested or found.signs.size, found.form.signature)
        kept = neuc(spectrum, wanted).kept
        kept = kept[np.argsort(-np.abs(spectrum.values[kept]), kind="stable")]
        eigenvalues, residuals = spectrum.values[kept], spectrum.residuals[kept]
        hidden_below = _hidden_below(gram, spectrum, lengths.size, requested)
    squared = found.loss.name == "squared"
    # A STRESS below its rounding error has no gradient.
    converged = found.converged or (squared and sum(terms) <= error)
    return Solution(
        coordinates=x * column_signs(x),
        weights=lengths,
        form=form,
        dtype=gram.dtype,
        stress_terms=terms,
        stress_rises=rises,
        stress_error=error,
        hidden_below=hidden_below,
        sq_norm=sums[0],
        total_sum_of_squares=sums[1],
        trace=sums[2],
        eigenvalues=eigenvalues,
        residuals=residuals,
        converged=converged and (spectrum is None or spectrum.converged),
        solver=solver if spectrum is None else spectrum.solver,
        history=found.history,
        loss=None if squared else found.loss,
        loss_value=math.nan if squared else found.value,
        relative_gradient=found.relative_gradient,
    )


def from_pairs(found: Refined, pairs: Pairs) -> Solution:
    """Turn coordinates fitted to listed pairs into a solution; sums count both orders."""
    x, form = canonical(to_numpy(found.coordinates), found.form)
    lengths = signed_lengths(x, form)
    d, w = pairs.sq_dissimilarity, np.ones(pairs.size) if pairs.weight is None else pairs.weight
    stress, rises = _stress_of_pairs(x, form, pairs, w, found.coordinates)
    mean, sq_norm = float(w @ d) / float(w.sum()), 2 * float(w @ d**2)
    return Solution(
        coordinates=x * column_signs(x),
        weights=lengths,
        form=form,
        dtype=np.float64,
        stress_terms=(stress, 0.0, 0.0),
        stress_rises=rises,
        stress_error=32 * eps(np.float64) * sq_norm,
        sq_norm=sq_norm,
        total_sum_of_squares=2 * float(w @ (d - mean) ** 2),
        trace=0.5 * (pairs.n - 1) * mean,
        converged=found.converged,
        solver="sampled pairs" if pairs.sampled else "pairs",
        history=found.history,
        loss=None if found.loss.name == "squared" else found.loss,
        loss_value=found.value,
        relative_gradient=found.relative_gradient,
    )


def _stress_of_pairs(
    x: Floats, form: Form, pairs: Pairs, w: Floats, near: Array
) -> tuple[float, Floats]:
    """Σ w (D̂ − D)² of listed pairs in both orders, and its rise without each coordinate.

    Computed on the device of `near`.
    """
    xp, stress, rises = namespace(near), 0.0, np.zeros(x.shape[1])
    elements = BLOCK_ELEMENTS if on_cpu(near) else _DEVICE_ELEMENTS
    table = asarray_like(x, near)
    for some in row_blocks(pairs.size, x.shape[1], elements):
        i, j = (asarray_like(ends[some], near, dtype=xp.int64) for ends in (pairs.i, pairs.j))
        d, weight = (asarray_like(part[some], near) for part in (pairs.sq_dissimilarity, w))
        ends = xp.take(table, i, axis=0), xp.take(table, j, axis=0)
        residual, without = form.paired_residuals(*ends, d)
        stress += 2 * float(weight @ residual**2)
        rises += 2 * to_numpy(weight @ (without**2 - residual[:, None] ** 2))
    return stress, rises


def _weighted_sums(d: Array, w: Array) -> tuple[float, float, float]:
    """Σ w D², Σ w (D − mean)² and the trace that goes with the weighted mean."""
    xp, (n, _) = namespace(d), d.shape
    mean = float(xp.sum(w * d)) / float(xp.sum(w))
    total = float(xp.sum(w * (d - mean) ** 2))
    return float(xp.sum(w * d**2)), total, 0.5 * (n - 1) * mean


def _stress_by_pairs(
    gram: Gram, weights: Array | None, x: Array, form: Form
) -> tuple[StressTerms, float, Floats]:
    """Σ w (d̂² − d²)² as C1, a bound on its error, and its rise without each coordinate.

    Residuals are known to some ε(‖x_i‖² + ‖x_j‖²). With a curvature the rises are of at most
    `RISE_OBJECTS` objects with all others; else they are sums of products with powers of x.
    """
    xp, signs, own = namespace(x), form.signs, namespace(x).sum(x * x, axis=1)
    a = asarray_like(signs, x)
    step, (k, ones) = -(-gram.n // RISE_OBJECTS), (signs.size, xp.ones_like(x))
    powers = xp.concat([ones, x, x**2, x**3, x**4], axis=1)
    value, spread, counted, rises = 0.0, 0.0, 0.0, np.zeros(signs.size)
    for rows, part in gram.walk():
        d = xp.astype(part, xp.float64, copy=False)
        w = xp.ones_like(d) if weights is None else xp.astype(weights[rows, :], xp.float64)

        def stress(d_hat: Array, some: slice = slice(None), d: Array = d, w: Array = w) -> float:
            return float(xp.sum(w[some, :] * (form.to_sq_distance(d_hat) - d[some, :]) ** 2))

        d_hat = form.sq(x[rows, :], x)
        value += stress(d_hat)
        spread += float(xp.sum(w * (own[rows][:, None] + own[None, :]) ** 2))
        if form.is_flat:
            y, off = x[rows, :], w * (d_hat - d)
            of_w, of_off = w @ powers, off @ powers[:, : 3 * k]
            w0, w1, w2, w3, w4 = (of_w[:, i * k : (i + 1) * k] for i in range(5))
            r0, r1, r2 = (of_off[:, i * k : (i + 1) * k] for i in range(3))
            fourth = ((w0 * y - 4 * w1) * y + 6 * w2) * y**2 - 4 * w3 * y + w4
            second = (r0 * y - 2 * r1) * y + r2
            rises += to_numpy(xp.sum(fourth - 2 * a * second, axis=0))
            continue
        some = slice(-rows.start % step, None, step)
        y, there = x[rows, :][some, :], d_hat[some, :]
        with_all = stress(there, some)
        counted += with_all
        for axis in range(signs.size):
            change = (y[:, axis][:, None] - x[:, axis][None, :]) ** 2
            rises[axis] += stress(there - float(signs[axis]) * change, some) - with_all
    share = counted / value if value and not form.is_flat else 1.0
    level = max(16 * eps(np.float64), 4 * eps(gram.dtype, xp))
    error = level * math.sqrt(spread)
    bound = error * (2 * math.sqrt(value) + error) + level * value
    return (value, 0.0, 0.0), bound, rises / (share or 1.0)


def _hidden_below(gram: Gram, spectrum: Spectrum, found: int, requested: int | None) -> float:
    """Return the null level if eigenvalues of ordinary size may lie below it; else 0."""
    if requested is None or found >= requested:
        return 0.0
    # Only if the known pairs hold nearly all of B can a few entries hide the others.
    known = float(spectrum.values @ spectrum.values)
    if spectrum.frobenius_sq - known > 1e-9 * spectrum.frobenius_sq:
        return 0.0
    try:
        outliers = outlying_entries(gram)
    except InputError:  # chunks on the workers of a cluster, too many to be gathered
        return 0.0
    hidden = bool(outliers.entries) and spectrum.null_level > 1e-2 * outliers.typical
    return spectrum.null_level if hidden else 0.0


def held_out(solution: Solution, pairs: Pairs, checks: Iterable[Check]) -> Solution:
    """Return a solution with STRESS, R² and loss of all pairs, with standard errors.

    All pairs that were not fitted are estimated from `checks`, objects drawn at random with others
    each. Pairs of one object are alike, so standard errors are those of a mean over objects.
    """
    n, mean = pairs.n, float(np.mean(pairs.sq_dissimilarity))
    x, form = to_numpy(solution.coordinates), solution.form
    loss = solution.loss or PairLoss("squared")

    def of_fitted(some: slice) -> Floats:
        ends = x[pairs.i[some]], x[pairs.j[some]]
        return _sums(*ends, form, loss, pairs.sq_dissimilarity[some], mean)

    values = np.sum(parallel_map(of_fitted, row_blocks(pairs.size, 4 * x.shape[1])), axis=0)
    keys, rows, count = pairs.i.astype(np.int64) * n + pairs.j, [], []
    for one, others, length in checks:
        new = np.minimum(one, others) * n + np.maximum(one, others)
        place = np.minimum(np.searchsorted(keys, new), keys.size - 1)
        unseen = keys[place] != new
        j, d = others[unseen], length[unseen] ** 2
        rows.append(_sums(x[one], x[j], form, loss, d, mean))
        count.append(j.size)
    made, left = np.array(rows), n * (n - 1) - 2 * pairs.size
    means = made.sum(axis=0) / max(1, sum(count))
    total = 2 * values + left * means
    stress, loss, shift, squares = total[:4].tolist()
    shift /= n * (n - 1)
    spread = squares - n * (n - 1) * shift**2
    # Of the mean of each sum over the pairs of all objects drawn; R² = 1 − STRESS / Σ(D − mean)².
    off = made - np.multiply.outer(count, means)
    off[:, 3] -= 2 * shift * off[:, 2]
    scale = left / max(1, sum(count)) * sqrt(len(count) / max(1, len(count) - 1))
    of_r2 = (off[:, 0] - stress / spread * off[:, 3]) / spread if spread else off[:, 0] * np.nan
    return replace(
        solution,
        stress_terms=(stress, 0.0, 0.0),
        stress_rises=total[4:],
        loss_value=loss,
        sq_norm=spread + n * (n - 1) * (mean + shift) ** 2,
        total_sum_of_squares=spread,
        trace=0.5 * (n - 1) * (mean + shift),
        stress_standard_error=scale * float(np.linalg.norm(off[:, 0])),
        r2_standard_error=scale * float(np.linalg.norm(of_r2)),
        held_out_pairs=sum(count),
    )


def _sums(x: Floats, y: Floats, form: Form, loss: PairLoss, d: Floats, mean: float) -> Floats:
    """Σ(D̂ − D)², the loss, Σ(D − mean), Σ(D − mean)² and rises of the first, of some pairs."""
    residual, without = form.paired_residuals(x, y, d)
    off, cost = d - mean, loss.value(form, form.to_sq(d), form.paired_sq(x, y))
    rises = (without**2 - residual[:, None] ** 2).sum(axis=0)
    return np.array([residual @ residual, cost, off.sum(), off @ off, *rises])


def smacof_solution(gram: DenseGram, k: int, *, random_state: Any = 0) -> Solution:
    """Run SMACOF on √D, and return its coordinates and their STRESS."""
    from sklearn.manifold import smacof

    d = to_numpy(gram.sq_dissimilarity).astype(np.float64)
    if float(d.min()) < 0 or not d.any():
        raise InputError("SMACOF needs dissimilarities that are not negative, and not all zero.")
    with warnings.catch_warnings():
        # Of new defaults, which are not used here.
        warnings.simplefilter("ignore", FutureWarning)
        found, _, iterations = smacof(
            np.sqrt(d),
            n_components=k,
            n_init=SMACOF_STARTS,
            max_iter=SMACOF_ITERATIONS,
            normalized_stress=False,
            random_state=random_state,
            return_n_iter=True,
        )
    end = Refined(
        coordinates=found,
        form=Form(np.ones(k)),
        loss=PairLoss("squared"),
        value=math.nan,
        history=(),
        converged=iterations < SMACOF_ITERATIONS,
        relative_gradient=math.nan,
    )
    return from_refinement(gram, end, solver="smacof")
