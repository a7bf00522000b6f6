"""Tables that describe the objects: read by column, and matched with the objects by name."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds.errors import FileFormatError, InputError, option

Column = npt.NDArray[np.float64] | tuple[str | None, ...]

_MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "-nan", "?"})
_DELIMITERS = "\t;,"
_EXAMPLES = 3


@dataclass(frozen=True)
class Metadata:
    """Columns that describe objects, one entry for each.

    Parameters
    ----------
    cells : mapping of str to tuple of str
        The table as text, column by column; all columns have the same length.
    name_column : str, optional
        The column that names the objects. Without it, the column that agrees with the objects'
        names is found when they are known (`matched`).
    categories : sequence of str
        Columns that are categories although their cells are numbers.
    decimal_comma : bool
        Whether numbers are written as ``1,5``.
    source : str
        What messages call the table.
    aligned : bool
        Whether the rows are in the order of the objects already.
    note : str, optional
        What should be told about how the rows were matched.

    Examples
    --------
    >>> from neucmds.ordination import Metadata
    >>> sites = Metadata({"site": ("b", "a"), "depth": ("1.5", "NA"), "soil": ("peat", "clay")})
    >>> sites.matched(["a", "b"])["depth"]
    array([nan, 1.5])
    >>> sites.matched(["a", "b"])["soil"]
    ('clay', 'peat')
    """

    cells: Mapping[str, tuple[str, ...]]
    name_column: str | None = None
    categories: Sequence[str] = ()
    decimal_comma: bool = False
    source: str = "the metadata"
    aligned: bool = False
    note: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        named = () if self.name_column is None else (self.name_column,)
        for column in (*named, *self.categories):
            self._check_column(column)

    def __len__(self) -> int:
        return len(next(iter(self.cells.values()), ()))

    def __getitem__(self, column: str) -> Column:
        """Return a column: numbers (NaN where missing), or categories (None where missing)."""
        self._check_column(column)
        cells = self.cells[column]
        numbers = None if column in self.categories else self._numbers(cells)
        if numbers is not None:
            return numbers
        return tuple(None if _is_missing(cell) else cell for cell in cells)

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the objects: the name column, else a first column of distinct texts.

        Numbers from 0 or 1 on in another order than theirs are names, too.
        """
        if self.name_column is not None:
            return self.cells[self.name_column]
        first = next(iter(self.cells.values()), ())
        is_text = self._numbers(first) is None or _is_shuffled(first)
        return first if is_text and len(set(first)) == len(first) > 0 else None

    @property
    def columns(self) -> dict[str, Column]:
        """Every column but the names, as `__getitem__` returns it."""
        hidden = self.name_column
        if hidden is None and (self.names is not None or self._counts_lines()):
            hidden = next(iter(self.cells))
        return {name: self[name] for name in self.cells if name != hidden}

    def matched(
        self, labels: Sequence[str] | None, n: int | None = None, *, by_order: bool = False
    ) -> Metadata:
        """Put the rows in the order of the objects, and leave out those of other objects.

        Parameters
        ----------
        labels : sequence of str or None
            Names of the objects.
        n : int, optional
            Number of objects, where they have no names.
        by_order : bool, default=False
            Take the rows in their order although there are names, on one side or on both.

        Returns
        -------
        Metadata
            Its `note` says so if rows were matched by their order.

        Raises
        ------
        InputError
            If an object has no row or two of them; if only one side has names, or neither has and
            the counts differ.
        """
        if by_order or labels is None:
            return self._in_order(n if labels is None else len(labels), by_order)
        column = self._agreeing_column(labels)
        rows = self._rows_by_name(column)
        if any(label not in rows for label in labels):
            raise InputError(self._mismatch(column, labels, rows))
        order = [rows[label] for label in labels]
        cells = {name: tuple(values[i] for i in order) for name, values in self.cells.items()}
        return replace(self, cells=cells, name_column=column, aligned=True)

    def _in_order(self, n: int | None, by_order: bool) -> Metadata:
        names = None if by_order or self.aligned else self.names
        if names is not None and set(names) == {str(i) for i in range(len(names))}:
            # Objects without names go by their number, from 0, in every file that is written.
            return self.matched(tuple(str(i) for i in range(len(self) if n is None else n)))
        if names is not None and not _counts_from(1, names):
            raise InputError(
                f"{self.source} names its rows ({_examples(names)}), but the objects have no "
                f"names to match them with; name the objects by {option('labels')}, or pass "
                f"{option('by_order', True)} if the rows are in the order of the objects."
            )
        if n is not None and len(self) != n:
            raise InputError(
                f"{self.source} has {len(self)} rows for {n} objects and no names that say which "
                "is which; give one row for each object, or names on both sides."
            )
        note = self.note if self.aligned else f"rows of {self.source} were matched by their order."
        return replace(self, aligned=True, note=note)

    def _agreeing_column(self, labels: Sequence[str]) -> str:
        """Return the name column, or else the column with most of the labels, the first of ties."""
        if self.name_column is not None:
            return self.name_column
        if not self.cells:
            raise InputError(f"{self.source} has no columns.")
        wanted = set(labels)
        return max(self.cells, key=lambda column: len(wanted.intersection(self.cells[column])))

    def _rows_by_name(self, column: str) -> dict[str, int]:
        rows: dict[str, int] = {}
        for i, name in enumerate(self.cells[column]):
            if rows.setdefault(name, i) != i and name:
                raise InputError(
                    f"{self.source} has two rows for {name!r} in column {column!r} (rows "
                    f"{rows[name] + 1} and {i + 1}); keep one, or pass another "
                    f"{option('name_column')}."
                )
        return rows

    def _mismatch(self, column: str, labels: Sequence[str], rows: Mapping[str, int]) -> str:
        lost = [label for label in labels if label not in rows]
        strange = sorted(set(rows).difference(labels), key=rows.__getitem__)
        message = (
            f"{self.source}: {len(lost)} of {len(labels)} objects have no row in column "
            f"{column!r} ({_examples(lost)})"
        )
        if strange:
            message += f", and {len(strange)} rows name no object ({_examples(strange)})"
        if column in labels:
            return f"{message}; the first line must hold the names of the columns, add one."
        alike = {_simplified(name) for name in rows}
        if all(_simplified(label) in alike for label in labels):
            return (
                f"{message}; they agree but for case, blanks and punctuation: make them the same."
            )
        return (
            f"{message}; correct the names, or pass the column of names as {option('name_column')}."
        )

    def _counts_lines(self) -> bool:
        """Tell whether the first column is the running number that R and pandas write."""
        first = next(iter(self.cells.values()), ())
        return len(self.cells) > 1 and (_counts_from(0, first) or _counts_from(1, first))

    def _numbers(self, cells: Sequence[str]) -> npt.NDArray[np.float64] | None:
        """Cells as numbers, NaN where missing; None if one is text, or all are missing."""
        texts = [cell.replace(",", ".") for cell in cells] if self.decimal_comma else cells
        try:
            numbers = [np.nan if _is_missing(text) else float(text) for text in texts]
        except ValueError:
            return None
        values = np.array(numbers, dtype=np.float64)
        return None if np.isnan(values).all() else values

    def _check_column(self, column: str) -> None:
        if column not in self.cells:
            known = ", ".join(repr(name) for name in list(self.cells)[:12])
            more = f" and {len(self.cells) - 12} more" if len(self.cells) > 12 else ""
            raise InputError(f"{self.source} has no column {column!r}; it has {known}{more}.")


