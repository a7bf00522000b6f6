"""Unwrap lists, tables and matrices of other libraries into an array and labels."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from scipy.spatial.distance import squareform

from neucmds.backend import arrays
from neucmds.backend.arrays import Array
from neucmds.backend.files import AnyPath, one_line
from neucmds.backend.memory import require_memory
from neucmds.errors import InputError, option
from neucmds.problem.files import read_table
from neucmds.problem.names import (
    Labels,
    is_frame,
    names_of_both,
    row_names,
    text_of,
)
from neucmds.problem.validation import as_labels, working_dtype

# Advice on objects that are not numbers.
COMPARE_OBJECTS = (
    f"convert them, or pass a function of two objects as {option('metric')}"
)


def unwrap(data: Any) -> tuple[Array, Sequence[object] | None]:
    """Return the array in a user's D, and the names of the objects; None: it has none."""
    if arrays.is_numpy(data):
        return as_real(_plain(data), "entries of D", COMPARE_OBJECTS), None
    if isinstance(data, (str, os.PathLike)):
        # Not a memory map: an array can be squared in place, so D takes memory once.
        return read_table(data)
    is_skbio = hasattr(data, "ids") and hasattr(data, "data")
    if is_skbio:
        return np.asarray(data.data), tuple(data.ids)
    if is_frame(data):
        if len(data.select_dtypes(exclude="number").columns):
            # Of a table of features its shape is a better reason to refuse it than its text.
            _refuse_shape(data)
        values = as_real(data, "entries of D")
        if len(data.index) != len(data.columns):
            return values, None
        rows = [text_of(label) for label in data.index]
        columns = [text_of(label) for label in data.columns]
        return values, names_of_both(rows, columns, "D")
    if hasattr(data, "tocsr"):
        raise InputError(
            "D is a sparse array, a list of pairs, which only neuc_mds and NeucMDS accept; pass a "
            f"square array, with NaN for unobserved pairs and {option('missing', 'ignore')} for "
            "evaluate; compare, stress_curve and diagnose need every pair."
        )
    if arrays.is_dask(data):
        raise InputError(
            "D is a dask array; hand it to neuc_mds or NeucMDS, or pass D.compute()."
        )
    refuse_networkx(data)
    return as_real(data, "entries of D", COMPARE_OBJECTS), None


def as_real(data: Any, what: str, advice: str = "convert them") -> Array:
    """Return real numbers as an array of their library or of NumPy, NaN where masked.

    `what` names the numbers in messages, in the plural, and `advice` follows where they are none.
    """
    if isinstance(data, (str, os.PathLike)):
        raise InputError(
            f"{what} are given as a path ({os.fspath(data)!r}); read the file first."
        )
    if hasattr(data, "tocoo"):
        raise InputError(f"{what} are a sparse array; pass its toarray().")
    if hasattr(data, "iloc"):
        values = data.to_numpy()
        if values.dtype == object:
            # pandas' nullable columns come as objects; their NA becomes NaN.
            values = data.to_numpy(dtype=object, na_value=np.nan)
        data = values
    if np.ma.is_masked(data):
        data = _plain(data)
    if not arrays.is_array(data) or data.dtype == object:
        try:
            data = np.asarray(data)
            if data.dtype == object:
                data = data.astype(np.float64)
        except (ValueError, TypeError, OverflowError) as problem:
            raise InputError(
                f"{what} are not numbers ({one_line(problem)}); {advice}."
            ) from problem
    refuse_tensor(data, what)
    if not arrays.namespace(data).isdtype(
        data.dtype, ("bool", "integral", "real floating")
    ):
        raise InputError(
            f"{what} have dtype {data.dtype}, not a real number; {advice}."
        )
    return data


def finite_rows(data: Any, what: str) -> Array:
    """Return a matrix of floats, or refuse what is no matrix of finite numbers of at least 2 rows.

    `what` names the numbers in messages, in the plural.
    """
    rows = as_real(data, what)
    xp = arrays.namespace(rows)
    if len(rows.shape) != 2 or rows.shape[0] < 2:
        raise InputError(
            f"{what} have shape {tuple(rows.shape)}; two dimensions and at least 2 rows are needed."
        )
    rows = xp.astype(rows, working_dtype(rows), copy=False)
    if not bool(xp.all(xp.isfinite(rows))):
        is_bad = arrays.to_numpy(xp.any(~xp.isfinite(rows), axis=1))
        raise InputError(
            f"{what} hold NaN or infinity, first in row {int(is_bad.argmax())}."
        )
    return rows


