"""Read dissimilarities from rows to columns: of the same objects there and back, or of two sets."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from neucmds.backend.arrays import (
    EPS,
    Array,
    asarray_like,
    eps,
    in_double,
    min_and_max,
    namespace,
    to_numpy,
)
from neucmds.errors import InputError, option
from neucmds.problem.containers import as_real, unwrap
from neucmds.problem.files import read_rectangle
from neucmds.problem.names import (
    Labels,
    examples,
    is_frame,
    names_in,
    order_of,
    ordered_by_name,
    row_numbers,
)
from neucmds.problem.pairs import refuse_parts
from neucmds.problem.validation import (
    as_labels,
    refuse_range,
    tolerance,
)
from neucmds.problem.weights import checked_weights


@dataclass(frozen=True, eq=False)
class Directed:
    """A problem in which every dissimilarity from a row to a column is known, or has no weight.

    Parameters
    ----------
    sq_dissimilarity : array of shape (m, n)
        d² from the objects of the rows to those of the columns; finite.
    weights : array of shape (m, n)
        How much each pair counts: zero where it was not observed, and from an object to itself.
    labels : tuple of str or None
        Names of the rows.
    arrival_labels : tuple of str or None
        Names of the columns, if these are other objects than the rows; else None.
    squared, missing
        As of `Dense`.
    """

    sq_dissimilarity: Array
    weights: Array
    labels: Labels = None
    arrival_labels: Labels = None
    squared: bool = False
    missing: str = "error"

    @property
    def n(self) -> int:
        """Number of columns."""
        return int(self.sq_dissimilarity.shape[1])

    @property
    def is_symmetric(self) -> bool:
        """Whether rows and columns are the same objects, as far apart there as back."""
        sq_d = self.sq_dissimilarity
        m, n = sq_d.shape
        if m != n or self.arrival_labels is not None:
            return False
        xp = namespace(sq_d)
        largest = max(map(abs, min_and_max(sq_d)))
        gap = float(xp.max(xp.abs(sq_d - sq_d.T)))
        is_known = self.weights > 0
        return bool(xp.all(is_known == is_known.T)) and gap <= tolerance(
            largest, eps(sq_d.dtype, xp)
        )


def as_directed(
    data: Any,
    *,
    labels: Any = None,
    weights: Any = None,
    squared: bool = False,
    missing: str = "error",
) -> Directed:
    """Check a matrix of dissimilarities from its rows to its columns.

    Parameters are those of `neuc_mds`. Rows and columns are the same objects if they have the same
    names, or, without names, if there are as many of both; objects of two sets share no name.
    """
    if isinstance(data, Directed):
        return data
    values, row_names, column_names = _named_values(data, labels)
    xp = namespace(values)
    values = in_double(values)
    if values.ndim != 2 or min(values.shape) < 2:
        size = " × ".join(map(str, values.shape))
        raise InputError(
            f"D is {size}; pass at least 2 rows and 2 columns, all of D: a condensed triangle has "
            "one direction."
        )
    m, n = values.shape
    same_objects = m == n
    if row_names is not None or column_names is not None:
        row_names = as_labels(row_names or row_numbers(m), m)
        column_names = as_labels(column_names or row_numbers(n), n)
        assert row_names is not None
        assert column_names is not None
        shared = set(row_names) & set(column_names)
        same_objects = bool(shared)
        if shared and not len(shared) == m == n:
            raise InputError(
                f"{len(shared)} of {m} rows and {n} columns have the same name "
                f"({examples(sorted(shared))}), and others are of one side: rows alone "
                f"{_alone(row_names, shared)}, columns alone {_alone(column_names, shared)}; name "
                "both sides alike if they are the same objects, and all apart if they are two sets."
            )
        if same_objects:
            order = order_of(column_names, row_names, "columns of D")
            values = xp.take(values, asarray_like(order, values, xp.int64), 1)
    if same_objects:
        column_names = None
    elif column_names is None:
        column_names = row_numbers(n)
    _refuse_entries(values, squared, missing, row_names, column_names)
    if not squared:
        values = values * values
    is_counted = ~xp.isnan(values)
    values = xp.where(is_counted, values, 0.0)
    if same_objects:
        is_counted = is_counted & ~asarray_like(np.eye(n), values, xp.bool)
    pair_weights = xp.astype(is_counted, xp.float64)
    if weights is not None:
        weights = ordered_by_name(
            weights, row_names, "rows of weights", rows=True, cols=False
        )
        weights = ordered_by_name(
            weights, column_names or row_names, "columns of weights"
        )
        pair_weights = pair_weights * checked_weights(weights, values)
    _refuse_unconnected(pair_weights, row_names, column_names)
    return Directed(
        values, pair_weights, row_names, column_names, squared, missing
    )


def _alone(names: Iterable[str], shared: set[str]) -> str:
    """Return examples of the names of one side that the other does not have."""
    return examples([name for name in names if name not in shared]) or "none"


def _named_values(data: Any, labels: Any) -> tuple[Array, Any, Any]:
    """Return D as the user gave it, and the names of its rows and columns, None without names.

    `labels` replace the names of the rows.
    """
    if is_frame(data):
        values = as_real(data, "entries of D")
        rows = names_in(data.index)
        columns = names_in(data.columns)
        return values, labels or rows, columns
    if isinstance(data, (str, os.PathLike)):
        values, rows, columns = read_rectangle(data)
        return values, labels or rows, columns
    values, names = unwrap(data)
    names = labels or names
    if names is None or values.shape[0] != values.shape[-1]:
        return values, names, None
    return values, names, names


def _refuse_entries(
    values: Array, squared: bool, missing: str, rows: Labels, columns: Labels
) -> None:
    """Refuse entries that are infinite, missing unless they are ignored, negative, or too large.

    If `columns` is None these are the objects of the rows, and must be at zero from themselves.
    """
    xp = namespace(values)
    largest = max(
        map(abs, min_and_max(xp.where(xp.isnan(values), 0.0, values)))
    )
    advice = f"pass {option('missing', 'ignore')} to leave them out"
    faults = [(xp.isinf(values), "infinite", f"make them NaN and {advice}")]
    if missing != "ignore":
        faults.append((xp.isnan(values), "missing (NaN)", advice))
    if not squared:
        advice = f"pass {option('squared', True)} if D is squared already"
        faults.append((values < 0, "negative", advice))
    if columns is None:
        on_diagonal = asarray_like(np.eye(len(values)), values, xp.bool)
        advice = (
            "set them to 0, or give rows and columns names of their own, in a DataFrame, if they "
            "are two sets"
        )
        is_fault = on_diagonal & (xp.abs(values) > tolerance(largest, EPS))
        faults.append((is_fault, "diagonal (not zero)", advice))
    for is_fault, what, advice in faults:
        where = np.argwhere(to_numpy(is_fault))
        if where.size:
            i, j = where[0].tolist()
            names = ""
            if rows is not None:
                names = f", from {rows[i]!r} to {(columns or rows)[j]!r}"
            raise InputError(
                f"D holds {len(where)} {what} entries, the first at ({i}, {j}){names}; {advice}."
            )
    refuse_range(largest, squared)


def _refuse_unconnected(weights: Array, rows: Labels, columns: Labels) -> None:
    """Refuse weights that leave parts of the departures and arrivals with no pair between them."""
    xp = namespace(weights)
    has_full_row = bool(xp.any(xp.all(weights > 0, axis=1)))
    has_full_column = bool(xp.any(xp.all(weights > 0, axis=0)))
    # Joined through this row and column: no search, which takes a sparse copy.
    if has_full_row and has_full_column:
        return
    m, n = weights.shape
    i, j = np.nonzero(to_numpy(weights) > 0)
    pairs = sparse.coo_array(
        (np.ones(i.size), (i, m + j)), shape=(m + n, m + n)
    )
    departures = [f"row {name}" for name in rows or row_numbers(m)]
    columns = columns or rows or row_numbers(n)
    arrivals = [f"column {name}" for name in columns]
    refuse_parts(pairs, (*departures, *arrivals))
