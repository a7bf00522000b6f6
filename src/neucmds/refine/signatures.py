"""The search for a signature: how many of k coordinates are negative."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache


def best_negatives(
    error_of: Callable[[int], float], first: int, most: int
) -> int:
    """Return a number of negatives from 0 to `most`, `first` or better.

    The search goes up from `first`, or else down. Steps double while they lower the error, then
    begin again at 1; the search ends when a step of 1 does not.
    """

    @cache
    def error(negatives: int) -> float:
        return error_of(negatives)

    for direction in (1, -1):
        best = first
        step = 1
        while True:
            trial = min(max(best + direction * step, 0), most)
            if trial != best and error(trial) < error(best):
                best = trial
                step *= 2
            elif step > 1:
                step = 1
            else:
                break
        if best != first:
            return best
    return first
