"""STRESS against k for the paper's methods: one spectrum, every k, in O(n²) altogether."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from neucmds.backend.arrays import to_numpy
from neucmds.spectrum.operators.gram import Gram
from neucmds.spectrum.selection import METHODS
from neucmds.spectrum.spectrum import Spectrum

Floats = npt.NDArray[np.float64]


def stress_curve(
    gram: Gram, spectrum: Spectrum, method: str, ks: Iterable[int]
) -> Floats:
    """STRESS of one of the paper's methods at each k.

    All four give every kept eigenvalue the same shift τ, so diag(G) = Σ_kept (λ + τ) u∘u. From one
    k to the next few pairs come and go; only these change the two sums, Σλ u∘u and Σ u∘u.

    Parameters
    ----------
    gram : Gram
    spectrum : Spectrum
        Complete.
    method : {"classical", "lower", "neuc", "neuc+"}
    ks : iterable of int
        In ascending order for speed.

    Paper: fig:dim-paradox, thm:stress-decomp.
    """
    lam = spectrum.values
    squares = np.square(to_numpy(spectrum.vectors)).T.copy()
    diagonal, n = to_numpy(gram.diagonal()), gram.n
    kept = np.zeros(lam.size, dtype=bool)
    with_values, plain = np.zeros(n), np.zeros(n)
    curve = []
    for k in ks:
        selection = METHODS[method](spectrum, k)
        now = np.zeros(lam.size, dtype=bool)
        now[selection.kept] = True
        for changed, sign in ((now & ~kept, 1.0), (kept & ~now, -1.0)):
            with_values += sign * (lam[changed] @ squares[changed])
            plain += sign * squares[changed].sum(axis=0)
        kept = now
        shift = (
            float(np.mean(selection.core - lam[selection.kept]))
            if selection.kept.size
            else 0.0
        )
        e = diagonal - with_values - shift * plain
        c1 = 4 * (
            float(np.sum(lam[~kept] ** 2)) + selection.kept.size * shift**2
        )
        c2 = 4 * float(e.sum()) ** 2
        curve.append(c1 + c2 / 2 + 2 * n * float(e @ e))
    return np.array(curve)
