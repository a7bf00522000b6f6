"""Read files: tables of text (pandas), npy, npz, and distance matrices of QIIME 2.

A text table is square, or holds one triangle; names stand in the first line, in the first column,
in both or nowhere. The numbers of lines and of cells tell which; where they do not, the first cell
does.
"""

from __future__ import annotations

import csv
import io
import re
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from sklearn.utils.fixes import parse_version

from neucmds.backend.arrays import Array, Floats
from neucmds.backend.files import AnyPath, refuse_damage
from neucmds.errors import InputError, option
from neucmds.problem.names import Labels, names_of_both, order_of

# A square or condensed matrix, and the names of its objects.
Table = tuple[Array, Labels]

# The format of a file by its suffix.
KINDS = dict.fromkeys(
    [".csv", ".tsv", ".txt", ".lsmat", ".phy", ".phylip", ".dist"], "text"
) | {".npy": "npy", ".npz": "npz", ".qza": "qza"}
# Cells of a table of numbers or of metadata whose value is missing.
MISSING = [
    "",
    "NA",
    "na",
    "N/A",
    "n/a",
    "NaN",
    "nan",
    "-nan",
    "-NaN",
    "NULL",
    "null",
    "None",
    "none",
    "?",
]
# How an npy file begins.
NPY = b"\x93NUMPY"
# The first line of a PHYLIP file: the number of objects.
COUNT = re.compile(r"\s*[0-9]{1,9}\s*")


def require_pandas(what: str) -> Any:
    """Return pandas, or name the extra that brings it."""
    try:
        import pandas
    except ImportError as error:
        raise InputError(
            f"{what} needs pandas: pip install 'neucmds[cli]'."
        ) from error
    return pandas


@contextmanager
def opened(path: AnyPath) -> Iterator[tuple[str, BinaryIO, str]]:
    """Yield the format of a file, its bytes, and its name for messages; `-` is standard input.

    The format of an unknown suffix is "". What other libraries raise in the context becomes an
    `InputError`.
    """
    name = Path(path).name
    kind = KINDS.get(Path(path).suffix.lower(), "")
    if str(path) == "-":
        name = "standard input"
        content = sys.stdin.buffer.read()
        kind = "text"
        if content.startswith(NPY):
            kind = "npy"
        elif content.startswith(b"PK"):
            kind = "npz"
        stream: BinaryIO = io.BytesIO(content)
    elif not Path(path).is_file():
        raise InputError(
            f"{path} does not exist, or is a directory; pass a file."
        )
    with refuse_damage(name, "a table that can be read"), ExitStack() as stack:
        if str(path) != "-":
            stream = stack.enter_context(Path(path).open("rb"))
        yield kind, stream, name


def read_table(path: AnyPath, *, mmap: bool = False) -> tuple[Any, Labels]:
    """Read a square or condensed matrix of numbers, and the names of its objects if it has any.

    The suffix of the file decides on its format, for `-`, standard input, its first bytes. Numbers
    are neither squared, averaged nor checked. A triangle in a text, also one whose other half holds
    zeros, NA or blanks, becomes square. Of an npz file the matrix is the array `D`, or the only
    numeric one of one or two dimensions, and the array `names` has the names. With `mmap`, an npy
    file is a read-only memory map.
    """
    with opened(path) as (kind, stream, name):
        if kind == "npy":
            # NumPy would say that other bytes may be a pickle, and how to load it.
            if stream.read(len(NPY)) != NPY:
                raise InputError(
                    f"{name}: not a table that can be read, or damaged; write it by numpy.save."
                )
            stream.seek(0)
            if mmap and str(path) != "-":
                return np.load(path, mmap_mode="r", allow_pickle=False), None
            return np.lib.format.read_array(stream, allow_pickle=False), None
        if kind == "npz":
            with np.lib.npyio.NpzFile(stream) as archive:
                return _from_npz(archive, name)
        if kind == "qza":
            return _from_qza(stream, name)
        if kind == "text":
            return _square(decoded(stream, name), name)
        raise InputError(
            f"{name} has no suffix that is known; known are {', '.join(KINDS)}."
        )


def _from_npz(archive: Any, name: str) -> Table:
    """Return the matrix of an npz file and its names."""
    keys = [key for key in archive.files if key == "D"]
    if not keys:
        keys = [
            key
            for key in archive.files
            if archive[key].dtype.kind in "fiub"
            and archive[key].ndim in (1, 2)
        ]
    if len(keys) != 1:
        raise InputError(
            f"{name} holds no array D and {len(keys)} others that could be it (it has: "
            f"{', '.join(archive.files) or 'nothing'}); save the matrix as D."
        )
    labels = None
    if "names" in archive:
        labels = tuple(archive["names"].astype(str).ravel().tolist())
    # A member of the archive that is no npy file comes as bytes.
    return np.asarray(archive[keys[0]]), labels


