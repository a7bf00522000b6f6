"""Check a dissimilarity matrix, square its entries, and take the names of its objects."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from neucmds.backend import arrays
from neucmds.backend.arrays import Array, Floats
from neucmds.backend.cuda_kernels import mirrored_extremes
from neucmds.backend.memory import require_memory
from neucmds.backend.threads import parallel_map
from neucmds.errors import InputError
from neucmds.problem.containers import to_square, unwrap
from neucmds.problem.names import Labels
from neucmds.problem.validation import (
    Extremes,
    Strips,
    as_labels,
    loses_squares,
    validate,
    working_dtype,
)

if TYPE_CHECKING:
    from neucmds.spectrum.operators.gram import Gram


@dataclass(frozen=True, eq=False)
class Dense:
    """A problem in which every pair of objects is known, or has a weight of zero.

    Functions that take D also take a `Dense`, so that D is read once for several calls.

    Parameters
    ----------
    gram : Gram
        The operator B = −½CDC, where D holds squared dissimilarities, finite at weight 0, too.
    labels : tuple of str or None
        Names of the objects.
    squared : bool
        Whether the user's input was squared already.
    weights : array of shape (n, n), optional
        How much each pair counts, zero where it was not observed; None if all count alike.
    missing : {"error", "ignore"}
        As the user passed it: "ignore" lets new objects have unknown dissimilarities.
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

    The diagonal of the squares is zero.

    Parameters
    ----------
    data : array, nested list, DataFrame, DistanceMatrix, str or Path
        A square matrix, its condensed upper triangle, or a file of either (`-`: standard input).
        Arrays stay in their library and on their device. Masked entries count as missing.
    squared, symmetrize, missing
        As for `neuc_mds`. If one of two mirrored entries is missing, `symmetrize` takes the other.
    copy : bool, default True
        False: the caller's array may be overwritten with its squares. Squared floats that need
        no change are returned as they are in any case.
    labels : sequence, optional
        Names of the objects, instead of those in `data`.
    double : bool, default False
        Return float64; else float32 stays float32, unless its squares leave the range of float32.
    """
    array, own_labels = unwrap(data)
    xp = arrays.namespace(array)
    if double:
        dtype = xp.float64
    else:
        dtype = working_dtype(array)
    source = to_square(array, dtype)
    n = source.shape[0]
    if labels is None:
        labels = own_labels
    names = as_labels(labels, n)
    diagonal = arrays.to_floats(xp.linalg.diagonal(source))
    largest = validate(
        extremes(source, dtype),
        diagonal,
        partial(_strips, source),
        arrays.eps(dtype, xp),
        squared=squared,
        symmetrize=symmetrize,
        allow_missing=missing == "ignore",
        labels=names,
    )
    if dtype == xp.float32 and loses_squares(largest, squared, n):
        dtype = xp.float64
    same_dtype = source.dtype == dtype
    if same_dtype and squared and not symmetrize and not diagonal.any():
        return source, names
    # Arrays made here (spread from a condensed vector, or read from a file or a list), or given up.
    may_overwrite = (
        source is not array
        or isinstance(data, (str, os.PathLike, list, tuple))
        or (not copy and arrays.is_array(data))
    )
    # A strided view belongs to a larger array whose owner may not expect it to be overwritten.
    is_whole = not arrays.is_numpy(source) or source.flags.forc
    target = source
    # An average needs the entries of both sides.
    if symmetrize or not (
        may_overwrite
        and same_dtype
        and is_whole
        and arrays.is_writable(source)
    ):
        target = _empty(source, dtype)
    _write_squares(source, target, squared, symmetrize)
    return target, names


def _empty(source: Array, dtype: Any) -> Array:
    """Return an unfilled array for the squares of D, or refuse D: no memory, or no writing."""
    xp = arrays.namespace(source)
    n = source.shape[0]
    if arrays.is_numpy(source):
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


def extremes(source: Array, dtype: Any) -> Extremes:
    """Return the lowest and the highest entry, and the largest gap; NaN if an entry is NaN."""
    xp = arrays.namespace(source)
    in_numpy = arrays.is_numpy(source)
    if not in_numpy and source.dtype == dtype:
        from_kernel = mirrored_extremes(source)
        if from_kernel is not None:
            return from_kernel
    # Square tiles: each is compared with its mirror image while both are in cache.
    elements = arrays.block_elements(source, arrays.CACHED_ELEMENTS)
    side = math.isqrt(elements)
    blocks = list(arrays.row_blocks(source.shape[0], side, side * side))

    def strip_extremes(i: int) -> Extremes:
        """Compare the tiles from the diagonal on, in rows of block i, with their images."""
        rows = blocks[i]
        tiles = []
        with np.errstate(invalid="ignore", over="ignore"):
            for cols in blocks[i:]:
                upper = xp.astype(source[rows, cols], dtype, copy=False)
                lower = xp.astype(source[cols, rows], dtype, copy=False)
                tiles.append(_tile_extremes(upper, lower.T))
        return _joint_extremes(tiles)

    each = parallel_map if in_numpy else map
    return _joint_extremes(list(each(strip_extremes, range(len(blocks)))))


def _joint_extremes(parts: list[Extremes]) -> Extremes:
    """Return the extremes of all parts of a matrix."""
    lowest, highest, gaps = np.transpose(parts)
    return float(lowest.min()), float(highest.max()), float(gaps.max())


def _tile_extremes(upper: Array, mirror: Array) -> Extremes:
    """Return the extremes of a tile and its mirror image, transposed."""
    xp = arrays.namespace(upper)
    low, high = arrays.min_and_max(upper)
    # Most matrices are symmetric to the last bit: the image has the same extremes.
    if bool(xp.all(upper == mirror)):
        return low, high, 0.0
    gap = float(xp.max(xp.abs(upper - mirror)))
    return _joint_extremes(
        [(low, high, gap), (*arrays.min_and_max(mirror), gap)]
    )


def _strips(source: Array) -> Strips:
    """Yield blocks of rows of a matrix, each with the columns of the same objects."""
    n = source.shape[0]
    for rows in arrays.row_blocks(n, n, arrays.CACHED_ELEMENTS):
        columns = arrays.to_floats(source[:, rows]).T
        yield hollow(rows.start, arrays.to_floats(source[rows, :]), columns)


def hollow(
    start: int, rows: Floats, columns: Floats
) -> tuple[int, Floats, Floats]:
    """Return rows from number `start` on and columns, both (rows, n), copied, D_ii set to zero."""
    n_rows, n = rows.shape
    diagonal = np.eye(n_rows, n, k=start, dtype=bool)
    rows = np.where(diagonal, 0.0, rows)
    return start, rows, np.where(diagonal, 0.0, columns)


def _write_squares(
    source: Array, target: Array, squared: bool, symmetrize: bool
) -> None:
    """Write the squares of `source` to `target`, which may be the same array."""
    xp = arrays.namespace(source)
    n = source.shape[0]

    def fill(rows: slice) -> None:
        strip = xp.astype(source[rows, :], target.dtype, copy=False)
        if symmetrize:
            mirror = xp.astype(source[:, rows], target.dtype, copy=False).T
            strip = _averaged(strip, mirror)
        with np.errstate(over="ignore", under="ignore"):
            if not squared:
                strip = strip * strip
        tile = strip[:, rows]
        off_diagonal = ~np.eye(tile.shape[0], dtype=bool)
        is_pair = arrays.asarray_like(off_diagonal, tile, xp.bool)
        target[rows, :] = strip
        target[rows, rows] = xp.where(is_pair, tile, 0.0)

    elements = arrays.block_elements(source, arrays.CACHED_ELEMENTS)
    blocks = arrays.row_blocks(n, n, elements)
    each = parallel_map if arrays.is_numpy(source) else map
    for _ in each(fill, blocks):
        pass


def _averaged(strip: Array, mirror: Array) -> Array:
    """Return the mean of mirrored entries; of two, the known one where the other is NaN."""
    xp = arrays.namespace(strip)
    mean = 0.5 * strip + 0.5 * mirror
    mean = xp.where(xp.isnan(strip), mirror, mean)
    return xp.where(xp.isnan(mirror), strip, mean)
