"""Which file holds what: from a path, or standard input, to an array and labels."""

from __future__ import annotations

import io
import math
import os
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from neucmds._input.readers.phylip import parse_phylip
from neucmds._input.readers.text import parse_text
from neucmds.errors import FileFormatError

__all__ = ["KNOWN_SUFFIXES", "Labels", "read_table"]

Labels = tuple[str, ...] | None
Table = tuple[npt.NDArray[Any], Labels]
Reader = Callable[[BinaryIO, str], Table]

NPY_MAGIC, ZIP_MAGIC, PARQUET_MAGIC = b"\x93NUMPY", b"PK", b"PAR1"


def read_table(path: str | os.PathLike[str], *, mmap: bool = False) -> tuple[Any, Labels]:
    """Read a square or condensed matrix of numbers, and the names of its objects if it has any.

    Parameters
    ----------
    path : str or Path
        A file with a known suffix: npy, npz, csv, tsv, txt, lsmat (scikit-bio), phy, phylip, dist
        (PHYLIP), parquet, pq; or `-` for standard input, told apart by its first bytes.
    mmap : bool, default False
        Open an npy file as a read-only memory map instead of loading it.

    Returns
    -------
    values : array of shape (n, n) or (n(n-1)/2,)
        The numbers as they stand in the file; nothing is squared, averaged or checked. A lower
        triangle comes as a square matrix.
    labels : tuple of str, or None
        One name an object.

    Raises
    ------
    FileFormatError
        If the file is missing, empty, or not what its suffix says.

    Notes
    -----
    In an npz file the matrix is the array `D`, or else the only one of numbers with one or two
    dimensions; labels come from `names`, or else `labels`, if they name each object once. Pickled
    objects are never loaded.
    """
    if str(path) == "-":
        return _read_standard_input()
    file = Path(path)
    name = file.name
    if not file.exists():
        raise FileFormatError(f"{file} does not exist.")
    if file.is_dir():
        raise FileFormatError(f"{file} is a directory; pass one of the files in it.")
    reader = READERS.get(file.suffix.lower())
    if reader is None:
        suffix = f"the suffix {file.suffix!r}" if file.suffix else "no suffix"
        raise FileFormatError(f"{name} has {suffix}; known are {', '.join(KNOWN_SUFFIXES)}.")
    try:
        if file.stat().st_size == 0:
            raise FileFormatError(f"{name} is empty.")
        if mmap and reader is _read_npy:
            return _map_npy(file), None
        with file.open("rb") as stream:
            return reader(stream, name)
    except OSError as error:
        raise FileFormatError(f"{name} cannot be read: {error.strerror or error}.") from error


def _read_standard_input() -> Table:
    content = sys.stdin.buffer.read()
    name = "standard input"
    if not content.strip():
        raise FileFormatError(f"{name} is empty.")
    magics = {NPY_MAGIC: _read_npy, ZIP_MAGIC: _read_npz, PARQUET_MAGIC: _read_parquet}
    for magic, reader in magics.items():
        if content.startswith(magic):
            return reader(io.BytesIO(content), name)
    return _read_text(io.BytesIO(content), name)


def _read_npy(stream: BinaryIO, name: str) -> Table:
    if stream.read(len(NPY_MAGIC)) != NPY_MAGIC:
        raise FileFormatError(f"{name} is no npy file: it does not begin as one.")
    stream.seek(0)
    try:
        return np.load(stream, allow_pickle=False), None
    except (ValueError, EOFError) as error:
        raise _broken_npy(name, error) from error


