"""The walk over a D in memory: pairs of mirrored tiles, checked and written in one go.

The matrix is read once, each tile with the tile across the diagonal, so that no n×n temporary
arises and the transposed reads stay in cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial, reduce
from itertools import starmap
from typing import Any

import numpy as np

from neucmds._backend import arrays
from neucmds._backend.arrays import Array
from neucmds._backend.cuda_kernels import mirrored_extremes
from neucmds._backend.threads import parallel_map
from neucmds._input.validation import (
    Entries,
    Extreme,
    Find,
    Findings,
    Floats,
    Half,
    PerObject,
    Place,
    Rules,
    Tile,
    diagonal_findings,
    exceeds_range,
    tolerance,
)

# At n = 8000 in float64 the walk took 50 ms on two threads with tiles of 384 (128: 124 ms, 256: 61,
# 1024: 63). The tile for other libraries is larger, for there a launch and a transfer a tile weigh
# more than the cache.
NUMPY_TILE = 384
DEVICE_TILE = 8192


def tile_side(array: Array) -> int:
    """Rows and columns of a tile, for the library the array belongs to."""
    return NUMPY_TILE if arrays.is_numpy(array) else DEVICE_TILE


def tile_strips(n: int, side: int) -> Iterator[list[Tile]]:
    """Tiles of the upper triangle, diagonal ones included, one strip for each row of tiles."""
    blocks = list(arrays.row_blocks(n, side, side * side))
    for i, rows in enumerate(blocks):
        yield [(rows, cols) for cols in blocks[i:]]


def survey(source: Array, dtype: Any, rules: Rules, target: Array | None = None) -> Findings:
    """Note what a matrix holds, and write it on the squared scale to a target on the way."""

    def note(strip: list[Tile]) -> Findings:
        found = []
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            for tile in strip:
                upper, lower = _mirrored(source, tile, dtype)
                found.append(pair_findings(upper, lower, tile, n))
                if target is not None:
                    _write(target, upper, lower, tile, rules, None)
        return reduce(Findings.merged, found)

    n = int(source.shape[0])
    diagonal = diagonal_findings(arrays.namespace(source).linalg.diagonal(source))
    clean = _in_one_kernel(source, dtype, rules)
    if clean is not None:
        if target is not None:
            _write_rows(source, target, rules)
        return clean.merged(diagonal)
    found: Findings = reduce(Findings.merged, _each_strip(source, note))
    return found.merged(diagonal)


def _in_one_kernel(source: Array, dtype: Any, rules: Rules) -> Findings | None:
    """Note what a matrix on a GPU holds, where nothing has to be looked for entry by entry."""
    ends = mirrored_extremes(source) if source.dtype == dtype else None
    if ends is None or not all(map(math.isfinite, ends)):
        return None
    low, high, gap = ends
    size = Extreme(max(high, -low))
    found = Findings(
        size=size, gap=Extreme(gap), depth=Extreme(max(0.0, -low)), above=size, below=size
    )
    # What is refused is looked for tile by tile: a message names the entry.
    asymmetric = gap > tolerance(found, arrays.eps(dtype, arrays.namespace(source)))
    negative = low < 0 and not rules.squared
    return (
        None if asymmetric or negative or exceeds_range(found.size.value, rules.squared) else found
    )


def _write_rows(source: Array, target: Array, rules: Rules) -> None:
    """Write a symmetric matrix on the squared scale, its diagonal exactly zero."""
    n = int(source.shape[0])
    for rows in arrays.row_blocks(n, n, DEVICE_TILE**2):
        target[rows, :] = source[rows, :] if rules.squared else source[rows, :] ** 2
        target[rows, rows] = finished(
            target[rows, rows], rules=replace(rules, squared=True), diagonal=True
        )


def write(source: Array, target: Array, rules: Rules, triangle: Half | None = None) -> None:
    """Write a matrix on the squared scale to a target that may be itself."""

    def write_strip(strip: list[Tile]) -> None:
        for tile in strip:
            upper, lower = _mirrored(source, tile, target.dtype)
            _write(target, upper, lower, tile, rules, triangle)

    _each_strip(source, write_strip)


def find_in(source: Array) -> Find:
    """Return what finds the worst entry within a tile of the source."""
    return partial(_find, source)


def _each_strip(source: Array, work: Callable[[list[Tile]], Any]) -> list[Any]:
    strips = list(tile_strips(int(source.shape[0]), tile_side(source)))
    return list((parallel_map if arrays.is_numpy(source) else map)(work, strips))


def _mirrored(source: Array, tile: Tile, dtype: Any) -> tuple[Array, Array]:
    rows, cols = tile
    upper, lower = source[rows, cols], source[cols, rows]
    if source.dtype == dtype:
        return upper, lower
    xp = arrays.namespace(source)
    return xp.astype(upper, dtype), xp.astype(lower, dtype)


def pair_findings(upper: Array, lower: Array, tile: Tile, n: int) -> Findings:
    """Note what a tile on or above the diagonal and its mirror image hold, but for the diagonal."""
    mirror, diagonal = lower.T, tile[0] == tile[1]
    low, high, gap, above, below = _extremes(upper, mirror, diagonal)
    others: dict[str, Any] = {}
    if not (math.isfinite(low) and math.isfinite(high) and math.isfinite(gap)):
        others = _unusable(upper, lower, tile, n)
        low, high, gap, *_ = _extremes(*_filled(upper, mirror), diagonal)
        *_, above, below = _extremes(_zeroed(upper), _zeroed(mirror), diagonal)
    return Findings(
        size=Extreme(max(high, -low), tile),
        gap=Extreme(gap, tile),
        depth=Extreme(-low, tile),
        above=Extreme(above, tile),
        below=Extreme(below, tile),
        **others,
    )


def _extremes(upper: Array, mirror: Array, diagonal: bool) -> tuple[float, ...]:
    """Lowest and highest entry, largest gap, and largest size above and below the diagonal.

    NaN if any entry is.
    """
    xp = arrays.namespace(upper)
    if bool(xp.all(upper == mirror)):
        # Most matrices are symmetric to the last bit, and then one tile tells of both.
        low, high = arrays.min_and_max(upper)
        size = max(high, -low)
        return low, high, 0.0, size, size
    ends = [xp.min(upper), xp.max(upper), xp.min(mirror), xp.max(mirror)]
    ends.append(xp.max(xp.abs(upper - mirror)))
    # One stack, one transfer: on an accelerator each float() would wait for the device.
    low, high, mirror_low, mirror_high, gap = map(float, arrays.to_numpy(xp.stack(ends)))
    above, below = max(high, -low), max(mirror_high, -mirror_low)
    if diagonal and gap > 1e-3 * above:
        # Both tiles hold both halves, of which one may be empty; not where all gaps are small.
        above, below = (float(xp.max(xp.abs(xp.triu(half, k=1)))) for half in (upper, mirror))
    low, high = float(np.minimum(low, mirror_low)), float(np.maximum(high, mirror_high))
    return low, high, gap, above, below


def _unusable(upper: Array, lower: Array, tile: Tile, n: int) -> dict[str, Any]:
    """Count what is infinite or missing; for each object, the pairs missing on both sides."""
    (rows, cols), xp = tile, arrays.namespace(upper)
    on_diagonal = rows == cols
    infinite = Entries.of(arrays.to_numpy(xp.isinf(upper)), rows, cols)
    here, there = (arrays.to_numpy(xp.isnan(part)) for part in (upper, lower))
    if on_diagonal:
        # The diagonal is noted by itself.
        here = here & ~np.eye(len(here), dtype=bool)
        here, there = np.triu(here), np.tril(here)
    else:
        infinite = infinite.merged(Entries.of(arrays.to_numpy(xp.isinf(lower)), cols, rows))
    both = here & there.T
    counts = np.zeros(n, dtype=np.int64)
    counts[rows] += both.sum(axis=1)
    counts[cols] += both.sum(axis=0)
    pairs = Entries.of(both, rows, cols).merged(Entries.of(both.T, cols, rows))
    return {
        "infinite": infinite,
        "missing_above": Entries.of(here, rows, cols),
        "missing_below": Entries.of(there, cols, rows),
        "missing_both": pairs,
        "one_sided": Extreme(float(bool((here != there.T).any())), tile),
        "per_object": PerObject(counts),
    }


def _zeroed(tile: Array) -> Array:
    xp = arrays.namespace(tile)
    return xp.where(xp.isfinite(tile), tile, xp.zeros_like(tile))


def _filled(upper: Array, mirror: Array) -> tuple[Array, Array]:
    """Fill NaN from the other side, else with zero: no largest entry, no gap, not negative."""
    xp = arrays.namespace(upper)
    here, there = _zeroed(upper), _zeroed(mirror)
    return (
        xp.where(xp.isnan(upper), there, here),
        xp.where(xp.isnan(mirror), here, there),
    )


def _write(
    target: Array, upper: Array, lower: Array, tile: Tile, rules: Rules, triangle: Half | None
) -> None:
    rows, cols = tile
    if rules.symmetrize:
        upper = averaged(upper, lower.T, rows == cols, triangle)
    # Made before anything is written: tiles are views of a target that is the source.
    above = finished(upper, rules, rows == cols)
    below = above.T if rules.symmetrize or rows == cols else finished(lower, rules, False)
    target[rows, cols] = above
    if rows != cols:
        target[cols, rows] = below


def finished(tile: Array, rules: Rules, diagonal: bool) -> Array:
    """Put a tile on the squared scale, with an exactly zero diagonal; itself if it is so."""
    if not rules.squared:
        tile = tile * tile
    if not diagonal:
        return tile
    xp = arrays.namespace(tile)
    index = arrays.asarray_like(np.arange(tile.shape[0]), tile, dtype=xp.int64)
    return xp.where(index[:, None] == index[None, :], xp.zeros_like(tile), tile)


def averaged(upper: Array, mirror: Array, diagonal: bool, triangle: Half | None) -> Array:
    """Mean of a tile and its mirror image; the half that holds D, where the other holds nothing."""
    xp = arrays.namespace(upper)
    if triangle is not None and diagonal:
        half = xp.triu(upper if triangle == "upper" else mirror, k=1)
        return half + half.T
    if triangle is not None:
        return upper if triangle == "upper" else mirror
    mean = 0.5 * upper + 0.5 * mirror
    return xp.where(xp.isnan(upper), mirror, xp.where(xp.isnan(mirror), upper, mean))


def _find(source: Array, tile: Tile, score: Callable[[Floats, Floats], Floats]) -> Place:
    """Find the highest score among a tile and its mirror image; above the diagonal wins a tie."""
    rows, cols = tile
    upper, lower = _as_float64(source[rows, cols]), _as_float64(source[cols, rows])

    def best(a: Floats, b: Floats, top: slice, left: slice) -> tuple[float, Place]:
        scores = score(a, b).astype(np.float64)
        scores = np.where(np.isnan(scores), -np.inf, scores)
        i, j = np.unravel_index(int(scores.argmax()), scores.shape)
        return float(scores[i, j]), (top.start + int(i), left.start + int(j))

    sides = ((upper, lower.T, rows, cols), (lower, upper.T, cols, rows))
    return max(starmap(best, sides), key=lambda found: found[0])[1]


def _as_float64(values: Array) -> Floats:
    # Converted before the transfer: NumPy has no bfloat16.
    xp = arrays.namespace(values)
    return arrays.to_numpy(xp.astype(values, xp.float64))
