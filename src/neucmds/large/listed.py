"""Embed listed pairs, without an n × n array."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
from scipy.sparse.csgraph import connected_components
from sklearn.utils import check_random_state

from neucmds.backend.arrays import (
    Array,
    Floats,
    Indices,
    asarray_like,
    namespace,
    on_cpu,
    to_numpy,
)
from neucmds.backend.memory import require_memory
from neucmds.dense_fit import (
    check_start,
    fit_directed,
    scouted,
    with_disparities,
)
from neucmds.embedding import Embedding
from neucmds.embedding.build import from_pairs
from neucmds.form import Form
from neucmds.large.landmark_fit import embed_landmarks
from neucmds.options import PRECOMPUTED, Options, notify
from neucmds.problem.components import AUTO, Size, checked_size, total_of
from neucmds.problem.directed import as_directed
from neucmds.problem.graph import as_graph, shortest_path_rows
from neucmds.problem.pairs import Pairs, check_pairs, make_pairs
from neucmds.problem.sampled_pairs import Check, flat_checks
from neucmds.refine.descent import FEW_OBJECTS, Configuration
from neucmds.refine.gaps import fit_few_objects
from neucmds.refine.listed_pairs import refine_pairs
from neucmds.refine.ordinal import RankedPairs, refine_ordinal
from neucmds.refine.scouting import LEAST_GAIN, SCOUTS
from neucmds.refine.starts import in_form

# Least number of landmarks that a directed fit starts from.
DIRECTED_LANDMARKS = 300
# Shares of the κ that scouts choose, which fits of sampled pairs try in turn: the power grid is off
# by 23 % with all of it, by 3.3 % with half.
SHARES_OF_CURVATURE = (0.25, 0.5, 1.0)


def embed_pairs(pairs: Pairs, options: Options) -> Embedding:
    """Embed listed pairs, in O(m·k) per iteration for m pairs.

    The start is an embedding of landmarks, with shortest paths over the pairs where a dissimilarity
    to a landmark is not listed.
    """

    def squares_to_landmarks(count: int) -> tuple[Indices, Floats]:
        rng = check_random_state(options.random_state)
        landmarks = np.sort(rng.permutation(pairs.n)[:count])
        paths = shortest_path_rows(as_graph(pairs.graph()), landmarks)
        return landmarks, _listed_or_bridged(pairs, landmarks, paths)

    def squares_among_scouts() -> Floats:
        scouts, squares = squares_to_landmarks(min(pairs.n, SCOUTS))
        return (squares[scouts] + squares[scouts].T) / 2

    return embed_from_landmarks(
        pairs, options, squares_among_scouts, squares_to_landmarks
    )


def embed_from_landmarks(
    pairs: Pairs,
    options: Options,
    squares_among_scouts: Callable[[], Array] | None,
    squares_to_landmarks: Callable[[int], tuple[Indices, Floats]],
    *,
    weight_power: float = 1.0,
    like: Array | None = None,
    checks: Iterable[Check] | None = None,
) -> Embedding:
    """Embed pairs that are listed or sampled, from a start among landmarks.

    A start of the user, or one of few objects by the squared loss, needs no landmarks. Of sampled
    pairs, a curvature that is sought is one whose fit predicts all pairs better than without.

    Parameters
    ----------
    pairs, options, weight_power, checks
        As for `fit_pairs`.
    squares_among_scouts : callable or None
        Returns D among some objects, on which form and signature are chosen, as for `scouted`.
    squares_to_landmarks : callable
        Returns, for a number of landmarks, their numbers and D (n, L) of all objects to them.
    like : array, optional
        Objects are placed among the landmarks on its device.
    """
    components = checked_size(options.n_components, pairs.n)
    k = total_of(components)
    require_pair_memory(pairs.size, pairs.n, k)
    check_pairs(pairs, k)
    if options.curvature == AUTO and pairs.sampled and squares_among_scouts:
        # Each of several fits uses them.
        squares = squares_among_scouts()
        checks = list(checks or ())

        def embed(curvature: float) -> Embedding:
            return embed_from_landmarks(
                pairs,
                replace(options, curvature=curvature),
                lambda: squares,
                squares_to_landmarks,
                weight_power=weight_power,
                like=like,
                checks=checks,
            )

        return _best_curved(embed, pairs, components, options, squares)
    mean_distance, largest_distance = distances_of(pairs)
    components, form, _ = scouted(
        squares_among_scouts,
        pairs.n,
        components,
        options,
        mean_distance,
        largest_distance,
    )
    k = total_of(components)
    is_small = pairs.n <= FEW_OBJECTS and not pairs.sampled
    start = options.init
    if start is None and is_small and options.loss == "squared":
        start = fit_few_objects(pairs, components)
    if start is None:
        landmarks, squares = squares_to_landmarks(_start_size(pairs.n, k))
        start = landmark_start(
            landmarks, squares, components, form, options, like
        )
    else:
        check_start(start, pairs.n)
        # A user's coordinates and signs, with the curvature and the heights of the fit.
        start = replace(start, form=replace(form, signs=start.signs))
        start = in_form(start, form)
    embedding = fit_pairs(
        pairs,
        start,
        options,
        falling=options.init is None,
        weight_power=weight_power,
        checks=checks,
    )
    # A user's start may have more coordinates.
    return replace(embedding, requested=max(k, embedding.k))


def _best_curved(
    embed: Callable[[float], Embedding],
    pairs: Pairs,
    components: Size,
    options: Options,
    squares: Array,
) -> Embedding:
    """Return the fit without curvature, or one with κ whose estimated loss of all pairs is lower.

    Far κ fit sampled pairs closer, and may predict others far worse, which D among scouts, all of
    which count, does not show. `embed` returns the fit with a κ in units of 1/(mean d)², `squares`
    is D among scouts.
    """
    mean_distance, largest_distance = distances_of(pairs)
    _, form, _ = scouted(
        lambda: squares,
        pairs.n,
        components,
        options,
        mean_distance,
        largest_distance,
    )
    flat = embed(0.0)
    if form.is_flat:
        return flat
    curved: list[Embedding] = []
    for share in SHARES_OF_CURVATURE:
        farther = embed(share * form.relative_curvature(mean_distance))
        if curved and farther.loss_value >= curved[-1].loss_value:
            break
        curved.append(farther)
    if curved[-1].loss_value < (1 - LEAST_GAIN) * flat.loss_value:
        return curved[-1]
    return flat


def embed_directed_pairs(pairs: Pairs, options: Options) -> Embedding:
    """Embed listed pairs from rows to columns: points of departure, then of arrival.

    If both are the same objects, and each can be reached from each, the start is a fit of landmarks
    in both directions, by shortest paths along the pairs and against them. Otherwise departures and
    arrivals are objects of one list.
    """
    n = pairs.n_departures
    assert n is not None
    # From row objects to column objects.
    ways = pairs.graph()[:n, n:]
    n_parts = 0
    if 2 * n == pairs.n:
        n_parts, _ = connected_components(ways, connection="strong")
    if n_parts != 1 or options.init is not None:
        return embed_pairs(pairs, replace(options, directed=False))
    k = total_of(checked_size(options.n_components, pairs.n))
    check_pairs(pairs, k)
    rng = check_random_state(options.random_state)
    landmarks = np.sort(rng.permutation(n)[: directed_landmarks(n, k)])
    graph = as_graph(ways, direction="both")
    # In `pairs` object i is the departure i and the arrival n + i. The departures of landmarks have
    # pairs with arrivals alone, and their arrivals with departures alone.
    paths = np.full((landmarks.size, pairs.n), np.inf)
    paths[:, n:] = shortest_path_rows(graph, landmarks)
    sq_from_landmarks = _listed_or_bridged(pairs, landmarks, paths)[n:]
    paths[:, :n] = shortest_path_rows(graph.turned(), landmarks)
    sq_to_landmarks = _listed_or_bridged(pairs, n + landmarks, paths)[:n]
    return embed_both_ways(
        pairs, landmarks, sq_from_landmarks, sq_to_landmarks, options
    )


def embed_both_ways(
    pairs: Pairs,
    landmarks: Indices,
    sq_from_landmarks: Floats,
    sq_to_landmarks: Floats,
    options: Options,
    checks: Iterable[Check] | None = None,
) -> Embedding:
    """Embed pairs of departures and arrivals from a fit of landmarks in both directions.

    Parameters are those of `place_both_ways` and `fit_pairs`.
    """
    k = total_of(checked_size(options.n_components, pairs.n))
    require_pair_memory(pairs.size, pairs.n, k)
    start = place_both_ways(
        landmarks, sq_from_landmarks, sq_to_landmarks, options
    )
    points = np.concatenate([start.coordinates, start.arrivals])
    embedding = fit_pairs(
        pairs,
        Configuration(points, start.form.in_numpy()),
        options,
        falling=True,
        checks=checks,
    )
    return replace(embedding, requested=k)


def directed_landmarks(n: int, k: int) -> int:
    """Return how many landmarks a directed fit of n objects starts from."""
    return min(n, max(DIRECTED_LANDMARKS, 10 * k))


def place_both_ways(
    landmarks: Indices,
    sq_from_landmarks: Floats,
    sq_to_landmarks: Floats,
    options: Options,
) -> Embedding:
    """Return an embedding of all objects: landmarks are fitted in both directions, others placed.

    Dissimilarities of all n objects from and to the landmarks, (n, L) each, are squared.
    """
    among = as_directed(sq_from_landmarks.T[:, landmarks], squared=True)
    landmark_options = replace(
        options, metric=PRECOMPUTED, n_pairs=None, squared=True
    )
    embedding = fit_directed(among, landmark_options)
    n = len(sq_to_landmarks)
    notify(options.callback, f"placing {n} objects among landmarks")
    departures, arrivals = embedding.transform(
        to=sq_to_landmarks, from_=sq_from_landmarks
    )
    departures[landmarks] = embedding.coordinates
    arrivals[landmarks] = embedding.arrivals
    return replace(
        embedding,
        coordinates=departures,
        arrivals=arrivals,
        landmarks=landmarks,
        squared=options.squared,
    )


def fit_pairs(
    pairs: Pairs,
    start: Configuration,
    options: Options,
    *,
    falling: bool,
    weight_power: float = 1.0,
    checks: Iterable[Check] | None = None,
) -> Embedding:
    """Descend from a start on listed pairs.

    Parameters
    ----------
    pairs : Pairs
    start : Configuration
        Its form is kept. Coordinates on a device are refined there.
    options : Options
    falling : bool
        Whether the floor of the relative loss falls in stages, as from a rough start.
    weight_power : float, default=1
        Power of the weights in the loss: with less than 1, near pairs of a sample count more.
    checks : iterable, optional
        Pairs drawn at random from all pairs, on which STRESS, R² and loss are estimated.
    """
    if options.loss == "ordinal":
        return _fit_ordinal(pairs, start, options, checks)
    if on_cpu(start.coordinates):
        start = replace(start, coordinates=to_numpy(start.coordinates))
    # The powers serve the descent alone: the figures of the embedding are those of `pairs`.
    reweighted = pairs
    if weight_power != 1 and pairs.weight is not None:
        powers = pairs.weight**weight_power
        # The sum of all weights stays.
        weight = powers * (pairs.weight.sum() / powers.sum())
        reweighted = replace(pairs, weight=weight)
    refined = refine_pairs(
        reweighted,
        start,
        options.descent(),
        options.loss,
        floor=options.floor,
        falling=falling,
    )
    return from_pairs(
        pairs,
        refined,
        start.signs.size,
        mean_distance=distances_of(pairs)[0],
        checks=checks,
    )


def _fit_ordinal(
    pairs: Pairs,
    start: Configuration,
    options: Options,
    checks: Iterable[Check] | None,
) -> Embedding:
    """Descend on the order of listed pairs.

    With `checks`, stress-1 is that of pairs that were not fitted, by disparities of their own.
    """
    # From a user's start alone, or else from as many as usual.
    n_init = None
    if options.init is not None:
        n_init = 1
    ordinal_fit = refine_ordinal(
        RankedPairs.listed(pairs, options.ties),
        to_numpy(start.coordinates),
        n_init,
        max_iter=options.max_iter,
        tol=options.tol,
        random_state=options.random_state,
        callback=options.callback,
    )
    if checks is not None:
        checks = list(checks)
    embedding = from_pairs(
        pairs,
        ordinal_fit.end,
        start.signs.size,
        mean_distance=distances_of(pairs)[0],
        checks=checks,
    )
    info = embedding.info
    # Stress-1, squared.
    sq_stress = ordinal_fit.end.value / ordinal_fit.sum_of_squares
    if checks:
        listed = make_pairs(pairs.n, *flat_checks(checks), squared=True)
        held_out = RankedPairs.listed(listed, options.ties)
        sq_stress_of_fitted = sq_stress
        coordinates = to_numpy(embedding.coordinates)
        (sq_stress,), _ = held_out.stress(coordinates[None])
        ratio = sq_stress / (sq_stress_of_fitted or 1.0)
        info = replace(info, overfit_ratio=ratio)
    embedding = replace(
        embedding, info=info, loss_value=sq_stress * info.sum_of_squares
    )
    return with_disparities(embedding, ordinal_fit, options.ties)


def landmark_start(
    landmarks: Indices,
    sq_to_landmarks: Floats,
    components: Size,
    form: Form,
    options: Options,
    like: Array | None = None,
) -> Configuration:
    """Embed landmarks by the squared loss and place all objects among them.

    Parameters
    ----------
    landmarks : ndarray of shape (L,)
    sq_to_landmarks : ndarray of shape (n, L)
        Squared dissimilarities of all objects to the landmarks.
    components : int or (int, int)
    form : Form
        Its curvature and further columns are kept.
    options : Options
        Its `random_state` draws the folds of landmarks held out.
    like : array, optional
        Objects are placed on its device.
    """
    squares = form.to_sq(sq_to_landmarks)
    among = (squares[landmarks] + squares[landmarks].T) / 2
    rng = check_random_state(options.random_state)
    landmark_options = Options(components, squared=True, random_state=rng)
    embedding, _ = embed_landmarks(among, landmark_options)
    assert embedding.placement is not None
    if like is not None and not on_cpu(like):
        squares = asarray_like(squares, like, namespace(like).float64)
    x = embedding.placement.place(squares)
    signs = embedding.form.in_numpy().signs
    start = Configuration(x, replace(form, signs=signs))
    return in_form(start, form)


def distances_of(pairs: Pairs) -> tuple[float, float]:
    """Return the mean d of pairs, weighted, and the largest d."""
    distances = np.sqrt(np.maximum(pairs.sq_dissimilarity, 0))
    mean = np.average(distances, weights=pairs.weights)
    return float(mean), float(distances.max())


def require_pair_memory(
    n_pairs: int, n: int, k: int, advice: str = "pass fewer pairs"
) -> None:
    """Refuse pairs of n objects with k coordinates whose descent takes more memory than is free."""
    # Measured peaks: 230 bytes per pair, 12 per entry of the k × k block of each object, and 16 per
    # dissimilarity to a landmark of the start.
    needed = 230 * n_pairs + 12 * n * k * k + 16 * n * _start_size(n, k)
    what = f"{n_pairs} pairs of {n} objects with {k} coordinates"
    require_memory(needed, what, f"ask for fewer coordinates, or {advice}")


def _start_size(n: int, k: int) -> int:
    """Return the number of landmarks among which n objects are placed to start from."""
    return min(n, max(100, 5 * k))


def _listed_or_bridged(
    pairs: Pairs, landmarks: Indices, paths: Floats
) -> Floats:
    """Return squared dissimilarities (n, L) to landmarks, by `paths` (L, n) where not listed.

    Paths alone are a metric even where D is none, and would lose the negative coordinates.
    """
    sq_to_landmarks = paths.T**2
    # Column of each object that is a landmark, −1 of all others.
    column = np.full(pairs.n, -1)
    column[landmarks] = np.arange(landmarks.size)
    for objects, partners in ((pairs.i, pairs.j), (pairs.j, pairs.i)):
        is_listed = column[partners] >= 0
        columns = column[partners[is_listed]]
        squares = pairs.sq_dissimilarity[is_listed]
        sq_to_landmarks[objects[is_listed], columns] = squares
    return sq_to_landmarks
