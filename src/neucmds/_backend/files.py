"""The one way to write: a file or a folder is there whole, or not at all.

What is being written has no name where the file system allows that (``O_TMPFILE``), so that not
even a killed process leaves anything behind; elsewhere it has a hidden unique one. Modes follow the
umask because files are opened with 0o666: the umask itself, which all threads share, is not read.
"""

from __future__ import annotations

import errno
import math
import os
import secrets
import shutil
import signal
import sys
import threading
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt

from neucmds._backend.memory import format_bytes
from neucmds.errors import FileFormatError, InputError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

Writer = Callable[[BinaryIO], object]

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_NO_SPACE = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
# A npz that unpacks to more than this times its own size is refused: deflate reaches 1032 on zeros,
# while coordinates hardly shrink by half.
MAX_EXPANSION = 100
_NOT_SUPPORTED = {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, errno.EISDIR, errno.ENOENT}


@contextmanager
def atomic_file(path: str | PathLike[str], *, overwrite: bool = True) -> Iterator[BinaryIO]:
    """Open a binary file that takes its place once it is complete and on disk.

    Parameters
    ----------
    path : path
        Its folder must exist. A symbolic link is replaced, not followed.
    overwrite : bool, default=True
        Whether a file of that name is replaced. If not, exactly one of several writers succeeds.

    Raises
    ------
    InputError
        If there can be no file of that name.
    FileExistsError
        If there is one, and `overwrite` is False.
    OSError
        If the disk is full, for one; it names the file, and nothing is left behind.
    """
    target = Path(path)
    check_target(target)
    with _Unfinished(target.parent, target.name) as unfinished:
        with naming(target):
            yield unfinished.file
            unfinished.sync()
        with _undisturbed():
            unfinished.move(target, overwrite=overwrite)
    _sync_folder(target.parent)


def check_target(path: Path) -> None:
    """Refuse a place where no file can be written."""
    if path.is_dir():
        raise InputError(f"{path} is a directory; pass the name of a file.")
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is a device or a pipe; pass the name of a file.")
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} does not exist; create it first.")


def atomic_folder(
    folder: Path, files: Mapping[str, Writer], *, overwrite: bool, owned: Collection[str] = ()
) -> list[Path]:
    """Write several files into one folder: all of them, or none.

    Parameters
    ----------
    folder : Path
        Made if it does not exist, with its parents.
    files : mapping of str to callable
        Names, and functions that write to the binary file they are given.
    overwrite : bool
        Whether files of these names are replaced. If not, exactly one of several processes that
        write to the same folder succeeds.
    owned : collection of str
        Further names that such a result may have: files of these names count as taken too, and are
        removed where `overwrite` allows it.

    Returns
    -------
    list of Path
        The files, in the order they were given.

    Raises
    ------
    FileExistsError
        If there are such files, and `overwrite` is False.
    """
    place = folder.resolve()
    with _parents_of(place), ExitStack() as cleanup:
        beside = place if place.is_dir() else place.parent
        written: dict[str, _Unfinished] = {}
        for name, write in files.items():
            written[name] = cleanup.enter_context(_Unfinished(beside, name))
            with naming(folder / name):
                write(written[name].file)
                written[name].sync()
        # Some thousandth of a second from the first name to the last.
        with _undisturbed():
            _put_in_place(written, place, {*files, *owned}, overwrite=overwrite)
    _sync_folder(place)
    _sync_folder(place.parent)
    return [folder / name for name in files]


def _put_in_place(
    written: Mapping[str, _Unfinished], place: Path, names: set[str], *, overwrite: bool
) -> None:
    """Name finished files in a hidden folder, and make that, or what it holds, the result."""
    if not place.is_dir():
        with _staged(written, place.parent / _hidden(place.name)) as staging:
            if not _became(staging, place):
                with _locked(place):
                    _swap_in(staging, place, names, overwrite=overwrite)
        return
    # Others that write here take as short a time, and then let go.
    with _locked(place), _staged(written, place / _hidden(place.name)) as staging:
        _swap_in(staging, place, names, overwrite=overwrite)


