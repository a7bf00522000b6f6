"""Read tables that describe the objects, and match them by name."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds.errors import FileFormatError, InputError, NeucmdsWarning, option
from neucmds.problem.files import one_line, parse_number, read_text, require_pandas
from neucmds.problem.names import counts, examples, is_frame, listed, order_of

Column = npt.NDArray[np.float64] | tuple[str | None, ...]

DELIMITERS = "\t;,"
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
    text = _without_remarks(text)
    delimiter = _delimiter(text)
    decimal = {";": ","}.get(delimiter, ".")
    cells, types = _read_cells(text, name, delimiter)
    categories = [*categories, *(title for title in types if types[title] == "categorical")]
    for column in categories:
        check_column(cells, column)
    index = name_column
    if name_column is not None:
        check_column(cells, name_column)
    elif _names_objects(cells.iloc[:, 0]):
        index = cells.columns[0]
    frame = cells.copy()
    for title in cells.columns:
        if title != index:
            frame[title] = _typed(cells[title], title in categories, decimal)
    if index is not None:
        frame = frame.set_index(index)
    frame.attrs = {SOURCE: name, NAMED: name_column is not None}
    return frame


def _read_cells(text: str, name: str, delimiter: str) -> tuple[Any, dict[str, str]]:
    """Return a table with a header as cells of text, and types of columns."""
    pandas = require_pandas(name)
    try:
        frame = pandas.read_csv(
            io.StringIO(text),
            sep=delimiter,
            dtype=str,
            keep_default_na=False,
            skipinitialspace=True,
        )
    except ValueError as error:
        raise FileFormatError(f"{name} is not a table: {one_line(error)}.") from error
    if frame.index.nlevels > 1:
        raise FileFormatError(f"{name} has fewer names of columns than columns; add those missing.")
    if not isinstance(frame.index, pandas.RangeIndex):
        frame = frame.reset_index(names="")  # R leaves out the cell above the row names
    frame = frame.fillna("").astype(str).apply(lambda column: column.str.strip())
    frame.columns = [_title(str(title), i) for i, title in enumerate(frame.columns)]
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise FileFormatError(f"{name} has two columns {twice!r}; rename one.")
    frame.attrs = {SOURCE: name}
    first = frame.iloc[:, 0].str
    rows = frame[frame.ne("").any(axis=1) & ~first.startswith("#")]
    if rows.empty:
        raise FileFormatError(f"{name} has one line; a line of column names and rows are needed.")
    types = {}
    for _, row in frame[first.lower() == "#q2:types"].iterrows():
        types = row.iloc[1:].str.lower().to_dict()
    return rows.reset_index(drop=True), types


def _without_remarks(text: str) -> str:
    """Leave out lines of remarks above the names of the columns, which may begin with # in QIIME's.

    Such a line of names has no blank after the #, and as many cells as the first line without one.
    """
    lines = text.lstrip("\n").splitlines(keepends=True)
    above = next((i for i, line in enumerate(lines) if not line.startswith("#")), 0)
    delimiter = _delimiter("".join(lines[above:])).replace(r"\s+", " ")
    for i, line in enumerate(lines[:above]):
        is_header = line[1:2].strip() and not line.startswith("#q2:")
        if is_header and line.count(delimiter) == lines[above].count(delimiter):
            return "".join(lines[i:])
    return "".join(lines[above:]) or text


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


def _typed(column: Any, category: bool, decimal: str) -> Any:
    """Return cells as numbers, or as categories if one is text or all are missing."""
    if not category:
        numbers = [parse_number(cell, decimal) for cell in column]
        if None not in numbers and not np.isnan(np.array(numbers, dtype=np.float64)).all():
            return np.array(numbers, dtype=np.float64)
    # "None" and "?" may be classes: vegan's mite.env has None, Few and Many.
    cells = np.array(column, dtype=object)
    cells[np.isin(cells, ("", "NA"))] = None
    return cells


def _names_objects(column: Any) -> bool:
    """Tell whether a first column names the rows: distinct texts, or numbers from 0 or 1 on."""
    cells = set(column)
    if len(cells) < len(column):
        return False
    running = [{str(i + start) for i in range(len(column))} for start in (0, 1)]
    return cells in running or any(parse_number(cell) is None for cell in cells)


def check_column(frame: Any, column: str) -> None:
    """Refuse a column that a table does not have."""
    if column not in frame.columns:
        known = listed([repr(str(name)) for name in frame.columns])
        raise InputError(f"{_source(frame)} has no column {column!r}; it has {known}.")


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
    lengths = {len(column) for column in table.values()}
    if len(lengths) > 1:
        raise InputError(f"columns of the metadata have different lengths: {sorted(lengths)}.")
    columns = {str(name): list(column) for name, column in table.items()}
    return require_pandas("a mapping of columns").DataFrame(columns)


def described(table: Any, labels: Sequence[str] | None) -> list[int]:
    """Return the numbers of the objects that have a row in metadata; there must be some."""
    if labels is None:
        raise InputError("the objects have no names to match the metadata with; give D names.")
    table, column = _with_names(table, labels)
    names = set(map(str, table.index))
    rows = [i for i, label in enumerate(labels) if label in names]
    if not rows:
        _rows_of(table, column, labels)
    return rows


def match_rows(
    table: Any, labels: Sequence[str] | None, n: int, *, missing: str | None = None
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
        if missing == "grey":
            with_row = [labels[i] for i in described(table, labels)]
        table, column = _with_names(table, labels)
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
    best = max(columns, key=lambda title: len(objects.intersection(_texts(columns[title]))))
    if best == index:
        return table, str(best)
    if index is not None:
        columns[index] = _typed(table.index, False, ".")
    named = columns.set_index(best).set_axis(_texts(columns[best]))
    named.attrs = table.attrs
    return named, str(best)


def _texts(column: Any) -> list[str]:
    """Return names that may have been read as numbers."""
    if column.dtype.kind == "f":
        return [f"{value:.17g}" for value in column]
    return [str(value or "") for value in column]


def _rows_of(table: Any, column: str, labels: Sequence[str], *, hint: bool = False) -> list[int]:
    advice = f"correct the names, or pass the column of names as {option('name_column')}"
    if hint:
        grey = option("metadata_missing", "grey")
        advice = f"correct the names, or pass {grey} to draw objects without a row in grey"
    if column in labels:
        advice = "the first line must hold the names of the columns, add one"
    what = f"rows of {_source(table)}, by {column!r},"
    return order_of(list(table.index), labels, what, others=True, advice=advice)


def _source(table: Any) -> str:
    return str(table.attrs.get(SOURCE, "the metadata"))
