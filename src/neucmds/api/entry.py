"""`neuc_mds`: the one way in, whatever the input is."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from typing import Any, Literal

import numpy as np

from neucmds._backend import Checkpoint
from neucmds._backend.arrays import Array, is_dask, to_numpy
from neucmds._input.components import NComponents
from neucmds._input.dissimilarity import check_missing
from neucmds._input.pairs import Pairs, as_pairs
from neucmds._input.validation import check_flags
from neucmds._operator.choose import feature_operator
from neucmds._operator.graph import as_graph, shortest_path_rows
from neucmds._operator.metric_registry import BoundMetric, on_rows
from neucmds.api.arguments import (
    refuse_checkpoint,
    refuse_for_pairs,
    refuse_without_refinement,
    warn_of_surprises,
)
from neucmds.api.fitting import fit
from neucmds.api.options import DEFAULT_METHOD, Callback, Options, on_pass
from neucmds.api.partial_input import embed_features, embed_graph, embed_pairs
from neucmds.api.prepared import Prepared, prepare
from neucmds.embedding import Embedding
from neucmds.errors import InputError, option

PRECOMPUTED = "precomputed"
SHORTEST_PATH = "shortest_path"
# Up to here all shortest paths between nodes are computed: 72 MB, some seconds.
MOST_PATHS = 3000


def neuc_mds(
    data: Any,
    n_components: NComponents = 2,
    method: str = DEFAULT_METHOD,
    *,
    loss: str = "squared",
    metric: Any = PRECOMPUTED,
    landmarks: Any = None,
    n_pairs: int | None = None,
    squared: bool = False,
    symmetrize: bool = False,
    weights: Any = None,
    missing: Literal["error", "ignore"] = "error",
    random_state: Any = None,
    tol: float | None = None,
    max_iter: int | None = None,
    n_init: int | None = None,
    init: Any = None,
    callback: Callback | None = None,
    checkpoint: str | PathLike[str] | None = None,
) -> Embedding:
    """Embed dissimilarities as real coordinates with a sign for each coordinate.

    Parameters
    ----------
    data : array, DataFrame, DistanceMatrix, condensed vector, nested list, path or sparse array
        Symmetric dissimilarities D with a zero diagonal; they need not be Euclidean, nor metric.
        Names travel with a DataFrame or a DistanceMatrix. An npy file, memory map, zarr array or
        HDF5 dataset that does not fit in memory is read in blocks of rows. The chunks of a dask
        array stay on its workers. `BlockedGram` and `FeatureGram` of `neucmds.operators` are taken
        as they are. Of a `scipy.sparse` array what is stored was observed, zeros included, and the
        rest was not: "refined" then takes memory and time for these pairs alone. With a `metric`,
        features or a graph.
    n_components : int, (int, int), float, "auto" or None, default=2
        Number of coordinates, or a pair (p, q) of positive and negative ones. With "refined" and up
        to 2000 objects, a pair of at most 25 contained ones never ends above any of them; fewer
        columns are returned where more do not lower the STRESS. A share between 0 and 1: the fewest
        coordinates whose R² (`Embedding.r2`) reaches it; for "exact" and "refined" found by
        bisection, for which R² is taken to grow with k. "auto": the fewest coordinates whose error
        on pairs of held-out objects, placed by "neuc+", is within one standard error of the least
        (at most 100). What was chosen is `Embedding.requested`. None: 20, or n − 1 if that is less.
    method : {"classical", "lower", "neuc", "neuc+", "exact", "refined"}, default="refined"
        The first four are the paper's, "exact" minimises the true STRESS in closed form on kept
        eigenvectors, "refined" sets the coordinates free.
    loss : {"squared", "distance", "relative"}, default="squared"
        What "refined" minimises. "squared": Σ(D̂ − D)², the paper's STRESS, in which far pairs rule.
        "distance": Σ(√D̂⁺ − d)², with d = √D: what SMACOF minimises. "relative": Σ(D̂/D − 1)², in
        which near pairs count like far ones; d below half of the 1 % quantile of the positive d
        counts as that much. The last two need D ≥ 0, and all of D in memory. New objects are
        placed by the same loss.
    metric : str or callable, default="precomputed"
        "precomputed": `data` holds dissimilarities. "shortest_path": `data` is a graph, a sparse
        array of lengths of edges, and the nodes are embedded; an edge counts both ways, also if it
        is stored once, and two lengths for it are refused; above 3000 nodes "refined" samples pairs
        of nodes and needs no n × n array. Otherwise `data` holds features, and the metric is
        "angular", "balls", "cosine", "euclidean", "hyperbolic" or "rbf" (see `neucmds.operators`),
        or one that `sklearn.metrics.pairwise_distances` knows. A callable (`functools.partial`
        binds its arguments) takes two rows of NumPy features, as there, but two blocks of rows of
        any other array library. Dissimilarities that do not fit in memory are never stored.
    n_pairs : int, optional
        Pairs that each node of a large graph takes part in, 16 for each coordinate by default; with
        features, fit such a sample of all pairs: the nearest, landmarks and rings between them.
        Those of a dask array of features are found on its workers, and fitted on the client in
        about 230 bytes a pair.
    squared : bool, default=False
        False: D holds dissimilarities and is squared inside, as in scikit-learn, scikit-bio and R.
        True: D is taken as it is, and may hold negative entries; this is the paper's D.
    symmetrize : bool, default=False
        Average D and its transpose instead of refusing an asymmetric D.
    weights : array of shape (n, n), optional
        How much each pair counts: the loss of a pair is multiplied by it. "refined" only.
    missing : {"error", "ignore"}, default="error"
        "ignore": NaN in D means that the pair was not observed, and does not count; `transform` of
        the result takes NaN too. "refined" only. What a sparse D does not store is missing anyway.
    random_state : int, RandomState or None
        Seed of the iterative solver's start, of further starts and of sampled pairs.
    tol : float, optional
        For closed forms the largest ‖Bu − λu‖ of the returned eigenpairs, relative to the largest
        kept |λ| (iterative solver): 1e-7 by default; from 1e-6 up no product in double precision is
        needed, which takes up to a third less time. "refined" stops when three iterations together
        gain less than this share of the loss, and one more promises less: by default 2e-3 for the
        squared loss; for others 1e-6 up to 600 objects, then 1e-4 ("distance") or 2e-3.
    max_iter : int, optional
        Most iterations of "refined": 200 for the squared loss, 500 for others.
    n_init : int, optional
        Starts of the losses other than "squared", of which the best is returned; 1: one start, with
        its own signature. By default 32 for up to 100 objects and 12 for up to 600 with up to 10
        coordinates, and other signatures for up to 600 objects; else 1.
    init : Embedding or (coordinates, signs), optional
        Where "refined" starts: a warm start, which keeps its signature.
    callback : callable, optional
        ``callback(step, total, what)`` hears how far the work has come. After every iteration of
        "refined": its number, the most there can be, and the loss, a float. While a D outside
        memory is read: the rows done, n, and which pass it is, a str. Before longer pieces of
        work: 0, None, and a few words.
    checkpoint : path, optional
        For "refined" of listed pairs, or of a D that is not held in memory: a file that the
        coordinates are written to every few seconds. After an interruption the same call goes on
        from them; it is removed at the end. Another D and other parameters are refused.

    Returns
    -------
    Embedding

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import neuc_mds
    >>> D = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 4.0], [1.0, 4.0, 0.0]])  # 4 > 1 + 1: no metric
    >>> neuc_mds(D, n_components=2).signature
    (1, 1)
    """
    options = Options(
        n_components=n_components,
        method=method,
        loss=loss,
        random_state=random_state,
        tol=tol,
        max_iter=max_iter,
        n_init=n_init,
        init=init,
        callback=callback,
        checkpoint=checkpoint,
    )
    check_flags(squared=squared, symmetrize=symmetrize)
    check_missing(missing)
    refuse_without_refinement(options)
    if isinstance(metric, str) and metric == SHORTEST_PATH:
        embedding = _of_graph(data, options, n_pairs, weights)
    elif n_pairs is not None:
        embedding = _of_sampled_pairs(data, metric, options, n_pairs, squared, weights)
    elif isinstance(data, Pairs) or hasattr(data, "tocoo"):
        refuse_for_pairs(weights, options)
        rules: dict[str, Any] = {"squared": squared, "symmetrize": symmetrize}
        pairs = as_pairs(data, allow_missing=missing == "ignore", **rules)
        embedding = embed_pairs(pairs, options, bool(squared))
        embedding = replace(embedding, missing=missing)
    else:
        complete = weights is None and missing == "error" and not symmetrize
        if not (isinstance(metric, str) and metric == PRECOMPUTED):
            data = _between_rows(data, metric, options, squared, complete)
        if checkpoint is not None:
            refuse_checkpoint(data.gram if isinstance(data, Prepared) else data, options)
        prepared = prepare(
            data,
            options.wanted,
            squared=squared,
            symmetrize=symmetrize,
            weights=weights,
            missing=missing,
            keep_copy=method == "refined",
            callback=callback,
        )
        embedding = _of_all_pairs(prepared, options)
    warn_of_surprises(embedding)
    return embedding


def _of_all_pairs(prepared: Prepared, options: Options) -> Embedding:
    if options.checkpoint is None:
        return fit(prepared, options).embedding
    # In single precision: the number of threads decides the last digits.
    means = to_numpy(prepared.gram.moments.row_means).astype(np.float32)
    asked = (options.n_components, options.tol, options.max_iter)
    kept = Checkpoint(options.checkpoint, means, *asked, options.init)
    if kept.held:
        start = kept.held["coordinates"], kept.held["signs"]
        options = replace(options, n_components=None, init=start)

    def keep(coordinates: Array, signs: Array) -> None:
        kept.save(coordinates=coordinates, signs=signs)

    embedding = fit(prepared, options, keep).embedding
    kept.remove()
    return embedding


def _of_graph(data: Any, options: Options, n_pairs: int | None, weights: Any) -> Embedding:
    """Embed nodes: from all shortest paths of few nodes, from some of many."""
    graph = as_graph(data)
    if graph.shape[0] > MOST_PATHS and options.method == "refined":
        for name, value in (("weights", weights), ("init", options.init)):
            if value is not None:
                raise InputError(
                    f"{option(name)} needs all shortest paths, which are computed for up to "
                    f"{MOST_PATHS} nodes; leave it out."
                )
        return embed_graph(graph, options, n_pairs)
    if options.checkpoint is not None:
        refuse_checkpoint(None, options)
    paths = shortest_path_rows(graph, np.arange(graph.shape[0]))
    prepared = prepare(
        paths,
        options.wanted,
        symmetrize=True,  # the two ways along a path are added up in another order
        weights=weights,
        copy=False,
        keep_copy=options.method == "refined",
    )
    return fit(prepared, options).embedding


def _of_sampled_pairs(
    features: Array, metric: Any, options: Options, n_pairs: int, squared: bool, weights: Any
) -> Embedding:
    """Embed features from some pairs of them."""
    what = option("n_pairs", n_pairs)
    if (isinstance(metric, str) and metric == PRECOMPUTED) or squared:
        raise InputError(
            f"{what} is for features and graphs, whose pairs can be chosen; pass the pairs of "
            "a D that are known as a scipy.sparse array."
        )
    if options.method != "refined" or weights is not None or options.init is not None:
        raise InputError(f"{what} is for method='refined', without weights and init.")
    return embed_features(features, BoundMetric.of(metric), options, n_pairs)


def _between_rows(
    features: Array, metric: Any, options: Options, squared: bool, complete: bool
) -> Any:
    """D between feature rows: behind its operator, or stored where pairs may differ or be gaps."""
    bound = BoundMetric.of(metric)
    features = to_numpy(features) if is_dask(features) else features
    if not complete:
        return bound.fitted_to(features, squared).among()
    on_blocks, params = on_rows(bound.metric, features, bound.params)
    gram, _ = feature_operator(
        features,
        options.wanted,
        on_blocks,
        params=params,
        squared=squared,
        progress=on_pass(options.callback),
    )
    return gram