def read_metadata(
    path: str | PathLike[str],
    name_column: str | None = None,
    *,
    categories: Sequence[str] = (),
) -> Metadata:
    """Read a table of objects and what is known of them.

    Parameters
    ----------
    path : str or Path
        Text with the names of the columns in its first line, and cells between tabs, semicolons
        (then with decimal commas), commas or blanks, as R and pandas write them. R's row names may
        lack a name above.
    name_column : str, optional
        The column that names the objects; found by `Metadata.matched` if not given.
    categories : sequence of str
        Columns that are categories although their cells are numbers.

    Returns
    -------
    Metadata

    Raises
    ------
    FileFormatError
        If the file cannot be read as a table.
    """
    name, text = _read_text(path)
    delimiter = _header_delimiter(text.splitlines())
    (_, header), *body = _cells(text, delimiter, name)
    header = [header[0].removeprefix("#"), *header[1:]]  # as in QIIME's mapping files
    body = [row for row in body if not row[1][0].startswith("#q2:")]
    if not body:
        raise FileFormatError(f"{name} has one line; a line of column names and rows are needed.")
    if len(header) == len(body[0][1]) - 1:
        header = ["", *header]  # R leaves out the cell above the row names
    for number, cells in body:
        if len(cells) != len(header):
            raise FileFormatError(
                f"{name}, line {number}: {len(cells)} cells where the header has {len(header)}; "
                "quote cells that hold the delimiter."
            )
    titles = [title or ("name" if i == 0 else f"column {i + 1}") for i, title in enumerate(header)]
    twice = next((title for title in titles if titles.count(title) > 1), None)
    if twice is not None:
        raise FileFormatError(f"{name} has two columns {twice!r}; rename one.")
    columns = zip(*(cells for _, cells in body), strict=True)
    table = {title: tuple(column) for title, column in zip(titles, columns, strict=True)}
    return Metadata(table, name_column, categories, decimal_comma=delimiter == ";", source=name)


