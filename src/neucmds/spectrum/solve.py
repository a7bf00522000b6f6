"""The eigenpairs that a method selects from."""

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

# Residual of an eigenpair, relative to the largest eigenvalue.
EIGENPAIR_TOL = 1e-7
# The same for a start: descents end where those from exact eigenpairs do.
START_TOL = 1e-3


def solve_for(
    gram: Gram,
    components: Size | list[Size],
    methods: str | Sequence[str],
    *,
    tol: float = EIGENPAIR_TOL,
    random_state: Any = 0,
) -> Spectrum:
    """Compute the eigenpairs that a method selects from, or each of several, for one or several k.

    Parameters are those of `neuc_mds`.
    """
    sizes = components
    if not isinstance(sizes, list):
        sizes = [sizes]
    names = tuple(methods)
    if isinstance(methods, str):
        names = (methods,)
    wanted = [METHODS.get(name, union) for name in names]
    is_start = names == ("refined",)
    if is_start:
        tol = max(tol, START_TOL)
        if gram.n > MAX_DENSE:
            wanted = [neuc_plus]

    def rule(ends: Spectrum) -> Selection:
        chosen = [select(ends, size) for select in wanted for size in sizes]
        if len(chosen) == 1:
            return chosen[0]
        kept = np.unique(
            np.concatenate([selection.kept for selection in chosen])
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
