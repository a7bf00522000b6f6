"""What people do today instead: make D Euclidean by adding a constant, then scale classically."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigvals, eigvalsh
from scipy.sparse.linalg import LinearOperator, eigs

from neucmds._operator import DenseGram

__all__ = ["Corrected", "cailliez", "lingoes"]

Floats = npt.NDArray[np.float64]
# Up to here LAPACK on the 2n×2n matrix is as fast as Arnoldi iterations, and never fails.
DENSE_CAILLIEZ = 150


@dataclass(frozen=True)
class Corrected:
    """A Euclidean D (squared scale) and the constant that made it so."""

    sq_dissimilarity: Floats
    constant: float


def lingoes(sq_dissimilarity: Floats) -> Corrected:
    """Add 2c to every squared dissimilarity: c is the size of the lowest eigenvalue of B."""
    d = np.asarray(sq_dissimilarity, dtype=np.float64)
    gram = DenseGram(d).matmat(np.eye(d.shape[0]))
    constant = max(0.0, -float(eigvalsh(gram, subset_by_index=(0, 0))[0]))
    corrected = d + 2 * constant
    np.fill_diagonal(corrected, 0.0)
    return Corrected(corrected, constant)


def cailliez(sq_dissimilarity: Floats) -> Corrected:
    """Add c to every dissimilarity: the least c that makes their squares Euclidean.

    c is the largest real eigenvalue of [[0, 2B₂], [−I, −4B₁]], with B₂ and B₁ the centered −½D of
    the squared and of the plain dissimilarities.
    """
    d2 = np.asarray(sq_dissimilarity, dtype=np.float64)
    d1 = np.sqrt(d2)
    n = d2.shape[0]
    gram2, gram1 = (DenseGram(d).matmat(np.eye(n)) for d in (d2, d1))
    constant = max(0.0, _largest_real(gram2, gram1))
    corrected = (d1 + constant) ** 2
    np.fill_diagonal(corrected, 0.0)
    return Corrected(corrected, constant)


def _largest_real(gram2: Floats, gram1: Floats) -> float:
    n = gram2.shape[0]
    if n <= DENSE_CAILLIEZ:
        block = np.block([[np.zeros((n, n)), 2 * gram2], [-np.eye(n), -4 * gram1]])
        return float(np.max(eigvals(block).real))

    def product(v: Floats) -> Floats:
        v = v.ravel()
        return np.concatenate([2 * gram2 @ v[n:], -v[:n] - 4 * gram1 @ v[n:]])

    operator = LinearOperator((2 * n, 2 * n), matvec=product, dtype=np.float64)
    start = np.random.default_rng(0).normal(size=2 * n)
    return float(np.max(eigs(operator, k=1, which="LR", v0=start, return_eigenvectors=False).real))
