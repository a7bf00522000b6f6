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
from neucmds.problem.names import counts, examples, is_frame, order_of
from neucmds.problem.readers.text import one_line, parse_number, read_text, require_pandas

Column = npt.NDArray[np.float64] | tuple[str | None, ...]

_DELIMITERS = "\t;,"
# Notes on a table: the file it is from, whether its index was asked for, and whether it is in the
# order of the objects.
_SOURCE, _NAMED, _MATCHED = "neucmds_source", "neucmds_named", "neucmds_matched"


def read_metadata(
    path: str | PathLike[str],
    name_column: str | None = None,
    *,
    categories: Sequence[str] = (),
) -> Any:
    """Read a table of variables of the objects into a DataFrame.

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
    """
    name, text = read_text(path)
    cells, decimal, types = _read_cells(_without_remarks(text), name)
    categories = [*categories, *(title for title in types if types[title] == "categorical")]
    for column in (*categories, *(() if name_column is None else (name_column,))):
        check_column(cells, column)
    index = name_column
    if index is None and _names_objects(cells.iloc[:, 0]):
        index = cells.columns[0]
    frame = cells.copy()
    for title in cells.columns:
        if title != index:
            frame[title] = _typed(cells[title], title in categories, decimal)
    frame = frame if index is None else frame.set_index(index)
    frame.attrs = {_SOURCE: name, _NAMED: name_column is not None}
    return frame


