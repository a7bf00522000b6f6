"""Choose curvature and signature of many objects by short descents on a sample of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from math import ceil, copysign, pi, sqrt

import numpy as np
from sklearn.utils import check_random_state

from neucmds.backend.arrays import (
    TINY,
    Array,
    Indices,
    asarray_like,
    in_place,
    index_like,
    namespace,
    to_numpy,
)
from neucmds.form import Form
from neucmds.problem.components import Size, total_of
from neucmds.refine.descent import (
    DISTANCE_TOL,
    EXACT,
    TOL,
    Configuration,
    briefly,
    descend,
)
from neucmds.refine.gaps import HELD_OUT
from neucmds.refine.loss_starts import (
    lowest,
    search,
    usual_starts,
)
from neucmds.refine.losses import (
    RELATIVE,
    PairLoss,
    least_positive,
    weighted,
)
from neucmds.refine.pairwise import WIDTHS, finish
from neucmds.refine.signatures import best_negatives
from neucmds.refine.tiles import Tiles

# Objects in a sample: as few as 300 and 1000 of 2,296 crossings choose the same √−κ = 4.
SCOUTS = 500
# Where a signature alone is chosen, a sample has at least so many objects, `PER_COORDINATE` of them
# for each coordinate, and at most `SCOUTS`: hops of 1,797 digits are fitted in .8 of the time.
SIGNATURE_SCOUTS = 300
# All others may start among a sample of so many objects per coordinate.
PER_COORDINATE = 10
# Iterations of a short descent: 500 end 8 % higher on 100 hops, where far κ converge late.
SCOUT_ITERATIONS = 150
# √−κ times the largest d that are tried at first. Beyond the last, near pairs drown in rounding: at
# 22, descents of the tree of CS PhDs stop early, and end at a mean error of 2.2 %, not 2.0 %.
ROOTS = (3.75, 7.5, 15.0)
# Share of the loss that a curvature must gain to be chosen, or to be looked for.
LEAST_GAIN = 0.02


@dataclass(frozen=True)
class Scouts:
    """The fit of a sample of the objects.

    Parameters
    ----------
    end : Configuration
        Its form has the signature and the curvature that were chosen.
    numbers : ndarray or None
        Those of the objects in the sample, ascending; None: all, or those of rows and of columns.
    errors : list of float
        What compares forms, as `scout` says of `hold_out`.
    """

    end: Configuration
    numbers: Indices | None
    errors: list[float]


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
    hold_out: bool = False,
) -> Scouts:
    """Fit a sample by the signature of least error, and by the curvature if it is sought.

    Parameters
    ----------
    sq_dissimilarity : array of shape (n, n) or (m, n)
        d² of all objects, of which at most `SCOUTS` are drawn, of the rows and of the columns.
    components, loss, weights, floor, directed
        As for `refine_for_loss`.
    form : Form
        The form of the fit. If `curvature_is_sought`, κ is chosen: one other than zero must gain
        2 % of the loss.
    largest_distance : float
        Of all pairs: it bounds κ, and objects that are drawn may not have it.
    seed : int
        Draws the objects, the starts, and pairs that are held out.
    hold_out : bool
        Whether to return errors that compare forms: the loss of a tenth of the pairs after a last
        descent on the others and, where the loss counts shares of d, the mean of |d̂/d − 1|.
    """
    xp = namespace(sq_dissimilarity)
    most = SCOUTS
    compares_forms = curvature_is_sought or hold_out
    if not compares_forms:
        enough = PER_COORDINATE * total_of(components)
        most = min(SCOUTS, max(SIGNATURE_SCOUTS, enough))
    is_sample = max(sq_dissimilarity.shape) > most
    numbers: Indices | None = None
    for axis, size in enumerate(sq_dissimilarity.shape):
        if size <= most:
            continue
        drawn = np.sort(
            np.random.default_rng(seed).choice(size, most, replace=False)
        )
        if not directed:
            numbers = drawn
        ids = index_like(drawn, sq_dissimilarity)
        sq_dissimilarity = xp.take(sq_dissimilarity, ids, axis=axis)
        if weights is not None:
            weights = xp.take(weights, ids, axis=axis)
    # Few objects are slow on a GPU: each of their many small products waits for the last.
    sq_dissimilarity = to_numpy(sq_dissimilarity)
    if weights is not None:
        weights = to_numpy(weights)
    # With one start each, local minima would decide between κ.
    starts = ceil(
        usual_starts(len(sq_dissimilarity), total_of(components)) / 4
    )

    def form_of(root: float) -> Form:
        """Return the form of κ = root·|root|."""
        return replace(form, curvature=root * abs(root))

    def tiles_of(root: float) -> Tiles:
        """Return the loss at κ = root·|root|."""
        tiles = Tiles.of(
            form_of(root).to_sq(sq_dissimilarity),
            loss,
            form=form_of(root),
            weights=weights,
            floor=floor,
            directed=directed,
        )
        if is_sample:
            # Rounded as all objects are: it decides how far κ may go.
            narrow = tiles.d.astype(np.float32)
            tiles = replace(tiles, d=narrow, precision=narrow.dtype)
        return tiles

    # Errors of a sample differ by more than a lower tolerance gains.
    tol = TOL if is_sample else DISTANCE_TOL
    brief = partial(descend, max_iter=SCOUT_ITERATIONS, tol=tol)
    # The end at each root so far, which `error` fills.
    ends: dict[float, Configuration] = {}

    @cache
    def error(root: float) -> float:
        """Return the share of the loss at κ = root·|root|, and keep the end in `ends`.

        The signature is searched from that of the nearest κ so far.
        """
        tiles = tiles_of(root)
        beginning = replace(tiles, loss=tiles.loss.beginning)
        squared, ends_of = search(
            beginning,
            form_of(root).to_sq(sq_dissimilarity),
            components,
            n_init=starts,
            quick=True,
            rng=check_random_state(seed),
        )

        @cache
        def short_end(negatives: int) -> Configuration:
            """Return the lowest end of short descents with so many negatives."""
            end = ends_of(negatives)[0]
            # The signatures that "linear" prefers may end 7 % higher by "absolute".
            if loss == "absolute":
                return finish(tiles, end, briefly, WIDTHS[:2])
            return end

        negatives = squared.form.signature[1]
        if isinstance(components, int):
            if ends:
                nearest = min(ends, key=lambda other: abs(other - root))
                negatives = ends[nearest].form.signature[1]
            negatives = best_negatives(
                lambda q: short_end(q).value,
                negatives,
                sum(squared.form.signature),
            )
        end = short_end(negatives)
        if compares_forms and loss != "absolute":
            end = lowest(beginning, ends_of(negatives, starts), brief)
        if compares_forms and beginning.loss != tiles.loss:
            end = finish(tiles, end, brief)
        ends[root] = end
        return _share(tiles, end)

    def errors_of(root: float) -> list[float]:
        """Return the errors that compare forms, as `hold_out` says; none without it."""
        if not hold_out:
            return []
        tiles = tiles_of(root)
        shares = []
        # The fewer the objects, the fewer their pairs, and the more draws of them.
        for draw in range(starts):
            held_out = _held_out(tiles, seed + draw)
            end = finish(_counting(tiles, 1 - held_out), ends[root], brief)
            shares.append(_share(_counting(tiles, held_out), end))
        errors = [float(np.mean(shares))]
        if loss in RELATIVE:
            # A floor hides what heights add to the least d.
            floorless = PairLoss("absolute", least_positive(tiles.d))
            errors.append(_share(replace(tiles, loss=floorless), ends[root]))
        return errors

    if not curvature_is_sought:
        root = copysign(sqrt(abs(form.curvature)), form.curvature)
        error(root)  # for its end
    else:
        longest = sqrt(float(np.max(sq_dissimilarity)))
        root = _best_root(error, 1 / max(longest, largest_distance))
    return Scouts(ends[root], numbers, errors_of(root))


def _share(tiles: Tiles, end: Configuration) -> float:
    """Return the loss over that of all objects in one place, which compares curvatures."""
    return tiles.value_of(end) / max(
        tiles.loss_in_one_place * tiles.unit, TINY
    )


def _held_out(tiles: Tiles, seed: int) -> Array:
    """Return a matrix with ones at random pairs, which are held out, and zeros elsewhere."""
    drawn = np.random.default_rng(seed).random(tuple(tiles.d.shape))
    if not tiles.is_directed:
        drawn = np.maximum(drawn, drawn.T) ** 2
    return asarray_like(drawn < HELD_OUT, tiles.d)


def _counting(tiles: Tiles, counts: Array) -> Tiles:
    """Return the same loss with weights times `counts`, which is 0 for pairs that do not count."""
    return replace(tiles, weights=weighted(counts, tiles.weights))


def _best_root(error: Callable[[float], float], unit: float) -> float:
    """Return the ±√|κ| of least error; zero unless it gains.

    `unit` is one over the largest d. Spheres are above zero, up to the one that has the largest d
    as its half.
    """
    hyperbolic = [-root * unit for root in ROOTS]
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
    positions: Array, errors: list[float]
) -> tuple[float, float]:
    """Return where a parabola through three points is lowest, and how low."""
    square, slope, constant = np.polyfit(positions, errors, 2).tolist()
    return -0.5 * slope / square, constant - 0.25 * slope**2 / square


def mean_distance(
    sq_dissimilarity: Array, weights: Array | None = None
) -> float:
    """Return the mean of d over pairs of different objects, weighted: the unit of curvature."""
    xp = namespace(sq_dissimilarity)
    n = sq_dissimilarity.shape[0]
    root = xp.clip(sq_dissimilarity, 0.0, None)
    root = in_place("sqrt", root)
    count = float(n * (n - 1))
    if weights is not None:
        root *= weights
        count = float(xp.sum(weights, dtype=xp.float64))
    total = float(xp.sum(root, dtype=xp.float64))
    return total / max(1.0, count)