def _from_qza(stream: BinaryIO, name: str) -> Table:
    """Read the distance matrix of an artifact of QIIME 2, a zip archive with one folder."""
    with zipfile.ZipFile(stream) as archive:
        roots = {member.partition("/")[0] for member in archive.namelist()}
        if len(roots) > 1:
            raise InputError(
                f"{name} has {len(roots)} folders at its top, but an artifact one; export it again."
            )
        for member in archive.namelist():
            if member.partition("/")[2] == "data/distance-matrix.tsv":
                with archive.open(member) as file:
                    return _square(decoded(file, name), name)
    raise InputError(
        f"{name} holds no data/distance-matrix.tsv; pass an artifact of the type DistanceMatrix."
    )


def decoded(stream: Any, name: str) -> str:
    """Return the text of a file, which must be UTF-8 and not blank."""
    text: str = stream.read().decode("utf-8-sig")
    if not text.strip():
        raise InputError(f"{name} is empty.")
    return text


def read_text(path: AnyPath) -> tuple[str, str]:
    """Return the name of a file for messages, and the text it holds."""
    with opened(path) as (_, stream, name):
        return name, decoded(stream, name)


def _is_text(cell: str) -> bool:
    """Tell whether a cell is neither a number, also with a decimal comma, nor one of `MISSING`."""
    if cell in MISSING:
        return False
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return True
    return False


def _lines(text: str, name: str) -> tuple[list[str], str | None]:
    """Return lines without blank ones and remarks at the top, and the delimiter (None: blanks)."""
    lines = [line for line in text.splitlines() if line.strip()]
    delimiter = next((mark for mark in "\t;," if mark in lines[-1]), None)
    # Remarks begin with #. A line of names may, too, but has the delimiter.
    while lines[0].lstrip().startswith("#") and (
        delimiter is None or delimiter not in lines[0]
    ):
        lines = lines[1:]
        if not lines:
            raise InputError(f"{name} is empty.")
    # A delimiter at the end of every line ends the last cell, and begins none.
    if delimiter is not None and all(
        line.endswith(delimiter) for line in lines
    ):
        lines = [line.removesuffix(delimiter) for line in lines]
    return lines, delimiter


def _cells(line: str, delimiter: str | None) -> list[str]:
    """Cut a line into cells without quotes and blanks around them."""
    if '"' not in line:
        return [cell.strip() for cell in line.split(delimiter)]
    cut = csv.reader(
        [line.strip(" ")], delimiter=delimiter or " ", skipinitialspace=True
    )
    return [cell.strip() for cell in next(cut)]


def _frame(
    lines: Sequence[str], delimiter: str | None, n_names: int, name: str
) -> tuple[list[list[str]], Floats]:
    """Return the first `n_names` columns, as names, and the numbers after them.

    Lines have equally many cells, or make a triangle: each has one more than the line before. Then
    the numbers are square, NaN beyond the triangle.
    """
    widths = [len(_cells(line, delimiter)) for line in lines]
    width = widths[-1]
    triangle = list(range(widths[0], widths[0] + len(lines)))
    if len(lines) > 2 and widths == triangle:
        width = len(lines) + n_names
    elif set(widths) != {width}:
        i = next(i for i, cells in enumerate(widths) if cells != width)
        raise InputError(
            f"{name}: {widths[i]} cells where others have {width}, in {lines[i][:40]!r}"
            f"{_advice(delimiter)}."
        )
    numbers = range(n_names, width)
    pandas = require_pandas(f"reading {name}")
    precision = {}
    if parse_version(pandas.__version__) < parse_version("3.1"):
        # So that every digit is read. Later versions do, and deprecate the parameter.
        precision["float_precision"] = "round_trip"
    try:
        frame = pandas.read_csv(
            io.StringIO("\n".join(lines)),
            sep=delimiter or r"\s+",
            header=None,
            names=range(width),
            index_col=False,
            dtype=dict.fromkeys(range(n_names), str)
            | dict.fromkeys(numbers, np.float64),
            na_values=dict.fromkeys(numbers, MISSING),
            keep_default_na=False,
            skipinitialspace=True,
            **precision,
        )
    except ValueError:
        _refuse_text(lines, delimiter, n_names, name)
        raise
    if len(frame) != len(lines):
        raise InputError(f"{name} is not a table: a quotation mark is open.")
    names = [
        [str(cell).strip() for cell in frame[column]]
        for column in range(n_names)
    ]
    return names, frame[list(numbers)].to_numpy(np.float64)


