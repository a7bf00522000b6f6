"""Choose the reader of a file, or of standard input."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from neucmds.backend.files import format_errors
from neucmds.backend.memory import require_memory
from neucmds.errors import FileFormatError
from neucmds.problem.readers.phylip import parse_phylip
from neucmds.problem.readers.text import (
    Labels,
    Lines,
    decoded,
    file_name,
    looks_like_phylip,
    opened_file,
    parse_matrix,
)

Table = tuple[npt.NDArray[Any], Labels]

KINDS = {
    **dict.fromkeys((".csv", ".tsv", ".txt", ".lsmat"), "text"),
    **dict.fromkeys((".phy", ".phylip", ".dist"), "phylip"),
    ".npy": "npy",
    ".npz": "npz",
    ".qza": "qza",
}
MAGICS = {b"\x93NUMPY": "npy", b"PK": "npz"}


def read_table(path: str | os.PathLike[str], *, mmap: bool = False) -> tuple[Any, Labels]:
    """Read a square or condensed matrix of numbers, and the names of its objects if it has any.

    The suffix of the file decides on its format, for `-`, standard input, its first bytes. Numbers
    are neither squared, averaged nor checked. A triangle, also one whose other half holds zeros, NA
    or blanks, becomes square. Of an npz file the matrix is the array `D`, or the only numeric one
    of one or two dimensions; names are `names`, or `labels` if they are unique. With `mmap`, an npy
    file is a read-only memory map.
    """
    with opened(path) as (kind, stream, name):
        if mmap and kind == "npy" and str(path) != "-":
            with format_errors(name, "an npy file"):
                return np.load(path, mmap_mode="r", allow_pickle=False), None
        return READERS[kind](stream, name)


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[tuple[str, BinaryIO, str]]:
    """Open a file, or standard input for `-`, as its format, its bytes, and its name."""
    file = Path(path)
    with opened_file(path) as stream:
        if str(path) == "-":
            content = stream.read(6)
            stream.seek(0)
            kinds = (kind for magic, kind in MAGICS.items() if content.startswith(magic))
            yield next(kinds, "text"), stream, file_name(path)
            return
        kind = KINDS.get(file.suffix.lower())
        if kind is None:
            suffix = f"the suffix {file.suffix!r}" if file.suffix else "no suffix"
            raise FileFormatError(f"{file.name} has {suffix}; known are {', '.join(KINDS)}.")
        if file.stat().st_size == 0:
            raise FileFormatError(f"{file.name} is empty.")
        yield kind, stream, file.name


def _read_npy(stream: BinaryIO, name: str) -> Table:
    with format_errors(name, "an npy file"):
        return np.lib.format.read_array(stream, allow_pickle=False), None


def _read_npz(stream: BinaryIO, name: str) -> Table:
    with format_errors(name, "an npz file"), np.lib.npyio.NpzFile(stream) as archive:
        values = archive["D"] if "D" in archive else _only_matrix(archive, name)
        return values, _npz_labels(archive, values)


def _only_matrix(archive: Any, name: str) -> npt.NDArray[Any]:
    held = {key: archive[key] for key in archive.files if key not in ("names", "labels")}
    fitting = [a for a in held.values() if a.ndim in (1, 2) and a.dtype.kind in "fiub"]
    if len(fitting) != 1:
        raise FileFormatError(
            f"{name} holds no array D and {len(fitting)} others that could be it (it has: "
            f"{', '.join(archive.files) or 'nothing'}); save the matrix as D."
        )
    return np.asarray(fitting[0])


def _npz_labels(archive: Any, values: npt.NDArray[Any]) -> Labels:
    n = values.shape[0] if values.ndim == 2 else (1 + math.isqrt(1 + 8 * values.size)) // 2
    for key in ("names", "labels"):
        if key not in archive:
            continue
        found = archive[key]
        if found.dtype.kind == "S":
            found = np.char.decode(found, "utf-8")
        texts = tuple(str(label) for label in found.ravel())
        "".join(texts).casefold()  # raises where damaged bytes are no characters
        # `labels` are often classes, which name groups and not objects.
        if len(texts) == n and len(set(texts)) == n:
            return texts
    return None


def _read_text(stream: BinaryIO, name: str) -> Table:
    text = decoded(stream, name)
    if looks_like_phylip(text):
        return parse_phylip(text, name)
    return parse_matrix(Lines.of(text, name))


def _read_qza(stream: BinaryIO, name: str) -> Table:
    """Read the distance matrix of an artifact of QIIME 2, a zip archive, and nothing else of it."""
    with format_errors(name, "an artifact of QIIME 2"), zipfile.ZipFile(stream) as archive:
        inside = {member.filename.partition("/")[2]: member for member in archive.infolist()}
        found = inside.get("data/distance-matrix.tsv")
        if found is None:
            held = ", ".join([path for path in inside if path.startswith("data/")][:3])
            raise FileFormatError(
                f"{name} holds {held or 'no data'} and no data/distance-matrix.tsv; pass an "
                "artifact of the type DistanceMatrix."
            )
        # No more is read than the archive says, whatever is packed into it.
        require_memory(2 * found.file_size, f"the matrix of {name}", "use fewer samples")
        with archive.open(found) as member:
            return _read_text(member, name)  # type: ignore[arg-type]


READERS: dict[str, Callable[[BinaryIO, str], Table]] = {
    "npy": _read_npy,
    "npz": _read_npz,
    "qza": _read_qza,
    "text": _read_text,
    "phylip": lambda stream, name: parse_phylip(decoded(stream, name), name),
}
