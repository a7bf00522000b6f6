"""Is it a dissimilarity matrix? One walk over pairs of mirrored tiles answers, and may write.

The matrix is read once, each tile with the tile across the diagonal, so that no n×n temporary
arises and the transposed reads stay in cache. The walk only notes the worst it meets; what is too
much is relative to the largest entry and so is judged when the walk is over.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from neucmds._backend import arrays
from neucmds._backend.arrays import Array
from neucmds._backend.threads import parallel_map
from neucmds._input.validation import Findings, Rules, Tile, judge, judge_diagonal, refuse_entries
from neucmds.errors import InputError, option

__all__ = ["check_and_write", "tile_side", "tile_strips", "working_dtype"]

# At n = 8000 in float64 the walk took 50 ms on two threads with tiles of 384 (128: 124 ms, 256: 61,
# 1024: 63). The tile for other libraries is larger, for there a launch and a transfer a tile weigh
# more than the cache.
NUMPY_TILE = 384
DEVICE_TILE = 8192


def working_dtype(array: Array) -> Any:
    """Floating dtype to work in: float32 for floats of at most 32 bits, float64 for the rest."""
    xp = arrays.namespace(array)
    if xp.isdtype(array.dtype, "real floating"):
        return xp.float32 if xp.finfo(array.dtype).bits <= 32 else xp.float64
    if xp.isdtype(array.dtype, ("bool", "integral")):
        return xp.float64
    if xp.isdtype(array.dtype, "complex floating"):
        raise InputError(f"D is complex ({array.dtype}); pass real dissimilarities.")
    raise InputError(f"D has dtype {array.dtype}, which is no real number; convert it to floats.")


def tile_side(array: Array) -> int:
    """Rows and columns a tile, for the library the array belongs to."""
    return NUMPY_TILE if arrays.is_numpy(array) else DEVICE_TILE


def tile_strips(n: int, side: int) -> Iterator[list[Tile]]:
    """Tiles of the upper triangle, diagonal ones included, one strip a row of tiles."""
    blocks = list(arrays.row_blocks(n, side, side * side))
    for i, rows in enumerate(blocks):
        yield [(rows, cols) for cols in blocks[i:]]


def check_and_write(source: Array, target: Array | None, dtype: Any, rules: Rules) -> None:
    """Check a matrix and write it, on the squared scale, to a target that may be itself.

    A new target is written in the walk that checks; the source itself only once all has passed,
    so that a refused matrix is left as it was.
    """

    def look(strip: list[Tile]) -> Findings:
        findings = Findings()
        with np.errstate(invalid="ignore", over="ignore"):
            for tile in strip:
                upper, lower = _mirrored(source, tile, dtype)
                findings = _look(findings, source, upper, lower.T, tile, rules)
                if target is not None and target is not source:
                    _write(target, upper, lower, tile, rules)
        return findings

    def write(strip: list[Tile]) -> None:
        for tile in strip:
            _write(target, *_mirrored(source, tile, dtype), tile, rules)

    strips = list(tile_strips(source.shape[0], tile_side(source)))
    each = parallel_map if arrays.is_numpy(source) else map
    judge(reduce(Findings.merged, each(look, strips)), source, dtype, rules)
    if target is source:
        list(each(write, strips))


def _mirrored(source: Array, tile: Tile, dtype: Any) -> tuple[Array, Array]:
    rows, cols = tile
    upper, lower = source[rows, cols], source[cols, rows]
    if source.dtype == dtype:
        return upper, lower
    xp = arrays.namespace(source)
    return xp.astype(upper, dtype), xp.astype(lower, dtype)


def _look(
    findings: Findings, source: Array, upper: Array, mirror: Array, tile: Tile, rules: Rules
) -> Findings:
    low, high, gap = _extremes(upper, mirror)
    if not (math.isfinite(low) and math.isfinite(high) and math.isfinite(gap)):
        _refuse_unusable(source, upper, mirror, tile, rules)
        findings = _note_missing(findings, source.shape[0], upper, mirror, tile)
        low, high, gap = _extremes(*_without_missing(upper, mirror))
    return replace(
        findings,
        size=findings.size.or_larger(max(high, -low), tile),
        gap=findings.gap.or_larger(gap, tile),
        depth=findings.depth.or_larger(-low, tile),
    )


def _extremes(upper: Array, mirror: Array) -> tuple[float, float, float]:
    """Smallest and largest entry of both tiles and the largest gap; NaN if any is NaN."""
    xp = arrays.namespace(upper)
    if bool(xp.all(upper == mirror)):
        # Most matrices are symmetric to the last bit, and then one tile tells of both.
        return *arrays.min_and_max(upper), 0.0
    lows, highs = (xp.min(upper), xp.min(mirror)), (xp.max(upper), xp.max(mirror))
    # One stack, one transfer: on an accelerator each float() would wait for the device.
    met = arrays.to_numpy(xp.stack([*lows, *highs, xp.max(xp.abs(upper - mirror))]))
    return float(met[:2].min()), float(met[2:4].max()), float(met[4])


def _refuse_unusable(source: Array, upper: Array, mirror: Array, tile: Tile, rules: Rules) -> None:
    """Raise for infinite entries, and for missing ones where they are not allowed."""
    xp = arrays.namespace(upper)
    if bool(xp.any(xp.isinf(upper) | xp.isinf(mirror))):
        advice = f"replace by a finite value, or by NaN with {option('missing', 'ignore')}"
        raise refuse_entries(source, xp.isinf, "infinite", advice, rules)
    if not rules.allow_missing and bool(xp.any(xp.isnan(upper) | xp.isnan(mirror))):
        advice = f"pass {option('missing', 'ignore')} to leave such pairs out"
        raise refuse_entries(source, xp.isnan, "missing (NaN)", advice, rules)
    if tile[0] == tile[1]:
        judge_diagonal(source, rules, math.inf)


def _note_missing(findings: Findings, n: int, upper: Array, mirror: Array, tile: Tile) -> Findings:
    """Count, for each object, the pairs missing on both sides; note pairs missing on one."""
    rows, cols = tile
    xp = arrays.namespace(upper)
    here, there = arrays.to_numpy(xp.isnan(upper)), arrays.to_numpy(xp.isnan(mirror))
    both = here & there
    counts = np.zeros(n, dtype=np.int64) if findings.missing is None else findings.missing.copy()
    counts[rows] += both.sum(axis=1)
    if rows != cols:
        counts[cols] += both.sum(axis=0)
    one_sided = findings.one_sided
    if one_sided is None and bool((here != there).any()):
        one_sided = tile
    return replace(findings, missing=counts, one_sided=one_sided)


def _without_missing(upper: Array, mirror: Array) -> tuple[Array, Array]:
    """Fill NaN from the other side, else with zero: no largest entry, no gap, not negative."""
    xp = arrays.namespace(upper)
    here, there = xp.isnan(upper), xp.isnan(mirror)
    zero = xp.zeros_like(upper)
    return (
        xp.where(here, xp.where(there, zero, mirror), upper),
        xp.where(there, xp.where(here, zero, upper), mirror),
    )


def _write(target: Array, upper: Array, lower: Array, tile: Tile, rules: Rules) -> None:
    rows, cols = tile
    if rules.symmetrize:
        upper = _average(upper, lower.T)
        lower = upper.T
    if not rules.squared:
        upper, lower = upper * upper, lower * lower
    if rows == cols:
        target[rows, cols] = _hollow(upper)
        return
    target[rows, cols] = upper
    target[cols, rows] = lower


def _average(upper: Array, mirror: Array) -> Array:
    xp = arrays.namespace(upper)
    mean = 0.5 * upper + 0.5 * mirror
    return xp.where(xp.isnan(upper), mirror, xp.where(xp.isnan(mirror), upper, mean))


def _hollow(tile: Array) -> Array:
    """Set the diagonal of a square tile to exact zero, in a copy."""
    xp = arrays.namespace(tile)
    index = arrays.asarray_like(np.arange(tile.shape[0]), tile, dtype=xp.int64)
    diagonal = index[:, None] == index[None, :]
    return xp.where(diagonal, xp.zeros_like(tile), tile)
