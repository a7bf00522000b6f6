"""How many coordinates are wanted, of which signs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neucmds.errors import InputError, option

__all__ = ["Components"]

DEFAULT_TOTAL = 20


@dataclass(frozen=True)
class Components:
    """How many coordinates are wanted: k of any sign, or p positive and q negative ones."""

    total: int
    signature: tuple[int, int] | None = None

    @classmethod
    def parse(cls, n_components: int | tuple[int, int] | None, n: int) -> Components:
        """Check a user's `n_components` against the number of objects; None: 20, or n − 1."""
        if n_components is None:
            n_components = min(DEFAULT_TOTAL, n - 1)
        given = option("n_components", n_components)
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
                f"{given} must be a whole number from 1 to n − 1 = {n - 1}, or a pair (p, q)."
            )
        if not 1 <= total < n:
            raise InputError(
                f"{given} asks for {total} coordinates of {n} objects; "
                f"it must be between 1 and n − 1 = {n - 1}."
            )
        return cls(total, signature)


def _is_count(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= 0
