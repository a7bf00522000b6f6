"""Choose and embed landmarks, and place all other objects among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from neucmds.backend.arrays import Array, is_dask, namespace, to_numpy
from neucmds.embedding import Embedding
from neucmds.errors import InputError, option
from neucmds.large.choice import Indices, choose_landmarks
from neucmds.large.dense import embed_landmarks
from neucmds.large.placing import LandmarkFit, NodePaths, index_like, take
from neucmds.large.two_levels import (
    GLOBAL,
    ROUGH,
    default_count,
    draw_global,
    fit_nodes,
    fit_rows,
    most_global,
    near_count,
)
from neucmds.options import PRECOMPUTED, SHORTEST_PATH, Options, notify
from neucmds.place.recipe import PLACEMENTS
from neucmds.problem.containers import as_real, to_square, unwrap
from neucmds.problem.dense import Dense, as_squares
from neucmds.problem.graph import as_graph, nearest_landmarks, shortest_path_rows
from neucmds.problem.metrics import BoundMetric, FittedMetric, refuse_undefined
from neucmds.problem.names import ordered_by_name
from neucmds.problem.validation import as_labels, working_dtype
from neucmds.refine.descent import Start
from neucmds.spectrum.operators.gram import Gram


def fit_landmarks(
    X: Any,
    options: Options,
    *,
    n_landmarks: int | float | None = None,
    n_near: int | None = 0,
    placement: str = "auto",
    columns: Sequence[str] | None = None,
    index: Sequence[str] | None = None,
    n_jobs: int | None = None,
    like: Array | None = None,
) -> LandmarkFit:
    """Choose and embed landmarks, and learn how to place objects among them.

    Parameters
    ----------
    X : array of shape (n, n_features), (n, n) or (n, L), or graph
        Features; or dissimilarities, all or those to the landmarks. Finite, of NumPy, dask or
        another library.
    options : Options
        Its `landmarks` are "random", "maxmin" or row numbers.
    n_landmarks, n_near, placement, n_jobs
        As for `LandmarkNeucMDS`.
    columns, index : sequence of str, optional
        Names of the columns of dissimilarities, and of the rows where these are not all objects.
    like : array, optional
        Nodes of a graph are fitted and placed with its library, on its device.
    """
    if placement not in PLACEMENTS:
        raise InputError(
            f"{option('placement', placement)} is unknown; choose one of {', '.join(PLACEMENTS)}."
        )
    rng = check_random_state(options.random_state)
    options = replace(options, random_state=rng)
    of_graph = options.metric == SHORTEST_PATH
    precomputed = options.metric == PRECOMPUTED
    X = as_graph(X) if of_graph else X
    n = int(X.shape[0])
    k = _least_components(options.n_components)
    bound = None
    if not (precomputed or of_graph):
        bound = BoundMetric.of(options.metric, symmetrize=options.symmetrize)
    near = 0
    if n_near is None or n_near != 0:
        D = X if precomputed else None
        near = near_count(n_near, k, options, D, placement)
        if n_landmarks is None:
            function = bound is not None and callable(bound.metric)
            n_landmarks = default_count(n, k, of_graph, function)
    if precomputed:
        _refuse_other_columns(X, options.landmarks)
    comparing = _comparing(X, bound, of_graph)
    ids = choose_landmarks(n, options.landmarks, n_landmarks, k, rng, comparing)
    if precomputed and int(X.shape[1]) not in (n, ids.size):
        raise InputError(
            f"X has {X.shape[1]} columns, but {ids.size} landmarks are named; pass one column per "
            f"landmark, or all {n}."
        )
    sources = np.arange(ids.size)
    options = replace(options, init=_start_among(options, ids, n, near > 0))
    if near:
        sources = draw_global(ids.size, near, k, 0 if of_graph else most_global(n), rng)
        options = replace(options, init=_start_among(options, sources, ids.size))
    fitted_metric = None if bound is None else metric_on(bound, X, ids, options.squared)
    nodes = None
    if of_graph:
        nodes = _search_paths(X, ids, sources, near, options, n_jobs, like)
        among = nodes.paths[:, ids[sources]]
        if near and options.loss == "relative" and options.floor is None:
            options = replace(options, floor=_floor_of_edges(X))
    else:
        among = _among(X, fitted_metric, ids, sources)
    # The landmarks are few: double precision costs nothing and saves digits, and the CPU embeds
    # them as fast as any device.
    among = among.astype(np.float64)
    # The two ways along a path are added up in another order.
    averaged = of_graph or options.symmetrize
    sq_among, _ = as_squares(among, squared=options.squared, symmetrize=averaged)
    whole = precomputed and int(X.shape[1]) == n
    names = columns
    if columns is not None and whole:
        names = [columns[i] for i in ids]
    weights = options.weights
    if weights is not None:
        weights = _weights_among(weights, ids, n, names, columns if whole else index)
    notify(options.callback, f"embedding {sources.size} landmarks")
    rough = replace(options, tol=ROUGH) if near else options
    embedding, recipe = embed_landmarks(sq_among, rough, placement, weights)
    labels = None if names is None else tuple(map(str, names))
    fit = LandmarkFit(
        ids,
        replace(embedding, labels=labels),
        None if near else recipe,
        n,
        sources,
        GLOBAL * k,
        near,
        fitted_metric,
        nodes,
    )
    if not near:
        return fit
    if of_graph:
        return fit_nodes(fit, options)
    if fitted_metric is None:
        return fit_rows(fit, X, ids, options)
    return fit_rows(fit, take(X, ids), np.arange(ids.size), options)


def embed_by_landmarks(data: Any, options: Options, labels: Any = None) -> Embedding:
    """Embed landmarks and place all other objects: what `neuc_mds` does with `landmarks`."""
    metric = options.metric
    count: Any = None
    wanted = options.landmarks
    if isinstance(wanted, (int, float, np.number)) and not isinstance(wanted, bool):
        count = wanted
        options = replace(options, landmarks="random")
    if metric == PRECOMPUTED:
        if isinstance(data, (Gram, Dense)):
            raise InputError(f"{option('landmarks')} takes D itself, not an operator of it.")
        if not is_dask(data):
            data, names = unwrap(data)
            labels = names if labels is None else labels
            if data.ndim == 1:
                data = to_square(data, working_dtype(data))
    if metric != SHORTEST_PATH and not is_dask(data):
        data = as_real(data, "features")
        data = namespace(data).astype(data, working_dtype(data), copy=False)
    n = int(data.shape[0])
    labels = as_labels(labels, n)
    fit = fit_landmarks(
        data,
        options,
        n_landmarks=count,
        columns=labels if metric == PRECOMPUTED and n == data.shape[1] else None,
        index=labels,
    )
    x = fit.place_all(data if fit.nodes is None else np.arange(n), fitted=True)
    x = to_numpy(x) if is_dask(x) else x
    return replace(fit.embedding, coordinates=x, labels=labels, landmarks=fit.landmarks)


def metric_on(metric: BoundMetric, X: Any, ids: Indices, squared: bool) -> FittedMetric:
    """Fit a metric to all of X, and keep some rows; in double precision, for they are few."""
    rows = take(X, ids)
    rows = namespace(rows).astype(rows, namespace(rows).float64, copy=False)
    return metric.fitted_to(X, squared, some=rows)


def _comparing(
    X: Any, metric: BoundMetric | None, of_graph: bool
) -> Callable[[Indices], Callable[[int], npt.NDArray[Any]]]:
    """Return what `choose_landmarks` compares objects by."""

    def among(ids: Indices) -> Callable[[int], npt.NDArray[Any]]:
        if of_graph:
            return lambda i: shortest_path_rows(X, ids[i : i + 1])[0, ids]
        if metric is None:
            D = take(X, ids, ids) if is_dask(X) else X
            own = np.arange(ids.size) if is_dask(X) else ids
            return lambda i: to_numpy(D[:, own[i]])[own]
        fitted = metric_on(metric, X, ids, False)
        points = fitted.points
        return lambda i: to_numpy(fitted.dissimilarities(points, points[i : i + 1]))[:, 0]

    return among


def _among(
    X: Any, metric: FittedMetric | None, ids: Indices, embedded: Indices
) -> npt.NDArray[Any]:
    """Dissimilarities among the landmarks that are embedded first, some or all."""
    rows = ids[embedded]
    if metric is not None:
        points = metric.points[index_like(embedded, metric.points.left)]
        chosen = replace(metric, points=points)
        among = to_numpy(chosen.among())
        refuse_undefined(among, metric.name, rows, rows)
        return among
    whole = X.shape[0] == X.shape[1]
    among = to_numpy(take(X, rows, rows if whole else slice(None)))
    refuse_undefined(among, "X", rows, rows)
    diagonal = np.abs(np.diagonal(among))
    at = int(np.argmax(diagonal))
    if not whole and diagonal[at] > 1e-6 * np.max(np.abs(among)):
        raise InputError(
            f"landmark {int(ids[at])} is at {among[at, at]:.4g} from itself, not at 0; are "
            "the columns in another order than landmarks_?"
        )
    return among


def _search_paths(
    graph: Any,
    ids: Indices,
    sources: Indices,
    n_near: int,
    options: Options,
    n_jobs: int | None,
    like: Array | None,
) -> NodePaths:
    """Search from the embedded landmarks to all nodes, and from all landmarks to nodes near."""
    n = int(graph.shape[0])
    notify(options.callback, f"searching from {sources.size} landmarks")
    paths = shortest_path_rows(graph, ids[sources], dtype=np.float32, n_jobs=n_jobs)
    near = np.empty((n, 0), np.int32)
    lengths = np.empty((n, 0), np.float32)
    if n_near:
        notify(options.callback, f"searching from {ids.size} landmarks to nodes near them")
        near, lengths = nearest_landmarks(graph, ids, n_near, n_jobs=n_jobs)
        lengths[np.isinf(lengths)] = np.nan
    return NodePaths(paths, near, lengths, np.empty(0) if like is None else like)


def _floor_of_edges(graph: Any) -> float | None:
    """Return the floor of the relative loss among nodes: landmarks are farther apart."""
    if not graph.data.any():
        return None
    edges = np.where(graph.data > 0, graph.data, np.inf)
    shortest = np.minimum.reduceat(edges, graph.indptr[:-1])
    return float(np.median(shortest[np.isfinite(shortest)]))


def _refuse_other_columns(X: Any, landmarks: Any) -> None:
    """Refuse dissimilarities to landmarks that are not named."""
    n, width = X.shape
    if n != width and isinstance(landmarks, str):
        raise InputError(
            f"X is {n} × {width}, dissimilarities to landmarks only; pass the landmarks' rows as "
            "landmarks=, or metric= if X holds features."
        )


def _least_components(n_components: Any) -> int:
    """Coordinates that the landmarks must at least suffice for."""
    parts = np.atleast_1d(np.asarray(n_components))
    return int(parts.sum()) if np.issubdtype(parts.dtype, np.integer) else 1


def _weights_among(
    weights: Any, ids: Indices, n: int, landmark_names: Any, all_names: Any
) -> npt.NDArray[np.float64]:
    """Weights of the pairs of landmarks, from theirs or from those of all pairs."""
    if not hasattr(weights, "shape"):
        weights = as_real(weights, "weights")
    shape = tuple(weights.shape)
    if shape not in ((ids.size, ids.size), (n, n)):
        raise InputError(
            f"{option('weights')} has shape {shape}; pass ({ids.size}, {ids.size}), one for each "
            f"pair of landmarks, or ({n}, {n}), one for each pair of objects."
        )
    among = shape == (ids.size, ids.size)
    names = landmark_names if among else all_names
    weights = ordered_by_name(weights, names, "weights", rows=True)
    given: npt.NDArray[np.float64] = to_numpy(as_real(weights, "weights")).astype(np.float64)
    return given if among else given[np.ix_(ids, ids)]


def _start_among(options: Options, ids: Indices, n: int, two_levels: bool = False) -> Start | None:
    """Where landmarks start, from their coordinates or from those of all objects."""
    start: Start | None = options.init
    if start is None:
        return None
    count = int(start.coordinates.shape[0])
    if two_levels and count not in (n, ids.size):
        raise InputError(
            f"{option('init')} has coordinates of {count} objects; pass those of all {n}, or of "
            f"the {ids.size} landmarks."
        )
    if count != n:
        return start
    return replace(start, coordinates=to_numpy(start.coordinates)[ids])
