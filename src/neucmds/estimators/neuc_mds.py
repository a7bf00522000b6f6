"""`NeucMDS`: fit all pairs of a D, its listed pairs, or pairs sampled from features and graphs."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from os import PathLike
from typing import Any, Literal

from sklearn.utils.validation import check_is_fitted

from neucmds.backend.arrays import (
    Array,
    is_array,
    is_dask,
    is_numpy,
    namespace,
    to_floats,
    to_numpy,
)
from neucmds.dense_fit import warn_of_surprises
from neucmds.errors import InputError
from neucmds.estimators.transformer import SignedTransformer
from neucmds.fit import embed
from neucmds.options import Ties
from neucmds.problem.containers import (
    as_objects,
    refuse_networkx,
    refuse_tensor,
)
from neucmds.problem.graph import (
    joined_paths,
    named_graph,
    refuse_edge_rows,
    shortest_path_rows,
)
from neucmds.problem.metrics import Metric
from neucmds.problem.names import (
    is_frame,
    names_in,
    ordered_by_name,
    pairs_ordered_as,
    row_names,
    rows_ordered_as,
)
from neucmds.spectrum.operators.choose import lazy_if_large
from neucmds.spectrum.operators.gram import Gram


@dataclass(eq=False, repr=False)
class NeucMDS(SignedTransformer):
    """Multidimensional scaling that keeps negative eigenvalues, as coordinates with a sign.

    Parameters
    ----------
    n_components, method, loss, ties, floor, curvature, heights
        As for `neuc_mds`. New objects are placed by the same `loss`.
    metric : str or callable, default="precomputed"
        As for `neuc_mds`: "precomputed", "shortest_path", a metric of features or a function.
        Objects of a list are not copied: do not change them while new ones are placed.
        `transform` takes dissimilarities (m, n) of new objects to the fitted ones; lengths of
        paths (m, n), or of edges to fitted nodes as a sparse array (m, n); or features or objects.
    metric_params : dict, optional
        Further arguments of the metric, as for `neuc_mds`.
    squared, symmetrize, directed, missing, random_state, tol, max_iter, n_init, init, n_pairs
        As for `neuc_mds`. With `directed`, `transform` takes dissimilarities to the fitted objects
        and returns where new ones depart from; `Embedding.transform` of `result_` places arrivals.
    callback
        As for `neuc_mds`.
    n_jobs : int, optional
        Processes that call a function which is the metric, by joblib; None: one, or as many as
        `joblib.parallel_config` says.
    verbose : int, default=0
        Show calls of the metric and iterations of "refined" on standard error, and print a summary
        in one line.

    Attributes
    ----------
    embedding_ : array of shape (n, k)
        Coordinates, in the order of |weight|, largest first.
    signs_ : array of shape (k,)
        The sign of each coordinate: ±1.0, or 0 for a height.
    signature_ : (int, int)
        Numbers of positive and of negative coordinates (p, q).
    eigenvalues_ : array
        Kept eigenvalues of B.
    weights_ : array of shape (k,)
        Signed squared length of each coordinate.
    stress_ : float
        ‖D̂ − D‖²_F on the squared scale.
    result_ : Embedding
        All of the fit: what else can be asked of it, and how it was found.
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

    _: KW_ONLY
    squared: bool = False
    symmetrize: bool = False
    directed: bool = False
    missing: Literal["error", "ignore"] = "error"
    max_iter: int | None = None
    ties: Ties = "primary"
    n_pairs: int | None = None

    def fit(self, X: Any, y: Any = None, *, weights: Any = None) -> NeucMDS:
        """Find coordinates and signature.

        Parameters
        ----------
        X : array of shape (n, n) or (n, n_features), sparse array, or list
            Dissimilarities, of a sparse array the observed ones; or features when `metric` is not
            "precomputed"; or objects of any kind when `metric` is a function of two of them.
        y : ignored
        weights : array or DataFrame of shape (n, n), optional
            How much each pair counts; zero: not at all. "refined" only. Names are matched with
            those of the objects, if X is a DataFrame, too.

        Returns
        -------
        self
        """
        with self._fitting() as callback:
            if not self.directed:
                weights = pairs_ordered_as(
                    weights, X, "weights", square=self._precomputed
                )
            labels = None
            self._graph = None
            if self._of_graph:
                data, labels = named_graph(
                    X, None, self.metric_params, self.directed
                )
                self._graph = data
                self.n_features_in_ = data.shape[0]
            else:
                data = self._checked(X)
            self._fitted_metric = self._metric_fitted_to(data)
            if self._has_names(X) or isinstance(data, list):
                # The names of a table, or of a Series of objects, are read from X itself.
                data = X
            elif not self._of_graph and not self._precomputed:
                labels = row_names(X)
            options = self._options(
                metric=self._bound_metric(),
                metric_params=None,
                weights=weights,
                callback=callback,
            )
            self.result_ = embed(data, options, labels)
        warn_of_surprises(self.result_)
        return self

    def _metric_fitted_to(self, data: Any) -> Metric | None:
        """Return the metric fitted to features or objects; None for dissimilarities or a graph."""
        metric = self._bound_metric()
        if not isinstance(metric, Metric):
            return None
        if isinstance(data, list):
            features, metric = metric.numbered(data)
        elif is_dask(data):
            features = to_numpy(data)
        else:
            # A copy: X is the user's, who may write to it.
            features = namespace(data).asarray(data, copy=True)
        return metric.fitted_to(features, self.squared)

    def transform(self, X: Any, *, weights: Any = None) -> Array:
        """Place new objects.

        Each is placed where its own loss is least, while the fitted objects stay. A fitted object
        returns to its place in `embedding_` as closely as the fit had converged: with the default
        `tol` within some hundredths of the spread of the objects, a single one within a quarter;
        with ``tol=1e-6``, at two to four times the iterations, within 0.01.

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
        weights = rows_ordered_as(weights, X, "rows of weights")
        if self._fitted_metric is None and self.result_.labels is None:
            names = getattr(self, "_columns", None)
            weights = ordered_by_name(weights, names, "columns of weights")
        return self.result_.transform(self._to_fitted(X), weights=weights)

    @property
    def stress_(self) -> float:
        """‖D̂ − D‖²_F on the squared scale."""
        return float(self.result_.stress)

    def _sq_dissimilarities(self, X: Any) -> Any:
        """Squared dissimilarities of new objects to the fitted ones, as NumPy float64."""
        rows = to_floats(self._to_fitted(X))
        # Not `self.squared`, which has no effect on a graph.
        if self.result_.squared:
            return rows
        return rows**2

    def _checked(self, X: Any, reset: bool = True) -> Any:
        """Return X as `embed` takes it or, without `reset`, rows of new objects.

        Objects of any kind are a list; edges of new nodes become lengths of paths (m, n).
        """
        refuse_networkx(X, "X")
        if callable(self._metric):
            objects = as_objects(X)
            if objects is not None:
                return objects
        if is_array(X) and not is_numpy(X):
            # Values are checked by the fit: scikit-learn would move them to NumPy for that.
            refuse_tensor(X, "X")
            return self._validated(X, reset)
        is_skbio = hasattr(X, "ids") and hasattr(X, "data")
        if is_skbio:
            X = X.data
        if hasattr(X, "tocoo"):
            if self._of_graph and X.shape[1] == self.n_features_in_:
                return joined_paths(
                    X, partial(shortest_path_rows, self._graph)
                )
            if self._of_graph:
                raise InputError(
                    f"X has edges to {X.shape[1]} nodes, but the graph has {self.n_features_in_}; "
                    f"pass a sparse array (m, {self.n_features_in_})."
                )
            if self._precomputed and not reset:
                raise InputError(
                    "X is a sparse array; pass all dissimilarities to the fitted objects as an "
                    "array (m, n), or NaN where they are unknown."
                )
            if not self._precomputed:
                raise InputError(
                    "X is a sparse array: known pairs of a D to be fitted, or a graph with "
                    "metric='shortest_path'; pass X.toarray() for rows of numbers."
                )
            self.n_features_in_ = X.shape[-1]
            return X
        if reset and self._precomputed:
            X = lazy_if_large(X)
            # These are checked while they are read.
            if is_dask(X) or isinstance(X, (str, PathLike, Gram)):
                return X
        missing = self.missing if reset else self.result_.missing
        rows = self._validated(X, reset, missing == "ignore")
        if self._of_graph:
            refuse_edge_rows(rows, self._graph)
        return rows

    def _has_names(self, X: Any) -> bool:
        """Tell whether X is a table or DistanceMatrix of dissimilarities that names the objects."""
        if not self._precomputed or hasattr(X, "ids"):
            return self._precomputed
        return is_frame(X) and names_in(X.index) is not None

    def _to_fitted(self, X: Any) -> Any:
        """Return dissimilarities (m, n) of new objects to the fitted ones, on the scale of X."""
        metric = self._fitted_metric
        rows = self._checked(X, reset=False)
        if metric is None:
            return rows
        if is_dask(rows):
            rows = to_numpy(rows)
        if isinstance(rows, list):
            metric, rows = metric.taking(rows)
        with self._calls_watched():
            return metric.between(rows)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = (
            tags.input_tags.pairwise and self.method == "refined"
        )
        return tags
