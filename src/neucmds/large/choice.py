"""Choose landmarks: drawn, spread out, or given by the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from neucmds.backend.arrays import Array, Indices
from neucmds.errors import InputError, option

# Embedding L landmarks takes memory of L² and time of L³: a second for a thousand.
DEFAULT_LANDMARKS = 1000
# Objects that "maxmin" chooses among, per landmark. Each is compared with all landmarks.
CANDIDATES = 10


def landmark_count(n_landmarks: int | float | None, n: int, k: int) -> int:
    """Return the number of landmarks of n objects: by default max(1000, 4k), or n if that is less.

    A float is a share of n.
    """
    if n_landmarks is None:
        count = min(n, max(DEFAULT_LANDMARKS, 4 * k))
    elif isinstance(n_landmarks, float) and 0 < n_landmarks <= 1:
        count = max(1, round(n_landmarks * n))
    elif isinstance(n_landmarks, (int, np.integer)) and not isinstance(
        n_landmarks, bool
    ):
        count = int(n_landmarks)
    else:
        raise InputError(
            f"{option('n_landmarks', n_landmarks)} must be a whole number or a share in (0, 1]."
        )
    if count > n:
        raise InputError(
            f"{option('n_landmarks', n_landmarks)} of {n} objects: there are fewer."
        )
    _refuse_few(count, k)
    return count


def _refuse_few(count: int, k: int) -> None:
    """Refuse fewer landmarks than k coordinates need."""
    if count < k + 1:
        raise InputError(
            f"{count} landmarks are too few for {k} coordinates; at least k + 1 = {k + 1} are "
            "needed, and 4k or more place well."
        )


def checked_rows(landmarks: Any, n: int, k: int) -> Indices:
    """Return row numbers from 0 on, given by a user: whole, within range, each once, enough."""
    ids = np.asarray(landmarks)
    if ids.ndim != 1 or not np.issubdtype(ids.dtype, np.integer):
        raise InputError(
            f"{option('landmarks', landmarks)} must be 'random', 'maxmin' or row numbers."
        )
    outside = ids[(ids < -n) | (ids >= n)]
    if outside.size:
        raise InputError(
            f"landmarks hold row {outside[0]}, but there are {n} objects."
        )
    ids = np.where(ids < 0, ids + n, ids).astype(np.intp)
    rows, counts = np.unique(ids, return_counts=True)
    if np.any(counts > 1):
        raise InputError(
            f"landmarks hold row {rows[counts > 1][0]} twice; name each one once."
        )
    _refuse_few(ids.size, k)
    return ids


def random_sample(n: int, count: int, rng: np.random.RandomState) -> Indices:
    """Draw `count` of `n` objects without replacement, in ascending order."""
    return np.sort(rng.permutation(n)[:count]).astype(np.intp)


def maxmin(
    n: int,
    count: int,
    dissimilarities_to: Callable[[int], Array],
    rng: np.random.RandomState,
) -> Indices:
    """Choose objects, the first at random, each other one farthest from those chosen before it.

    `dissimilarities_to(i)` are the dissimilarities (n,) of all objects to object i.
    """
    chosen = []
    to_nearest_chosen = np.full(n, np.inf)
    farthest = int(rng.randint(n))
    for _ in range(count):
        chosen.append(farthest)
        np.minimum(
            to_nearest_chosen,
            dissimilarities_to(farthest),
            out=to_nearest_chosen,
        )
        # No object is chosen twice, not even where all others are its copies, at distance 0.
        to_nearest_chosen[farthest] = -np.inf
        farthest = int(np.argmax(to_nearest_chosen))
    return np.asarray(chosen, dtype=np.intp)
