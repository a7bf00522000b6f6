"""Show progress and the time left on one line of standard error."""

from __future__ import annotations

from collections.abc import Callable
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
