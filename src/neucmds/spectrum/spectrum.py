"""Eigenpairs of B from both ends of its spectrum, exact sums over all, and all pairs by LAPACK."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from neucmds.backend.arrays import (
    EPS,
    Array,
    Floats,
    Indices,
    eps,
    in_double,
    index_like,
    is_numpy,
    namespace,
    to_numpy,
)
from neucmds.backend.memory import require_memory
from neucmds.spectrum.operators.gram import Gram


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues of B from both ends of its spectrum, and the eigenvectors where they are known.

    Parameters
    ----------
    values : ndarray of shape (m,), float64
        Sorted, largest first. The constant vector's zero is never among them (errata E3).
    trace, frobenius_sq : float
        Sum and sum of squares of *all* eigenvalues, the unknown ones in the middle included.
    n_top, n_bottom : int
        ``values[:n_top]`` are the largest eigenvalues of B and ``values[m - n_bottom:]`` the
        smallest. A complete spectrum has both equal to m.
    precision : float
        Relative rounding of the entries of D.
    unknown_sq : float, optional
        Sum of squares of the eigenvalues that are not among `values`, if it was measured. None: it
        is `frobenius_sq` less the squares of `values`.
    vectors : array of shape (n, m), optional
        Eigenvectors as columns: orthonormal, and orthogonal to the constant vector.
    residuals : ndarray of shape (m,)
        ``‖B u − λ u‖`` of each pair, or a bound on it. Of pairs that a selection rule keeps it is
        measured by float64 products, or on a GPU estimated from some rows of D.
    value_errors : ndarray of shape (m,)
        Bounds on ``|uᵀBu − λ|``: the error of the products that the values come from.
    converged : bool
        Whether the kept pairs met the tolerance.
    solver : str
        Name of the solver.
    """

    values: Floats
    trace: float
    frobenius_sq: float
    n_top: int
    n_bottom: int
    precision: float = EPS
    unknown_sq: float | None = None
    vectors: Array = None
    residuals: Floats = field(default_factory=lambda: np.empty(0))
    value_errors: Floats = field(default_factory=lambda: np.empty(0))
    converged: bool = True
    solver: str = "full"

    @classmethod
    def of(cls, values: Array) -> Spectrum:
        """Make a complete spectrum, without vectors, from all its eigenvalues in any order."""
        lam = np.sort(np.asarray(values, dtype=np.float64))[::-1]
        return cls(lam, float(lam.sum()), float(lam @ lam), lam.size, lam.size)

    def dropped_sq(self, kept: Indices) -> float:
        """Sum of squares of all eigenvalues but the kept ones."""
        lam = self.values
        # ‖B‖² less the kept squares, below, has an error of some ε‖B‖².
        if self.unknown_sq is not None:
            return self.unknown_sq + float(np.sum(np.delete(lam, kept) ** 2))
        return max(0.0, self.frobenius_sq - float(lam[kept] @ lam[kept]))

    @cached_property
    def null_level(self) -> float:
        """Magnitude below which an eigenvalue counts as zero."""
        largest = float(np.max(np.abs(self.values), initial=0.0))
        level = max(64, self.values.size) * EPS
        if self.precision > EPS:
            # D that was rounded to float32 has noise, of norm ε√n at most.
            level = max(
                level, 2 * self.precision * math.sqrt(self.values.size)
            )
        return largest * level

    def take(self, kept: Indices) -> Array:
        """Return the eigenvectors of kept values, one column each."""
        if np.array_equal(kept, np.arange(self.values.size)):
            return self.vectors
        columns = index_like(kept, self.vectors)
        return namespace(self.vectors).take(self.vectors, columns, axis=1)

    @property
    def complete(self) -> bool:
        """Whether every eigenvalue of B but the constant vector's is known."""
        return bool(self.vectors.shape[0] == self.values.size + 1)


def full_spectrum(gram: Gram) -> Spectrum:
    """Compute all eigenpairs of B but that of the constant vector, by LAPACK.

    B is formed with its zero for the constant vector moved below all other eigenvalues. So the
    constant vector does not mix with other null vectors, and its pair is the last, which is left
    out (errata E3).

    Paper: lm:0eigenvec; lm:vdv_qdq leaves the constant vector out by a reflection.
    """
    xp = gram.xp
    if is_numpy(gram.diagonal()):
        # Five matrices n × n in float64: B, the eigenvectors and the work space of LAPACK.
        require_memory(
            5 * 8 * gram.n**2,
            f"the whole spectrum of {gram.n} objects",
            "ask for fewer coordinates, which are found from both ends of the spectrum",
        )
    # B_ij = −½(D_ij − row_mean_i − row_mean_j + mean).
    shifted = xp.concat([in_double(part) for _, part in gram.walk()], axis=0)
    shifted -= gram.row_means[:, None]
    shifted -= gram.row_means - gram.mean
    shifted *= -0.5
    # No eigenvalue is below −‖B‖, and that of the constant vector becomes −1.5 ‖B‖.
    norm = math.sqrt(gram.frobenius_sq)
    shifted -= 1.5 * (norm or 1.0) / gram.n
    values, vectors = xp.linalg.eigh(shifted)
    # Where B is zero, the rounding of the shift would be left: times zero.
    lam = to_numpy(xp.flip(values, axis=0)[:-1]) * (norm > 0)
    scale = float(np.max(np.abs(lam), initial=0.0))
    return Spectrum(
        values=lam,
        vectors=xp.flip(vectors, axis=1)[:, :-1],
        # LAPACK's backward error bounds ‖Bu − λu‖.
        residuals=np.full(lam.size, scale * gram.n * EPS),
        # The usual error, far below that bound.
        value_errors=np.full(lam.size, 8 * scale * math.sqrt(gram.n) * EPS),
        trace=gram.trace,
        frobenius_sq=gram.frobenius_sq,
        n_top=gram.n - 1,
        n_bottom=gram.n - 1,
        precision=eps(gram.dtype, xp),
        unknown_sq=0.0,
    )
