"""`neuc_mds`: the one entry for every kind of input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from os import PathLike, fspath
from typing import Any, Literal

import numpy as np

from neucmds.backend.arrays import Array, is_numpy, to_numpy
from neucmds.backend.checkpoint import Checkpoint
from neucmds.embedding import Embedding
from neucmds.fitting import Fit, fit, warn_of_surprises
from neucmds.goals import fit_chosen
from neucmds.large.landmarks import embed_by_landmarks
from neucmds.large.listed import embed_graph, embed_pairs
from neucmds.large.two_levels import embed_rows
from neucmds.options import (
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
from neucmds.prepared import prepare
from neucmds.problem.calls import Tape, watched
from neucmds.problem.components import NComponents
from neucmds.problem.containers import as_objects, named_features
from neucmds.problem.dense import Dense
from neucmds.problem.graph import named_graph
from neucmds.problem.metrics import BoundMetric, refuse_params
from neucmds.problem.names import row_names
from neucmds.problem.pairs import as_pairs
from neucmds.problem.validation import as_labels, check_flags, refuse_arrays
from neucmds.spectrum.operators.dense import DenseGram

__all__ = ["neuc_mds"]


def neuc_mds(
    data: Any,
    n_components: NComponents = 2,
    method: Method = DEFAULT_METHOD,
    *,
    loss: Loss = "squared",
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
    init: Any = None,
    callback: Callback | None = None,
    checkpoint: str | PathLike[str] | None = None,
) -> Embedding:
    """Embed dissimilarities as real coordinates with a sign per coordinate.

    Parameters
    ----------
    data : array, DataFrame, DistanceMatrix, condensed vector, list, path or sparse array
        Symmetric dissimilarities D with a zero diagonal; they need not be Euclidean or metric. A
        DataFrame (of features, too) or a DistanceMatrix names the objects. An npy file, memory map,
        zarr array or HDF5 dataset that does not fit in memory is read by dask (the extra
        ``neucmds[dask]``). The chunks of a dask array stay on its workers. A `scipy.sparse` array
        stores the observed pairs, zeros included; "refined" then needs memory and time for these
        pairs only. With a `metric`: features, a graph, or a list of objects such as strings, which
        are their own names if all differ.
    n_components : int, (int, int), float, "auto" or None, default=2
        Number of coordinates, or a pair (p, q): at most p positive and q negative ones, fewer where
        more do not lower the STRESS. For "refined", n ≤ 2000 and (p + 1)(q + 1) ≤ 25 the result is
        never worse than any smaller signature. A share between 0 and 1: the fewest coordinates
        whose R² (`Embedding.r2`) reaches it, found by bisection for "exact" and "refined". "auto":
        the fewest coordinates, at most 100, whose error on pairs of held-out objects, placed by
        "neuc+", is within one standard error of the least. `Embedding.requested` is the chosen
        number. None: 20, or n − 1 if that is less.
    method : {"classical", "lower", "neuc", "neuc+", "exact", "refined"}, default="refined"
        The first four are the paper's. "exact" minimises the true STRESS in closed form on kept
        eigenvectors, "refined" minimises it over all coordinates.
    loss : {"squared", "distance", "relative"} or ("relative", float), default="squared"
        Loss of "refined". "squared": Σ(D̂ − D)², the paper's STRESS (S-STRESS), dominated by far
        pairs. "distance": Σ(√max(D̂, 0) − d)², with d = √D, as SMACOF. "relative": Σ(D̂/D − 1)²,
        with near pairs as important as far ones. The last two need D ≥ 0, and D in memory or a
        sample of pairs. New objects are placed by the same loss. "relative" divides by a floor
        instead of d where d is smaller: ``("relative", floor)``, in units of d; by default
        (`Embedding.floor`) the smaller of half the 1 % quantile of the positive d and the median
        nearest-neighbour distance.
    curvature : float or "auto", default=0
        For "distance" and "relative": D̂ approximates g(d) instead of d²; the loss still measures
        errors of d. Dimensionless: κ·(mean d)². With κ in units of 1/d² (`Embedding.kappa`), κ < 0
        is hyperbolic, g(d) = 2(cosh cd − 1)/c² with c² = −κ, for trees and networks; κ > 0 is
        spherical, g(d) = 2(1 − cos cd)/c² with c² = κ. "auto": the κ with the least error, found by
        short descents on up to 500 objects; 0 unless another gains more than 1 %.
        `Embedding.distance` inverts g.
    metric : str or callable, default="precomputed"
        "precomputed": `data` holds dissimilarities. "shortest_path": `data` is a graph: a sparse
        array of edge lengths, a networkx graph, or a DataFrame of edges with two nodes and a length
        each. Edges are undirected, even if stored once. If the two directions have different
        lengths, set ``metric_params["direction"]``. Above 10,000 nodes, or where the paths do not
        fit in memory, "refined" samples pairs of nodes and needs no n × n array. For any other
        metric `data` holds features, and the metric is "angular", "balls", "cosine", "euclidean",
        "hyperbolic" or "rbf", or one of
        `sklearn.metrics.pairwise_distances`. A callable gets two objects of a list or two rows of
        NumPy features, once per pair, in the processes of `joblib.parallel_config`. If the
        features are an array of another library, it gets two blocks of rows and must return the
        matrix of dissimilarities between them.
        Dissimilarities that do not fit in memory are never stored.
    metric_params : dict, optional
        Further arguments of the metric. For "shortest_path": "weight", the attribute or column of
        lengths ("weight" by default, else "length", else 1 each), and "direction", for paths along
        directed edges: "mean", "min" or "max" of the lengths there and back, or "out", the length
        from the landmark (or the first node of a pair) to the other node.
    landmarks : int, float, {"random", "maxmin"} or sequence of int, optional
        Embed some objects and place all others by their dissimilarities to these: for n too large
        to use all pairs. int: their number; float: their share of all objects; "random" or
        "maxmin": 1000 landmarks chosen that way; sequence: their row numbers, and then `data` may
        hold only the (n, L) dissimilarities to them. See `LandmarkNeucMDS`, which also streams, and
        `Embedding.landmarks`.
    n_pairs : int, optional
        For features or a graph: fit a sample of this many pairs per object: random partners, and
        the nearest objects unless `loss` is "squared". STRESS, R² and loss are then estimated from
        held-out pairs, with standard errors (`Embedding.info`); a warning is issued if
        their loss is twice that of the fitted ones. "refined" always samples large graphs, by
        default 32 pairs per object and coordinate for the squared loss, 16 for the others, at least
        100 per object. A function metric is called for n·n_pairs/2 pairs, including those with the
        landmarks that the fit starts from, plus 8 % held-out pairs that measure the fit. Pairs of
        dask features are found on the workers, and fitted on the client in about 230 bytes per
        pair.
    squared : bool, default=False
        False: D holds plain dissimilarities, as in scikit-learn, scikit-bio and R.
        True: D holds squared dissimilarities, the paper's D, and may be negative.
    symmetrize : bool, default=False
        Average D and its transpose instead of refusing an asymmetric D; a function as `metric` is
        then called for both orders of every pair.
    weights : array of shape (n, n), optional
        Weight of each pair in the loss. "refined" only.
    missing : {"error", "ignore"}, default="error"
        "ignore": NaN in D is an unobserved pair, which is ignored; `transform` of the result then
        accepts NaN, too. "refined" only. Entries that a sparse D does not store are always missing.
    random_state : int, RandomState, Generator or None
        Seed of the iterative solver, of further starts, of landmarks and of sampled pairs. None is
        the seed 0: a second call returns the same result, to the last bit.
    tol : float, optional
        For closed forms the largest ‖Bu − λu‖ of the returned eigenpairs, relative to the largest
        kept |λ| (iterative solver): 1e-7 by default; with tol ≥ 1e-6, steps in float64 after those
        in single precision are left out, which takes up to a third less time. "refined" stops when
        three iterations together reduce the loss by less than this fraction, and the predicted
        reduction of the next step is also below it: by default 2e-3 for the squared loss; for
        others 1e-6 up to 600 objects, then 1e-4 ("distance") or 2e-3.
    max_iter : int, optional
        Most iterations of "refined": 200 for the squared loss, 500 for others.
    init : int, Embedding or (coordinates, signs), optional
        Number of starts of the losses "distance" and "relative"; the best result is returned.
        Default, for k ≤ 10: 32 starts for n ≤ 100, 12 for n ≤ 600, and a quarter as many for each
        other signature that is tried. Otherwise one start, and for n > 600 its signature is first
        chosen on 500 objects; ``init=1`` skips the choice of a signature. Or a warm start of
        "refined", which sets the signature and the number of coordinates.
    callback : callable, optional
        ``callback(step, total, what)`` gets, after an iteration of "refined", its number,
        `max_iter` and the loss as a float; while a D outside memory is read, the rows read, n and
        the name of the pass; before other long steps, 0, None and a short text.
    checkpoint : path, optional
        For "refined" of listed pairs, or of a D that is not held in memory: a file to which the
        coordinates are written every few seconds. After an interruption the same call continues
        from it; the file is removed at the end. Another D or other parameters are refused. Results
        of a function as `metric` are kept beside it, in ``CHECKPOINT.calls``.

    Returns
    -------
    Embedding

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import neuc_mds
    >>> D = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 4.0], [1.0, 4.0, 0.0]])  # not a metric
    >>> neuc_mds(D, n_components=2).signature
    (1, 1)
    """
    options = Options(
        n_components=n_components,
        method=method,
        loss=loss,
        curvature=curvature,
        random_state=random_state,
        tol=tol,
        max_iter=max_iter,
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
    """Embed any input of `neuc_mds`; `labels` names the objects of input without names."""
    check_flags(missing, squared=squared, symmetrize=symmetrize)
    refuse_arrays(metric=metric, metric_params=metric_params)
    data, metric, labels = _as_rows(data, metric, metric_params, symmetrize, labels)
    known = data.gram if isinstance(data, Dense) else data
    kind = kind_of(known, metric, n_pairs, options.method) if landmarks is None else "landmarks"
    asked = {"weights": weights, "missing": None if missing == "error" else missing}
    asked |= {"squared": squared or None, "symmetrize": symmetrize or None, "n_pairs": n_pairs}
    refuse(kind, options.asked | asked)
    scale = {"squared": squared, "symmetrize": symmetrize}
    rules: dict[str, Any] = scale | {"metric": metric, "weights": weights, "labels": labels}
    found: Embedding | None = None
    called = isinstance(metric, BoundMetric) and callable(metric.metric) and is_numpy(data)
    with _calls(data, metric, options, n_pairs, kind) if called else nullcontext():
        if kind == "landmarks":
            return Fit(embed_by_landmarks(data, options, landmarks, **rules))
        if kind == "large graph":
            found = embed_graph(data, options, n_pairs)
        if kind == "sampled":
            found = embed_rows(data, metric, options, n_pairs)
        if kind == "pairs":
            pairs = as_pairs(data, allow_missing=missing == "ignore", **scale)
            found = replace(embed_pairs(pairs, options, bool(squared)), missing=missing)
        if found is not None:
            return Fit(replace(found, labels=as_labels(labels, found.n) or found.labels))
        prepared = prepare(
            data,
            options.n_components,
            missing=missing,
            keep_copy=options.method == "refined",
            callback=options.callback,
            **rules,
        )
        if options.checkpoint is not None:
            if not (called and isinstance(prepared.gram, DenseGram)):
                return _kept(prepared, options, options.checkpoint)
            options = replace(options, checkpoint=None)
        return (fit_chosen if isinstance(options.n_components, GOALS) else fit)(prepared, options)


def _as_rows(
    data: Any, metric: Any, params: dict[str, Any] | None, symmetrize: bool, labels: Any
) -> tuple[Any, Any, Any]:
    """Return rows or a graph, the metric with its arguments, and names of the objects."""
    if metric == SHORTEST_PATH:
        graph, labels = named_graph(data, labels, params)
        return graph, metric, labels
    if metric == PRECOMPUTED:
        if params:
            refuse_params(metric)
        return data, metric, labels
    bound = BoundMetric.of(metric, params, symmetrize=symmetrize)
    items = as_objects(data) if callable(bound.metric) and bound.items is None else None
    if items is None:
        data, labels = named_features(data, labels)
        return data, bound, labels
    labels = row_names(data) if labels is None else labels
    return *bound.numbered(items), labels


@contextmanager
def _calls(
    data: Any, metric: BoundMetric, options: Options, n_pairs: int | None, kind: str
) -> Iterator[None]:
    """Report calls of a user's function to the callback, and keep them beside `checkpoint`."""
    callback, name, tape = options.callback, getattr(metric.metric, "__name__", "the metric"), None
    if options.checkpoint is not None:
        what = data if metric.items is None else metric.items
        how = (options.n_components, options.loss, options.random_state, n_pairs, kind)
        tape = Tape(f"{fspath(options.checkpoint)}.calls", what, name, metric.params, how)
    report = (
        None if callback is None else lambda done, total: callback(done, total, f"calls of {name}")
    )
    with watched(report, tape):
        yield
    if tape is not None:
        tape.remove()


def _kept(prepared: Dense, options: Options, checkpoint: str | PathLike[str]) -> Fit:
    """Continue an interrupted fit, and keep the coordinates of every step."""
    if isinstance(prepared.gram, DenseGram):
        refuse("matrix", {"checkpoint": checkpoint})
    if options.init is None and isinstance(options.n_components, (*GOALS, tuple, list)):
        refuse("checkpoint", {"n_components": options.n_components})
    # In single precision, since the last digits depend on the number of threads.
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
