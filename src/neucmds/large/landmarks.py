"""Choose and embed landmarks, and place all other objects among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from neucmds.backend.arrays import (
    Array,
    Indices,
    eps,
    in_double,
    index_like,
    is_dask,
    namespace,
    row_blocks,
    to_numpy,
)
from neucmds.embedding import Embedding
from neucmds.errors import InputError, option
from neucmds.large.choice import (
    CANDIDATES,
    checked_rows,
    landmark_count,
    maxmin,
    random_sample,
)
from neucmds.large.landmark_fit import embed_landmarks
from neucmds.large.placing import KEY_BITS, LandmarkFit, NodePaths, take
from neucmds.large.two_levels import (
    GLOBAL_PER_COORDINATE,
    NEAR_PER_COORDINATE,
    check_two_levels,
    default_count,
    draw_global,
    fit_nodes,
    fit_rows,
)
from neucmds.options import PRECOMPUTED, SHORTEST_PATH, Options, notify
from neucmds.place.recipe import PLACEMENTS
from neucmds.problem.containers import as_real, to_square, unwrap
from neucmds.problem.dense import as_squares
from neucmds.problem.graph import (
    as_graph,
    nearest_landmarks,
    shortest_path_rows,
)
from neucmds.problem.metrics import Metric, refuse_undefined
from neucmds.problem.names import Labels
from neucmds.problem.validation import (
    as_labels,
    asymmetric,
    entry_name,
    tolerance,
    working_dtype,
)
from neucmds.refine.descent import TOL, Configuration
from neucmds.refine.losses import RELATIVE
from neucmds.refine.starts import ordered_start


def fit_landmarks(
    X: Any,
    options: Options,
    *,
    n_landmarks: int | float | None = None,
    n_near: int | None = 0,
    placement: str = "auto",
    columns: Sequence[str] | None = None,
    n_jobs: int | None = None,
    like: Array | None = None,
) -> LandmarkFit:
    """Choose and embed landmarks, and learn how to place objects among them.

    Parameters
    ----------
    X : array of shape (n, n_features), (n, n) or (n, L), or graph
        Features; or dissimilarities, all or those to the landmarks. All finite; an array of
        NumPy, dask or another library.
    options : Options
        Its `landmarks` are "random", "maxmin" or row numbers.
    n_landmarks, n_near, placement, n_jobs
        As for `LandmarkNeucMDS`; with ``n_near=0`` there is one level of landmarks.
    columns : sequence of str, optional
        Names of the columns of dissimilarities.
    like : array, optional
        Nodes of a graph are fitted and placed with the library of this array, on its device.
    """
    if placement not in PLACEMENTS:
        raise InputError(
            f"{option('placement', placement)} is unknown; choose one of {', '.join(PLACEMENTS)}."
        )
    rng = check_random_state(options.random_state)
    options = replace(options, random_state=rng)
    is_graph = options.metric == SHORTEST_PATH
    if is_graph:
        X = as_graph(X)
    n = X.shape[0]
    k = _k_or_one(options.n_components)
    metric = None
    if options.metric not in (PRECOMPUTED, SHORTEST_PATH):
        metric = Metric.of(options.metric, symmetrize=options.symmetrize)
    if n_near != 0:
        check_two_levels(X, options, n_near, placement)
        if n_near is None:
            n_near = NEAR_PER_COORDINATE * k
        if n_landmarks is None:
            n_landmarks = default_count(n, k, options)
    landmarks = _choose_landmarks(X, options, metric, n_landmarks, k)
    if options.metric == PRECOMPUTED and n == X.shape[1]:
        _refuse_asymmetry(X, landmarks)
    options = replace(options, init=_start_among(options.init, landmarks, n))
    # The landmarks that are embedded first, numbered among these: all, or of two levels the global
    # ones.
    sources = np.arange(landmarks.size)
    if n_near:
        sources = draw_global(n, landmarks.size, n_near, k, options)
    source_ids = landmarks[sources]
    fitted_metric = None
    nodes = None
    if is_graph:
        nodes = _search_paths(
            X, landmarks, sources, n_near, options, n_jobs, like
        )
        source_matrix = nodes.from_sources[:, source_ids]
        if n_near and options.loss in RELATIVE and options.floor is None:
            options = replace(options, floor=_floor_of_edges(X))
    elif metric is None:
        source_matrix = _block_among(X, source_ids)
    else:
        fitted_metric = metric_on(metric, X, landmarks, options.squared)
        source_matrix = _features_among(fitted_metric, sources, source_ids)
    # The landmarks are few: double precision costs nothing and saves digits, and the CPU embeds
    # them as fast as any device.
    sq_source_matrix, _ = as_squares(
        source_matrix.astype(np.float64),
        squared=options.squared,
        # A path added up from its other end is rounded differently.
        symmetrize=is_graph or options.symmetrize,
    )
    notify(options.callback, f"embedding {sources.size} landmarks")
    first_options = options
    if n_near:
        # Global landmarks move again with all others: the usual tolerance will do at first.
        start = _start_among(options.init, sources, landmarks.size)
        first_options = replace(options, tol=TOL, init=start)
    embedding, recipe = embed_landmarks(
        sq_source_matrix, first_options, placement
    )
    names = _landmark_names(X, columns, landmarks)
    fit = LandmarkFit(
        landmarks=landmarks,
        embedding=replace(embedding, labels=names),
        recipe=recipe,
        n=n,
        sources=sources,
        n_global=GLOBAL_PER_COORDINATE * k,
        n_near=n_near,
        metric=fitted_metric,
        nodes=nodes,
    )
    if not n_near:
        return fit
    return _with_near_landmarks(fit, X, source_matrix, options, n_jobs)


def _with_near_landmarks(
    fit: LandmarkFit,
    X: Any,
    source_matrix: Array,
    options: Options,
    n_jobs: int | None,
) -> LandmarkFit:
    """Return the fit with all landmarks of two levels embedded, from that of the global ones.

    `source_matrix` has the dissimilarities among the global landmarks.
    """
    fit = replace(fit, recipe=None)
    if fit.nodes is not None:
        return fit_nodes(fit, X, options, n_jobs)
    if fit.metric is None:
        fit = _with_keys(fit, source_matrix, fit.landmarks[fit.sources])
        return fit_rows(fit, X, fit.landmarks, options)
    # Features of the landmarks.
    rows = take(X, fit.landmarks)
    entries = to_numpy(rows)
    fit = _with_keys(fit, entries, np.arange(entries.shape[1]))
    return fit_rows(fit, rows, np.arange(fit.width), options)


def averaged(D: Any, options: Options) -> Any:
    """Return a square D in memory averaged with its transpose, if `options.symmetrize`.

    Any other input is returned as it is.
    """
    if (
        not options.symmetrize
        or options.metric != PRECOMPUTED
        or is_dask(D)
        or D.shape[0] != D.shape[1]
    ):
        return D
    return (D + D.T) / 2


def _refuse_asymmetry(D: Any, landmarks: Indices) -> None:
    """Refuse a D whose rows of landmarks differ from their columns."""
    n = D.shape[0]
    largest_gap = 0.0
    largest_entry = 0.0
    # Where the gap is, in words.
    entry = ""
    width = landmarks.size
    if is_dask(D):
        # Each block reads the chunks of all landmarks: rows count as one entry, for larger blocks.
        width = 1
    for block in row_blocks(n, width):
        rows = np.arange(n)[block]
        to_landmarks = to_numpy(take(D, rows, landmarks))
        from_landmarks = to_numpy(take(D, landmarks, rows)).T
        largest_in_block = float(np.abs(to_landmarks).max())
        largest_entry = max(largest_entry, largest_in_block)
        gaps = np.abs(to_landmarks - from_landmarks)
        i, j = np.unravel_index(int(gaps.argmax()), gaps.shape)
        if gaps[i, j] > largest_gap:
            largest_gap = float(gaps[i, j])
            entry = entry_name(int(rows[i]), int(landmarks[j]), None)
    rounding = eps(working_dtype(D), namespace(D))
    if largest_gap > tolerance(largest_entry, rounding):
        raise asymmetric(largest_gap, entry)


def _with_keys(
    fit: LandmarkFit, entries: Array, columns: Indices
) -> LandmarkFit:
    """Return the fit with random entries of landmarks, by which `LandmarkFit._keys` knows rows.

    Column j of `entries` is column ``columns[j]`` of X.
    """
    rng = np.random.default_rng(0)
    i = rng.integers(entries.shape[0], size=KEY_BITS)
    j = rng.integers(entries.shape[1], size=KEY_BITS)
    return replace(fit, key_columns=columns[j], key_values=entries[i, j])


def _choose_landmarks(
    X: Any,
    options: Options,
    metric: Metric | None,
    n_landmarks: int | float | None,
    k: int,
) -> Indices:
    """Return the row numbers of landmarks: drawn, spread out, or a user's.

    Dissimilarities (n, L) are refused if their columns are not one per landmark of the user.
    """
    n, width = X.shape
    choice = options.landmarks
    is_to_landmarks = options.metric == PRECOMPUTED and n != width
    if is_to_landmarks and isinstance(choice, str):
        raise InputError(
            f"X is {n} × {width}, dissimilarities to landmarks only; pass the landmarks' rows as "
            "landmarks=, or metric= if X holds features."
        )
    if isinstance(choice, str) and choice in ("random", "maxmin"):
        rng = options.random_state
        count = landmark_count(n_landmarks, n, k)
        if choice == "random":
            ids = random_sample(n, count, rng)
        else:
            candidates = np.arange(n)
            if CANDIDATES * count < n:
                candidates = random_sample(n, CANDIDATES * count, rng)
            dissimilarities_to = _comparer(X, options, metric, candidates)
            spread = maxmin(candidates.size, count, dissimilarities_to, rng)
            ids = np.sort(candidates[spread])
    else:
        ids = checked_rows(choice, n, k)
    if is_to_landmarks and width != ids.size:
        raise InputError(
            f"X has {width} columns, but {ids.size} landmarks are named; pass one column per "
            f"landmark, or all {n}."
        )
    return ids


def _comparer(
    X: Any, options: Options, metric: Metric | None, ids: Indices
) -> Callable[[int], Array]:
    """Return the function of i that returns dissimilarities of `ids` to the i-th of them."""
    if metric is not None:
        fitted = metric_on(metric, X, ids, squared=False)
        points = fitted.points
        compare = fitted.dissimilarities
        return lambda i: to_numpy(compare(points, points[i : i + 1, :]))[:, 0]
    if options.metric == SHORTEST_PATH:
        return lambda i: shortest_path_rows(X, ids[i : i + 1])[0, ids]
    if is_dask(X):
        block = take(X, ids, ids)
        return lambda i: block[:, i]
    return lambda i: to_numpy(X[:, ids[i]])[ids]


def _landmark_names(
    X: Any, columns: Sequence[str] | None, ids: Indices
) -> Labels:
    """Return the names of the landmarks: of all objects' columns, those of `ids`, or of L all."""
    if columns is None:
        return None
    if X.shape[0] == X.shape[1]:
        columns = [columns[i] for i in ids]
    return tuple(map(str, columns))


