"""Compute the eigenpairs that methods need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from neucmds.problem.components import Size, total_of
from neucmds.spectrum.exact import MAX_DENSE
from neucmds.spectrum.krylov import solve
from neucmds.spectrum.operators.gram import Gram
from neucmds.spectrum.selection import METHODS, Selection, neuc_plus, union
from neucmds.spectrum.spectrum import Spectrum

# Largest residual of an eigenpair, relative to the largest eigenvalue.
EIGENPAIR_TOL = 1e-7
# The same for the start of a descent, which ends where one from exact eigenpairs does.
START_TOL = 1e-3


def solve_for(
    gram: Gram,
    components: Size | list[Size],
    methods: str | Sequence[str],
    *,
    tol: float = EIGENPAIR_TOL,
    random_state: Any = 0,
) -> Spectrum:
    """Compute the eigenpairs that one method or several select, for one k or several.

    Parameters are those of `neuc_mds`.
    """
    sizes = components
    if not isinstance(sizes, list):
        sizes = [sizes]
    names = tuple(methods)
    if isinstance(methods, str):
        names = (methods,)
    selectors = [METHODS.get(name, union) for name in names]
    is_start = names == ("refined",)
    if is_start:
        tol = max(tol, START_TOL)
        # Many objects start from one closed form, not from `exact_selection`.
        if gram.n > MAX_DENSE:
            selectors = [neuc_plus]

    def rule(ends: Spectrum) -> Selection:
        """Keep every pair that one of the selectors keeps for one of the sizes."""
        selections = [
            select(ends, size) for select in selectors for size in sizes
        ]
        if len(selections) == 1:
            return selections[0]
        kept = np.unique(
            np.concatenate([selection.kept for selection in selections])
        )
        return Selection(kept, ends.values[kept])

    return solve(
        gram,
        rule,
        max(total_of(size) for size in sizes),
        tol=tol,
        is_start=is_start,
        random_state=random_state,
    )
