"""Pools of threads, and the number of threads that BLAS uses.

Work is cut into parts independently of the number of threads, so results do not depend on it,
except where BLAS itself sums in single precision (up to 4e-7 of an eigenvalue).
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from numbers import Integral
from types import SimpleNamespace
from typing import Any, TypeVar

import joblib
import threadpoolctl

from neucmds.backend.arrays import (
    BLOCK_ELEMENTS,
    CACHED_ELEMENTS,
    Array,
    is_numpy,
    row_blocks,
)
from neucmds.backend.progress import Callback
from neucmds.errors import InputError, option

Part = TypeVar("Part")
Result = TypeVar("Result")


def thread_count(n_jobs: int | None) -> int:
    """Return the number of threads that `n_jobs` means: None and −1 are all cores allowed."""
    if n_jobs is None:
        n_jobs = -1
    if (
        isinstance(n_jobs, bool)
        or not isinstance(n_jobs, Integral)
        or n_jobs == 0
    ):
        raise InputError(
            f"{option('n_jobs', n_jobs)} must be a positive integer, or None or -1 for all cores."
        )
    # Of threads: within a process of a pool, joblib would allow one process.
    with joblib.parallel_config(backend="threading"):
        return int(joblib.effective_n_jobs(int(n_jobs)))


# The executor of the open pool, and its number of threads with the calling one.
open_pool = ContextVar[tuple[ThreadPoolExecutor, int] | None](
    "open_pool", default=None
)


@contextmanager
def worker_pool() -> Iterator[None]:
    """Keep threads for `parallel_map`, and BLAS at one thread, until the context ends.

    In the context of another pool that one is used.
    """
    if open_pool.get() is not None:
        yield
        return
    with (
        single_blas_thread() as allowed,
        ThreadPoolExecutor(
            max(1, allowed - 1), thread_name_prefix="neucmds"
        ) as helpers,
    ):
        token = open_pool.set((helpers, allowed))
        try:
            yield
        finally:
            open_pool.reset(token)


def pool_for(array: Array) -> AbstractContextManager[None]:
    """Return the context of a pool for work on NumPy arrays; other libraries have own threads."""
    return worker_pool() if is_numpy(array) else nullcontext()


# Not joblib.Parallel, of which a call takes 10 ms: one of this takes 0.07 ms.
def parallel_map(
    work: Callable[[Part], Result], parts: Iterable[Part]
) -> list[Result]:
    """Return ``work(part)`` of every part, in order, by the open pool or else a new one."""
    tasks = list(parts)
    results: list[Any] = [None] * len(tasks)
    # All threads take the number of their next task from this iterator.
    numbers = iter(range(len(tasks)))

    def work_on_tasks() -> None:
        try:
            for i in numbers:
                results[i] = work(tasks[i])
        finally:
            # After a failure no task is left for the others.
            deque(numbers, maxlen=0)

    if len(tasks) < 2:
        work_on_tasks()
        return results
    with worker_pool():
        pool = open_pool.get()
        assert pool is not None
        helpers, size = pool
        futures = [
            helpers.submit(work_on_tasks)
            for _ in range(min(size, len(tasks)) - 1)
        ]
        try:
            work_on_tasks()
        finally:
            wait(futures)
        for future in futures:
            # Raises what the thread raised.
            future.result()
    return results


def over_rows(
    work: Callable[[slice], Result], n: int, width: int
) -> list[Result]:
    """Return ``work(rows)`` of slices of n rows in the open pool; without one, of all rows at once.

    `width` is the number of entries of a row.
    """
    if open_pool.get() is None:
        return [work(slice(0, n))]
    return parallel_map(work, row_blocks(n, width, CACHED_ELEMENTS))


def fill_rows(
    target: Any,
    work: Callable[[slice], Any],
    width: int,
    n_threads: int,
    callback: Callback | None = None,
    elements: int = BLOCK_ELEMENTS,
) -> None:
    """Write ``work(rows)`` to ``target[rows]`` for all rows, in parts of about `elements` entries.

    The target, an array or a file, is written to in order. `width` is the number of entries of a
    row of the work; BLAS uses one thread.
    """
    n = target.shape[0]
    parts = list(row_blocks(n, width, elements))
    # In batches: `pool.map` would compute all parts before a slow target has taken them. joblib's
    # generator hangs in forked processes.
    batch_size = 4 * n_threads if n_threads > 1 else 1
    with (
        single_blas_thread(),
        ThreadPoolExecutor(n_threads, "neucmds") as pool,
    ):
        apply = pool.map if n_threads > 1 else map
        for start in range(0, len(parts), batch_size):
            batch = parts[start : start + batch_size]
            for rows, values in zip(batch, apply(work, batch), strict=True):
                target[rows] = values
                if callback is not None:
                    callback(rows.stop, n, "placed")


# The limit on the threads of BLAS in this process: how many contexts need it, the usual number of
# threads, and what restores that. The lock is held while any of it changes.
_lock = threading.Lock()
_limit = SimpleNamespace(libraries=None, users=0, allowed=1, limiter=None)


@contextmanager
def single_blas_thread() -> Iterator[int]:
    """Keep BLAS at one thread while any thread is in this context; yield its usual number.

    The last thread that leaves restores the usual number. If each thread restored the number that
    it met, two overlapping contexts would leave BLAS at one thread.
    """
    process = os.getpid()
    with _lock:
        if _limit.users == 0:
            if _limit.libraries is None:
                _limit.libraries = threadpoolctl.ThreadpoolController().select(
                    user_api="blas"
                )
            threads = [
                int(library["num_threads"])
                for library in _limit.libraries.info()
            ]
            _limit.allowed = max(threads, default=1)
            _limit.limiter = _limit.libraries.limit(limits=1)
        _limit.users += 1
        allowed = _limit.allowed
    try:
        yield allowed
    finally:
        # A forked process has restored the number already.
        if process == os.getpid():
            with _lock:
                _limit.users -= 1
                if _limit.users == 0:
                    _let_any_thread_set_it(force=True)
                    _limit.limiter.restore_original_limits()
                    _let_any_thread_set_it(force=True)


# threadpoolctl 3.8 lets only the thread that set a limit set another, until this is called.
_let_any_thread_set_it = getattr(
    getattr(threadpoolctl, "OpenBLASController", None),
    "clear_controlling_thread",
    lambda force: None,
)


def _after_fork() -> None:
    """Drop the pool and the users of BLAS that a forked process inherits."""
    _lock.release()
    open_pool.set(None)
    if _limit.users:
        _limit.users = 0
        _limit.limiter.restore_original_limits()
        _let_any_thread_set_it(force=True)


if hasattr(os, "register_at_fork"):
    # No fork while a thread changes the limit: the child would wait for its locks for ever.
    os.register_at_fork(
        before=_lock.acquire,
        after_in_parent=_lock.release,
        after_in_child=_after_fork,
    )
