"""Rows by the million, a chunk at a time: distances to landmarks, then coordinates.

Nothing here is larger than one chunk a thread: neither the n×n matrix nor the n×L block exists.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from neucmds._backend.arrays import row_blocks
from neucmds.errors import InputError

__all__ = ["fill_rows", "in_threads", "open_output", "thread_count"]

Floats = npt.NDArray[Any]
Progress = Callable[[int, int], None]


def thread_count(n_jobs: int | None) -> int:
    """How many threads `n_jobs` means: None and −1 are all cores that this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    cores = cores or 1
    if n_jobs is None or n_jobs == -1:
        return cores
    if n_jobs == 0:
        raise InputError("n_jobs=0 leaves nobody to work; pass None or -1 for all cores.")
    return n_jobs if n_jobs > 0 else max(1, cores + 1 + n_jobs)


def in_threads(work: Callable[[slice], Any], chunks: list[slice], n_threads: int) -> Iterator[Any]:
    """Yield (chunk, work(chunk)) as they finish; few are under way at a time, so few are held.

    The BLAS works with one thread each meanwhile: the chunks keep all cores busy.
    """
    with threadpool_limits(limits=1, user_api="blas"):
        if n_threads == 1 or len(chunks) == 1:
            yield from ((chunk, work(chunk)) for chunk in chunks)
            return
        with ThreadPoolExecutor(n_threads) as pool:
            left = iter(chunks)
            running: dict[Future[Any], slice] = {
                pool.submit(work, chunk): chunk for chunk in islice(left, 2 * n_threads)
            }
            try:
                while running:
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        chunk = running.pop(future)
                        for following in islice(left, 1):
                            running[pool.submit(work, following)] = following
                        yield chunk, future.result()
            finally:
                for future in running:
                    future.cancel()


def fill_rows(
    target: Floats,
    work: Callable[[slice], Floats],
    width: int,
    n_threads: int,
    progress: Progress | None = None,
) -> Floats:
    """Write work(rows) to target[rows] for all rows, in chunks of about 2²¹ entries of `width`."""
    n, done = target.shape[0], 0
    for rows, values in in_threads(work, list(row_blocks(n, width)), n_threads):
        target[rows] = values
        done += rows.stop - rows.start
        if progress is not None:
            progress(done, n)
    return target


@contextmanager
def open_output(
    out: str | PathLike[str] | None, shape: tuple[int, int], dtype: Any
) -> Iterator[Floats]:
    """Give an array to fill: in memory, or a ``.npy`` on disk that exists once it is complete."""
    if out is None:
        yield np.empty(shape, dtype=dtype)
        return
    path = Path(out)
    part = path.with_name(path.name + ".part")
    try:
        target = np.lib.format.open_memmap(part, mode="w+", dtype=dtype, shape=shape)
        yield target
        target.flush()
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
