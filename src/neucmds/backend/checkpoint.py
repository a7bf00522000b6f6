"""Resume interrupted fits and placements."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

import joblib
import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import is_array, to_numpy
from neucmds.backend.files import atomic_file, check_target, read_npz
from neucmds.errors import InputError, option

# Seconds of work that a killed process may lose.
INTERVAL = 5.0


class Checkpoint:
    """A npz file of a few arrays, which belongs to one problem.

    `problem` holds all that decides the result, identified by `joblib.hash`, a function by its
    name. `held` has the arrays of the last `save`. Raises `InputError` if the file is no
    checkpoint, or belongs to another problem.
    """

    def __init__(self, path: str | PathLike[str], *problem: Any) -> None:
        self.path = checkpoint_path(path)
        self.problem = _identity(problem)
        self.saved = time.monotonic()
        check_target(self.path)
        self.held: dict[str, npt.NDArray[Any]] = {}
        if self.path.exists():
            self.held = read_npz(self.path, "a checkpoint")
        if self.held and str(self.held.get("problem")) != self.problem:
            raise InputError(
                f"{self.path} is no checkpoint of this fit, but of another D or other parameters; "
                f"remove it, or pass another {option('checkpoint')}."
            )

    def save(self, *, at_once: bool = False, **values: Any) -> None:
        """Save arrays by name, unless the last ones are younger than `INTERVAL` seconds."""
        if not at_once and time.monotonic() - self.saved < INTERVAL:
            return
        with atomic_file(self.path) as file:
            np.savez(file, problem=self.problem, **_plain(values))
        self.saved = time.monotonic()

    def remove(self) -> None:
        """Remove the file: the work is done."""
        self.path.unlink(missing_ok=True)


def checkpoint_path(value: Any) -> Path:
    """Return the path of a checkpoint; raise if it names no file."""
    if not isinstance(value, (str, PathLike)) or os.fspath(value) in ("", b""):
        raise InputError(
            f"{option('checkpoint', value)} must be the name of a file."
        )
    return Path(os.fsdecode(value))


def _identity(problem: Any) -> str:
    try:
        return str(joblib.hash(_plain(problem)))
    except (pickle.PicklingError, AttributeError, TypeError) as unknown:
        raise InputError(
            f"{option('checkpoint')} cannot identify this work ({unknown.args[0]}); pass "
            "a function that is defined at the top of a module."
        ) from unknown


def _plain(value: Any) -> Any:
    """Return a value with arrays of other libraries converted to NumPy."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(_plain(part) for part in value)
    if is_array(value):
        return to_numpy(value)
    return value


class _NpyRows:
    """A npy file to which rows are assigned in order, after the `first` ones that it has.

    Not a memory map, which ends the process by SIGBUS on a full disk.
    """

    def __init__(
        self,
        file: BinaryIO,
        shape: tuple[int, int],
        dtype: Any,
        first: int = 0,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.file = file
        self.dtype = np.dtype(dtype)
        self.first = first
        self.shape = (shape[0] - first, shape[1])
        file.seek(0)
        header = {
            "descr": self.dtype.str,
            "fortran_order": False,
            "shape": shape,
        }
        np.lib.format.write_array_header_1_0(file, header)
        file.seek(first * shape[1] * self.dtype.itemsize, os.SEEK_CUR)
        self.checkpoint = checkpoint

    def __setitem__(self, rows: slice, values: npt.NDArray[Any]) -> None:
        self.file.write(np.ascontiguousarray(values, dtype=self.dtype).data)
        if self.checkpoint is not None:
            self.file.flush()
            self.checkpoint.save(rows=self.first + rows.stop)


@contextmanager
def npy_output(
    out: str | PathLike[str] | None,
    shape: tuple[int, int],
    dtype: Any,
    checkpoint: Checkpoint | None = None,
) -> Iterator[npt.NDArray[Any] | _NpyRows]:
    """Yield an array, or a file that appears when complete, to which rows are assigned in order.

    With a checkpoint the rows are written to ``OUT.part``, and the yielded object lacks those that
    are there already: its first row has the number ``shape[0] - yielded.shape[0]``.
    """
    if out is None:
        if checkpoint is not None:
            raise InputError(
                f"{option('checkpoint')} keeps the rows of {option('out')}; pass it."
            )
        yield np.empty(shape, dtype=dtype)
    elif checkpoint is None:
        with atomic_file(out) as file:
            yield _NpyRows(file, shape, dtype)
    else:
        if checkpoint.path.resolve() == Path(out).resolve():
            raise InputError(
                f"{option('out')} and {option('checkpoint')} need two names."
            )
        part = Path(f"{os.fspath(out)}.part")
        check_target(Path(out))
        part.touch()
        # Never emptied: the same call, started twice, writes the same rows to one file.
        with part.open("r+b") as file:
            header = 128
            row = shape[1] * np.dtype(dtype).itemsize
            written = max(0, os.fstat(file.fileno()).st_size - header) // max(
                1, row
            )
            first = min(int(checkpoint.held.get("rows", 0)), written)
            checkpoint.save(
                rows=first, at_once=True
            )  # before rows of another job are replaced
            yield _NpyRows(file, shape, dtype, first, checkpoint)
            file.truncate()
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):  # the other start was faster
            os.replace(part, out)
        checkpoint.remove()
