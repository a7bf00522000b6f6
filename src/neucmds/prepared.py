"""Read and validate any D, and put it behind its operator."""

from __future__ import annotations

from typing import Any

import numpy as np

from neucmds.backend.arrays import Indices, is_dask, is_numpy, to_numpy
from neucmds.errors import InputError
from neucmds.options import (
    PRECOMPUTED,
    SHORTEST_PATH,
    TABLE,
    Options,
    check_support,
    kind_of,
)
from neucmds.problem.chunks import lazy_dissimilarity
from neucmds.problem.components import NComponents, checked_size
from neucmds.problem.containers import as_real
from neucmds.problem.dense import Dense, as_squares
from neucmds.problem.directed import Directed, as_directed
from neucmds.problem.graph import all_paths, as_graph, shortest_path_rows
from neucmds.problem.metrics import Metric
from neucmds.problem.validation import as_labels
from neucmds.problem.weights import as_weighted
from neucmds.spectrum.operators.choose import (
    dense_operator,
    feature_operator,
    is_store,
    lazy_if_large,
)
from neucmds.spectrum.operators.chunked import DaskGram
from neucmds.spectrum.operators.dense import DenseGram
from neucmds.spectrum.operators.gram import Gram


def prepare(
    D: Any,
    n_components: NComponents = 1,
    *,
    labels: Any = None,
    **parameters: Any,
) -> Dense:
    """Read and validate D, and put it behind the operator that the memory allows.

    Parameters
    ----------
    D : as for `neuc_mds`, or Dense
        A `Dense` is returned as it is.
    n_components : as for `neuc_mds`
        Number of coordinates that the memory must suffice for.
    labels : sequence of str, optional
        Names of the objects, for input without names.
    **parameters
        metric, squared, symmetrize, weights, missing, callback: as for `neuc_mds`; all shortest
        paths of a graph are computed.

    Returns
    -------
    Dense

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import compare, diagnose
    >>> from neucmds.prepared import prepare
    >>> D = prepare(np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 4.0], [1.0, 4.0, 0.0]]))
    >>> diagnose(D).euclidean, compare(D, 1).best.method
    (False, 'exact')
    """
    if isinstance(D, Dense):
        return D
    options = Options(n_components, **parameters)
    if options.metric == PRECOMPUTED:
        D = lazy_if_large(D)
    check_support(options, kind_of(D, options))
    return read_dense(D, options, labels)


def read_dense(D: Any, options: Options, labels: Any = None) -> Dense:
    """Read and validate D by options that are checked, and put it behind its operator."""
    if isinstance(D, Dense):
        return D
    squared = options.squared
    symmetrize = options.symmetrize
    # Whether the array D is the user's, and must stay as it is.
    copy = True
    # Whether an operator will do, which has neither NaN nor weights.
    counts_alike = options.weights is None and options.missing == "error"
    k = options.n_components
    if options.metric == SHORTEST_PATH:
        D = all_paths(as_graph(D))
        squared = False
        # Lengths there and back are equal but for rounding.
        symmetrize = True
        copy = False
    elif options.metric != PRECOMPUTED:
        if labels is not None:
            labels = as_labels(labels, len(D))
        D = _between_features(D, options, counts_alike, labels)
        symmetrize = False
    if counts_alike and is_dask(D):
        chunks = lazy_dissimilarity(D, squared=squared, labels=labels)
        checked_size(k, len(chunks))
        D = DaskGram(chunks, options.callback)
    if isinstance(D, Gram):
        squared = getattr(D, "squared", squared)
        return Dense(D, as_labels(labels, D.n), squared)
    if is_store(D) and not is_numpy(D):
        D = np.asarray(D[...])
        copy = False
    values, names = as_squares(
        D,
        squared=squared,
        symmetrize=symmetrize,
        labels=labels,
        # If weights are refused after D was squared, the user's D must be as it was.
        copy=copy or not counts_alike,
        missing=options.missing,
        # Losses with weights add up entries of D, in float64.
        double=not counts_alike,
    )
    if not counts_alike:
        weighted = as_weighted(values, names, options.weights)
        if weighted is not None:
            filled, weights = weighted
            return Dense(
                DenseGram(filled), names, squared, weights, options.missing
            )
    gram = dense_operator(values, k)
    return Dense(gram, names, squared, missing=options.missing)


def _between_features(
    features: Any, options: Options, as_operator: bool, labels: Any
) -> Any:
    """Return D between features as an operator, or as an array that may have weights."""
    metric = Metric.of(options.metric, symmetrize=options.symmetrize)
    squared = options.squared
    if is_dask(features):
        features = to_numpy(features)
    if not as_operator:
        return metric.fitted_to(features, squared).among()
    return feature_operator(
        features,
        options.n_components,
        metric,
        squared=squared,
        callback=options.callback,
        labels=labels,
    )


def read_directed(D: Any, options: Options, labels: Any = None) -> Directed:
    """Read and validate dissimilarities from rows to columns."""
    squared = options.squared
    missing = options.missing
    if options.metric == SHORTEST_PATH:
        graph = as_graph(D)
        D = shortest_path_rows(graph, np.arange(graph.shape[0]))
        squared = False
    elif options.metric != PRECOMPUTED:
        features = as_real(D, "features")
        D = options.metric.fitted_to(features, squared).among(directed=True)
    elif hasattr(D, "tocoo"):
        stored = D.tocoo()
        D = np.full(stored.shape, np.nan)
        D[stored.coords] = stored.data
        if D.shape[0] == D.shape[1]:
            # An entry of the diagonal that is not stored is zero; others are checked later.
            diagonal = np.diagonal(D)
            np.fill_diagonal(D, np.where(np.isnan(diagonal), 0.0, diagonal))
        missing = "ignore"
    return as_directed(
        D,
        labels=labels,
        weights=options.weights,
        squared=squared,
        missing=missing,
    )


def prepare_some(
    data: Any,
    rows: Indices,
    *,
    metric: Any = PRECOMPUTED,
    **reading: Any,
) -> Dense:
    """Prepare D among some objects, by row numbers, where all of D is not stored or takes long.

    `reading` are parameters of `prepare`.
    """
    if metric == SHORTEST_PATH:
        paths = shortest_path_rows(as_graph(data), rows)[:, rows]
        return prepare(paths, 1, symmetrize=True)
    if metric != PRECOMPUTED:
        return prepare(data[rows], 1, metric=metric, **reading)
    return prepare(data[np.ix_(rows, rows)], 1, **reading)


def dense_gram(prepared: Dense, what: str) -> DenseGram:
    """Return the operator of a D in memory, or refuse `what` needs one."""
    if isinstance(prepared.gram, DenseGram):
        return prepared.gram
    raise InputError(f"{what} {TABLE['operator']['loss']}")


def refuse_weights(
    prepared: Dense, what: str, instead: str = "use neuc_mds"
) -> None:
    """Refuse weights and missing entries for `what` needs every pair of D."""
    if prepared.weights is not None:
        raise InputError(
            f"{what} needs every pair of D, without weights; {instead}."
        )
