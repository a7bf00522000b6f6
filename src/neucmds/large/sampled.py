"""Embed objects from a sample of their pairs, without an n × n array."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import isqrt
from typing import Any

import numpy as np

from neucmds.backend.arrays import (
    Array,
    Indices,
    in_double,
    is_dask,
    is_numpy,
    on_cpu,
    to_numpy,
)
from neucmds.embedding import Embedding
from neucmds.errors import InputError, option
from neucmds.large.landmarks import (
    fit_landmarks,
    graph_landmarks,
    metric_on,
)
from neucmds.large.listed import (
    directed_landmarks,
    embed_both_ways,
    embed_from_landmarks,
    place_both_ways,
    require_pair_memory,
)
from neucmds.large.two_levels import least_landmarks
from neucmds.options import MOST_PATHS, Options, notify
from neucmds.problem.components import AUTO, Size, checked_size, total_of
from neucmds.problem.graph import (
    directed_pairs,
    graph_pairs,
    shortest_path_rows,
)
from neucmds.problem.metrics import Metric
from neucmds.problem.sampled_pairs import (
    PairSample,
    called_pairs,
    feature_pairs,
)
from neucmds.refine.descent import Configuration
from neucmds.refine.losses import RELATIVE
from neucmds.refine.scouting import SCOUTS

# Power of the weights by relative losses. The weights are the inverse of the share of pairs that is
# drawn; near pairs, most of which are drawn, count more than with a power of 1.
# 20,000 rows have a recall@10 of .81 with this power and .77 with .5, at errors of 2.8 and 2.4 %.
RELATIVE_POWER = 0.3


def embed_features(features: Array, options: Options) -> Embedding:
    """Embed rows of features from about `n_pairs` pairs per row.

    By the relative loss many rows start from two levels of landmarks.
    """
    metric: Metric = options.metric
    if is_dask(features):
        features = to_numpy(features)
    n = features.shape[0]
    components = checked_size(options.n_components, n)
    is_function = callable(metric.metric)
    # Then every pair is a call of a user's function.
    is_called = is_function and is_numpy(features)
    n_pairs = _pair_count(n, components, options, is_called)
    if on_cpu(features):
        advice = f"lower {option('n_pairs', n_pairs)}"
        # Each pair counts for two objects.
        count = n * min(n, n_pairs // 2)
        require_pair_memory(count, n, total_of(components), advice)
    is_large = n >= max(MOST_PATHS, least_landmarks(total_of(components)))
    has_start = options.init is not None or options.n_init is not None
    if (
        is_large
        and options.loss in RELATIVE
        and not has_start
        and not is_function
    ):
        options = _with_start_by_two_levels(features, options)
    draw: Callable[..., PairSample] = partial(feature_pairs, features, metric)
    if is_called:
        draw = partial(called_pairs, metric.fitted_to(features))
    sample = draw(
        n_pairs,
        _loss_of_sample(options.loss),
        n_landmarks=_landmark_count(n, components),
        random_state=options.random_state,
    )

    def squares_among_scouts() -> Any:
        most = SCOUTS
        if is_called:
            # Of n·n_pairs/2 calls for the fit, s²/2 for s scouts are 4 %.
            most = isqrt(n * n_pairs // 25)
        scouts = metric_on(metric, features, _scouts(n, most), squared=False)
        return to_numpy(scouts.among()) ** 2

    power = 1.0
    if options.loss in RELATIVE:
        power = RELATIVE_POWER
    scouting: Callable[[], Any] | None = squares_among_scouts
    # A user's function is called for the curvature, but not to choose a signature.
    if is_function and options.curvature != AUTO:
        scouting = None
    return embed_from_landmarks(
        sample.pairs,
        options,
        scouting,
        # The sample has its landmarks already.
        lambda _: (sample.landmarks, sample.to_landmarks**2),
        weight_power=power,
        like=features,
        checks=sample.checks,
    )


def _with_start_by_two_levels(features: Array, options: Options) -> Options:
    """Return options whose start is where two levels of landmarks place the rows.

    Its form has the curvature.
    """
    fit_options = replace(options, landmarks="random", max_iter=None)
    fit = fit_landmarks(features, fit_options, n_near=None)
    notify(options.callback, f"placing {features.shape[0]} objects")
    x = fit.place_all(features, landmarks_stay=True)
    start = Configuration(in_double(x), fit.embedding.form.in_numpy())
    return replace(options, init=start, curvature=0.0)


def embed_graph(graph: Any, options: Options) -> Embedding:
    """Embed the nodes of a graph from the paths between about `n_pairs` pairs per node."""
    n = graph.shape[0]
    components = checked_size(options.n_components, n)
    sample = graph_pairs(
        graph,
        _pair_count(n, components, options),
        _loss_of_sample(options.loss),
        n_landmarks=_landmark_count(n, components),
        random_state=options.random_state,
    )

    def squares_among_scouts() -> Any:
        ids = _scouts(n)
        return shortest_path_rows(graph, ids)[:, ids] ** 2

    return embed_from_landmarks(
        sample.pairs,
        options,
        squares_among_scouts,
        lambda _: (sample.landmarks, sample.to_landmarks**2),
        checks=sample.checks,
    )


def embed_directed_graph(graph: Any, options: Options) -> Embedding:
    """Embed both directions of a graph from the paths between about `n_pairs` pairs per point.

    The start is a fit of landmarks, among whose arrivals and departures all nodes are placed.
    """
    n = graph.shape[0]
    components = checked_size(options.n_components, n)
    sample, from_landmarks = directed_pairs(
        graph,
        _pair_count(n, components, options),
        options.loss,
        n_landmarks=directed_landmarks(n, total_of(components)),
        random_state=options.random_state,
    )
    return embed_both_ways(
        sample.pairs,
        sample.landmarks,
        from_landmarks**2,
        sample.to_landmarks**2,
        options,
        sample.checks,
    )


def embed_directed_landmarks(graph: Any, options: Options) -> Embedding:
    """Embed landmarks in both directions and place all nodes by the paths to and from them."""
    landmarks = graph_landmarks(graph, options)
    from_landmarks = shortest_path_rows(graph, landmarks).T
    to_landmarks = shortest_path_rows(graph.turned(), landmarks).T
    options = replace(options, landmarks=None)
    return place_both_ways(
        landmarks, from_landmarks**2, to_landmarks**2, options
    )


def _scouts(n: int, most: int = SCOUTS) -> Indices:
    """Draw at most `most` objects on which curvature and signature are chosen."""
    rng = np.random.default_rng(0)
    return np.sort(rng.choice(n, min(n, SCOUTS, most), replace=False))


def _pair_count(
    n: int, components: Size, options: Options, is_called: bool = False
) -> int:
    """Return the number of pairs per object, and refuse too few."""
    k = total_of(components)
    usual = 16 * k
    if options.loss == "squared":
        usual = 32 * k
    n_pairs = options.n_pairs
    if n_pairs is None:
        return max(100, usual)
    least = 4 * (k + 1)
    # n − 1 are all pairs; but of calls a quarter must suffice for k + 1 landmarks.
    is_all = n_pairs >= n - 1 and not is_called
    if n_pairs < least and not is_all:
        raise InputError(
            f"{option('n_pairs', n_pairs)} are too few for {k} coordinates; pass {usual}, or at "
            f"least {least}."
        )
    return n_pairs


def _loss_of_sample(loss: str) -> str:
    """Return the loss that pairs are drawn for: ranks, like squares, are of all pairs alike."""
    if loss == "ordinal":
        return "squared"
    return loss


def _landmark_count(n: int, components: Size) -> int:
    """Return how many landmarks to start from."""
    return min(n, max(40, 5 * total_of(components)))
