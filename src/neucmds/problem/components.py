"""Check `n_components`, the number of coordinates or a goal that decides on it."""

from __future__ import annotations

from typing import Literal

import numpy as np

from neucmds.errors import InputError, option

# The default number of coordinates.
N_COMPONENTS = 2
AUTO: Literal["auto"] = "auto"
# Most coordinates that "auto" considers; where a goal decides on k, memory must suffice for these.
MOST_CHOSEN = 100

# k coordinates of any sign, or at most p positive and q negative ones.
Size = int | tuple[int, int]
# Or a goal that decides on k: the R² to reach, or "auto", the least error on held-out objects.
NComponents = Size | float | str
R2_TYPES = (float, np.floating)
GOALS = (*R2_TYPES, str)


def total_of(size: Size) -> int:
    """Return the number of coordinates."""
    if isinstance(size, tuple):
        return sum(size)
    return size


def checked_size(
    n_components: NComponents, n: int, bound: str = "n − 1"
) -> Size:
    """Check a user's `n_components` against n objects; of a goal, return the most coordinates.

    Messages call the most coordinates, n − 1, the `bound`.
    """
    is_auto = isinstance(n_components, str) and n_components == AUTO
    is_r2 = isinstance(n_components, R2_TYPES) and 0 < n_components < 1
    if is_auto or is_r2:
        return max(1, min(MOST_CHOSEN, n - 1))
    counts = np.asarray(n_components)
    is_size = counts.dtype.kind in "iu" and counts.shape in ((), (2,))
    if not is_size or counts.min() < 0 or not 1 <= counts.sum() < n:
        raise InputError(
            f"{option('n_components', n_components)} must be a whole number k from 1 to {bound} = "
            f"{n - 1}, a pair (p, q) of numbers ≥ 0 with such a sum, at most so many positive and "
            "negative coordinates, a share of R² between 0 and 1, or 'auto'."
        )
    if counts.ndim == 0:
        return int(counts)
    positive, negative = counts.tolist()
    return positive, negative


def spaced_ks(
    k_max: int, dense_up_to: int = 20, points: int = 20
) -> tuple[int, ...]:
    """Return numbers of coordinates to draw a curve by: every k at first, then evenly in log k.

    Parameters
    ----------
    k_max : int
        The last k.
    dense_up_to : int
        Up to here every k is taken.
    points : int
        At most so many follow.

    Returns
    -------
    tuple of int

    Examples
    --------
    >>> from neucmds.problem.components import spaced_ks
    >>> spaced_ks(100, dense_up_to=4, points=3)
    (1, 2, 3, 4, 12, 34, 100)
    """
    near = range(1, min(k_max, dense_up_to) + 1)
    if k_max <= dense_up_to:
        return tuple(near)
    far = np.geomspace(dense_up_to, k_max, points + 1)[1:]
    return tuple(sorted({*near, *(int(k) for k in np.rint(far))}))
