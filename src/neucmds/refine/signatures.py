"""The search for a signature: how many of k coordinates are negative."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache


def best_negatives(
    error_of: Callable[[int], float], first: int, most: int, gain: float = 0
) -> int:
    """Return a number of negatives from 0 to `most` that no number beside it beats.

    From a first number upwards or else downwards, as long as each step lowers the error by more
    than a share, `gain`; steps double while they do.
    """

    @cache
    def error(negatives: int) -> float:
        return error_of(negatives)

    for way in (1, -1):
        best = first
        step = 1
        while True:
            trial = min(max(best + way * step, 0), most)
            if trial != best and error(trial) < (1 - gain) * error(best):
                best = trial
                step *= 2
            elif step > 1:
                step = 1
            else:
                break
        if best != first:
            return best
    return first