def graph_landmarks(graph: Any, options: Options) -> Indices:
    """Return landmarks among the nodes of a directed graph, by the options of a user."""
    options, count = _split_count(options)
    rng = check_random_state(options.random_state)
    options = replace(options, random_state=rng)
    k = _k_or_one(options.n_components)
    return _choose_landmarks(graph, options, None, count, k)


def _split_count(options: Options) -> tuple[Options, Any]:
    """Return options with "random" in place of a number or share of landmarks, and the latter."""
    count = options.landmarks
    if isinstance(count, (int, float, np.number)) and not isinstance(
        count, bool
    ):
        return replace(options, landmarks="random"), count
    return options, None


def embed_by_landmarks(
    data: Any, options: Options, labels: Any = None
) -> Embedding:
    """Return the embedding of all objects by landmarks: what `neuc_mds` does with `landmarks`."""
    metric = options.metric
    options, count = _split_count(options)
    if metric == PRECOMPUTED and not is_dask(data):
        data, names = unwrap(data)
        labels = names if labels is None else labels
        if data.ndim == 1:
            data = to_square(data, working_dtype(data))
    if metric != SHORTEST_PATH and not is_dask(data):
        data = as_real(data, "features")
        data = namespace(data).astype(data, working_dtype(data), copy=False)
    n = data.shape[0]
    labels = as_labels(labels, n)
    start = ordered_start(options.init, labels)
    options = replace(options, init=start)
    columns = None
    if metric == PRECOMPUTED and n == data.shape[1]:
        columns = labels
    data = averaged(data, options)
    fit = fit_landmarks(data, options, n_landmarks=count, columns=columns)
    rows = data
    if fit.nodes is not None:
        rows = np.arange(n)
    return fit.embedding_at(fit.place_all(rows, landmarks_stay=True), labels)


