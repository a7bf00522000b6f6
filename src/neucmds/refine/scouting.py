"""Choose curvature and signature of many objects by short descents on a sample of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import ceil, copysign, pi, sqrt

import numpy as np
from sklearn.utils import check_random_state

from neucmds.backend.arrays import (
    Array,
    index_like,
    namespace,
    row_blocks,
)
from neucmds.form import Form
from neucmds.problem.components import Size, total_of
from neucmds.refine.descent import (
    EXACT,
    TINY,
    TOL,
    Configuration,
    descend,
)
from neucmds.refine.loss_starts import (
    lowest,
    lowest_negatives,
    search,
    usual_starts,
)
from neucmds.refine.pairwise import finish
from neucmds.refine.tiles import Tiles

# Objects in a sample: 300 and 1000 of 2,296 crossings choose the same √−κ = 4.
SCOUTS = 500
# Iterations of a short descent: 500 end 8 % higher on 100 hops, where far κ converge late.
SCOUT_ITERATIONS = 150
# √−κ times the largest d: beyond it nothing has been gained on any data.
FARTHEST = 15.0
# Hyperbolic curvatures tried at first, each √−κ twice the last.
CURVATURES = 3
# Share of the loss that a curvature must gain to be chosen, or to be looked for.
LEAST_GAIN = 0.02


def scout(
    sq_dissimilarity: Array,
    components: Size,
    loss: str,
    form: Form,
    *,
    curvature_is_sought: bool,
    largest_distance: float,
    weights: Array | None = None,
    floor: float | None = None,
    seed: int = 0,
    directed: bool = False,
) -> tuple[tuple[int, int], Form, float]:
    """Return the signature of least error, the form, without signs yet, and the error.

    Parameters
    ----------
    sq_dissimilarity : array of shape (n, n) or (m, n)
        d² of all objects, of which at most 500 are drawn, of the rows and of the columns.
    components, loss, weights, floor, directed
        As for `refine_for_loss`.
    form : Form
        That of the fit, with heights if it has them. If `curvature_is_sought`, κ is chosen: one
        other than zero must gain 2 % of the loss.
    largest_distance : float
        Of all objects: it bounds κ, and those that are drawn may lack it.
    seed : int
        Draws the objects and the starts.
    """
    xp = namespace(sq_dissimilarity)
    for axis, size in enumerate(sq_dissimilarity.shape):
        if size <= SCOUTS:
            continue
        drawn = np.sort(
            np.random.default_rng(seed).choice(size, SCOUTS, replace=False)
        )
        ids = index_like(drawn, sq_dissimilarity)
        sq_dissimilarity = xp.take(sq_dissimilarity, ids, axis=axis)
        if weights is not None:
            weights = xp.take(weights, ids, axis=axis)
    # With one start each, local minima would decide between κ.
    starts = ceil(
        usual_starts(len(sq_dissimilarity), total_of(components)) / 4
    )

    def searched(
        form: Form,
    ) -> tuple[Tiles, Configuration, Callable[..., list[Configuration]]]:
        link = form.to_sq(sq_dissimilarity)
        tiles = Tiles.of(
            link,
            loss,
            form=form,
            weights=weights,
            floor=floor,
            directed=directed,
        )
        squared, ends_of = search(
            replace(tiles, loss=tiles.loss.beginning),
            link,
            components,
            n_init=starts,
            quick=True,
            rng=check_random_state(seed),
        )
        return tiles, squared, ends_of

    def form_of(root: float) -> Form:
        """Return the form of κ = ±root²."""
        return replace(form, curvature=root * abs(root))

    errors: dict[float, float] = {}
    signatures: dict[float, tuple[int, int]] = {}

    def error(root: float) -> float:
        """Return the loss at κ = ±root², with the signature searched from the nearest κ."""
        if root in errors:
            return errors[root]
        tiles, squared, ends_of = searched(form_of(root))
        negatives = squared.form.signature[1]
        if isinstance(components, int):
            if errors:
                nearest = min(errors, key=lambda other: abs(other - root))
                negatives = signatures[nearest][1]
            negatives = lowest_negatives(squared, ends_of, negatives)
        brief = partial(descend, max_iter=SCOUT_ITERATIONS, tol=TOL)
        first = replace(tiles, loss=tiles.loss.beginning)
        end = lowest(first, ends_of(negatives, starts), brief)
        if first.loss != tiles.loss:
            end = finish(tiles, end, brief)
        # As a share: the loss counts errors of d, whatever κ is.
        errors[root] = tiles.value_of(end) / max(tiles.size * tiles.unit, TINY)
        signatures[root] = end.form.signature
        return errors[root]

    if not curvature_is_sought:
        root = copysign(sqrt(abs(form.curvature)), form.curvature)
        least = error(root)
        return signatures[root], form, least
    longest = sqrt(float(xp.max(sq_dissimilarity)))
    root = _best_root(error, 1 / max(longest, largest_distance))
    return signatures[root], form_of(root), errors[root]


def _best_root(error: Callable[[float], float], unit: float) -> float:
    """Return the ±√|κ| of least error; zero unless it gains.

    `unit` is one over the largest d. Spheres are above zero, up to the one that has the largest d
    as its half.
    """
    farthest = -FARTHEST * unit
    hyperbolic = [farthest / 2**i for i in reversed(range(CURVATURES))]
    spherical = [pi * unit / 2, 0.97 * pi * unit, pi * unit]
    if error(0.0) < EXACT:
        return 0.0
    for roots in (hyperbolic, spherical):
        best = _lowest_root(error, roots)
        if error(best) < (1 - LEAST_GAIN) * error(0.0):
            return best
    return 0.0


def _lowest_root(error: Callable[[float], float], path: list[float]) -> float:
    """Return the best root of a path away from zero, or beside it by parabolas.

    The whole path is walked: a tree may lose at first, and gain farther out.
    """
    roots = path
    for _ in range(len(path) + 1):
        roots = sorted(roots, key=abs)
        at = roots.index(min(roots, key=error))
        if error(roots[at]) > error(0.0) or at == len(roots) - 1:
            break
        if at == 0:
            roots = [roots[0] / 2, *roots]
            continue
        three = np.array(roots[at - 1 : at + 2])
        errors = [error(root) for root in three.tolist()]
        bottom, lowest = _bottom_of_parabola(three, errors)
        enough = (1 - LEAST_GAIN) * error(roots[at])
        if lowest > enough:
            # Far out the error levels off: a parabola over ln |root| follows it there.
            bottom, lowest = _bottom_of_parabola(np.log(abs(three)), errors)
            bottom = float(np.copysign(np.exp(bottom), three[0]))
        if lowest > enough:
            break
        roots.append(bottom)
    return min([0.0, *roots], key=error)


def _bottom_of_parabola(
    positions: Array, heights: list[float]
) -> tuple[float, float]:
    """Return where a parabola through three points is lowest, and how low."""
    square, slope, height = np.polyfit(positions, heights, 2).tolist()
    return -0.5 * slope / square, height - 0.25 * slope**2 / square


def mean_distance(
    sq_dissimilarity: Array, weights: Array | None = None
) -> float:
    """Mean of d over pairs of different objects, weighted: the unit of curvature."""
    xp = namespace(sq_dissimilarity)
    m, n = (int(size) for size in sq_dissimilarity.shape)
    total = 0.0
    for rows in row_blocks(m, n):
        root = xp.sqrt(xp.clip(sq_dissimilarity[rows, :], 0.0, None))
        if weights is not None:
            root = root * weights[rows, :]
        total += float(xp.sum(root, dtype=xp.float64))
    if weights is None:
        return total / max(1, n * (n - 1))
    return total / max(1.0, float(xp.sum(weights, dtype=xp.float64)))