def _refuse_text(
    lines: Sequence[str], delimiter: str | None, n_names: int, name: str
) -> None:
    """Refuse the first cell after `n_names` that is text, or a number with a decimal comma."""
    for line in lines:
        for i, cell in enumerate(_cells(line, delimiter)):
            if i < n_names or not ("," in cell or _is_text(cell)):
                continue
            advice = ""
            if not _is_text(cell):
                advice = "; write decimal points, as write.csv of R does, not commas"
            raise InputError(
                f"{name}: {cell!r} is not a number, in cell {i + 1} of the line {line[:40]!r}"
                f"{advice}."
            )


def _advice(delimiter: str | None) -> str:
    """Return advice on a table without delimiter, which may be a wrapped printout of R."""
    if delimiter is not None:
        return ""
    return "; from R, write.csv(as.matrix(d), file) instead of a printout"


def _numbers_and_names(
    lines: Sequence[str],
    delimiter: str | None,
    has_header: bool,
    has_row_names: bool,
    name: str,
) -> tuple[Floats, Labels, Labels]:
    """Return the numbers of a table, the names of its rows, and those of its columns.

    The header is the first line, with the names of columns; names of rows are the first cells.
    """
    names, values = _frame(
        lines[int(has_header) :], delimiter, int(has_row_names), name
    )
    row_names = None
    if has_row_names:
        row_names = tuple(names[0])
    column_names = None
    if has_header:
        column_names = tuple(_cells(lines[0], delimiter)[-values.shape[1] :])
    return values, row_names, column_names


def _square(text: str, name: str) -> Table:
    """Read a square matrix or a lower triangle, with or without names, or a condensed list."""
    lines, delimiter = _lines(text, name)
    second = _cells(lines[min(1, len(lines) - 1)], delimiter)
    if COUNT.fullmatch(lines[0]) and _is_text(second[0]):
        # PHYLIP announces the number of objects, whose names have no blanks.
        if len(lines) - 1 != int(lines[0]):
            raise InputError(
                f"{name} announces {lines[0].strip()} objects and holds {len(lines) - 1} lines."
            )
        lines = lines[1:]
    if len(lines) == 1:
        # A condensed list in one line is read as one in a column.
        lines = _cells(lines[0], delimiter)
        delimiter = "\t"
    last = _cells(lines[-1], delimiter)
    width = len(last)
    if width == 1:
        has_title = _is_text(lines[0].strip())
        _, values = _frame(lines[int(has_title) :], delimiter, 0, name)
        return values[:, 0], None
    first = _cells(lines[0], delimiter)
    width = max(width, len(first))
    height = len(lines)
    # Where a header and names of rows meet is a corner: a blank cell, a title, or no cell, as R
    # writes. Names may be numbers.
    has_corner = (
        first[0] == "" or _is_text(first[0]) or len(first) == width - 1
    )
    has_both = height == width and has_corner and len(first) > 1
    has_header = has_both or height == width + 1
    has_row_names = has_both or width == height + 1
    # Without its last row or column a square with both has the counts of one with either.
    others = first[1:]
    if has_header:
        others = last[:1]
    has_more_names = height != width and all(map(_is_text, others))
    if len(first) == 1:
        # A triangle, which begins with d_11, or with the name of the first object.
        has_header = False
        has_row_names = _is_text(first[0])
    elif has_more_names or (
        height - int(has_header) != width - int(has_row_names)
    ):
        raise InputError(
            f"{name} is not a square matrix: {height} lines of {width} cells, names included; of a "
            f"table of features, such as abundances, pass {option('metric', 'braycurtis')} or "
            f"another metric, of edges {option('metric', 'shortest_path')}, of dissimilarities of "
            f"two sets of objects {option('directed', True)}{_advice(delimiter)}."
        )
    values, row_names, column_names = _numbers_and_names(
        lines, delimiter, has_header, has_row_names, name
    )
    if len(first) == 1 and not has_row_names and np.diagonal(values).any():
        raise InputError(
            f"{name} is a triangle whose lines begin with numbers and do not end in 0: put the "
            "diagonal of zeros at the ends, or text as names at the beginnings."
        )
    labels = column_names or row_names
    # In a wrapped printout of R the columns of the first line go on below, under all rows.
    if delimiter is None and row_names and column_names:
        last_name = row_names[-1]
        if last_name not in column_names:
            raise InputError(
                f"{name} has a row {last_name!r} and no such column{_advice(delimiter)}."
            )
    if labels is not None:
        labels = names_of_both(
            row_names or labels, column_names or labels, name
        )
    return _mirrored(values), labels


