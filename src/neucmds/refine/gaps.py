"""Fill unobserved entries by models of growing size, checked on entries that are held out.

Refining directly after one imputation keeps the imputed values. So the model grows, 1, 2, 4, …, k
coordinates, and refills the gaps after each round; held-out entries show when it overfits.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from neucmds.backend.arrays import Array, asarray_like, namespace, to_numpy
from neucmds.backend.threads import single_blas_thread
from neucmds.errors import OverfitWarning
from neucmds.problem.components import Components
from neucmds.problem.pairs import Pairs
from neucmds.refine.descent import FEW_OBJECTS, MAX_ITER, Limits, Refined, Start
from neucmds.refine.pairwise import minimize
from neucmds.refine.starts import eigenvector_start, lowest_end, with_steepest_column
from neucmds.refine.tiles import Tiles
from neucmds.spectrum.exact import MAX_DENSE
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.spectrum.solve import solve_roughly

Floats = npt.NDArray[np.float64]

# Share of the observed pairs held out at a time.
HELD_OUT = 0.05
# Pairs that are enough to compare two models.
ENOUGH = 500
# Up to this many objects listed pairs start as weights of a whole D.
FEW_LISTED = 300
# Few pairs of few objects have several local minima: so few have random starts,
RESTARTED = 20
# of this number.
RESTARTS = 32
# Iterations of a fit that is only compared.
BRIEF = 30


@dataclass(frozen=True, eq=False)
class Weighted:
    """D with gaps filled by anything finite, and the weights that say which entries count."""

    sq_dissimilarity: Array
    weights: Array

    @property
    def n(self) -> int:
        """Number of objects."""
        return int(self.sq_dissimilarity.shape[0])

    @cached_property
    def tiles(self) -> Tiles:
        """The weighted STRESS."""
        return Tiles.of(self.sq_dissimilarity, "squared", weights=self.weights)

    @property
    def observed(self) -> Array:
        """Which entries count."""
        return self.weights > 0

    @property
    def has_gaps(self) -> bool:
        """Whether a pair of different objects has no weight; the diagonal never has."""
        return self.observed_pairs < self.n * (self.n - 1) // 2

    @property
    def observed_pairs(self) -> int:
        """Number of pairs of different objects that count."""
        xp = namespace(self.weights)
        return int(xp.sum(xp.astype(self.observed, xp.int64))) // 2

    def filled(self, model: Start | Array) -> Weighted:
        """Put what a model predicts where nothing was observed."""
        prediction = model
        if isinstance(model, Start):
            prediction = model.form.sq(model.coordinates, model.coordinates)
        d = namespace(self.weights).where(self.observed, self.sq_dissimilarity, prediction)
        return Weighted(d, self.weights)


def complete_and_refine(
    problem: Weighted, components: Components, limits: Limits, *, random_state: Any = None
) -> Refined:
    """Minimise the weighted STRESS, also when some weights are zero.

    `limits` are of the last fit, and `random_state` (None: 0) draws the held-out entries.
    `OverfitWarning` says that a smaller model, or row effects alone, predicts these better, and is
    returned; or that there are more unknowns than observed pairs.
    """
    rng = _generator(random_state)
    # Small products are slower on two threads than on one.
    with single_blas_thread() if problem.n <= FEW_OBJECTS else nullcontext():
        if not problem.has_gaps:
            return _fit(problem, components, limits)
        best = _best_size(problem, components, limits, rng)
        if best is None:
            return _fit_row_effects(problem, components, limits)
        end = _grown(problem, _sizes(components)[: best + 1], limits, rng)
    _warn_if_undetermined(problem, end.signs.size)
    return end


def from_all_pairs(pairs: Pairs, components: Components) -> Start:
    """Fit at most `FEW_LISTED` objects to connected listed pairs, as weights of a whole D."""
    d = np.zeros((pairs.n, pairs.n))
    weights = np.zeros((pairs.n, pairs.n))
    both = (np.r_[pairs.i, pairs.j], np.r_[pairs.j, pairs.i])
    d[both] = np.tile(pairs.sq_dissimilarity, 2)
    weights[both] = 1.0 if pairs.weight is None else np.tile(pairs.weight, 2)
    limits = Limits.of("squared", pairs.n)
    with single_blas_thread():
        return _grown(Weighted(d, weights), _sizes(components), limits, _generator(0))


def _grown(
    problem: Weighted, sizes: list[Components], limits: Limits, rng: np.random.Generator
) -> Refined:
    """Fill the gaps by models of growing size; few objects have further random starts."""
    grown = _grow(problem.filled(_row_effects(problem)), sizes, limits)[-1]
    if problem.n > RESTARTED or not grown.signs.size:
        return grown
    x = grown.coordinates
    tiles = problem.tiles
    size = float(namespace(x).std(x))
    ends = []
    for _ in range(RESTARTS):
        noise = asarray_like(rng.standard_normal(x.shape), x)
        ends.append(minimize(tiles, Start(size * noise, grown.form), limits.at_most(BRIEF)))
    end = minimize(tiles, min(ends, key=attrgetter("value")), limits)
    # Not for the last digits: other coordinates predict other values in the gaps.
    better = end.value < 0.99 * grown.value - tiles.rounding * tiles.unit
    return end if better else grown


def _fit_row_effects(problem: Weighted, components: Components, limits: Limits) -> Refined:
    """Fit row effects in the gaps with the average weight; the value is of the observed pairs."""
    xp = namespace(problem.weights)
    average = xp.mean(problem.weights[problem.observed])
    weights = xp.where(problem.observed, problem.weights, average)
    filled = problem.filled(_row_effects(problem)).sq_dissimilarity
    end = _fit(Weighted(filled, weights), components, limits)
    value = problem.tiles.value_of(end)
    return replace(end, value=value, history=(value,))


def _grow(problem: Weighted, sizes: list[Components], limits: Limits) -> list[Refined]:
    """Fit models of growing size, each filling the gaps for the next."""
    fits = []
    for size in sizes:
        last = size is sizes[-1]
        fits.append(_fit(problem, size, limits if last else limits.at_most(MAX_ITER["squared"])))
        problem = problem.filled(fits[-1])
    return fits


def _best_size(
    problem: Weighted, components: Components, limits: Limits, rng: np.random.Generator
) -> int | None:
    """Return which model size predicts held-out entries best; None if row effects alone do.

    Warns when that is not the requested size.
    """
    sizes = _sizes(components)
    # A signature takes dozens of descents.
    brief = limits.at_most(MAX_ITER["squared"] if components.signature is None else BRIEF)
    shares = _hold_outs(problem, rng)
    each = [_held_out_errors(problem, held_out, sizes, brief) for held_out in shares]
    errors = np.concatenate(each, axis=1)
    if not errors.size:  # no object has a pair to spare
        return len(sizes) - 1
    best = int(np.argmin(errors.mean(axis=1)))
    if _clearly_less(errors[best], errors[-1]):
        warnings.warn(_predicts_badly(problem, errors, best, sizes), OverfitWarning, stacklevel=2)
        return None if best == 0 else best - 1
    return len(sizes) - 1


def _warn_if_undetermined(problem: Weighted, k: int) -> None:
    """Warn if k coordinates have more unknowns than there are observed pairs."""
    why = _undetermined(problem, k)
    if why is None:
        return
    n, pairs = problem.n, problem.observed_pairs
    most = max((size for size in range(1, k) if _unknowns(n, size) <= pairs), default=0)
    advice = f"ask for at most {most} coordinates" if most else "observe more pairs"
    message = f"{k} coordinates {why}, which do not determine the others; {advice}."
    warnings.warn(message, OverfitWarning, stacklevel=2)


def _undetermined(problem: Weighted, k: int) -> str | None:
    """Compare the unknowns of k coordinates with the observed pairs; None if there are enough."""
    unknowns, pairs = _unknowns(problem.n, k), problem.observed_pairs
    if unknowns <= pairs:
        return None
    return f"of {problem.n} objects are {unknowns} numbers, but only {pairs} pairs were observed"


def _held_out_errors(
    problem: Weighted, held_out: Array, sizes: list[Components], limits: Limits
) -> Floats:
    """Squared errors on held-out entries, relative to their variance: row effects, then sizes.

    Errors are clipped at five standard deviations, so that no single object decides.
    """
    xp = namespace(problem.weights)
    kept = xp.where(held_out, xp.zeros_like(problem.weights), problem.weights)
    training = Weighted(problem.sq_dissimilarity, kept)
    row_effects = _row_effects(training)
    fits = _grow(training.filled(row_effects), sizes, limits)
    which = np.triu(to_numpy(held_out))
    d = to_numpy(problem.sq_dissimilarity)
    variance = float(np.var(d[to_numpy(problem.observed)]))
    rows = [(d - to_numpy(row_effects))[which] ** 2]
    for fit in fits:
        residuals = fit.form.residuals(fit.coordinates, fit.coordinates, problem.sq_dissimilarity)
        rows.append(to_numpy(residuals)[which] ** 2)
    return np.minimum(np.stack(rows) / (variance or 1.0), 25.0)


def _clearly_less(errors: Floats, others: Floats) -> bool:
    """Tell whether the mean is 10 % less, and by two standard errors."""
    gain = others - errors
    enough = gain.size >= 10 and errors.mean() < 0.9 * others.mean()
    return bool(enough and gain.mean() > 2 * gain.std() / np.sqrt(gain.size))


def _predicts_badly(problem: Weighted, errors: Floats, best: int, sizes: list[Components]) -> str:
    """Name the model that predicts held-out entries better, why, and what to do."""
    norms, k = np.sqrt(errors.mean(axis=1)), sizes[-1].total
    model = "row effects alone" if best == 0 else f"{sizes[best - 1].total} coordinates"
    why, advice = _undetermined(problem, k), "fewer"
    if why is None and any(_clearly_less(smaller, errors[-1]) for smaller in errors[1:-1]):
        why = "overfit the observed entries"
    elif why is None:
        why = "predict unobserved entries badly"
        advice = "more" if len(sizes) > 1 else "another number of"
    return (
        f"{k} coordinates {why}: on held-out ones the error is {norms[-1]:.2g} of predicting their "
        f"mean, with {model} {norms[best]:.2g}; the gaps are filled by {model}. Ask for {advice} "
        "coordinates."
    )


def _unknowns(n: int, k: int) -> int:
    """Degrees of freedom of k coordinates of n objects up to isometries."""
    return n * k - k * (k + 1) // 2


def _sizes(components: Components) -> list[Components]:
    """1, 2, 4, …, k coordinates; a fixed signature has one size."""
    if components.signature is not None:
        return [components]
    doubled = [2**i for i in range(components.total.bit_length()) if 2**i < components.total]
    return [Components(size) for size in (*doubled, components.total)]


def _fit(problem: Weighted, components: Components, limits: Limits) -> Refined:
    """Start from eigenvectors of the filled matrix and descend on the weighted STRESS."""
    gram = DenseGram(problem.sq_dissimilarity)
    spectrum = solve_roughly(gram, components, "neuc+")
    start_of = partial(eigenvector_start, spectrum, gram.diagonal())
    descend = partial(minimize, problem.tiles, limits=limits)
    if components.signature is not None and problem.n <= MAX_DENSE:
        return lowest_end(
            components.signature,
            start_of,
            partial(with_steepest_column, problem.sq_dissimilarity, weights=problem.weights),
            descend,
        )
    return descend(start_of(components))


def _row_effects(problem: Weighted) -> Array:
    """D_ij ≈ r_i + r_j by least squares on the observed entries."""
    observed = to_numpy(problem.observed).copy()
    np.fill_diagonal(observed, False)
    d = np.where(observed, to_numpy(problem.sq_dissimilarity), 0.0)
    counts = observed.sum(axis=1)
    # (Diag(counts) + observed) r = row sums; the diagonal shift guards bipartite patterns
    system = observed.astype(np.float64)
    system[np.diag_indices_from(system)] = counts + 1e-9 * max(1, counts.max())
    effects = np.linalg.solve(system, d.sum(axis=1))
    return asarray_like(effects[:, None] + effects[None, :], problem.sq_dissimilarity)


def _generator(random_state: Any) -> np.random.Generator:
    seed = check_random_state(0 if random_state is None else random_state)
    return np.random.default_rng(seed.randint(2**31))


def _hold_outs(problem: Weighted, random: np.random.Generator) -> Iterator[Array]:
    """Draw disjoint shares of the observed pairs: 5 % of many, or tenths up to `ENOUGH` in all.

    No object loses more than a third of its pairs.
    """
    i, j = np.nonzero(np.triu(to_numpy(problem.observed), 1))
    own = np.bincount(np.concatenate([i, j]), minlength=problem.n)
    share = HELD_OUT if HELD_OUT * i.size >= ENOUGH else 2 * HELD_OUT
    count = max(1, round(share * i.size))
    order = random.permutation(i.size)
    for start in range(0, min(ENOUGH, i.size), count):
        pairs = order[start : start + count]
        ends = np.stack([i[pairs], j[pairs]], axis=1)
        lost = np.bincount(ends.ravel(), minlength=problem.n)
        pairs = pairs[np.all(lost[ends] <= own[ends] // 3, axis=1)]
        chosen = np.zeros((problem.n, problem.n), dtype=bool)
        chosen[i[pairs], j[pairs]] = chosen[j[pairs], i[pairs]] = True
        yield asarray_like(chosen, problem.weights, dtype=namespace(problem.weights).bool)
