"""Read tables that describe the objects, and match them by name."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds.errors import InputError, NeucmdsWarning, option
from neucmds.problem.files import MISSING, one_line, read_text, require_pandas
from neucmds.problem.names import counts, examples, is_frame, listed, order_of

Column = npt.NDArray[np.float64] | tuple[str | None, ...]

DELIMITERS = "\t;,"
# A line of remarks; names of columns and types in QIIME's files have no blank after the #.
REMARK = re.compile(r"^#([ \t].*)?\n", re.MULTILINE)
# Notes on a table: the file it is from, whether its index was asked for, and whether it is in the
# order of the objects.
SOURCE = "neucmds_source"
NAMED = "neucmds_named"
MATCHED = "neucmds_matched"


def read_metadata(
    path: str | PathLike[str],
    name_column: str | None = None,
    *,
    categories: Sequence[str] = (),
) -> Any:
    r"""Read a table of variables of the objects into a DataFrame.

    Parameters
    ----------
    path : str or Path
        Text with column names in its first line, delimited by tabs, semicolons (then with decimal
        commas), commas or blanks, as R and pandas write it; QIIME's line ``#q2:types`` is obeyed.
    name_column : str, optional
        The column that names the objects; by default the one that agrees with their names, else a
        first column of distinct texts or running numbers.
    categories : sequence of str
        Columns of numbers that are categories.

    Returns
    -------
    pandas.DataFrame
        A row per object; numbers, with NaN where they are missing, or texts, with None.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from neucmds.ecology import read_metadata
    >>> with TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "sites.csv").write_text("site,depth\na,1.5\nb,2\n")
    ...     table = read_metadata(Path(folder) / "sites.csv")
    >>> float(table.loc["a", "depth"])
    1.5
    """
    name, text = read_text(path)
    text = REMARK.sub("", text)
    delimiter = _delimiter(text)
    table = _cells(text, delimiter, name)
    rows = table[~table.iloc[:, 0].str.startswith("#")].reset_index(drop=True)
    if rows.empty:
        raise InputError(
            f"{name} has one line; a line of column names and rows are needed."
        )
    categories = [*categories, *_categories(table)]
    index = name_column
    if index is None and _names_objects(rows.iloc[:, 0]):
        index = rows.columns[0]
    for title in (*categories, index or rows.columns[0]):
        check_column(rows, title)
    if index is not None:
        rows = rows.set_index(index)
    for title, column in rows.items():
        if title in categories:
            rows[title] = _texts(column)
        else:
            rows[title] = _typed(column, delimiter)
    rows.attrs = {SOURCE: name, NAMED: name_column is not None}
    return rows


def _cells(text: str, delimiter: str, name: str) -> Any:
    """Return a table with a header as cells of text, without blank lines."""
    pandas = require_pandas(name)
    try:
        table = pandas.read_csv(
            io.StringIO(text),
            sep=delimiter,
            dtype=str,
            keep_default_na=False,
            skipinitialspace=True,
        )
    except ValueError as error:
        raise InputError(
            f"{name} is not a table: {one_line(error)}."
        ) from error
    if table.index.nlevels > 1:
        raise InputError(
            f"{name} has fewer names of columns than columns; add those missing."
        )
    if not isinstance(table.index, pandas.RangeIndex):
        table = table.reset_index(
            names=""
        )  # R leaves out the cell above the row names
    table = (
        table.fillna("").astype(str).apply(lambda column: column.str.strip())
    )
    table.columns = [
        _title(str(title), i) for i, title in enumerate(table.columns)
    ]
    if not table.columns.is_unique:
        twice = table.columns[table.columns.duplicated()][0]
        raise InputError(f"{name} has two columns {twice!r}; rename one.")
    table.attrs = {SOURCE: name}
    return table[table.ne("").any(axis=1)]


def _categories(table: Any) -> list[str]:
    """Return the columns that a line of QIIME's files calls categories."""
    types = table[table.iloc[:, 0].str.lower() == "#q2:types"]
    return [
        title
        for title in table
        if "categorical" in types[title].str.lower().to_list()
    ]


def _title(title: str, position: int) -> str:
    """Return the name of a column, of which the first may be a remark in QIIME's files."""
    if title.startswith("Unnamed: "):
        title = ""
    if position == 0:
        return title.strip().removeprefix("#") or "name"
    return title.strip() or f"column {position + 1}"


def _delimiter(text: str) -> str:
    """Return the delimiter of the header, or of the next line; for blanks a pattern of them."""
    for line in text.lstrip().splitlines()[:2]:
        bare = "".join(line.split('"')[::2])
        mark = max(DELIMITERS, key=bare.count)
        if mark in bare:
            return mark
    return r"\s+"


def _typed(column: Any, delimiter: str) -> Any:
    """Return cells as numbers, or as categories if one is text or all are missing."""
    decimal = {";": ","}.get(delimiter, ".")
    numbers = _numbers(column.str.replace(decimal, "."))
    if (
        numbers.notna() | column.isin(MISSING)
    ).all() and numbers.notna().any():
        return numbers.astype(np.float64)
    return _texts(column)


def _numbers(column: Any) -> Any:
    """Read cells as numbers, NaN where one is none."""
    return require_pandas("metadata").to_numeric(column, errors="coerce")


