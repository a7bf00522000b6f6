"""Turn any matrix into checked, named squared dissimilarities, tile by tile."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
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
from neucmds.problem.validation import (
    Extent,
    Half,
    Rules,
    Strips,
    validate,
    working_dtype,
)

if TYPE_CHECKING:
    from neucmds.spectrum.operators.gram import Gram


# Sides of tiles; on a device launches cost more.
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
    array, own_labels = unwrap(data)
    if double:
        dtype = arrays.namespace(array).float64
    else:
        dtype = working_dtype(array)
    source = to_square(array, dtype)
    names = validation.as_labels(
        own_labels if labels is None else labels, source.shape[0]
    )
    read_here = isinstance(data, (str, os.PathLike, list, tuple))
    overwrite = (
        source is not array
        or read_here
        or (not copy and arrays.is_array(data))
    )
    rules = Rules(squared, symmetrize, missing == "ignore", names)
    return _checked_values(source, dtype, rules, overwrite), names


def _checked_values(
    source: Array, dtype: Any, rules: Rules, overwrite: bool
) -> Array:
    """Validate a square matrix and return it on the squared scale.

    A new target is written in the walk that checks; the source itself only once all has passed, so
    that a refused matrix is left as it was, and averages only once it is known what to average.
    """
    n = int(source.shape[0])
    xp = arrays.namespace(source)
    target = _target(source, dtype, rules, overwrite)
    at_once = (
        target is not None and target is not source and not rules.symmetrize
    )
    extent = _extent_on_gpu(source, dtype)
    if extent is None:
        extent = _walk(source, dtype, rules, target if at_once else None)
    else:
        at_once = False
    size, triangle = validate(
        extent, partial(_strips, source), rules, n, dtype, xp
    )
    if dtype == xp.float32 and validation.exceeds_range(
        size, rules.squared, 32, n
    ):
        # float32 squares of 1e-25 are zero, and those of 1e20 infinite.
        target = _target(source, xp.float64, rules, False)
        at_once = False
    if target is None:
        return source
    if not at_once:
        _walk(source, target.dtype, rules, target, triangle, look=False)
    return target


def _target(
    source: Array, dtype: Any, rules: Rules, overwrite: bool
) -> Array | None:
    """Where the result is written: nowhere (the source will do), over the source, or anew."""
    xp = arrays.namespace(source)
    same_dtype = source.dtype == dtype
    if same_dtype and rules.squared and not rules.symmetrize:
        return None
    # A strided view belongs to a larger array whose owner may not expect it to be overwritten.
    whole = not arrays.is_numpy(source) or source.flags.forc
    if overwrite and same_dtype and whole and arrays.is_writable(source):
        return source
    if arrays.is_numpy(source):
        n = int(source.shape[0])
        require_memory(
            n * n * int(xp.finfo(dtype).bits) // 8,
            f"a squared copy of D of {n} objects",
            "pass D as float32, or an npy file, or use LandmarkNeucMDS",
        )
    target = arrays.empty_like(source, source.shape, dtype)
    if not arrays.is_writable(target):
        raise InputError(
            f"arrays of {xp.__name__} cannot be written to; pass numpy.asarray(D)."
        )
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
    xp = arrays.namespace(source)
    in_numpy = arrays.is_numpy(source)
    if in_numpy:
        side = NUMPY_TILE
    else:
        side = DEVICE_TILE
    blocks = list(arrays.row_blocks(int(source.shape[0]), side, side * side))

    def walk_strip(i: int) -> Extent:
        extent = Extent()
        rows = blocks[i]
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            for cols in blocks[i:]:
                upper = xp.astype(source[rows, cols], dtype, copy=False)
                lower = xp.astype(source[cols, rows], dtype, copy=False)
                if look:
                    extent = extent.merged(
                        pair_extent(upper, lower, rows == cols)
                    )
                if target is not None:
                    _write(target, upper, lower, rows, cols, rules, triangle)
        return extent

    strips = (parallel_map if in_numpy else map)(
        walk_strip, range(len(blocks))
    )
    return reduce(Extent.merged, strips, Extent())


def _extent_on_gpu(source: Array, dtype: Any) -> Extent | None:
    """Return the extent of a matrix on a GPU in one pass, if there is nothing to refuse."""
    if arrays.is_numpy(source) or source.dtype != dtype:
        return None
    ends = mirrored_extremes(source)
    if ends is None or not all(map(math.isfinite, ends)):
        return None
    low, high, gap = ends
    xp = arrays.namespace(source)
    size = max(high, -low)
    # The kernel does not tell a triangle from an asymmetric matrix; the walk by tiles does.
    if gap > validation.tolerance(size, arrays.eps(dtype, xp)):
        return None
    own = float(xp.max(xp.abs(xp.linalg.diagonal(source))))
    return Extent(-low, high, gap, size, size, own)


def _strips(source: Array) -> Strips:
    """Read a matrix by rows, with the columns of the same objects beside them."""
    n = int(source.shape[0])
    xp = arrays.namespace(source)
    for rows in arrays.row_blocks(n, n, NUMPY_TILE**2):
        # Converted before the transfer: NumPy has no bfloat16.
        own = arrays.to_numpy(xp.astype(source[rows, :], xp.float64))
        mirrored = arrays.to_numpy(xp.astype(source[:, rows], xp.float64))
        yield rows.start, own, mirrored.T


def pair_extent(upper: Array, lower: Array, diagonal: bool) -> Extent:
    """Return how far a tile on or above the diagonal and its mirror image reach."""
    xp = arrays.namespace(upper)
    mirror = lower.T
    if diagonal:
        own = float(xp.max(xp.abs(xp.linalg.diagonal(upper))))
    else:
        own = 0.0
    low, high = arrays.min_and_max(upper)
    size = max(high, -low)
    if bool(xp.all(upper == mirror)):
        # Most matrices are symmetric to the last bit, and then one tile tells of both.
        return Extent(-low, high, 0.0, size, size, own)
    mirror_low, mirror_high = arrays.min_and_max(mirror)
    gap = float(xp.max(xp.abs(upper - mirror)))
    above = size
    below = max(mirror_high, -mirror_low)
    if diagonal and gap > 1e-3 * above:
        # Both tiles hold both halves, of which one may be empty; not where all gaps are small.
        above = float(xp.max(xp.abs(xp.triu(upper, k=1))))
        below = float(xp.max(xp.abs(xp.triu(mirror, k=1))))
    lowest = float(np.minimum(low, mirror_low))
    highest = float(np.maximum(high, mirror_high))
    return Extent(-lowest, highest, gap, above, below, own)


def _write(
    target: Array,
    upper: Array,
    lower: Array,
    rows: slice,
    cols: slice,
    rules: Rules,
    triangle: Half | None,
) -> None:
    diagonal = rows == cols
    if rules.symmetrize:
        upper = averaged(upper, lower.T, diagonal, triangle)
    # Made before anything is written: tiles are views of a target that is the source.
    above = finished(upper, rules, diagonal)
    if rules.symmetrize or diagonal:
        below = above.T
    else:
        below = finished(lower, rules, False)
    target[rows, cols] = above
    if not diagonal:
        target[cols, rows] = below


def finished(tile: Array, rules: Rules, diagonal: bool) -> Array:
    """Put a tile on the squared scale, with an exactly zero diagonal; itself if it is so."""
    if not rules.squared:
        tile = tile * tile
    if not diagonal:
        return tile
    xp = arrays.namespace(tile)
    index = arrays.asarray_like(np.arange(tile.shape[0]), tile, dtype=xp.int64)
    return xp.where(
        index[:, None] == index[None, :], xp.zeros_like(tile), tile
    )


def averaged(
    upper: Array, mirror: Array, diagonal: bool, triangle: Half | None
) -> Array:
    """Mean of a tile and its mirror image; the half that holds D, where the other holds nothing."""
    xp = arrays.namespace(upper)
    if triangle is not None:
        if triangle == "upper":
            half = upper
        else:
            half = mirror
        if not diagonal:
            return half
        half = xp.triu(half, k=1)
        return half + half.T
    mean = 0.5 * upper + 0.5 * mirror
    return xp.where(
        xp.isnan(upper), mirror, xp.where(xp.isnan(mirror), upper, mean)
    )