def _read_cells(text: str, name: str) -> tuple[Any, str, dict[str, str]]:
    """Return a table with a header as cells of text, the decimal mark, and types of columns."""
    delimiter, pandas = _delimiter(text), require_pandas(name)
    try:
        frame = pandas.read_csv(
            io.StringIO(text),
            sep=delimiter or r"\s+",
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
    frame.attrs = {_SOURCE: name}
    # A line of QIIME's files says what the columns hold.
    typed = frame[frame.iloc[:, 0].str.lower() == "#q2:types"]
    types = {} if typed.empty else typed.iloc[0, 1:].str.lower().to_dict()
    rows = frame[frame.ne("").any(axis=1) & ~frame.iloc[:, 0].str.startswith("#")]
    if rows.empty:
        raise FileFormatError(f"{name} has one line; a line of column names and rows are needed.")
    return rows.reset_index(drop=True), "," if delimiter == ";" else ".", types


def _without_remarks(text: str) -> str:
    """Leave out lines of remarks above the names of the columns, which may begin with # in QIIME's.

    Such a line of names has no blank after the #, and as many cells as the first line without one.
    """
    lines = text.lstrip("\n").splitlines(keepends=True)
    above = next((i for i, line in enumerate(lines) if not line.startswith("#")), 0)
    mark = _delimiter("".join(lines[above:])) or " "
    for i, line in enumerate(lines[:above]):
        named = line[1:2].strip() and not line.startswith("#q2:")
        if named and line.count(mark) == lines[above].count(mark):
            return "".join(lines[i:])
    return "".join(lines[above:]) or text


def _title(title: str, at: int) -> str:
    """Return the name of a column, of which the first may be a remark in QIIME's files."""
    title = "" if title.startswith("Unnamed: ") else title.strip()
    if at == 0:
        return title.removeprefix("#") or "name"
    return title or f"column {at + 1}"


def _delimiter(text: str) -> str | None:
    """Return the delimiter of the header, or of the next line; None for blanks."""
    for line in text.lstrip().splitlines()[:2]:
        bare = "".join(line.split('"')[::2])
        mark = max(_DELIMITERS, key=bare.count)
        if mark in bare:
            return mark
    return None


def _typed(column: Any, category: bool, decimal: str) -> Any:
    """Return cells as numbers, or as categories if one is text or all are missing."""
    numbers = [None] if category else [parse_number(cell, decimal) for cell in column]
    if None not in numbers and not np.isnan(np.array(numbers, dtype=np.float64)).all():
        return np.array(numbers, dtype=np.float64)
    # "None" and "?" may be classes: vegan's mite.env has None, Few and Many.
    return np.array([None if cell in ("", "NA") else cell for cell in column], dtype=object)


def _names_objects(column: Any) -> bool:
    """Tell whether a first column names the rows: distinct texts, or numbers from 0 or 1 on."""
    cells = list(column)
    if len(set(cells)) < len(cells):
        return False
    counted = any(set(cells) == {str(i + at) for i in range(len(cells))} for at in (0, 1))
    return counted or any(parse_number(cell) is None for cell in cells)


def check_column(frame: Any, column: str) -> None:
    """Refuse a column that a table does not have."""
    if column not in frame.columns:
        known = ", ".join(repr(str(name)) for name in frame.columns[:12])
        more = f" and {len(frame.columns) - 12} more" if len(frame.columns) > 12 else ""
        raise InputError(f"{_source(frame)} has no column {column!r}; it has {known}{more}.")


def column_values(frame: Any, column: str) -> Column:
    """Return a column as numbers (NaN where missing) or as categories (None where missing)."""
    check_column(frame, column)
    values = frame[column]
    if _is_numeric(values):
        return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    return tuple(None if lost else str(v) for v, lost in zip(values, values.isna(), strict=True))


def _is_numeric(column: Any) -> bool:
    # Text and pandas' categories stay so, whatever their cells look like; so do booleans.
    return column.dropna().infer_objects().dtype.kind in "iuf"


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
    named, column = _with_names(table, labels)
    names = set(map(str, named.index))
    rows = [i for i, label in enumerate(labels) if label in names]
    if not rows:
        _rows_of(named, column, labels)
    return rows


def match_rows(
    table: Any, labels: Sequence[str] | None, n: int, *, missing: str | None = None
) -> Any:
    """Put the rows of metadata in the order of n objects, and leave out those of other objects.

    Rows of a DataFrame are matched by its index, those of a file by the column that agrees best
    with the labels, and by their order if neither side has names. With `missing` "grey", objects
    without a row have no values; else they are refused.
    """
    if table.attrs.get(_MATCHED) and len(table) == n:
        return table
    from_file = _SOURCE in table.attrs
    order = list(range(len(table)))
    if labels is not None and (from_file or not counts(table.index)):
        table, names = _with_names(table, labels)
        if missing == "grey" and len(known := described(table, labels)) < n:
            order = _rows_of(table, names, [labels[i] for i in known])
            some, attrs = table.iloc[order], table.attrs
            table = some.set_axis([labels[i] for i in known]).reindex(list(labels))
            table.attrs, order = attrs, list(range(n))
        else:
            order = _rows_of(table, names, labels, hint=missing is not None)
    elif from_file and _is_numbered(table.index):
        order = order_of(list(table.index), [str(i) for i in range(n)], _source(table))
    elif from_file and not (counts(table.index) or counts(table.index, 1)):
        raise InputError(
            f"{_source(table)} names its rows ({examples([str(i) for i in table.index])}), but the "
            "objects have no names to match them with; give D names, or leave those of the rows "
            "out if they are in the order of the objects."
        )
    elif from_file:
        message = f"rows of {_source(table)} were matched by their order."
        warnings.warn(NeucmdsWarning(message), stacklevel=2)
    if len(order) != n:
        raise InputError(
            f"{_source(table)} has {len(order)} rows for {n} objects and no names that say which "
            "is which; give one row for each object, or names on both sides."
        )
    matched = table.iloc[order].set_axis(range(n) if labels is None else list(labels))
    matched.attrs = {**table.attrs, _MATCHED: True}
    return matched


def _is_numbered(index: Any) -> bool:
    """Tell names that are numbers from 0, in another order: what objects without names go by."""
    return not counts(index) and set(map(str, index)) == {str(i) for i in range(len(index))}


def _with_names(table: Any, labels: Sequence[str]) -> tuple[Any, str]:
    """Return a table whose index agrees best with the labels, and what it is called."""
    if _SOURCE not in table.attrs or table.attrs[_NAMED]:
        return table, str(table.index.name or "index")
    wanted, attrs = set(labels), table.attrs
    whole = table if table.index.name is None else table.reset_index()
    best = max(whole.columns, key=lambda title: len(wanted.intersection(_texts(whole[title]))))
    if best != table.index.name:
        if table.index.name is not None:
            whole[table.index.name] = _typed(table.index, False, ".")
        table = whole.set_index(best).set_axis(_texts(whole[best]))
        table.attrs = attrs
    return table, str(best)


def _texts(column: Any) -> list[str]:
    """Return names that may have been read as numbers."""
    if column.dtype.kind == "f":
        return [f"{value:.17g}" for value in column]
    return ["" if value is None else str(value) for value in column]


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
    return str(table.attrs.get(_SOURCE, "the metadata"))