def _mirrored(values: Floats) -> Floats:
    """Complete a square table that holds one half of D, the other being zeros, NA or blanks."""
    lower = np.tril(values, -1)
    upper = np.triu(values, 1).T
    has_lower = np.nan_to_num(lower).any()
    if has_lower == np.nan_to_num(upper).any():
        return values
    half = upper
    if has_lower:
        half = lower
    # A diagonal that is blank throughout, like the other half, was left out: it is zero.
    diagonal = np.diagonal(values)
    if np.isnan(diagonal).all():
        diagonal = np.zeros_like(diagonal)
    return half + half.T + np.diag(diagonal)


def read_edge_table(path: AnyPath) -> Any:
    """Read a DataFrame of edges: two columns of nodes, as integers or text, others as text.

    The first line may name the columns, 3 or more; without names there are 3, the last of them the
    lengths. Tabs, semicolons, commas or blanks are between cells.
    """
    with opened(path) as (_, stream, name):
        lines, delimiter = _lines(decoded(stream, name), name)
        first = _cells(lines[0], delimiter)
        has_header = len(first) > 2 and _is_text(first[2])
        if len(first) != 3 and not has_header:
            raise InputError(
                f"{name} has {len(first)} columns; a list of edges has 3, two nodes and a length, "
                "or names of its columns in the first line."
            )
        if has_header and len(lines) == 1:
            raise InputError(
                f"{name} has one line, of names, and no edges below it."
            )
        columns, _ = _frame(
            lines[int(has_header) :], delimiter, len(first), name
        )
    nodes = np.array(columns[:2])
    # Names of nodes that are no integers stay text.
    with suppress(ValueError, OverflowError):
        nodes = nodes.astype(np.int64)
    titles = ["from", "to", "length"]
    if has_header:
        titles = first
    frame = require_pandas(f"reading {name}").DataFrame(
        dict(enumerate([*nodes, *columns[2:]]))
    )
    return frame.set_axis(titles, axis=1)


def read_rectangle(
    path: AnyPath, n: int | None = None
) -> tuple[Array, Labels, Labels]:
    """Read a table of any shape, of n columns unless n is None, and the names of both sides."""
    with opened(path) as (kind, stream, name):
        if kind == "text":
            lines, delimiter = _lines(decoded(stream, name), name)
            first = _cells(lines[0], delimiter)
            last = _cells(lines[-1], delimiter)
            # R leaves out the cell above the names, pandas leaves it empty.
            has_corner = first[0] == "" or len(first) == len(last) - 1
            has_row_names = has_corner or _is_text(last[0])
            if n is not None:
                has_row_names = has_row_names or len(last) == n + 1
            # A title above names of rows that are numbers.
            has_title = _is_text(first[0]) and not _is_text(last[0])
            has_header = (
                has_corner or has_title or any(map(_is_text, first[1:]))
            )
            return _numbers_and_names(
                lines, delimiter, has_header, has_row_names, name
            )
    values, names = read_table(path)
    return np.atleast_2d(values), names, names


def read_new_objects(
    path: AnyPath, n: int, fitted: Labels = None
) -> tuple[Array, Labels]:
    """Read dissimilarities (m, n) of new objects to n fitted ones, and the names of the new.

    The table has a row per new object and a column per fitted one, with or without names of either;
    of npy and npz a vector is one object. If columns and the `fitted` objects have names, columns
    are matched by name. If there are other columns, too, the table is of all objects, and the rows
    of fitted ones are left out.
    """
    values, names, columns = read_rectangle(path, n)
    if names is not None and len(names) != len(values):
        names = None
    if (
        columns is not None
        and fitted is not None
        and len(columns) == values.shape[1]
    ):
        order = order_of(
            columns, fitted, "columns of the new objects", may_have_others=True
        )
        values = values[:, order]
        if len(columns) > n and names is not None:
            new = [
                i for i, label in enumerate(names) if label not in set(fitted)
            ]
            values = values[new]
            names = tuple(names[i] for i in new)
    if values.dtype.kind not in "fiub" or values.shape[1:] != (n,):
        shape = " × ".join(map(str, values.shape))
        raise InputError(
            f"{Path(path).name} is {shape} of {values.dtype}; one number is expected for each of "
            f"the {n} fitted objects."
        )
    return values, names
