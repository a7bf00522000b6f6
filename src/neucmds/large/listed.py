"""Embed listed pairs, or pairs sampled from features and graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from math import isqrt, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from neucmds.backend.arrays import (
    Array,
    asarray_like,
    is_dask,
    is_numpy,
    namespace,
    on_cpu,
    to_numpy,
)
from neucmds.backend.memory import require_memory
from neucmds.embedding import Embedding
from neucmds.embedding.build import from_pairs
from neucmds.errors import InputError, option
from neucmds.fitting import scouted
from neucmds.form import Form, kappa_of
from neucmds.large.landmarks import embed_landmarks, metric_on
from neucmds.options import Options
from neucmds.problem.components import AUTO, Components
from neucmds.problem.graph import as_graph, graph_pairs, shortest_path_rows
from neucmds.problem.metrics import BoundMetric
from neucmds.problem.pairs import Pairs, check_pairs
from neucmds.problem.sampled_pairs import Check, PairSample, Sizes, called_pairs, feature_pairs
from neucmds.refine.descent import Start
from neucmds.refine.gaps import FEW_LISTED, from_all_pairs
from neucmds.refine.listed_pairs import refine_pairs
from neucmds.refine.scouting import SCOUTS

# Weights are the inverse of the share drawn to this power, so that near pairs count: a recall@10 of
# .81 instead of .77 with the power .5, for errors of 2.8 instead of 2.4 % (20,000 rows).
RELATIVE_POWER = 0.3


def _require_memory(size: int, n: int, k: int, advice: str = "pass fewer pairs") -> None:
    """Refuse pairs of n objects with k coordinates whose descent takes more memory than is free."""
    # Measured peaks: 230 bytes per pair, 12 per entry of the k × k block of each object.
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
    beside: _Beside | None = None,
    *,
    falling: bool = False,
) -> Embedding:
    """Embed listed pairs without an n × n array, in O(m·k) for m pairs.

    `beside` defaults to shortest paths over the pairs. The form of a curved start is kept.
    With `falling` the floor falls in stages for a given start, too.
    """
    components = Components.parse(options.n_components, pairs.n)
    _require_memory(pairs.size, pairs.n, components.total)
    check_pairs(pairs, components.total)
    few = options.loss == "squared" and pairs.n <= FEW_LISTED and beside is None
    beside = _bridged(pairs, components, options) if beside is None else beside
    components, curvature = scouted(beside.of_scouts, pairs.n, components, options)
    weight = pairs.weights
    unit = float(weight @ np.sqrt(np.maximum(pairs.sq_dissimilarity, 0))) / float(weight.sum())
    largest = sqrt(max(0.0, float(pairs.sq_dissimilarity.max())))
    start = options.init
    if start is not None and not start.form.is_flat:
        curvature = start.form.curvature * unit**2
    kappa = kappa_of(curvature, unit, largest)
    if start is None and few:
        start = from_all_pairs(pairs, components)
    if start is None:
        rng = check_random_state(options.random_state)
        start = beside.start(components, kappa, rng)
    if on_cpu(start.coordinates):
        start = replace(start, coordinates=to_numpy(start.coordinates))
    start = replace(start, form=replace(start.form, curvature=kappa))
    counted = pairs
    if beside.weight_power != 1 and pairs.weight is not None:
        power = pairs.weight**beside.weight_power
        counted = replace(counted, weight=power * (pairs.weight.sum() / power.sum()))
    found = refine_pairs(
        counted,
        start,
        options.limits(pairs.n),
        options.loss,
        floor=options.floor,
        falling=falling or options.init is None,
        checkpoint=options.checkpoint,
    )
    return from_pairs(
        pairs,
        found,
        components.total,
        squared=squared,
        mean_distance=unit,
        checks=beside.checks,
    )


def embed_features(
    features: Array,
    metric: BoundMetric,
    options: Options,
    n_pairs: int | None = None,
) -> Embedding:
    """Embed rows of features from about `n_pairs` pairs per row, without an n × n array."""
    n = int(features.shape[0])
    components = Components.parse(options.n_components, n)
    sizes, n_landmarks = _sizes(n_pairs, n, components, options.loss)
    if on_cpu(features):
        size, advice = n * sizes.n_far, f"lower {option('n_pairs', n_pairs)}"
        _require_memory(size, n, components.total, advice)
    called, seed = callable(metric.metric) and is_numpy(features), options.random_state
    if called:
        assert n_pairs is not None
        near, space = options.loss != "squared", metric.fitted_to(features)
        sample = called_pairs(space, n_pairs, n_landmarks=n_landmarks, near=near, random_state=seed)
    else:
        sample = feature_pairs(
            features,
            metric.metric,
            sizes=sizes,
            n_landmarks=n_landmarks,
            metric_params=metric.params,
            random_state=seed,
        )

    def of_scouts() -> Any:
        # Of a user's function each pair is a call: some 4 % of those that are fitted.
        most = isqrt(n * (n_pairs or 0) // 25) if called else SCOUTS
        return to_numpy(metric_on(metric, features, _scouts(n, most), False).among()) ** 2

    power = RELATIVE_POWER if options.loss == "relative" else 1.0
    # Calls of a user's function, and chunks of workers, are fetched for the curvature alone.
    dear = callable(metric.metric) or is_dask(features)
    choosing = None if dear and options.curvature != AUTO else of_scouts
    beside = _Beside(partial(_to_landmarks, sample), choosing, sample.checks, power, features)
    return embed_pairs(sample.pairs, options, beside=beside)


def embed_graph(graph: Any, options: Options, n_pairs: int | None = None) -> Embedding:
    """Embed the nodes of a graph of `as_graph` from paths between about `n_pairs` pairs a node."""
    n = int(graph.shape[0])
    components = Components.parse(options.n_components, n)
    sizes, n_landmarks = _sizes(n_pairs, n, components, options.loss)
    seed = options.random_state
    sample = graph_pairs(graph, sizes, n_landmarks=n_landmarks, random_state=seed)

    def of_scouts() -> Any:
        ids = _scouts(n)
        return shortest_path_rows(graph, ids)[:, ids] ** 2

    beside = _Beside(partial(_to_landmarks, sample), of_scouts, sample.checks)
    return embed_pairs(sample.pairs, options, beside=beside)


def _to_landmarks(sample: PairSample) -> Any:
    return sample.landmarks, sample.to_landmarks**2


def _scouts(n: int, most: int = SCOUTS) -> npt.NDArray[np.intp]:
    """Draw objects that choose curvature and signature."""
    return np.sort(np.random.default_rng(0).choice(n, min(n, SCOUTS, most), replace=False))


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


@dataclass(frozen=True, eq=False)
class _Beside:
    """What is known of the objects beside the pairs that are fitted.

    Parameters
    ----------
    to_landmarks : callable
        Returns some objects, and the squared dissimilarities (n, L) of all to them.
    of_scouts : callable or None
        Returns the squared dissimilarities among some objects, which choose for all.
    checks : iterable, optional
        Of a sample: pairs drawn from all, by which STRESS, R² and loss of all are estimated.
    weight_power : float, default=1
        Weights count to this power: with less than 1, near pairs of a sample count more.
    near : array, optional
        Objects are placed on its device.
    """

    to_landmarks: Callable[[], tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]]
    of_scouts: Callable[[], Array] | None
    checks: Iterable[Check] | None = None
    weight_power: float = 1.0
    near: Array | None = None

    def start(self, components: Components, kappa: float, rng: np.random.RandomState) -> Start:
        """Embed landmarks by the squared loss and place all objects among them."""
        landmarks, sq_to_landmarks = self.to_landmarks()
        sq_to_landmarks = Form(np.zeros(0), kappa).to_sq(sq_to_landmarks)
        among = sq_to_landmarks[landmarks]
        among = (among + among.T) / 2
        options = Options(components.signature or components.total, random_state=rng)
        embedding, _ = embed_landmarks(among, options, squared=True)
        assert embedding.placement is not None
        if self.near is not None and not on_cpu(self.near):
            wide = namespace(self.near).float64
            sq_to_landmarks = asarray_like(sq_to_landmarks, self.near, wide)
        x = embedding.placement.place(sq_to_landmarks)
        return Start(x, embedding.form.in_numpy())


def _bridged(pairs: Pairs, components: Components, options: Options) -> _Beside:
    """Return what shortest paths over the known pairs say."""

    def to_some(count: int) -> Any:
        rng = check_random_state(options.random_state)
        some = np.sort(rng.permutation(pairs.n)[:count])
        rows = shortest_path_rows(as_graph(pairs.graph()), some)
        return some, _known_or_bridged(pairs, some, rows)

    def of_scouts() -> Any:
        some, squares = to_some(min(pairs.n, SCOUTS))
        return (squares[some] + squares[some].T) / 2

    return _Beside(lambda: to_some(_start_size(pairs.n, components.total)), of_scouts)


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
