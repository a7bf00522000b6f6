"""How good an embedding is, against D itself: walked in row blocks, never an n×n temporary."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds._backend.arrays import Array, asarray_like, namespace, to_numpy
from neucmds._methods.geometry import rounding_level, sq_dissimilarities
from neucmds._operator import Gram

__all__ = ["Quality", "evaluate"]

Floats = npt.NDArray[np.float64]

# Log ratios of up to this many pairs are kept between the walks (128 MB); beyond, they are
# computed again.
REMEMBERED_PAIRS = 2**24
HISTOGRAM_BINS = 2**16


@dataclass(frozen=True)
class Quality:
    """Every measure of the paper's tables, for one embedding of one D.

    Parameters
    ----------
    stress : float
        ‖D̂ − D‖²_F over all n² entries, squared scale.
    normalized_stress : float
        STRESS / ‖D‖²_F.
    scaled_additive_error : float
        min over α of ‖D − αD̂‖_F: a norm, as in print.
    distortion : float
        Average geometric distortion of √D against √D̂ over the defined pairs; 1 is perfect.
    undefined_pairs : int
        Pairs left out of the distortion: D or D̂ not positive, or D̂ not distinguishable from zero
        (errata E14).
    negative_dissimilarities : int
        Pairs i < j with D̂ negative beyond rounding.
    negative_eigenvalues : int
        Negative coordinates kept.
    """

    stress: float
    normalized_stress: float
    scaled_additive_error: float
    distortion: float
    undefined_pairs: int
    negative_dissimilarities: int
    negative_eigenvalues: int

    def as_dict(self) -> dict[str, Any]:
        """Return the measures by name."""
        return asdict(self)


def evaluate(gram: Gram, coordinates: Array, signs: Array) -> Quality:
    """Measure coordinates with a signature against D.

    Parameters
    ----------
    gram : Gram
        Where D comes from.
    coordinates : array of shape (n, k)
    signs : array of shape (k,)

    Paper: subsec:eva-pert-metric.
    """
    walk = _Walk(gram, coordinates, signs)
    sums, kept = _Sums(), []
    n_pairs = gram.n * (gram.n - 1) // 2
    for block in walk.blocks():
        sums.add(block)
        ratios = walk.log_ratios(block)
        sums.defined += ratios.size
        if n_pairs <= REMEMBERED_PAIRS:
            kept.append(ratios)

    def all_ratios() -> Iterator[Floats]:
        return iter(kept) if kept else (walk.log_ratios(block) for block in walk.blocks())

    return Quality(
        stress=sums.stress,
        normalized_stress=sums.stress / sums.sq_norm if sums.sq_norm else 0.0,
        scaled_additive_error=sums.scaled_additive_error,
        distortion=math.exp(_mean_absolute_deviation(all_ratios, sums.defined)),
        undefined_pairs=n_pairs - sums.defined,
        negative_dissimilarities=sums.negative,
        negative_eigenvalues=int(np.sum(to_numpy(signs) < 0)),
    )


@dataclass(frozen=True)
class _Block:
    """Pairs i < j of one row block: D, D̂, and what rounding makes of D̂."""

    d: Array
    d_hat: Array
    level: Array
    upper: Array


class _Walk:
    """Row blocks of D beside D̂, upper triangle only."""

    def __init__(self, gram: Gram, coordinates: Array, signs: Array) -> None:
        xp = gram.xp
        self.gram = gram
        self.x = asarray_like(coordinates, gram.diagonal(), dtype=xp.float64)
        self.signs = asarray_like(signs, self.x)

    def blocks(self) -> Iterator[_Block]:
        gram, xp = self.gram, self.gram.xp
        ids = asarray_like(np.arange(gram.n), self.x, dtype=xp.int64)
        for rows in gram.row_slices():
            d = xp.astype(gram.rows(rows)[:, rows.start :], xp.float64, copy=False)
            x, y = self.x[rows, :], self.x[rows.start :, :]
            upper = ids[rows.start :][None, :] > ids[rows][:, None]
            yield _Block(d, sq_dissimilarities(x, y, self.signs), rounding_level(x, y), upper)

    def log_ratios(self, block: _Block) -> Floats:
        """log(√D / √D̂) where both are positive beyond rounding, as one flat NumPy array."""
        xp = self.gram.xp
        defined = block.upper & (block.d > 0) & (block.d_hat > block.level)
        ratio = xp.log(block.d[defined]) - xp.log(block.d_hat[defined])
        return 0.5 * to_numpy(ratio)


class _Sums:
    """Running sums over the pairs i < j; doubled, since D and D̂ are symmetric and hollow."""

    def __init__(self) -> None:
        self.stress = self.sq_norm = self.hat_sq = self.residual_dot_hat = 0.0
        self.negative = self.defined = 0

    def add(self, block: _Block) -> None:
        xp = namespace(block.d)
        zero = xp.zeros_like(block.d)
        d, d_hat = (xp.where(block.upper, part, zero) for part in (block.d, block.d_hat))
        residual = d_hat - d
        self.stress += 2 * float(xp.sum(residual * residual))
        self.sq_norm += 2 * float(xp.sum(d * d))
        self.hat_sq += 2 * float(xp.sum(d_hat * d_hat))
        self.residual_dot_hat += 2 * float(xp.sum(residual * d_hat))
        negative = block.upper & (block.d_hat < -block.level)
        self.negative += int(xp.sum(xp.astype(negative, xp.int64)))

    @property
    def scaled_additive_error(self) -> float:
        # The projection is taken off the residual, not off D: no digits are lost on good fits.
        if self.hat_sq == 0:
            return math.sqrt(self.sq_norm)
        return math.sqrt(max(0.0, self.stress - self.residual_dot_hat**2 / self.hat_sq))


def _mean_absolute_deviation(chunks: Callable[[], Iterator[Floats]], count: int) -> float:
    """Mean |x − median(x)| over chunks, by a histogram and the exact content of its middle bin."""
    if count == 0:
        return math.nan
    low = min(float(c.min()) for c in chunks() if c.size)
    high = max(float(c.max()) for c in chunks() if c.size)
    width = (high - low) / HISTOGRAM_BINS
    if width <= 0 or not math.isfinite(1 / width):
        return 0.0

    def bins(chunk: Floats) -> npt.NDArray[np.intp]:
        return np.minimum(((chunk - low) / width).astype(np.intp), HISTOGRAM_BINS - 1)

    counts, sums = np.zeros(HISTOGRAM_BINS, dtype=np.int64), np.zeros(HISTOGRAM_BINS)
    for chunk in chunks():
        which = bins(chunk)
        counts += np.bincount(which, minlength=HISTOGRAM_BINS)
        sums += np.bincount(which, weights=chunk, minlength=HISTOGRAM_BINS)
    before = np.cumsum(counts) - counts
    middle = int(np.searchsorted(np.cumsum(counts), (count + 1) // 2))
    inside = np.sort(np.concatenate([c[bins(c) == middle] for c in chunks()]))
    median = inside[(count + 1) // 2 - 1 - before[middle]]
    below = median * before[middle] - sums[:middle].sum()
    above = sums[middle + 1 :].sum() - median * counts[middle + 1 :].sum()
    return float((below + above + np.abs(inside - median).sum()) / count)