def metric_on(metric: Metric, X: Any, ids: Indices, squared: bool) -> Metric:
    """Return a metric fitted to all of X, with the rows `ids` in float64, as they are few."""
    return metric.fitted_to(X, squared, points=in_double(take(X, ids)))


def _features_among(metric: Metric, sources: Indices, ids: Indices) -> Array:
    """Return dissimilarities among some points of a metric, by their numbers `sources`.

    Messages name them by `ids`, their numbers among all objects.
    """
    points = metric.points[index_like(sources, metric.points), :]
    matrix = to_numpy(replace(metric, points=points).among())
    refuse_undefined(matrix, metric.name, ids, ids)
    return matrix


def _block_among(X: Any, ids: Indices) -> Array:
    """Return dissimilarities among landmarks, from all (n, n) or those to landmarks (n, L)."""
    if X.shape[0] == X.shape[1]:
        matrix = to_numpy(take(X, ids, ids))
        refuse_undefined(matrix, "X", ids, ids)
        return matrix
    matrix = to_numpy(take(X, ids))
    refuse_undefined(matrix, "X", ids, ids)
    diagonal = np.abs(np.diagonal(matrix))
    worst = int(np.argmax(diagonal))
    if diagonal[worst] > 1e-6 * np.max(np.abs(matrix)):
        raise InputError(
            f"landmark {int(ids[worst])} is at {matrix[worst, worst]:.4g} from itself, not at 0; "
            "are the columns in another order than landmarks_?"
        )
    return matrix


