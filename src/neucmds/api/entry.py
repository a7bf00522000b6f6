"""`neuc_mds`: the one entry for every kind of input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike, fspath
from typing import Any, Literal

import numpy as np

from neucmds._backend import Checkpoint
from neucmds._backend.arrays import Array, is_numpy, to_numpy
from neucmds._input import (
    NComponents,
    as_labels,
    as_objects,
    as_pairs,
    check_flags,
    named_features,
    row_names,
)
from neucmds._operator import BoundMetric, DenseGram, Tape, named_graph, refuse_params, watched
from neucmds.api.fitting import Fit, fit, warn_of_surprises
from neucmds.api.goals import fit_chosen
from neucmds.api.landmarks import embed_by_landmarks
from neucmds.api.options import (
    DEFAULT_METHOD,
    GOALS,
    PRECOMPUTED,
    SHORTEST_PATH,
    Callback,
    Loss,
    Method,
    Options,
    kind_of,
    refuse,
)
from neucmds.api.partial_input import embed_graph, embed_pairs
from neucmds.api.prepared import Prepared, prepare
from neucmds.api.two_levels import embed_rows
from neucmds.embedding import Embedding


def neuc_mds(
    data: Any,
    n_components: NComponents = 2,
    method: Method = DEFAULT_METHOD,
    *,
    loss: Loss = "squared",
    floor: float | None = None,
    curvature: float | Literal["auto"] = 0.0,
    metric: Any = PRECOMPUTED,
    metric_params: dict[str, Any] | None = None,
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
    data : array, DataFrame, DistanceMatrix, condensed vector, list, path or sparse array
        Symmetric dissimilarities D with a zero diagonal; they need not be Euclidean, nor metric.
        Names travel with a DataFrame, of features too, or a DistanceMatrix. An npy file, memory
        map, zarr array or HDF5 dataset that does not fit in memory is read in blocks of rows. The
        chunks of a dask array stay on its workers. `BlockedGram` and `FeatureGram` of
        `neucmds.operators` are taken as they are. Of a `scipy.sparse` array what is stored was
        observed, zeros included, and the rest was not: "refined" then takes memory and time for
        these pairs alone. With a `metric`, features, a graph, or a list of objects of any kind,
        such as strings, which name themselves if all differ.
    n_components : int, (int, int), float, "auto" or None, default=2
        Number of coordinates, or a pair (p, q): at most p positive and q negative ones, fewer where
        more do not lower the STRESS. With "refined" and up to 2000 objects, a pair of at most 25
        contained ones never ends above any of them. A share between 0 and 1: the fewest
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
        which near pairs count like far ones. The last two need D ≥ 0, and all of D in memory. New
        objects are placed by the same loss.
    floor : float, optional
        For "relative", the d below which every pair counts as if it were this far apart. By default
        half of the 1 % quantile of the positive d, or the median distance to the nearest other
        object if that is less. `Embedding.floor` tells.
    curvature : float or "auto", default=0
        κ, in units of 1/(mean d)², for "distance" and "relative": D̂ approximates g(d) instead of
        d², and errors still count in d. κ < 0 is hyperbolic, g(d) = 2(cosh cd − 1)/c² with c² = −κ:
        trees and networks gain most. κ > 0 is spherical, g(d) = 2(1 − cos cd)/c² with c² = κ.
        "auto": the κ with the least error, found by short descents on up to 500 objects; 0 unless
        another gains more than 1 %. `Embedding.distance` inverts g.
    metric : str or callable, default="precomputed"
        "precomputed": `data` holds dissimilarities. "shortest_path": `data` is a graph, and its
        nodes are embedded: a sparse array of lengths of edges, a networkx graph, or a DataFrame of
        edges, two nodes and a length each. An edge counts both ways, also if it is stored once, and
        two lengths for it are refused without a "direction"; above 10,000
        nodes, or where all paths do not fit in memory, "refined" samples pairs of nodes and needs
        no n × n array. Otherwise `data` holds features, and the metric is "angular", "balls",
        "cosine", "euclidean", "hyperbolic" or "rbf" (see `neucmds.operators`), or one that
        `sklearn.metrics.pairwise_distances` knows. A callable takes two objects of a list, or two
        rows of NumPy features, but two blocks of rows of any other array library; it is called once
        for each pair, in the processes that `joblib.parallel_config` says. Dissimilarities that do
        not fit in memory are never stored.
    metric_params : dict, optional
        Further arguments of the metric. Of "shortest_path": "weight", the attribute or column of
        lengths ("weight" by default, else "length", else 1 each), and "direction", whether paths
        follow the direction of edges: "mean", "min" or "max" of the lengths there and back, or
        "out", the length out of the landmark or of the node that comes first.
    landmarks : int, float, {"random", "maxmin"} or sequence of int, optional
        Embed some objects and place all others among them by their dissimilarities to these: for
        more objects than all pairs allow. How many, or which share of all, are drawn; how 1000 of
        them are chosen; or their rows, and then `data` may hold the (n, L) dissimilarities to them
        alone. See `LandmarkNeucMDS`, which also streams, and `Embedding.landmarks`.
    n_pairs : int, optional
        Fit a sample of so many pairs for each object of features or of a graph: every object has
        partners of its own, drawn at random, and its nearest too unless `loss` is "squared".
        STRESS, R² and loss are then estimated from other pairs, with standard errors
        (`Embedding.r2_standard_error`), and a warning says if they are twice as bad as on the
        fitted ones. Large graphs are sampled anyway: 32 for each coordinate, 16 by other losses.
        A function is called for n·n_pairs/2 pairs, those with the landmarks where the fit starts
        among them, and for 8 % more, which measure the fit. Pairs of dask features are found on
        the workers, and fitted on the client in about 230 bytes a pair.
    squared : bool, default=False
        False: D holds dissimilarities and is squared inside, as in scikit-learn, scikit-bio and R.
        True: D is taken as it is, and may hold negative entries; this is the paper's D.
    symmetrize : bool, default=False
        Average D and its transpose instead of refusing an asymmetric D; with a function as
        `metric`, over both orders of every pair, which takes twice as many calls.
    weights : array of shape (n, n), optional
        How much each pair counts: the loss of a pair is multiplied by it. "refined" only.
    missing : {"error", "ignore"}, default="error"
        "ignore": NaN in D means that the pair was not observed, and does not count; `transform` of
        the result takes NaN too. "refined" only. What a sparse D does not store is missing anyway.
    random_state : int, RandomState, Generator or None
        Seed of the iterative solver's start, of further starts, of landmarks and of sampled pairs.
        None is the seed 0: a second call returns the same, to the last bit.
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
        coordinates, each signature compared by a quarter of them; else 1, for more objects with the
        signature that short descents on 500 of them choose.
    init : Embedding or (coordinates, signs), optional
        Where "refined" starts: a warm start, which keeps its signature and with it the number of
        its coordinates.
    callback : callable, optional
        ``callback(step, total, what)`` hears how far the work has come. After every iteration of
        "refined": its number, the most there can be, and the loss, a float. While a D outside
        memory is read: the rows done, n, and which pass it is, a str. Before longer pieces of
        work: 0, None, and a few words.
    checkpoint : path, optional
        For "refined" of listed pairs, or of a D that is not held in memory: a file that the
        coordinates are written to every few seconds. After an interruption the same call goes on
        from them; it is removed at the end. Another D and other parameters are refused. What a
        function that is the metric returned is kept beside it, in ``CHECKPOINT.calls``.

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
        floor=floor,
        curvature=curvature,
        random_state=random_state,
        tol=tol,
        max_iter=max_iter,
        n_init=n_init,
        init=init,
        callback=callback,
        checkpoint=checkpoint,
    )
    found = embed(
        data,
        options,
        metric=metric,
        metric_params=metric_params,
        landmarks=landmarks,
        n_pairs=n_pairs,
        squared=squared,
        symmetrize=symmetrize,
        weights=weights,
        missing=missing,
    )
    warn_of_surprises(found.embedding)
    return found.embedding


def embed(
    data: Any,
    options: Options,
    *,
    metric: Any = PRECOMPUTED,
    metric_params: dict[str, Any] | None = None,
    landmarks: Any = None,
    n_pairs: int | None = None,
    squared: bool = False,
    symmetrize: bool = False,
    weights: Any = None,
    missing: Literal["error", "ignore"] = "error",
    labels: Any = None,
) -> Fit:
    """Embed whatever `neuc_mds` takes, and return what was found on the way as well.

    Parameters are those of `neuc_mds`; `labels` names the objects of input without names.
    """
    scale: dict[str, Any] = {"squared": squared, "symmetrize": symmetrize}
    check_flags(missing, **scale)
    data, metric, labels = _as_rows(data, metric, metric_params, symmetrize, labels)
    known = data.gram if isinstance(data, Prepared) else data
    kind = kind_of(known, metric, n_pairs, options.method) if landmarks is None else "landmarks"
    reading = {"weights": weights, "missing": None if missing == "error" else missing}
    reading |= {name: flag or None for name, flag in scale.items()} | {"n_pairs": n_pairs}
    asked = {name: value for name, value in reading.items() if value is not None}
    refuse(kind, options.asked | asked)
    rules = scale | {"metric": metric, "weights": weights, "labels": labels}
    with _calls(data, metric, options, n_pairs, kind):
        if kind == "landmarks":
            return Fit(embed_by_landmarks(data, options, landmarks, **rules))
        if kind in ("large graph", "sampled", "pairs"):
            found = _from_some_pairs(kind, data, options, metric, n_pairs, missing, scale)
            if labels is not None:
                found = replace(found, labels=as_labels(labels, found.n))
            return Fit(found)
        prepared = prepare(
            data,
            options.n_components,
            missing=missing,
            keep_copy=options.method == "refined",
            callback=options.callback,
            **rules,
        )
        if options.checkpoint is not None:
            if not (_is_called(metric, data) and isinstance(prepared.gram, DenseGram)):
                return _kept(prepared, options, options.checkpoint)
            options = replace(options, checkpoint=None)
        return (fit_chosen if isinstance(options.n_components, GOALS) else fit)(prepared, options)


def _as_rows(
    data: Any, metric: Any, params: dict[str, Any] | None, symmetrize: bool, labels: Any
) -> tuple[Any, Any, Any]:
    """Return data as rows or a graph, the metric bound to its arguments, and names of objects."""
    if metric == SHORTEST_PATH:
        graph, labels = named_graph(data, labels, params)
        return graph, metric, labels
    if metric == PRECOMPUTED:
        refuse_params(params, metric)
        return data, metric, labels
    bound = BoundMetric.of(metric, params, symmetrize=symmetrize)
    items = as_objects(data) if callable(bound.metric) and bound.items is None else None
    if items is None:
        data, labels = named_features(data, labels)
        return data, bound, labels
    labels = row_names(data) if labels is None else labels
    return *bound.numbered(items), labels


def _is_called(metric: Any, data: Any) -> bool:
    """Tell whether a user's function is called pair by pair."""
    return isinstance(metric, BoundMetric) and callable(metric.metric) and is_numpy(data)


