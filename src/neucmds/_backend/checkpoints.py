"""`StateCheckpoint` keeps the state of an iteration; `fingerprint` says which problem it is of."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import fields, is_dataclass
from functools import partial
from operator import itemgetter
from os import PathLike
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from neucmds._backend.arrays import is_array, to_numpy
from neucmds._backend.files import atomic_file, check_target, read_npz
from neucmds.errors import InputError, option

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
