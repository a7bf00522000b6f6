"""A user's function of two objects, called pair by pair, in processes where that saves time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import chain, starmap
from pickle import PicklingError
from typing import Any

import numpy as np
from joblib import (  # type: ignore[import-untyped]
    Parallel,
    delayed,
    effective_n_jobs,
    parallel_config,
)

from neucmds.backend.arrays import Floats, Numbers, row_blocks
from neucmds.backend.progress import Callback
from neucmds.backend.threads import thread_count
from neucmds.errors import InputError, option

# Seconds of calls left from which on processes are started, and seconds of calls that are worth
# sending to processes once they run.
WORTH_STARTING = 2.0
WORTH_SENDING = 0.05


@dataclass
class Work:
    """The calls of a context: how many are expected, and what those so far tell.

    Parameters
    ----------
    callback : callable, optional
    n_left : int
        Calls that are expected, of which those made are taken off.
    seconds_per_pair : float
        Of the last round; 0 before the first.
    round_size : int
        Pairs of the next round.
    n_processes : int
    """

    callback: Callback | None = None
    n_left: int = 0
    seconds_per_pair: float = 0.0
    round_size: int = 1
    n_processes: int = 1

    def finish_round(self, count: int, seconds: float, n_left: int) -> None:
        """Take a round off, and plan the next; `n_left` pairs are left of those listed."""
        self.n_left = max(0, self.n_left - count)
        self.seconds_per_pair = seconds / count
        n_left = max(self.n_left, n_left)
        if n_left * self.seconds_per_pair > WORTH_STARTING:
            self.n_processes = effective_n_jobs(None)
        # Four times as many as in the last, at most as many as take a second, or one per process.
        per_second = int(1 / self.seconds_per_pair)
        most = max(self.n_processes, per_second)
        self.round_size = min(4 * self.round_size, most)

    def processes_for(self, count: int) -> int:
        """Return how many processes so many calls are worth."""
        if count * self.seconds_per_pair < WORTH_SENDING:
            return 1
        return self.n_processes


_work: ContextVar[Work | None] = ContextVar("work", default=None)


@contextmanager
def watched(
    callback: Callback | None, n_jobs: int | None = None, n_calls: int = 0
) -> Iterator[None]:
    """Have `call_pairs` report to a callback, in a context of so many calls, if that is known.

    `n_jobs` processes make them, or as many as a `joblib.parallel_config` around it says.
    """
    processes: AbstractContextManager[Any] = nullcontext()
    if n_jobs is not None:
        # Only to refuse an invalid number.
        thread_count(n_jobs)
        processes = parallel_config(n_jobs=n_jobs)
    token = _work.set(Work(callback, n_calls))
    try:
        with processes:
            yield
    finally:
        _work.reset(token)


def call_pairs(
    function: Callable[..., Any],
    x: list[Any],
    y: list[Any],
    i: Numbers,
    j: Numbers,
    name: str,
    keep: Callable[[int, Floats], None] | None = None,
) -> Floats:
    """Return ``function(x[i], y[j])`` of listed pairs (i, j), called in rounds of a second.

    Rounds run in processes from when more than two seconds are left, of these pairs or of all that
    the context expects; joblib's `parallel_config` sets the number of these. `name` is the
    function's in messages. `keep` is called after every round, with the number of pairs before it
    and its values.
    """
    work = _work.get() or Work()
    work.round_size = work.n_processes
    values = np.empty(i.size)
    n_done = 0
    while n_done < i.size:
        stop = min(i.size, n_done + work.round_size)
        start_time = time.perf_counter()
        left = [x[number] for number in i[n_done:stop].tolist()]
        right = [y[number] for number in j[n_done:stop].tolist()]
        n_processes = work.processes_for(stop - n_done)
        share = math.ceil((stop - n_done) / n_processes)
        blocks = row_blocks(stop - n_done, 1, share)
        parts = [(function, left[block], right[block]) for block in blocks]
        try:
            results = _results(parts, n_processes)
        except PicklingError as error:
            raise InputError(
                f"{name} or the objects cannot be sent to other processes; pass "
                f"{option('n_jobs', 1)}, or a function defined in a module."
            ) from error
        returned = np.array(list(chain(*results)))
        if returned.ndim != 1 or returned.dtype.kind not in "biuf":
            raise InputError(
                f"{name} returns {type(results[0][0]).__name__} for a pair; it must return one "
                "number."
            )
        values[n_done:stop] = returned
        if keep:
            keep(n_done, values[n_done:stop])
        seconds = time.perf_counter() - start_time
        work.finish_round(stop - n_done, seconds, i.size - stop)
        n_done = stop
        if work.callback:
            work.callback(n_done, i.size, f"calls of {name}")
    return values


def _results(parts: list[Any], n_processes: int) -> list[list[Any]]:
    """Return the values of every part, by processes if there are to be several."""
    # joblib takes a third of a millisecond even for one.
    if n_processes == 1:
        return [_call(*part) for part in parts]
    return list(Parallel(n_jobs=n_processes)(starmap(delayed(_call), parts)))


def _call(
    function: Callable[..., Any], left: list[Any], right: list[Any]
) -> list[Any]:
    return [function(a, b) for a, b in zip(left, right, strict=True)]
