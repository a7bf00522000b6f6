"""Which file holds what: from a path, or standard input, to an array and labels."""

from __future__ import annotations

import io
import math
import os
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from neucmds._backend.memory import format_bytes
from neucmds._input.readers.phylip import parse_phylip
from neucmds._input.readers.text import mirrored_triangle, parse_text
from neucmds.errors import FileFormatError

Labels = tuple[str, ...] | None
Table = tuple[npt.NDArray[Any], Labels]
Reader = Callable[[BinaryIO, str], Table]

NPY_MAGIC, ZIP_MAGIC, PARQUET_MAGIC = b"\x93NUMPY", b"PK", b"PAR1"

# A packed file may unpack to so many times its size, or to 64 MB if that is more. Real matrices
# pack to a tenth at the best, zeros alone to a thousandth: a few kB of these can fill any memory.
MOST_EXPANSION = 200
ALWAYS_ALLOWED = 2**26


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
        The numbers as they stand in the file; nothing is squared, averaged or checked. A triangle
        comes as a square matrix, also one whose other half holds zeros, NA or blanks in a table.
    labels : tuple of str, or None
        One name for each object.

    Raises
    ------
    FileFormatError
        If the file is missing, empty, not what its suffix says, or unpacks to more than 200 times
        its size (64 MB are always allowed).

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
    try:
        if not file.exists():
            raise FileFormatError(f"{file} does not exist.")
        if file.is_dir():
            raise FileFormatError(f"{file} is a directory; pass one of the files in it.")
        reader = READERS.get(file.suffix.lower())
        if reader is None:
            suffix = f"the suffix {file.suffix!r}" if file.suffix else "no suffix"
            raise FileFormatError(f"{name} has {suffix}; known are {', '.join(KNOWN_SUFFIXES)}.")
        if file.stat().st_size == 0:
            raise FileFormatError(f"{name} is empty.")
        if mmap and reader is _read_npy:
            return _map_npy(file), None
        with file.open("rb") as stream:
            return reader(stream, name)
    except OSError as error:
        raise FileFormatError(f"{name} cannot be read: {error.strerror or error}.") from error


def _read_standard_input() -> Table:
    content, name = standard_input(), "standard input"
    if not content.strip():
        raise FileFormatError(f"{name} is empty.")
    magics = {NPY_MAGIC: _read_npy, ZIP_MAGIC: _read_npz, PARQUET_MAGIC: _read_parquet}
    for magic, reader in magics.items():
        if content.startswith(magic):
            return reader(io.BytesIO(content), name)
    return _read_text(io.BytesIO(content), name)


def standard_input() -> bytes:
    """Read all of standard input, if there is one."""
    try:
        return sys.stdin.buffer.read()
    except (AttributeError, ValueError) as error:  # None, or a closed file
        raise FileFormatError("standard input is closed; pass the name of a file.") from error


@contextmanager
def refused_as(name: str, what: str) -> Iterator[None]:
    """Turn whatever a library raises on damaged content into one clear error.

    NumPy, zipfile and pyarrow raise a dozen classes without a common base on mutated files, such as
    SyntaxError, TokenError, RuntimeError and struct.error.
    """
    try:
        yield
    except (FileFormatError, OSError, ImportError):
        raise
    except MemoryError as error:
        raise FileFormatError(f"{name} does not fit in memory.") from error
    except Exception as error:
        raise FileFormatError(f"{name} is not {what}, or damaged: {_one_line(error)}.") from error


def _size(stream: BinaryIO) -> int:
    here = stream.tell()
    size = stream.seek(0, io.SEEK_END)
    stream.seek(here)
    return size


def _refuse_expansion(name: str, packed: int, unpacked: int) -> None:
    if unpacked > max(ALWAYS_ALLOWED, MOST_EXPANSION * packed):
        raise FileFormatError(
            f"{name} would unpack from {format_bytes(packed)} to {format_bytes(unpacked)}, more "
            f"than {MOST_EXPANSION} times its size; save it as npy if that is meant."
        )


def _read_npy(stream: BinaryIO, name: str) -> Table:
    return read_array(stream, _size(stream), name), None


def read_array(stream: BinaryIO, size: int, name: str) -> npt.NDArray[Any]:
    """Read an npy file of so many bytes from a stream."""
    _check_header(stream, size, name)
    stream.seek(0)
    with refused_as(name, "an npy file"):
        return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))


def _check_header(stream: BinaryIO, size: int, name: str) -> tuple[tuple[int, ...], Any]:
    """Return shape and dtype of an npy file of so many bytes, which must hold what it announces."""
    with refused_as(name, "an npy file"):
        version = np.lib.format.read_magic(stream)
        headers = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }
        if version not in headers:
            raise FileFormatError(f"{name} is an npy file of version {version}; save numbers.")
        shape, _, dtype = headers[version](stream)
    if dtype.hasobject:
        raise FileFormatError(f"{name} holds Python objects, which are not loaded; save numbers.")
    announced, held = math.prod(shape) * dtype.itemsize, size - stream.tell()
    if min(shape, default=0) < 0 or announced > held:
        raise FileFormatError(
            f"{name} is truncated or damaged: it announces {announced} bytes of numbers and holds "
            f"{held}."
        )
    return shape, dtype


