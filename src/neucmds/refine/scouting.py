"""Choose curvature and signature of many objects by short descents on a sample of them."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, pi, sqrt
from typing import Literal

import numpy as np
from sklearn.utils import check_random_state

from neucmds.backend.arrays import Array, asarray_like, namespace, row_blocks
from neucmds.form import Form
from neucmds.problem.components import AUTO, Size, total_of
from neucmds.refine.descent import EXACT, TOL, Limits, Refined
from neucmds.refine.loss_starts import Search, usual_starts
from neucmds.refine.tiles import Tiles

# Objects in a sample: 300 and 1000 of 2,296 crossings choose the same √−κ = 4.
SCOUTS = 500
# Iterations of a short descent: 500 end 8 % higher on 100 hops, where far κ converge late.
BRIEF = 150
# √−κ times the largest d: beyond it nothing has been gained on any data.
FARTHEST = 15.0
# Curvatures tried at first, each √−κ half of the last, and then at most between the best two.
CURVATURES = 4
# Share of the squared error that a curvature must gain to be chosen, or to be looked for.
LEAST_GAIN = 0.02


def scout(
    sq_dissimilarity: Array,
    components: Size,
    loss: str,
    *,
    curvature: float | Literal["auto"] = 0.0,
    weights: Array | None = None,
    floor: float | None = None,
    seed: int = 0,
) -> tuple[tuple[int, int], float]:
    """Return the signature and κ of least error, the latter in units of 1/(mean d)².

    Parameters
    ----------
    sq_dissimilarity : array of shape (n, n)
        d² of all objects, of which at most 500 are drawn.
    components, loss, weights, floor
        As for `refine_for_loss`.
    curvature : float or "auto", default=0
        κ, or what chooses it: the error of d, of which a κ other than zero must gain 2 %.
    seed : int
        Draws the objects and the starts.
    """
    xp = namespace(sq_dissimilarity)
    n = int(sq_dissimilarity.shape[0])
    if n > SCOUTS:
        drawn = np.sort(
            np.random.default_rng(seed).choice(n, SCOUTS, replace=False)
        )
        ids = asarray_like(drawn, sq_dissimilarity, dtype=xp.int64)
        sq_dissimilarity = xp.take(
            xp.take(sq_dissimilarity, ids, axis=0), ids, axis=1
        )
        if weights is not None:
            weights = xp.take(xp.take(weights, ids, axis=0), ids, axis=1)
    mean = mean_distance(sq_dissimilarity, weights)

    def search_of(curvature: float) -> Search:
        form = Form.of(np.zeros(0), curvature, mean)
        link = form.to_sq(sq_dissimilarity)
        tiles = Tiles.of(link, loss, form=form, weights=weights, floor=floor)
        # With one start each, local minima would decide between κ.
        starts = usual_starts(len(link), total_of(components))
        return Search(
            tiles,
            link,
            components,
            Limits(BRIEF, TOL),
            n_init=ceil(starts / 4),
            quick=True,
            rng=check_random_state(seed),
            seed=seed,
        )

    if curvature != AUTO:
        search = search_of(float(curvature))
        negatives = search.negatives(search.squared.form.signature[1])
        return (search.squared.signs.size - negatives, negatives), float(
            curvature
        )
    errors: dict[float, float] = {}
    signatures: dict[float, tuple[int, int]] = {}

    def error(root: float) -> float:
        """Return the error of d at κ = ±root², with the signature searched from the nearest κ."""
        if root in errors:
            return errors[root]
        search = search_of(root * abs(root))
        negatives = search.squared.form.signature[1]
        if isinstance(components, int):
            if errors:
                nearest = min(errors, key=lambda other: abs(other - root))
                negatives = signatures[nearest][1]
            negatives = search.negatives(negatives)
        end = search.followed(search.ends_of(negatives, search.n_init))
        errors[root] = _relative_error(search.tiles, end)
        signatures[root] = end.form.signature
        return errors[root]

    longest = sqrt(float(xp.max(sq_dissimilarity)))
    root = _best_root(error, mean / longest)
    return signatures[root], root * abs(root)


def _relative_error(tiles: Tiles, end: Refined) -> float:
    """Return the squared mean error of d, relative to that of all objects in one place."""
    link = tiles.d * tiles.scale
    x = asarray_like(end.coordinates, link)
    d_hat = end.form.sq(x, x)
    error = end.loss.in_distances(end.form, link, d_hat, tiles.weights)
    error_of_none = end.loss.in_distances(
        end.form, link, 0 * d_hat, tiles.weights
    )
    if not error_of_none:
        return 0.0
    return (error / error_of_none) ** 2


def _best_root(error: Callable[[float], float], unit: float) -> float:
    """Return the ±√|κ| of least error, in units of 1/(mean d); zero unless it gains.

    `unit` is the mean d over the largest one. Spheres are above zero, up to the one that has the
    longest d as its half.
    """
    hyperbolic = [-FARTHEST * unit / 2**i for i in range(CURVATURES)]
    spherical = [pi * unit / 2, 0.97 * pi * unit, pi * unit]
    if error(0.0) < EXACT:
        return 0.0
    for roots in (hyperbolic, spherical):
        best = _lowest_root(error, [0.0, *roots])
        if error(best) < (1 - LEAST_GAIN) * error(0.0):
            return best
    return 0.0


def _lowest_root(error: Callable[[float], float], roots: list[float]) -> float:
    """Return the best of some roots, and of others beside it by parabolas."""
    for _ in range(CURVATURES):
        roots.sort()
        at = roots.index(min(roots, key=error))
        if roots[at] == 0.0 or at in (0, len(roots) - 1):
            break
        three = roots[at - 1 : at + 2]
        square, slope, height = np.polyfit(
            three, [error(root) for root in three], 2
        )
        lowest = height - 0.25 * slope**2 / square
        if lowest > (1 - LEAST_GAIN) * error(roots[at]):
            break
        roots.append(-0.5 * slope / square)
    return min(roots, key=error)


def mean_distance(
    sq_dissimilarity: Array, weights: Array | None = None
) -> float:
    """Mean of d over pairs of different objects, weighted: the unit of curvature."""
    xp = namespace(sq_dissimilarity)
    n = int(sq_dissimilarity.shape[0])
    total = 0.0
    for rows in row_blocks(n, n):
        root = xp.sqrt(xp.clip(sq_dissimilarity[rows, :], 0.0, None))
        if weights is not None:
            root = root * weights[rows, :]
        total += float(xp.sum(root, dtype=xp.float64))
    if weights is None:
        return total / max(1, n * (n - 1))
    return total / max(1.0, float(xp.sum(weights, dtype=xp.float64)))
