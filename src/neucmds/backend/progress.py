"""Show progress and the time left: a bar for steps of a known number, a line for others."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TextIO

# Called with the number of a step, the number of all steps if that is known, and what the step did,
# in words, or the value of the loss that it reached.
Callback = Callable[[int, int | None, str | float], Any]


class ProgressBar:
    """A callback that shows steps of one kind as a bar of tqdm, and calls another callback.

    A bar appears after `delay` seconds; steps without a total are printed as a line. Both go to
    `stream`, by default standard error.
    """

    def __init__(
        self,
        callback: Callback | None = None,
        stream: TextIO | None = None,
        delay: float = 0,
    ) -> None:
        self.callback = callback
        self.stream = stream
        self.delay = delay
        self.bar: Any = None

    def __call__(
        self, step: int, total: int | None, what: str | float
    ) -> None:
        from tqdm import tqdm

        # A number is the loss that a step of a descent reached.
        text = what if isinstance(what, str) else "refined"
        if self.bar is not None and (
            self.bar.desc != text or self.bar.total != total
        ):
            self.close()
        if total is None:
            print(text, file=self.stream or sys.stderr)
        else:
            if self.bar is None:
                self.bar = tqdm(
                    desc=text,
                    total=total,
                    file=self.stream,
                    unit_scale=True,
                    delay=self.delay,
                )
            # Below zero if other work with the same words and total begins: the bar starts again.
            self.bar.update(step - self.bar.n)
            if step >= total:
                self.close()
        if self.callback is not None:
            self.callback(step, total, what)

    def close(self) -> None:
        """End the line; a further call begins another bar."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None
