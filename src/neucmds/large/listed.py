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
from neucmds.problem.components import Size, checked_size, total_of
from neucmds.problem.directed import as_directed
from neucmds.problem.graph import as_graph, shortest_path_rows
from neucmds.problem.pairs import Pairs, check_pairs, make_pairs
from neucmds.problem.sampled_pairs import Check, flat_checks
from neucmds.refine.descent import FEW_OBJECTS, Configuration
from neucmds.refine.gaps import from_all_pairs
from neucmds.refine.listed_pairs import refine_pairs
from neucmds.refine.ordinal import RankedPairs, refine_ordinal
from neucmds.refine.scouting import SCOUTS
from neucmds.refine.starts import in_form

# Least number of landmarks that a directed fit starts from.
DIRECTED_LANDMARKS = 300


def embed_pairs(pairs: Pairs, options: Options) -> Embedding:
    """Embed listed pairs, in O(m·k) per iteration for m pairs.

    The start is an embedding of landmarks, with shortest paths over the pairs where a dissimilarity
    to a landmark is not listed.
    """

    def to_landmarks(count: int) -> tuple[Indices, Floats]:
        rng = check_random_state(options.random_state)
        landmarks = np.sort(rng.permutation(pairs.n)[:count])
        paths = shortest_path_rows(as_graph(pairs.graph()), landmarks)
        return landmarks, _listed_or_bridged(pairs, landmarks, paths)

    def among_scouts() -> Floats:
        scouts, squares = to_landmarks(min(pairs.n, SCOUTS))
        return (squares[scouts] + squares[scouts].T) / 2

    return embed_known(pairs, options, among_scouts, to_landmarks)


def embed_known(
    pairs: Pairs,
    options: Options,
    among_scouts: Callable[[], Array] | None,
    to_landmarks: Callable[[int], tuple[Indices, Floats]],
    *,
    weight_power: float = 1.0,
    like: Array | None = None,
    checks: Iterable[Check] | None = None,
) -> Embedding:
    """Embed pairs that are listed or sampled.

    Parameters
    ----------
    pairs, options, weight_power, checks
        As for `fit_pairs`.
    among_scouts : callable or None
        Returns D among some objects, on which form and signature are chosen, as for `scouted`.
    to_landmarks : callable
        From a number of landmarks: landmarks, and D (n, L) of all objects to them, to start from.
    like : array, optional
        Objects are placed among the landmarks on its device.
    """
    components = checked_size(options.n_components, pairs.n)
    k = total_of(components)
    require_pair_memory(pairs.size, pairs.n, k)
    check_pairs(pairs, k)
    components, form = scouted(
        among_scouts, pairs.n, components, options, *distances_of(pairs)
    )
    k = total_of(components)
    few = pairs.n <= FEW_OBJECTS and not pairs.sampled
    start = options.init
    if start is None and few and options.loss == "squared":
        start = from_all_pairs(pairs, components)
    if start is None:
        landmarks, squares = to_landmarks(_start_size(pairs.n, k))
        start = landmark_start(
            landmarks, squares, components, form, options, like
        )
    else:
        check_start(start, pairs.n)
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
    return replace(embedding, requested=max(k, embedding.k))


