"""Embeddings from some pairs: listed, of features, or of a graph's paths."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from neucmds._backend.arrays import Array, asarray_like, namespace, on_cpu, to_numpy
from neucmds._backend.memory import require_memory
from neucmds._input import Components, Pairs, check_pairs
from neucmds._methods import FEW_LISTED, Start, from_all_pairs, from_pairs, held_out, refine_pairs
from neucmds._operator import (
    BoundMetric,
    Check,
    PairSample,
    Sizes,
    as_graph,
    feature_pairs,
    graph_pairs,
    shortest_path_rows,
)
from neucmds.api.fitting import solve_roughly
from neucmds.api.landmarks import embed_landmarks
from neucmds.api.options import Options
from neucmds.embedding import Embedding, build_embedding
from neucmds.errors import InputError, option

# Of 100,000 rows the few nearest of each count nothing beside all others, by whichever loss. With
# weights that are the inverse of the share drawn to the power 1, ½, ¼ and 0, .59, .78, .84 and .87
# of the ten nearest were kept (64 features, cityblock, k = 20, 320 pairs a row, 100 iterations).
RELATIVE_POWER = 0.5


def _require_memory(size: int, n: int, k: int, advice: str = "pass fewer pairs") -> None:
    """Refuse pairs of n objects with k coordinates whose descent takes more memory than is free."""
    # Peaks of 200 to 230 bytes a pair were measured for 0.5 to 7 million of them, listed or sampled
    # with k = 4 and 20; with k = 60 each object's block of k × k added 9 to 13 bytes an entry.
    needed = 230 * size + 12 * n * k * k + 16 * n * _start_size(n, k)
    what = f"{size} pairs of {n} objects with {k} coordinates"
    require_memory(needed, what, f"ask for fewer coordinates, or {advice}")


def _start_size(n: int, k: int) -> int:
    """Landmarks that a start is made of."""
    return min(n, max(100, 5 * k))


def embed_pairs(
    pairs: Pairs,
    options: Options,
    squared: bool = False,
    start: Start | None = None,
    checks: Iterable[Check] | None = None,
    weight_power: float = 1.0,
) -> Embedding:
    """Embed objects of which some pairs are known: no n × n array, O(m·k) for m pairs.

    Parameters
    ----------
    pairs : Pairs
    options : Options
    squared : bool, default=False
        As for `neuc_mds`.
    start : Start, optional
        Where to start; by default landmarks are embedded by shortest paths over the known pairs,
        and all objects placed among them. By the squared loss few objects start where the same
        pairs as weights of a whole D end.
    checks : iterable, optional
        Of a sample: pairs drawn from all, by which STRESS, R² and loss of all are estimated.
    weight_power : float, default=1
        Weights count to this power: with less than 1, near pairs of a sample count more.
    """
    components = Components.parse(options.n_components, pairs.n)
    _require_memory(pairs.size, pairs.n, components.total)
    check_pairs(pairs, components.total)
    start = options.init if start is None else start
    if start is None and options.loss == "squared" and pairs.n <= FEW_LISTED:
        start = from_all_pairs(pairs, components, partial(solve_roughly, methods="neuc+"))
    if start is None:
        rng = check_random_state(options.random_state)
        wanted = _start_size(pairs.n, components.total)
        landmarks = np.sort(rng.permutation(pairs.n)[:wanted])
        rows = shortest_path_rows(as_graph(pairs.graph()), landmarks)
        start = _placed_among(landmarks, _known_or_bridged(pairs, landmarks, rows), components, rng)
    if on_cpu(start.coordinates):
        start = replace(start, coordinates=to_numpy(start.coordinates))
    counted = pairs
    if weight_power != 1 and pairs.weight is not None:
        power = pairs.weight**weight_power
        counted = replace(pairs, weight=power * (pairs.weight.sum() / power.sum()))
    limits = options.limits(pairs.n)
    found = refine_pairs(counted, start, limits, options.loss, checkpoint=options.checkpoint)
    solution = from_pairs(found, pairs)
    return build_embedding(
        solution if checks is None else held_out(solution, pairs, checks),
        method="refined",
        requested=components.total,
        squared=squared,
        labels=pairs.labels,
    )


def embed_features(
    features: Array, metric: BoundMetric, options: Options, n_pairs: int | None = None
) -> Embedding:
    """Embed rows of features from about `n_pairs` pairs a row: no n × n array.

    Parameters
    ----------
    features : array of shape (n, d)
        As for `neucmds._operator.feature_pairs`.
    metric : BoundMetric
    options : Options
    n_pairs : int, optional
        As for `neuc_mds`.
    """
    n = int(features.shape[0])
    components = Components.parse(options.n_components, n)
    sizes, n_landmarks = _sizes(n_pairs, n, components, options.loss)
    if on_cpu(features):
        size, advice = n * sizes.n_far, f"lower {option('n_pairs', n_pairs)}"
        _require_memory(size, n, components.total, advice)
    sample = feature_pairs(
        features,
        metric.metric,
        sizes=sizes,
        n_landmarks=n_landmarks,
        metric_params=metric.params,
        random_state=options.random_state,
    )
    power = RELATIVE_POWER if options.loss == "relative" else 1.0
    return _embed_sample(sample, options, components, power, near=features)


def embed_graph(graph: Any, options: Options, n_pairs: int | None = None) -> Embedding:
    """Embed the nodes of a graph of `as_graph` from paths between about `n_pairs` pairs a node."""
    n = int(graph.shape[0])
    components = Components.parse(options.n_components, n)
    sizes, n_landmarks = _sizes(n_pairs, n, components, options.loss)
    seed = options.random_state
    sample = graph_pairs(graph, sizes, n_landmarks=n_landmarks, random_state=seed)
    return _embed_sample(sample, options, components)


def _sizes(n_pairs: int | None, n: int, components: Components, loss: str) -> tuple[Sizes, int]:
    """Split a number of pairs, refusing too few; also return how many landmarks to start from."""
    k = components.total
    usual = 32 * k if loss == "squared" else 16 * k
    sizes = Sizes.of(max(100, usual) if n_pairs is None else n_pairs, n, loss)
    if n_pairs is not None and n_pairs < min(4 * (k + 1), n - 1):
        raise InputError(
            f"{option('n_pairs', n_pairs)} are too few for {k} coordinates; pass {usual}, or at "
            f"least {4 * (k + 1)}."
        )
    return sizes, min(sizes.n_sources(n), max(40, 5 * k))


def _embed_sample(
    sample: PairSample,
    options: Options,
    components: Components,
    weight_power: float = 1.0,
    near: Array | None = None,
) -> Embedding:
    """Fit a sample of pairs from where its landmarks place all objects, and measure the fit."""
    rng, sq_to_landmarks = check_random_state(options.random_state), sample.to_landmarks**2
    start = _placed_among(sample.landmarks, sq_to_landmarks, components, rng, near)
    checks = sample.checks
    return embed_pairs(sample.pairs, options, start=start, checks=checks, weight_power=weight_power)


def _known_or_bridged(
    pairs: Pairs, landmarks: npt.NDArray[np.intp], paths: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return squared dissimilarities to landmarks: as observed, and by shortest paths elsewhere.

    Paths alone would make a metric of what is none, and lose the negative coordinates with it.
    """
    sq_to_landmarks = paths.T**2
    column = np.full(pairs.n, -1)
    column[landmarks] = np.arange(landmarks.size)
    for one, other in ((pairs.i, pairs.j), (pairs.j, pairs.i)):
        known = column[other] >= 0
        sq_to_landmarks[one[known], column[other[known]]] = pairs.sq_dissimilarity[known]
    return sq_to_landmarks


def _placed_among(
    landmarks: npt.NDArray[np.intp],
    sq_to_landmarks: npt.NDArray[np.float64],
    components: Components,
    rng: np.random.RandomState,
    near: Array | None = None,
) -> Start:
    """Embed landmarks by the squared loss and place all objects among them: a start.

    They are placed on the device of `near`, if that is not the CPU.
    """
    among = sq_to_landmarks[landmarks]
    among = (among + among.T) / 2
    wanted = components.signature or components.total
    options = Options(wanted, random_state=rng)
    embedding, _ = embed_landmarks(among, options, squared=True)
    assert embedding.placement is not None
    if near is not None and not on_cpu(near):
        sq_to_landmarks = asarray_like(sq_to_landmarks, near, namespace(near).float64)
    x = embedding.placement.place(sq_to_landmarks)
    return Start(x, to_numpy(embedding.signs).astype(np.float64))
