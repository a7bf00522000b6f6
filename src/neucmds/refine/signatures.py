"""The search for a signature: how many of k coordinates are negative."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache


def best_negatives(error_of: Callable[[int], float], first: int, k: int) -> int:
    """Return a number of negatives from 0 to k that no number beside it beats.

    Steps of one from a first number, upwards or else downwards, as long as the error falls.
    """

    @cache
    def error(negatives: int) -> float:
        return error_of(negatives)

    for way in (1, -1):
        best = first
        while 0 <= best + way <= k and error(best + way) < error(best):
            best += way
        if best != first:
            return best
    return first
