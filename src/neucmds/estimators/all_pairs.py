"""`NeucMDS`: an embedding of all pairs, or of those sampled from features and graphs."""

from __future__ import annotations

from os import PathLike
from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from neucmds._backend.arrays import (
    Array,
    is_array,
    is_dask,
    is_numpy,
    to_numpy,
)
from neucmds._input.components import NComponents
from neucmds._input.containers import (
    ordered_by_name,
    pairs_ordered_as,
    refuse_sparse_tensor,
    rows_ordered_as,
)
from neucmds._methods.refined.starts import RefineSettings
from neucmds._operator import Gram
from neucmds._operator.choose import feature_operator, needs_blocks
from neucmds._operator.chunked_rows import ChunkedRows
from neucmds._operator.graph import as_graph, shortest_path_rows
from neucmds._operator.metric_registry import (
    FittedMetric,
    on_rows,
)
from neucmds.api import (
    DEFAULT_METHOD,
    embed_features,
    embed_graph,
    neuc_mds,
    warn_of_surprises,
)
from neucmds.embedding import Embedding
from neucmds.errors import InputError, option
from neucmds.estimators.signed_transformer import SignedTransformer

# Up to here all shortest paths between nodes are computed: 72 MB, some seconds.
MOST_PATHS = 3000


class NeucMDS(SignedTransformer):
    """Multidimensional scaling that keeps negative eigenvalues, as coordinates with a sign.

    Parameters
    ----------
    n_components : int, (int, int), float or "auto", default=2
        Number of coordinates, or a pair (p, q) of positive and negative ones; a share between 0 and
        1: the fewest with that R²; "auto": chosen by the error on held-out objects. See `neuc_mds`.
    method : {"classical", "lower", "neuc", "neuc+", "exact", "refined"}, default="refined"
        The first four are the paper's, "exact" minimises the true STRESS in closed form on kept
        eigenvectors, "refined" sets the coordinates free.
    loss : {"squared", "distance", "relative"}, default="squared"
        What "refined" minimises, and what places new objects; see `neucmds.neuc_mds`. "relative"
        lets near pairs count like far ones: for neighbours and retrieval.
    metric : str or callable, default="precomputed"
        "precomputed": X is the dissimilarity matrix, or a path or store that holds it. Otherwise X
        holds features, and the metric is "angular", "balls", "cosine", "euclidean", "hyperbolic" or
        "rbf" (see `neucmds.operators`), or one that `sklearn.metrics.pairwise_distances`
        knows. A callable takes two rows of NumPy features, as there, but two blocks of rows of any
        other array library. Dissimilarities that do not fit in memory are never stored.
        "shortest_path": X is a sparse array of lengths of edges, and the nodes are embedded. An
        edge counts both ways, also if it is stored once; two lengths for it are refused. Above 3000
        nodes "refined" samples pairs of nodes and needs no n × n array. `transform` then takes
        path lengths (m, n) from new nodes to the fitted ones.
    metric_params : dict, optional
        Further arguments of the metric.
    squared : bool, default=False
        Whether the dissimilarities are squared already (and may then be negative). Lengths of paths
        (``metric="shortest_path"``) never are.
    symmetrize : bool, default=False
        Average D and its transpose instead of refusing an asymmetric D.
    missing : {"error", "ignore"}, default="error"
        "ignore": NaN means that a pair was not observed, and does not count.
    solver : {"auto", "full", "krylov"}, default="auto"
        How the eigenpairs are computed.
    tol : float, default=1e-7
        Relative residual that the kept eigenpairs must reach (iterative solver).
    random_state : int, RandomState or None
        Seed of the iterative solver's start.
    copy : bool, default=True
        False allows a precomputed X to be squared in place.
    max_memory : int or str, optional
        Most memory to use, as bytes or "2GB"; by default what is free.
    max_iter : int, optional
        Most iterations of "refined": 100 for the squared loss, 500 for others.
    stress_tol : float, optional
        "refined" stops when three iterations together gain less than this share of the loss; the
        default depends on the loss.
    climb : bool, optional
        Let "refined" also try signatures with one negative coordinate more or fewer.
    n_init : int, optional
        Starts of the losses other than "squared".
    init : Embedding or (coordinates, signs), optional
        Where "refined" starts: a warm start, which keeps its signature.
    n_pairs : int, optional
        Pairs that each node of a large graph takes part in, 16 for each coordinate by default; with
        features, fit such a sample of all pairs: the nearest, landmarks and rings between them.
        Those of a dask array of features are found on its workers, and fitted on the client in
        about 230 bytes a pair.
    callback : callable, optional
        Called by "refined" with the iteration and the loss after every step.
    checkpoint : path, optional
        For fits of listed or sampled pairs, and of a D that does not fit in memory, as in
        `neuc_mds`; sampled pairs need an integer as `random_state`, so that they are drawn again.
    verbose : int, default=0
        Show the iterations of "refined" on standard error, and print a line on what was found.

    Attributes
    ----------
    embedding_ : array of shape (n, k)
        Coordinates, largest weight first.
    signature_ : array of shape (k,)
        ±1.0: the sign of each coordinate.
    eigenvalues_ : array
        Kept eigenvalues of B.
    weights_ : array of shape (k,)
        Signed squared length of each coordinate.
    stress_ : float
        ‖D̂ − D‖²_F on the squared scale.
    stress_terms_ : tuple of three floats
        C1, C2 and C3.
    result_ : Embedding
    n_iter_ : int
        Number of refinement steps; a closed form is one.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only when X has string column names.

    See Also
    --------
    neucmds.neuc_mds : The same as a function.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from neucmds import NeucMDS
    >>> X = load_digits().data[:100]
    >>> NeucMDS(n_components=5, metric="cityblock").fit_transform(X).shape
    (100, 5)
    """

    def __init__(
        self,
        n_components: NComponents = 2,
        *,
        method: str = DEFAULT_METHOD,
        loss: str = "squared",
        metric: Any = "precomputed",
        metric_params: dict[str, Any] | None = None,
        squared: bool = False,
        symmetrize: bool = False,
        missing: Literal["error", "ignore"] = "error",
        solver: str = "auto",
        tol: float = 1e-7,
        random_state: Any = None,
        copy: bool = True,
        max_memory: int | str | None = None,
        max_iter: int | None = None,
        stress_tol: float | None = None,
        climb: bool | None = None,
        n_init: int | None = None,
        init: Any = None,
        n_pairs: int | None = None,
        callback: Any = None,
        checkpoint: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.method = method
        self.loss = loss
        self.metric = metric
        self.metric_params = metric_params
        self.squared = squared
        self.symmetrize = symmetrize
        self.missing = missing
        self.solver = solver
        self.tol = tol
        self.random_state = random_state
        self.copy = copy
        self.max_memory = max_memory
        self.max_iter = max_iter
        self.stress_tol = stress_tol
        self.climb = climb
        self.n_init = n_init
        self.init = init
        self.n_pairs = n_pairs
        self.callback = callback
        self.checkpoint = checkpoint
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, *, weights: Any = None) -> NeucMDS:
        """Find coordinates and signature.

        Parameters
        ----------
        X : array of shape (n, n) or (n, n_features), or sparse array
            Dissimilarities, or features when `metric` is not "precomputed". Of a sparse array of
            dissimilarities what is stored was observed, as for `neuc_mds`.
        y : ignored
        weights : array or DataFrame of shape (n, n), optional
            How much each pair counts; zero: not at all. "refined" only. Names are matched with
            those of the objects, if X is a DataFrame, too.

        Returns
        -------
        self
        """
        graph = self.metric == "shortest_path"
        sampled = self._fit_matrix if self.n_pairs is None else self._fit_sampled
        with self._listener() as callback:
            fit = self._fit_graph if graph else sampled
            self.result_ = fit(X, weights, callback)
        return self

    def _fit_matrix(self, X: Any, weights: Any, callback: Any) -> Embedding:
        labels = self._labels(X)
        weights = pairs_ordered_as(weights, X, "weights", square=self._precomputed)
        X = self._checked(X)
        return neuc_mds(
            X if self._precomputed else self._between(X),
            self.n_components,
            squared=self.squared,
            symmetrize=self.symmetrize,
            missing=self.missing,
            labels=labels,
            copy=self.copy,
            weights=weights,
            callback=callback,
            **self._settings(),
        )

    def _descent(self, callback: Any) -> RefineSettings:
        return RefineSettings(
            self.max_iter,
            self.stress_tol,
            self.climb,
            callback,
            self.loss,
            self.n_init,
            self.checkpoint,
        )

    def _fit_sampled(self, X: Any, weights: Any, callback: Any) -> Embedding:
        """Fit features from some pairs of them."""
        what = option("n_pairs", self.n_pairs)
        if self._precomputed or self.squared:
            raise InputError(
                f"{what} is for features and graphs, whose pairs can be chosen; pass the pairs of "
                "a D that are known as a scipy.sparse array."
            )
        if self.method != "refined" or weights is not None or self.init is not None:
            raise InputError(f"{what} is for method='refined', without weights and init.")
        features = self._checked(X)
        params = self.metric_params or {}
        self._space: Any
        if is_dask(features):
            # For `transform`; the workers need not keep the rows until then.
            self._space = ChunkedRows.of(features, self.metric, params)
            features, params = self._space.features, self._space.params
        else:
            on_blocks, left = on_rows(self.metric, features, params)
            self._space = FittedMetric.of(on_blocks, features, params=left)
        embedding = embed_features(
            features,
            self.n_components,
            self.metric,
            self._descent(callback),
            self.n_pairs,
            params,
            self.random_state,
            self.max_memory,
        )
        warn_of_surprises(embedding)
        return embedding

    def _fit_graph(self, X: Any, weights: Any, callback: Any) -> Embedding:
        """Fit the nodes of a graph: from all shortest paths of few nodes, from some of many."""
        graph = as_graph(X)
        self.n_features_in_ = int(graph.shape[0])
        self._space = None
        if graph.shape[0] > MOST_PATHS and self.method == "refined":
            self._refuse_for_large_graphs(weights)
            settings = self._descent(callback)
            found = embed_graph(graph, self.n_components, settings, self.n_pairs, self.random_state)
            warn_of_surprises(found)
            return found
        return neuc_mds(
            shortest_path_rows(graph, np.arange(graph.shape[0])),
            self.n_components,
            symmetrize=True,  # the two ways along a path are added up in another order
            copy=False,
            weights=weights,
            callback=callback,
            **self._settings(),
        )

    def _settings(self) -> dict[str, Any]:
        """Parameters that `neuc_mds` takes as they are, whatever X is."""
        names = (
            *("method", "loss", "solver", "tol", "random_state", "max_memory"),
            *("max_iter", "stress_tol", "climb", "n_init", "init", "checkpoint"),
        )
        return {name: getattr(self, name) for name in names}

    def _refuse_for_large_graphs(self, weights: Any) -> None:
        for name, value in (("weights", weights), ("init", self.init)):
            if value is not None:
                raise InputError(
                    f"{option(name)} needs all shortest paths, which are computed for up to "
                    f"{MOST_PATHS} nodes; leave it out."
                )

    def fit_transform(self, X: Any, y: Any = None, *, weights: Any = None) -> Array:
        """Fit, and return the coordinates of the fitted objects.

        Parameters
        ----------
        X : array of shape (n, n) or (n, n_features)
        y : ignored
        weights : array of shape (n, n), optional
            As for `fit`.

        Returns
        -------
        array of shape (n, k)
        """
        return self.fit(X, weights=weights).result_.coordinates

    def transform(self, X: Any, *, weights: Any = None) -> Array:
        """Place new objects.

        Each where its own loss is least, the fitted ones held. An object that was fitted comes back
        to its place in `embedding_` as closely as the fit ended at its own minimum: at the default
        `stress_tol`, which stops once the STRESS hardly falls, to within some hundredths of the
        spread of the objects (a single one up to a quarter); with ``stress_tol=1e-6``, at two to
        four times the iterations, to within 0.01 of it.

        Parameters
        ----------
        X : array of shape (m, n) or (m, n_features)
            Dissimilarities of the new objects to the fitted ones, or their features.
        weights : array or DataFrame of shape (m, n), optional
            How much each dissimilarity counts; see `Embedding.transform`.

        Returns
        -------
        array of shape (m, k)
        """
        check_is_fitted(self)
        return self._transform(X, weights)

    def dissimilarities(self) -> Array:
        """D̂ between the fitted objects, on the squared scale; entries may be negative."""
        check_is_fitted(self)
        return self.result_.dissimilarities()

    @property
    def embedding_(self) -> Array:
        """Coordinates of the fitted objects."""
        return self.result_.coordinates

    @property
    def stress_(self) -> float:
        """‖D̂ − D‖²_F on the squared scale."""
        return self.result_.stress

    @property
    def stress_terms_(self) -> tuple[float, float, float]:
        """C1, C2 and C3."""
        return self.result_.stress_terms

    @property
    def _searched(self) -> Embedding:
        return self.result_

    def _transform(self, X: Any, weights: Any = None) -> Array:
        new = self._checked(X, reset=False)
        given = self._precomputed or self.metric == "shortest_path"
        weights = rows_ordered_as(weights, X, "rows of weights")
        if given and self.result_.labels is None:
            names = getattr(self, "feature_names_in_", None)
            weights = ordered_by_name(weights, names, "columns of weights", rows=False)
        return self.result_.transform(new if given else self._to_fitted(new), weights=weights)

    def _measured(self, X: Any) -> Any:
        """Squared dissimilarities of new objects to the fitted ones, as NumPy float64."""
        new = self._checked(X, reset=False)
        given = self._precomputed or self.metric == "shortest_path"
        measured = to_numpy(new if given else self._to_fitted(new)).astype(np.float64)
        # Not `self.squared`: lengths of paths never are.
        return measured if self.result_.squared else measured * measured

    def _checked(self, X: Any, reset: bool = True) -> Any:
        if is_array(X) and not is_numpy(X):
            # scikit-learn would move it to NumPy; `neucmds._input` checks it where it is.
            refuse_sparse_tensor(X, "X")
            if reset:
                self.n_features_in_ = X.shape[1] if X.ndim == 2 else 1
            return X
        if hasattr(X, "ids") and hasattr(X, "data"):
            X = X.data  # scikit-bio's DistanceMatrix
        if hasattr(X, "tocoo"):
            if not (reset and self._precomputed):
                raise InputError(
                    "X is a sparse array, which is taken as known pairs of a D to be fitted, or as "
                    "a graph with metric='shortest_path'; pass X.toarray()."
                )
            self.n_features_in_ = int(X.shape[-1])
            return X
        if reset and self._precomputed and self._outside(X):
            self._forget_features()
            return X
        return validate_data(
            self,
            X,
            reset=reset,
            dtype=("float64", "float32"),
            ensure_min_samples=2 if reset else 1,
            ensure_all_finite="allow-nan" if self.missing == "ignore" else True,
        )

    def _labels(self, X: Any) -> Any:
        """Names of the objects, where a table or a DistanceMatrix of dissimilarities has them."""
        if not self._precomputed:
            return None
        if hasattr(X, "ids"):
            return X.ids
        named = hasattr(X, "index") and hasattr(X, "columns") and list(X.index) == list(X.columns)
        return list(X.index) if named and all(isinstance(a, str) for a in X.index) else None

    def _forget_features(self) -> None:
        """Drop what an earlier fit said of the columns of X; those of a file are known later."""
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                delattr(self, name)

    def _outside(self, X: Any) -> bool:
        """Tell whether D is a file, or does not fit: then it is checked while it is read."""
        if isinstance(X, (str, PathLike, Gram)):
            return True
        return needs_blocks(X, self.squared, self.max_memory)

    def _between(self, X: Any) -> Any:
        """D between feature rows, stored if it fits."""
        if is_dask(X):
            X = to_numpy(X)  # features are small beside D, which is computed from them in passes
        metric, params = on_rows(self.metric, X, self.metric_params or {})
        if self.symmetrize or self.missing == "ignore":
            # Both orders of every pair are needed, or gaps allowed.
            self._space = FittedMetric.of(metric, X, self.squared, params)
            return self._space.among()
        gram, self._space = feature_operator(
            X,
            self.n_components,
            metric,
            params=params,
            squared=self.squared,
            max_memory=self.max_memory,
        )
        return gram

    def _to_fitted(self, X: Any) -> Any:
        X = to_numpy(X) if is_dask(X) else X
        return self._space.between(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._precomputed and self.method == "refined"
        return tags