@contextmanager
def _calls(
    data: Any, metric: Any, options: Options, n_pairs: int | None, kind: str
) -> Iterator[None]:
    """Let the callback hear of calls of a function, and a file beside `checkpoint` keep them."""
    if not _is_called(metric, data):
        yield
        return
    hear, name, tape = options.callback, getattr(metric.metric, "__name__", "the metric"), None
    if options.checkpoint is not None:
        what = data if metric.items is None else metric.items
        how = (options.n_components, options.loss, options.random_state, n_pairs, kind)
        tape = Tape(f"{fspath(options.checkpoint)}.calls", what, name, metric.params, how)
    report = None if hear is None else lambda done, total: hear(done, total, f"calls of {name}")
    with watched(report, tape):
        yield
    if tape is not None:
        tape.remove()


def _from_some_pairs(
    kind: str,
    data: Any,
    options: Options,
    metric: Any,
    n_pairs: int | None,
    missing: str,
    scale: dict[str, Any],
) -> Embedding:
    """Embed a large graph, features or a list of pairs without any n × n array."""
    if kind == "large graph":
        return embed_graph(data, options, n_pairs)
    if kind == "sampled":
        return embed_rows(data, metric, options, n_pairs)
    pairs = as_pairs(data, allow_missing=missing == "ignore", **scale)
    return replace(embed_pairs(pairs, options, bool(scale["squared"])), missing=missing)


def _kept(prepared: Prepared, options: Options, checkpoint: str | PathLike[str]) -> Fit:
    """Fit from where the last call was interrupted, and keep the coordinates of every step."""
    if isinstance(prepared.gram, DenseGram):
        refuse("matrix", {"checkpoint": checkpoint})
    if options.init is None and isinstance(options.n_components, (*GOALS, tuple, list)):
        refuse("checkpoint", {"n_components": options.n_components})
    # In single precision: the number of threads decides the last digits.
    means = to_numpy(prepared.gram.moments.row_means).astype(np.float32)
    asked = (options.n_components, options.tol, options.max_iter)
    kept = Checkpoint(checkpoint, means, *asked, options.init)
    if kept.held:
        start = kept.held["coordinates"], kept.held["signs"]
        options = replace(options, n_components=None, init=start)

    def keep(coordinates: Array, signs: Array) -> None:
        kept.save(coordinates=coordinates, signs=signs)

    found = fit(prepared, options, keep)
    kept.remove()
    return found
