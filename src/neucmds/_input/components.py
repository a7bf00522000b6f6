"""How many coordinates are wanted, of which signs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from neucmds.errors import InputError, option

DEFAULT_TOTAL = 20
AUTO: Literal["auto"] = "auto"
# Most coordinates that "auto" considers, and that memory is set aside for while k is not known.
MOST_CHOSEN = 100

NComponents = int | float | str | tuple[int, int] | None


@dataclass(frozen=True)
class Components:
    """How many coordinates are wanted: k of any sign, or p positive and q negative ones.

    Parameters
    ----------
    total : int
        Number of coordinates; while k is still to be chosen, as many as memory is needed for.
    signature : (int, int), optional
        Numbers of positive and negative ones.
    goal : float or "auto", optional
        What k is to be chosen by: the R² to reach, or the error on held-out objects.
    """

    total: int
    signature: tuple[int, int] | None = None
    goal: float | str | None = None

    @classmethod
    def parse(cls, n_components: NComponents, n: int) -> Components:
        """Check a user's `n_components` against the number of objects; None: 20, or n − 1."""
        if n_components is None:
            n_components = min(DEFAULT_TOTAL, n - 1)
        given = option("n_components", n_components)
        if _is_goal(n_components):
            goal = AUTO if isinstance(n_components, str) else float(n_components)  # type: ignore[arg-type]
            return cls(max(1, min(MOST_CHOSEN, n - 1)), goal=goal)
        if isinstance(n_components, (tuple, list)):
            if len(n_components) != 2 or not all(_is_count(c) for c in n_components):
                raise InputError(
                    f"{given} must be a whole number k, or a pair (p, q) of "
                    "whole numbers ≥ 0: p positive and q negative coordinates."
                )
            positive, negative = int(n_components[0]), int(n_components[1])
            total, signature = positive + negative, (positive, negative)
        elif _is_count(n_components):
            total, signature = int(n_components), None
        else:
            raise InputError(
                f"{given} must be a whole number from 1 to n − 1 = {n - 1}, a pair (p, q), a share "
                "of R² between 0 and 1, or 'auto'."
            )
        if not 1 <= total < n:
            raise InputError(
                f"{given} asks for {total} coordinates of {n} objects; "
                f"it must be between 1 and n − 1 = {n - 1}."
            )
        return cls(total, signature)


def _is_count(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= 0


def _is_goal(value: object) -> bool:
    if isinstance(value, str):
        return value == AUTO
    return isinstance(value, (float, np.floating)) and 0 < float(value) < 1
