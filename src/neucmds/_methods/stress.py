"""STRESS = C1 + C2 + C3, exactly, from the kept pairs and the diagonal of B alone."""

from __future__ import annotations

import numpy as np

from neucmds._backend.arrays import Array, asarray_like, namespace
from neucmds._methods.selection import Selection
from neucmds._spectrum import Spectrum

__all__ = ["StressTerms", "stress_terms"]

StressTerms = tuple[float, float, float]


def stress_terms(spectrum: Spectrum, diagonal: Array, selection: Selection) -> StressTerms:
    """C1, C2 and C3 of G = U_W M U_Wᵀ in O(nk²), or O(nk) when M is diagonal.

    With E = B − G and e = diag(E): C1 = 4‖E‖², C2 = 4(Σe)², C3 = 2n‖e‖² − C2/2. Neither D̂ nor the
    dropped eigenpairs are needed (docs/facts.md, 2).

    Paper: thm:stress-decomp, thm:general_lower_error.
    """
    xp = namespace(spectrum.vectors)
    u = spectrum.take(selection.kept)
    core = asarray_like(selection.core, u)
    gram_rows = u * core[None, :] if selection.core.ndim == 1 else u @ core
    e = diagonal - xp.astype(xp.sum(gram_rows * u, axis=1), diagonal.dtype, copy=False)
    c1 = 4 * _gram_error_sq(spectrum, selection)
    c2 = 4 * float(xp.sum(e)) ** 2
    c3 = 2 * int(e.shape[0]) * float(xp.vecdot(e, e)) - c2 / 2
    return c1, c2, max(c3, 0.0)


def _gram_error_sq(spectrum: Spectrum, selection: Selection) -> float:
    """‖B − U_W M U_Wᵀ‖²_F = Σ of squares dropped + ‖Λ_W − M‖²_F."""
    lam = spectrum.ends.values
    kept = lam[selection.kept]
    if spectrum.complete:
        dropped_sq = float(np.sum(np.delete(lam, selection.kept) ** 2))
    else:
        dropped_sq = max(0.0, spectrum.frobenius_sq - float(kept @ kept))
    change = kept - selection.core if selection.core.ndim == 1 else np.diag(kept) - selection.core
    return dropped_sq + float(np.sum(change**2))