def refuse_tensor(data: Array, what: str) -> None:
    """Refuse a tensor of PyTorch that is sparse, or requires gradients."""
    if getattr(data, "requires_grad", False):
        raise InputError(
            f"{what}: a tensor that requires gradients, but none pass through a fit; pass its "
            "detach()."
        )
    layout = getattr(data, "layout", None)
    if layout is not None and "strided" not in str(layout):
        raise InputError(
            f"{what}: a sparse tensor ({str(layout).removeprefix('torch.')}); pass its to_dense(), "
            "or observed pairs as a scipy.sparse array."
        )


def _plain(data: Any) -> np.ndarray[Any, Any]:
    """Return a plain array, NaN where masked; of a memory map a view, whose slices are cheaper."""
    if not np.ma.is_masked(data):
        return np.asarray(data)
    if data.dtype.kind != "f":
        data = data.astype(np.float64)
    return np.asarray(data.filled(np.nan))


def to_square(array: Array, dtype: Any) -> Array:
    """Spread a condensed vector over a matrix of this dtype; return a square matrix as it is."""
    if array.ndim == 1:
        array = _spread(array, dtype)
    _refuse_shape(array)
    if array.shape[0] < 2:
        raise InputError(
            f"D has {array.shape[0]} objects; at least 2 are needed."
        )
    return array


def _refuse_shape(array: Array) -> None:
    """Refuse an array or a table that is not square."""
    shape = tuple(array.shape)
    if len(shape) != 2 or shape[0] != shape[1]:
        size = " × ".join(map(str, shape)) or "a single number"
        raise InputError(
            f"D is not square: {size}; pass n × n, or n(n-1)/2 condensed, or "
            f"{option('metric', 'braycurtis')} or another metric if columns are features, such as "
            f"abundances, {option('metric', 'shortest_path')} if rows are edges, or "
            f"{option('directed', True)} if columns are a second set of objects."
        )


def read_square(
    path: AnyPath,
) -> tuple[Array, Labels]:
    """Read a square or condensed matrix and its labels; entries are not checked."""
    values, labels = read_table(path, mmap=True)
    square = to_square(np.asarray(values), working_dtype(values))
    return square, as_labels(labels, len(square))


def refuse_networkx(data: object, what: str = "D") -> None:
    """Refuse a graph of networkx, which NumPy would convert to the numbers of its nodes."""
    if hasattr(data, "nodes") and hasattr(data, "adj"):
        raise InputError(
            f"{what} is a graph; pass {option('metric', 'shortest_path')} as well."
        )


def named_features(data: Any, labels: Any) -> tuple[Any, Any]:
    """Return the features in a user's X, and `labels` or, of a table, the names of its rows."""
    refuse_networkx(data, "X")
    if isinstance(data, (list, tuple)):
        data = as_real(data, "features", COMPARE_OBJECTS)
    if not is_frame(data):
        return data, labels
    for name, column in data.select_dtypes(exclude="number").items():
        as_real(column, f"features in column {name!r}")
    if labels is None:
        labels = row_names(data)
    return as_real(data, "features"), labels


def as_objects(data: Any) -> list[Any] | None:
    """Return a list of objects of any kind, such as strings; None where X is rows of numbers.

    Tables, and lists of equally long lists of numbers, are rows of numbers.
    """
    array = None
    is_series = hasattr(data, "to_numpy") and not is_frame(data)
    if isinstance(data, (list, tuple)):
        if data and not isinstance(data[0], str):
            # Lists of different lengths are no array.
            with suppress(ValueError, TypeError):
                array = np.asarray(data)
    elif arrays.is_numpy(data) or is_series:
        array = np.asarray(data)
    else:
        refuse_networkx(data, "X")
        if not hasattr(data, "shape"):
            kind = type(data).__name__
            raise InputError(
                f"X is of type {kind}; pass a list of objects, or rows of numbers."
            )
        return None
    if array is None or array.ndim != 2 or array.dtype.kind not in "fiub":
        return list(data)
    return None


def _spread(condensed: Array, dtype: Any) -> Array:
    """Return the square matrix of a condensed vector."""
    length = condensed.shape[0]
    n = (1 + math.isqrt(1 + 8 * length)) // 2
    if n * (n - 1) // 2 != length or length == 0:
        raise InputError(
            f"D is a vector of {length} entries, which is n(n-1)/2 for no n; pass all pairs once."
        )
    xp = arrays.namespace(condensed)
    if arrays.is_numpy(condensed):
        require_memory(
            n * n * int(xp.finfo(dtype).bits) // 8,
            f"D of {n} objects, spread from its condensed triangle,",
            "pass it as float32, or a square npy file, which is read in blocks",
        )
    square = squareform(
        arrays.to_numpy(xp.astype(condensed, dtype)), checks=False
    )
    return arrays.asarray_like(square, condensed, dtype=dtype)
