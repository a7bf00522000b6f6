"""Quality of an embedding against D, in row blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import Array, asarray_like, namespace, to_numpy
from neucmds.embedding import Embedding
from neucmds.errors import InputError
from neucmds.form import Form, rounding_level
from neucmds.prepared import dense_gram, prepare
from neucmds.problem.dense import Dense
from neucmds.problem.names import ordered_by_name
from neucmds.spectrum.operators.gram import Gram

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.intp]

# Medians and quantiles are of all pairs up to this many (4,000 objects), and beyond of about as
# many drawn at random: the share below a quantile is then known to ±0.0004.
SAMPLED_PAIRS = 8_000_000
NEIGHBORS = 10
# Objects drawn for `neighbors_kept` if there are more: the share is then known to ±0.01.
NEIGHBOR_OBJECTS = 2000


@dataclass(frozen=True)
class Quality:
    """How well coordinates with a signature give D back.

    D and D̂ are on the squared scale, d = √D and d̂ = √max(D̂, 0). What has no meaning for some D is
    NaN: measures of d if D has negative entries, and ratios whose denominator is zero.

    Parameters
    ----------
    stress : float
        ‖D̂ − D‖²_F over all n² entries.
    normalized_stress : float
        STRESS / ‖D‖²_F: the share of ‖D‖² that is missed.
    r2 : float
        1 − Σ(D̂ − D)² / Σ(D − mean)² over pairs: 1 is perfect, 0 is no better than a constant. NaN
        if all dissimilarities are equal.
    scaled_additive_error : float
        min over α of ‖D − αD̂‖_F: a norm, as in print.
    distortion : float
        Average geometric distortion of d against d̂ over the defined pairs; 1 is perfect. Above
        4,000 objects, of eight million pairs drawn at random.
    raw_stress : float
        Σ(d̂ − d)² over pairs i < j: what SMACOF minimises.
    stress1 : float
        Kruskal's stress-1 at the best scale, √(1 − (Σdd̂)² / (Σd²Σd̂²)), as R's smacof reports it.
    stress_1 : float
        √(raw stress / Σ d̂²): the same at the scale of the coordinates as they are.
    relative_error_mean, relative_error_median, relative_error_p95, relative_error_p99 : float
        Of |d̂/d − 1| over the pairs with d > 0. A quantile q is the least error that the share q of
        the pairs does not exceed; above 4,000 objects, of eight million pairs drawn at random.
    neighbors_kept : float
        Mean share of an object's 10 nearest by D̂ that are no farther by D than its 10th nearest;
        equally near objects count as neighbours.
    neighbor_objects : int
        Number of objects that was measured on: all, or 2,000 drawn at random.
    undefined_pairs : int
        Pairs left out of the distortion: D or D̂ not positive, or D̂ not distinguishable from zero
        (errata E14).
    negative_dissimilarities : int
        Pairs i < j with D̂ negative beyond rounding.
    negative_coordinates : int
        Coordinates of negative sign.
    """

    stress: float
    normalized_stress: float
    r2: float
    scaled_additive_error: float
    distortion: float
    raw_stress: float
    stress1: float
    stress_1: float
    relative_error_mean: float
    relative_error_median: float
    relative_error_p95: float
    relative_error_p99: float
    neighbors_kept: float
    neighbor_objects: int
    undefined_pairs: int
    negative_dissimilarities: int
    negative_coordinates: int

    def as_dict(self) -> dict[str, Any]:
        """Return the measures by name."""
        return asdict(self)


@dataclass(frozen=True)
class PairErrors:
    """Which pairs and which objects an embedding misses.

    Parameters
    ----------
    limit : float
        Relative error beyond which a pair counts as off.
    pairs_off : int
        Pairs with |d̂/d − 1| > limit.
    pairs : int
        All pairs with d > 0.
    of_object : ndarray of shape (n,)
        Mean |d̂/d − 1| of each object over its pairs with d > 0; NaN if it has none.
    stress_share : ndarray of shape (n,)
        Share of each object's pairs in STRESS; they add up to 1. The stress per point of R's
        smacof, on the squared scale.
    r2_of_object : ndarray of shape (n,)
        1 − Σ(D̂ − D)² / Σ(D − mean)² over the pairs of each object, with their own mean: 1 is
        perfect, 0 no better than one number for all of them. NaN where these are equal.
    """

    limit: float
    pairs_off: int
    pairs: int
    of_object: Floats
    stress_share: Floats
    r2_of_object: Floats

    def worst(self, count: int = 3) -> list[int]:
        """Return the numbers of the objects with the largest mean error, the worst first."""
        order = np.argsort(-self.of_object, kind="stable")  # NaN last
        known = order[np.isfinite(self.of_object[order])]
        return [int(i) for i in known[:count]]


def evaluate(
    embedding: Embedding,
    D: Any,
    *,
    squared: bool | None = None,
    symmetrize: bool = False,
    weights: Any = None,
    missing: Literal["error", "ignore"] = "error",
) -> Quality:
    """Measure an embedding against D by every measure of `neucmds.explore.Quality`.

    Parameters
    ----------
    embedding : Embedding
    D : as for `neuc_mds`, or Dense
        Objects in the order of the embedding.
    squared : bool, optional
        Whether D holds squared dissimilarities; by default as in the fit.
    symmetrize
        As for `neuc_mds`.
    weights : array of shape (n, n), optional
        As for `neuc_mds`. Pairs of weight zero are left out of every measure. Sums over pairs are
        weighted, so that the STRESS and R² are those of a fit with these weights: `stress`,
        `normalized_stress`, `r2`, `scaled_additive_error`, `raw_stress`, `stress1` and `stress_1`.
        Relative errors, distortion and neighbours count all other pairs alike.
    missing : {"error", "ignore"}, default="error"
        "ignore": pairs that are NaN in D are left out of every measure.

    Returns
    -------
    Quality

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import evaluate, neuc_mds
    >>> x = np.random.default_rng(0).normal(size=(30, 3))
    >>> D = np.sqrt(((x[:, None] - x[None, :]) ** 2).sum(-1))
    >>> quality = evaluate(neuc_mds(D, 3), D)
    >>> round(quality.r2, 6), quality.neighbors_kept
    (1.0, 1.0)
    """
    problem = _problem_of(embedding, D, squared, symmetrize, weights, missing)
    return measure(problem, embedding.coordinates, embedding.form)


def pair_errors(
    embedding: Embedding,
    D: Any,
    *,
    limit: float = 0.1,
    squared: bool | None = None,
    symmetrize: bool = False,
    weights: Any = None,
    missing: Literal["error", "ignore"] = "error",
) -> PairErrors:
    """Count the pairs that are off by more than a limit, and average the error of each object.

    Parameters
    ----------
    embedding, D, squared, symmetrize, missing
        As for `evaluate`.
    limit : float, default=0.1
        On |d̂/d − 1|.
    weights : array of shape (n, n), optional
        Pairs of weight zero are left out; all others count alike.

    Returns
    -------
    PairErrors

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import neuc_mds
    >>> from neucmds.explore import pair_errors
    >>> x = np.array([[0.0], [1.0], [3.0]])
    >>> embedding = neuc_mds(np.abs(x - x.T), 1)
    >>> x[2] = 4.0  # farther away than in the fit
    >>> errors = pair_errors(embedding, np.abs(x - x.T))
    >>> errors.pairs_off, errors.worst(1)
    (2, [2])
    """
    problem = _problem_of(embedding, D, squared, symmetrize, weights, missing)
    x = _in_float64(problem.gram, embedding.coordinates)
    center = _center(problem)
    sums = np.zeros((6, problem.n))
    pairs_off = 0
    for rows, _, *arrays in _row_blocks(problem, x, embedding.form):
        d, d_hat, pair_weights = map(to_numpy, arrays)
        counted = pair_weights > 0
        defined = counted & (d > 0)
        errors = np.zeros(d.shape)
        errors[defined] = _relative_errors(np.sqrt(d[defined]), d_hat[defined])
        pairs_off += int((errors > limit).sum())
        sq_residuals = (d_hat - d) ** 2 * counted
        shifted = (d - center) * counted
        parts = (errors, defined, sq_residuals, counted, shifted, shifted**2)
        for part, total in zip(parts, sums, strict=True):
            total[rows] += part.sum(axis=1)
            total[rows.start :] += part.sum(axis=0)
    error, defined_pairs, stress, pairs, first, second = sums
    with np.errstate(invalid="ignore", divide="ignore"):
        variation = second - first**2 / pairs
        variation[variation <= 1e-14 * second] = math.nan
        return PairErrors(
            limit,
            pairs_off,
            pairs=int(defined_pairs.sum()) // 2,
            of_object=error / defined_pairs,
            stress_share=stress / (stress.sum() or 1.0),
            r2_of_object=1 - stress / variation,
        )


def _problem_of(
    embedding: Embedding,
    D: Any,
    squared: bool | None,
    symmetrize: bool,
    weights: Any,
    missing: Literal["error", "ignore"],
) -> Dense:
    """Read D, whose objects must be those of the embedding."""
    if not isinstance(embedding, Embedding):
        raise InputError(
            f"the first argument is a {type(embedding).__name__}; call evaluate(embedding, D)."
        )
    if squared is None:
        squared = embedding.squared
    if embedding.labels is not None:  # D itself may have no names
        weights = ordered_by_name(
            weights, embedding.labels, "weights", rows=True
        )
    reading: Any = {
        "symmetrize": symmetrize,
        "weights": weights,
        "missing": missing,
    }
    problem = prepare(D, 1, squared=squared, **reading)
    if problem.n != embedding.n:
        raise InputError(
            f"D has {problem.n} objects, but the embedding has {embedding.n}; pass the D that was "
            "embedded."
        )
    names = {problem.labels, embedding.labels} - {None}
    if len(names) > 1:
        raise InputError(
            "the objects of D have other names than those of the embedding, or another order; pass "
            "D in the order of its labels."
        )
    return problem


def measure(problem: Dense, coordinates: Array, form: Form) -> Quality:
    """Measure coordinates against D.

    Paper: subsec:eva-pert-metric.
    """
    gram = problem.gram
    x = _in_float64(gram, coordinates)
    center = _center(problem)
    share = min(1.0, SAMPLED_PAIRS / math.comb(max(2, gram.n), 2))
    ratio_draws = np.random.default_rng(0)
    error_draws = np.random.default_rng(0)
    neighbor_ids = _drawn_objects(gram.n)
    ratios = []
    errors = []
    error_sum = 0.0
    sums = np.zeros(11)
    # Pairs, those with an error, with a ratio, with D and with D̂ below zero; neighbours kept, of.
    counts = np.zeros(7, dtype=np.int64)
    for rows, part, d, d_hat, weights in _row_blocks(problem, x, form):
        counted = weights > 0
        level = rounding_level(x[rows, :], x[rows.start :, :])
        level = level[counted]
        d = d[counted]
        d_hat = d_hat[counted]
        sums += _weighted_sums(d, d_hat, weights[counted], center)
        positive = d > 0
        block_errors = _relative_errors(
            gram.xp.sqrt(d[positive]), d_hat[positive]
        )
        block_ratios = _log_ratios(d, d_hat, positive & (d_hat > level))
        errors.append(_sampled(block_errors, share, error_draws))
        ratios.append(_sampled(block_ratios, share, ratio_draws))
        error_sum += float(block_errors.sum())
        negative = (_number(d < 0), _number(d_hat < -level))
        near = _near(problem, x, form, neighbor_ids, rows, part)
        counts += (
            d.shape[0],
            block_errors.size,
            block_ratios.size,
            *negative,
            *near,
        )
    pairs, n_errors, n_ratios, below_zero, hat_below_zero, kept, possible = (
        counts.tolist()
    )
    median, p95, p99 = _quantiles(errors, (0.5, 0.95, 0.99))
    return Quality(
        **_measures_of_sums(sums, has_roots=not below_zero),
        distortion=math.exp(_mean_deviation(ratios)),
        relative_error_mean=_ratio(error_sum, n_errors),
        relative_error_median=median,
        relative_error_p95=p95,
        relative_error_p99=p99,
        neighbors_kept=_ratio(kept, possible),
        neighbor_objects=neighbor_ids.size,
        undefined_pairs=pairs - n_ratios,
        negative_dissimilarities=hat_below_zero,
        negative_coordinates=form.signature[1],
    )


def _in_float64(gram: Gram, coordinates: Array) -> Array:
    """Bring coordinates to the library and the device of D."""
    return asarray_like(coordinates, gram.diagonal(), dtype=gram.xp.float64)


def _center(problem: Dense) -> float:
    """Return the mean of D, over the pairs that count."""
    if problem.weights is None:
        return problem.gram.mean
    squares = dense_gram(problem, "weights").sq_dissimilarity
    known = squares[problem.weights > 0]
    return float(namespace(known).mean(known))


def _row_blocks(
    problem: Dense, x: Array, form: Form
) -> Iterator[tuple[slice, Array, Array, Array, Array]]:
    """Yield row slices, their rows of D, and D, d̂² and weights of these rows from there on.

    Weights are zero but for pairs i < j, and one for these if the problem has none.
    """
    gram = problem.gram
    xp = gram.xp
    ids = asarray_like(np.arange(gram.n), x, dtype=xp.int64)
    for rows, part in gram.walk():
        cols = slice(rows.start, gram.n)
        d = xp.astype(part[:, cols], xp.float64, copy=False)
        above = ids[cols][None, :] > ids[rows][:, None]
        weights = xp.astype(above, xp.float64)
        if problem.weights is not None:
            weights *= problem.weights[rows, cols]
        sq_fitted = form.sq(x[rows, :], x[cols, :])
        yield rows, part, d, form.to_sq_distance(sq_fitted), weights


def _weighted_sums(
    d: Array, d_hat: Array, weights: Array, center: float
) -> Floats:
    """Add up over pairs what the measures made of sums need.

    ‖D̂ − D‖², ‖D‖², ‖D̂‖², ⟨D̂ − D, D̂⟩ and the weight; the sum and the squares of D less a number
    near its mean, which keeps the digits of a variance; the first four of the roots.
    """
    xp = namespace(d)
    gap = d_hat - d
    shifted = d - center
    root = xp.sqrt(xp.clip(d, 0.0, None))
    root_hat = xp.sqrt(xp.clip(d_hat, 0.0, None))
    root_gap = root_hat - root
    products = (
        (gap, gap),
        (d, d),
        (d_hat, d_hat),
        (gap, d_hat),
        (xp.ones_like(d), xp.ones_like(d)),
        (shifted, xp.ones_like(d)),
        (shifted, shifted),
        (root_gap, root_gap),
        (root, root),
        (root_hat, root_hat),
        (root_gap, root_hat),
    )
    sums = [xp.vecdot(weights * left, right) for left, right in products]
    return np.array([float(value) for value in sums])


def _measures_of_sums(sums: Floats, *, has_roots: bool) -> dict[str, float]:
    """Return the fields of `Quality` that follow from `_weighted_sums`."""
    # Doubled: D and D̂ are symmetric with zero diagonals.
    doubled = (2 * sums[:7]).tolist()
    stress, sq_norm, hat_sq, gap_dot_hat, weight, shifted, shifted_sq = doubled
    raw_stress, root_sq, root_hat_sq, root_gap_dot_hat = sums[7:].tolist()
    variation = shifted_sq - shifted / (weight or 1.0) * shifted
    if variation <= 1e-28 * sq_norm:  # rounding of a constant D leaves 1e-32
        variation = 0.0
    additive = sq_norm
    if hat_sq:
        additive = _at_best_scale(stress, gap_dot_hat, hat_sq)
    scaled_stress = math.nan
    if not has_roots:
        raw_stress = math.nan
    elif root_hat_sq:
        scaled_stress = _at_best_scale(
            raw_stress, root_gap_dot_hat, root_hat_sq
        )
    return {
        "stress": stress,
        "normalized_stress": stress / (sq_norm or 1.0),
        "r2": 1 - _ratio(stress, variation),
        "scaled_additive_error": math.sqrt(additive),
        "raw_stress": raw_stress,
        "stress1": math.sqrt(_ratio(scaled_stress, root_sq)),
        "stress_1": math.sqrt(_ratio(raw_stress, root_hat_sq)),
    }


def _at_best_scale(
    stress: float, residual_dot_hat: float, hat_sq: float
) -> float:
    """Return min over α of ‖d − αd̂‖² from ‖d̂ − d‖², ⟨d̂ − d, d̂⟩ and ‖d̂‖².

    The projection is subtracted from the residual, not from d: no digits are lost on good fits.
    Divided first, so that no square overflows.
    """
    return max(0.0, stress - residual_dot_hat / hat_sq * residual_dot_hat)


def _number(mask: Array) -> int:
    """Count what is true."""
    xp = namespace(mask)
    return int(xp.sum(xp.astype(mask, xp.int64)))


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else math.nan


def _relative_errors(root: Array, d_hat: Array) -> Floats:
    """Return |d̂/d − 1| of √D > 0 and D̂; roots first, as a quotient of squares may overflow."""
    xp = namespace(root)
    ratio = xp.sqrt(xp.clip(d_hat, 0.0, None)) / root
    return np.asarray(to_numpy(xp.abs(ratio - 1.0)))


def _log_ratios(d: Array, d_hat: Array, defined: Array) -> Floats:
    """Return log(d / d̂) where both are positive beyond rounding."""
    xp = namespace(d)
    sq_log_ratios = xp.log(d[defined]) - xp.log(d_hat[defined])
    return np.asarray(to_numpy(0.5 * sq_log_ratios))


def _sampled(values: Floats, share: float, rng: np.random.Generator) -> Floats:
    """Draw a share of many values."""
    if share == 1:
        return values
    return values[rng.random(values.size, dtype=np.float32) < share]


def _quantiles(
    parts: Sequence[Floats], shares: Sequence[float]
) -> list[float]:
    values = np.concatenate(parts)
    if not values.size:
        return [math.nan] * len(shares)
    quantiles = np.quantile(values, shares, method="inverted_cdf")
    return [float(value) for value in quantiles]


def _mean_deviation(parts: Sequence[Floats]) -> float:
    """Return the mean of |x − median|."""
    (median,) = _quantiles(parts, (0.5,))
    deviations = np.abs(np.concatenate(parts) - median)
    return _ratio(float(deviations.sum()), deviations.size)


def _drawn_objects(n: int) -> Ids:
    """Return all objects, or those drawn from many, in ascending order."""
    if n <= NEIGHBOR_OBJECTS:
        return np.arange(n)
    drawn = np.random.default_rng(0).choice(n, NEIGHBOR_OBJECTS, replace=False)
    return np.sort(drawn)


def _near(
    problem: Dense,
    x: Array,
    form: Form,
    ids: Ids,
    rows: slice,
    part: Array,
) -> tuple[int, int]:
    """Count the nearest by D̂ that are near by D, and how many could be, of objects in some rows."""
    xp = namespace(x)
    ids = ids[(ids >= rows.start) & (ids < rows.stop)]
    if not ids.size:
        return 0, 0
    indices = asarray_like(ids, x, dtype=xp.int64)
    own_rows = xp.take(part, indices - rows.start, axis=0)
    own_points = xp.take(x, indices, axis=0)
    d = to_numpy(own_rows).astype(np.float64)
    d_hat = to_numpy(form.sq(own_points, x))
    hidden = np.arange(problem.n) == ids[:, None]
    if problem.weights is not None:
        own_weights = xp.take(problem.weights, indices, axis=0)
        hidden |= to_numpy(own_weights) <= 0
    d[hidden] = np.inf
    d_hat[hidden] = np.inf
    count = min(NEIGHBORS, problem.n - 1)
    last = count - 1
    nearest = np.argpartition(d_hat, last, axis=1)[:, :count]
    nearest_d = np.take_along_axis(d, nearest, axis=1)
    radius = np.partition(d, last, axis=1)[:, last:count]
    rounding = 1e-9 * np.abs(radius)  # ties are equal to nine digits
    near = np.isfinite(nearest_d) & (nearest_d <= radius + rounding)
    known = np.isfinite(d).sum(axis=1)
    return int(near.sum()), int(np.minimum(count, known).sum())
