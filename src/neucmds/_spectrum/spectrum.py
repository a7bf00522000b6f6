"""Eigenpairs of B from both ends, and exact sums over all of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from neucmds._backend.arrays import Array, asarray_like, namespace, to_numpy

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Ends:
    """Eigenvalues from both ends of the spectrum: all that a selection may look at.

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
        Sum of squares of the eigenvalues that are not among `values`, where it was measured;
        otherwise it is what `frobenius_sq` leaves.
    """

    values: npt.NDArray[np.float64]
    trace: float
    frobenius_sq: float
    n_top: int
    n_bottom: int
    precision: float = EPS
    unknown_sq: float | None = None

    @property
    def size(self) -> int:
        """Number of known eigenvalues."""
        return int(self.values.size)

    def dropped_sq(self, kept: npt.NDArray[np.intp]) -> float:
        """Sum of squares of all eigenvalues but the kept ones, as measured where it was.

        ‖B‖² less the kept squares has an error of some ε‖B‖².
        """
        lam = self.values
        if self.unknown_sq is not None:
            return self.unknown_sq + float(np.sum(np.delete(lam, kept) ** 2))
        return max(0.0, self.frobenius_sq - float(lam[kept] @ lam[kept]))

    @cached_property
    def null_level(self) -> float:
        """Magnitude below which an eigenvalue counts as zero."""
        largest = float(np.max(np.abs(self.values), initial=0.0))
        # Rounding D to single precision adds noise of norm ε√n at most.
        noise = 0.0 if self.precision <= EPS else 2 * self.precision * math.sqrt(self.size)
        return largest * max(max(64, self.size) * EPS, noise)

    @classmethod
    def of(cls, values: npt.ArrayLike) -> Ends:
        """Make the ends of a complete spectrum from all its eigenvalues, in any order."""
        lam = np.sort(np.asarray(values, dtype=np.float64))[::-1]
        return cls(lam, float(lam.sum()), float(lam @ lam), lam.size, lam.size)


@dataclass(frozen=True)
class Spectrum:
    """Eigenpairs of B, possibly partial; `Ends` explains fields of the same name.

    Parameters
    ----------
    vectors : array of shape (n, m)
        Orthonormal and centered: orthogonal to the constant vector.
    residuals : array of shape (m,)
        ``‖B u − λ u‖`` of each pair, or an estimate of it from some rows of B.
    converged : bool
        Whether the kept pairs met the tolerance.
    solver : str
        Name of the solver.
    value_errors : ndarray of shape (m,), optional
        Bounds on ``|uᵀBu − λ|``: the error of the products that the values come from.
    """

    values: Array
    vectors: Array
    residuals: Array
    trace: float
    frobenius_sq: float
    n_top: int
    n_bottom: int
    converged: bool = True
    solver: str = "full"
    precision: float = EPS
    value_errors: npt.NDArray[np.float64] | None = None
    unknown_sq: float | None = None

    @cached_property
    def ends(self) -> Ends:
        """The eigenvalues alone, as NumPy float64, for the selection rules."""
        lam = to_numpy(self.values).astype(np.float64)
        return Ends(
            lam,
            self.trace,
            self.frobenius_sq,
            self.n_top,
            self.n_bottom,
            self.precision,
            0.0 if self.complete else self.unknown_sq,
        )

    def take(self, kept: npt.NDArray[np.intp]) -> Array:
        """Return some eigenvectors, one column each."""
        if np.array_equal(kept, np.arange(self.values.shape[0])):
            return self.vectors
        xp = namespace(self.vectors)
        return xp.take(self.vectors, asarray_like(kept, self.vectors, dtype=xp.int64), axis=1)

    @property
    def complete(self) -> bool:
        """Whether every eigenvalue of B but the constant vector's is known."""
        return int(self.vectors.shape[0]) == int(self.values.shape[0]) + 1
