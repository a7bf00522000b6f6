"""Parse `n_components`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from neucmds.errors import InputError, option

# Coordinates unless others are asked for.
N_COMPONENTS = 2
AUTO: Literal["auto"] = "auto"
# Most coordinates that "auto" considers, and that memory is set aside for while k is not known.
MOST_CHOSEN = 100

NComponents = int | float | str | tuple[int, int]


@dataclass(frozen=True)
class Components:
    """How many coordinates are wanted: k of any sign, or at most p positive and q negative ones."""

    # While k is to be chosen: as many as memory is needed for.
    total: int
    signature: tuple[int, int] | None = None
    # What chooses k: the R² to reach, or "auto", the error on held-out objects.
    goal: float | str | None = None

    @classmethod
    def parse(cls, n_components: NComponents, n: int) -> Components:
        """Check a user's `n_components` against the number of objects."""
        signature = None
        chosen = max(1, min(MOST_CHOSEN, n - 1))
        if isinstance(n_components, str) and n_components == AUTO:
            return cls(chosen, goal=AUTO)
        if (
            isinstance(n_components, (float, np.floating))
            and 0 < n_components < 1
        ):
            return cls(chosen, goal=float(n_components))
        pair = isinstance(n_components, (tuple, list))
        counts: list[Any] = [*n_components] if pair else [n_components]  # type: ignore[misc]
        whole = all(
            isinstance(c, (int, np.integer)) and not isinstance(c, bool)
            for c in counts
        )
        if not whole or min(counts, default=-1) < 0 or len(counts) != 1 + pair:
            raise InputError(
                f"{option('n_components', n_components)} must be a whole number k from 1 to "
                f"n − 1 = {n - 1}, a pair (p, q) of numbers ≥ 0, at most so many positive and "
                "negative coordinates, a share of R² between 0 and 1, or 'auto'."
            )
        total = sum(map(int, counts))
        if pair:
            signature = int(counts[0]), int(counts[1])
        if not 1 <= total < n:
            raise InputError(
                f"{option('n_components', n_components)} asks for {total} coordinates of {n} "
                f"objects; it must be between 1 and n − 1 = {n - 1}."
            )
        return cls(total, signature)


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
