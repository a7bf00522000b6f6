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

from neucmds.backend.files import one_line
from neucmds.errors import InputError, NeucmdsWarning, option
from neucmds.problem.files import MISSING, read_text, require_pandas
from neucmds.problem.names import (
    are_row_numbers,
    examples,
    go_by_name,
    is_frame,
    order_of,
    row_numbers,
    text_of,
)

Column = npt.NDArray[np.float64] | tuple[str | None, ...]

DELIMITERS = "\t;,"
# Attribute of a table whose rows have no names.
UNNAMED = "neucmds_unnamed"
# A remark has a blank after its #; QIIME's lines of column names and of types have none.
REMARK = re.compile(r"^#([ \t].*)?\n", re.MULTILINE)
TYPES = re.compile(r"^#q2:types.*", re.MULTILINE | re.IGNORECASE)
COMMENT = re.compile(r"^#.*\n?", re.MULTILINE)
# Key in `DataFrame.attrs` of the file that a table was read from.
SOURCE = "neucmds_source"


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
        Text with column names in its first line, delimited by tabs, semicolons, commas or blanks,
        as R and pandas write it; QIIME's line ``#q2:types`` is obeyed.
    name_column : str, optional
        The column that names the objects; by default the first, if it has distinct texts or running
        numbers, or if the objects have names.
    categories : sequence of str
        Columns of numbers that are categories.

    Returns
    -------
    pandas.DataFrame
        A row per object; numbers or texts, with NaN where they are missing.

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
    # QIIME's line of column names may begin with #.
    text = REMARK.sub("", text).lstrip("\n").removeprefix("#")
    delimiter = _delimiter(text)
    table = _text_cells(COMMENT.sub("", text), delimiter, name)
    if table.empty:
        raise InputError(
            f"{name} has one line; a line of column names and rows are needed."
        )
    categories = list(categories)
    for types in TYPES.findall(text):
        kinds = re.split(delimiter, types.lower())
        for title, kind in zip(table.columns, kinds, strict=False):
            if kind.strip() == "categorical":
                categories.append(title)
            if kind.strip() == "numeric":
                _check_numeric(table[title])
    first = table.columns[0]
    for title in (*categories, name_column or first):
        check_column(table, title)
    if name_column is None and _has_names(table[first]):
        name_column = first
    if name_column is not None:
        table = table.set_index(name_column).rename_axis(None)
    for title in table.columns:
        is_category = title in categories
        table[title] = _numbers_or_categories(table[title], is_category)
    return table


def _text_cells(text: str, delimiter: str, name: str) -> Any:
    """Parse a table with a header into cells of text, without blank lines."""
    pandas = require_pandas(name)
    settings = {
        "sep": delimiter,
        "dtype": str,
        "keep_default_na": False,
        "skipinitialspace": True,
    }
    try:
        header = pandas.read_csv(
            io.StringIO(text), header=None, nrows=1, **settings
        )
        table = pandas.read_csv(io.StringIO(text), **settings)
    except ValueError as error:
        raise InputError(
            f"{name} is not a table: {one_line(error)}."
        ) from error
    # Read as a row of cells: of titles that are repeated, pandas makes others.
    titles = header.iloc[0]
    _check_different(titles[titles != ""], name)
    if table.index.nlevels > 1:
        raise InputError(
            f"{name} has fewer names of columns than columns; add those missing."
        )
    if not isinstance(table.index, pandas.RangeIndex):
        # R leaves out the cell above the row names.
        table = table.reset_index(names="name")
    table = table.fillna("")
    table = table[table.ne("").any(axis=1)].reset_index(drop=True)
    table.attrs = {SOURCE: name}
    return table


def _delimiter(text: str) -> str:
    """Return the delimiter of the header, or else of the next line; blanks if neither has one."""
    for line in text.lstrip().splitlines()[:2]:
        outside_quotes = "".join(line.split('"')[::2])
        delimiter = max(DELIMITERS, key=outside_quotes.count)
        if delimiter in outside_quotes:
            return delimiter
    return r"\s+"


def _numbers_or_categories(column: Any, is_category: bool) -> Any:
    """Return cells as numbers, or as categories if one of them is text or all are missing."""
    numbers = _numbers(column)
    known = numbers.notna()
    is_numeric = known.any() and (known | column.isin(MISSING)).all()
    if is_numeric and not is_category:
        return numbers
    # "None" and "?" may be classes: vegan's mite.env has None, Few and Many.
    return column.mask(column.isin(["", "NA"]))


def _numbers(column: Any) -> Any:
    """Read cells as numbers; NaN stands for text."""
    return require_pandas("metadata").to_numeric(column, errors="coerce")


def _has_names(column: Any) -> bool:
    """Tell whether a first column names the rows: its cells are distinct texts, or count them."""
    if not column.is_unique:
        return False
    numbers = _numbers(column)
    n = len(numbers)
    running_numbers = (set(range(n)), set(range(1, n + 1)))
    return bool(numbers.isna().any()) or set(numbers) in running_numbers


def _check_numeric(column: Any) -> None:
    """Refuse text in a column that QIIME's line of types calls numeric."""
    texts = column[_numbers(column).isna() & ~column.isin(MISSING)]
    if texts.size:
        raise InputError(
            f"column {column.name!r} is numeric by #q2:types, but {texts.size} of its cells are "
            f"text ({examples(list(texts))}); correct them, or call it categorical."
        )


