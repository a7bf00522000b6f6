"""Read files: tables of text (pandas), npy, npz, and distance matrices of QIIME 2.

A table is square, or holds one triangle; names stand above, beside, both or nowhere. The numbers of
lines and of cells per line tell which, and where they allow both, the first cell does.
"""

from __future__ import annotations

import csv
import io
import math
import re
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from neucmds.backend.files import format_errors
from neucmds.backend.memory import require_memory
from neucmds.errors import InputError, option
from neucmds.problem.names import Labels, agreed, order_of

Floats = npt.NDArray[np.float64]
Table = tuple[npt.NDArray[Any], Labels]

KINDS = {
    **dict.fromkeys(
        (".csv", ".tsv", ".txt", ".lsmat", ".phy", ".phylip", ".dist"), "text"
    ),
    ".npy": "npy",
    ".npz": "npz",
    ".qza": "qza",
}
# Of numbers and of metadata alike.
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
]
MISSING += ["none", "?"]
# The first line of a PHYLIP file, the number of objects.
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


def one_line(error: Exception) -> str:
    """Return the message of another library for use inside our own."""
    return (
        " ".join(str(error).split()).rstrip(".")[:200] or type(error).__name__
    )


def ask_for_edges(width: int) -> str:
    """Ask whether a table of three columns lists edges."""
    if width != 3:
        return ""
    return f"; is it a list of edges? Then pass {option('metric', 'shortest_path')}"


@contextmanager
def opened(path: str | PathLike[str]) -> Iterator[tuple[str, BinaryIO, str]]:
    """Open a file, or standard input for `-`: its format, its bytes, and its name for messages."""
    if str(path) == "-":
        if sys.stdin is None:
            raise InputError(
                "standard input is closed; pass the name of a file."
            )
        content = sys.stdin.buffer.read()
        kind = "text"
        if content.startswith(b"\x93NUMPY"):
            kind = "npy"
        elif content.startswith(b"PK"):
            kind = "npz"
        yield kind, io.BytesIO(content), "standard input"
        return
    file = Path(path)
    if not file.is_file():
        raise InputError(
            f"{file} does not exist, or is a directory; pass a file."
        )
    kind = KINDS.get(file.suffix.lower(), "")
    with (
        format_errors(file.name, "a file that can be read"),
        file.open("rb") as stream,
    ):
        yield kind, stream, file.name


def read_table(
    path: str | PathLike[str], *, mmap: bool = False
) -> tuple[Any, Labels]:
    """Read a square or condensed matrix of numbers, and the names of its objects if it has any.

    The suffix of the file decides on its format, for `-`, standard input, its first bytes. Numbers
    are neither squared, averaged nor checked. A triangle, also one whose other half holds zeros, NA
    or blanks, becomes square. Of an npz file the matrix is the array `D`, or the only numeric one
    of one or two dimensions; names are `names`, or `labels` if they are unique. With `mmap`, an npy
    file is a read-only memory map.
    """
    with opened(path) as (kind, stream, name):
        if kind == "npy":
            with format_errors(name, "an npy file"):
                if mmap and str(path) != "-":
                    return np.load(
                        path, mmap_mode="r", allow_pickle=False
                    ), None
                return np.lib.format.read_array(
                    stream, allow_pickle=False
                ), None
        if kind == "npz":
            with (
                format_errors(name, "an npz file"),
                np.lib.npyio.NpzFile(stream) as archive,
            ):
                return _from_npz(archive, name)
        if kind == "qza":
            return _from_qza(stream, name)
        if kind == "text":
            return _square(decoded(stream, name), name)
        raise InputError(
            f"{name} has no suffix that is known; known are {', '.join(KINDS)}."
        )


