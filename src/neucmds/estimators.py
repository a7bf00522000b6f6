"""scikit-learn's face of the pipeline: it translates, it does no maths."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from os import PathLike
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from neucmds._backend.arrays import (
    Array,
    asarray_like,
    empty_like,
    free_memory,
    is_array,
    is_dask,
    is_numpy,
    namespace,
    on_cpu,
    row_blocks,
    to_numpy,
)
from neucmds._backend.files import npy_output
from neucmds._backend.progress import progress_bar, progress_steps
from neucmds._backend.threads import fill_rows, thread_count
from neucmds._input import as_dissimilarity, read_square
from neucmds._input.components import NComponents
from neucmds._input.readers.new_objects import read_new_objects
from neucmds._input.validation import working_dtype
from neucmds._methods.refined.loss_starts import Place, as_start
from neucmds._methods.refined.starts import RefineSettings
from neucmds._operator import Gram
from neucmds._operator.choose import feature_operator, needs_blocks
from neucmds._operator.graph import as_graph, landmark_paths, shortest_path_rows
from neucmds._operator.metric_registry import (
    FittedMetric,
    fitted_params,
    known_everywhere,
    on_rows,
)
from neucmds._operator.neighbor_graph import neighbor_graph
from neucmds._placement import landmark_selection
from neucmds._placement.triangulation import PLACEMENTS, Recipe
from neucmds.api import (
    DEFAULT_METHOD,
    embed_features,
    embed_graph,
    embed_landmarks,
    neuc_mds,
    warn_of_surprises,
)
from neucmds.embedding import Embedding
from neucmds.errors import InputError, NeucmdsWarning, option

__all__ = ["KNeighborsGraph", "LandmarkNeucMDS", "NeucIsomap", "NeucMDS"]

# Up to here all shortest paths between nodes are computed: 72 MB, some seconds.
MOST_PATHS = 3000
# Objects that "maxmin" looks at, a landmark: each costs as many dissimilarities as placing it does.
SPREAD_SAMPLE = 10
# Path lengths held at once while new objects are placed: 256 MB.
PATHS_AT_ONCE = 2**25


class _SignedTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A transformer to coordinates with a signature, from features or dissimilarities."""

    metric: Any
    squared: bool
    callback: Callable[[int, float], Any] | None
    verbose: int
    result_: Embedding
    n_features_in_: int

    @property
    @abstractmethod
    def _searched(self) -> Embedding:
        """The embedding that `kneighbors` searches."""

    @abstractmethod
    def _transform(self, X: Any) -> Array:
        """Place new objects, whatever container `transform` has been told to return."""

    @abstractmethod
    def _measured(self, X: Any) -> Any:
        """Squared dissimilarities of new objects to those of `result_`, as NumPy float64."""

    @property
    def signature_(self) -> Array:
        """The sign of each coordinate."""
        return self.result_.signs

    @property
    def eigenvalues_(self) -> Array:
        """Kept eigenvalues of B."""
        return self.result_.eigenvalues

    @property
    def weights_(self) -> Array:
        """Signed squared length of each coordinate."""
        return self.result_.weights

    @property
    def n_iter_(self) -> int:
        """Number of refinement steps; a closed form is one."""
        return max(1, len(self.result_.history) - 1)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the coordinates; those of negative ones end in ``_neg``.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        prefix = type(self).__name__.lower()
        signs = to_numpy(self.result_.signs)
        names = [f"{prefix}{a}" + ("_neg" if sign < 0 else "") for a, sign in enumerate(signs)]
        return np.asarray(names, dtype=object)

    def kneighbors(self, X: Any = None, n_neighbors: int = 5, return_distance: bool = True) -> Any:
        """Find the nearest objects by D̂, exactly.

        Parameters
        ----------
        X : array, optional
            Objects to search for, as for `transform`. None: those of `embedding_`, each without
            itself.
        n_neighbors : int, default=5
        return_distance : bool, default=True

        Returns
        -------
        distances : array of shape (m, n_neighbors)
            √max(D̂, 0), only if `return_distance`.
        indices : array of shape (m, n_neighbors)
        """
        check_is_fitted(self)
        points = self._searched
        indices, sq = points.neighbors(n_neighbors, None if X is None else self._transform(X))
        if not return_distance:
            return indices
        xp = namespace(sq)
        return xp.sqrt(xp.clip(sq, min=0.0)), indices

    def kneighbors_graph(
        self,
        X: Any = None,
        n_neighbors: int = 5,
        mode: Literal["connectivity", "distance"] = "connectivity",
    ) -> Any:
        """Nearest objects by D̂ as a sparse graph, for what takes precomputed neighbours.

        Parameters
        ----------
        X : array, optional
            As for `kneighbors`.
        n_neighbors : int, default=5
        mode : {"connectivity", "distance"}, default="connectivity"
            Entries are 1, or √max(D̂, 0): then `DBSCAN`, `TSNE`, `KNeighborsClassifier` and others
            with ``metric="precomputed"`` take the graph.

        Returns
        -------
        scipy.sparse.csr_matrix of shape (m, n)
        """
        if mode not in ("connectivity", "distance"):
            raise InputError(
                f"{option('mode', mode)} is unknown; choose 'connectivity' or 'distance'."
            )
        distances, indices = (to_numpy(part) for part in self.kneighbors(X, n_neighbors))
        m, k = indices.shape
        values = distances.ravel() if mode == "distance" else np.ones(m * k)
        starts = np.arange(0, m * k + 1, k)
        # A matrix, not an array: what scikit-learn's estimators take in every release.
        return csr_matrix((values, indices.ravel(), starts), shape=(m, self._searched.n))

    def score(self, X: Any, y: Any = None) -> float:
        """R² of the dissimilarities between new and fitted objects: higher is better.

        ``1 − Σ(D̂ − D)² / Σ(D − mean D)²`` over all pairs of a new and a fitted object, on the
        squared scale, with the new objects where `transform` places them.

        Parameters
        ----------
        X : array of shape (m, n) or (m, n_features)
            New objects, as for `transform`.
        y : ignored

        Returns
        -------
        float
        """
        check_is_fitted(self)
        placed, sq_dissimilarity = self._transform(X), self._measured(X)
        d_hat = to_numpy(self.result_.between(placed, self.result_.coordinates))
        known = ~np.isnan(sq_dissimilarity)
        d, fitted = sq_dissimilarity[known], d_hat[known]
        spread = float(np.sum((d - d.mean()) ** 2))
        return 1.0 - float(np.sum((fitted - d) ** 2)) / spread if spread > 0 else 0.0

    @contextmanager
    def _listener(self) -> Iterator[Callable[[int, float], None] | None]:
        """Yield what hears of each step: the user's callback, and a bar with `verbose`."""
        if not self.verbose:
            yield self.callback
            return
        with progress_steps("refined") as show:

            def hear(step: int, value: float) -> None:
                show(step, value)
                if self.callback is not None:
                    self.callback(step, value)

            yield hear
        print(summary(self.result_))

    @property
    def _n_features_out(self) -> int:
        return self.result_.k

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.metric, str) and self.metric == "precomputed"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        tags.input_tags.positive_only = self._precomputed and not self.squared
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class NeucMDS(_SignedTransformer):
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
        "shortest_path": X is a sparse array of lengths of edges, and the nodes are embedded; above
        3000 nodes "refined" samples pairs of nodes and needs no n × n array. `transform` then takes
        path lengths (m, n) from new nodes to the fitted ones.
    metric_params : dict, optional
        Further arguments of the metric.
    squared : bool, default=False
        Whether the dissimilarities are squared already (and may then be negative).
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
    callback : callable, optional
        Called by "refined" with the iteration and the loss after every step.
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
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, *, weights: Any = None) -> NeucMDS:
        """Find coordinates and signature.

        Parameters
        ----------
        X : array of shape (n, n) or (n, n_features)
            Dissimilarities, or features when `metric` is not "precomputed".
        y : ignored
        weights : array of shape (n, n), optional
            How much each pair counts; zero: not at all. "refined" only.

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
            self.max_iter, self.stress_tol, self.climb, callback, self.loss, self.n_init
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
        features = to_numpy(features) if is_dask(features) else features
        self._space: Any = FittedMetric.of(self.metric, features, params=self.metric_params)
        embedding = embed_features(
            features,
            self.n_components,
            self.metric,
            self._descent(callback),
            self.n_pairs,
            self.metric_params,
            self.random_state,
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
            *("max_iter", "stress_tol", "climb", "n_init", "init"),
        )
        return {name: getattr(self, name) for name in names}

    def _refuse_for_large_graphs(self, weights: Any) -> None:
        for name, value in (("weights", weights), ("init", self.init)):
            if value is not None:
                raise InputError(
                    f"{option(name)} needs all shortest paths, which are computed for up to "
                    f"{MOST_PATHS} nodes; leave it out."
                )

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Fit, and return the coordinates of the fitted objects.

        Parameters
        ----------
        X : array of shape (n, n) or (n, n_features)
        y : ignored

        Returns
        -------
        array of shape (n, k)
        """
        return self.fit(X).result_.coordinates

    def transform(self, X: Any) -> Array:
        """Place new objects.

        Parameters
        ----------
        X : array of shape (m, n) or (m, n_features)
            Dissimilarities of the new objects to the fitted ones, or their features.

        Returns
        -------
        array of shape (m, k)
        """
        check_is_fitted(self)
        return self._transform(X)

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

    def _transform(self, X: Any) -> Array:
        new = self._checked(X, reset=False)
        given = self._precomputed or self.metric == "shortest_path"
        return self.result_.transform(new if given else self._to_fitted(new))

    def _measured(self, X: Any) -> Any:
        """Squared dissimilarities of new objects to the fitted ones, as NumPy float64."""
        new = self._checked(X, reset=False)
        given = self._precomputed or self.metric == "shortest_path"
        measured = to_numpy(new if given else self._to_fitted(new)).astype(np.float64)
        return measured if self.squared else measured * measured

    def _checked(self, X: Any, reset: bool = True) -> Any:
        if is_array(X) and not is_numpy(X):
            # scikit-learn would move it to NumPy; `neucmds._input` checks it where it is.
            if reset:
                self.n_features_in_ = X.shape[1] if X.ndim == 2 else 1
            return X
        if hasattr(X, "ids") and hasattr(X, "data"):
            X = X.data  # scikit-bio's DistanceMatrix
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