def read_labels(
    path: str | PathLike[str], n: int, names: Sequence[str] | None = None
) -> tuple[str, ...]:
    """Read a label for each of n objects: a file of one column, or of names and labels.

    Parameters
    ----------
    path : str or Path
        Text with a label in every line, in the order of the objects; or with a name and a label in
        every line, which are matched by name. A line more than objects is a header. Or a vector
        in npy.
    n : int
        Number of objects.
    names : sequence of str, optional
        Names of the objects.

    Raises
    ------
    InputError
        If there are not n labels, names do not match, or there are more than two columns.
    """
    if Path(path).suffix.lower() == ".npy":
        return _read_npy(Path(path), n)
    name, text = _read_text(path)
    lines = [line for line in text.splitlines() if line.strip()]
    # One column of labels may hold commas; cells are told apart by what stands in every line.
    delimiter = next((mark for mark in _DELIMITERS if all(mark in line for line in lines)), None)
    if delimiter is None:
        return _counted([line.strip().strip('"') for line in lines], n, name)
    rows = [cells for _, cells in _cells(text, delimiter, name)]
    if any(len(cells) != 2 for cells in rows):
        raise InputError(
            f"{name} has {max(map(len, rows))} columns, not one or two; pass it as "
            f"{option('metadata')} and choose a column by {option('color_by')}."
        )
    # Where objects have no names, they are numbered.
    known = [str(i) for i in range(n + 1)] if names is None else names
    headed = len(rows) > 1 and rows[0][0] not in known
    pairs = Metadata(
        dict(zip(("name", "label"), zip(*rows[headed:], strict=True), strict=True)),
        "name",
        source=name,
    )
    return pairs.matched(names, n).cells["label"]


def _counted(labels: Sequence[str], n: int, name: str) -> tuple[str, ...]:
    """Return n labels, one for each object, without the header if there is a line more."""
    labels = labels[1:] if len(labels) == n + 1 else labels
    if len(labels) != n:
        raise InputError(f"{name} holds {len(labels)} labels for {n} objects.")
    return tuple(labels)


def as_metadata(table: Any) -> Metadata:
    """Take metadata as they come: `Metadata`, a DataFrame (its index names the objects), a mapping.

    What has no names and is not from a file is taken to be in the order of the objects.

    Parameters
    ----------
    table : Metadata, DataFrame or mapping of str to sequence
    """
    if isinstance(table, Metadata):
        return table
    if not hasattr(table, "index") and isinstance(table, Mapping):
        return _from_columns(table)
    if not all(hasattr(table, name) for name in ("index", "columns", "to_numpy")):
        raise InputError(
            f"metadata is a {type(table).__name__}; pass a DataFrame, a mapping of columns, or "
            "what read_metadata returns."
        )
    columns = {str(column): table[column] for column in table.columns}
    rows = [str(name) for name in table.index]
    if rows == [str(i) for i in range(len(rows))]:
        return _from_columns(columns)
    return replace(_from_columns({"index": rows} | columns), name_column="index")