@contextmanager
def _staged(written: Mapping[str, _Unfinished], staging: Path) -> Iterator[Path]:
    """Give finished files their names in a folder of their own; what is left of it is removed."""
    staging.mkdir()
    try:
        for name, unfinished in written.items():
            unfinished.move(staging / name, overwrite=False)
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Let SIGINT and SIGTERM wait until files are in their place, or gone: then they take effect.

    Only the main thread can do so, and only there does an interruption raise anything.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: came.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            # None: set by another language, and not to be had again.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if came:
            signal.raise_signal(came[0])


@contextmanager
def npy_output(
    out: str | PathLike[str] | None, shape: tuple[int, int], dtype: Any
) -> Iterator[npt.NDArray[Any] | NpyFile]:
    """Give something to assign rows to: an array, or a npy file that appears when complete."""
    if out is None:
        yield np.empty(shape, dtype=dtype)
        return
    with atomic_file(out) as file:
        yield NpyFile(file, shape, dtype)


class NpyFile:
    """A npy file whose rows are written in any order, its space reserved from the start.

    Written, not mapped: a map of a file on a full disk ends the process by SIGBUS.

    Parameters
    ----------
    file : binary file, open for writing and empty
    shape : (int, int)
    dtype : numpy dtype
    """

    def __init__(self, file: BinaryIO, shape: tuple[int, int], dtype: Any) -> None:
        self.file, self.shape, self.dtype = file, shape, np.dtype(dtype)
        kind = np.lib.format.dtype_to_descr(self.dtype)
        header = {"descr": kind, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        self._offset = file.tell()
        self._row_bytes = shape[1] * self.dtype.itemsize
        _reserve(file, self._offset + shape[0] * self._row_bytes)

    def __setitem__(self, rows: slice, values: npt.NDArray[Any]) -> None:
        start, stop, _ = rows.indices(self.shape[0])
        block = np.ascontiguousarray(values, dtype=self.dtype)
        if block.shape != (stop - start, self.shape[1]):
            raise ValueError(f"rows {start} to {stop} do not have shape {block.shape}")
        self.file.seek(self._offset + start * self._row_bytes)
        self.file.write(block.data)


def read_npz(path: Path, what: str = "a npz file") -> dict[str, npt.NDArray[Any]]:
    """Read all arrays of a npz file, without pickle.

    Parameters
    ----------
    path : Path
    what : str
        What the file should be, for messages.

    Raises
    ------
    FileFormatError
        If it is no regular file, no npz, damaged, or unpacks to more than `MAX_EXPANSION` times
        its size.
    """
    if not path.exists():
        raise FileFormatError(f"{path}: no such file.")
    # /dev/zero never ends, and a pipe may never begin.
    if not path.is_file():
        raise FileFormatError(f"{path}: not a regular file.")
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            unpacked, size = sum(one.file_size for one in members), path.stat().st_size
            if unpacked > MAX_EXPANSION * size:
                raise FileFormatError(
                    f"{path}: unpacks to {format_bytes(unpacked)}, more than {MAX_EXPANSION} times "
                    "its size; refused."
                )
            return {one.filename.removesuffix(".npy"): _member(archive, one) for one in members}
    except FileFormatError:
        raise
    except PermissionError as problem:
        raise FileFormatError(f"{path}: permission denied.") from problem
    # Damaged bytes raise a dozen kinds of errors in zipfile, zlib, lzma, ast and numpy.
    except Exception as problem:
        raise FileFormatError(f"{path}: not {what}, or damaged ({problem}).") from problem


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> npt.NDArray[Any]:
    """Read one array; its header must agree with its size before memory is taken for it."""
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"npy version {version}")
        read_header = getattr(np.lib.format, f"read_array_header_{version[0]}_0")
        shape, _, dtype = read_header(file)
        if file.tell() + math.prod(shape) * dtype.itemsize != member.file_size:
            raise ValueError(f"{member.filename} does not have the size it states")
    with archive.open(member) as file:
        return np.asarray(np.lib.format.read_array(file, allow_pickle=False))