def _map_npy(file: Path) -> npt.NDArray[Any]:
    with file.open("rb") as stream:
        shape, _ = _check_header(stream, _size(stream), file.name)
    mode: Any = None if 0 in shape else "r"  # nothing cannot be mapped
    with refused_as(file.name, "an npy file"):
        return np.load(file, mmap_mode=mode, allow_pickle=False)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class _Archive:
    """The arrays of an npz file."""

    file: zipfile.ZipFile
    name: str
    packed: int

    @property
    def members(self) -> dict[str, zipfile.ZipInfo]:
        return {info.filename.removesuffix(".npy"): info for info in self.file.infolist()}

    def header(self, key: str) -> tuple[tuple[int, ...], Any]:
        """Read shape and dtype, without the numbers."""
        info = self.members[key]
        with refused_as(self.name, "an npz file"), self.file.open(info) as stream:
            return _check_header(cast(BinaryIO, stream), info.file_size, self._named(key))

    def array(self, key: str) -> npt.NDArray[Any]:
        """Read the numbers, if they do not unpack beyond all measure."""
        info = self.members[key]
        _refuse_expansion(self.name, self.packed, info.file_size)
        with refused_as(self.name, "an npz file"), self.file.open(info) as stream:
            return read_array(cast(BinaryIO, stream), info.file_size, self._named(key))

    def _named(self, key: str) -> str:
        return f"{self.name}[{key!r}]"


def _read_npz(stream: BinaryIO, name: str) -> Table:
    with refused_as(name, "an npz file"), zipfile.ZipFile(stream) as file:
        archive = _Archive(file, name, _size(stream))
        values = archive.array(_matrix_key(archive))
        return values, _npz_labels(archive, values)


def _matrix_key(archive: _Archive) -> str:
    if "D" in archive.members:
        return "D"
    fitting = []
    for key in archive.members:
        shape, dtype = archive.header(key)
        if len(shape) in (1, 2) and dtype.kind in "fiub" and key not in ("names", "labels"):
            fitting.append(key)
    if len(fitting) != 1:
        held = ", ".join(archive.members) or "nothing"
        raise FileFormatError(
            f"{archive.name} holds no array D and {len(fitting)} others that could be it (it has: "
            f"{held}); save the matrix as D."
        )
    return fitting[0]


def _npz_labels(archive: _Archive, values: npt.NDArray[Any]) -> Labels:
    n = values.shape[0] if values.ndim == 2 else (1 + math.isqrt(1 + 8 * values.size)) // 2
    for key in ("names", "labels"):
        if key not in archive.members:
            continue
        found = archive.array(key)
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
        with io.TextIOWrapper(stream, encoding="utf-8-sig") as text:
            lines = [line.rstrip("\r\n") for line in text]
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{name} is not text in UTF-8; save it so, or as npy.") from error
    if any("\0" in line for line in lines):
        raise FileFormatError(f"{name} is not text: it holds NUL bytes.")
    return lines


def _read_parquet(stream: BinaryIO, name: str) -> Table:
    return _frame_table(read_frame(stream, name), name)


def read_frame(stream: BinaryIO, name: str) -> Any:
    """Read a parquet file into a pandas DataFrame, if it does not unpack beyond all measure."""
    try:
        import pandas  # noqa: F401
        import pyarrow.parquet

        # Its own errors derive from ValueError and from OSError.
        with refused_as(name, "a parquet file"), pyarrow.parquet.ParquetFile(stream) as file:
            rows, columns = file.metadata.num_rows, file.metadata.num_columns
            _refuse_expansion(name, _size(stream), 8 * rows * columns)
            return file.read().to_pandas()
    except ImportError as error:
        raise FileFormatError(
            f"{name} needs pandas and pyarrow to be read: pip install 'neucmds[parquet]'."
        ) from error
    except OSError as error:
        raise FileFormatError(
            f"{name} is not a parquet file, or damaged: {_one_line(error)}."
        ) from error


def _frame_table(frame: Any, name: str) -> Table:
    """Values and labels of a table that may keep its row labels in the index or a first column."""
    rows, cols = frame.shape
    if cols == rows + 1:
        frame = frame.set_index(frame.columns[0])
    elif cols == 1:
        return _numbers(frame, name)[:, 0], None
    labels = tuple(str(label) for label in frame.columns)
    index = tuple(str(label) for label in frame.index)
    counted = tuple(str(i) for i in range(rows))
    if index not in (labels, counted) and rows == frame.shape[1]:
        raise FileFormatError(
            f"{name} names its rows and its columns differently; make them agree."
        )
    values = mirrored_triangle(_numbers(frame, name))
    return values, None if labels == counted else labels


def _numbers(frame: Any, name: str) -> npt.NDArray[np.float64]:
    try:
        return np.asarray(frame.to_numpy(dtype=np.float64, na_value=np.nan))
    except (ValueError, TypeError) as error:
        raise FileFormatError(f"{name} holds more than numbers: {_one_line(error)}.") from error


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split()).rstrip(".")
    return text[:200] or type(error).__name__


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
