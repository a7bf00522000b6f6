"""How far long work has come, and how long it will still take, on one line of standard error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TextIO


def progress_bar(
    what: str, stream: TextIO | None = None, every: float = 0.5
) -> Callable[[int, int], None]:
    """Make a function that is told ``(done, total)`` and shows it as a bar of tqdm.

    Parameters
    ----------
    what : str
        What is being done.
    stream : file, optional
        Where to; standard error by default.
    every : float, default=0.5
        Seconds between two updates.

    Returns
    -------
    callable
        ``report(done, total)``. The bar appears with the first call, and ends its line when all is
        done.
    """
    from tqdm import tqdm

    bar: Any = None

    def report(done: int, total: int) -> None:
        nonlocal bar
        if bar is None:
            bar = tqdm(total=total, desc=what, file=stream, mininterval=every, unit_scale=True)
        bar.update(done - bar.n)
        if done >= total:
            bar.close()
            bar = None

    return report