def _from_npz(archive: Any, name: str) -> Table:
    names = [key for key in archive.files if key not in ("names", "labels")]
    if "D" not in archive:
        numeric = [key for key in names if archive[key].dtype.kind in "fiub"]
        names = [key for key in numeric if archive[key].ndim in (1, 2)]
        if len(names) != 1:
            raise InputError(
                f"{name} holds no array D and {len(names)} others that could be it (it has: "
                f"{', '.join(archive.files) or 'nothing'}); save the matrix as D."
            )
    values = archive["D" if "D" in archive else names[0]]
    n = len(values)
    if values.ndim == 1:
        n = (1 + math.isqrt(1 + 8 * values.size)) // 2
    for key in ("names", "labels"):
        if key in archive:
            texts = archive[key].ravel()
            if texts.dtype.kind == "S":
                texts = np.char.decode(texts, "utf-8")
            # `labels` are often classes, which name groups and not objects.
            if len(set(texts.tolist())) == n == len(texts):
                labels = tuple(map(str, texts))
                "".join(
                    labels
                ).casefold()  # raises where damaged bytes are no characters
                return values, labels
    return values, None


def _from_qza(stream: BinaryIO, name: str) -> Table:
    """Read the distance matrix of an artifact of QIIME 2, a zip archive, and nothing else of it."""
    with (
        format_errors(name, "an artifact of QIIME 2"),
        zipfile.ZipFile(stream) as archive,
    ):
        inside = {
            member.filename.partition("/")[2]: member
            for member in archive.infolist()
        }
        matrix = inside.get("data/distance-matrix.tsv")
        if matrix is None:
            data = ", ".join(
                [path for path in inside if path.startswith("data/")][:3]
            )
            raise InputError(
                f"{name} holds {data or 'no data'} and no data/distance-matrix.tsv; pass an "
                "artifact of the type DistanceMatrix."
            )
        # No more is read than the archive says, whatever is packed into it.
        require_memory(
            2 * matrix.file_size, f"the matrix of {name}", "use fewer samples"
        )
        with archive.open(matrix) as member:
            return _square(decoded(member, name), name)


def decoded(stream: Any, name: str) -> str:
    """Return the text of a file, which must be UTF-8 and not blank."""
    try:
        text: str = stream.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{name} is not text in UTF-8 (byte {error.start}); save it as UTF-8, or as npy."
        ) from error
    if "\0" in text:
        raise InputError(f"{name} is not text: it holds NUL bytes.")
    if not text.strip():
        raise InputError(f"{name} is empty.")
    return text


def read_text(path: str | PathLike[str]) -> tuple[str, str]:
    """Return the name of a file for messages, and the text it holds."""
    with opened(path) as (_, stream, name):
        return name, decoded(stream, name)


def parse_number(cell: str) -> float | None:
    """Read a cell as a number, NaN where it says that one is missing; None if it is none."""
    if cell in MISSING:
        return math.nan
    try:
        if "_" in cell:
            return None
        return float(cell)
    except ValueError:
        return None


def _is_text(cell: str) -> bool:
    return parse_number(cell) is None


def _lines(text: str, name: str) -> tuple[list[str], str | None]:
    """Return the lines but blank ones and remarks at the top, and the delimiter (None: blanks)."""
    lines = [line for line in text.splitlines() if line.strip()]
    delimiter = next((mark for mark in "\t;," if mark in lines[-1]), None)
    while lines and lines[0].lstrip().startswith("#"):
        # A header may begin with #, too.
        if delimiter is not None and lines[0].count(delimiter) >= lines[
            -1
        ].count(delimiter):
            break
        lines = lines[1:]
    if not lines:
        raise InputError(f"{name} is empty.")
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
    try:
        return [cell.strip() for cell in next(cut)]
    except csv.Error as error:
        raise InputError(
            f"a line begins {line[:40]!r}: {one_line(error)}."
        ) from error


def _widths(lines: Sequence[str], delimiter: str | None) -> list[int]:
    """Return the number of cells per line."""
    if delimiter is None or any('"' in line for line in lines):
        return [len(_cells(line, delimiter)) for line in lines]
    return [line.count(delimiter) + 1 for line in lines]


