"""From what a user holds to a checked, named matrix of squared dissimilarities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from neucmds._backend import arrays
from neucmds._backend.arrays import Array
from neucmds._backend.memory import require_memory
from neucmds._input import containers, tiles
from neucmds._input.names import as_labels
from neucmds._input.validation import Rules, exceeds_range, validate, working_dtype
from neucmds.errors import InputError, option

Missing = Literal["error", "ignore"]


@dataclass(frozen=True, eq=False)
class Dissimilarity:
    """A checked square matrix of squared dissimilarities, and what its objects are called.

    Parameters
    ----------
    values : array of shape (n, n)
        Squared dissimilarities, floating, symmetric to rounding, in the caller's array library.
        NaN marks a missing pair.
    labels : tuple of str, or None
        One unique name an object.
    """

    values: Array
    labels: tuple[str, ...] | None = None

    @property
    def n(self) -> int:
        """Number of objects."""
        return int(self.values.shape[0])


def as_dissimilarity(
    data: Any,
    *,
    squared: bool = False,
    symmetrize: bool = False,
    copy: bool = True,
    missing: Missing = "error",
    labels: Sequence[object] | None = None,
    double: bool = False,
) -> Dissimilarity:
    """Read, check and name a dissimilarity matrix, and put it on the squared scale.

    Parameters
    ----------
    data : array, nested list, DataFrame, DistanceMatrix, str or Path
        A square matrix; or its condensed upper triangle in the order of
        `scipy.spatial.distance.squareform`; or the file that holds either (`-`: standard input).
        Arrays stay in their library and on their device. Masked entries count as missing.
    squared : bool, default False
        Whether `data` already holds squared dissimilarities, which may be negative.
    symmetrize : bool, default False
        Average D and Dᵀ, on the scale given, instead of refusing an asymmetric matrix. Where only
        one of the two is missing, the other stands for both.
    copy : bool, default True
        Keep the caller's array as it is; else a writable floating array may be overwritten with its
        squares. Squared floats are never copied, unless they are symmetrized.
    missing : {"error", "ignore"}, default "error"
        What to do about NaN off the diagonal: refuse, or keep as missing pairs.
    labels : sequence, optional
        Names of the objects; they go before those found in `data`.
    double : bool, default False
        Work in float64; else float32 stays float32, unless its squares would be lost.

    Examples
    --------
    >>> from neucmds._input import as_dissimilarity
    >>> as_dissimilarity([[0, 3], [3, 0]], labels=["here", "there"]).values
    array([[0., 9.],
           [9., 0.]])
    """
    check_missing(missing)
    if isinstance(data, Dissimilarity):
        return (
            data
            if labels is None
            else as_dissimilarity(data.values, squared=True, missing="ignore", labels=labels)
        )
    table = containers.unwrap(data)
    dtype = working_dtype(table.array)
    if double:
        dtype = arrays.namespace(table.array).float64
    source, expanded = containers.to_square(table.array, dtype)
    names = as_labels(table.labels if labels is None else labels, source.shape[0])
    overwrite = expanded or table.owned or (not copy and not table.wrapped)
    rules = Rules(squared, symmetrize, missing == "ignore", names)
    return Dissimilarity(_checked_values(source, dtype, rules, overwrite), names)


def check_missing(missing: str) -> None:
    """Refuse what is neither of the two things to do about missing pairs."""
    if missing not in ("error", "ignore"):
        raise InputError(f"{option('missing', missing)} is unknown; pass 'error' or 'ignore'.")


def _checked_values(source: Array, dtype: Any, rules: Rules, overwrite: bool) -> Array:
    """Validate a square matrix and return it on the squared scale.

    A new target is written in the walk that checks; the source itself only once all has passed, so
    that a refused matrix is left as it was, and averages only once it is known what to average.
    """
    n, xp = int(source.shape[0]), arrays.namespace(source)
    target = _target(source, dtype, rules, overwrite)
    at_once = target is not None and target is not source and not rules.symmetrize
    extent = tiles.survey(source, dtype, rules, target if at_once else None)
    size, triangle = validate(extent, tiles.strips(source), rules, n, dtype, xp)
    if dtype == xp.float32 and exceeds_range(size, rules.squared, 32, n):
        # float32 squares of 1e-25 are zero, and those of 1e20 infinite.
        target, at_once = _new_target(source, xp.float64), False
    if target is None:
        return source
    if not at_once:
        tiles.write(source, target, rules, triangle)
    return target


def _target(source: Array, dtype: Any, rules: Rules, overwrite: bool) -> Array | None:
    """Where the result is written: nowhere (the source will do), over the source, or anew."""
    same_dtype = bool(source.dtype == dtype)
    if same_dtype and rules.squared and not rules.symmetrize:
        return None
    # A strided view is squared tile by tile as well, but then belongs to a larger array whose owner
    # may not expect it: only whole blocks of memory are overwritten.
    whole = not arrays.is_numpy(source) or source.flags.c_contiguous or source.flags.f_contiguous
    if overwrite and same_dtype and whole and arrays.is_writable(source):
        return source
    return _new_target(source, dtype)


def _new_target(source: Array, dtype: Any) -> Array:
    n, xp = int(source.shape[0]), arrays.namespace(source)
    if arrays.is_numpy(source):
        require_memory(
            n * n * int(xp.finfo(dtype).bits) // 8,
            f"a squared copy of D of {n} objects",
            "pass D as float32, or an npy file, which is read in blocks, or use LandmarkNeucMDS",
        )
    target = arrays.empty_like(source, source.shape, dtype)
    if not arrays.is_writable(target):
        library = type(source).__module__.split(".")[0]
        raise InputError(f"arrays of {library} cannot be written to; pass numpy.asarray(D).")
    return target
