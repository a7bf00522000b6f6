"""Write files and folders under a hidden name, and rename them when they are complete."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from os import PathLike
from pathlib import Path
from typing import BinaryIO

import numpy as np

from neucmds.backend.arrays import Array
from neucmds.errors import InputError, option

AnyPath = str | PathLike[str]
# A function that writes the content of a file.
Writer = Callable[[BinaryIO], object]


@contextmanager
def atomic_file(path: object, *, overwrite: bool = True) -> Iterator[BinaryIO]:
    """Yield a new binary file, which gets its name `path` once it is complete and on disk.

    Its folder must exist; a symbolic link is replaced. Raises `InputError` if no file can be there,
    or one is and may not be overwritten; an `OSError` names the file.
    """
    target = as_path(path)
    check_target(target)
    with _hidden_folder(target.parent, target.name) as temporary:
        new_file = Path(temporary, target.name)
        with _open_synced(new_file, target) as file:
            yield file
        _refuse_taken([target], overwrite)
        os.replace(new_file, target)


def as_path(path: object) -> Path:
    """Return a path, or refuse what is none."""
    if not isinstance(path, (str, PathLike)):
        raise InputError(
            f"a path is expected, not of type {type(path).__name__}; pass the name of a file."
        )
    return Path(path)


def check_target(path: Path) -> None:
    """Raise if no file can be written at a path."""
    if path.is_dir():
        raise InputError(f"{path} is a directory; pass the name of a file.")
    if path.exists() and not path.is_file():
        raise InputError(
            f"{path} is a device or a pipe; pass the name of a file."
        )
    if not path.parent.is_dir():
        raise InputError(
            f"{path}: the folder {path.parent} does not exist; create it first."
        )


def atomic_folder(
    folder: Path,
    files: Mapping[str, Writer],
    *,
    overwrite: bool,
    owned: Collection[str] = (),
) -> list[Path]:
    """Write several files into a folder; they appear when all are complete.

    `files` maps names to functions that write to a binary file. `owned` are names of files that
    earlier calls may have written. With `overwrite`, files of all these names are replaced or
    removed, and others stay; without it `InputError` names the first that exists.
    """
    target = folder.resolve()
    names = {*files, *owned}
    target.parent.mkdir(parents=True, exist_ok=True)
    # A file can be renamed only within its file system, which may begin at the target.
    parent = target.parent
    if target.is_dir():
        parent = target
    with _hidden_folder(parent, target.name) as temporary:
        new_folder = Path(temporary, "new")
        new_folder.mkdir()
        for name, write in files.items():
            with _open_synced(new_folder / name, folder / name) as file:
                write(file)
        if not _rename_if_absent(new_folder, target):
            _refuse_taken([target / name for name in sorted(names)], overwrite)
            for name in files:
                os.replace(new_folder / name, target / name)
            for name in names.difference(files):
                (target / name).unlink(missing_ok=True)
    return [folder / name for name in files]


def _rename_if_absent(new: Path, target: Path) -> bool:
    """Rename a folder unless the target exists, and tell whether it was renamed."""
    if not target.is_dir():
        try:
            new.rename(target)
            return True
        except OSError:
            # Another process may have made the target meanwhile.
            if not target.is_dir():
                raise
    return False


def _hidden_folder(
    parent: Path, name: str
) -> tempfile.TemporaryDirectory[str]:
    """Return a hidden temporary folder in `parent`; its name begins with that of a file."""
    # Most file systems allow names of 255 bytes.
    prefix = f".{name[:200]}."
    return tempfile.TemporaryDirectory(
        prefix=prefix, dir=parent, ignore_cleanup_errors=True
    )


@contextmanager
def _open_synced(path: Path, target: Path) -> Iterator[BinaryIO]:
    """Open a new file, and flush it to the disk; errors name the target."""
    try:
        with path.open("w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except OSError as problem:
        # An error about another file keeps that file's name.
        if problem.errno is not None and problem.filename in (None, str(path)):
            problem.filename = str(target)
        raise


def refuse_existing(path: Path) -> None:
    """Refuse a path that exists, be it a broken link."""
    if os.path.lexists(path):
        raise InputError(
            f"{path} exists already; pass {option('overwrite', True)}, or another name."
        )


def _refuse_taken(paths: list[Path], overwrite: bool) -> None:
    """Refuse a path that is a directory, or exists and may not be overwritten."""
    for path in paths:
        if not overwrite:
            refuse_existing(path)
        if path.is_dir():
            raise InputError(
                f"{path} is a directory; remove it, or use another folder."
            )


def _opened(source: AnyPath | BinaryIO) -> AbstractContextManager[BinaryIO]:
    """Return the context of a file to read; one that was open before is not closed."""
    if not isinstance(source, (str, PathLike)) and hasattr(source, "read"):
        return nullcontext(source)
    path = as_path(source)
    if not path.is_file():
        problem = "not a regular" if path.exists() else "no such"
        raise InputError(f"{path}: {problem} file.")
    return path.open("rb")


def read_npz(path: AnyPath | BinaryIO, what: str) -> dict[str, Array]:
    """Read all arrays of a npz file, without pickle.

    `what` names the content in messages, as "an embedding" does.
    """
    with refuse_damage(str(path), what), _opened(path) as file:
        file.seek(0)
        # Zip archives begin with PK; NumPy would take any other bytes for pickled objects.
        if file.read(2) != b"PK":
            raise InputError(f"{path}: not {what}.")
        file.seek(0)
        with np.load(file, allow_pickle=False) as archive:
            return dict(archive)


def one_line(error: Exception) -> str:
    """Return the message of another library for use inside our own."""
    text = " ".join(str(error).split()).rstrip(".")
    return text[:200] or type(error).__name__


@contextmanager
def refuse_damage(name: str, what: str) -> Iterator[None]:
    """Turn any error that a library raises on damaged bytes into an `InputError`.

    Messages say that the file `name` is not `what`.
    """
    try:
        yield
    except (InputError, ImportError):
        raise
    except PermissionError as error:
        raise InputError(f"{name}: permission denied.") from error
    except MemoryError as error:
        raise InputError(
            f"{name} does not fit in memory, or is damaged."
        ) from error
    except Exception as error:
        raise InputError(
            f"{name}: not {what}, or damaged ({one_line(error)})."
        ) from error
