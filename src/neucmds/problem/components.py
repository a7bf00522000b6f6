"""Parse `n_components`."""

from __future__ import annotations

from typing import Literal

import numpy as np

from neucmds.errors import InputError, option

# Coordinates unless others are asked for.
N_COMPONENTS = 2
AUTO: Literal["auto"] = "auto"
# Most coordinates that "auto" considers, and that memory is set aside for while k is not known.
MOST_CHOSEN = 100

# k coordinates of any sign, or at most p positive and q negative ones.
Size = int | tuple[int, int]
# Or what chooses k: the R² to reach, or "auto", the error on held-out objects.
NComponents = Size | float | str
GOALS = (float, np.floating, str)


def total_of(size: Size) -> int:
    """Return the number of coordinates."""
    if isinstance(size, tuple):
        return sum(size)
    return size


def checked_size(n_components: NComponents, n: int) -> Size:
    """Check a user's `n_components` against the number of objects.

    While k is to be chosen, return as many as memory is needed for.
    """
    is_auto = isinstance(n_components, str) and n_components == AUTO
    is_share = isinstance(n_components, GOALS[:2]) and 0 < n_components < 1
    if is_auto or is_share:
        return max(1, min(MOST_CHOSEN, n - 1))
    counts = np.asarray(n_components)
    whole = counts.dtype.kind in "iu" and counts.shape in ((), (2,))
    if not whole or counts.min() < 0 or not 1 <= counts.sum() < n:
        raise InputError(
            f"{option('n_components', n_components)} must be a whole number k from 1 to n − 1 = "
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
    """Return a grid that shows the whole shape of a curve: every k at first, then evenly in log k.

    Parameters
    ----------
    k_max : int
        Where the grid ends.
    dense_up_to : int
        Up to here every k is taken.
    points : int
        How many come beyond, at the most.

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
