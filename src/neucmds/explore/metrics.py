"""Quality of an embedding against D, in row blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import Array, asarray_like, namespace, to_numpy
from neucmds.form import flat
from neucmds.spectrum.geometry import rounding_level, sq_dissimilarities
from neucmds.spectrum.operators.gram import Gram

__all__ = ["PairErrors", "Quality", "measure", "pair_errors"]

Floats = npt.NDArray[np.float64]

# Medians and quantiles are of all pairs up to this many (4,096 objects), and beyond of about as
# many drawn at random: the share below a quantile is then known to ±0.0004.
SAMPLED_PAIRS = 2**23
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
        4,096 objects, of eight million pairs drawn at random.
    raw_stress : float
        Σ(d̂ − d)² over pairs i < j: what SMACOF minimises.
    stress1 : float
        Kruskal's stress-1 at the best scale, √(1 − (Σdd̂)² / (Σd²Σd̂²)), as R's smacof reports it.
    stress_1 : float
        √(raw stress / Σ d̂²): the same at the scale of the coordinates as they are.
    relative_error_mean, relative_error_median, relative_error_p95, relative_error_p99 : float
        Of |d̂/d − 1| over the pairs with d > 0. A quantile q is the least error that the share q of
        the pairs does not exceed; above 4,096 objects, of eight million pairs drawn at random.
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


def measure(
    gram: Gram, coordinates: Array, signs: Array, *, weights: Array = None, curvature: float = 0.0
) -> Quality:
    """Measure coordinates with a signature against the D behind an operator.

    `neucmds.evaluate` does the same for an `Embedding` and a D of any kind.

    Parameters
    ----------
    gram : Gram
        Where D comes from.
    coordinates : array of shape (n, k)
    signs : array of shape (k,)
    weights : array of shape (n, n), optional
        Sums over pairs are weighted: `stress`, `normalized_stress`, `r2`, `scaled_additive_error`,
        `raw_stress`, `stress1` and `stress_1`. All else counts pairs of positive weight alike.
    curvature : float, default=0
        κ in units of 1/d², as `Embedding.kappa`: D̂ is turned into d̂² first.

    Returns
    -------
    Quality

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds.explore.metrics import measure
    >>> from neucmds.spectrum.operators.dense import DenseGram
    >>> x = np.array([[0.0], [1.0], [3.0]])
    >>> measure(DenseGram((x - x.T) ** 2), x, np.ones(1)).r2
    1.0

    Paper: subsec:eva-pert-metric.
    """
    x = asarray_like(coordinates, gram.diagonal(), dtype=gram.xp.float64)
    form = asarray_like(signs, x)
    share = SAMPLED_PAIRS / max(SAMPLED_PAIRS, gram.n * (gram.n - 1) // 2)
    sums, ratios, errors = _Sums(), _Sample(share), _Sample(share)
    nearest = _Neighbors(x, form, weights)
    for block in _blocks(gram, x, form, weights, curvature):
        sums.add(block)
        ratios.add(block.log_ratios())
        errors.add(block.relative_errors())
        nearest.add(block)
    median, p95, p99 = errors.quantiles(0.5, 0.95, 0.99)
    return Quality(
        **sums.measures(),
        distortion=math.exp(ratios.mean_deviation()),
        relative_error_mean=errors.total / errors.count if errors.count else math.nan,
        relative_error_median=median,
        relative_error_p95=p95,
        relative_error_p99=p99,
        neighbors_kept=nearest.kept / nearest.possible if nearest.possible else math.nan,
        neighbor_objects=nearest.ids.size,
        undefined_pairs=sums.pairs - ratios.count,
        negative_dissimilarities=sums.negative,
        negative_coordinates=int(np.sum(to_numpy(signs) < 0)),
    )


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
        order = np.argsort(-np.nan_to_num(self.of_object, nan=-1.0), kind="stable")
        return [int(i) for i in order[:count] if self.of_object[i] >= 0]


def pair_errors(
    gram: Gram,
    coordinates: Array,
    signs: Array,
    *,
    weights: Array = None,
    curvature: float = 0.0,
    limit: float = 0.1,
) -> PairErrors:
    """Count the pairs that are off by more than a limit, and average the error of each object.

    Parameters
    ----------
    gram, coordinates, signs, curvature
        As for `measure`.
    weights : array of shape (n, n), optional
        Pairs of weight zero are left out; all others count alike.
    limit : float, default=0.1
        On |d̂/d − 1|.

    Returns
    -------
    PairErrors

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds.explore.metrics import pair_errors
    >>> from neucmds.spectrum.operators.dense import DenseGram
    >>> x = np.array([[0.0], [1.0], [3.0]])
    >>> found = pair_errors(DenseGram((x - x.T) ** 2), np.array([[0.0], [1.0], [4.0]]), np.ones(1))
    >>> found.pairs_off, found.worst(1)
    (2, [2])
    """
    x = asarray_like(coordinates, gram.diagonal(), dtype=gram.xp.float64)
    sums = np.zeros((6, gram.n))
    pairs_off, center = 0, math.nan
    for block in _blocks(gram, x, asarray_like(signs, x), weights, curvature):
        defined = to_numpy(block.counted & (block.d > 0))
        errors = np.zeros(defined.shape)
        errors[defined] = block.relative_errors()
        pairs_off += int((errors > limit).sum())
        d, d_hat, counted = map(to_numpy, (block.d, block.d_hat, block.counted))
        # Any number among the entries keeps the digits of a variance.
        center = float(d[counted][0]) if math.isnan(center) and counted.any() else center
        residual, shifted = ((d_hat - d) * counted, (d - center) * counted)
        parts = (errors, defined, residual**2, counted, shifted, shifted**2)
        for part, into in zip(parts, sums, strict=True):
            into[block.rows] += part.sum(axis=1)
            into[block.rows.start :] += part.sum(axis=0)
    totals, counts, missed, pairs, first, second = sums
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = second - first**2 / pairs
        r2 = 1 - missed / np.where(spread > 1e-14 * second, spread, math.nan)
        share = missed / missed.sum() if missed.any() else np.zeros(gram.n)
        return PairErrors(limit, pairs_off, int(counts.sum()) // 2, totals / counts, share, r2)


@dataclass(frozen=True)
class _Block:
    """Pairs i < j of one row block: D, D̂, the rounding of D̂, and weights if there are any."""

    rows: slice
    whole_rows: Array
    d: Array
    d_hat: Array
    level: Array
    counted: Array
    weights: Array | None

    def log_ratios(self) -> Floats:
        """log(d / d̂) where both are positive beyond rounding, as one flat NumPy array."""
        xp = namespace(self.d)
        defined = self.counted & (self.d > 0) & (self.d_hat > self.level)
        ratio = xp.log(self.d[defined]) - xp.log(self.d_hat[defined])
        return 0.5 * to_numpy(ratio)

    def relative_errors(self) -> Floats:
        """|d̂/d − 1| where d > 0, as one flat NumPy array."""
        xp = namespace(self.d)
        defined = self.counted & (self.d > 0)
        d, d_hat = self.d[defined], self.d_hat[defined]
        # Roots first: a quotient of squares may overflow.
        ratio = xp.sqrt(xp.where(d_hat > 0, d_hat, xp.zeros_like(d_hat))) / xp.sqrt(d)
        return np.asarray(to_numpy(xp.abs(ratio - 1.0)))


def _blocks(
    gram: Gram, x: Array, signs: Array, weights: Array | None, curvature: float
) -> Iterator[_Block]:
    """Row blocks of D beside D̂, upper triangle only."""
    xp = gram.xp
    ids = asarray_like(np.arange(gram.n), x, dtype=xp.int64)
    for rows, part in gram.walk():
        d = xp.astype(part[:, rows.start :], xp.float64, copy=False)
        counted, w = ids[rows.start :][None, :] > ids[rows][:, None], None
        if weights is not None:
            w = xp.astype(weights[rows, rows.start :], xp.float64, copy=False)
            counted = counted & (w > 0)
        level = rounding_level(x[rows, :], x[rows.start :, :])
        d_hat = flat(sq_dissimilarities(x[rows, :], x[rows.start :, :], signs), curvature)
        yield _Block(rows, part, d, d_hat, level, counted, w)


class _Sums:
    """Running weighted sums over the pairs i < j."""

    def __init__(self) -> None:
        # ‖D̂ − D‖², ‖D‖², ‖D̂‖², ⟨D̂ − D, D̂⟩ and the weight; the sum and the squares of D less any
        # number near its mean, which keeps the digits of a variance; the first four of the roots.
        self.of_squares, self.shifted, self.of_roots = np.zeros(5), np.zeros(2), np.zeros(4)
        self.center, self.has_roots = math.nan, True
        self.negative, self.pairs = 0, 0

    def add(self, block: _Block) -> None:
        xp = namespace(block.d)
        zero = xp.zeros_like(block.d)
        d, d_hat = (xp.where(block.counted, part, zero) for part in (block.d, block.d_hat))

        def totals(*parts: Array) -> list[float]:
            weights = 1.0 if block.weights is None else block.weights
            return [float(xp.sum(weights * part)) for part in parts]

        gap, counted = d_hat - d, xp.astype(block.counted, xp.float64)
        self.of_squares += totals(gap * gap, d * d, d_hat * d_hat, gap * d_hat, counted)
        negative = block.counted & (block.d_hat < -block.level)
        self.negative += int(xp.sum(xp.astype(negative, xp.int64)))
        self.pairs += int(xp.sum(xp.astype(block.counted, xp.int64)))
        if not self.pairs:
            return
        if math.isnan(self.center):
            self.center = float(xp.sum(d)) / self.pairs
        shifted = xp.where(block.counted, block.d - self.center, zero)
        self.shifted += totals(shifted, shifted * shifted)
        self.has_roots = self.has_roots and not bool(xp.any(d < 0))
        if self.has_roots:
            root_hat = xp.sqrt(xp.where(d_hat > 0, d_hat, zero))
            gap = root_hat - xp.sqrt(d)
            self.of_roots += totals(gap * gap, d, root_hat * root_hat, gap * root_hat)

    def measures(self) -> dict[str, float]:
        """Return the fields of `Quality` that are made of sums."""
        # Doubled: D and D̂ are symmetric with zero diagonals.
        stress, sq_norm, hat_sq, gap_dot_hat, weight = (2 * self.of_squares).tolist()
        shifted, shifted_sq = (2 * self.shifted).tolist()
        additive = _at_best_scale(stress, gap_dot_hat, hat_sq) if hat_sq else sq_norm
        total = shifted_sq - shifted / (weight or 1.0) * shifted
        raw_stress, root_sq, root_hat_sq, gap_dot_hat = self.of_roots.tolist()
        stress1 = stress_1 = math.nan
        if self.has_roots and root_hat_sq > 0:
            stress_1 = math.sqrt(raw_stress / root_hat_sq)
            scaled = _at_best_scale(raw_stress, gap_dot_hat, root_hat_sq)
            stress1 = math.sqrt(scaled / root_sq) if root_sq else math.nan
        return {
            "stress": stress,
            "normalized_stress": stress / sq_norm if sq_norm else 0.0,
            # Rounding of a constant D leaves 1e-32 of ‖D‖².
            "r2": 1 - stress / total if total > 1e-28 * sq_norm else math.nan,
            "scaled_additive_error": math.sqrt(additive),
            "raw_stress": raw_stress if self.has_roots else math.nan,
            "stress1": stress1,
            "stress_1": stress_1,
        }


def _at_best_scale(stress: float, residual_dot_hat: float, hat_sq: float) -> float:
    """Return min over α of ‖d − αd̂‖² from ‖d̂ − d‖², ⟨d̂ − d, d̂⟩ and ‖d̂‖².

    The projection is subtracted from the residual, not from d: no digits are lost on good fits.
    Divided first, so that no square overflows.
    """
    return max(0.0, stress - residual_dot_hat / hat_sq * residual_dot_hat)


class _Sample:
    """Values of pairs that come in chunks: all, or a random share of many."""

    def __init__(self, share: float) -> None:
        self.share, self.rng = share, np.random.default_rng(0)
        self.kept: list[Floats] = []
        self.count, self.total = 0, 0.0

    def add(self, values: Floats) -> None:
        self.count += values.size
        self.total += float(values.sum())
        if self.share < 1:
            values = values[self.rng.random(values.size, dtype=np.float32) < self.share]
        self.kept.append(values)

    def mean_deviation(self) -> float:
        """Mean of |x − median|."""
        (median,), values = self.quantiles(0.5), np.concatenate(self.kept)
        return float(np.mean(np.abs(values - median))) if values.size else math.nan

    def quantiles(self, *shares: float) -> list[float]:
        values = np.concatenate(self.kept)
        if not values.size:
            return [math.nan for _ in shares]
        return [float(one) for one in np.quantile(values, shares, method="inverted_cdf")]


class _Neighbors:
    """Count the nearest by D̂ that are near by D, over all objects or a sample."""

    def __init__(self, x: Array, signs: Array, weights: Array | None) -> None:
        n = int(x.shape[0])
        self.x, self.signs, self.weights, self.ids = x, signs, weights, np.arange(n)
        if n > NEIGHBOR_OBJECTS:
            drawn = np.random.default_rng(0).choice(n, NEIGHBOR_OBJECTS, replace=False)
            self.ids = np.sort(drawn)
        self.kept, self.possible = 0, 0

    def add(self, block: _Block) -> None:
        xp = namespace(self.x)
        low, high = np.searchsorted(self.ids, [block.rows.start, block.rows.stop])
        ids = self.ids[low:high]
        if not ids.size:
            return
        at = asarray_like(ids, self.x, dtype=xp.int64)
        d = to_numpy(xp.take(block.whole_rows, at - block.rows.start, axis=0)).astype(np.float64)
        d_hat = to_numpy(sq_dissimilarities(xp.take(self.x, at, axis=0), self.x, self.signs))
        others = np.arange(d.shape[1])[None, :] != ids[:, None]
        if self.weights is not None:
            others &= to_numpy(xp.take(self.weights, at, axis=0)) > 0
        d, d_hat = (np.where(others, part, np.inf) for part in (d, d_hat))
        m = min(NEIGHBORS, d.shape[1] - 1)
        nearest = np.argpartition(d_hat, m - 1, axis=1)[:, :m]
        radius = np.partition(d, m - 1, axis=1)[:, m - 1 : m]
        found = np.take_along_axis(d, nearest, axis=1)
        # Ties are equal to nine digits.
        near = np.isfinite(found) & (found <= radius + 1e-9 * np.abs(radius))
        self.kept += int(near.sum())
        self.possible += int(np.minimum(m, np.isfinite(d).sum(axis=1)).sum())