def _frame(
    lines: Sequence[str],
    delimiter: str | None,
    n_names: int,
    width: int,
    name: str,
) -> tuple[list[list[str]], Floats]:
    """Read columns of names, and the numbers after them; cells that a line lacks are NaN."""
    pandas = require_pandas(f"reading {name}")
    numbers = range(n_names, width)
    settings: dict[str, Any] = {
        "sep": delimiter or r"\s+",
        "header": None,
        "names": range(width),
        "index_col": False,
        "keep_default_na": False,
        "skipinitialspace": True,
        "float_precision": "round_trip",
    }
    text = "\n".join(lines)
    try:
        frame = pandas.read_csv(
            io.StringIO(text),
            dtype=dict.fromkeys(range(n_names), str)
            | dict.fromkeys(numbers, np.float64),
            na_values=dict.fromkeys(numbers, MISSING),
            **settings,
        )
    except (ValueError, OverflowError) as error:
        _refuse_cells(lines, delimiter, n_names, name)
        raise InputError(
            f"{name} is not a table: {one_line(error)}."
        ) from error
    if len(frame) != len(lines):
        raise InputError(f"{name} is not a table: a quotation mark is open.")
    names = [
        [str(cell).strip() for cell in frame[column]]
        for column in range(n_names)
    ]
    return names, frame[list(numbers)].to_numpy(np.float64)


def _refuse_cells(
    lines: Sequence[str], delimiter: str | None, n_names: int, name: str
) -> None:
    """Name the first cell that is not a number."""
    for line in lines:
        for cell in _cells(line, delimiter)[n_names:]:
            if _is_text(cell):
                raise InputError(
                    f"{name}: {cell[:40]!r} is not a number, in {line[:40]!r}."
                )


def _refuse_ragged(
    lines: Sequence[str], widths: Sequence[int], width: int, name: str
) -> None:
    """Refuse lines of different widths, unless each has a cell more than the one before."""
    growing = len(widths) > 2 and widths == list(
        range(widths[0], widths[0] + len(widths))
    )
    for line, cells in zip(lines, widths, strict=True):
        if cells != width and not growing:
            raise InputError(
                f"{name}: {cells} cells where others have {width}, in {line[:40]!r}."
            )


def _square(text: str, name: str) -> Table:
    """Read a square matrix or a lower triangle, with or without names, or a condensed list."""
    lines, delimiter = _lines(text, name)
    if (
        len(lines) > 1
        and COUNT.fullmatch(lines[0])
        and _is_text(_cells(lines[1], delimiter)[0])
    ):
        # PHYLIP announces the number of objects, whose names have no blanks.
        if len(lines) - 1 != int(lines[0]):
            raise InputError(
                f"{name} announces {lines[0].strip()} objects and holds {len(lines) - 1} lines."
            )
        lines = lines[1:]
    if len(lines) == 1:
        lines = _cells(lines[0], delimiter)
        if all(map(_is_text, filter(None, lines))):
            raise InputError(
                f"{name} holds one line of names and no numbers below it."
            )
        delimiter = "\t"
    first = _cells(lines[0], delimiter)
    widths = _widths(lines, delimiter)
    width = max(widths)
    height = len(lines)
    if width == 1:
        header = int(_is_text(first[0]))
        return _frame(lines[header:], delimiter, 0, 1, name)[1][:, 0], None
    if widths == list(range(1, height + 1)) and _is_text(first[0]):
        names, values = _frame(lines, delimiter, 1, width + 1, name)
        return _mirrored(values), tuple(names[0])
    # R leaves out the cell above the names, which may be numbers.
    corner = first[0] == "" or _is_text(first[0])
    corner = corner or first == [
        _cells(line, delimiter)[0] for line in lines[1:]
    ]
    header = height == width + 1 or (height == width and corner)
    labelled = width == height + 1 or (height == width and corner)
    n = width - labelled
    if height - header != n:
        raise InputError(
            f"{name} is not a square matrix: {height} lines of {width} cells{ask_for_edges(width)}."
        )
    if widths[0] < n:
        _refuse_ragged(lines, widths, width, name)
    _refuse_ragged(lines[header:], widths[header:], width, name)
    names, values = _frame(
        lines[header:], delimiter, int(labelled), width, name
    )
    if header:
        above = tuple(first[-n:])
    else:
        above = None
    if labelled:
        beside = tuple(names[0])
    else:
        beside = None
    labels = above or beside
    if labels is not None:
        labels = agreed(beside or labels, above or labels, name, InputError)
    return _mirrored(values), labels


