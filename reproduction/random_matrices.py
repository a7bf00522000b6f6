"""Errors of both methods on random symmetric matrices: measured, and in the two limits of k.

Paper: thm:rnd-matrix-compare, appendix:randommatrices. Errors are in units of n²σ², as in
`neucmds.theory`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state


@dataclass(frozen=True)
class SimulatedErrors:
    """Errors measured on one random matrix, in units of n²σ²."""

    classical: float
    neuc: float


def classical_error_small(k: int, n: int) -> float:
    """Error of classical MDS for k ≪ n. Paper: thm:rnd-matrix-compare (1)."""
    return 1.0 + 4.0 * k * k / n - 4.0 * k / n


def neuc_error_small(k: int, n: int) -> float:
    """Error of Neuc-MDS for k ≪ n. Paper: thm:rnd-matrix-compare (1)."""
    return 1.0 - 4.0 * k / n


def neuc_error_large(c: float) -> float:
    """Error of Neuc-MDS for c = k/n → 1. Paper: proof of thm:rnd-matrix-compare (2)."""
    return float(np.pi**2 / 12.0 * (1.0 - c) ** 3)


def random_spectrum(
    n: int, *, random_state: Any = None
) -> npt.NDArray[np.float64]:
    """Eigenvalues, smallest first, of one random symmetric matrix with standard normal entries."""
    rng = check_random_state(random_state)
    upper = np.triu(rng.standard_normal((n, n)))
    upper += np.triu(upper, 1).T
    return np.asarray(np.linalg.eigvalsh(upper))


def errors_of_spectrum(
    lam: npt.NDArray[np.float64], k: int
) -> SimulatedErrors:
    """Measure both errors on the eigenvalues, smallest first, of a matrix with unit variance.

    Classical MDS keeps the k largest positive eigenvalues, Neuc-MDS the best of all splits of k
    into largest and smallest (thm:selection).
    """
    n = lam.size
    positive = min(k, int((lam > 0).sum()))
    dropped = lam[: n - positive]
    classical = float((dropped**2).sum() + dropped.sum() ** 2)
    sums = np.concatenate([[0.0], np.cumsum(lam)])
    squares = np.concatenate([[0.0], np.cumsum(lam**2)])
    low = np.arange(k + 1)  # smallest kept; dropped are lam[low : low + n - k]
    errors = (
        squares[low + n - k]
        - squares[low]
        + (sums[low + n - k] - sums[low]) ** 2
    )
    return SimulatedErrors(
        classical=classical / n**2, neuc=float(errors.min()) / n**2
    )