def _map_npy(file: Path) -> npt.NDArray[Any]:
    with file.open("rb") as stream:
        if stream.read(len(NPY_MAGIC)) != NPY_MAGIC:
            raise FileFormatError(f"{file.name} is no npy file: it does not begin as one.")
    try:
        values: npt.NDArray[Any] = np.load(file, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise _broken_npy(file.name, error) from error
    return values


def _broken_npy(name: str, error: Exception) -> FileFormatError:
    if "bject" in str(error):
        return FileFormatError(f"{name} holds Python objects, which are not loaded; save numbers.")
    return FileFormatError(f"{name} is truncated or damaged: {_one_line(error)}.")


def _read_npz(stream: BinaryIO, name: str) -> Table:
    if stream.read(len(ZIP_MAGIC)) != ZIP_MAGIC:
        raise FileFormatError(f"{name} is no npz file: it does not begin as one.")
    stream.seek(0)
    try:
        with np.load(stream, allow_pickle=False) as archive:
            values = _member(archive, _matrix_key(archive, name), name)
            return values, _npz_labels(archive, values, name)
    except (zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise FileFormatError(f"{name} is no npz file, or a damaged one.") from error


def _member(archive: Any, key: str, name: str) -> npt.NDArray[Any]:
    try:
        return np.asarray(archive[key])
    except ValueError as error:
        raise _broken_npy(f"{name}[{key!r}]", error) from error


def _matrix_key(archive: Any, name: str) -> str:
    if "D" in archive.files:
        return "D"
    fitting = []
    for key in archive.files:
        member = _member(archive, key, name)
        if member.ndim in (1, 2) and member.dtype.kind in "fiub" and key not in ("names", "labels"):
            fitting.append(key)
    if len(fitting) != 1:
        held = ", ".join(archive.files) or "nothing"
        raise FileFormatError(
            f"{name} holds no array D and {len(fitting)} others that could be it (it has: {held}); "
            "save the matrix as D."
        )
    return str(fitting[0])


def _npz_labels(archive: Any, values: npt.NDArray[Any], name: str) -> Labels:
    n = values.shape[0] if values.ndim == 2 else (1 + math.isqrt(1 + 8 * values.size)) // 2
    for key in ("names", "labels"):
        if key not in archive.files:
            continue
        found = _member(archive, key, name)
        if found.dtype.kind == "S":
            found = np.char.decode(found, "utf-8")
        texts = tuple(str(label) for label in found.ravel())
        # `labels` are often classes, which name groups and not objects.
        if len(texts) == n and len(set(texts)) == n:
            return texts
    return None


def _read_text(stream: BinaryIO, name: str) -> Table:
    return parse_text(_lines(stream, name), name)


def _read_phylip(stream: BinaryIO, name: str) -> Table:
    return parse_phylip(_lines(stream, name), name)


def _lines(stream: BinaryIO, name: str) -> list[str]:
    """Decode all lines; blank ones stay, so that messages can count lines as an editor does."""
    try:
        lines = [line.rstrip("\r\n") for line in io.TextIOWrapper(stream, encoding="utf-8-sig")]
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{name} is no text in UTF-8; save it so, or as npy.") from error
    if any("\0" in line for line in lines[:100]):
        raise FileFormatError(f"{name} is no text: it holds NUL bytes.")
    return lines


def _read_parquet(stream: BinaryIO, name: str) -> Table:
    try:
        import pandas as pd

        frame = pd.read_parquet(io.BytesIO(stream.read()))
    except ImportError as error:
        raise FileFormatError(
            f"{name} needs pandas and pyarrow to be read: pip install 'neucmds[parquet]'."
        ) from error
    except (ValueError, OSError) as error:
        raise FileFormatError(f"{name} is no parquet file: {_one_line(error)}.") from error
    return _frame_table(frame, name)


def _frame_table(frame: Any, name: str) -> Table:
    """Values and labels of a table that may keep its row labels in the index or a first column."""
    rows, cols = frame.shape
    if cols == rows + 1:
        frame = frame.set_index(frame.columns[0])
    elif cols == 1:
        return frame.to_numpy()[:, 0], None
    labels = tuple(str(label) for label in frame.columns)
    index = tuple(str(label) for label in frame.index)
    counted = tuple(str(i) for i in range(rows))
    if index not in (labels, counted) and rows == frame.shape[1]:
        raise FileFormatError(
            f"{name} names its rows and its columns differently; make them agree."
        )
    try:
        values = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    except (ValueError, TypeError) as error:
        raise FileFormatError(f"{name} holds more than numbers: {_one_line(error)}.") from error
    return values, None if labels == counted else labels


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")


READERS: dict[str, Reader] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".csv": _read_text,
    ".tsv": _read_text,
    ".txt": _read_text,
    ".lsmat": _read_text,
    ".phy": _read_phylip,
    ".phylip": _read_phylip,
    ".dist": _read_phylip,
    ".parquet": _read_parquet,
    ".pq": _read_parquet,
}
KNOWN_SUFFIXES = tuple(READERS)
