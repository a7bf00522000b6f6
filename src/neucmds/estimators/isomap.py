"""`NeucIsomap`: embed the lengths of shortest paths in a graph of neighbours."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import check_is_fitted

from neucmds.backend.arrays import BLOCK_ELEMENTS, Array, row_blocks
from neucmds.dense_fit import warn_of_surprises
from neucmds.errors import InputError, NeucmdsWarning, option
from neucmds.estimators.transformer import SignedTransformer
from neucmds.fit import embed
from neucmds.options import SHORTEST_PATH
from neucmds.problem.graph import (
    as_graph,
    joined_paths,
    neighbor_graph,
    shortest_path_rows,
)
from neucmds.problem.metrics import Metric
from neucmds.problem.names import row_names
from neucmds.problem.validation import check_count

# Path lengths held at once while new objects are placed: 256 MB.
PATHS_AT_ONCE = 16 * BLOCK_ELEMENTS


@dataclass(eq=False, repr=False)
class NeucIsomap(SignedTransformer):
    """Isomap with its last step replaced: path lengths are embedded by coordinates with signs.

    Lengths of shortest paths in a graph of neighbours stand for distances along the data. They are
    not Euclidean where the data bend or have holes. Classical MDS, Isomap's last step, drops the
    negative eigenvalues; here they are kept. Paper: related work.

    Parameters
    ----------
    n_components : int, (int, int), float or "auto", default=2
        As for `NeucMDS`.
    n_neighbors : int, default=5
        Neighbours that each object is joined to. Parts of the graph are joined at their closest
        pairs, with a warning. Ties for the last neighbour depend on the number of threads.
    method, loss, floor, curvature, heights, tol, max_iter, n_init, init, callback, verbose
        As for `NeucMDS`.
    metric : str or callable, default="euclidean"
        Of `sklearn.neighbors.NearestNeighbors`; "precomputed": X holds dissimilarities.
    metric_params : dict, optional
        Further arguments of the metric.
    random_state : int, RandomState, Generator or None, default=0
        As for `neuc_mds`.
    n_jobs : int, optional
        Threads that search for neighbours.

    Attributes
    ----------
    embedding_ : array of shape (n, k)
    signs_ : array of shape (k,)
        The sign of each coordinate: ±1.0, or 0 for a height.
    signature_ : (int, int)
        Numbers of positive and of negative coordinates (p, q).
    eigenvalues_, weights_ : array
    result_ : Embedding
    graph_ : sparse array of shape (n, n)
        Lengths of the edges.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only when X has string column names.

    See Also
    --------
    NeucMDS : With ``metric="shortest_path"``, for a graph of your own.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from neucmds import NeucIsomap
    >>> X = load_digits().data[:200]
    >>> NeucIsomap(n_components=5, n_neighbors=8).fit_transform(X).shape
    (200, 5)
    """

    n_neighbors: int = 5
    _: KW_ONLY
    metric: Any = "euclidean"
    max_iter: int | None = None

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
        with self._fitting() as callback:
            names = row_names(X)
            # A copy: X is the user's, who may write to it.
            X = self._validated(X, reset=True).copy()
            self._neighbors, self.graph_ = self._graph_of(X)
            options = self._options(
                metric=SHORTEST_PATH, metric_params=None, callback=callback
            )
            self.result_ = embed(self.graph_, options, names)
        warn_of_surprises(self.result_)
        return self

    def _graph_of(self, X: Any) -> tuple[NearestNeighbors, Any]:
        """Return the search for neighbours, fitted to X, and the graph of them."""
        if callable(self.metric):
            metric = Metric.of(self.metric, self.metric_params)
            metric = metric.fitted_to(X, squared=True)
            metric.refuse_function("average it over both")
        check_count(n_neighbors=self.n_neighbors)
        if len(X) <= self.n_neighbors:
            raise InputError(
                f"{option('n_neighbors', self.n_neighbors)} needs at least {self.n_neighbors + 1} "
                f"objects, and X has {len(X)}; lower it."
            )
        neighbors = NearestNeighbors(
            n_neighbors=self.n_neighbors,
            metric=self.metric,
            metric_params=self.metric_params,
            n_jobs=self.n_jobs,
        ).fit(X)
        edges, n_parts = neighbor_graph(neighbors, X)
        if n_parts > 1:
            warnings.warn(
                f"the graph of {self.n_neighbors} neighbours has {n_parts} parts, joined here at "
                f"their closest pairs; raise {option('n_neighbors')} if they belong together.",
                NeucmdsWarning,
                stacklevel=3,
            )
        return neighbors, as_graph(edges)

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
        return np.concatenate(
            [self.result_.transform(rows) for rows in self._paths(X)]
        )

    def _sq_dissimilarities(self, X: Any) -> Any:
        return np.concatenate(list(self._paths(X))) ** 2

    def _paths(self, X: Any) -> Iterator[Any]:
        """Yield lengths of paths from new objects to all fitted ones, some objects at a time."""
        new = self._validated(X, reset=False)
        edges = self._neighbors.kneighbors_graph(new, mode="distance")
        # Of a new object: from each of its neighbours to every fitted object.
        n_paths = self._neighbors.n_neighbors * self.graph_.shape[0]
        paths_from = partial(shortest_path_rows, self.graph_)
        for block in row_blocks(edges.shape[0], n_paths, PATHS_AT_ONCE):
            yield joined_paths(edges[block], paths_from)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64"]
        return tags
