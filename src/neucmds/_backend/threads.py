"""Threads for what NumPy does on one: as many as BLAS may use, each with shares of its own.

Shares are cut without regard to how many threads there are, so no digit depends on that number.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

__all__ = ["at_work", "blas_libraries", "over_rows", "spread", "team"]

# Entries of a slice of rows: 1 MB in float64.
_SLICE = 2**17

Part = TypeVar("Part")
Result = TypeVar("Result")


class _Team:
    """The calling thread and its helpers."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.helpers = ThreadPoolExecutor(max(1, size - 1), thread_name_prefix="neucmds")

    def spread(self, work: Callable[[Part], Result], parts: Iterable[Part]) -> list[Result]:
        todo = deque(enumerate(parts))
        results: dict[int, Result] = {}
        failures: dict[int, BaseException] = {}

        def help_out() -> None:
            while not failures:
                try:
                    i, part = todo.popleft()
                except IndexError:
                    return
                try:
                    results[i] = work(part)
                except BaseException as failure:  # raised again below, on the calling thread
                    failures[i] = failure

        others = min(self.size, len(todo)) - 1
        helping = [self.helpers.submit(help_out) for _ in range(others)]
        try:
            help_out()
            for helper in helping:
                helper.result()
            if failures:
                # Parts are taken in order: this is the one that a single thread would have met.
                raise failures[min(failures)]
        finally:
            todo.clear()
            failures.clear()
        return [results[i] for i in range(len(results))]


_open_team: ContextVar[_Team | None] = ContextVar("_open_team", default=None)


@contextmanager
def team() -> Iterator[None]:
    """Keep threads ready for `spread`, and BLAS to one thread, until the end of the context.

    The idle threads of OpenBLAS spin, and took half of what others gained.
    """
    if at_work():
        yield
        return
    with _one_blas_thread() as allowed:
        own = _Team(allowed)
        with own.helpers:
            token = _open_team.set(own)
            try:
                yield
            finally:
                _open_team.reset(token)


def at_work() -> bool:
    """Tell whether a team is ready, and BLAS therefore kept to one thread."""
    return _open_team.get() is not None


def spread(work: Callable[[Part], Result], parts: Iterable[Part]) -> list[Result]:
    """Do a piece of work on every part, in the open team or else in one of its own; in order."""
    parts = list(parts)
    if len(parts) == 1:
        return [work(parts[0])]
    with team():
        here = _open_team.get()
        assert here is not None
        return here.spread(work, parts)


def over_rows(work: Callable[[slice], Result], n: int, width: int) -> list[Result]:
    """Do a piece of work on slices of n rows where a team is at work, else on all rows at once."""
    if not at_work():
        return [work(slice(0, n))]
    step = max(1, _SLICE // max(1, width))
    return spread(work, [slice(start, min(start + step, n)) for start in range(0, n, step)])


@lru_cache(maxsize=1)
def blas_libraries() -> Any:
    """Return the handle on all BLAS libraries of this process."""
    return ThreadpoolController().select(user_api="blas")


class _BlasLimit:
    """The limit on the threads of BLAS, which all teams of a process share: it is process-wide."""

    lock = threading.Lock()
    teams = 0
    allowed = 1
    limiter: Any = None


@contextmanager
def _one_blas_thread() -> Iterator[int]:
    """Keep BLAS to one thread while any team is at work; yield how many it is allowed."""
    # Were every team to restore what it found, two that overlap would leave BLAS at one for good.
    with _BlasLimit.lock:
        if _BlasLimit.teams == 0:
            blas = blas_libraries()
            _BlasLimit.allowed = max((int(one["num_threads"]) for one in blas.info()), default=1)
            _BlasLimit.limiter = blas.limit(limits=1)
        _BlasLimit.teams += 1
        allowed = _BlasLimit.allowed
    try:
        yield allowed
    finally:
        with _BlasLimit.lock:
            _BlasLimit.teams -= 1
            if _BlasLimit.teams == 0:
                _free_for_all_threads()
                _BlasLimit.limiter.restore_original_limits()
                _free_for_all_threads()


def _free_for_all_threads() -> None:
    """Let any thread set the limit: threadpoolctl 3.8 heeds only the first that did."""
    for library in blas_libraries().lib_controllers:
        clear = getattr(library, "clear_controlling_thread", None)
        if clear is not None:
            clear(force=True)