def embed_directed_pairs(pairs: Pairs, options: Options) -> Embedding:
    """Embed listed pairs from rows to columns: points of departure, then of arrival.

    If both are the same objects, the start is a fit of landmarks in both directions, by shortest
    paths along the pairs and against them. Otherwise points of both sides are objects of a list.
    """
    n = pairs.n_departures
    assert n is not None
    ways = pairs.graph()[:n, n:]
    count = 0
    if 2 * n == pairs.n:
        count, _ = connected_components(ways, connection="strong")
    if count != 1 or options.init is not None:
        return embed_pairs(pairs, replace(options, directed=False))
    k = total_of(checked_size(options.n_components, pairs.n))
    check_pairs(pairs, k)
    rng = check_random_state(options.random_state)
    landmarks = np.sort(rng.permutation(n)[: directed_landmarks(n, k)])
    graph = as_graph(ways, direction="both")
    paths = np.full((pairs.n, landmarks.size), np.inf)
    paths[n:] = shortest_path_rows(graph, landmarks).T
    from_landmarks = _listed_or_bridged(pairs, landmarks, paths.T)[n:]
    paths[:n] = shortest_path_rows(graph.turned(), landmarks).T
    to_landmarks = _listed_or_bridged(pairs, n + landmarks, paths.T)[:n]
    return embed_both_ways(
        pairs, landmarks, from_landmarks, to_landmarks, options
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

    Parameters are those of `among_landmarks` and `fit_pairs`.
    """
    k = total_of(checked_size(options.n_components, pairs.n))
    require_pair_memory(pairs.size, pairs.n, k)
    start = among_landmarks(
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


def among_landmarks(
    landmarks: Indices,
    sq_from_landmarks: Floats,
    sq_to_landmarks: Floats,
    options: Options,
) -> Embedding:
    """Embed landmarks in both directions and place all objects among them.

    Dissimilarities of all objects, (n, L) each, are squared.
    """
    among = as_directed(sq_from_landmarks.T[:, landmarks], squared=True)
    landmark_options = replace(
        options, metric=PRECOMPUTED, n_pairs=None, squared=True
    )
    fitted = fit_directed(among, landmark_options)
    n = len(sq_to_landmarks)
    notify(options.callback, f"placing {n} objects among landmarks")
    departures, arrivals = fitted.transform(
        to=sq_to_landmarks, from_=sq_from_landmarks
    )
    departures[landmarks] = fitted.coordinates
    arrivals[landmarks] = fitted.arrivals
    return replace(
        fitted,
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
    if on_cpu(start.coordinates):
        start = replace(start, coordinates=to_numpy(start.coordinates))
    weighted = pairs
    if weight_power != 1 and pairs.weight is not None:
        power = pairs.weight**weight_power
        # The sum of all weights stays.
        weight = power * (pairs.weight.sum() / power.sum())
        weighted = replace(pairs, weight=weight)
    if options.loss == "ordinal":
        return _fit_ordinal(pairs, start, options, checks)
    refined = refine_pairs(
        weighted,
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
    n_init = None
    if options.init is not None:
        n_init = 1
    fitted = refine_ordinal(
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
        fitted.end,
        start.signs.size,
        mean_distance=distances_of(pairs)[0],
        checks=checks,
    )
    info = embedding.info
    sq_stress = fitted.end.value / fitted.sum_of_squares
    if checks:
        listed = make_pairs(pairs.n, *flat_checks(checks), squared=True)
        held_out = RankedPairs.listed(listed, options.ties)
        sq_fitted = sq_stress
        coordinates = to_numpy(embedding.coordinates)
        (sq_stress,), _ = held_out.stress(coordinates[None])
        ratio = sq_stress / (sq_fitted or 1.0)
        info = replace(info, overfit_ratio=ratio)
    embedding = replace(
        embedding, info=info, loss_value=sq_stress * info.sum_of_squares
    )
    return with_disparities(embedding, fitted, options.ties)


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
    """Return the mean d of all pairs, weighted, and the largest."""
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
    """Return the number of landmarks that a start is made of."""
    return min(n, max(100, 5 * k))


def _listed_or_bridged(
    pairs: Pairs, landmarks: Indices, paths: Floats
) -> Floats:
    """Return squared dissimilarities (n, L) to landmarks, by shortest paths where not listed.

    Paths alone are a metric even where D is none, and would lose the negative coordinates.
    """
    sq_to_landmarks = paths.T**2
    column = np.full(pairs.n, -1)
    column[landmarks] = np.arange(landmarks.size)
    for objects, partners in ((pairs.i, pairs.j), (pairs.j, pairs.i)):
        listed = column[partners] >= 0
        sq_to_landmarks[objects[listed], column[partners[listed]]] = (
            pairs.sq_dissimilarity[listed]
        )
    return sq_to_landmarks