def _from_columns(columns: Mapping[str, Any]) -> Metadata:
    cells = {
        str(name): tuple(_as_cell(value) for value in column) for name, column in columns.items()
    }
    lengths = {len(column) for column in cells.values()}
    if len(lengths) > 1:
        raise InputError(f"columns of the metadata have different lengths: {sorted(lengths)}.")
    # What came as text or as pandas' categories stays so, whatever its cells look like.
    kept = [name for name, column in columns.items() if not _is_numeric(column)]
    return Metadata(cells, categories=[str(name) for name in kept], aligned=True)


def _is_numeric(column: Any) -> bool:
    kind = getattr(getattr(column, "dtype", None), "kind", None)
    if str(getattr(column, "dtype", "")) == "category":
        return False
    if kind is not None and kind != "O":
        return kind in "iuf"
    return all(
        value is None or (isinstance(value, Real) and not isinstance(value, bool))
        for value in column
    )


def _as_cell(value: Any) -> str:
    if value is None or value != value:  # NaN, and pandas' NaT
        return ""
    try:
        return repr(float(value)) if isinstance(value, (float, np.floating)) else str(value)
    except TypeError:  # pandas' NA has no truth value
        return ""


def _read_text(path: str | PathLike[str]) -> tuple[str, str]:
    """Return the name of a file for messages, and the text it holds."""
    file = Path(path)
    if not file.is_file():
        raise FileFormatError(f"{file} does not exist, or is not a file.")
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileFormatError(
            f"{file.name} is not text in UTF-8 (byte {error.start}); save it as UTF-8."
        ) from error
    except OSError as error:
        raise FileFormatError(f"{file.name} cannot be read: {error.strerror or error}.") from error
    if not text.strip():
        raise FileFormatError(f"{file.name} is empty.")
    return file.name, text


def _header_delimiter(lines: Sequence[str]) -> str | None:
    """Return the delimiter of the header, or of the next line; None for blanks."""
    for line in [line for line in lines if line.strip()][:2]:
        bare = "".join(line.split('"')[::2])
        mark = max(_DELIMITERS, key=bare.count)
        if mark in bare:
            return mark
    return None


def _cells(text: str, delimiter: str | None, name: str) -> list[tuple[int, list[str]]]:
    """Cut text into the cells of each line that holds some, with the line's number."""
    cut = csv.reader(
        io.StringIO(text, newline=""), delimiter=delimiter or " ", skipinitialspace=True
    )
    rows = []
    try:
        for cells in cut:
            stripped = [cell.strip() for cell in cells]
            if delimiter is None:
                stripped = [cell for cell in stripped if cell]
            if any(stripped):
                rows.append((cut.line_num, stripped))
    except csv.Error as error:
        raise FileFormatError(f"{name}, line {cut.line_num}: {error}.") from error
    if not rows:
        raise FileFormatError(f"{name} is empty.")
    return rows


def _read_npy(file: Path, n: int) -> tuple[str, ...]:
    if not file.is_file():
        raise FileFormatError(f"{file} does not exist, or is not a file.")
    try:
        values = np.load(file, allow_pickle=False)
    except Exception as error:  # damaged headers raise SyntaxError, OverflowError and others
        raise FileFormatError(
            f"{file.name} is damaged, or not an npy file of labels; save a vector."
        ) from error
    labels = tuple(str(value) for value in np.ravel(values))
    if len(labels) != n:
        raise InputError(f"{file.name} holds {len(labels)} labels for {n} objects.")
    return labels


def _counts_from(start: int, cells: Sequence[str]) -> bool:
    return tuple(cells) == tuple(str(i) for i in range(start, start + len(cells)))


def _is_shuffled(cells: Sequence[str]) -> bool:
    """Tell whether cells count the rows, in another order than theirs."""
    counts = [tuple(str(i) for i in range(start, start + len(cells))) for start in (0, 1)]
    return any(set(cells) == set(count) and tuple(cells) != count for count in counts)


def _is_missing(cell: str) -> bool:
    return cell.lower() in _MISSING


def _simplified(name: str) -> str:
    """Return a name without what R's make.names and spreadsheets change."""
    return "".join(mark for mark in name.casefold() if mark.isalnum()).removeprefix("x")


def _examples(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name[:40]) for name in names[:_EXAMPLES])
    return shown + (", …" if len(names) > _EXAMPLES else "")
