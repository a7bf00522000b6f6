"""Show progress and the time left on one line of standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO


def progress_bar(
    what: str, stream: TextIO | None = None, every: float = 0.5
) -> Callable[[int, int], None]:
    """Return a function of ``(done, total)`` that shows a bar of tqdm from its first call on."""
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
    """Yield a function of ``(step, value)`` that shows both, for work of unknown length."""
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
