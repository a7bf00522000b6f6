"""Threads for what NumPy does on one: as many as BLAS may use, each with shares of its own.

Shares are cut without regard to how many threads there are, so no digit depends on that number.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

__all__ = ["at_work", "blas_libraries", "spread", "team"]

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
        help_out()
        for helper in helping:
            helper.result()
        if failures:
            # Parts are taken in order, so this is the one that a single thread would have met.
            raise failures[min(failures)]
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
    own = _Team(_n_threads())
    with own.helpers, blas_libraries().limit(limits=1):
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
    here = _open_team.get()
    if here is not None:
        return here.spread(work, parts)
    own = _Team(_n_threads())
    with own.helpers:
        return own.spread(work, parts)


@lru_cache(maxsize=1)
def blas_libraries() -> Any:
    """Return the handle on all BLAS libraries of this process."""
    return ThreadpoolController().select(user_api="blas")


def _n_threads() -> int:
    return max((int(library["num_threads"]) for library in blas_libraries().info()), default=1)
