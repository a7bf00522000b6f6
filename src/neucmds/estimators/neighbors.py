"""`KNeighborsGraph`: the nearest neighbours of a fit as a step of a pipeline."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from neucmds.errors import InputError


class KNeighborsGraph(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn objects into the graph of their nearest neighbours, with distances.

    Those of an embedding are the nearest by D̂, at fitted distances. Those of a `MetricIndex` are at
    the distances of its function: of new objects found by calls, of fitted ones those that are
    known, with the recall that its `summary_` says.

    Put this before `KNeighborsClassifier`, `DBSCAN` or `TSNE` with ``metric="precomputed"``: from
    the coordinates alone they would ignore the signs.

    Parameters
    ----------
    estimator : NeucMDS, LandmarkNeucMDS, NeucIsomap or MetricIndex
    n_neighbors : int, default=5
        As many as the next step needs. Rows of `transform` have so many entries; those of
        `fit_transform` one more, the object itself, as scikit-learn's `KNeighborsTransformer` has.

    Attributes
    ----------
    estimator_ : NeucMDS, LandmarkNeucMDS, NeucIsomap or MetricIndex
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
        self.estimator_ = clone(self.estimator).fit(X)
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
        # None stands for the fitted objects, each without itself.
        graph = self.fit(X).transform(None)
        # A MetricIndex has no embedding, and no departures.
        embedding = getattr(self.estimator_, "result_", None)
        if embedding is not None and embedding.arrival_labels is not None:
            raise InputError(
                "rows and columns of D are different objects, so that no object is its own "
                "nearest; use kneighbors_graph of the estimator."
            )
        n = graph.shape[0]
        # Each object is inserted as the first entry of its row.
        before_each_row = graph.indptr[:-1]
        distances = np.insert(graph.data, before_each_row, 0.0)
        columns = np.insert(graph.indices, before_each_row, np.arange(n))
        starts = graph.indptr + np.arange(n + 1)
        return csr_matrix((distances, columns, starts), (n, n))

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
        return self.estimator_.kneighbors_graph(
            X, self.n_neighbors, mode="distance"
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = (
            self.estimator.__sklearn_tags__().input_tags.pairwise
        )
        return tags