class LandmarkNeucMDS(_SignedTransformer):
    """Embed landmarks, then place every object from its dissimilarities to them.

    `fit` embeds the landmarks and learns, from landmarks held out, how to place others; `transform`
    places objects, fitted ones and later arrivals alike, in chunks and in threads. The n×n matrix
    never exists. Paper: Landmark MDS paragraph of sec:experiments.

    Parameters
    ----------
    n_components : int, (int, int), float or "auto", default=2
        Number of coordinates, or a pair (p, q) of positive and negative ones; a share between 0 and
        1, or "auto", as in `neuc_mds`, chosen on the landmarks.
    n_landmarks : int, float or None, default=None
        Number of landmarks, or their share of all objects. None: 1000, or 4k if that is more.
    landmarks : {"random", "maxmin"} or sequence of int, default="random"
        Drawn; spread out, each the farthest from those before it, among 10 objects drawn for each
        landmark, or all of a D in memory; or named by their rows.
    method : {"classical", "lower", "neuc", "neuc+", "exact", "refined"}, default="refined"
        How the landmarks are embedded.
    placement : {"auto", "least_squares", "linear"}, default="auto"
        "auto": least squares with a ridge and offsets chosen on landmarks held out; with "neuc" the
        signature is chosen so too. "least_squares": without these. "linear": plain triangulation,
        which divides by small eigenvalues.
    loss : {"squared", "distance", "relative"}, default="squared"
        What "refined" minimises, and what places new objects; see `neucmds.neuc_mds`. "relative"
        lets near pairs count like far ones: for neighbours and retrieval.
    metric : str or callable, default="precomputed"
        "precomputed": X holds dissimilarities, all of them (n, n) or those to the landmarks (n, L);
        for the latter, `landmarks` must name the rows. "shortest_path": X is a graph, a
        `scipy.sparse` array of lengths of edges, and `transform` takes it or numbers of its nodes.
        Otherwise X holds features, and the metric is one of those of `NeucMDS`, or a function of
        two rows.
    metric_params : dict, optional
        Further arguments of the metric.
    squared : bool, default=False
        Whether the dissimilarities are squared already (and may then be negative).
    symmetrize : bool, default=False
        Average the dissimilarities among landmarks and their transpose if they differ.
    solver : {"auto", "full", "krylov"}, default="auto"
        How the landmarks' eigenpairs are computed.
    tol : float, default=1e-7
        Relative residual that the kept eigenpairs must reach (iterative solver).
    random_state : int, RandomState or None
        Draws landmarks and folds.
    n_jobs : int or None, default=None
        Threads that place objects; None and -1 are all cores.
    init : Embedding or (coordinates, signs), optional
        Where "refined" starts: a warm start, which keeps its signature. Of the landmarks, or of all
        objects, from which the landmarks are taken.
    callback : callable, optional
        Called by "refined" with the iteration and the loss after every step of the landmarks' fit.
    verbose : int, default=0
        Show the iterations of "refined", how far `transform` has come and how long it will still
        take, on standard error, and print a line on what was found.

    Attributes
    ----------
    landmarks_ : ndarray of shape (L,)
        Rows of the landmarks.
    result_ : Embedding
        Of the landmarks; its `transform` places objects by their (m, L) dissimilarities to them.
    recipe_ : Recipe or None
        What was chosen on landmarks held out.
    signature_ : ndarray of shape (k,)
        ±1.0: the sign of each coordinate.
    eigenvalues_, weights_ : ndarray
        Of the landmarks.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only when X has string column names.

    See Also
    --------
    NeucMDS : All of D at once.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from neucmds import LandmarkNeucMDS
    >>> X = load_digits().data
    >>> est = LandmarkNeucMDS(n_components=5, n_landmarks=200, metric="cityblock", random_state=0)
    >>> est.fit_transform(X).shape
    (1797, 5)
    """

    def __init__(
        self,
        n_components: NComponents = 2,
        n_landmarks: int | float | None = None,
        *,
        landmarks: Any = "random",
        method: str = DEFAULT_METHOD,
        placement: str = "auto",
        loss: str = "squared",
        metric: Any = "precomputed",
        metric_params: dict[str, Any] | None = None,
        squared: bool = False,
        symmetrize: bool = False,
        solver: str = "auto",
        tol: float = 1e-7,
        random_state: Any = None,
        n_jobs: int | None = None,
        init: Any = None,
        callback: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_landmarks = n_landmarks
        self.landmarks = landmarks
        self.method = method
        self.placement = placement
        self.loss = loss
        self.metric = metric
        self.metric_params = metric_params
        self.squared = squared
        self.symmetrize = symmetrize
        self.solver = solver
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.init = init
        self.callback = callback
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, *, weights: Any = None) -> LandmarkNeucMDS:
        """Choose and embed the landmarks, and learn how to place objects among them.

        Parameters
        ----------
        X : array of shape (n, n_features), (n, n) or (n, L), NumPy or dask, or path
            Features; or dissimilarities, all or those to the landmarks; or the file of all.
        y : ignored
        weights : array of shape (L, L) or (n, n), optional
            How much each pair of landmarks counts, in the order of their rows; or each pair of
            objects, from which theirs are taken. "refined" only. Nothing is then chosen on
            landmarks held out, and others are placed by least squares.

        Returns
        -------
        self
        """
        if self.placement not in PLACEMENTS:
            raise InputError(
                f"{option('placement', self.placement)} is unknown; choose one of "
                f"{', '.join(PLACEMENTS)}."
            )
        rng = check_random_state(self.random_state)
        of_graph = self.metric == "shortest_path"
        if of_graph:
            X = self._search_paths(X, rng)
        else:
            X = self._checked(X)
            self.landmarks_ = self._choose(X, rng)
        self._fitted_on_all = self._precomputed and X.shape[0] == X.shape[1]
        given = self._precomputed or of_graph
        self._space = None if given else self._metric_on(X, self.landmarks_)
        if self._space is not None:
            among = self._finite(self._space.among(), self.landmarks_)
        else:
            columns = self.landmarks_ if self._fitted_on_all else slice(None)
            among = self._finite(_taken(X, self.landmarks_, columns), self.landmarks_)
        # The landmarks are few: double precision costs nothing and saves digits, and the CPU
        # embeds them as fast as any device.
        known = as_dissimilarity(
            to_numpy(among).astype(np.float64),
            squared=self.squared,
            # The two ways along a path are added up in another order.
            symmetrize=self.symmetrize or of_graph,
        )
        self._placed: Embedding | None = None
        self.recipe_: Recipe | None
        n = int(X.shape[0])
        with self._listener() as callback:
            self.result_, self.recipe_ = embed_landmarks(
                known.values,
                self.n_components,
                self.method,
                self.placement,
                rng=rng,
                weights=self._weights_among(weights, n),
                start=self._start_among(n),
                squared=self.squared,
                solver=self.solver,
                tol=self.tol,
                random_state=rng,
                settings=RefineSettings(loss=self.loss, callback=callback),
            )
        return self

    def _weights_among(self, weights: Any, n: int) -> Any:
        """Weights of the pairs of landmarks, from theirs or from those of all pairs."""
        if weights is None:
            return None
        count, given = self._n_landmarks, np.asarray(to_numpy(weights), dtype=np.float64)
        if given.shape == (count, count):
            return given
        if given.shape == (n, n):
            return given[np.ix_(self.landmarks_, self.landmarks_)]
        raise InputError(
            f"{option('weights')} has shape {given.shape}; pass ({count}, {count}), one for each "
            f"pair of landmarks, or ({n}, {n}), one for each pair of objects."
        )

    def _start_among(self, n: int) -> Place | None:
        """Where the landmarks start, from their coordinates or from those of all objects."""
        start = as_start(self.init)
        if start is None or int(start.coordinates.shape[0]) != n:
            return start
        return Place(to_numpy(start.coordinates)[self.landmarks_], start.signs)

    def fit_transform(self, X: Any, y: Any = None, out: str | PathLike[str] | None = None) -> Array:
        """Fit, and place all objects.

        Parameters
        ----------
        X : array
            As for `fit`.
        y : ignored
        out : path, optional
            As for `transform`.

        Returns
        -------
        array of shape (n, k)
        """
        coordinates = self.fit(X)._transform(X, out=out)
        if not is_dask(coordinates):
            self._placed = replace(self.result_, coordinates=coordinates, labels=None)
        return coordinates

    def transform(self, X: Any, out: str | PathLike[str] | None = None) -> Array:
        """Place objects.

        Parameters
        ----------
        X : array of shape (m, n_features), (m, n) or (m, L), NumPy or dask
            Features of the objects, or their dissimilarities to all fitted objects or to the
            landmarks.
        out : path, optional
            Write the coordinates to this ``.npy`` file instead of memory; the memory map of it is
            returned. Not for dask arrays, which have `dask.array.to_npy_stack` and others.

        Returns
        -------
        array of shape (m, k)
            A lazy dask array if X is one; of the library and on the device of X otherwise.
        """
        check_is_fitted(self)
        return self._transform(X, out)

    def _transform(self, X: Any, out: str | PathLike[str] | None = None) -> Array:
        given, X = X, self._checked(X, reset=False)
        if _elsewhere(X):
            return self._placed_where_it_is(X, out)
        width = max(X.shape[1], self._n_landmarks)
        if is_dask(X):
            from neucmds._backend.dask_arrays import map_rows

            if out is not None:
                raise InputError("out= is for arrays in memory; store the dask array that returns.")
            return map_rows(X, self._place, self.result_.k, width)
        progress = progress_bar("placed") if self.verbose else None
        shape = (X.shape[0], self.result_.k)
        n_threads = thread_count(self.n_jobs)
        with npy_output(out, shape, X.dtype) as target:
            fill_rows(
                target, lambda rows: self._place(X[rows], rows.start), width, n_threads, progress
            )
        if out is not None:
            return np.load(out, mmap_mode="r")
        return asarray_like(target, given) if _elsewhere(given) else target

    def _search_paths(self, X: Any, rng: np.random.RandomState) -> Any:
        """Choose landmarks of a graph; keep and return the paths of all nodes to them, (n, L)."""
        if self.squared:
            raise InputError(
                f"lengths of paths are not squared; pass {option('squared', False)} with "
                f"{option('metric', 'shortest_path')}."
            )
        graph = as_graph(X)
        n = self.n_features_in_ = int(graph.shape[0])
        named = not isinstance(self.landmarks, str)
        which = landmark_selection.named(self.landmarks, n, self._k) if named else self.landmarks
        count = 0 if named else landmark_selection.landmark_count(self.n_landmarks, n, self._k)
        self.landmarks_, rows = landmark_paths(
            graph, count, which, rng, dtype=np.float32, n_jobs=self.n_jobs
        )
        self._paths = np.ascontiguousarray(rows.T)
        return self._paths

    def _paths_of(self, X: Any) -> Any:
        """Paths to the landmarks of all nodes of the fitted graph, or of some by their numbers."""
        n = self.n_features_in_
        if hasattr(X, "tocoo"):
            if tuple(X.shape) != (n, n):
                raise InputError(
                    f"the graph has {X.shape[0]} nodes, but {n} were fitted; pass the same graph, "
                    "or numbers of its nodes."
                )
            return self._paths
        nodes = np.asarray(X)
        whole = nodes.ndim == 1 and np.issubdtype(nodes.dtype, np.integer)
        if not whole or nodes.min(initial=0) < 0 or nodes.max(initial=0) >= n:
            raise InputError(f"pass the graph, or numbers of its nodes from 0 to {n - 1}.")
        return self._paths[nodes]

    def _placed_where_it_is(self, X: Array, out: str | PathLike[str] | None) -> Array:
        """Place objects with the library and on the device of X, in blocks that fit there."""
        width = max(int(X.shape[1]), self._n_landmarks)
        shape = (int(X.shape[0]), self.result_.k)
        progress = progress_bar("placed") if self.verbose else None
        free = free_memory(X)
        # Some ten arrays of a block live at a time; beyond 2²⁷ entries nothing runs faster.
        entries = 2**21 if free is None else max(2**21, min(2**27, free // 160))
        on_disk = npy_output(out, shape, str(X.dtype).removeprefix("torch."))
        with on_disk if out is not None else nullcontext(empty_like(X, shape)) as target:
            for rows in row_blocks(shape[0], width, entries):
                placed = self._place(X[rows, :], rows.start)
                target[rows] = placed if out is None else to_numpy(placed)
                if progress is not None:
                    progress(rows.stop, shape[0])
        return target if out is None else np.load(out, mmap_mode="r")

    @property
    def embedding_(self) -> Array:
        """Coordinates of all fitted objects; there only after `fit_transform`."""
        return self._searched.coordinates

    @property
    def _searched(self) -> Embedding:
        if self._placed is None:
            raise AttributeError(
                "only the landmarks have coordinates (result_.coordinates); call fit_transform to "
                "place all objects."
            )
        return self._placed

    def dissimilarities(self) -> Array:
        """D̂ between the objects of `embedding_`, on the squared scale; it may be negative."""
        check_is_fitted(self)
        return self._searched.dissimilarities()

    def save(self, path: str | PathLike[str]) -> None:
        """Write the embedding of the landmarks, which places new objects, to one npz file.

        Parameters
        ----------
        path : str or Path
            `Embedding.load` reads it; its `transform` takes dissimilarities to the landmarks.
        """
        check_is_fitted(self)
        self.result_.save(path)

    def _measured(self, X: Any) -> Any:
        """Squared dissimilarities of new objects to the landmarks, as NumPy float64."""
        new = self._checked(X, reset=False)
        new = to_numpy(new) if is_dask(new) else new
        return to_numpy(self._sq_to_landmarks(new, np.arange(new.shape[0]))).astype(np.float64)

    @property
    def _n_landmarks(self) -> int:
        return int(self.landmarks_.size)

    @property
    def _k(self) -> int:
        parts = np.atleast_1d(np.asarray(self.n_components))
        return int(parts.sum()) if np.issubdtype(parts.dtype, np.integer) else 1

    def _choose(self, X: Any, rng: np.random.RandomState) -> Any:
        n, k = int(X.shape[0]), self._k
        if not isinstance(self.landmarks, str):
            ids = landmark_selection.named(self.landmarks, n, k)
            if self._precomputed and X.shape[1] not in (n, ids.size):
                raise InputError(
                    f"X has {X.shape[1]} columns, but {ids.size} landmarks are named; pass one "
                    f"column a landmark, or all {n}."
                )
            return ids
        if self.landmarks not in ("random", "maxmin"):
            raise InputError(
                f"{option('landmarks', self.landmarks)} must be 'random', 'maxmin' or row numbers."
            )
        if self._precomputed and X.shape[0] != X.shape[1]:
            raise InputError(
                f"X is {X.shape[0]} × {X.shape[1]}, dissimilarities to landmarks only; pass the "
                "landmarks' rows as landmarks=, or metric= if X holds features."
            )
        count = landmark_selection.landmark_count(self.n_landmarks, n, k)
        if self.landmarks == "random":
            return landmark_selection.random_sample(n, count, rng)
        return self._spread(X, count, rng)

    def _spread(self, X: Any, count: int, rng: np.random.RandomState) -> Any:
        n = int(X.shape[0])
        if self._precomputed and not is_dask(X):
            return np.sort(landmark_selection.maxmin(n, count, lambda i: to_numpy(X[:, i]), rng))
        ids = landmark_selection.random_sample(n, min(n, SPREAD_SAMPLE * count), rng)
        if self._precomputed:
            among = _taken(X, ids, ids)
            chosen = landmark_selection.maxmin(ids.size, count, lambda i: among[:, i], rng)
        else:
            space = self._metric_on(X, ids)

            def to_one(i: int) -> Any:
                one = space.points[i : i + 1]
                return to_numpy(space.metric.dissimilarities(space.points, one)[:, 0])

            chosen = landmark_selection.maxmin(ids.size, count, to_one, rng)
        return np.sort(ids[chosen])

    def _metric_on(self, X: Any, ids: Any) -> FittedMetric:
        """Fit the metric to all of X, and keep some rows; in double precision, for they are few."""
        some = _wide(_taken(X, ids))
        metric, params = on_rows(self.metric, some, self.metric_params or {})
        return FittedMetric.of(metric, some, self.squared, fitted_params(metric, X, params))

    def _place(self, X: Any, start: int = 0) -> Any:
        """Coordinates of some rows of X; `start` is the number of the first, for messages."""
        ids = np.arange(start, start + X.shape[0])
        placement = self.result_.placement
        assert placement is not None
        placed = placement.place(self._sq_to_landmarks(X, ids))
        return namespace(X).astype(placed, X.dtype, copy=False)

    def _sq_to_landmarks(self, X: Any, ids: Any) -> Any:
        """Squared dissimilarities (m, L) of rows of X to the landmarks, finite or refused."""
        if self._space is not None:
            return self._finite(self._space.squares(_wide(X)), ids)
        whole = self._fitted_on_all and X.shape[1] == self.n_features_in_
        block = self._finite(_taken(X, slice(None), self.landmarks_) if whole else X, ids)
        if self.squared:
            return block
        lowest = float(namespace(block).min(block)) if block.shape[0] else 0.0
        if lowest < 0:
            raise InputError(
                f"dissimilarities have a negative entry ({lowest:.3g}), but the fit was on "
                f"unsquared ones ({option('squared', False)})."
            )
        return namespace(block).square(block)

    def _finite(self, block: Any, ids: Any) -> Any:
        # One sum finds what is not finite; only then is it worth looking for.
        xp = namespace(block)
        if not math.isfinite(float(xp.sum(block, dtype=xp.float64))):
            self._refuse_not_finite(to_numpy(block), ids)
        return block

    def _refuse_not_finite(self, block: Any, ids: Any) -> None:
        bad = ~np.isfinite(block)
        if not bad.any():
            return
        i, j = (int(at) for at in np.argwhere(bad)[0])
        what = "the dissimilarities" if self._precomputed else option("metric", self.metric)
        verb = "hold" if self._precomputed else "gives"
        count = int(bad.sum())
        which = "1 pair," if count == 1 else f"{count} pairs, the first being"
        raise InputError(
            f"{what} {verb} {block[i, j]} for {which} object {int(ids[i])} and landmark "
            f"{int(self.landmarks_[j])}; drop or repair these objects."
        )

    def _checked(self, X: Any, reset: bool = True) -> Any:
        if self.metric == "shortest_path":
            return self._paths_of(X)
        if isinstance(X, (str, PathLike)):
            X = (
                read_square(X)
                if reset
                else read_new_objects(str(X), int(self.n_features_in_)).values
            )
        if _elsewhere(X):
            if not on_cpu(X) and (self._precomputed or known_everywhere(self.metric)):
                return self._checked_elsewhere(X, reset)
            # In main memory NumPy and SciPy are quicker, and on a GPU they know more metrics.
            X = to_numpy(X)
        if is_dask(X):
            from neucmds._backend.dask_arrays import check_rows

            X = check_rows(X)
            if reset:
                self.n_features_in_ = int(X.shape[1])
            return X
        if not reset and self._precomputed and getattr(X, "shape", ())[1:] == (self._n_landmarks,):
            # Later arrivals need no dissimilarities but those to the landmarks.
            return check_array(X, dtype=("float64", "float32"))
        return validate_data(
            self,
            X,
            reset=reset,
            dtype=("float64", "float32"),
            ensure_min_samples=2 if reset else 1,
        )

    def _checked_elsewhere(self, X: Array, reset: bool) -> Array:
        """Check an array of another library where it is, as scikit-learn does one of NumPy."""
        if len(X.shape) != 2:
            raise InputError(f"X has {len(X.shape)} dimensions; pass a matrix, one row an object.")
        width = int(X.shape[1])
        if reset:
            self.n_features_in_ = width
        if width != self.n_features_in_ and not (self._precomputed and width == self._n_landmarks):
            raise InputError(f"X has {width} columns, but {self.n_features_in_} were fitted.")
        xp = namespace(X)
        X = xp.astype(X, working_dtype(X), copy=False)
        if not math.isfinite(float(xp.sum(X, dtype=xp.float64))) and not bool(
            xp.all(xp.isfinite(X))
        ):
            raise InputError("Input X contains NaN or infinity; drop or repair these rows.")
        return X


class NeucIsomap(_SignedTransformer):
    """Isomap with its last step replaced: geodesics are embedded by coordinates with signs.

    Neighbours are joined to a graph, and its shortest paths stand for distances along the data.
    These are not Euclidean where the data bend or have holes, so that classical MDS, Isomap's last
    step, drops negative eigenvalues; here they are kept. Paper: related work.

    Parameters
    ----------
    n_components : int, (int, int), float or "auto", default=2
        As for `NeucMDS`.
    n_neighbors : int, default=5
        Neighbours that each object is joined to. Parts of the graph that remain are joined at their
        closest pairs, with a warning.
    method, loss, max_iter, max_memory
        As for `NeucMDS`.
    metric : str or callable, default="euclidean"
        Of `sklearn.neighbors.NearestNeighbors`; "precomputed": X holds dissimilarities.
    metric_params : dict, optional
        Further arguments of the metric.
    random_state : int, RandomState or None
    n_jobs : int, optional
        Threads that search for neighbours.

    Attributes
    ----------
    embedding_ : array of shape (n, k)
    signature_ : array of shape (k,)
        ±1.0: the sign of each coordinate.
    eigenvalues_, weights_ : array
    result_ : Embedding
    graph_ : sparse array of shape (n, n)
        Lengths of the edges.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only when X has string column names.

    See Also
    --------
    NeucMDS : With ``metric="shortest_path"``, of a graph that is there already.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from neucmds import NeucIsomap
    >>> X = load_digits().data[:200]
    >>> NeucIsomap(n_components=5, n_neighbors=8).fit_transform(X).shape
    (200, 5)
    """

    squared = False

    def __init__(
        self,
        n_components: NComponents = 2,
        n_neighbors: int = 5,
        *,
        method: str = DEFAULT_METHOD,
        loss: str = "squared",
        metric: Any = "euclidean",
        metric_params: dict[str, Any] | None = None,
        max_iter: int | None = None,
        max_memory: int | str | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.method = method
        self.loss = loss
        self.metric = metric
        self.metric_params = metric_params
        self.max_iter = max_iter
        self.max_memory = max_memory
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> NeucIsomap:
        """Join neighbours to a graph, and embed its shortest paths.

        Parameters
        ----------
        X : array of shape (n, n_features) or (n, n)
            Features, or dissimilarities when `metric` is "precomputed".
        y : ignored

        Returns
        -------
        self
        """
        X = validate_data(self, X, dtype=("float64", "float32"), ensure_min_samples=2)
        if not 1 <= self.n_neighbors < X.shape[0]:
            raise InputError(
                f"{option('n_neighbors', self.n_neighbors)} of {X.shape[0]} objects cannot be had; "
                f"n_samples - 1 = {X.shape[0] - 1} is the most."
            )
        self._neighbors = NearestNeighbors(
            n_neighbors=self.n_neighbors,
            metric=self.metric,
            metric_params=self.metric_params,
            n_jobs=self.n_jobs,
        ).fit(X)
        edges, n_parts = neighbor_graph(self._neighbors, X)
        if n_parts > 1:
            warnings.warn(
                f"the graph of {self.n_neighbors} neighbours fell into {n_parts} parts, which were "
                f"joined at their closest pairs; raise {option('n_neighbors')} if they belong "
                "together.",
                NeucmdsWarning,
                stacklevel=2,
            )
        self.graph_ = as_graph(edges)
        mds = NeucMDS(
            self.n_components,
            method=self.method,
            loss=self.loss,
            metric="shortest_path",
            max_iter=self.max_iter,
            max_memory=self.max_memory,
            random_state=self.random_state,
        )
        self.result_ = mds.fit(self.graph_).result_
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Fit, and return the coordinates of the fitted objects.

        Parameters
        ----------
        X : array of shape (n, n_features) or (n, n)
        y : ignored

        Returns
        -------
        array of shape (n, k)
        """
        return self.fit(X).result_.coordinates

    def transform(self, X: Any) -> Array:
        """Place new objects by the shortest paths over their neighbours to the fitted ones.

        Parameters
        ----------
        X : array of shape (m, n_features) or (m, n)

        Returns
        -------
        array of shape (m, k)
        """
        check_is_fitted(self)
        return self._transform(X)

    def dissimilarities(self) -> Array:
        """D̂ between the fitted objects, on the squared scale; entries may be negative."""
        check_is_fitted(self)
        return self.result_.dissimilarities()

    @property
    def embedding_(self) -> Array:
        """Coordinates of the fitted objects."""
        return self.result_.coordinates

    @property
    def _searched(self) -> Embedding:
        return self.result_

    def _transform(self, X: Any) -> Array:
        return np.concatenate([self.result_.transform(rows) for rows in self._paths(X)])

    def _measured(self, X: Any) -> Any:
        return np.concatenate(list(self._paths(X))) ** 2

    def _paths(self, X: Any) -> Iterator[Any]:
        """Lengths of paths from new objects to all fitted ones, some objects at a time."""
        X = validate_data(self, X, reset=False, dtype=("float64", "float32"))
        gaps, ids = self._neighbors.kneighbors(X)
        step = max(1, PATHS_AT_ONCE // ids.shape[1] // self.graph_.shape[0])
        for start in range(0, len(ids), step):
            some = slice(start, start + step)
            nodes, at = np.unique(ids[some], return_inverse=True)
            paths = shortest_path_rows(self.graph_, nodes, max_memory=self.max_memory)
            at = at.reshape(ids[some].shape)
            yield np.minimum.reduce(
                [gaps[some, a, None] + paths[at[:, a]] for a in range(ids.shape[1])]
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64"]
        return tags


class KNeighborsGraph(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn objects into the graph of their nearest by D̂, as a step of a pipeline.

    The signs are known to the graph, and to nothing that takes coordinates: put this before
    `KNeighborsClassifier`, `DBSCAN` or `TSNE` with ``metric="precomputed"``.

    Parameters
    ----------
    estimator : NeucMDS or LandmarkNeucMDS
    n_neighbors : int, default=5
        As many as the next step needs; `fit_transform` counts an object as its own nearest on top,
        as scikit-learn's `KNeighborsTransformer` does.

    Attributes
    ----------
    estimator_ : NeucMDS or LandmarkNeucMDS
        A fitted clone.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from neucmds import NeucMDS
    >>> from neucmds.estimators import KNeighborsGraph
    >>> X, y = load_digits(return_X_y=True)
    >>> mds = NeucMDS(n_components=20, metric="cityblock")
    >>> knn = KNeighborsClassifier(n_neighbors=5, metric="precomputed")
    >>> model = make_pipeline(KNeighborsGraph(mds, n_neighbors=5), knn).fit(X[:300], y[:300])
    >>> bool(model.score(X[300:400], y[300:400]) > 0.9)
    True
    """

    def __init__(self, estimator: Any, n_neighbors: int = 5) -> None:
        self.estimator = estimator
        self.n_neighbors = n_neighbors

    def fit(self, X: Any, y: Any = None) -> KNeighborsGraph:
        """Fit a clone of the estimator.

        Parameters
        ----------
        X : array
            As for the estimator.
        y : ignored

        Returns
        -------
        self
        """
        self.estimator_ = clone(self.estimator)
        # Landmarks are few: their estimator keeps all objects only when it has placed them.
        self.estimator_.fit_transform(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit, and return the graph of the fitted objects, each its own nearest at distance zero.

        Parameters
        ----------
        X : array
        y : ignored

        Returns
        -------
        scipy.sparse.csr_matrix of shape (n, n)
        """
        distances, indices = (
            to_numpy(part) for part in self.fit(X).estimator_.kneighbors(None, self.n_neighbors)
        )
        n, k = indices.shape
        values = np.hstack([np.zeros((n, 1)), distances])
        columns = np.hstack([np.arange(n)[:, None], indices])
        starts = np.arange(0, n * (k + 1) + 1, k + 1)
        return csr_matrix((values.ravel(), columns.ravel(), starts), shape=(n, n))

    def transform(self, X: Any) -> Any:
        """Graph from new objects to the fitted ones.

        Parameters
        ----------
        X : array

        Returns
        -------
        scipy.sparse.csr_matrix of shape (m, n)
        """
        check_is_fitted(self)
        return self.estimator_.kneighbors_graph(X, self.n_neighbors, mode="distance")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.estimator.__sklearn_tags__().input_tags.pairwise
        return tags


def _elsewhere(X: Any) -> bool:
    """Tell whether an array belongs to another library than NumPy or dask."""
    return is_array(X) and not is_numpy(X) and not is_dask(X)


def _taken(X: Any, rows: Any, columns: Any = slice(None)) -> Any:
    """Rows and columns of X, in memory."""
    if is_dask(X):
        return np.asarray(X[rows][:, columns].compute())
    if _elsewhere(X):
        xp = namespace(X)
        for axis, some in enumerate((rows, columns)):
            if not isinstance(some, slice):
                X = xp.take(X, asarray_like(some, X, dtype=xp.int64), axis=axis)
        return X
    if isinstance(rows, slice):
        return X[:, columns]
    return X[rows] if isinstance(columns, slice) else X[np.ix_(rows, columns)]


def _wide(X: Array) -> Array:
    """X in double precision."""
    xp = namespace(X)
    return xp.astype(X, xp.float64, copy=False)


def summary(embedding: Embedding) -> str:
    """One line on what was found."""
    positive, negative = embedding.signature
    return (
        f"{embedding.n} objects, {positive} positive and {negative} negative coordinates, "
        f"STRESS {embedding.stress:.4g} ({embedding.normalized_stress:.2%} of ‖D‖²)"
    )
