"""Turn any matrix into checked, named squared dissimilarities, tile by tile."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from neucmds.backend import arrays
from neucmds.backend.arrays import Array
from neucmds.backend.cuda_kernels import mirrored_extremes
from neucmds.backend.memory import require_memory
from neucmds.backend.threads import parallel_map
from neucmds.errors import InputError
from neucmds.problem import validation
from neucmds.problem.containers import to_square, unwrap
from neucmds.problem.names import Labels
from neucmds.problem.validation import Extent, Half, Rules, Strips, validate, working_dtype

if TYPE_CHECKING:
    from neucmds.spectrum.operators.gram import Gram

Tile = tuple[slice, slice]

# Sides of tiles: 384 was fastest of 128 to 1024 at n = 8000; on a device launches cost more.
NUMPY_TILE = 384
DEVICE_TILE = 8192


@dataclass(frozen=True, eq=False)
class Dense:
    """A problem in which every pair of objects is known, or has a weight of zero.

    Functions that take D take it in place of D, so that D is read once for several calls;
    `squared`, `labels` and `weights` are then its own.

    Parameters
    ----------
    gram : Gram
        The operator B = −½CDC over D, which is on the squared scale from here on.
    labels : tuple of str or None
        Names of the objects.
    squared : bool
        Whether the input held squared dissimilarities.
    weights : array of shape (n, n), optional
        How much each pair counts, zero where it was not observed; None if all count alike.
    missing : {"error", "ignore"}
        Whether new objects, too, may have dissimilarities that are not known.
    """

    gram: Gram
    labels: Labels = None
    squared: bool = False
    weights: Array | None = None
    missing: str = "error"

    @property
    def n(self) -> int:
        """Number of objects."""
        return self.gram.n


def as_squares(
    data: Any,
    *,
    squared: bool = False,
    symmetrize: bool = False,
    copy: bool = True,
    missing: str = "error",
    labels: Sequence[object] | None = None,
    double: bool = False,
) -> tuple[Array, Labels]:
    """Read and check a dissimilarity matrix; return its squares, NaN where missing, and its names.

    Parameters
    ----------
    data : array, nested list, DataFrame, DistanceMatrix, str or Path
        A square matrix, its condensed upper triangle, or a file of either (`-`: standard input).
        Arrays stay in their library and on their device. Masked entries count as missing.
    squared, symmetrize, missing
        As for `neuc_mds`. If one of two mirrored entries is missing, `symmetrize` takes the other.
    copy : bool, default True
        Whether the caller's array stays; else a writable one may be overwritten with its squares.
        Squared floats are never copied, unless they are symmetrized.
    labels : sequence, optional
        Names of the objects, instead of those in `data`.
    double : bool, default False
        Work in float64; else float32 stays float32, unless its squares would be lost.
    """
    validation.check_flags(missing)
    array, own_labels = unwrap(data)
    dtype = arrays.namespace(array).float64 if double else working_dtype(array)
    source = to_square(array, dtype)
    names = validation.as_labels(own_labels if labels is None else labels, source.shape[0])
    read_here = isinstance(data, (str, os.PathLike, list, tuple))
    overwrite = source is not array or read_here or (not copy and arrays.is_array(data))
    rules = Rules(squared, symmetrize, missing == "ignore", names)
    return _checked_values(source, dtype, rules, overwrite), names


def _checked_values(source: Array, dtype: Any, rules: Rules, overwrite: bool) -> Array:
    """Validate a square matrix and return it on the squared scale.

    A new target is written in the walk that checks; the source itself only once all has passed, so
    that a refused matrix is left as it was, and averages only once it is known what to average.
    """
    (n, _), xp = source.shape, arrays.namespace(source)
    target = _target(source, dtype, rules, overwrite)
    at_once = target is not None and target is not source and not rules.symmetrize
    extent = _walk(source, dtype, rules, target if at_once else None)
    size, triangle = validate(extent, _strips(source), rules, n, dtype, xp)
    if dtype == xp.float32 and validation.exceeds_range(size, rules.squared, 32, n):
        # float32 squares of 1e-25 are zero, and those of 1e20 infinite.
        target, at_once = _target(source, xp.float64, rules, False), False
    if target is None:
        return source
    if not at_once:
        _walk(source, target.dtype, rules, target, triangle, look=False)
    return target


def _target(source: Array, dtype: Any, rules: Rules, overwrite: bool) -> Array | None:
    """Where the result is written: nowhere (the source will do), over the source, or anew."""
    (n, _), xp, same_dtype = source.shape, arrays.namespace(source), source.dtype == dtype
    if same_dtype and rules.squared and not rules.symmetrize:
        return None
    # A strided view is squared tile by tile as well, but then belongs to a larger array whose owner
    # may not expect it: only whole blocks of memory are overwritten.
    whole = not arrays.is_numpy(source) or source.flags.c_contiguous or source.flags.f_contiguous
    if overwrite and same_dtype and whole and arrays.is_writable(source):
        return source
    if arrays.is_numpy(source):
        require_memory(
            n * n * int(xp.finfo(dtype).bits) // 8,
            f"a squared copy of D of {n} objects",
            "pass D as float32, or an npy file, which is read in blocks, or use LandmarkNeucMDS",
        )
    target = arrays.empty_like(source, source.shape, dtype)
    if not arrays.is_writable(target):
        raise InputError(f"arrays of {xp.__name__} cannot be written to; pass numpy.asarray(D).")
    return target


def _walk(
    source: Array,
    dtype: Any,
    rules: Rules,
    target: Array | None,
    triangle: Half | None = None,
    *,
    look: bool = True,
) -> Extent:
    """Return how far a matrix reaches, if it is looked at; write its squares to a target, if any.

    The target may be the source itself.
    """
    xp, numpy = arrays.namespace(source), arrays.is_numpy(source)
    clean = None if numpy or not look else _extent_on_gpu(source, dtype, rules)
    if clean is not None:
        if target is not None:
            _walk(source, dtype, rules, target, look=False)
        return clean
    side = NUMPY_TILE if numpy else DEVICE_TILE
    blocks = list(arrays.row_blocks(int(source.shape[0]), side, side * side))

    def walk_strip(i: int) -> Extent:
        found, rows = Extent(), blocks[i]
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            for cols in blocks[i:]:
                upper, lower = source[rows, cols], source[cols, rows]
                if source.dtype != dtype:
                    upper, lower = xp.astype(upper, dtype), xp.astype(lower, dtype)
                if look:
                    found = found.merged(pair_extent(upper, lower, rows == cols))
                if target is not None:
                    _write(target, upper, lower, (rows, cols), rules, triangle)
        return found

    strips = (parallel_map if numpy else map)(walk_strip, range(len(blocks)))
    return reduce(Extent.merged, strips, Extent())


def _extent_on_gpu(source: Array, dtype: Any, rules: Rules) -> Extent | None:
    """Return the extent of a matrix on a GPU in one pass, if there is nothing to refuse."""
    ends = mirrored_extremes(source) if source.dtype == dtype else None
    if ends is None or not all(map(math.isfinite, ends)):
        return None
    low, high, gap = ends
    xp, size = arrays.namespace(source), max(high, -low)
    # The kernel does not tell a triangle from an asymmetric matrix; the walk by tiles does.
    if gap > validation.tolerance(size, arrays.eps(dtype, xp)):
        return None
    own = float(xp.max(xp.abs(xp.linalg.diagonal(source))))
    return Extent(-low, high, gap, size, size, own)


def _strips(source: Array) -> Strips:
    """Read a matrix by rows, with the columns of the same objects beside them."""
    (n, _), xp = source.shape, arrays.namespace(source)
    for rows in arrays.row_blocks(n, n, NUMPY_TILE**2):
        # Converted before the transfer: NumPy has no bfloat16.
        both = (xp.astype(part, xp.float64) for part in (source[rows, :], source[:, rows]))
        own, mirrored = map(arrays.to_numpy, both)
        yield rows.start, own, mirrored.T


def pair_extent(upper: Array, lower: Array, diagonal: bool) -> Extent:
    """Return how far a tile on or above the diagonal and its mirror image reach."""
    xp, mirror, own = arrays.namespace(upper), lower.T, 0.0
    if diagonal:
        own = float(xp.max(xp.abs(xp.linalg.diagonal(upper))))
    if bool(xp.all(upper == mirror)):
        # Most matrices are symmetric to the last bit, and then one tile tells of both.
        low, high = arrays.min_and_max(upper)
        size = max(high, -low)
        return Extent(-low, high, 0.0, size, size, own)
    ends = [xp.min(upper), xp.max(upper), xp.min(mirror), xp.max(mirror)]
    ends.append(xp.max(xp.abs(upper - mirror)))
    # One stack, one transfer: on an accelerator each float() would wait for the device.
    low, high, mirror_low, mirror_high, gap = map(float, arrays.to_numpy(xp.stack(ends)))
    above, below = max(high, -low), max(mirror_high, -mirror_low)
    if diagonal and gap > 1e-3 * above:
        # Both tiles hold both halves, of which one may be empty; not where all gaps are small.
        above, below = (float(xp.max(xp.abs(xp.triu(half, k=1)))) for half in (upper, mirror))
    low, high = float(np.minimum(low, mirror_low)), float(np.maximum(high, mirror_high))
    return Extent(-low, high, gap, above, below, own)


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
