"""A user's function of two objects, called pair by pair, in processes where that saves time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed, effective_n_jobs  # type: ignore[import-untyped]
from scipy.spatial.distance import squareform

from neucmds.backend.arrays import row_blocks
from neucmds.backend.progress import Callback
from neucmds.errors import InputError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[Any]

# Seconds of calls between two reports, and of all calls from which they run in processes.
ROUND = 1.0
# Calls of the first round, which measures how long one takes.
FIRST = 16


_watching: ContextVar[Callback | None] = ContextVar("watching", default=None)


@contextmanager
def watched(callback: Callback | None) -> Iterator[None]:
    """Tell a callback of the calls in this context."""
    token = _watching.set(callback)
    try:
        yield
    finally:
        _watching.reset(token)


@dataclass(eq=False)
class Called:
    """A symmetric function of two objects, called for every pair of two blocks of rows.

    With `items`, a row holds the number of an object. joblib's `parallel_config` sets the number of
    processes.
    """

    metric: Callable[..., Any]
    params: dict[str, Any]
    items: Sequence[Any] | None = None
    # Seconds that a call took.
    pace: float = field(default=0.0, init=False)

    @property
    def __name__(self) -> str:
        return str(getattr(self.metric, "__name__", "the metric"))

    def __call__(self, x: Floats, y: Floats) -> Floats:
        """Call for all rows with all; each pair once where both blocks are the same."""
        shape = len(x), len(y)
        if np.array_equal(x, y):
            condensed = self.listed(x, x, *np.triu_indices(len(x), 1))
            return np.asarray(squareform(condensed, checks=False))
        i, j = np.indices(shape).reshape(2, -1)
        return self.listed(x, y, i, j).reshape(shape)

    def at_once(self, most: int) -> int:
        """Return how many calls take a second at the last pace, up to `most`."""
        if self.pace:
            return int(min(most, max(1, ROUND / self.pace)))
        return most

    def listed(self, x: Floats, y: Floats, i: Ints, j: Ints) -> Floats:
        """Call for listed pairs, row i of x with row j of y, in rounds of a second."""
        callback = _watching.get()
        values = np.empty(i.size)
        done = 0
        size = FIRST
        workers = 1
        while done < i.size:
            stop = min(i.size, done + size)
            begun = time.perf_counter()
            if (i.size - done) * self.pace > 2 * ROUND:
                workers = effective_n_jobs(None)
            left = self._objects(x, i[done:stop])
            right = self._objects(y, j[done:stop])
            values[done:stop] = self._results(left, right, workers)
            self.pace = max(time.perf_counter() - begun, 1e-9) / (stop - done)
            size = self.at_once(4 * size)
            done = stop
            if callback:
                callback(done, i.size, f"calls of {self.__name__}")
        return values

    def _objects(self, rows: Floats, numbers: Ints) -> list[Any]:
        """Return the objects of some rows, each made once, so that processes receive it once."""
        unique, position = np.unique(numbers, return_inverse=True)
        if self.items is None:
            objects = list(rows[unique])
        else:
            objects = [self.items[int(item)] for item in rows[unique, 0]]
        return [objects[at] for at in position.tolist()]

    def _results(
        self, left: list[Any], right: list[Any], workers: int
    ) -> Floats:
        """Call for pairs of objects, and check that each result is a number."""
        blocks = row_blocks(len(left), 1, -(-len(left) // workers))
        parts = (
            delayed(_call)(self.metric, self.params, left[block], right[block])
            for block in blocks
        )
        values = [
            value for part in Parallel(n_jobs=workers)(parts) for value in part
        ]
        results = np.array(values)
        if results.ndim != 1 or results.dtype.kind not in "biuf":
            kind = type(values[0]).__name__
            raise InputError(
                f"{self.__name__} returns {kind} for a pair; it must return one number."
            )
        return results.astype(np.float64)


def _call(
    metric: Any, params: dict[str, Any], left: list[Any], right: list[Any]
) -> list[Any]:
    return [metric(a, b, **params) for a, b in zip(left, right, strict=True)]
