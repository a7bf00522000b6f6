"""How far long work has come, and how long it will still take, on one line of standard error."""

from __future__ import annotations

import sys
import time
from typing import TextIO

__all__ = ["ProgressLine"]


class ProgressLine:
    """A callable that rewrites one line: what, share done, time left.

    Parameters
    ----------
    what : str
        What is being done.
    stream : file, optional
        Where to; standard error by default.
    every : float, default=0.5
        Seconds between two updates.
    """

    def __init__(self, what: str, stream: TextIO | None = None, every: float = 0.5) -> None:
        self.what = what
        self.stream = stream
        self.every = every
        self._start = self._last = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` are done, unless that was shown a moment ago."""
        now = time.monotonic()
        if done < total and now - self._last < self.every:
            return
        self._last = now
        stream = self.stream or sys.stderr
        spent = now - self._start
        tail = f"{spent:.0f} s" if done >= total else f"{spent * (total - done) / done:.0f} s left"
        end = "\n" if done >= total else ""
        print(
            f"\r{self.what}: {done:,} of {total:,} ({done / total:.0%}), {tail:<12}",
            end=end,
            file=stream,
            flush=True,
        )