class _Unfinished:
    """A file being written in a folder; nothing remains of it unless it is moved to its place."""

    def __init__(self, folder: Path, name: str) -> None:
        self.hidden: Path | None = None
        descriptor = _open_nameless(folder)
        if descriptor is None:
            self.hidden = folder / _hidden(name)
            descriptor = os.open(self.hidden, _NEW, 0o666)
        self.file: BinaryIO = os.fdopen(descriptor, "w+b")

    def __enter__(self) -> Self:
        return self

    def sync(self) -> None:
        """Bring what was written to the disk, or raise why it cannot be."""
        self.file.flush()
        os.fsync(self.file.fileno())

    def move(self, target: Path, *, overwrite: bool) -> None:
        """Give the file its place; without `overwrite`, only if that is free."""
        if self.hidden is None:
            if not overwrite:
                _name(self.file.fileno(), target)
                return
            hidden = target.parent / _hidden(target.name)
            _name(self.file.fileno(), hidden)
            self.hidden = hidden
        self.file.close()  # Windows moves no open file
        if not overwrite and _linked(self.hidden, target):
            return
        os.replace(self.hidden, target)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with suppress(OSError):  # closing writes what is buffered, for which there may be no space
            self.file.close()
        if self.hidden is not None:
            with _undisturbed():
                self.hidden.unlink(missing_ok=True)


def _hidden(name: str) -> str:
    return f".{name[:200]}.{secrets.token_hex(8)}"


def _open_nameless(folder: Path) -> int | None:
    """Open a file without a name, or return None where that cannot be done."""
    if not hasattr(os, "O_TMPFILE") or not os.path.exists("/proc/self/fd"):
        return None
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o666)
    except OSError as problem:
        if problem.errno in _NOT_SUPPORTED:
            return None
        raise


def _name(descriptor: int, target: Path) -> None:
    """Give a file without a name one that is free."""
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        # With a folder's descriptor Python calls linkat, which follows the link in /proc.
        here = f"/proc/self/fd/{descriptor}"
        os.link(here, target.name, dst_dir_fd=folder, follow_symlinks=True)
    except FileExistsError as problem:
        raise _taken(target) from problem
    finally:
        os.close(folder)


def _linked(source: Path, target: Path) -> bool:
    """Give a file a second name that is free; False where the file system knows no such thing."""
    try:
        os.link(source, target)
    except FileExistsError as problem:
        raise _taken(target) from problem
    except (OSError, NotImplementedError) as problem:
        if os.path.lexists(target):
            raise _taken(target) from problem
        return False
    return True


def _taken(path: Path) -> FileExistsError:
    return FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name the file in the error of a full disk, a quota or a limit: writing does not."""
    try:
        yield
    except OSError as problem:
        if problem.filename is None and problem.errno in _NO_SPACE:
            problem.filename = str(path)
        raise


def _reserve(file: BinaryIO, size: int) -> None:
    """Take the space now, so that a full disk is known before the work, not after it."""
    if not hasattr(os, "posix_fallocate"):
        return
    file.flush()
    try:
        os.posix_fallocate(file.fileno(), 0, size)
    except OSError as problem:
        if problem.errno in _NO_SPACE:
            reason = f"{os.strerror(problem.errno or 0)} ({format_bytes(size)} are needed)"
            raise OSError(problem.errno, reason) from problem
        if problem.errno not in _NOT_SUPPORTED:
            raise


@contextmanager
def _parents_of(folder: Path) -> Iterator[None]:
    """Make the parents of a folder, and remove them again if the work fails."""
    missing = [parent for parent in folder.parents if not parent.exists()]
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for parent in missing:
            with suppress(OSError):  # another process may have put something there
                parent.rmdir()
        raise


def _became(staging: Path, folder: Path) -> bool:
    """Make a whole folder of the staging one, if there is none yet: one step for all files."""
    if staging.parent == folder:
        return False
    try:
        staging.rename(folder)
    except OSError:
        if folder.is_dir():
            return False
        raise
    return True


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other processes that write to this folder waiting; the lock ends with the process."""
    if fcntl is None:
        yield
        return
    while True:
        descriptor = os.open(folder, os.O_RDONLY)
        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Whoever held the lock may have put another folder in the place of this one.
        if os.path.samestat(os.fstat(descriptor), os.stat(folder)):
            break
        os.close(descriptor)
    try:
        yield
    finally:
        os.close(descriptor)


