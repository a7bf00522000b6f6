"""Fill unobserved entries by models of growing size, checked on entries that are held out.

Refining directly after one imputation keeps the imputed values. So the model grows, 1, 2, 4, …, k
coordinates, and refills the gaps after each round; held-out entries show when it overfits.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from neucmds.backend.arrays import (
    Array,
    Floats,
    asarray_like,
    namespace,
    to_numpy,
)
from neucmds.backend.threads import single_blas_thread
from neucmds.errors import OverfitWarning
from neucmds.problem.components import Size, total_of
from neucmds.problem.pairs import Pairs
from neucmds.refine.descent import (
    FEW_OBJECTS,
    TOL,
    Configuration,
    Descent,
    briefly,
    descend,
)
from neucmds.refine.pairwise import minimize
from neucmds.refine.starts import (
    MORE_STARTS,
    eigenvector_start,
    lowest_end,
    with_steepest_column,
)
from neucmds.refine.tiles import Tiles
from neucmds.spectrum.exact import MAX_DENSE
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.spectrum.solve import START_TOL, solve_for

# Share of the observed pairs, or of the objects, that is held out at a time.
HELD_OUT = 0.1
# Held-out pairs that are enough to compare two models.
ENOUGH = 500
# Up to this many objects have random starts as well: their few pairs leave several local minima.
RESTARTED = 20
# The descent of a model that fills gaps, or that another fit starts from.
coarsely = partial(descend, tol=TOL)


def complete_and_refine(
    sq_dissimilarity: Array,
    weights: Array,
    components: Size,
    descent: Descent = descend,
    *,
    random_state: Any = None,
    hold_out: bool = True,
) -> Configuration:
    """Minimise the weighted STRESS, also when some weights are zero.

    D is finite where nothing was observed, too. `descent` is that of the last fit, and
    `random_state` (None: 0) draws the held-out entries. If fewer coordinates predict these better,
    as many are returned, with an `OverfitWarning`; there is one as well if coordinates have more
    unknowns than there are observed pairs. Without `hold_out` gaps are filled by models of all
    sizes in turn, and nothing is warned of.
    """
    rng = _generator(random_state)
    sq = sq_dissimilarity
    # Small products are slower on two threads than on one.
    with single_blas_thread() if sq.shape[0] <= FEW_OBJECTS else nullcontext():
        if not has_gaps(weights):
            return _fit(sq, weights, components, descent)
        if not hold_out:
            end = _grow(sq, weights, _sizes(components), descent)[-1]
            return _restarted(sq, weights, end, rng, descent)
        size, models = _best_models(sq, weights, components, rng)
        end = _lowest_fit(sq, weights, size, models, descent)
        end = _restarted(sq, weights, end, rng, descent)
    _warn_if_undetermined(weights, end.signs.size)
    return end


def fit_few_objects(pairs: Pairs, components: Size) -> Configuration:
    """Fit at most `FEW_OBJECTS` objects to connected listed pairs, as a D with gaps."""
    sq = np.zeros((pairs.n, pairs.n))
    weights = np.zeros((pairs.n, pairs.n))
    both = (np.r_[pairs.i, pairs.j], np.r_[pairs.j, pairs.i])
    sq[both] = np.tile(pairs.sq_dissimilarity, 2)
    weights[both] = np.tile(pairs.weights, 2)
    rng = _generator(0)
    with single_blas_thread():
        largest_models = [
            models[-1]
            for _, models in _held_out_models(sq, weights, components, rng)
        ]
        end = min(
            _grow(sq, weights, _sizes(components), coarsely)[-1],
            _lowest_fit(sq, weights, components, largest_models, coarsely),
            key=attrgetter("value"),
        )
        return _restarted(sq, weights, end, rng, coarsely)


def among_points(
    sq_dissimilarity: Array, weights: Array
) -> tuple[Array, Array | None]:
    """Return D among all m + n points of a directed D, and weights (None if all of D is known).

    The points are m departures, then n arrivals. If D is square and no pair i → i has a weight,
    rows and columns are the same objects: departures i and j then have the mean of D_ij and D_ji,
    and so have arrivals i and j. (The difference of both directions thus has eigenvalues in pairs
    ±σ, of a positive and a negative coordinate each.) Otherwise nothing is known among departures
    or among arrivals.
    """
    xp = namespace(sq_dissimilarity)
    sq = sq_dissimilarity
    m, n = sq.shape
    among_rows = asarray_like(np.zeros((m, m)), sq)
    among_columns = asarray_like(np.zeros((n, n)), sq)
    weights_of_rows = among_rows
    weights_of_columns = among_columns
    if m == n and not bool(xp.any(xp.linalg.diagonal(weights) > 0)):
        total_weight = weights + weights.T
        total = weights * sq + (weights * sq).T
        is_known = total_weight > 0
        divisor = xp.where(is_known, total_weight, 1.0)
        among_rows = xp.where(is_known, total / divisor, 0.0)
        among_columns = among_rows
        weights_of_rows = total_weight / 2
        weights_of_columns = weights_of_rows
        eye = asarray_like(np.eye(n), weights)
        if bool(xp.all((weights > 0) | (eye > 0))):
            return _blocks(among_rows, sq, among_columns), None
    return _blocks(among_rows, sq, among_columns), _blocks(
        weights_of_rows, weights, weights_of_columns
    )


def _blocks(among_rows: Array, between: Array, among_columns: Array) -> Array:
    """Return the symmetric matrix of two square blocks and, beside these, `between`."""
    xp = namespace(between)
    upper = xp.concat([among_rows, between], axis=1)
    lower = xp.concat([between.T, among_columns], axis=1)
    return xp.concat([upper, lower], axis=0)


def has_gaps(weights: Array) -> bool:
    """Tell whether a pair of different objects has no weight; the diagonal never has."""
    n = weights.shape[0]
    return bool(_observed_pairs(weights) < n * (n - 1) // 2)


def _observed_pairs(weights: Array) -> int:
    """Count the pairs of different objects that have a weight."""
    return int(namespace(weights).count_nonzero(weights > 0)) // 2


def filled(sq: Array, weights: Array, model: Configuration) -> Array:
    """Return D with the D̂ of a model where nothing was observed."""
    x = model.coordinates
    return namespace(sq).where(weights > 0, sq, model.form.sq(x, x))


def _grow(
    sq: Array,
    weights: Array,
    sizes: list[Size],
    descent: Descent,
) -> list[Configuration]:
    """Fit one model of each size, in turn: the last by `descent`, all others by `coarsely`.

    The first is fitted to D with row effects in its gaps, each later one with the D̂ of the one
    before in the gaps.
    """
    completed = namespace(sq).where(weights > 0, sq, _row_effects(sq, weights))
    fits = []
    for size in sizes[:-1]:
        fits.append(_fit(completed, weights, size, coarsely))
        completed = filled(sq, weights, fits[-1])
    fits.append(_fit(completed, weights, sizes[-1], descent))
    return fits


def _best_models(
    sq: Array,
    weights: Array,
    components: Size,
    rng: np.random.Generator,
) -> tuple[Size, list[Configuration]]:
    """Return the size of the fit, and models of this size, one for each set of held-out entries.

    The size is the requested one or, with a warning, a smaller one that predicts these entries
    better.
    """
    sizes = _sizes(components)
    models_by_draw = []
    errors_by_draw = []
    for held_out, models in _held_out_models(sq, weights, components, rng):
        models_by_draw.append(models)
        errors_by_draw.append(_errors_of(models, sq, weights, held_out))
    errors = np.concatenate(errors_by_draw, axis=1)
    best = len(sizes) - 1
    if errors.size:  # else no object has a pair to spare
        means = errors.mean(axis=1)
        least = int(np.argmin(means))
        if _clearly_less(errors[least], errors[-1]):
            _warn_of_overfit(sizes, np.sqrt(means), least)
            best = least
    return sizes[best], [models[best] for models in models_by_draw]


def _held_out_models(
    sq: Array, weights: Array, components: Size, rng: np.random.Generator
) -> Iterator[tuple[Array, list[Configuration]]]:
    """Hold out some entries at a time, and fit a model of each size to all others.

    Yield where entries are held out, a boolean matrix, and the models.
    """
    descent: Descent = coarsely
    if isinstance(components, tuple):
        # A signature takes dozens of descents.
        descent = briefly
    for held_out in _hold_outs(weights, rng):
        others = namespace(sq).where(held_out, 0 * weights, weights)
        yield held_out, _grow(sq, others, _sizes(components), descent)


def _warn_of_overfit(sizes: list[Size], errors: Floats, best: int) -> None:
    """Warn that fewer coordinates than requested predict held-out entries better."""
    model = f"{total_of(sizes[best])} coordinates"
    message = (
        f"{total_of(sizes[-1])} coordinates predict unobserved entries badly: on held-out ones the "
        f"error is {errors[-1]:.2g} of predicting their mean, with {model} {errors[best]:.2g}; the "
        f"gaps are filled by {model}. Ask for another number of coordinates."
    )
    warnings.warn(message, OverfitWarning, stacklevel=2)


def _lowest_fit(
    sq: Array,
    weights: Array,
    size: Size,
    models: list[Configuration],
    descent: Descent,
) -> Configuration:
    """Fit D with its gaps filled by each model, then, from the best, observed entries alone."""
    ends = [
        _fit(filled(sq, weights, model), weights, size, coarsely)
        for model in models
    ]
    tiles = Tiles.of(sq, "squared", weights=weights)
    return minimize(tiles, min(ends, key=attrgetter("value")), descent)


def _restarted(
    sq: Array,
    weights: Array,
    end: Configuration,
    rng: np.random.Generator,
    descent: Descent,
) -> Configuration:
    """Descend from random starts as well if there are few objects; return `end` or a lower one."""
    if sq.shape[0] > RESTARTED or not end.signs.size:
        return end
    x = end.coordinates
    tiles = Tiles.of(sq, "squared", weights=weights)
    spread = float(namespace(x).std(x))
    ends = []
    for _ in range(MORE_STARTS):
        noise = asarray_like(rng.standard_normal(x.shape), x)
        start = Configuration(spread * noise, end.form)
        ends.append(minimize(tiles, start, briefly))
    other = minimize(tiles, min(ends, key=attrgetter("value")), descent)
    # Not for the last digits: other coordinates predict other values in the gaps.
    if other.value < 0.99 * end.value - tiles.rounding * tiles.unit:
        return other
    return end


def _warn_if_undetermined(weights: Array, k: int) -> None:
    """Warn if k coordinates have more unknowns, up to isometries, than there are observed pairs."""
    n = weights.shape[0]
    unknowns = n * k - k * (k + 1) // 2
    pairs = _observed_pairs(weights)
    if unknowns > pairs:
        message = (
            f"{k} coordinates of {n} objects are {unknowns} numbers, but only {pairs} pairs were "
            "observed, which do not determine the others; ask for fewer coordinates."
        )
        warnings.warn(message, OverfitWarning, stacklevel=2)


def _errors_of(
    models: list[Configuration], sq: Array, weights: Array, held_out: Array
) -> Floats:
    """Return squared errors on held-out pairs over the variance of observed D, a row per model.

    Errors are clipped at five standard deviations, so that no single object decides.
    """
    upper = np.triu(to_numpy(held_out))
    residuals = [
        model.form.residuals(model.coordinates, model.coordinates, sq)
        for model in models
    ]
    errors = np.stack([to_numpy(part)[upper] for part in residuals]) ** 2
    variance = float(np.var(to_numpy(sq)[to_numpy(weights > 0)]))
    return np.minimum(errors / (variance or 1.0), 5.0**2)


def _clearly_less(errors: Floats, others: Floats) -> bool:
    """Tell whether the mean error is 10 % less than that of others, and by two standard errors."""
    gain = others - errors
    is_less = gain.size >= 10 and errors.mean() < 0.9 * others.mean()
    return bool(is_less and gain.mean() > 2 * gain.std() / np.sqrt(gain.size))


def _sizes(components: Size) -> list[Size]:
    """Return the sizes 1, 2, 4, …, k of growing models; a fixed signature is the only one."""
    if isinstance(components, tuple):
        return [components]
    doubled = [
        2**i for i in range(components.bit_length()) if 2**i < components
    ]
    return [*doubled, components]


def _fit(
    sq: Array, weights: Array, components: Size, descent: Descent
) -> Configuration:
    """Descend on the weighted STRESS, from eigenvectors of a D whose gaps are filled.

    Of few objects a requested signature is also reached from those that it contains.
    """
    gram = DenseGram(sq)
    tiles = Tiles.of(sq, "squared", weights=weights)
    spectrum = solve_for(gram, components, "neuc+", tol=START_TOL)
    start_of = partial(eigenvector_start, spectrum, gram.diagonal())
    refine = partial(minimize, tiles, descent=descent)
    if isinstance(components, int) or gram.n > MAX_DENSE:
        return refine(start_of(components))
    extended = partial(with_steepest_column, sq, weights=weights)
    return lowest_end(components, start_of, extended, refine)


def _row_effects(sq: Array, weights: Array) -> Array:
    """Return r_i + r_j of all i and j, where r fits r_i + r_j ≈ D_ij to the observed entries."""
    observed = to_numpy(weights > 0).copy()
    np.fill_diagonal(observed, False)
    sums = np.where(observed, to_numpy(sq), 0.0).sum(axis=1)
    counts = observed.sum(axis=1)
    # (Diag(counts) + observed) r = row sums, a matrix that is singular if the observed pairs are a
    # bipartite graph: hence the small shift.
    system = observed.astype(np.float64)
    system[np.diag_indices_from(system)] = counts + 1e-9 * max(1, counts.max())
    effects = np.linalg.solve(system, sums)
    return asarray_like(effects[:, None] + effects[None, :], sq)


def _generator(random_state: Any) -> np.random.Generator:
    """Return a generator seeded by a random state as scikit-learn takes it; None is 0."""
    seed = check_random_state(random_state or 0)
    return np.random.default_rng(seed.randint(2**31))


def _hold_outs(weights: Array, rng: np.random.Generator) -> Iterator[Array]:
    """Yield disjoint tenths of the observed pairs, as boolean matrices, until `ENOUGH` are drawn.

    Pairs of which an object would lose more than a third at a time are left out.
    """
    n = weights.shape[0]
    # Both objects of every observed pair.
    observed = np.argwhere(np.triu(to_numpy(weights > 0), 1))
    pairs_of_object = np.bincount(observed.ravel(), minlength=n)
    n_observed = len(observed)
    count = max(1, round(HELD_OUT * n_observed))
    order = rng.permutation(n_observed)
    for start in range(0, min(ENOUGH, n_observed), count):
        drawn = observed[order[start : start + count]]
        lost = np.bincount(drawn.ravel(), minlength=n)
        loses_little = lost[drawn] <= pairs_of_object[drawn] // 3
        first, second = drawn[np.all(loses_little, axis=1)].T
        held_out = np.zeros((n, n), dtype=bool)
        held_out[first, second] = True
        held_out[second, first] = True
        yield asarray_like(held_out, weights, dtype=namespace(weights).bool)