def _mirrored(values: Floats) -> Floats:
    """Complete a square table that holds one half of D, the other being zeros, NA or blanks."""
    lower = np.tril(values, -1)
    upper = np.triu(values, 1).T
    if np.nan_to_num(lower).any() == np.nan_to_num(upper).any():
        return values
    if np.nan_to_num(lower).any():
        half = lower
    else:
        half = upper
    # A diagonal that is blank like the other half was left out, not missed.
    diagonal = np.diagonal(values)
    if np.isnan(diagonal).all():
        diagonal = np.zeros_like(diagonal)
    return half + half.T + np.diag(diagonal)


def read_columns(path: str | PathLike[str]) -> tuple[Any, Any, Floats]:
    """Read a list of edges: two columns of nodes, as integers or text, and their lengths.

    There may be a header. Tabs, semicolons, commas or blanks are between.
    """
    name, text = read_text(path)
    lines, delimiter = _lines(text, name)
    first = _cells(lines[0], delimiter)
    if len(first) != 3:
        raise InputError(
            f"{name} has {len(first)} columns; a list of edges has 3, two nodes and a length."
        )
    if _is_text(first[2]):
        lines = lines[1:]
    if not lines:
        raise InputError(
            f"{name} has one line, of names, and no edges below it."
        )
    _refuse_ragged(lines, _widths(lines, delimiter), 3, name)
    (left, right), lengths = _frame(lines, delimiter, 2, 3, name)
    nodes = np.array([left, right])
    with suppress(ValueError, OverflowError):
        nodes = nodes.astype(np.int64)
    return nodes[0], nodes[1], lengths[:, 0]


def read_new_objects(
    path: str | PathLike[str], n: int, fitted: Labels = None
) -> tuple[npt.NDArray[Any], Labels]:
    """Read dissimilarities (m, n) of new objects to n fitted ones, and the names of the new.

    The table has a row per new object and a column per fitted one, with or without names of either;
    of npy and npz a vector is one object. With the names of the `fitted` objects, columns go by
    name, and there may be others: then it is a table of old and new, and fitted objects among its
    rows are left out.
    """
    with opened(path) as (kind, stream, name):
        if kind == "text":
            values, names, columns = _new_rows(decoded(stream, name), name, n)
        else:
            values, names = read_table(path)
            values = np.atleast_2d(values)
            columns = names
    if names is not None and len(names) != len(values):
        names = None
    if (
        columns is not None
        and fitted is not None
        and len(columns) == values.shape[1]
    ):
        order = order_of(
            columns, fitted, "columns of the new objects", others=True
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
            f"{name} is {shape} of {values.dtype}; one number is expected for each of the {n} "
            "fitted objects."
        )
    return values, names


def _new_rows(text: str, name: str, n: int) -> tuple[Floats, Labels, Labels]:
    """Return the numbers of a table, the names beside them, and those above."""
    lines, delimiter = _lines(text, name)
    first = _cells(lines[0], delimiter)
    last = _cells(lines[-1], delimiter)
    width = len(last)
    # R leaves out the cell above the row names, pandas leaves it empty.
    shorter = len(first) == width - 1
    labelled = shorter or first[0] == "" or _is_text(last[0]) or width == n + 1
    header = (
        shorter
        or (labelled and first[0] == "")
        or any(map(_is_text, first[1:]))
    )
    if (
        labelled
        and not header
        and _is_text(first[0])
        and not _is_text(last[0])
    ):
        header = True  # a title above names that are numbers
    if header and len(lines) > 1:
        lines = lines[1:]
    _refuse_ragged(lines, _widths(lines, delimiter), width, name)
    names, values = _frame(lines, delimiter, int(labelled), width, name)
    if header:
        above = tuple(first[-values.shape[1] :])
    else:
        above = None
    return values, tuple(names[0]) if labelled else None, above