def _search_paths(
    graph: Any,
    ids: Indices,
    sources: Indices,
    n_near: int,
    options: Options,
    n_jobs: int | None,
    like: Array | None,
) -> NodePaths:
    """Return paths from the global landmarks to all nodes, and of every node to near landmarks."""
    n = graph.shape[0]
    notify(options.callback, f"searching from {sources.size} landmarks")
    paths = shortest_path_rows(
        graph, ids[sources], dtype=np.float32, n_jobs=n_jobs
    )
    near = np.empty((n, 0), np.int32)
    lengths = np.empty((n, 0), np.float32)
    if n_near:
        notify(
            options.callback,
            f"searching from {ids.size} landmarks to nodes near them",
        )
        near, lengths = nearest_landmarks(graph, ids, n_near, n_jobs=n_jobs)
        # A landmark that was not found is infinitely far; its length is not known.
        lengths[np.isinf(lengths)] = np.nan
    if like is None:
        like = np.empty(0)
    return NodePaths(paths, near, lengths, like)


def _floor_of_edges(graph: Any) -> float | None:
    """Return the floor of the relative loss: the median over nodes of their shortest edge.

    Landmarks, whose distances would give the floor otherwise, are farther apart than nodes.
    """
    if not graph.data.any():
        return None
    edges = np.where(graph.data > 0, graph.data, np.inf)
    # A connected graph has no empty row, which `reduceat` would misread.
    shortest = np.minimum.reduceat(edges, graph.indptr[:-1])
    return float(np.median(shortest[np.isfinite(shortest)]))


def _k_or_one(n_components: Any) -> int:
    """Return k, that of a signature (p, q), or 1 while it is still to be chosen."""
    # A goal, such as "auto", is no whole number.
    sizes = np.asarray(n_components)
    if not np.issubdtype(sizes.dtype, np.integer):
        return 1
    return int(sizes.sum())


def _start_among(
    start: Configuration | None, ids: Indices, n: int
) -> Configuration | None:
    """Return the start of the objects `ids`: some of a start of all n objects, or all of it."""
    if start is None or start.coordinates.shape[0] != n:
        return start
    return replace(start, coordinates=to_numpy(start.coordinates)[ids])