def _check_different(titles: Any, source: str) -> None:
    """Refuse two columns of the same name."""
    repeated = list(titles[titles.duplicated()])
    if repeated:
        raise InputError(
            f"{source} has more than one column {repeated[0]!r}; rename them."
        )


def check_column(frame: Any, column: str) -> None:
    """Refuse a column that a table does not have."""
    if column not in frame.columns:
        # So pandas calls columns without a title.
        known = examples(
            [title for title in frame.columns if "Unnamed: " not in str(title)]
        )
        raise InputError(
            f"{_source(frame)} has no column {column!r}; it has {known}."
        )


def column_values(frame: Any, column: str) -> Column:
    """Return a column as numbers (NaN where missing) or as categories (None where missing)."""
    check_column(frame, column)
    values = frame[column]
    # Categories, booleans and text that looks like numbers are categories.
    if values.dropna().infer_objects().dtype.kind in "iuf":
        return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    texts = values.astype(str).astype(object)
    return tuple(texts.where(values.notna(), None))


def group_names(
    groups: Any, labels: Sequence[str] | None, n: int
) -> npt.NDArray[np.str_]:
    """Return the name of the group of each object, empty if it has none; without groups "all"."""
    if groups is None:
        groups = ["all"] * n
    if hasattr(groups, "to_frame"):
        table = groups.to_frame("groups")
    else:
        table = {"groups": groups}
    column = match_rows(as_metadata(table), labels, n).iloc[:, 0]
    texts = column.astype(object).where(column.notna(), "")
    return np.array(texts, dtype=str)


def known_rows(
    known: npt.NDArray[np.bool_], what: str, stacklevel: int = 3
) -> npt.NDArray[np.intp]:
    """Return the rows of objects that have what a test needs, and warn of the others.

    The warning points to the caller of a test that calls this itself.
    """
    lacking = int(np.sum(~known))
    if lacking:
        message = (
            f"{lacking} of {known.size} objects lack {what} and are left out."
        )
        warnings.warn(NeucmdsWarning(message), stacklevel=stacklevel)
    return np.flatnonzero(known)


def as_metadata(table: Any) -> Any:
    """Return metadata as a DataFrame, whose index names the objects; a mapping becomes one."""
    if is_frame(table):
        frame = table.copy(deep=False)
        frame.columns = [str(column) for column in table.columns]
        _check_different(frame.columns, _source(table))
        return frame
    if not isinstance(table, Mapping):
        raise InputError(
            f"the table is {type(table).__name__}; pass a DataFrame, a mapping of columns, or "
            "what read_metadata returns."
        )
    columns = {str(name): list(column) for name, column in table.items()}
    frame = require_pandas("a mapping of columns").DataFrame(columns)
    frame.attrs[UNNAMED] = True
    return frame


def match_rows(
    table: Any,
    labels: Sequence[str] | None,
    n: int,
    *,
    missing: str | None = None,
) -> Any:
    """Put the rows of metadata in the order of n objects, and leave out those of other objects.

    Rows of a DataFrame are matched by its index, rows of a file by their names or by the first
    column. If one side has no names, rows are matched by their order. Objects without a row are
    refused, or get missing values if `missing` is "grey".
    """
    is_from_file = SOURCE in table.attrs
    if is_from_file:
        is_named = labels is not None
    else:
        is_named = UNNAMED not in table.attrs and go_by_name(
            table.index, labels
        )
    labels = labels or row_numbers(n)
    if not is_named:
        _check_order(table, n)
        matched = table.set_axis(labels)
    else:
        row_numbers_alone = require_pandas("metadata").RangeIndex
        if is_from_file and isinstance(table.index, row_numbers_alone):
            table = table.set_index(table.columns[0])
        names = [text_of(name) for name in table.index]
        with_row = list(labels)
        if missing == "grey":
            known = set(names)
            # If no object has a row, all are asked for, and so refused.
            with_row = [name for name in labels if name in known] or with_row
        advice = f"pass the column of names as {option('name_column')}"
        if not set(names).isdisjoint(labels):
            advice = "add rows for these objects, whose cells may be blank, or take them out of D"
        if missing is not None:
            grey = option("metadata_missing", "grey")
            advice = f"pass {grey} to draw objects without a row in grey"
        order = order_of(
            names,
            with_row,
            f"rows of {_source(table)}",
            may_have_others=True,
            advice=f"correct the names, or {advice}",
        )
        matched = table.iloc[order].set_axis(with_row).reindex(list(labels))
    matched.attrs = {}
    return matched


def _check_order(table: Any, n: int) -> None:
    """Refuse a table that cannot be in the order of n objects."""
    names = [str(name) for name in table.index]
    if SOURCE in table.attrs:
        if not (are_row_numbers(names) or are_row_numbers(names, 1)):
            raise InputError(
                f"{_source(table)} names its rows ({examples(names)}), but the objects have no "
                "names to match them with; give D names, or leave those of the rows out if they "
                "are in the order of the objects."
            )
        message = f"rows of {_source(table)} were matched by their order."
        # The fourth caller is that of the function that matches rows with objects.
        warnings.warn(NeucmdsWarning(message), stacklevel=4)
    if len(names) != n:
        raise InputError(
            f"{_source(table)} has {len(names)} rows for {n} objects and no names that say which "
            "row is which object's; give one row for each object, or names on both sides."
        )


def _source(table: Any) -> str:
    """Name a table in a message: its file, if it was read from one."""
    return str(table.attrs.get(SOURCE, "the metadata"))
