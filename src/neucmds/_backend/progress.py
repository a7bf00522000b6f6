"""Show progress and the time left on one line of standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO


def progress_bar(
    what: str, stream: TextIO | None = None, every: float = 0.5
) -> Callable[[int, int], None]:
    """Make a function that is told ``(done, total)`` and shows it as a bar of tqdm.

    The bar appears with the first call, on standard error by default, and ends its line when all is
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


@contextmanager
def progress_steps(what: str) -> Iterator[Callable[[int, float], None]]:
    """Yield what shows the number of a step and a value, for work of unknown length.

    The line appears with the first call of ``report(step, value)``, and ends with the context.
    """
    from tqdm import tqdm

    bar: Any = None

    def report(step: int, value: float) -> None:
        nonlocal bar
        if bar is None:
            bar = tqdm(desc=what, mininterval=0.5, unit=" iterations")
        bar.set_postfix_str(f"loss {value:.6g}", refresh=False)
        bar.update(step - bar.n)

    try:
        yield report
    finally:
        if bar is not None:
            bar.close()
