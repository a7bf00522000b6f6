"""Fit a given signature, never worse than a smaller one that it contains.

Eigenvectors of a sign that the spectrum hardly has are a bad start. So a signature is also reached
from those with one coordinate fewer, by the column that lowers the objective fastest. At G +
t·a·vvᵀ the objective falls at the rate t·a·vᵀHv for a matrix H that each objective knows, so v is
the eigenvector of the largest eigenvalue of aH. If that is not positive, no column of that sign
helps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter

import numpy as np

from neucmds._backend.arrays import Array, asarray_like, centered, namespace, to_numpy
from neucmds._input import Components
from neucmds._methods.geometry import canonical, sq_dissimilarities
from neucmds._methods.refined.descent import EXACT, Refined, Start

Signature = tuple[int, int]

# Most contained signatures that are all tried; beyond, only those with one coordinate fewer of
# either sign.
MOST_TRIED = 25
# A column must lower the objective by this share of it to be worth a coordinate.
WORTH = 1e-4
# Products of a search for the steepest column: it need not be exact, a descent follows.
SEARCH = 40


def lowest_end(
    signature: Signature,
    start_of: Callable[[Components], Start],
    extended: Callable[[Refined, float], Start | None],
    descend: Callable[[Start], Refined],
) -> Refined:
    """Return the lowest end of a descent with a signature, or with one that it contains.

    Each of up to `MOST_TRIED` contained signatures is reached from eigenvectors (`start_of`) and
    from the best ends with one coordinate fewer (`extended` adds a column of a sign, if one helps),
    in a fixed order.
    """
    whole = start_of(Components(sum(signature), signature))
    nothing = descend(Start(whole.coordinates[:, :0], whole.signs[:0]))
    positive, negative = signature if _contained(signature) <= MOST_TRIED else whole.signature
    depth = positive + negative if _contained((positive, negative)) <= MOST_TRIED else 1
    ends: dict[Signature, Refined] = {(0, 0): nothing}
    for p in range(max(0, positive - depth), positive + 1):
        for q in range(max(0, negative - depth), negative + 1):
            if (p, q) == (0, 0):
                continue
            contained = [
                (ends[s], a) for s, a in (((p - 1, q), 1.0), ((p, q - 1), -1.0)) if s in ends
            ]
            eigenvectors = start_of(Components(p + q, (p, q)))
            starts = [eigenvectors if eigenvectors.signs.size == p + q else None]
            starts += [extended(end, a) for end, a in contained]
            found = [_without_null_columns(descend(one)) for one in starts if one is not None]
            fewer = min((end for end, _ in contained), key=attrgetter("value"), default=nothing)
            best = min(found, key=attrgetter("value"), default=fewer)
            # A gain within rounding does not count.
            worth = best.value < (1 - WORTH) * fewer.value - EXACT * nothing.value
            ends[p, q] = best if worth else fewer
    return ends[positive, negative]


def _contained(signature: Signature) -> int:
    """Count the signatures that one contains, itself included."""
    return (signature[0] + 1) * (signature[1] + 1)


def _without_null_columns(found: Refined) -> Refined:
    """Leave out columns that the descent has shrunk to zero."""
    x, weights = canonical(found.coordinates, found.signs)
    sizes = np.abs(weights)
    real = int(np.sum(sizes > 1e-12 * np.max(sizes, initial=0.0)))
    return replace(found, coordinates=x[:, :real], signs=np.sign(weights[:real]))


def with_steepest_column(
    sq_dissimilarity: Array, end: Refined, sign: float, weights: Array | None = None
) -> Start | None:
    """Add the column of a sign that lowers STRESS fastest, of the best length; None if none does.

    Along t·a·vvᵀ it is f − t·a·vᵀHv + t²Σ w_ij (v_i − v_j)⁴, with H = −4(Diag(R1) − R) and
    R = w∘(D̂ − D).
    """
    xp, x = namespace(end.coordinates), end.coordinates
    pull = sq_dissimilarities(x, x, asarray_like(end.signs, x)) - sq_dissimilarity
    pull = pull if weights is None else weights * pull
    total = xp.sum(pull, axis=1)[:, None]

    def rate(v: Array) -> Array:
        return centered((-4.0 * sign) * (total * v - pull @ v))

    found = _steepest(rate, total[:, 0])
    if found is None:
        return None
    v, slope = found
    fourth = (v - xp.matrix_transpose(v)) ** 4
    fourth = float(xp.sum(fourth if weights is None else weights * fourth))
    if not fourth > 0:
        return None
    column = v * float(np.sqrt(slope / (2 * fourth)))
    return Start(xp.concat([x, column], axis=1), np.append(end.signs, sign))


def _steepest(rate: Callable[[Array], Array], like: Array) -> tuple[Array, float] | None:
    """Return the centered unit v of largest vᵀHv, and that; None if it is not positive.

    `rate` multiplies a centered vector with H; `like` gives n, the library and the precision.
    """
    xp, n = namespace(like), int(like.shape[0])
    start = np.random.default_rng(0).standard_normal((n, 1))
    v = centered(asarray_like(start, like))
    basis: list[Array] = []
    images: list[Array] = []
    largest = 0.0
    for _ in range(min(SEARCH, n - 1)):
        for _ in range(2 if basis else 0):
            q = xp.concat(basis, axis=1)
            v = centered(v - q @ (xp.matrix_transpose(q) @ v))
        length = float(xp.linalg.vector_norm(v))
        if not length > 1e-10 * largest:
            break
        basis.append(v / length)
        images.append(rate(basis[-1]))
        largest = max(largest, float(xp.linalg.vector_norm(images[-1])))
        v = images[-1]
    if not basis:
        return None
    q, hq = xp.concat(basis, axis=1), xp.concat(images, axis=1)
    small = to_numpy(xp.matrix_transpose(q) @ hq)
    values, vectors = np.linalg.eigh((small + small.T) / 2)
    if not values[-1] > 1e-10 * np.max(np.abs(values)):
        return None
    return q @ asarray_like(vectors[:, -1:], like), float(values[-1])