def _texts(column: Any) -> Any:
    """Return cells as categories, None where one is missing."""
    # "None" and "?" may be classes: vegan's mite.env has None, Few and Many.
    return column.astype(object).mask(column.isin(["", "NA"]), None)


def _names_objects(column: Any) -> bool:
    """Tell whether a first column names the rows: distinct texts, or numbers from 0 or 1 on."""
    if not column.is_unique:
        return False
    numbers = _numbers(column)
    running = range(len(column))
    counted = [list(running), [i + 1 for i in running]]
    return bool(numbers.isna().any()) or sorted(numbers) in counted


def check_column(frame: Any, column: str) -> None:
    """Refuse a column that a table does not have."""
    if column not in frame.columns:
        known = listed([repr(str(name)) for name in frame.columns])
        raise InputError(
            f"{_source(frame)} has no column {column!r}; it has {known}."
        )


def column_values(frame: Any, column: str) -> Column:
    """Return a column as numbers (NaN where missing) or as categories (None where missing)."""
    check_column(frame, column)
    values = frame[column]
    # Text and pandas' categories stay so, whatever their cells look like; so do booleans.
    if values.dropna().infer_objects().dtype.kind in "iuf":
        return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    texts = values.astype(str).astype(object)
    return tuple(texts.where(values.notna(), None))


def as_metadata(table: Any) -> Any:
    """Return metadata as a DataFrame, whose index names the objects; a mapping becomes one."""
    if is_frame(table):
        frame = table.copy(deep=False)
        frame.columns = [str(column) for column in table.columns]
        return frame
    if not isinstance(table, Mapping):
        raise InputError(
            f"metadata is a {type(table).__name__}; pass a DataFrame, a mapping of columns, or "
            "what read_metadata returns."
        )
    columns = {str(name): list(column) for name, column in table.items()}
    return require_pandas("a mapping of columns").DataFrame(columns)


def match_rows(
    table: Any,
    labels: Sequence[str] | None,
    n: int,
    *,
    missing: str | None = None,
) -> Any:
    """Put the rows of metadata in the order of n objects, and leave out those of other objects.

    Rows of a DataFrame are matched by its index, those of a file by the column that agrees best
    with the labels, and by their order if neither side has names. With `missing` "grey", objects
    without a row have no values; else they are refused.
    """
    if table.attrs.get(MATCHED) and len(table) == n:
        return table
    attrs = table.attrs | {MATCHED: True}
    if labels is not None and (SOURCE in attrs or not counts(table.index)):
        names = list(labels)
        with_row = names
        table, column = _with_names(table, labels)
        if missing == "grey":
            rows = set(map(str, table.index))
            with_row = [name for name in names if name in rows] or names
        order = _rows_of(table, column, with_row, hint=missing is not None)
        matched = table.iloc[order].set_axis(with_row).reindex(names)
    else:
        order = _rows_in_order(table, n)
        matched = table.iloc[order].set_axis(labels or range(n))
    matched.attrs = attrs
    return matched


def _rows_in_order(table: Any, n: int) -> list[int]:
    """Return the rows of a table whose index does not name the objects."""
    from_file = SOURCE in table.attrs
    index = [str(name) for name in table.index]
    running = counts(index) or counts(index, 1)
    numbers = [str(i) for i in range(n)]
    if from_file and not running and set(index) == set(numbers):
        return order_of(index, numbers, _source(table))
    if from_file and not running:
        raise InputError(
            f"{_source(table)} names its rows ({examples(index)}), but the objects have no names "
            "to match them with; give D names, or leave those of the rows out if they are in the "
            "order of the objects."
        )
    if from_file:
        message = f"rows of {_source(table)} were matched by their order."
        warnings.warn(NeucmdsWarning(message), stacklevel=3)
    if len(index) != n:
        raise InputError(
            f"{_source(table)} has {len(index)} rows for {n} objects and no names that say which "
            "is which; give one row for each object, or names on both sides."
        )
    return list(range(n))


def _with_names(table: Any, labels: Sequence[str]) -> tuple[Any, str]:
    """Return a table whose index agrees best with the labels, and what it is called."""
    index = table.index.name
    if table.attrs.get(NAMED, True):
        return table, str(index or "index")
    columns = table
    if index is not None:
        columns = table.reset_index()
    objects = set(labels)
    names = {title: _names(columns[title]) for title in columns}
    best = max(
        names, key=lambda title: len(objects.intersection(names[title]))
    )
    if best == index:
        return table, str(best)
    if index is not None:
        columns[index] = _typed(columns[index], "")
    named = columns.set_index(best).set_axis(names[best])
    named.attrs = table.attrs
    return named, str(best)


def _names(column: Any) -> list[str]:
    """Return names that may have been read as numbers."""
    if column.dtype.kind == "f":
        return [f"{value:.17g}" for value in column]
    return [str(value or "") for value in column]


def _rows_of(
    table: Any, column: str, labels: Sequence[str], *, hint: bool = False
) -> list[int]:
    advice = f"correct the names, or pass the column of names as {option('name_column')}"
    if hint:
        grey = option("metadata_missing", "grey")
        advice = f"correct the names, or pass {grey} to draw objects without a row in grey"
    if column in labels:
        advice = "the first line must hold the names of the columns, add one"
    what = f"rows of {_source(table)}, by {column!r},"
    return order_of(
        list(table.index), labels, what, others=True, advice=advice
    )


def _source(table: Any) -> str:
    return str(table.attrs.get(SOURCE, "the metadata"))
