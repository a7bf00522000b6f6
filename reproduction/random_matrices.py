"""Errors of both methods on random symmetric matrices: by formula, and measured.

Paper: thm:rnd-matrix-compare, appendix:randommatrices. Errors are ``Σ_dropped λ² + (Σ_dropped
λ)²``, which is (C1 + C2)/4 (errata E6), of a random symmetric n × n matrix with entries of variance
σ², in units of n²σ². The share of the eigenvalues that is kept is c = k/n, from 0 to 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import semicircular
from sklearn.utils import check_random_state


@dataclass(frozen=True)
class SimulatedErrors:
    """Errors measured on one random matrix, in units of n²σ²."""

    classical: float
    neuc: float


def _second_moment(r: float) -> float:
    """Second moment of a semicircle up to 2 − r. Paper: cmdserror."""
    angle = np.arcsin(1 - r / 2)
    return float(0.5 + (angle - np.sin(4 * angle) / 4) / np.pi)


def _cut(share: float) -> float:
    """Depth that cuts a share off one end of a semicircle, its ends at ±2. Paper: cmdschooser."""
    # SciPy's semicircle ends at ±1.
    return float(2 - 2 * semicircular.isf(share))


def classical_cut(c: float) -> float:
    """Depth r at which classical MDS cuts the spectrum when it keeps the share c = k/n.

    Kept are the eigenvalues above (2 − r)σ√n. Classical MDS keeps only positive ones, so r stays 2
    from c = ½ on. Paper: cmdschooser.
    """
    return _cut(min(c, 0.5))


def neuc_cut(c: float) -> float:
    """Depth r at which Neuc-MDS cuts both ends of the spectrum when it keeps the share c = k/n.

    Kept are the eigenvalues beyond ±(2 − r)σ√n. Paper: neucmdschooser.
    """
    return _cut(c / 2)


def classical_error(c: float, n: int) -> float:
    """Error of classical MDS on noise, keeping the share c = k/n of the eigenvalues.

    Paper: cmdserror, tab:randommatrixerrors1. Grows with n; from c = ½ on it stays at 0.5 +
    0.1801·n.
    """
    r = classical_cut(c)
    slope = 16.0 / (9.0 * np.pi**2) * (r * (1 - r / 4)) ** 3
    return float(_second_moment(r) + slope * n)


def neuc_error(c: float) -> float:
    """Error of Neuc-MDS on noise, keeping the share c = k/n of the eigenvalues.

    Paper: neucmdserror, tab:randommatrixerrors1, tab:randommatrixerrors2. Does not grow with n.
    """
    return float(2.0 * _second_moment(neuc_cut(c)) - 1.0)


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