def _swap_in(staging: Path, folder: Path, names: set[str], *, overwrite: bool) -> None:
    """Put the files in staging into a folder, in the place of all files of these names.

    In one step where the system can exchange two folders; elsewhere one by one.
    """
    there = [name for name in sorted(names) if os.path.lexists(folder / name)]
    if there and not overwrite:
        raise _taken(folder / there[0])
    if folders := [name for name in there if (folder / name).is_dir()]:
        raise InputError(f"{folder / folders[0]} is a directory; remove it, or use another folder.")
    if not _swapped_whole(staging, folder, names):
        _swap_each(staging, folder, names)


def _swapped_whole(staging: Path, folder: Path, names: set[str]) -> bool:
    """Exchange the folder for one with the new files beside links to all files of others.

    Returns
    -------
    bool
        False, and all is as it was, where that cannot be done: on systems and file systems that do
        not exchange folders or link files; in the working directory, where the shell would be left
        in a folder without a name; and beside folders of others, which cannot be linked.
    """
    if not sys.platform.startswith("linux") or folder.samefile(os.curdir):
        return False
    other = folder.parent / _hidden(folder.name)
    try:
        other.mkdir()
        _copy_rights(folder, other)
        for name in os.listdir(staging):
            os.link(staging / name, other / name)
        for name in os.listdir(folder):
            if name not in names and folder / name != staging:
                os.link(folder / name, other / name, follow_symlinks=False)
        _exchange(other, folder)
    except BaseException as problem:
        shutil.rmtree(other, ignore_errors=True)
        if isinstance(problem, (OSError, NotImplementedError)):
            return False
        raise
    _discard(other, folder, {*names, staging.name})
    return True


def _copy_rights(source: Path, target: Path) -> None:
    """Give a new folder the mode, the owner and the attributes of another one."""
    before, now = source.stat(), target.stat()
    if (before.st_uid, before.st_gid) != (now.st_uid, now.st_gid):
        os.chown(target, before.st_uid, before.st_gid)
    shutil.copystat(source, target)


def _exchange(one: Path, other: Path) -> None:
    """Let two folders change names, in one step."""
    import ctypes

    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        raise NotImplementedError("renameat2")
    here, both = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if rename(here, os.fsencode(one), here, os.fsencode(other), both):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(one))


def _discard(former: Path, folder: Path, names: set[str]) -> None:
    """Remove a folder that another one has taken the place of; keep what others put there."""
    for name in os.listdir(former):
        old, new = former / name, folder / name
        with suppress(OSError):  # the result is in its place, and what cannot be removed is hidden
            if name in names:
                shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
            elif os.path.lexists(new) and os.path.samestat(old.lstat(), new.lstat()):
                old.unlink()
            else:  # came, or was replaced, while its folder was exchanged
                os.replace(old, new)
    with suppress(OSError):
        former.rmdir()


def _swap_each(staging: Path, folder: Path, names: set[str]) -> None:
    """Exchange the files of these names one by one; undone if any step fails."""
    new = {name for name in names if (staging / name).exists()}
    old = staging / _hidden("old")
    old.mkdir()
    changed = []
    try:
        for name in sorted(names):
            changed.append(name)
            if os.path.lexists(folder / name):
                os.rename(folder / name, old / name)
            if name in new:
                os.rename(staging / name, folder / name)
    except BaseException:
        for name in changed:
            if os.path.lexists(old / name):
                os.replace(old / name, folder / name)
            elif name in new and not (staging / name).exists():
                (folder / name).unlink(missing_ok=True)
        raise


def _sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk, where folders can be opened for that."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
