"""Quality of an embedding against D, in row blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.spatial.distance import squareform

from neucmds.backend.arrays import (
    Array,
    Floats,
    Indices,
    row_blocks,
    to_floats,
    to_numpy,
)
from neucmds.dense_fit import fit
from neucmds.embedding import Embedding
from neucmds.errors import InputError, option
from neucmds.fit import as_rows
from neucmds.form import Form, rounding_level
from neucmds.options import PRECOMPUTED, SHORTEST_PATH, Options
from neucmds.prepared import dense_gram, prepare, prepare_some
from neucmds.problem.dense import Dense
from neucmds.problem.directed import Directed, as_directed
from neucmds.problem.metrics import refuse_params
from neucmds.problem.names import Labels, ordered_by_name
from neucmds.problem.validation import as_labels, is_count
from neucmds.refine.losses import RELATIVE
from neucmds.refine.ordinal import RankedPairs
from neucmds.spectrum.exact import MAX_DENSE
from neucmds.spectrum.operators.dense import DenseGram

# Medians and quantiles are taken over all pairs up to this many (4,000 objects), and otherwise over
# about this many drawn at random: the share below a quantile is then known to ±0.0004.
SAMPLED_PAIRS = 8_000_000
# Neighbours of an object that are compared.
NEIGHBORS = 10
# Most objects for what takes long: the whole spectrum (2 s), other losses (half a minute), and the
# neighbours of each object (with this many drawn, their share is known to ±0.01).
FULL_UP_TO = MAX_DENSE


@dataclass(frozen=True)
class Quality:
    """How well coordinates with a signature give d back.

    D = d² and D̂ are on the squared scale, and d̂ = √max(D̂, 0). What has no meaning for some D is
    NaN: measures of d if D has negative entries, and ratios whose denominator is zero. Of a fit by
    ``loss="ordinal"``, `shepard_r2`, `raw_stress`, `stress1` and `unscaled_stress1` compare d̂ with
    the disparities δ instead of d: they are non-metric.

    Parameters
    ----------
    shepard_r2 : float
        Squared correlation of d̂ with d over pairs: R² of a line through the Shepard diagram. Of an
        ordinal fit with δ: the "linear fit" of vegan's ``stressplot``, whose "non-metric fit" is
        1 less the square of `stress1`.
    stress : float
        ‖D̂ − D‖²_F over all n² entries.
    normalized_stress : float
        STRESS / ‖D‖²_F: the share of ‖D‖² that is missed.
    r2 : float
        The R² of the paper's STRESS, 1 − Σ(D̂ − D)² / Σ(D − mean)² over pairs: 1 is perfect, 0 is no
        better than a constant. It compares squares, without a scale. NaN if all dissimilarities are
        equal.
    scaled_additive_error : float
        min over α of ‖D − αD̂‖_F: a norm, as in print.
    distortion : float
        Average geometric distortion of d against d̂ over the defined pairs; 1 is perfect. Above
        4,000 objects, of eight million pairs drawn at random.
    raw_stress : float
        Σ(d̂ − d)² over pairs i < j: what SMACOF minimises.
    stress1 : float
        Kruskal's stress-1 at the best scale, √(1 − (Σdd̂)² / (Σd²Σd̂²)), as R's smacof reports it.
    unscaled_stress1 : float
        √(raw stress / Σ d̂²): the same at the scale of the coordinates as they are, as
        scikit-learn's ``normalized_stress=True``. Both are one for an ordinal fit.
    relative_error_mean, relative_error_median, relative_error_p95, relative_error_p99 : float
        Of |d̂/d − 1| over the pairs with d > 0. A quantile q is the least error that the share q of
        the pairs does not exceed; above 4,000 objects, of eight million pairs drawn at random.
    neighbors_kept : float
        Mean share of an object's 10 nearest by D̂ that are no farther by D than its 10th nearest;
        equally near objects count as neighbours. Above 2,000 objects, of 2,000 drawn at random.
    undefined_pairs : int
        Pairs left out of the distortion: D or D̂ not positive, or D̂ not distinguishable from zero
        (errata E14).
    negative_dissimilarities : int
        Pairs i < j with D̂ negative beyond rounding.
    negative_coordinates : int
        Coordinates of negative sign.
    """

    shepard_r2: float
    stress: float
    normalized_stress: float
    r2: float
    scaled_additive_error: float
    distortion: float
    raw_stress: float
    stress1: float
    unscaled_stress1: float
    relative_error_mean: float
    relative_error_median: float
    relative_error_p95: float
    relative_error_p99: float
    neighbors_kept: float
    undefined_pairs: int
    negative_dissimilarities: int
    negative_coordinates: int

    def as_dict(self) -> dict[str, Any]:
        """Return the measures by name."""
        return asdict(self)


@dataclass(frozen=True)
class PairErrors:
    """Which pairs and which objects an embedding misses.

    Parameters
    ----------
    pairs_off : int
        Pairs with |d̂/d − 1| beyond the limit.
    pairs : int
        All pairs with d > 0.
    of_object : ndarray of shape (n,)
        Mean |d̂/d − 1| of each object over its pairs with d > 0; NaN if it has none.
    stress_share : ndarray of shape (n,)
        Share of each object's pairs in the loss that was fitted; they add up to 1. For "distance"
        and "ordinal" the stress per point of R's smacof.
    r2_of_object : ndarray of shape (n,)
        1 − Σ(D̂ − D)² / Σ(D − mean)² over the pairs of each object, with their own mean: 1 is
        perfect, 0 no better than one number for all of them. NaN where these are equal.
    """

    pairs_off: int
    pairs: int
    of_object: Floats
    stress_share: Floats
    r2_of_object: Floats

    def worst(self, count: int = 3) -> list[int]:
        """Return the numbers of the objects with the largest mean error, unless it is 0."""
        order = np.argsort(-self.of_object, kind="stable")  # NaN last
        wrong = order[self.of_object[order] > 0]
        return [int(i) for i in wrong[:count]]


def evaluate(
    embedding: Embedding,
    D: Any,
    *,
    metric: Any = PRECOMPUTED,
    metric_params: dict[str, Any] | None = None,
    squared: bool | None = None,
    symmetrize: bool = False,
    weights: Any = None,
    missing: Literal["error", "ignore"] = "error",
    held_out: int = 0,
) -> Quality:
    """Measure an embedding against D by every measure of `neucmds.explore.Quality`.

    Parameters
    ----------
    embedding : Embedding
    D : as for `neuc_mds`, or Dense
        Objects in the order of the embedding.
    metric, metric_params
        As for `neuc_mds`: D is then a graph, features or a list of objects. Above 2,000 objects,
        2,000 drawn at random and the pairs of these are measured, with neighbours among them.
    squared : bool, optional
        Whether D holds squared dissimilarities; by default as in the fit.
    symmetrize
        As for `neuc_mds`.
    weights : array of shape (n, n), optional
        As for `neuc_mds`. Pairs of weight zero are left out of every measure. Sums over pairs are
        weighted, so that the STRESS and R² are those of a fit with these weights: `stress`,
        `shepard_r2`, `normalized_stress`, `r2`, `scaled_additive_error`, `raw_stress`, `stress1`
        and `unscaled_stress1`. Relative errors, distortion and neighbours count all other pairs
        alike.
    missing : {"error", "ignore"}, default="error"
        "ignore": pairs that are NaN in D are left out of every measure.
    held_out : int, default=0
        How well new objects are placed: so many objects, drawn at random, are left out of a second
        fit with the loss, signature, curvature and floor of this one, and placed by their
        dissimilarities. Measured are their pairs with the others, and their nearest among these.

    Returns
    -------
    Quality

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import evaluate, neuc_mds
    >>> x = np.random.default_rng(0).normal(size=(30, 3))
    >>> D = np.sqrt(((x[:, None] - x[None, :]) ** 2).sum(-1))
    >>> quality = evaluate(neuc_mds(D, 3), D)
    >>> round(quality.r2, 6), quality.neighbors_kept
    (1.0, 1.0)
    """
    _refuse_no_embedding(embedding)
    # All objects, or some of many.
    measured = embedding
    if metric != PRECOMPUTED:
        if weights is not None or embedding.arrivals is not None:
            raise InputError(
                f"{option('weights')} and directed embeddings are measured against D; pass D, "
                f"without {option('metric')}."
            )
        options = Options(
            metric=metric, metric_params=metric_params, symmetrize=symmetrize
        )
        measured, D = _sample_by_metric(
            embedding, D, options, squared, missing
        )
    elif metric_params:
        refuse_params(metric)
    problem = problem_of(
        measured,
        D,
        squared,
        symmetrize=symmetrize,
        weights=weights,
        missing=missing,
    )
    if held_out:
        return measure_held_out(embedding, problem, held_out)
    return measure(
        problem,
        measured.coordinates,
        measured.form,
        measured._targets.coordinates,
        ties=_ties(embedding),
    )


def measure_held_out(
    embedding: Embedding, problem: Dense | Directed, held_out: int
) -> Quality:
    """Fit again without some objects, place these, and measure their pairs with the others."""
    if not is_count(held_out):
        raise InputError(
            f"{option('held_out', held_out)} must be a whole number, 0 for no second fit."
        )
    if isinstance(problem, Directed) or embedding.loss == "ordinal":
        raise InputError(
            f"{option('held_out', held_out)} needs a symmetric D and a loss with a unit; leave it "
            "out."
        )
    if embedding.landmarks is not None:
        raise InputError(
            f"{option('held_out', held_out)} is for fits of all objects: objects that are not "
            "landmarks are placed as new ones are, and measured without it."
        )
    most = problem.n - embedding.k - 2
    if held_out > most:
        raise InputError(
            f"{option('held_out', held_out)} leaves too few of {problem.n} objects for "
            f"{embedding.k} coordinates; pass at most {most}."
        )
    order = np.random.default_rng(0).permutation(problem.n)
    new = np.sort(order[:held_out])
    old = np.sort(order[held_out:])
    gram = dense_gram(problem, option("held_out", held_out))
    sq_d = to_numpy(gram.sq_dissimilarity).astype(np.float64)
    among_old = np.ix_(old, old)
    weights = np.ones(sq_d.shape)
    weights_of_fit = None
    if problem.weights is not None:
        weights = to_numpy(problem.weights)
        weights_of_fit = weights[among_old]
    problem_of_old = Dense(
        DenseGram(sq_d[among_old]),
        squared=True,
        weights=weights_of_fit,
        missing="ignore",
    )
    model = fit(problem_of_old, options_of(embedding))
    new_to_old = np.ix_(new, old)
    rows = np.where(weights[new_to_old] > 0, sq_d[new_to_old], np.nan)
    # From new objects to the others: a table of all their pairs.
    return measure(
        Directed(sq_d[new_to_old], weights[new_to_old]),
        model.transform(rows),
        model.form,
        model.coordinates,
    )


def options_of(embedding: Embedding, **others: Any) -> Options:
    """Return the options of a fit with the signature, method, loss and form of an embedding."""
    # Other losses choose their own.
    floor = None
    if embedding.loss in RELATIVE:
        floor = embedding.floor
    return Options(
        embedding.signature,
        embedding.method,
        loss=embedding.loss,
        ties=embedding.info.ties,
        floor=floor,
        **embedding.form.options(embedding.mean_distance),
        **others,
    )


def _ties(embedding: Embedding) -> str | None:
    """Return how an ordinal fit treated equal dissimilarities; None for other losses."""
    if embedding.loss != "ordinal":
        return None
    return embedding.info.ties


def _sample_by_metric(
    embedding: Embedding,
    data: Any,
    options: Options,
    squared: bool | None,
    missing: str,
) -> tuple[Embedding, Dense]:
    """Return the embedding of all objects, or of some of many, and D among them by a metric.

    The embedding has no names: those of the data were compared with them.
    """
    rows, metric, names = as_rows(data, options, None)
    n = int(rows.shape[0])
    _refuse_others(embedding, n, as_labels(names, n))
    reading: dict[str, Any] = {}
    if options.metric != SHORTEST_PATH:
        reading["squared"] = embedding.squared if squared is None else squared
        reading["missing"] = missing
    measured, problem = sample_of(embedding, rows, 0, metric=metric, **reading)
    return measured.unnamed, problem


def sample_of(
    embedding: Embedding, data: Any, seed: int, **reading: Any
) -> tuple[Embedding, Dense]:
    """Return the embedding of all objects, or of some of many, and D among them.

    `reading` are the parameters of `prepare`.
    """
    objects = sampled_objects(embedding.n, np.random.default_rng(seed))
    problem = prepare_some(data, objects, **reading)
    if objects.size == embedding.n:
        return embedding, problem
    return embedding.take(objects), problem


def pair_errors(
    embedding: Embedding,
    D: Any,
    *,
    limit: float = 0.1,
    **reading: Any,
) -> PairErrors:
    """Count the pairs that are off by more than a limit, and average the error of each object.

    Parameters
    ----------
    embedding, D
        As for `evaluate`.
    limit : float, default=0.1
        On |d̂/d − 1|.
    **reading
        squared, symmetrize, weights and missing, as for `evaluate`; but all pairs count alike,
        except that pairs of weight zero are left out.

    Returns
    -------
    PairErrors

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import neuc_mds
    >>> from neucmds.explore import pair_errors
    >>> x = np.array([[0.0], [1.0], [3.0]])
    >>> embedding = neuc_mds(np.abs(x - x.T), 1)
    >>> x[2] = 4.0  # farther away than in the fit
    >>> errors = pair_errors(embedding, np.abs(x - x.T))
    >>> errors.pairs_off, errors.worst(1)
    (2, [2])
    """
    problem = problem_of(embedding, D, **reading)
    x = to_floats(embedding.coordinates)
    y = to_floats(embedding._targets.coordinates)
    center = _center(problem)
    floor = embedding.floor
    # Of two sets, the objects of the columns come after those of the rows.
    n_rows = 0
    if embedding.arrival_labels is not None:
        n_rows = len(x)
    # For each of the terms below, its sum over the pairs of each object.
    totals = np.zeros((7, n_rows + problem.n))
    pairs_off = 0
    for block in _row_blocks(problem, x, y, embedding.form, _ties(embedding)):
        sq_d = block.sq_d
        counted = block.weights > 0
        defined = counted & (sq_d > 0)
        errors = np.zeros(sq_d.shape)
        ratios = _ratios(sq_d[defined], block.sq_d_hat[defined])
        errors[defined] = np.abs(ratios - 1)
        pairs_off += int((errors > limit).sum())
        sq_residuals = (block.sq_d_hat - sq_d) ** 2 * counted
        losses = _losses(embedding.loss, floor, block) * counted
        # A variance keeps its digits if the values are near zero.
        shifted = (sq_d - center) * counted
        terms = (
            errors,
            defined,
            losses,
            sq_residuals,
            counted,
            shifted,
            shifted**2,
        )
        # A pair counts for both its objects.
        for term, total in zip(terms, totals, strict=True):
            total[block.rows] += term.sum(axis=1)
            total[n_rows + block.columns.start :] += term.sum(axis=0)
    error, n_defined, loss, stress, n_pairs, shift, sq_shift = totals
    with np.errstate(invalid="ignore", divide="ignore"):
        # Σ(D − mean)² of each object, NaN where it is the rounding of a constant.
        variation = sq_shift - shift**2 / n_pairs
        variation[variation <= 1e-14 * sq_shift] = math.nan
        return PairErrors(
            pairs_off,
            pairs=int(n_defined.sum()) // 2,
            of_object=error / n_defined,
            stress_share=loss / (loss.sum() or 1.0),
            r2_of_object=1 - stress / variation,
        )


def _losses(loss: str, floor: float, block: _Block) -> Floats:
    """Return the loss of every pair, before weights; `floor` is that of relative losses."""
    if loss == "squared":
        return np.asarray((block.sq_d_hat - block.sq_d) ** 2)
    errors = _root(block.sq_d_hat) - block.d
    if loss in RELATIVE:
        errors /= np.maximum(block.d, floor)
    if loss == "absolute":
        return np.abs(errors)
    return errors**2


def problem_of(
    embedding: Embedding,
    D: Any,
    squared: bool | None = None,
    weights: Any = None,
    **reading: Any,
) -> Dense | Directed:
    """Return the problem of D, whose objects must be those of the embedding.

    Parameters are those of `evaluate`.
    """
    _refuse_no_embedding(embedding)
    if squared is None:
        squared = embedding.squared
    if embedding.arrivals is not None:
        return _directed_problem(embedding, D, squared, weights, reading)
    # Weights with names are matched here, as D itself may have none.
    if embedding.labels is not None:
        weights = ordered_by_name(
            weights, embedding.labels, "weights", rows=True
        )
    problem = prepare(D, 1, squared=squared, weights=weights, **reading)
    _refuse_others(embedding, problem.n, problem.labels)
    return problem


def _refuse_no_embedding(embedding: Any) -> None:
    """Refuse arguments in another order."""
    if not isinstance(embedding, Embedding):
        raise InputError(
            f"the embedding is {type(embedding).__name__}; pass what neuc_mds returns, then D."
        )


def _refuse_others(embedding: Embedding, n: int, labels: Labels) -> None:
    """Refuse objects that are not those of the embedding, in its order."""
    if n != embedding.n:
        raise InputError(
            f"there are {n} objects, but the embedding has {embedding.n}; pass those that were "
            "embedded."
        )
    _refuse_other_names(labels, embedding.labels)


def _refuse_other_names(labels: Labels, expected: Labels) -> None:
    """Refuse names in another order, or of other objects, where both have names."""
    if labels and expected and labels != expected:
        raise InputError(
            "the objects have other names than those of the embedding, or another order; pass them "
            "in the order of its labels."
        )


def _directed_problem(
    embedding: Embedding,
    D: Any,
    squared: bool,
    weights: Any,
    reading: dict[str, Any],
) -> Directed:
    """Read dissimilarities from rows to columns, which must be those of the embedding."""
    if reading.pop("symmetrize", False):
        raise InputError(
            f"{option('symmetrize', True)} averages directions, and this embedding has both; leave "
            "it out."
        )
    problem = as_directed(D, squared=squared, weights=weights, **reading)
    expected = (embedding.n, embedding._targets.n)
    shape = tuple(problem.sq_dissimilarity.shape)
    if shape != expected:
        raise InputError(
            f"D is {shape[0]} × {shape[1]}, but the embedding has {expected[0]} departures and "
            f"{expected[1]} arrivals; pass the D that was embedded."
        )
    _refuse_other_names(problem.labels, embedding.labels)
    _refuse_other_names(problem.arrival_labels, embedding.arrival_labels)
    return problem


def sampled_objects(n: int, rng: np.random.Generator) -> Indices:
    """Return the numbers of all objects, or of `FULL_UP_TO` drawn at random from more."""
    if n <= FULL_UP_TO:
        return np.arange(n)
    return np.sort(rng.choice(n, FULL_UP_TO, replace=False))


def measure(
    problem: Dense | Directed,
    coordinates: Array,
    form: Form,
    arrivals: Array | None = None,
    ties: str | None = None,
) -> Quality:
    """Measure coordinates against D.

    Of a directed D, `arrivals` are the coordinates of the columns. With `ties`, as of an ordinal
    fit, d̂ is compared with the disparities of D.

    Paper: subsec:eva-pert-metric.
    """
    x = to_floats(coordinates)
    y = x
    form = form.in_numpy()
    n_pairs = math.comb(problem.n, 2)
    # The STRESS is over both orders of the pairs that blocks have, i < j.
    orders = 2
    if isinstance(problem, Directed):
        y = to_floats(arrivals)
        n_pairs = len(x) * problem.n
        orders = 1
    rng = np.random.default_rng(0)
    # Of the pairs whose errors are kept, for quantiles; 1 and more: all.
    share = SAMPLED_PAIRS / n_pairs
    # Those whose neighbours are compared.
    objects = sampled_objects(len(x), rng)
    center = _center(problem)
    root_center = math.sqrt(max(0.0, center))
    sums = np.zeros(10)
    sums_of_roots = np.zeros(10)
    errors = []
    log_ratios = []
    error_sum = 0.0
    n_errors = 0
    n_undefined = 0
    # Of D, and of D̂ beyond rounding.
    n_negative = 0
    n_negative_hat = 0
    # Those kept, and all that could be.
    neighbors = np.zeros(2)
    for block in _row_blocks(problem, x, y, form, ties):
        neighbors += _neighbors_kept(problem, x, y, form, objects, block)
        counted = block.weights > 0
        rounding = rounding_level(x[block.rows], y[block.columns])[counted]
        sq_d = block.sq_d[counted]
        sq_d_hat = block.sq_d_hat[counted]
        weights = block.weights[counted]
        sums += _sums(sq_d, sq_d_hat, weights, center)
        sums_of_roots += _sums(
            block.d[counted], _root(sq_d_hat), weights, root_center
        )
        n_negative += int((sq_d < 0).sum())
        n_negative_hat += int((sq_d_hat < -rounding).sum())
        positive = sq_d > 0
        ratios = _ratios(sq_d[positive], sq_d_hat[positive])
        defined = (sq_d_hat > rounding)[positive]
        n_undefined += sq_d.size - int(defined.sum())
        block_errors = np.abs(ratios - 1)
        error_sum += float(block_errors.sum())
        n_errors += ratios.size
        if share < 1:
            sampled = rng.random(ratios.size, dtype=np.float32) < share
            block_errors = block_errors[sampled]
            defined &= sampled
        errors.append(block_errors)
        log_ratios.append(np.log(ratios[defined]))
    # Then some d do not exist.
    if n_negative:
        sums_of_roots[:] = math.nan
    logs = _joined(log_ratios)
    quantiles = np.quantile(
        _joined(errors), (0.5, 0.95, 0.99), method="inverted_cdf"
    )
    median, p95, p99 = quantiles.tolist()
    kept, possible = neighbors.tolist()
    sq_norm, _, stress, scaled_error, variation, _ = _agreement(orders * sums)
    of_roots = _agreement(sums_of_roots)
    d_norm, d_hat_norm, raw_stress, scaled_stress, _, shepard_r2 = of_roots
    return Quality(
        shepard_r2=shepard_r2,
        stress=stress,
        normalized_stress=stress / (sq_norm or 1.0),
        r2=1 - _quotient(stress, variation),
        scaled_additive_error=math.sqrt(scaled_error),
        raw_stress=raw_stress,
        stress1=math.sqrt(_quotient(scaled_stress, d_norm)),
        unscaled_stress1=math.sqrt(_quotient(raw_stress, d_hat_norm)),
        distortion=float(np.exp(np.abs(logs - np.median(logs)).mean())),
        relative_error_mean=_quotient(error_sum, n_errors),
        relative_error_median=median,
        relative_error_p95=p95,
        relative_error_p99=p99,
        neighbors_kept=_quotient(kept, possible),
        undefined_pairs=n_undefined,
        negative_dissimilarities=n_negative_hat,
        negative_coordinates=form.signature[1],
    )


def _center(problem: Dense | Directed) -> float:
    """Return the mean of D over the pairs of positive weight."""
    if isinstance(problem, Directed):
        squares = problem.sq_dissimilarity
    elif problem.weights is None:
        return problem.gram.mean
    else:
        squares = dense_gram(problem, "weights").sq_dissimilarity
    return float(np.mean(to_numpy(squares)[to_numpy(problem.weights) > 0]))


class _Block(NamedTuple):
    """Some rows of D, and some columns of these rows.

    The columns are all of a directed D, and of a symmetric one those from the first of the rows on,
    with positive weights for pairs i < j alone. `all_sq_d` has all columns, the other arrays have
    `columns`; `d` is δ of an ordinal fit. Pairs weigh 1 if the problem has no weights.
    """

    rows: slice
    columns: slice
    all_sq_d: Floats
    sq_d: Floats
    d: Floats
    sq_d_hat: Floats
    weights: Floats


def _row_blocks(
    problem: Dense | Directed,
    x: Floats,
    y: Floats,
    form: Form,
    ties: str | None = None,
) -> Iterator[_Block]:
    """Yield blocks that cover all pairs; `ties` are those of an ordinal fit."""
    ids = np.arange(problem.n)
    disparities = None
    if ties is not None and isinstance(problem, Dense):
        disparities = _disparities(problem, x, ties)
    if isinstance(problem, Dense):
        walk = problem.gram.walk()
    else:
        stored = problem.sq_dissimilarity
        walk = ((rows, stored[rows, :]) for rows in row_blocks(*stored.shape))
    for rows, block in walk:
        all_sq_d = to_floats(block)
        if isinstance(problem, Directed):
            columns = slice(0, problem.n)
            weights = to_numpy(problem.weights[rows, :])
        else:
            columns = slice(rows.start, problem.n)
            weights = (ids[columns] > ids[rows, None]).astype(np.float64)
            if problem.weights is not None:
                weights *= to_numpy(problem.weights[rows, columns])
        sq_d_hat = form.to_sq_distance(form.sq(x[rows], y[columns]))
        sq_d = all_sq_d[:, columns]
        d = _root(sq_d)
        if disparities is not None:
            d = disparities[rows, columns]
        yield _Block(rows, columns, all_sq_d, sq_d, d, sq_d_hat, weights)


def _disparities(problem: Dense, x: Floats, ties: str) -> Floats:
    """Return the disparities δ of all pairs (n, n), zero where the weight is zero."""
    sq_d = dense_gram(problem, option("loss", "ordinal")).sq_dissimilarity
    pairs = RankedPairs.of(sq_d, problem.weights, ties)
    condensed = np.zeros(math.comb(problem.n, 2))
    condensed[pairs.position] = pairs.disparities(pairs.distances(x[None]))[0]
    return squareform(condensed)


def _root(sq: Floats) -> Floats:
    """Return roots, zero of what is below zero."""
    return np.sqrt(np.maximum(sq, 0.0))


def _ratios(sq_d: Floats, sq_d_hat: Floats) -> Floats:
    """Return d̂/d where D > 0; roots are taken first, as a quotient of squares may overflow."""
    return _root(sq_d_hat) / np.sqrt(sq_d)


def _sums(
    given: Floats, fitted: Floats, weights: Floats, center: float
) -> Floats:
    """Return weighted sums of ten products over pairs, which `_agreement` takes in this order.

    A variance keeps its digits if the center is near the mean of the values, and the error of
    a good fit if it is summed as a gap.
    """
    ones = np.ones(given.size)
    from_center = given - center
    fitted_from_center = fitted - center
    gap = fitted - given
    products = (
        (ones, ones),
        (from_center, ones),
        (fitted_from_center, ones),
        (from_center, from_center),
        (fitted_from_center, fitted_from_center),
        (from_center, fitted_from_center),
        (given, given),
        (fitted, fitted),
        (gap, gap),
        (gap, fitted),
    )
    return np.array([(weights * left) @ right for left, right in products])


def _agreement(sums: Floats) -> tuple[float, ...]:
    """Return Σgiven², Σfitted², Σgap², min over α of Σ(given − α fitted)², Σ(given − mean)² and R².

    R² is the squared correlation, NaN where one side is constant up to rounding. `sums` are those
    of `_sums`: g and f are given and fitted values from the center. Quotients are taken first, so
    that no square overflows.
    """
    weight, g, f, g_sq, f_sq, gf, given, fitted, gap, gap_dot_fitted = (
        sums.tolist()
    )
    weight = weight or 1.0
    at_best_scale = gap - gap_dot_fitted / (fitted or 1.0) * gap_dot_fitted
    variation = g_sq - g / weight * g
    variation_fitted = f_sq - f / weight * f
    covariance = gf - g / weight * f
    rounding = 1e-28 * given  # a constant leaves 1e-32
    r2 = math.nan
    if variation <= rounding:
        variation = 0.0
    elif variation_fitted > rounding:
        r2 = covariance / variation * covariance / variation_fitted
    return given, fitted, gap, max(0.0, at_best_scale), variation, r2


def _quotient(numerator: float, denominator: float) -> float:
    """Return a quotient, NaN by zero."""
    return numerator / denominator if denominator else math.nan


def _joined(parts: Sequence[Floats]) -> Floats:
    """Return all values, or NaN if there is none."""
    values = np.concatenate(parts)
    if not values.size:
        return np.array([math.nan])
    return values


def _neighbors_kept(
    problem: Dense | Directed,
    x: Floats,
    y: Floats,
    form: Form,
    objects: Indices,
    block: _Block,
) -> tuple[int, int]:
    """Return how many neighbours by D̂ are neighbours by D, and how many there could be.

    They are those of the `objects` that are rows of the block.
    """
    rows = block.rows
    ids = objects[(objects >= rows.start) & (objects < rows.stop)]
    sq_d = block.all_sq_d[ids - rows.start]
    sq_d_hat = form.sq(x[ids], y)
    # No neighbours are the object itself, and objects at an unknown dissimilarity.
    excluded = np.zeros(sq_d.shape, dtype=bool)
    if not isinstance(problem, Directed):
        excluded = np.arange(problem.n) == ids[:, None]
    if problem.weights is not None:
        weights = to_numpy(problem.weights[rows, :])
        excluded |= weights[ids - rows.start] <= 0
    sq_d[excluded] = np.inf
    sq_d_hat[excluded] = np.inf
    count = min(NEIGHBORS, problem.n - 1)
    last = count - 1
    nearest = np.argpartition(sq_d_hat, last, axis=1)[:, :count]
    sq_d_of_nearest = np.take_along_axis(sq_d, nearest, axis=1)
    # D to the last neighbour. Equally near ones agree to nine digits.
    radius = np.partition(sq_d, last, axis=1)[:, last:count]
    rounding = 1e-9 * np.abs(radius)
    is_near = np.isfinite(sq_d_of_nearest) & (
        sq_d_of_nearest <= radius + rounding
    )
    n_known = np.isfinite(sq_d).sum(axis=1)
    return int(is_near.sum()), int(np.minimum(count, n_known).sum())
