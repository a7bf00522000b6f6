"""Corrections that make D Euclidean by adding a constant: Lingoes and Cailliez."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigvalsh
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs

from neucmds.backend.arrays import Floats, to_floats
from neucmds.errors import InputError
from neucmds.problem.dense import as_squares
from neucmds.problem.names import Labels


@dataclass(frozen=True, eq=False)
class Corrected:
    """A Euclidean D and the constant that made it so.

    Parameters
    ----------
    sq_dissimilarity : ndarray of shape (n, n)
        On the squared scale: hand it on with ``squared=True``.
    constant : float
        The constant that was added; 0 if D was Euclidean already.
    """

    sq_dissimilarity: Floats
    constant: float


def lingoes(D: Any, *, squared: bool = False) -> Corrected:
    """Add 2c to every squared dissimilarity: −c is the lowest eigenvalue of B, or c = 0 if B ⪰ 0.

    Parameters
    ----------
    D : array, DataFrame, scikit-bio DistanceMatrix, condensed vector, nested list or path
        As for `neuc_mds`.
    squared : bool, default=False
        Whether D holds squared dissimilarities.

    Returns
    -------
    Corrected

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds.ecology import lingoes
    >>> D = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 4.0], [1.0, 4.0, 0.0]])
    >>> round(lingoes(D).constant, 6)
    2.0
    """
    sq_d, _ = sq_values(D, squared)
    constant = max(0.0, -_lowest_eigenvalue(centered_gram(sq_d)))
    return _corrected(sq_d + 2 * constant, constant)


def cailliez(D: Any, *, squared: bool = False) -> Corrected:
    """Add c to every dissimilarity: the least c that makes their squares Euclidean.

    c is the largest real eigenvalue of [[0, 2B₂], [−I, −4B₁]], or 0 if D is Euclidean. B₂ is the
    centered −½d², B₁ the centered −½d.

    Parameters
    ----------
    D : array, DataFrame, scikit-bio DistanceMatrix, condensed vector, nested list or path
        As for `neuc_mds`.
    squared : bool, default=False
        Whether D holds squared dissimilarities; they must not be negative.

    Returns
    -------
    Corrected

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds.ecology import cailliez
    >>> D = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 4.0], [1.0, 4.0, 0.0]])
    >>> round(cailliez(D).constant, 6)  # 4 + 2 = (1 + 2) + (1 + 2)
    2.0
    """
    d, _ = root_values(D, squared)
    # The block matrix holds d², d and 1: it loses no digits if the largest d is 1.
    unit = float(d.max()) or 1.0
    d_gram = centered_gram(d / unit)
    sq_gram = centered_gram((d / unit) ** 2)
    constant = 0.0
    # The block matrix of a Euclidean D has no eigenvalue above 0, but rounding would give one.
    if _lowest_eigenvalue(sq_gram) < -1e-12:
        constant = max(0.0, unit * _largest_real_eigenvalue(sq_gram, d_gram))
    return _corrected((d + constant) ** 2, constant)


def sq_values(D: Any, squared: bool) -> tuple[Floats, Labels]:
    """Read and check D; return its squares and its names."""
    squares, names = as_squares(D, squared=squared)
    return to_floats(squares), names


def root_values(D: Any, squared: bool) -> tuple[Floats, Labels]:
    """Read and check D; return its dissimilarities, not squared, and its names."""
    sq_d, names = sq_values(D, squared)
    lowest = float(sq_d.min())
    if lowest < 0:
        raise InputError(
            f"the lowest squared dissimilarity is {lowest:.4g}, below 0, and has no root; use "
            "lingoes, which corrects squares."
        )
    return np.sqrt(sq_d), names


def centered_gram(values: Floats) -> Floats:
    """Return −½ times the matrix, with centered rows and columns."""
    centered = values - values.mean(axis=0)
    gram: Floats = -0.5 * (centered - centered.mean(axis=1, keepdims=True))
    return gram


def _corrected(sq_dissimilarity: Floats, constant: float) -> Corrected:
    """Return a corrected D; the diagonal of `sq_dissimilarity`, a new array, is set to zero."""
    np.fill_diagonal(sq_dissimilarity, 0.0)
    return Corrected(sq_dissimilarity, constant)


def _lowest_eigenvalue(gram: Floats) -> float:
    return float(eigvalsh(gram, subset_by_index=(0, 0))[0])


def _largest_real_eigenvalue(sq_gram: Floats, d_gram: Floats) -> float:
    """Return the largest real part of the eigenvalues of [[0, 2B₂], [−I, −4B₁]].

    An eigenvalue of this real part is real, as vegan and ape assume, too.
    """
    n = len(sq_gram)

    def product(vector: Floats) -> Floats:
        upper, lower = np.split(vector.ravel(), 2)
        return np.concatenate(
            [2 * (sq_gram @ lower), -upper - 4 * (d_gram @ lower)]
        )

    operator = LinearOperator((2 * n, 2 * n), matvec=product, dtype=np.float64)
    start = np.random.default_rng(0).normal(size=2 * n)
    try:
        values = eigs(
            operator,
            k=1,
            which="LR",
            v0=start,
            # Above about 100 restarts the dense solve below is quicker.
            maxiter=100,
            return_eigenvectors=False,
        )
    except ArpackNoConvergence:
        # If D is nearly Euclidean, many eigenvalues lie close to the largest: compute all.
        values = np.linalg.eigvals(
            np.block(
                [[np.zeros((n, n)), 2 * sq_gram], [-np.eye(n), -4 * d_gram]]
            )
        )
    return float(np.max(values.real))
