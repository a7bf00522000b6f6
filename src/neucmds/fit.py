"""`neuc_mds`, and which function fits which kind of input."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any, Literal

from neucmds.backend.arrays import namespace
from neucmds.dense_fit import fit, fit_directed, warn_of_surprises
from neucmds.embedding import Embedding
from neucmds.errors import NeucmdsWarning, option
from neucmds.large.landmarks import embed_by_landmarks
from neucmds.large.listed import embed_directed_pairs, embed_pairs
from neucmds.large.sampled import (
    embed_directed_graph,
    embed_directed_landmarks,
    embed_features,
    embed_graph,
)
from neucmds.options import (
    DEFAULT_METHOD,
    PRECOMPUTED,
    SHORTEST_PATH,
    Callback,
    Loss,
    Method,
    Options,
    Ties,
    check_support,
    kind_of,
)
from neucmds.prepared import read_dense, read_directed
from neucmds.problem.calls import watched
from neucmds.problem.components import N_COMPONENTS, NComponents
from neucmds.problem.containers import as_objects, named_features
from neucmds.problem.graph import named_graph
from neucmds.problem.metrics import Metric, refuse_params
from neucmds.problem.names import row_names
from neucmds.problem.pairs import as_directed_pairs, as_pairs
from neucmds.problem.validation import as_labels
from neucmds.refine.descent import FEW_OBJECTS
from neucmds.spectrum.operators.choose import lazy_if_large

__all__ = ["neuc_mds"]


def neuc_mds(
    data: Any,
    n_components: NComponents = N_COMPONENTS,
    method: Method = DEFAULT_METHOD,
    *,
    loss: Loss = "squared",
    ties: Ties = "primary",
    floor: float | None = None,
    curvature: float | Literal["auto"] = 0.0,
    heights: bool | Literal["auto"] = False,
    metric: Any = PRECOMPUTED,
    metric_params: dict[str, Any] | None = None,
    landmarks: Any = None,
    n_pairs: int | None = None,
    squared: bool = False,
    symmetrize: bool = False,
    directed: bool = False,
    weights: Any = None,
    missing: Literal["error", "ignore"] = "error",
    random_state: Any = 0,
    tol: float | None = None,
    max_iter: int | None = None,
    n_init: int | None = None,
    init: Any = None,
    callback: Callback | None = None,
) -> Embedding:
    """Embed dissimilarities as real coordinates with a sign per coordinate.

    Parameters
    ----------
    data : array, DataFrame, DistanceMatrix, condensed vector, list, path or sparse array
        Symmetric dissimilarities d with a zero diagonal; they need not be Euclidean or metric. A
        DataFrame, also of features, or a DistanceMatrix names the objects. An npy file, memory map,
        zarr array or HDF5 dataset that does not fit in memory is read by dask (the extra
        ``neucmds[dask]``). The chunks of a dask array stay on its workers. A `scipy.sparse` array
        stores the observed pairs, zeros included; "refined" then needs memory and time for these
        pairs only. With a `metric`: features, a graph, or a list of objects such as strings, which
        are their own names if all differ.
    n_components : int, (int, int), float or "auto", default=2
        Number of coordinates, or a pair (p, q): at most p positive and q negative ones, fewer where
        more do not lower the STRESS. For "refined", n ≤ 2000 and (p + 1)(q + 1) ≤ 25 the result is
        never worse than any smaller signature. A share between 0 and 1: the fewest coordinates
        whose R² (`Embedding.r2`) reaches it, found by doubling and bisection. "auto":
        the fewest coordinates, at most 100, whose error on pairs of held-out objects, placed by
        "neuc+", is within one standard error of the least. `Embedding.requested` is the chosen
        number.
    method : {"classical", "lower", "neuc", "neuc+", "exact", "refined"}, default="refined"
        The first four are the paper's. "exact" minimises the true STRESS in closed form on kept
        eigenvectors, "refined" minimises it over all coordinates.
    loss : {"squared", "distance", "relative", "absolute", "ordinal"}, default="squared"
        Loss of "refined". "squared": Σ(D̂ − D)² with D = d², the paper's STRESS (S-STRESS),
        dominated by far pairs. "distance": Σ(d̂ − d)², with d̂ = √max(D̂, 0), as SMACOF. "relative":
        Σ(d̂/d − 1)², with near pairs as important as far ones. "absolute": Σ|d̂/d − 1|, the mean
        relative error, which lets some pairs go to fit the others better. These
        three need d ≥ 0, and d in memory or a sample of pairs. "ordinal": Kruskal's stress-1 of
        non-metric MDS, √(Σ(d̂ − δ)² / Σd̂²) with numbers δ that rise with d; it needs d ≥ 0 as these
        and has positive coordinates alone, whose mean squared distance is that of d. New objects
        are placed by the same loss.
    ties : {"primary", "secondary"}, default="primary"
        Of "ordinal": whether pairs of equal d may have different δ ("primary"), or have one.
    floor : float, optional
        "relative" and "absolute" divide by the floor instead of d where d is smaller; in units of
        d. By default (`Embedding.floor`) the smaller of half the 1 % quantile of the positive d and
        the median nearest-neighbour distance.
    curvature : float or "auto", default=0
        For losses but "squared" and "ordinal": D̂ approximates g(d) instead of d²; the loss still
        measures errors of d. Dimensionless: κ·(mean d)². With κ in units of 1/d²
        (`Embedding.kappa`), κ < 0 is hyperbolic, g(d) = 2(cosh cd − 1)/c² with c² = −κ, for trees
        and networks; κ > 0 is spherical, g(d) = 2(1 − cos cd)/c² with c² = κ. "auto": the κ with
        the least error, found by short descents on up to 500 objects; 0 unless another gains more
        than 2 %. With n ≤ 500 a call takes two to four times as long as with 0; above, longer by
        about three fits of 500.
        `Embedding.distance` inverts g.
    heights : bool or "auto", default=False
        For losses but "squared" and "ordinal": a number per object, h, is added to all its D̂, for
        leaves of trees, hosts behind a slow line, and nodes of low degree beside hubs. It is the
        last of the k coordinates, of sign 0 (`Embedding.heights`); beside a signature (p, q) it is
        one more. "auto": kept if it lowers the loss of held-out pairs of up to 500 objects, and
        their mean relative error where the loss is of that kind, by more than 2 % each, with
        the same k. Two objects at distance 0 of each other get heights near 0, at the cost of their
        other distances: keep one of them, or give the pair weight 0.
    metric : str or callable, default="precomputed"
        "precomputed": `data` holds dissimilarities. "shortest_path": `data` is a graph: a sparse
        array of edge lengths, a networkx graph, or a DataFrame of edges with two nodes and a length
        each. Edges are undirected, even if stored once. If the two directions have different
        lengths, set ``metric_params["direction"]``. Above 10,000 nodes, or where the paths do not
        fit in memory, "refined" samples pairs of nodes and needs no n × n array. For any other
        metric `data` holds features, and the metric is "angular", "balls", "cosine", "euclidean",
        "hyperbolic" or "rbf", "vegan_canberra" or "vegan_jaccard" (of abundances), or one of
        `sklearn.metrics.pairwise_distances`; "bray" is "braycurtis". A callable gets two objects
        of a list or two rows of NumPy features, once per pair, in the processes of
        `joblib.parallel_config`. If the features are an array of another library, it gets two
        blocks of rows and must return the matrix of dissimilarities between them.
        Dissimilarities that do not fit in memory are never stored.
    metric_params : dict, optional
        Further arguments of the metric. For "shortest_path": "weight", the attribute or column of
        lengths ("weight" by default, else "length", else 1 each), and "direction", for paths along
        directed edges: "mean", "min" or "max" of the lengths there and back, "out", the length
        from the landmark (or the first node of a pair) to the other node, or "both", which is
        ``directed=True``. Then a column "oneway" of a table of edges tells which lead one way
        (yes, no, -1 for backwards); it is never a length. "part": "largest" keeps the largest
        connected part of a graph, along directed edges the largest strongly connected one, with a
        warning that counts the nodes left out.
    landmarks : int, float, {"random", "maxmin"} or sequence of int, optional
        Embed some objects and place all others by their dissimilarities to these: for n too large
        to use all pairs. int: their number; float: their share of all objects; "random" or
        "maxmin": 1000 landmarks chosen that way; sequence: their row numbers, and then `data` may
        hold only the (n, L) dissimilarities to them. With `directed`, nodes of a graph alone, by
        the paths to landmarks and from them. See `LandmarkNeucMDS`, which also streams, and
        `Embedding.landmarks`.
    n_pairs : int, optional
        For features or a graph: fit a sample of this many pairs per object: random partners, and
        the nearest objects unless `loss` is "squared". STRESS, R² and loss are then estimated from
        held-out pairs, with standard errors (`Embedding.info`); a warning is issued if
        their loss is twice that of the fitted ones. "refined" always samples large graphs, by
        default 32 pairs per object and coordinate for the squared loss, 16 for the others, at least
        100 per object. A function metric is called for n·n_pairs/2 pairs, including those with the
        landmarks that the fit starts from, plus 8 % held-out pairs that measure the fit. Dask
        features are gathered on the client, where pairs take about 230 bytes each.
    squared : bool, default=False
        False: `data` holds plain dissimilarities d, as in scikit-learn, scikit-bio and R.
        True: `data` holds their squares, the paper's D, which may be negative.
    symmetrize : bool, default=False
        Average d and its transpose instead of refusing an asymmetric d; a function as `metric` is
        then called for both orders of every pair.
    directed : bool, default=False
        Keep both directions of an asymmetric d: each object has two points in one space, one to
        depart from (`Embedding.coordinates`) and one to arrive at (`Embedding.arrivals`), and D̂
        from i to j is between the departure of i and the arrival of j. d may then be a rectangle
        (m, n) from the objects of its rows to others, those of its columns. "refined" only; a
        function as `metric` is called for both orders of every pair, and a graph has one-way edges.
    weights : array of shape (n, n), optional
        Weight of each pair in the loss. "refined" only.
    missing : {"error", "ignore"}, default="error"
        "ignore": NaN in d is an unobserved pair, which is ignored; `transform` of the result then
        accepts NaN, too. "refined" only. Entries that a sparse d does not store are always missing.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the iterative solver, of further starts, of landmarks and of sampled pairs. With a
        number a second call returns the same result, to the last bit; None is 0, too.
    tol : float, optional
        For closed forms the largest ‖Bu − λu‖ of the returned eigenpairs, relative to the largest
        kept |λ| (iterative solver): 1e-7 by default; with tol ≥ 1e-6, steps in float64 after those
        in single precision are left out, which takes up to a third less time. "refined" stops when
        three iterations together reduce the loss by less than this fraction, and the predicted
        reduction of the next step is also below it: by default 1e-6 up to 600 objects, then 1e-4
        ("distance", "absolute"), 3e-4 (`directed`) or 2e-3. "ordinal" stops
        when an iteration reduces the square of stress-1 by less than this: 1e-9 by default.
    max_iter : int, optional
        Most iterations of the last descent of "refined", 500 by default. Those before it, from
        several starts or on a smoother loss, have at most 40 each; a squared fit from which another
        loss starts has at most 200.
    n_init : int, optional
        Number of starts of losses but "squared"; the best result is returned.
        Default, for k ≤ 10: 32 starts for n ≤ 100, 12 for n ≤ 600, and a quarter as many for each
        other signature that is tried. Otherwise one start, and for n > 600 its signature is first
        chosen on 300 to 500 objects, among which all others may start; ``n_init=1`` skips the
        choice of a signature. Of "ordinal": the most starts, by default 32 for n ≤ 600 and 4 for
        more; they end once the best was found three times (`Embedding.info`), and a warning is
        issued if it was found once.
    init : Embedding or (coordinates, signs), optional
        A warm start of "refined". It sets the signature and the number of coordinates;
        `n_components` is then not read.
    callback : callable, optional
        ``callback(step, total, what)`` gets, after an iteration of "refined", its number,
        the most of this descent and the loss as a float; while a d outside memory is read, the
        rows read, n and the name of the pass; before other long steps, 0, None and a short text.

    Returns
    -------
    Embedding

    Examples
    --------
    >>> import numpy as np
    >>> from neucmds import neuc_mds
    >>> d = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 4.0], [1.0, 4.0, 0.0]])  # not a metric
    >>> neuc_mds(d, n_components=2).signature
    (1, 1)
    """
    parameters = dict(locals())
    del parameters["data"]
    options = Options(**parameters)
    embedding = embed(data, options)
    warn_of_surprises(embedding)
    return embedding


def embed(data: Any, options: Options, labels: Any = None) -> Embedding:
    """Embed any input of `neuc_mds`; `labels` names the objects of input without names."""
    data, metric, labels = as_rows(data, options, labels)
    options = replace(options, metric=metric, metric_params=None)
    if getattr(data, "direction", None) == "both":
        options = replace(options, directed=True)
    kind = kind_of(data, options)
    check_support(options, kind)
    with watched(options.callback):
        if options.directed:
            return _embed_directed(data, options, kind, labels)
        if kind == "landmarks":
            return embed_by_landmarks(data, options, labels)
        if kind in ("large graph", "sampled", "pairs"):
            embedding = _embed_pairs(data, options, kind)
            names = as_labels(labels, embedding.n) or embedding.labels
            return replace(embedding, labels=names)
        return fit(read_dense(data, options, labels), options)


def _embed_directed(
    data: Any, options: Options, kind: str, labels: Any
) -> Embedding:
    """Embed dissimilarities from rows to columns; of a symmetric D arrivals are at departures."""
    if kind in ("large graph", "landmarks"):
        if kind == "landmarks":
            embedding = embed_directed_landmarks(data, options)
        else:
            embedding = embed_directed_graph(data, options)
        return replace(embedding, labels=as_labels(labels, embedding.n))
    if kind == "pairs" and sum(data.shape) > FEW_OBJECTS:
        pairs = as_directed_pairs(
            data, squared=options.squared, missing=options.missing
        )
        return embed_directed_pairs(pairs, options)
    problem = read_directed(data, options, labels)
    if not problem.is_symmetric:
        return fit_directed(problem, options)
    warnings.warn(
        "D is symmetric, so arrivals are where departures are; leave "
        f"{option('directed', True)} out.",
        NeucmdsWarning,
        stacklevel=4,
    )
    symmetric = replace(
        options, directed=False, metric=PRECOMPUTED, squared=True
    )
    values = namespace(problem.weights).where(
        problem.weights > 0, problem.sq_dissimilarity, math.nan
    )
    # From an object to itself there is no weight, and D is zero.
    values[range(problem.n), range(problem.n)] = 0.0
    embedding = embed(values, symmetric, problem.labels)
    return replace(
        embedding, arrivals=embedding.coordinates, squared=problem.squared
    )


def _embed_pairs(data: Any, options: Options, kind: str) -> Embedding:
    """Embed listed pairs, or a sample of all."""
    if options.loss == "ordinal" and isinstance(options.n_components, int):
        options = replace(options, n_components=(options.n_components, 0))
    if kind == "large graph":
        return embed_graph(data, options)
    if kind == "sampled":
        return embed_features(data, options)
    pairs = as_pairs(
        data,
        squared=options.squared,
        symmetrize=options.symmetrize,
        missing=options.missing,
    )
    return embed_pairs(pairs, options)


def as_rows(data: Any, options: Options, labels: Any) -> tuple[Any, Any, Any]:
    """Return the data as rows of numbers, a graph or D, the metric, and names of the objects.

    The metric is one of features with its arguments bound, or the name of D or of a graph.
    """
    metric = options.metric
    if metric == SHORTEST_PATH:
        graph, labels = named_graph(
            data, labels, options.metric_params, options.directed
        )
        return graph, metric, labels
    if metric == PRECOMPUTED:
        if options.metric_params:
            refuse_params(metric)
        return lazy_if_large(data), metric, labels
    bound = Metric.of(
        metric, options.metric_params, symmetrize=options.symmetrize
    )
    items = None
    if callable(bound.metric) and bound.items is None:
        items = as_objects(data)
    if items is None:
        data, labels = named_features(data, labels)
        return data, bound, labels
    if labels is None:
        labels = row_names(data)
    return *bound.numbered(items), labels
