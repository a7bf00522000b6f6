"""Fit a dense problem: by eigenpairs, by descent, or with as many coordinates as a goal takes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import isfinite, sqrt

import numpy as np
from sklearn.utils import check_random_state

from neucmds.backend.arrays import (
    Array,
    asarray_like,
    in_double,
    index_like,
    is_numpy,
    is_torch,
    min_and_max,
    namespace,
    on_cpu,
    to_numpy,
)
from neucmds.backend.memory import require_memory
from neucmds.embedding import Embedding
from neucmds.embedding.build import (
    from_descent,
    from_directed,
    from_selection,
)
from neucmds.errors import (
    ConvergenceWarning,
    FewerComponentsWarning,
    InputError,
    NeucmdsWarning,
    NonEuclideanWarning,
    OverfitWarning,
    option,
)
from neucmds.form import Form
from neucmds.options import Options, notify
from neucmds.place.dimension import fewest, scan_dimensions
from neucmds.place.rules import LossPlacement, OrdinalPlacement
from neucmds.prepared import dense_gram, refuse_weights
from neucmds.problem.components import (
    AUTO,
    GOALS,
    Size,
    checked_size,
    total_of,
)
from neucmds.problem.dense import Dense
from neucmds.problem.directed import Directed
from neucmds.problem.weights import refuse_parts_of
from neucmds.refine.descent import (
    DIRECTED_TOL,
    FEW_OBJECTS,
    Configuration,
    Descent,
    descend,
    usual_tol,
)
from neucmds.refine.gaps import complete_and_refine
from neucmds.refine.loss_starts import refine_for_loss
from neucmds.refine.ordinal import (
    TOL,
    OrdinalFit,
    RankedPairs,
    classical_start,
    refine_ordinal,
)
from neucmds.refine.pairwise import FLOOR_STEP, minimize
from neucmds.refine.products import refine
from neucmds.refine.scouting import (
    LEAST_GAIN,
    PER_COORDINATE,
    Scouts,
    mean_distance,
    scout,
)
from neucmds.refine.starts import (
    best_refined,
    ordered_start,
    without_null_columns,
)
from neucmds.refine.tiles import Tiles
from neucmds.spectrum.exact import exact_selection
from neucmds.spectrum.selection import METHODS, neuc_plus
from neucmds.spectrum.solve import EIGENPAIR_TOL, solve_for
from neucmds.spectrum.spectrum import Spectrum

# A warning is issued if the loss of held-out pairs is this many times that of fitted ones.
OVERFIT = 2.0
# Most coordinates that are tried to reach an R²: more take hours.
MOST_FOR_SHARE = 2000


def fit(problem: Dense, options: Options) -> Embedding:
    """Embed a dense problem: by a closed form, or by a descent from it or from other starts."""
    start = ordered_start(options.init, problem.labels)
    options = replace(options, init=start)
    if isinstance(options.n_components, GOALS):
        return _fit_goal(problem, options)
    gram = problem.gram
    method = options.method
    if method != "refined":
        refuse_weights(
            problem,
            option("method", method),
            f"use {option('method', 'refined')}",
        )
    components = checked_size(options.n_components, gram.n)
    descent = options.descent()
    has_spectral_start = problem.weights is None and options.init is None
    # Where D is zero, so is every loss, without any coordinate.
    is_squared = options.loss == "squared" or gram.sq_norm == 0
    if not (has_spectral_start and is_squared):
        notify(options.callback, f"embedding by {method}")
        return _descend(problem, components, options, descent)
    notify(options.callback, f"computing the spectrum of {gram.n:,} objects")
    tol = options.tol
    if tol is None or method == "refined":
        tol = EIGENPAIR_TOL
    spectrum = solve_for(
        gram, components, method, tol=tol, random_state=options.random_state
    )
    notify(options.callback, f"embedding by {method}")
    embedding = embed_spectrum(problem, spectrum, components, method, descent)
    return replace(embedding, loss=options.loss)


def embed_spectrum(
    problem: Dense,
    spectrum: Spectrum,
    components: Size,
    method: str,
    descent: Descent = descend,
) -> Embedding:
    """Embed from the spectrum of a problem, which serves every method and every k.

    `components` and `method` are those of `neuc_mds`; `descent` is that of "refined".
    """
    gram = problem.gram
    k = total_of(components)
    # Where "neuc+" keeps no eigenvalue, a descent has no start: the result is that of "exact".
    if method == "refined" and (
        isinstance(components, tuple)
        or neuc_plus(spectrum, components).kept.size
    ):
        end = best_refined(gram, spectrum, components, descent)
        return from_descent(problem, end, k, spectrum=spectrum)
    if method in METHODS:
        selection = METHODS[method](spectrum, components)
    else:
        selection = exact_selection(spectrum, gram.diagonal(), components)
    return from_selection(problem, spectrum, selection, method, k)


def _descend(
    problem: Dense, components: Size, options: Options, descent: Descent
) -> Embedding:
    """Embed by a descent that starts from no closed form: weights, gaps, other losses, `init`."""
    start = options.init
    weights = problem.weights
    k = total_of(components)
    if start is not None:
        check_start(start, problem.n)
    elif weights is not None:
        refuse_parts_of(weights, problem.labels)
    if options.loss == "ordinal":
        return _fit_ordinal(problem, k, options)
    if options.loss != "squared":
        gram = dense_gram(problem, option("loss", options.loss))
        end, mean = _end_by_loss(
            gram.sq_dissimilarity, weights, components, options
        )
        requested = max(k, end.signs.size)
        return from_descent(
            problem, end, requested, solver="loss", mean_distance=mean
        )
    if weights is None:
        return from_descent(problem, refine(problem.gram, start, descent), k)
    sq_dissimilarity = dense_gram(problem, "weights").sq_dissimilarity
    if start is not None:
        tiles = Tiles.of(sq_dissimilarity, "squared", weights=weights)
        end = minimize(tiles, start, descent)
    else:
        end = complete_and_refine(
            sq_dissimilarity,
            weights,
            components,
            descent,
            random_state=options.random_state,
        )
    return from_descent(problem, end, k, solver="weighted")


def check_start(
    start: Configuration | None, n: int, what: str = "objects"
) -> None:
    """Refuse a start of another number of points than D has."""
    if start is not None and start.coordinates.shape[0] != n:
        raise InputError(
            f"{option('init')} has coordinates of {start.coordinates.shape[0]} {what}, but D has "
            f"{n}."
        )


def _fit_ordinal(problem: Dense, k: int, options: Options) -> Embedding:
    """Embed by the order of the dissimilarities."""
    loss = option("loss", "ordinal")
    sq_dissimilarity = dense_gram(problem, loss).sq_dissimilarity
    # D, its pairs, their order, and more: 10.3 numbers per entry of D were measured.
    require_memory(
        11 * 8 * problem.n**2,
        f"{loss} of {problem.n} objects",
        f"pass features and {option('n_pairs', 100)}, or known pairs as a scipy.sparse array",
    )
    n_init = options.n_init
    if options.init is None:
        start = classical_start(
            sq_dissimilarity, problem.weights, k, options.random_state
        )
    else:
        start = to_numpy(options.init.coordinates).astype(np.float64)
        n_init = 1
    ordinal_fit = refine_ordinal(
        RankedPairs.of(sq_dissimilarity, problem.weights, options.ties),
        start,
        n_init,
        max_iter=options.max_iter,
        tol=options.tol,
        random_state=options.random_state,
        callback=options.callback,
    )
    mean = mean_distance(sq_dissimilarity, problem.weights)
    embedding = from_descent(
        problem, ordinal_fit.end, k, solver="loss", mean_distance=mean
    )
    return with_disparities(embedding, ordinal_fit, options.ties)


def with_disparities(
    embedding: Embedding, fitted: OrdinalFit, ties: str
) -> Embedding:
    """Return an ordinal embedding with its placement, by disparities, and how it was found."""
    placement = OrdinalPlacement(
        embedding.coordinates,
        embedding.form,
        fitted.dissimilarity,
        fitted.disparity,
        embedding.stress1,
    )
    info = replace(
        embedding.info,
        n_starts=fitted.n_starts,
        times_found=fitted.times_found,
        ties=ties,
    )
    return replace(embedding, placement=placement, info=info)


def fit_directed(problem: Directed, options: Options) -> Embedding:
    """Embed D from rows to columns: a departure for each row, an arrival for each column."""
    sq_dissimilarity = problem.sq_dissimilarity
    n_points = sum(sq_dissimilarity.shape)
    check_start(options.init, n_points, "departures and arrivals")
    shorter_side = int(min(sq_dissimilarity.shape))
    components = checked_size(
        options.n_components, shorter_side + 1, "min(rows, columns)"
    )
    is_usual = options.tol is None
    if is_usual and usual_tol(options.loss, n_points) > DIRECTED_TOL:
        options = replace(options, tol=DIRECTED_TOL)
    end, mean = _end_by_loss(
        sq_dissimilarity, problem.weights, components, options
    )
    requested = max(total_of(components), end.signs.size)
    return from_directed(problem, end, requested, mean)


def _end_by_loss(
    sq_dissimilarity: Array,
    weights: Array | None,
    components: Size,
    options: Options,
) -> tuple[Configuration, float]:
    """Return the end of the descent by a loss of d, the best of several, and the mean d.

    D and weights are (m, n); results are of the library of D.
    """
    loss = option("loss", options.loss)
    like = sq_dissimilarity
    if is_torch(like) and on_cpu(like):
        # On the CPU torch takes ten times as long as NumPy for many small products.
        sq_dissimilarity = to_numpy(like)
        if weights is not None:
            weights = to_numpy(weights)
    m, n = sq_dissimilarity.shape
    if weights is not None:
        # A pair without weight does not bound the curvature.
        xp = namespace(sq_dissimilarity)
        sq_dissimilarity = xp.where(weights > 0, sq_dissimilarity, 0.0)
    if is_numpy(sq_dissimilarity):
        # D, a scaled copy of it, and tiles of this, in float64.
        require_memory(
            3 * 8 * m * n,
            f"{loss} of {n} objects",
            f"use {option('loss', 'squared')}, or LandmarkNeucMDS, which takes any loss",
        )
    n_points = n
    if options.directed:
        n_points = m + n
    mean = mean_distance(sq_dissimilarity, weights)
    largest = sqrt(min_and_max(sq_dissimilarity)[1])
    if options.floor is not None and options.floor > largest:
        raise InputError(
            f"{option('floor', options.floor)} is above all dissimilarities, the largest of which "
            f"is {largest:.4g}; lower it."
        )
    components, form, scouts = scouted(
        lambda: sq_dissimilarity,
        n_points,
        components,
        options,
        mean,
        largest,
        weights,
    )
    near_start = None
    if scouts is not None and weights is None:
        near_start = partial(_placed_among, scouts, sq_dissimilarity, form)
    notify(
        options.callback,
        f"comparing starts and signatures by the {options.loss} loss",
    )
    end = refine_for_loss(
        sq_dissimilarity,
        components,
        options.loss,
        options.descent(),
        start=options.init,
        near_start=near_start,
        weights=weights,
        n_init=options.n_init,
        floor=options.floor,
        form=form,
        random_state=options.random_state,
        directed=options.directed,
    )
    # One huge d makes the mean large, but not the floor.
    unit = end.loss.sq_floor or mean**2
    end = without_null_columns(end, n_points * min(unit, mean**2))
    x = asarray_like(end.coordinates, like, namespace(like).float64)
    return replace(end, coordinates=x), mean


def scouted(
    sample_squares: Callable[[], Array] | None,
    n: int,
    components: Size,
    options: Options,
    mean_distance: float,
    largest_distance: float,
    weights: Array | None = None,
) -> tuple[Size, Form, Scouts | None]:
    """Choose curvature, signature and heights, if free, by short descents on D of some objects.

    Return the size without heights, with its signature if that was chosen, the form, without signs
    yet: it belongs to the curvature, and the fit of the sample, if it may be a start. Where only a
    signature is free, the fit of few objects chooses it. A curved start keeps its form.

    Parameters
    ----------
    sample_squares : callable or None
        Returns D among the objects to try on; None: a curvature that is given stays.
    n, components, options
        Of the fit.
    mean_distance, largest_distance : float
        Of d: the unit of curvature, and what bounds it.
    weights : array, optional
        Of D as `sample_squares` returns it.
    """
    start = options.init
    if start is not None and not start.form.is_flat:
        return components, start.form, None
    curvature_is_sought = options.curvature == AUTO
    form = Form()
    if not curvature_is_sought:
        form = Form.of(
            float(options.curvature), mean_distance, largest_distance
        )
    # A height counts as one of k coordinates.
    others = components
    if isinstance(components, int):
        others = components - 1
    candidates = [(components, form)]
    raised = (others, replace(form, signs=np.zeros(1)))
    heights_are_sought = (
        options.heights == AUTO and start is None and bool(others)
    )
    if options.heights is True:
        if not others:
            raise InputError(
                f"{option('heights', True)} counts as one of {option('n_components', 1)}; pass "
                "at least 2."
            )
        candidates = [raised]
    elif heights_are_sought:
        candidates.append(raised)
    signature_is_sought = (
        n > FEW_OBJECTS
        and options.loss != "squared"
        and options.n_init is None
        and start is None
        and isinstance(components, int)
    )
    if sample_squares is None or not (
        signature_is_sought or curvature_is_sought or heights_are_sought
    ):
        return *candidates[0], None
    if curvature_is_sought:
        notify(
            options.callback,
            "looking for the curvature, which takes about as long as two fits",
        )
    seed = int(check_random_state(options.random_state).randint(2**31))
    squares = sample_squares()
    tried = [
        scout(
            squares,
            size,
            options.loss,
            candidate,
            curvature_is_sought=curvature_is_sought,
            largest_distance=largest_distance,
            weights=weights,
            floor=options.floor,
            seed=seed,
            directed=options.directed,
            hold_out=heights_are_sought,
        )
        for size, candidate in candidates
    ]
    chosen = 0
    pairs_of_errors = zip(tried[-1].errors, tried[0].errors, strict=True)
    if all(new < (1 - LEAST_GAIN) * old for new, old in pairs_of_errors):
        chosen = -1
    components, form = candidates[chosen]
    scouts = tried[chosen]
    if curvature_is_sought:
        form = replace(form, curvature=scouts.end.form.curvature)
    # If heights alone were sought, the fit compares signatures with more starts.
    if signature_is_sought or curvature_is_sought:
        components = scouts.end.form.signature
    if not signature_is_sought or curvature_is_sought or heights_are_sought:
        # From a sample that was fitted by several forms the mean error of CS PhDs ends at .0210,
        # and else at .0197.
        return components, form, None
    return components, form, scouts


def _placed_among(
    scouts: Scouts, sq_dissimilarity: Array, form: Form, sq_floor: float
) -> Configuration | None:
    """Return the fit of the sample, with all other objects placed among it, as a start.

    None if the sample is no start: of both sides of a directed D, with curvature or heights, with
    few objects per coordinate, by "distance", or with a floor far above that of all objects,
    `sq_floor`: objects are farther apart in a sample, and near pairs of the start are far off.
    """
    end = scouts.end
    numbers = scouts.numbers
    is_start = (
        numbers is not None
        and form.is_bilinear
        and end.loss.beginning.name == "linear"
        and numbers.size >= PER_COORDINATE * end.signs.size
        and end.loss.sq_floor <= FLOOR_STEP * sq_floor
    )
    if not is_start:
        return None
    ids = index_like(numbers, sq_dissimilarity)
    to_sample = namespace(sq_dissimilarity).take(sq_dissimilarity, ids, axis=1)
    # By the squared loss all objects share one factorization, and near pairs come right later.
    placement = LossPlacement(end.coordinates, end.form)
    x = to_numpy(placement.place(in_double(to_sample)))
    x[numbers] = to_numpy(end.coordinates)
    return replace(end, coordinates=asarray_like(x, sq_dissimilarity))


def _fit_goal(problem: Dense, options: Options) -> Embedding:
    """Embed with the fewest coordinates that reach an R², or that held-out objects choose."""
    gram = problem.gram
    checked_size(options.n_components, gram.n)
    if options.n_components == AUTO:
        refuse_weights(problem, option("n_components", AUTO), "pass a number")
        notify(options.callback, "predicting objects held out, to choose k")
        scan = scan_dimensions(gram, check_random_state(options.random_state))
        if scan.error >= 1:
            warnings.warn(
                "no number of coordinates predicts pairs of objects held out better than their "
                f"mean does (R² {1 - scan.error:.2g} with {scan.k}); compare the STRESS of "
                "several.",
                NeucmdsWarning,
                stacklevel=5,
            )
        return fit(problem, replace(options, n_components=scan.k))
    share = float(options.n_components)  # type: ignore[arg-type]
    if not gram.total_sum_of_squares:
        raise InputError(
            f"{option('n_components', share)} is a share of R², which has no meaning here: all "
            "dissimilarities are equal; pass a number."
        )
    notify(
        options.callback,
        f"looking for the fewest coordinates with an R² of {share:g}",
    )
    embeddings: dict[int, Embedding] = {}
    most = min(gram.n - 1, MOST_FOR_SHARE)

    def reaches(size: int) -> bool:
        # Heights count as one coordinate, and need another beside them.
        if options.heights is True and size == 1 < most:
            return False
        size_options = replace(options, n_components=size)
        embeddings[size] = fit(problem, size_options)
        return embeddings[size].r2 >= share

    # From one coordinate on, since the R² of classical MDS falls again with many.
    k = fewest(reaches, most)
    if k is not None:
        return embeddings[k]
    best = max(embedding.r2 for embedding in embeddings.values())
    raise InputError(
        f"{option('n_components', share)} asks for an R² of {share:g}, but "
        f"{option('method', options.method)} reaches {best:.4g} at most; ask for less, or pass a "
        "number of coordinates."
    )


def warn_of_surprises(embedding: Embedding) -> None:
    """Warn where a fit did not converge, overfits, or has fewer coordinates than requested."""
    info = embedding.info
    # `stacklevel=3` points to the call of `neuc_mds` or of `fit`.
    if not info.converged:
        text = (
            f"the {info.solver} solver did not converge (largest residual "
            f"{max(info.residuals, default=0.0):.2g}); raise {option('tol')}."
        )
        if info.history:
            gradient = ""
            if isfinite(info.relative_gradient):
                gradient = f" (relative gradient {info.relative_gradient:.2g})"
            text = (
                f"the fit stopped before it converged{gradient}; raise "
                f"{option('max_iter')}."
            )
        warnings.warn(text, ConvergenceWarning, stacklevel=3)
    # A stress-1 whose square is below TOL counts as zero: there is no lower one.
    may_be_lower = info.times_found <= 1 and embedding.stress1**2 > TOL
    if info.n_starts > 1 and may_be_lower:
        advice = f"raise {option('n_init')}"
        # The number of starts of listed pairs is fixed.
        if info.solver in ("pairs", "sampled pairs"):
            advice = f"try other values of {option('random_state')}"
        text = (
            f"the least stress-1, {embedding.stress1:.4f}, was found once in {info.n_starts} "
            f"starts, and there may be a lower one; {advice}."
        )
        warnings.warn(text, NeucmdsWarning, stacklevel=3)
    if info.overfit_ratio > OVERFIT:
        more = "n_near"
        if info.solver == "sampled pairs":
            more = "n_pairs"
        estimate = f"R² of all pairs is {embedding.r2:.2f}"
        # The distances of an ordinal fit have no unit in which R² could be defined.
        if embedding.loss == "ordinal":
            estimate = f"stress-1 of all pairs is {embedding.stress1:.2f}"
        text = (
            f"the loss of held-out pairs is {info.overfit_ratio:.2g} times that of fitted ones, "
            f"and the estimated {estimate}; raise {option(more)}, or lower "
            f"{option('n_components')}."
        )
        warnings.warn(text, OverfitWarning, stacklevel=3)
    if embedding.k == embedding.requested:
        return
    category: type[Warning] = FewerComponentsWarning
    reason = (
        "the other eigenvalues are zero or, beside huge entries of D, lost in rounding, have the "
        "wrong sign, or lose their weight by the shift of 'neuc+'"
    )
    if embedding.method in ("classical", "lower"):
        category = NonEuclideanWarning
        reason = (
            f"{option('method', embedding.method)} can use no more positive eigenvalues; 'neuc+' "
            "and 'exact' keep negative ones too"
        )
    elif embedding.method == "refined":
        reason = "another one does not lower the loss, or predicts held-out entries worse"
    count = f"{embedding.k} of {embedding.requested} coordinates are returned"
    warnings.warn(f"{count}: {reason}.", category, stacklevel=3)
