"""The walk over a D in memory: pairs of mirrored tiles, checked and written in one go."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce
from typing import Any, TypeVar

import numpy as np

from neucmds._backend import arrays
from neucmds._backend.arrays import Array
from neucmds._backend.cuda_kernels import mirrored_extremes
from neucmds._backend.threads import parallel_map
from neucmds._input.validation import Extent, Floats, Half, Rules, Strips, exceeds_range, tolerance

Tile = tuple[slice, slice]
T = TypeVar("T")

# At n = 8000 in float64 the walk took 50 ms on two threads with tiles of 384 (128: 124 ms, 256: 61,
# 1024: 63). The tile for other libraries is larger, for there a launch and a transfer a tile weigh
# more than the cache.
NUMPY_TILE = 384
DEVICE_TILE = 8192


def tile_strips(n: int, side: int) -> Iterator[list[Tile]]:
    """Tiles of the upper triangle, diagonal ones included, one strip for each row of tiles."""
    blocks = list(arrays.row_blocks(n, side, side * side))
    for i, rows in enumerate(blocks):
        yield [(rows, cols) for cols in blocks[i:]]


def survey(source: Array, dtype: Any, rules: Rules, target: Array | None = None) -> Extent:
    """Return how far a matrix reaches, and write it on the squared scale to a target on the way."""

    def note(strip: list[Tile]) -> Extent:
        found = Extent()
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            for tile in strip:
                upper, lower = _mirrored(source, tile, dtype)
                found = found.merged(pair_extent(upper, lower, tile[0] == tile[1]))
                if target is not None:
                    _write(target, upper, lower, tile, rules, None)
        return found

    clean = _in_one_kernel(source, dtype, rules)
    if clean is None:
        return reduce(Extent.merged, _each_strip(source, note), Extent())
    if target is not None:
        _write_rows(source, target, rules)
    return clean


def _in_one_kernel(source: Array, dtype: Any, rules: Rules) -> Extent | None:
    """Return the extent of a matrix on a GPU, if there is nothing to refuse."""
    ends = mirrored_extremes(source) if source.dtype == dtype else None
    if ends is None or not all(map(math.isfinite, ends)):
        return None
    low, high, gap = ends
    xp, size = arrays.namespace(source), max(high, -low)
    own = float(xp.max(xp.abs(xp.linalg.diagonal(source))))
    # The kernel does not tell a triangle from an asymmetric matrix; the walk by tiles does.
    if gap > tolerance(size, arrays.eps(dtype, xp)) or exceeds_range(size, rules.squared):
        return None
    return Extent(-low, high, gap, size, size, own)


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


def strips(source: Array) -> Strips:
    """Read a matrix by rows, with the columns of the same objects beside them."""
    n = int(source.shape[0])
    for rows in arrays.row_blocks(n, n, NUMPY_TILE**2):
        yield rows.start, _as_float64(source[rows, :]), _as_float64(source[:, rows]).T


def _each_strip(source: Array, work: Callable[[list[Tile]], T]) -> list[T]:
    numpy, n = arrays.is_numpy(source), int(source.shape[0])
    tiles = list(tile_strips(n, NUMPY_TILE if numpy else DEVICE_TILE))
    return list((parallel_map if numpy else map)(work, tiles))


def _mirrored(source: Array, tile: Tile, dtype: Any) -> tuple[Array, Array]:
    rows, cols = tile
    upper, lower = source[rows, cols], source[cols, rows]
    if source.dtype == dtype:
        return upper, lower
    xp = arrays.namespace(source)
    return xp.astype(upper, dtype), xp.astype(lower, dtype)


def pair_extent(upper: Array, lower: Array, diagonal: bool) -> Extent:
    """Return how far a tile on or above the diagonal and its mirror image reach."""
    low, high, gap, above, below = _extremes(upper, lower.T, diagonal)
    own = 0.0
    if diagonal:
        xp = arrays.namespace(upper)
        own = float(xp.max(xp.abs(xp.linalg.diagonal(upper))))
    return Extent(-low, high, gap, above, below, own)


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


def _as_float64(values: Array) -> Floats:
    # Converted before the transfer: NumPy has no bfloat16.
    xp = arrays.namespace(values)
    return arrays.to_numpy(xp.astype(values, xp.float64))
