"""Eigenpairs of an operator, and an `Embedding` from these: nothing else calls a solver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from neucmds._input.components import Components
from neucmds._methods import (
    MAX_DENSE,
    METHODS,
    Limits,
    Selection,
    best_refined,
    exact_selection,
    from_refinement,
    from_selection,
    neuc_plus,
    union,
)
from neucmds._operator import Gram
from neucmds._spectrum import Ends, Spectrum, check_solver, full_spectrum, solve
from neucmds.api.options import EIGENPAIR_TOL, check_methods
from neucmds.embedding import Embedding, build_embedding

# Up to here `inspect` and `curve` compute all eigenvalues (2 s); of more objects the largest ones,
# to a tolerance for which products in single precision suffice: errors of λ are its square.
FULL_UP_TO = 2000
INSPECTED_PAIRS = 100
INSPECTED_TOL = 1e-5


def solve_for(
    gram: Gram,
    components: Components | Sequence[Components],
    methods: str | Sequence[str],
    *,
    solver: str = "auto",
    tol: float = EIGENPAIR_TOL,
    random_state: Any = None,
) -> Spectrum:
    """Compute the eigenpairs that a method selects from, or each of several, for one or several k.

    Parameters are those of `neuc_mds`.
    """
    sizes = [components] if isinstance(components, Components) else list(components)
    names = (methods,) if isinstance(methods, str) else tuple(methods)
    check_methods(names)
    check_solver(solver, tol)
    if names == ("refined",):
        # It sets out from eigenvectors and leaves them: starts from residuals of 1e-3 end where
        # exact ones do.
        tol = max(tol, 1e-3)
    wanted = [METHODS.get(name, union) for name in names]
    if names == ("refined",) and gram.n > MAX_DENSE:
        wanted = [neuc_plus]

    def rule(ends: Ends) -> Selection:
        chosen = [select(ends, size) for select in wanted for size in sizes]
        if len(chosen) == 1:
            return chosen[0]
        kept = np.unique(np.concatenate([selection.kept for selection in chosen]))
        return Selection(kept, ends.values[kept])

    return solve(
        gram,
        rule,
        max(size.total for size in sizes),
        solver=solver,
        tol=tol,
        random_state=random_state,
        spare=any(name not in METHODS for name in names),
    )


def whole_spectrum(gram: Gram) -> Spectrum:
    """Compute all eigenpairs: they serve every method and every k."""
    return full_spectrum(gram)


def outer_spectrum(gram: Gram) -> Spectrum:
    """Compute all eigenpairs, or of many objects the hundred of largest magnitude."""
    if takes_all(gram.n, INSPECTED_PAIRS):
        return full_spectrum(gram)

    def rule(ends: Ends) -> Selection:
        by_size = np.argsort(-np.abs(ends.values), kind="stable")[:INSPECTED_PAIRS]
        # The lowest one decides whether D is Euclidean.
        kept = np.unique(np.r_[by_size, ends.size - 1] if ends.values[-1] < 0 else by_size)
        kept = kept[np.abs(ends.values[kept]) > ends.null_level]
        return Selection(kept, ends.values[kept])

    return solve(gram, rule, INSPECTED_PAIRS, tol=INSPECTED_TOL, random_state=0)


def embed_spectrum(
    gram: Gram,
    spectrum: Spectrum,
    components: Components,
    method: str,
    *,
    squared: bool = False,
    labels: tuple[str, ...] | None = None,
    limits: Limits | None = None,
) -> Embedding:
    """Embed from a spectrum that is already there: one solve serves every method and every k.

    Parameters are those of `neuc_mds`; `limits` are for "refined".
    """
    facts: dict[str, Any] = {
        "method": method,
        "requested": components.total,
        "squared": squared,
        "labels": labels,
    }
    asked_for = components.signature is not None
    if method == "refined" and (asked_for or neuc_plus(spectrum.ends, components).k):
        refined = best_refined(gram, spectrum, components, limits or Limits.of("squared", gram.n))
        solution = from_refinement(gram, refined, spectrum=spectrum, requested=components.total)
        return build_embedding(solution, **facts)
    if method in ("exact", "refined"):
        selection = exact_selection(spectrum, gram.diagonal(), components)
    else:
        selection = METHODS[method](spectrum.ends, components)
    solution = from_selection(gram, spectrum, selection, components.total)
    return build_embedding(solution, **facts)


def takes_all(n: int, n_wanted: int) -> bool:
    """Tell whether all eigenvalues are computed: the fastest way, or cheap and exact in all."""
    return n <= FULL_UP_TO or 8 * n_wanted >= n
