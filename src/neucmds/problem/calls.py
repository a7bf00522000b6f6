"""A user's function of two objects, called pair by pair, in processes where that saves time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from pickle import PicklingError
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs  # type: ignore[import-untyped]

from neucmds.backend.arrays import Floats, Numbers, row_blocks
from neucmds.backend.progress import Callback
from neucmds.errors import InputError, option

_watching: ContextVar[Callback | None] = ContextVar("watching", default=None)


@contextmanager
def watched(callback: Callback | None) -> Iterator[None]:
    """Have `call_pairs` report its progress to a callback, in this context."""
    token = _watching.set(callback)
    try:
        yield
    finally:
        _watching.reset(token)


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

    Rounds run in processes while more than two seconds are left; joblib's `parallel_config` sets
    the number of these. `name` is the function's in messages. `keep` is called after every round,
    with the number of pairs before it and its values.
    """
    callback = _watching.get()
    values = np.empty(i.size)
    n_done = 0
    # Pairs in a round: four times as many as in the last, at most as many as take a second.
    round_size = 1
    n_processes = 1
    while n_done < i.size:
        stop = min(i.size, n_done + round_size)
        start_time = time.perf_counter()
        left = [x[number] for number in i[n_done:stop].tolist()]
        right = [y[number] for number in j[n_done:stop].tolist()]
        share = math.ceil((stop - n_done) / n_processes)
        parts = (
            delayed(_call)(function, left[block], right[block])
            for block in row_blocks(stop - n_done, 1, share)
        )
        try:
            results = Parallel(n_jobs=n_processes)(parts)
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
        seconds_per_pair = (time.perf_counter() - start_time) / (stop - n_done)
        round_size = int(min(4 * round_size, max(1, 1 / seconds_per_pair)))
        n_done = stop
        if (i.size - n_done) * seconds_per_pair > 2:
            n_processes = effective_n_jobs(None)
        if callback:
            callback(n_done, i.size, f"calls of {name}")
    return values


def _call(
    function: Callable[..., Any], left: list[Any], right: list[Any]
) -> list[Any]:
    return [function(a, b) for a, b in zip(left, right, strict=True)]
