"""The paper's two synthetic sets.

Both functions return **squared** dissimilarities, the paper's D: pass them with ``squared=True``.
Entries of Random-simplex may be negative.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.utils import check_random_state

from neucmds.backend.arrays import Floats, Marks
from neucmds.errors import InputError


def random_simplex(
    n: int = 1000, *, dim: int = 1000, random_state: Any = None
) -> Floats:
    """Squared dissimilarities of the Random-simplex set; negative entries are possible.

    Paper: subsec:syn-data-gen. A tenth of the coordinates count positive, the others negative. All
    but the last are uniform and nearly cancel out into a simplex; the last, ``0.3·i/n``, makes the
    one large negative eigenvalue. The set is that of the paper's tables (errata E11): positive
    coordinates from U(0, √(1/100)), negative ones from U(0, √(0.05/899)) at dim = 1000.

    Parameters
    ----------
    n : int
        Number of objects; the paper has 1000.
    dim : int
        Number of coordinates, at least 10; ``dim // 10`` of them count positive. The paper has
        1000, whatever n is.
    random_state : int, RandomState instance or None
        Source of randomness.

    Returns
    -------
    ndarray of shape (n, n)
        D, on the squared scale.
    """
    _check_sizes(n, dim, 10)
    rng = check_random_state(random_state)
    n_positive = dim // 10
    n_negative = dim - n_positive - 1
    # Errata E11: with a square root, and 0.05, where the paper prints none, and 0.5.
    high_positive = np.sqrt(1.0 / n_positive)
    high_negative = np.sqrt(0.05 / n_negative)
    points = np.empty((n, dim))
    points[:, :n_positive] = rng.uniform(0.0, high_positive, (n, n_positive))
    points[:, n_positive:-1] = rng.uniform(0.0, high_negative, (n, n_negative))
    points[:, -1] = 0.3 * np.arange(1, n + 1) / n
    # D does not depend on the mean, and the difference below loses fewer digits without it.
    points -= points.mean(axis=0)
    signed = points.copy()
    signed[:, n_positive:] *= -1
    products = signed @ points.T
    norms = np.diag(products)
    sq_dissimilarity: Floats = np.add.outer(norms, norms) - (
        products + products.T
    )
    return sq_dissimilarity


def euclidean_ball(
    n: int = 1000, *, dim: int = 10, random_state: Any = None
) -> Floats:
    """Squared distances between the surfaces of balls: the Euclidean-ball set.

    Paper: subsec:syn-data-gen. Centres are uniform in a hypercube of edge 100. Balls get their
    radius one after the other: U(0, 5) with probability 0.9, else 0.8 times the distance from the
    centre to the closest other ball, where a ball without a radius yet counts as its centre. The
    distance of two balls is the smallest distance between points of the one and of the other, so
    balls that overlap are at distance 0 (none do at n = 1000; in a denser cube a late small ball
    can reach into an early big one).

    Parameters
    ----------
    n : int
        Number of balls; the paper has 1000.
    dim : int
        Dimension of the hypercube; the paper has 10.
    random_state : int, RandomState instance or None
        Source of randomness.

    Returns
    -------
    ndarray of shape (n, n)
        D, on the squared scale.
    """
    _check_sizes(n, dim, 1)
    rng = check_random_state(random_state)
    centres = rng.uniform(0.0, 100.0, (n, dim))
    is_big = rng.uniform(size=n) < 0.1
    radii = _ball_radii(centres, is_big, rng.uniform(0.0, 5.0, n))
    gaps = cdist(centres, centres) - np.add.outer(radii, radii)
    return np.square(np.maximum(gaps, 0.0))


def _check_sizes(n: int, dim: int, least_dim: int) -> None:
    """Refuse fewer objects than a pair, or fewer coordinates than a set needs."""
    if n < 2 or dim < least_dim:
        raise InputError(
            f"{n=} must be at least 2, and {dim=} at least {least_dim}."
        )


def _ball_radii(centres: Floats, is_big: Marks, small_radii: Floats) -> Floats:
    """Return the radii, drawn in the order of the balls; a later ball counts as its centre."""
    radii = np.zeros(len(centres))
    for i in range(len(centres)):
        if is_big[i]:
            gaps = cdist(centres[i : i + 1], centres)[0] - radii
            gaps[i] = np.inf
            # A centre inside another ball has a negative gap: its ball is a point.
            radii[i] = 0.8 * max(gaps.min(), 0.0)
        else:
            radii[i] = small_radii[i]
    return radii
