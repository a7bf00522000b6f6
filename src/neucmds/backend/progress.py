"""Show progress and the time left on one line of standard error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TextIO

# Called with the number of a step, the number of all steps where it is known, and what was done or
# reached: a word or a value.
Callback = Callable[[int, int | None, str | float], Any]


class ProgressBar:
    """A function of ``(done, total)`` that shows a bar of tqdm from its first call on."""

    def __init__(self, what: str, stream: TextIO | None = None, every: float = 0.5) -> None:
        self.settings: dict[str, Any] = {"desc": what, "file": stream, "mininterval": every}
        self.bar: Any = None

    def __call__(self, done: int, total: int) -> None:
        from tqdm import tqdm

        if self.bar is None:
            self.bar = tqdm(total=total, unit_scale=True, **self.settings)
        self.bar.update(done - self.bar.n)
        if done >= total:
            self.close()

    def close(self) -> None:
        """End the line; a further call begins another bar."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None
