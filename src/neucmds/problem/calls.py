"""A user's function of two objects, called pair by pair, in processes where that saves time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed, effective_n_jobs  # type: ignore[import-untyped]
from scipy.spatial.distance import squareform

from neucmds.backend.checkpoint import Checkpoint
from neucmds.backend.progress import Callback
from neucmds.errors import InputError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[Any]
# Both ends of pairs by their number.
Ends = Callable[[Ints], tuple[Ints, Ints]]

# Seconds of calls between two reports; processes, which take a second to start, save at least two.
ROUND = 1.0
WORTH_PROCESSES = 2.0
# Calls of the first round, which measures how long one takes.
FIRST = 16


class Tape:
    """Results of calls in their order, in a file, from which an interrupted fit resumes."""

    def __init__(self, path: str | PathLike[str], *problem: Any) -> None:
        self._kept = Checkpoint(path, *problem)
        self._parts = [self._kept.held.get("values", np.zeros(0))]
        self._taken = 0

    def take(self, count: int) -> Floats:
        """Return the results of the next `count` calls, as far as they are known."""
        known: Floats = self._parts[0][self._taken : self._taken + count]
        self._taken += known.size
        return known

    def add(self, values: Floats) -> None:
        """Keep more results; they are written every few seconds."""
        self._parts.append(values)
        self._kept.save(values=np.concatenate(self._parts))

    def remove(self) -> None:
        """Remove the file: the work is done."""
        self._kept.remove()


_watching: ContextVar[tuple[Callback | None, Tape | None]] = ContextVar(
    "watching", default=(None, None)
)


@contextmanager
def watched(callback: Callback | None, tape: Tape | None = None) -> Iterator[None]:
    """Tell a callback of the calls in this context; a tape keeps their results."""
    token = _watching.set((callback, tape))
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
        n = len(x)
        width = len(y)
        if x.shape == y.shape and np.array_equal(x, y):
            condensed = self._made(x, x, n * (n - 1) // 2, partial(pair_of, n))
            return np.asarray(squareform(condensed, checks=False))
        made = self._made(x, y, n * width, lambda number: np.divmod(number, width))
        return made.reshape(n, width)

    def at_once(self, most: int) -> int:
        """Return how many calls take a second at the last pace, up to `most`."""
        if self.pace:
            return int(min(most, max(1, ROUND / self.pace)))
        return most

    def listed(self, x: Floats, y: Floats, i: Ints, j: Ints) -> Floats:
        """Call for listed pairs: row i of x with row j of y."""
        return self._made(x, y, i.size, lambda number: (i[number], j[number]))

    def _made(self, x: Floats, y: Floats, count: int, ends: Ends) -> Floats:
        """Call for pairs number 0 to `count`, in rounds of a second."""
        (callback, tape), made, size = _watching.get(), np.empty(count), FIRST
        if tape:
            known = tape.take(count)
        else:
            known = made[:0]
        made[: known.size] = known
        done = known.size
        workers = None
        while done < count:
            stop = min(count, done + size)
            begun = time.perf_counter()
            i, j = ends(np.arange(done, stop))
            if workers is None and (count - done) * self.pace > WORTH_PROCESSES:
                workers = effective_n_jobs(None)
            left = _objects(x, i, self.items)
            right = _objects(y, j, self.items)
            made[done:stop] = self._round(left, right, workers or 1)
            took = max(time.perf_counter() - begun, 1e-9)
            self.pace = took / (stop - done)
            size = int(min(4 * size, max(1, ROUND / self.pace)))
            if tape:
                tape.add(made[done:stop])
            done = stop
            if callback:
                callback(done, count, f"calls of {self.__name__}")
        return made

    def _round(self, left: list[Any], right: list[Any], workers: int) -> Floats:
        if workers == 1:
            return _results(self.metric, self.params, left, right)
        cuts = np.linspace(0, len(left), workers + 1).astype(int)
        parts = (
            delayed(_results)(self.metric, self.params, left[a:b], right[a:b])
            for a, b in pairwise(cuts.tolist())
        )
        return np.concatenate(Parallel()(parts))


def pair_of(n: int, number: Ints) -> tuple[Ints, Ints]:
    """Return both ends of pairs i < j by their number in the order of a condensed matrix."""
    each = np.arange(n - 1)
    first = each * n - each * (each + 1) // 2
    i = np.searchsorted(first, number, side="right") - 1
    return i, number - first[i] + i + 1


def _objects(rows: Floats, which: Ints, items: Sequence[Any] | None) -> list[Any]:
    """Return the objects of some rows, each made once, so that processes receive it once."""
    ids, at = np.unique(which, return_inverse=True)
    if items is None:
        some = list(rows[ids])
    else:
        some = [items[int(i)] for i in rows[ids, 0]]
    return [some[i] for i in at.tolist()]


def _results(metric: Any, params: dict[str, Any], left: list[Any], right: list[Any]) -> Floats:
    made = [metric(a, b, **params) for a, b in zip(left, right, strict=True)]
    for value in {type(value): value for value in made}.values():
        number = np.asarray(value)
        if number.ndim or number.dtype.kind not in "biuf":
            name = getattr(metric, "__name__", "the metric")
            kind = type(value).__name__
            raise InputError(f"{name} returns {kind} for a pair; it must return one real number.")
    return np.array(made, dtype=np.float64)
