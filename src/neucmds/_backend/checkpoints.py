"""What lets long work go on after an interruption, with the result of work that had none.

`RowCheckpoint` keeps rows that were computed part by part, each with a digest of what it was made
of and of itself: a part is taken from the file only if the model, its input and what was written
are the same, bit for bit.
`StepCheckpoint` keeps the results of steps that take long, one after the other; what lies between
them is computed again. `StateCheckpoint` keeps the state of an iteration. Both belong to one
problem. All are files that the user names; they are there after an interruption, and gone once the
work is done.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from operator import itemgetter
from os import PathLike
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType, TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from neucmds._backend.arrays import is_array, to_numpy
from neucmds._backend.files import atomic_file, check_target, read_npz
from neucmds.errors import CheckpointWarning, InputError, option

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

# Seconds of work that a killed process may lose.
INTERVAL = 5.0
_DIGEST = 16
# What has a text that says all, the same in every process.
_PLAIN = (str, bytes, bool, int, float, complex, type(None), type(...), slice, range)


def fingerprint(*parts: object) -> bytes:
    """Digest of arrays, numbers, texts, containers, functions and objects with such attributes.

    Of a function, its code and what is bound to it count, not the global names it reads.

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds._backend.checkpoints import fingerprint
    >>> fingerprint("a", np.arange(3)) == fingerprint("a", np.arange(3))
    True
    """
    state = hashlib.blake2b(digest_size=_DIGEST)
    _feed(state, parts)
    return state.digest()


def _feed(state: Any, part: Any, within: tuple[int, ...] = ()) -> None:
    """Add a value to a digest; `within` are the ids of what it is part of, which may be itself."""
    if isinstance(part, _PLAIN):
        state.update(f"{type(part).__qualname__}:{part!r};".encode())
    elif id(part) in within:
        state.update(f"^{len(within) - within.index(id(part))};".encode())
    elif is_array(part):
        _feed_array(state, np.ascontiguousarray(to_numpy(part)), (*within, id(part)))
    else:
        content = _content(part)
        state.update(f"{content[0]}[{len(content)}".encode())
        for one in content[1:]:
            _feed(state, one, (*within, id(part)))


def _feed_array(state: Any, array: npt.NDArray[Any], within: tuple[int, ...]) -> None:
    state.update(f"{array.dtype.str}{array.shape}".encode())
    if array.dtype.hasobject:
        _feed(state, array.tolist(), within)
    elif array.size:
        state.update(array.reshape(-1).view(np.uint8).data)


def _content(part: Any) -> tuple[Any, ...]:
    """Return the kind of an object, and what tells it from others of that kind in any process."""
    if isinstance(part, (tuple, list)):
        return ("", *part)
    if isinstance(part, (set, frozenset)):
        return "set", *sorted(map(fingerprint, part))
    if isinstance(part, dict):
        return "dict", *sorted(((fingerprint(k), v) for k, v in part.items()), key=itemgetter(0))
    if isinstance(part, (type, ModuleType)):
        return "name", _name_of(part)
    if is_dataclass(part):
        return _name_of(type(part)), *(getattr(part, f.name) for f in fields(part))
    if isinstance(part, partial):
        return "partial", part.func, part.args, part.keywords
    if isinstance(part, MethodType):
        return "method", part.__func__, part.__self__
    if isinstance(part, CodeType):
        return "code", part.co_code, part.co_names, part.co_consts
    if isinstance(part, FunctionType):
        return "function", _name_of(part), part.__code__, *_bound_values(part)
    wrapped = getattr(part, "__wrapped__", None)
    if callable(part) and wrapped is not None:  # caches and compilers keep more, which changes
        return _name_of(type(part)), wrapped
    return _name_of(type(part)), _call_of(type(part)), *_state_of(part)


def _name_of(part: Any) -> str:
    return f"{getattr(part, '__module__', '')}.{getattr(part, '__qualname__', part.__name__)}"


def _call_of(kind: type) -> FunctionType | None:
    """Return what is run when an object is called, where it is written in Python."""
    found = next((vars(one)["__call__"] for one in kind.__mro__ if "__call__" in vars(one)), None)
    return found if isinstance(found, FunctionType) else None


def _bound_values(function: FunctionType) -> tuple[Any, ...]:
    """Return the defaults of a function, and what it took from where it was made."""
    cells = []
    for cell in function.__closure__ or ():
        try:
            cells.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            cells.append(None)
    return function.__defaults__, function.__kwdefaults__, cells


def _state_of(part: Any) -> tuple[Any, ...]:
    """Return what pickle would write of an object."""
    try:
        reduced = part.__reduce_ex__(4)
    # Whatever objects raise that cannot be pickled: then an address in the text keeps the work of
    # another process from being taken, which is safe.
    except Exception:
        return (repr(part),)
    if isinstance(reduced, str):
        return getattr(part, "__module__", None), reduced
    return tuple(list(one) if isinstance(one, Iterator) else one for one in reduced)


def checkpoint_path(value: Any) -> Path:
    """Return the path of a checkpoint, or refuse what names no file.

    Examples
    --------
    >>> from neucmds._backend.checkpoints import checkpoint_path
    >>> checkpoint_path("x.part").name
    'x.part'
    """
    if not isinstance(value, (str, PathLike)) or os.fspath(value) in ("", b""):
        raise InputError(f"{option('checkpoint', value)} must be the name of a file.")
    return Path(os.fsdecode(value))


def refuse_same_file(out: str | PathLike[str] | None, checkpoint: Any) -> None:
    """Refuse a checkpoint that is the result, too: it is removed when the work is done."""
    if checkpoint is None:
        return
    path = checkpoint_path(checkpoint)
    if out is not None and path.resolve() == Path(out).resolve():
        raise InputError(
            f"{option('out')} and {option('checkpoint')} are the same file, {path}; pass two names."
        )


class _KeptFile(ABC):
    """A file that is open and locked while work is done, and gone once all is; a context.

    It begins with a line that says what it is, and with figures of the work it belongs to.
    """

    magic: bytes
    header_size: int

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path, self.done = checkpoint_path(path), False
        self.written = time.monotonic()

    def __enter__(self) -> Self:
        check_target(self.path)
        if self.path.is_symlink():
            raise InputError(f"{self.path} is a link, which may lead to anything; pass a file.")
        header = (self.magic + json.dumps(self._figures()).encode()).ljust(self.header_size)
        if not self.path.exists():
            with atomic_file(self.path, overwrite=False) as file:
                file.write(header)
                file.write(self._empty())
        self.file = self.path.open("r+b", buffering=0)
        try:
            self._refuse_other(self._read(0, self.header_size), header)
            self._lock()
            self._begin()
        except BaseException:
            self.file.close()
            raise
        return self

    @abstractmethod
    def _figures(self) -> dict[str, Any]:
        """Return what tells this work from other work, for the header."""

    @abstractmethod
    def _other(self, held: dict[str, Any]) -> InputError:
        """Return what is raised for a file with other figures."""

    @abstractmethod
    def _begin(self) -> None:
        """Find out what the file holds."""

    @abstractmethod
    def _settle(self) -> None:
        """Bring to the disk what was written."""

    @abstractmethod
    def _surprise(self) -> str | None:
        """Return what to warn of at the end."""

    def _empty(self) -> bytes:
        """Return what follows the header of a new file."""
        return b""

    def _over(self) -> bool:
        """Tell whether there is nothing to go on with."""
        return self.done

    def _refuse_other(self, found: bytes, expected: bytes) -> None:
        if found == expected:
            return
        if not found.startswith(self.magic):
            raise InputError(f"{self.path} is no checkpoint; pass another {option('checkpoint')}.")
        try:
            held = json.loads(found[len(self.magic) :])
        except ValueError as problem:
            raise _damaged(self.path, "its header cannot be read") from problem
        figures = self._figures()
        # Where the figures agree, something else in the header does not.
        if not isinstance(held, dict) or held.keys() != figures.keys() or held == figures:
            raise _damaged(self.path, "its header is not whole")
        raise self._other(held)

    def _lock(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self.file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as problem:
            raise InputError(f"{self.path} is in use by another process.") from problem
        except OSError:  # some network file systems have no locks
            return
        # Another may have ended, and removed the file, since it was opened here.
        if not self.path.exists() or not os.path.samestat(
            os.fstat(self.file.fileno()), self.path.stat()
        ):
            raise InputError(f"{self.path} was in use by another process, which has just ended.")

    def _read(self, at: int, size: int) -> bytes:
        found = bytearray(size)
        return bytes(found[: self._read_into(memoryview(found), at)])

    def _read_into(self, values: memoryview, at: int) -> int:
        """Fill memory from the file; return how many bytes there were."""
        left = values.cast("B")
        self.file.seek(at)
        while left and (count := self.file.readinto(left)):
            left = left[count:]
        return values.nbytes - len(left)

    def _write(self, at: int, values: bytes | memoryview) -> None:
        left = memoryview(values).cast("B")
        self.file.seek(at)
        while left:
            left = left[self.file.write(left) :]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        over = self._over()
        try:
            if not over:
                self._settle()
            elif fcntl is not None:  # before the lock goes: then the file may be another's
                self.path.unlink(missing_ok=True)
        finally:
            self.file.close()
        if over and fcntl is None:  # Windows removes no open file
            self.path.unlink(missing_ok=True)
        if (surprise := self._surprise()) is not None:
            warnings.warn(f"{self.path}: {surprise}", CheckpointWarning, stacklevel=3)

    def remove(self) -> None:
        """Let the file go at the end of the context: the work is done."""
        self.done = True


class RowCheckpoint(_KeptFile):
    """Rows of a matrix in a file, computed part by part; a context.

    Parameters
    ----------
    path : path
        Made if it does not exist.
    shape : (int, int)
    dtype : numpy dtype
    parts : sequence of slices
        Of the rows, the same whenever the work is done.
    model : bytes
        `fingerprint` of what makes rows from their input.

    Raises
    ------
    InputError
        If the file is no such checkpoint, is damaged, belongs to a matrix of another size, or is in
        use.
    """

    magic, header_size = b"neucmds rows 1\n", 512

    def __init__(
        self,
        path: str | PathLike[str],
        shape: tuple[int, int],
        dtype: Any,
        parts: Sequence[slice],
        model: bytes,
    ) -> None:
        super().__init__(path)
        self.shape, self.dtype = shape, np.dtype(dtype)
        self.model, self.number = model, {part.start: i for i, part in enumerate(parts)}
        self.marks_at = self.header_size
        self.rows_at = self.header_size + _DIGEST * len(parts)
        self.row_bytes = shape[1] * self.dtype.itemsize
        self.others = 0
        self.pending: dict[int, bytes] = {}
        self.lock = threading.Lock()

    def _empty(self) -> bytes:
        return bytes(_DIGEST * len(self.number))

    def _figures(self) -> dict[str, Any]:
        return {
            "rows": self.shape[0],
            "columns": self.shape[1],
            "dtype": self.dtype.str,
            "parts": len(self.number),
        }

    def _other(self, held: dict[str, Any]) -> InputError:
        return InputError(
            f"{self.path} is the checkpoint of {held['rows']} × {held['columns']} coordinates "
            f"({held['dtype']}, {held['parts']} parts), not of {self.shape[0]} × {self.shape[1]} "
            f"({self.dtype.str}, {len(self.number)} parts); remove it, or pass another "
            f"{option('checkpoint')}."
        )

    def _begin(self) -> None:
        marks = self._read(self.marks_at, _DIGEST * len(self.number))
        if len(marks) < _DIGEST * len(self.number):
            raise _damaged(self.path, "it ends before its first row")
        self.marks = [marks[i : i + _DIGEST] for i in range(0, len(marks), _DIGEST)]

    def rows(
        self, part: slice, given: npt.NDArray[Any], make: Callable[[], npt.NDArray[Any]]
    ) -> npt.NDArray[Any]:
        """Return a part from the file, or make it and write it there; from any thread.

        Parameters
        ----------
        part : slice
        given : ndarray
            What the rows are made of.
        make : callable
        """
        number, count = self.number[part.start], part.stop - part.start
        block = np.ascontiguousarray(given)
        source = hashlib.blake2b(block.data.cast("B"), key=self.model, digest_size=_DIGEST)
        at, size = self.rows_at + part.start * self.row_bytes, count * self.row_bytes
        if any(self.marks[number]):
            with self.lock:
                kept = self._read(at, size)
            if self.marks[number] == _continued(source, kept):
                return np.frombuffer(kept, dtype=self.dtype).reshape(count, -1)
        made = np.ascontiguousarray(make(), dtype=self.dtype)
        digest = _continued(source, made.data)
        with self.lock:
            if any(self.marks[number]):
                self.others += 1
                # Not to be taken for the old rows, should the work end here.
                self._write(self.marks_at + number * _DIGEST, bytes(_DIGEST))
            self._write(at, made.data)
            self.pending[number] = digest
            if time.monotonic() - self.written > INTERVAL:
                self._settle()
        return made

    def _settle(self) -> None:
        """Mark what has been written as there, once it is on the disk."""
        os.fsync(self.file.fileno())
        for number, digest in self.pending.items():
            self._write(self.marks_at + number * _DIGEST, digest)
        self.pending.clear()
        self.written = time.monotonic()

    def _surprise(self) -> str | None:
        if not self.others:
            return None
        return (
            f"{self.others} of {len(self.number)} parts were not complete or of another model or "
            "input, and were made anew."
        )


class StepCheckpoint(_KeptFile):
    """Results of steps in a file, in the order they are made in; a context.

    A computation that is the same whenever it is repeated finds the results of its first steps
    there, goes on from the first that is missing, and ends where it would have ended. A killed
    process loses the step it was at; a machine that goes down, five seconds more.

    Parameters
    ----------
    path : path
        Made if it does not exist.
    problem : mapping of str to object
        What decides the results, by name; see `fingerprint`.

    Raises
    ------
    InputError
        If the file is no such checkpoint, is damaged, that of another problem, or is in use; in a
        step, if what it is given is not what it was given before.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from neucmds._backend.checkpoints import StepCheckpoint
    >>> def square(x):
    ...     print("squaring")
    ...     return x**2
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for _ in range(2):
    ...         with StepCheckpoint(Path(folder) / "x", {"power": 2}) as kept:
    ...             print(kept.step("square", np.arange(3.0), square))
    squaring
    [0. 1. 4.]
    [0. 1. 4.]
    """

    magic, header_size = b"neucmds steps 1\n", 1024

    def __init__(self, path: str | PathLike[str], problem: Mapping[str, object]) -> None:
        super().__init__(path)
        self.problem = {name: fingerprint(value).hex()[:16] for name, value in problem.items()}
        self.at, self.number, self.lost = self.header_size, 0, 0

    def _figures(self) -> dict[str, Any]:
        return self.problem

    def _other(self, held: dict[str, Any]) -> InputError:
        others = [name for name in self.problem if held[name] != self.problem[name]]
        names = [name if name == "D" else option(name) for name in others]
        return InputError(
            f"{self.path} is the checkpoint of another fit, with another "
            f"{', '.join(names)}; remove it, or pass another {option('checkpoint')}."
        )

    def _begin(self) -> None:
        self.size = os.fstat(self.file.fileno()).st_size

    def step(
        self,
        name: str,
        given: npt.NDArray[Any],
        make: Callable[[npt.NDArray[Any]], npt.NDArray[np.float64]],
        shape: tuple[int, ...] | None = None,
    ) -> npt.NDArray[np.float64]:
        """Return ``make(given)``: from the file, or made and written there.

        Parameters
        ----------
        name : str
            Of what is done in this step.
        given : ndarray
        make : callable
        shape : tuple of int, optional
            Of the result; that of `given` by default.
        """
        shape = given.shape if shape is None else shape
        if not math.prod(shape):
            return make(given)
        source = fingerprint(name, given)
        self.number += 1
        if self.at < self.size:
            kept = self._next(source, shape)
            if kept is not None:
                return kept
            self.file.truncate(self.at)
            self.size = self.at
        made = np.asarray(make(given), dtype=np.float64)
        # As it lies in memory: sums over columns and over rows differ by rounding.
        order = b"F" if made.flags.f_contiguous and not made.flags.c_contiguous else b"C"
        made = made if order == b"F" else np.ascontiguousarray(made)
        self._append(source, order, made.T.data if order == b"F" else made.data)
        return made

    def _next(self, source: bytes, shape: tuple[int, ...]) -> npt.NDArray[np.float64] | None:
        """Return the next result in the file if it is the one of this step, and whole."""
        head, body = self._read(self.at, 2 * _DIGEST + 1), np.empty(math.prod(shape))
        order = head[2 * _DIGEST :]
        # Half of it, or none where the machine went down, when the process ended.
        if not order or not any(head):
            return None
        if head[:_DIGEST] != source:
            # Not made anew: it may be hours of work that the same command can go on from.
            raise InputError(
                f"{self.path} was computed otherwise from step {self.number} on: from a D that has "
                "changed since, on another machine, with another number of threads, or with more "
                "or less free memory; go on as it began, remove it, or pass another "
                f"{option('checkpoint')}."
            )
        if self._read_into(body.data, self.at + len(head)) < body.nbytes:
            return None
        if head[_DIGEST : 2 * _DIGEST] != _digest(source, order, body.data):
            self.lost = self.number
            return None
        self.at += len(head) + body.nbytes
        return body.reshape(shape[::-1]).T if order == b"F" else body.reshape(shape)

    def _append(self, source: bytes, order: bytes, body: memoryview) -> None:
        head = source + _digest(source, order, body) + order
        try:
            self._write(self.at, head)
            self._write(self.at + len(head), body)
        except OSError:  # half of a result is of no use, least of all on a full disk
            self.file.truncate(self.at)
            raise
        self.at += len(head) + body.nbytes
        self.size = self.at
        if time.monotonic() - self.written > INTERVAL:
            self._settle()

    def _over(self) -> bool:
        return self.done or self.size == self.header_size

    def _settle(self) -> None:
        os.fsync(self.file.fileno())
        self.written = time.monotonic()

    def _surprise(self) -> str | None:
        if not self.lost:
            return None
        return f"what was kept from step {self.lost} on was damaged, and was made anew."


def _digest(*parts: bytes | memoryview) -> bytes:
    state = hashlib.blake2b(digest_size=_DIGEST)
    for part in parts:
        state.update(part)
    return state.digest()


def _continued(source: Any, rows: bytes | memoryview) -> bytes:
    """Digest of the model, the input and the rows made of it, without reading the input again."""
    state = source.copy()
    state.update(rows)
    return bytes(state.digest())


def _damaged(path: Path, why: str) -> InputError:
    return InputError(
        f"{path} is damaged: {why}; remove it, or pass another {option('checkpoint')}."
    )


class StateCheckpoint:
    """The state of an iteration in a npz file, written every few seconds.

    Parameters
    ----------
    path : path
    problem : bytes
        `fingerprint` of what the iteration solves.
    """

    def __init__(self, path: str | PathLike[str], problem: bytes) -> None:
        self.path, self.problem = checkpoint_path(path), problem
        self.saved = time.monotonic()
        check_target(self.path)

    def load(self, names: Collection[str]) -> dict[str, npt.NDArray[Any]] | None:
        """Return what was saved under these names, or None if nothing was.

        Raises
        ------
        InputError
            If the file is no checkpoint, lacks a name, or is that of another problem.
        """
        if not self.path.exists():
            return None
        state = read_npz(self.path, "a checkpoint")
        if "problem" not in state:
            raise InputError(f"{self.path} is no checkpoint; pass another {option('checkpoint')}.")
        if state.pop("problem").tobytes() != self.problem:
            raise InputError(
                f"{self.path} is the checkpoint of another fit: other pairs, start, loss or "
                f"settings; remove it, pass another {option('checkpoint')}, or the same "
                f"{option('random_state')}."
            )
        if missing := sorted(set(names) - state.keys()):
            raise _damaged(self.path, f"it lacks {', '.join(missing)}")
        return state

    def save(self, state: Callable[[], dict[str, Any]]) -> None:
        """Save a state, unless the last one is younger than `INTERVAL` seconds."""
        if time.monotonic() - self.saved < INTERVAL:
            return
        arrays: dict[str, Any] = {name: np.asarray(value) for name, value in state().items()}
        with atomic_file(self.path) as file:
            np.savez(file, problem=np.frombuffer(self.problem, dtype=np.uint8), **arrays)
        self.saved = time.monotonic()

    def remove(self) -> None:
        """Remove the file: the work is done."""
        self.path.unlink(missing_ok=True)
