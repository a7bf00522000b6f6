"""Turn any matrix into checked, named squared dissimilarities, tile by tile."""

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
    size = validate(
        extremes(source, dtype),
        arrays.to_floats(xp.linalg.diagonal(source)),
        partial(_strips, source),
        arrays.eps(dtype, xp),
        squared=squared,
        symmetrize=symmetrize,
        gaps=missing == "ignore",
        labels=names,
    )
    if dtype == xp.float32 and loses_squares(size, squared, n):
        dtype = xp.float64
    same_dtype = source.dtype == dtype
    if same_dtype and squared and not symmetrize:
        return source, names
    may_overwrite = (
        source is not array
        or isinstance(data, (str, os.PathLike, list, tuple))
        or (not copy and arrays.is_array(data))
    )
    # A strided view belongs to a larger array whose owner may not expect it to be overwritten.
    is_whole = not arrays.is_numpy(source) or source.flags.forc
    in_place = may_overwrite and same_dtype and is_whole
    # An average needs the entries of both sides.
    if symmetrize or not (in_place and arrays.is_writable(source)):
        target = _empty(source, dtype)
    else:
        target = source
    _write(source, target, squared, symmetrize)
    return target, names


def _empty(source: Array, dtype: Any) -> Array:
    """Return room for squares."""
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
    """Return least and largest entry and asymmetry, tile by tile; NaN if there is NaN."""
    xp = arrays.namespace(source)
    in_numpy = arrays.is_numpy(source)
    if not in_numpy and source.dtype == dtype:
        extremes = mirrored_extremes(source)
        if extremes is not None:
            return extremes
    elements = arrays.block_elements(source, arrays.CACHED_ELEMENTS)
    side = math.isqrt(elements)
    blocks = list(arrays.row_blocks(source.shape[0], side, side * side))

    def of_strip(i: int) -> Any:
        """Return −lowest, highest and gap: the maximum of each is that of all tiles."""
        rows = blocks[i]
        of_tiles = []
        with np.errstate(invalid="ignore", over="ignore"):
            for cols in blocks[i:]:
                upper = xp.astype(source[rows, cols], dtype, copy=False)
                lower = xp.astype(source[cols, rows], dtype, copy=False)
                of_tiles.append(_tile_extremes(upper, lower.T))
        return np.max(of_tiles, axis=0)

    each = parallel_map if in_numpy else map
    of_strips = list(each(of_strip, range(len(blocks))))
    minus_lowest, highest, gap = np.max(of_strips, axis=0).tolist()
    return -minus_lowest, highest, gap


def _tile_extremes(upper: Array, mirror: Array) -> Extremes:
    """Return −lowest, highest and largest gap of a tile and its mirror image."""
    xp = arrays.namespace(upper)
    low, high = arrays.min_and_max(upper)
    # Most matrices are symmetric to the last bit, and then one tile tells of both.
    if bool(xp.all(upper == mirror)):
        return -low, high, 0.0
    mirror_low, mirror_high = arrays.min_and_max(mirror)
    gap = float(xp.max(xp.abs(upper - mirror)))
    lowest = float(np.minimum(low, mirror_low))
    highest = float(np.maximum(high, mirror_high))
    return -lowest, highest, gap


def _strips(source: Array) -> Strips:
    """Read a matrix by rows, with the columns of the same objects beside them."""
    n = source.shape[0]
    for rows in arrays.row_blocks(n, n, arrays.CACHED_ELEMENTS):
        columns = arrays.to_floats(source[:, rows]).T
        yield hollow(rows.start, arrays.to_floats(source[rows, :]), columns)


def hollow(
    start: int, rows: Floats, columns: Floats
) -> tuple[int, Floats, Floats]:
    """Copy rows from number `start` on, and columns of the same objects, with a zero diagonal."""
    n_rows, n = rows.shape
    diagonal = np.eye(n_rows, n, k=start, dtype=bool)
    rows = np.where(diagonal, 0.0, rows)
    return start, rows, np.where(diagonal, 0.0, columns)


def _write(
    source: Array, target: Array, squared: bool, symmetrize: bool
) -> None:
    """Write D on the squared scale, averaged if asked for, with a diagonal of zeros."""
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
        square = strip[:, rows]
        eye = arrays.asarray_like(np.eye(square.shape[0]), square)
        target[rows, :] = strip
        target[rows, rows] = xp.where(eye > 0, 0.0, square)

    elements = arrays.block_elements(source, arrays.CACHED_ELEMENTS)
    blocks = arrays.row_blocks(n, n, elements)
    each = parallel_map if arrays.is_numpy(source) else map
    for _ in each(fill, blocks):
        pass


def _averaged(strip: Array, mirror: Array) -> Array:
    """Return the mean of both sides, or the side that is known."""
    xp = arrays.namespace(strip)
    mean = 0.5 * strip + 0.5 * mirror
    mean = xp.where(xp.isnan(strip), mirror, mean)
    return xp.where(xp.isnan(mirror), strip, mean)
